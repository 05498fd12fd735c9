"""CPU seconds of `learn_policy` on a million rows of 20 columns, beside one plain LightGBM fit of the same rows.

    python benchmarks/learn_policy.py                  # 1,000,000 rows, 3 actions, trees of depth 3
    python benchmarks/learn_policy.py --rows 100000 --depth 2

The plain fit has 100 trees of 31 leaves, LightGBM's own defaults, with the action as one more column. Each runs
in a process of its own, on one thread; the ratio is of their CPU seconds.
"""

import argparse
import os
import subprocess
import sys
import time

COLUMNS, ACTIONS = 20, 3


def made(rows: int):
    import numpy as np

    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(rows, COLUMNS)), rng.integers(ACTIONS, size=rows)
    best = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
    r = (rng.random(rows) < 0.2 + 0.2 * (a == best)).astype(float)
    return x, a, r, 0.4


def learn(rows: int, depth: int) -> str:
    import numpy as np

    import offpolicy as op

    x, a, r, best = made(rows)
    log = op.BanditLog.from_arrays(x, a, r, np.full(rows, 1 / ACTIONS))
    start = time.process_time()
    learned = op.learn_policy(log, max_depth=depth)
    took = time.process_time() - start
    i = learned.value.interval()
    return f"{took} honest value {learned.value.value:.4f} ({i.low:.4f} to {i.high:.4f}), best possible {best}"


def fit(rows: int) -> str:
    import lightgbm
    import numpy as np

    x, a, r, _ = made(rows)
    table = np.column_stack([x, a])
    start = time.process_time()
    lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(table, r, categorical_feature=[COLUMNS])
    return f"{time.process_time() - start} "


def in_child(what: str, options: argparse.Namespace) -> tuple[float, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sizes = ["--rows", str(options.rows), "--depth", str(options.depth)]
    command = [sys.executable, __file__, "--only", what, *sizes]
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    seconds, words = out.strip().partition(" ")[::2]
    return float(seconds), words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--only", choices=("learn", "fit"), help="do one of the two, here")
    options = parser.parse_args()
    if options.only:
        print(learn(options.rows, options.depth) if options.only == "learn" else fit(options.rows))
        return
    plain, _ = in_child("fit", options)
    learned, words = in_child("learn", options)
    print(f"plain LightGBM fit of {options.rows:,} rows: {plain:6.1f} CPU-s")
    print(f"learn_policy, depth {options.depth}:       {learned:6.1f} CPU-s, {learned / plain:.1f} times as long")
    print(words)


if __name__ == "__main__":
    main()
