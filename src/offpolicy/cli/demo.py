"""`offpolicy demo`: an ad log whose truth is known, evaluated every way the library has.

200,000 impressions of 55 designs in 28 batches. The log comes from a bandit that ignores the context and
whose shares change from batch to batch; two candidates look at the context. Because the world is simulated,
the table can print what each candidate really earns beside every estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.cli.demo_world import Spread, TopDesigns, World, blurred, contexts, simulate
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.logs.bandit import BanditLog
from offpolicy.models.rewards.boosted import BoostedReward

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.evaluation.result import Evaluation

ESTIMATORS = (
    "DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "SNDR", "SWITCH", "DRos", "MRDR",
    "MinVar", "auto",
)  # fmt: skip


@dataclass(frozen=True)
class Args:
    """Settings of the demo."""

    impressions: int = 200_000  # rows of the log
    designs: int = 55  # actions
    batches: int = 28  # the logging policy is constant inside one
    seed: int = 0  # of the world and of the evaluation


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo shows: two evaluations of the same log, and the truth."""

    known: Evaluation
    unknown: Evaluation
    truth: dict[str, float]
    logged_truth: float


def run(args: Args, progress: Callable[[str], None] = lambda _: None) -> Demo:
    """Simulate, evaluate with and without propensities, and compute the truth."""
    rng = np.random.default_rng(args.seed)
    world = World.draw(args.designs, rng)
    progress(f"simulating {args.impressions:,} impressions of {args.designs} designs")
    shown = simulate(world, args.impressions, args.batches, rng)
    frame = shown.frame()
    names: dict[str, Any] = {
        "context": ["device", "region", "age", "interest"],
        "action": "design",
        "reward": "click",
        "batch": "hour",
    }
    guess = blurred(world, rng)
    best, three = TopDesigns(guess, 1), TopDesigns(guess, 3)
    policies = {"best design": best, "best three": Spread(three)}
    settings: dict[str, Any] = {
        "estimators": list(ESTIMATORS),
        "reward_model": BoostedReward(rounds=60, grid=({"num_leaves": 15},), validation=0),
        "seed": args.seed,
    }
    progress("evaluating with the logged propensities")
    known = evaluate(BanditLog.from_frame(frame, propensity="p", **names), policies, **settings)
    progress("evaluating with estimated propensities")
    unknown = evaluate(BanditLog.from_frame(frame, **names), policies, behavior_model="shares", **settings)
    progress("computing the truth")
    fresh = contexts(400_000, np.random.default_rng([args.seed, 1]))
    ranked = three.best(fresh)
    truth = {
        "best design": float(world.click_rate(fresh, ranked[:, 0]).mean()),
        "best three": float(np.mean([world.click_rate(fresh, ranked[:, j]) for j in range(3)])),
    }
    weight = shown.shares[shown.batch].mean(axis=0)
    logged_truth = float(
        sum(weight[a] * world.click_rate(fresh, np.full(400_000, a)).mean() for a in range(args.designs))
    )
    return Demo(known, unknown, truth, logged_truth)


def rows(demo: Demo) -> list[tuple[str, ...]]:
    """The comparison as text: value ± standard error, and the error counted in standard errors."""
    out: list[tuple[str, ...]] = []
    logged = demo.known.logged
    out.append(("logging policy", "mean", f"{demo.logged_truth:.4f}", *_cell(logged, demo.logged_truth), "", ""))
    out += [
        (
            policy,
            name,
            f"{truth:.4f}",
            *_cell(demo.known[policy, name], truth),
            *_cell(demo.unknown[policy, name], truth),
        )
        for policy, truth in demo.truth.items()
        for name in ESTIMATORS
    ]
    return out


HEADINGS = ("policy", "estimator", "truth", "π_b known", "off by", "π_b estimated", "off by ")


def _cell(estimate: Any, truth: float) -> tuple[str, str]:
    z = (estimate.value - truth) / estimate.std_error
    return f"{estimate.value:.4f} ± {estimate.std_error:.4f}", f"{z:+.1f} s.e."
