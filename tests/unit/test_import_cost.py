"""Importing the package loads none of the heavy libraries."""

import subprocess
import sys

import pytest

HEAVY = ["pandas", "polars", "torch", "duckdb", "lightgbm", "matplotlib", "sklearn", "pyarrow"]
LISTED = "import sys; print(' '.join(m for m in {heavy} if m in sys.modules))"


def loaded_after(code):
    script = f"{code}\n{LISTED.format(heavy=HEAVY)}"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, capture_output=True, text=True)
    return run.stdout.split()


@pytest.mark.parametrize("code", ["import offpolicy", "import offpolicy as op; dir(op); op.__version__"])
def test_import_is_light(code):
    assert loaded_after(code) == []


def test_estimates_from_arrays_need_no_dataframe_library():
    code = """
import numpy as np, offpolicy as op
log = op.BanditLog.from_arrays(None, [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], [0.5] * 4)
ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW", "SNIPW", "DML"],
                 reward_model=np.zeros((4, 2)))
assert ev["IPW"].value == 2.0
"""
    assert loaded_after(code) == []


def test_the_check_can_fail():
    assert loaded_after("import pandas") != []


def test_every_public_name_can_be_had():
    code = "import offpolicy as op\nfor name in dir(op): getattr(op, name)"
    loaded_after(code)


def test_help_loads_nothing_that_computes():
    code = "import sys\n"
    code += "from offpolicy.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
    code += "print('LOADED', *(m for m in ('numpy', 'scipy', 'pandas') if m in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1].split() == ["LOADED"]
