"""Reading CSV files, against ``pyarrow.csv`` in the same run: a long file, a wide one, and how cost grows.

python benchmarks/csv_files.py
python benchmarks/csv_files.py --rows 100000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np


def write(path: Path, rows: int, columns: int) -> None:
    """Numbers, and every fifth column text."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(0)
    data = {}
    for j in range(columns):
        text = np.char.add("level ", rng.integers(0, 30, rows).astype(str))
        data[f"x{j}"] = text if j % 5 == 4 else rng.normal(size=rows).round(5)
    pa.csv.write_csv(pa.table(data), path)


def seconds(call) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the long file")
    options = parser.parse_args()
    import pyarrow.csv

    from offpolicy.engines.csv import read_csv

    shapes = [(options.rows // 10, 10), (options.rows // 2, 10), (options.rows, 10), (300, 500), (300, 5_000)]
    with tempfile.TemporaryDirectory() as folder:
        for rows, columns in shapes:
            path = Path(folder) / f"{rows}x{columns}.csv"
            write(path, rows, columns)
            if rows == shapes[0][0]:
                read_csv(str(path))  # imports
            theirs = seconds(lambda path=path: pyarrow.csv.read_csv(path).to_pandas())
            ours = seconds(lambda path=path: read_csv(str(path)))
            print(
                f"{rows:>10,} rows x {columns:>5,}: {ours:6.2f} CPU-s, pyarrow.csv {theirs:6.2f}, "
                f"{ours / theirs:.1f} x",
                flush=True,
            )


if __name__ == "__main__":
    main()
