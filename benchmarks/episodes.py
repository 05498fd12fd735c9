"""CPU seconds of `evaluate` on episodes with the defaults, beside others on the same log.

python benchmarks/episodes.py [tabular] [continuous] [cartpole]

Tabular: 10,000 episodes of 50 steps with 50 states. Continuous: 1,000 episodes of the linear-Gaussian chain, 50 steps.
CartPole: 2,000 episodes of at most 500 steps from the physical state. The default set is seven estimators with their
intervals; the others give one number each: fitted Q in plain numpy and, where d3rlpy is installed, its fitted Q
evaluation (a network of two layers, 2,000 gradient steps of 256 transitions; its own examples take 10,000 and more).
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from typing import Any

import numpy as np

import offpolicy as op
from offpolicy_studies.episodes.baselines import fitted_q
from offpolicy_studies.episodes.cart import Cart
from offpolicy_studies.tabular.chain import Chain
from offpolicy_studies.tabular.mdp import random_mdp

STEPS, BATCH = 2_000, 256


def timed(call: Any) -> tuple[Any, float]:
    """What a call gives, and the CPU seconds it took."""
    start = time.process_time()
    made = call()
    return made, time.process_time() - start


def measured(name: str, log: op.Trajectories, target: Any) -> None:
    """Print what one evaluation costs, and what others do on the same log."""
    ev, seconds = timed(lambda: op.evaluate(log, target))
    verdict, judging = timed(ev.verdict)
    print(
        f"{name}: {log.n:,} episodes, {log.rows:,} steps: {seconds:.2f} CPU s, "
        f"verdict {judging:.2f} CPU s ({verdict.level})"
    )
    value, plain = timed(lambda: fitted_q(log, target))
    print(f"  fitted Q in plain numpy: {plain:.2f} CPU s ({value:.4g}; auto {ev['auto'].value:.4g})")
    if importlib.util.find_spec("d3rlpy") and not log.is_discrete:
        peer = timed(lambda: d3rlpy_fitted_q(log))[1]
        print(f"  d3rlpy's fitted Q, {STEPS:,} steps: {peer:.2f} CPU s, {peer / seconds:.1f} times as much")


def d3rlpy_fitted_q(log: op.Trajectories) -> None:
    """Fitted Q evaluation by d3rlpy, of a policy of its own."""
    import d3rlpy
    import structlog
    from d3rlpy.logging import NoopAdapterFactory
    from d3rlpy.ope import DiscreteFQE, FQEConfig

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    at = log.context.positions(np.arange(log.rows))
    over = np.zeros(log.rows)
    last = log.layout.offsets[1:] - 1
    over[last[log.ended]] = 1.0
    cut = np.zeros(log.rows)
    cut[last[~log.ended]] = 1.0
    data = d3rlpy.dataset.MDPDataset(
        np.asarray(log.context.table, dtype=np.float32).reshape(len(log.context.table), -1)[at],
        log.action.reshape(-1, 1),
        log.reward.astype(np.float32).reshape(-1, 1),
        over,
        cut,
    )
    agent = d3rlpy.algos.DQNConfig().create(device="cpu:0")
    agent.build_with_dataset(data)
    config = FQEConfig(batch_size=BATCH)
    judge = DiscreteFQE(algo=agent, config=config, device="cpu:0")
    judge.fit(
        data, n_steps=STEPS, n_steps_per_epoch=STEPS, show_progress=False,
        logger_adapter=NoopAdapterFactory(),
    )  # fmt: skip


def main(asked: list[str]) -> None:
    """Run those asked for, or all; what is imported on first use is imported before."""
    rng = np.random.default_rng(0)
    chain = Chain(horizon=5)
    op.evaluate(chain.simulate(100, rng), chain.target).verdict()
    world, pi_e, pi_b = random_mdp(5, 2, 5)
    op.evaluate(world.simulate(pi_b, 100, rng), lambda s: pi_e[s]).verdict()
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
