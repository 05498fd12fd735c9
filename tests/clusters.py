"""A Spark cluster of two executor processes on this machine, for whichever tests ask for one."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import offpolicy as op

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # logs are small: start quickly rather than run quickly
PACKAGE = str(Path(op.__file__).parent.parent)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.files.openCostInBytes": str(1 << 30),
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    "spark.executorEnv.PYTHONPATH": PACKAGE,
}


def spark_session(module, partitions=2):
    """The session that runs already, where one does; executors cannot import ``module``, so it travels by value."""
    pyspark = pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    pyspark.cloudpickle.register_pickle_by_value(sys.modules[module])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(partitions)}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
