"""What the library's own diagnostics say about the CartPole data sets, and how weights inflate per step.

    python benchmarks/cartpole_verdicts.py --out DIR [--cells short-e0.050-k2 long-e0.050-k2]

DIR is the folder of a finished run of the study.
"""

import argparse
import collections
from pathlib import Path

import numpy as np

import offpolicy as op
from offpolicy_studies.cartpole import store
from offpolicy_studies.cartpole.estimates import BEHAVIORS, as_log, behavior


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/cartpole"))
    parser.add_argument("--cells", nargs="+", default=["short-e0.050-k2", "long-e0.050-k2"])
    parser.add_argument("--data-sets", type=int, default=20)
    parser.add_argument("--period", type=int, default=10)
    options = parser.parse_args()
    for cell in options.cells:
        epsilon = float(cell.split("-e")[1].split("-")[0])
        for kind in BEHAVIORS:
            levels, facts = collections.Counter(), []
            for r in range(options.data_sets):
                arrays = store.load_arrays(store.arrays_path(options.out, cell, r))
                level, fact = one(arrays, kind, epsilon, options.period)
                levels[level] += 1
                facts.append(fact)
            ratio, moved, still = np.mean(facts, 0)
            print(
                f"{cell} {kind}: {dict(levels)}; mean ratio per step {ratio:.2f}; agreement with the greedy "
                f"action {moved:.2f} where the noise has just moved, {still:.2f} elsewhere",
                flush=True,
            )


def one(arrays, kind, epsilon, period):
    greedy, actions = arrays["greedy"].astype(int), arrays["actions"].astype(int)
    lengths = arrays["lengths"].astype(int)
    rows = np.arange(len(greedy))
    p = behavior(arrays, kind, "cross", epsilon)
    ev = op.evaluate(
        as_log(arrays),
        np.eye(2)[greedy],
        estimators=["DML", "DM", "IPW"],
        value_model=arrays["q_cross"].astype(float),
        behavior_model=p,
        folds=arrays["folds"].astype(int),
    )
    time = rows - np.repeat(np.cumsum(lengths) - lengths, lengths)
    moved = (time % period == 0) & (time > 0)
    right = p.argmax(1) == greedy
    ratio = (actions == greedy) / p[rows, actions]
    return ev.verdict("policy").level, (ratio.mean(), right[moved].mean(), right[~moved].mean())


if __name__ == "__main__":
    main()
