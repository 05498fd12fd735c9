"""The study without the command line: PYTHONPATH=src python benchmarks/cartpole_table.py --out DIR

Needs only torch, numpy, scipy and scikit-learn. ``--stage arrays`` stops before the estimators.
"""

import argparse
from pathlib import Path

from offpolicy.experiments.cartpole import Args, reproduce
from offpolicy.experiments.cartpole.settings import EPSILONS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--trajectories", type=int, default=100)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", default="short")
    parser.add_argument("--stage", default="all")
    parser.add_argument("--out", type=Path, default=Path("out/cartpole"))
    options = vars(parser.parse_args())
    options["epsilons"] = tuple(options["epsilons"])
    results = reproduce(Args(**options))
    print(results.markdown)


if __name__ == "__main__":
    main()
