"""CPU seconds of `evaluate` on episodes with the defaults (python benchmarks/episodes.py).

Tabular: 10,000 episodes of 50 steps with 50 states. Continuous: 1,000 episodes of the linear-Gaussian chain, 50 steps.
CartPole: 2,000 episodes of at most 500 steps from the physical state.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import offpolicy as op
from offpolicy_studies.episodes.cart import Cart
from offpolicy_studies.tabular.chain import Chain
from offpolicy_studies.tabular.mdp import random_mdp


def measured(name: str, log: op.Trajectories, target: object) -> None:
    """Print what one evaluation costs."""
    start = time.process_time()
    ev = op.evaluate(log, target)
    seconds = time.process_time() - start
    verdict = time.process_time()
    level = ev.verdict().level
    print(
        f"{name}: {log.n:,} episodes, {log.rows:,} steps: {seconds:.2f} CPU s, "
        f"verdict {time.process_time() - verdict:.2f} CPU s ({level})"
    )


def main(asked: list[str]) -> None:
    """Run those asked for, or all."""
    rng = np.random.default_rng(0)
    if not asked or "tabular" in asked:
        world, pi_e, pi_b = random_mdp(50, 3, 50)
        measured("tabular", world.simulate(pi_b, 10_000, rng), lambda s: pi_e[s])
    if not asked or "continuous" in asked:
        chain = Chain(horizon=50)
        measured("continuous", chain.simulate(1_000, rng), chain.target)
    if not asked or "cartpole" in asked:
        cart = Cart(horizon=500)
        measured("CartPole", cart.simulate(2_000, rng, propensities=True), cart.target)


if __name__ == "__main__":
    main(sys.argv[1:])
