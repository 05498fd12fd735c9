"""`offpolicy demo`: an ad log whose truth is known, evaluated every way the library has.

200,000 impressions of 55 designs in 28 batches. The log comes from a bandit that ignores the context and
whose shares change from batch to batch; two candidates look at the context. Because the world is simulated,
the table can print what each candidate really earns beside every estimate.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.cli import outputs, terminal
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.inference.figures import align
from offpolicy.logs.bandit import BanditLog
from offpolicy.models.rewards.boosted import BoostedReward

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from offpolicy._arrays import Array, Floats, Ints
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


def command(options: argparse.Namespace) -> int:
    """Evaluate a simulated log and print the truth beside every estimate."""
    outputs.check(options)
    result = run(Args(impressions=options.impressions, seed=options.seed), lambda text: terminal.complain(f"· {text}"))
    terminal.say(align(HEADINGS, rows(result)))
    terminal.say()
    terminal.say("DML is the paper's estimator: doubly robust scores, every model fitted out of fold.")
    terminal.say("auto is the recommended one: it uses the model only as far as that lowers the variance.")
    terminal.say("The standard error of the direct method (DM) ignores the error of its model:")
    terminal.say("DM can be far off and still look precise.")
    if options.report:
        result.known.report(options.report, title="Demo: a simulated ad log")
        terminal.say(f"The report is in {options.report}.")
    terminal.say("Next, try your own file: offpolicy init LOG")
    return 0


# -- the simulated ad platform: click rates, impressions, a bandit's log, two policies ---------------------------------

DEVICES = ("desktop", "phone", "tablet")
REGIONS = tuple(f"region {i:02d}" for i in range(12))


@dataclass(frozen=True, eq=False)
class World:
    """Click probabilities μ(s, a) that are linear in the logit, with context × design interactions."""

    quality: Floats  # (K,)
    by_device: Floats  # (3, K)
    by_region: Floats  # (12, K)
    by_age: Floats  # (K,)
    by_interest: Floats  # (K,)

    @classmethod
    def draw(cls, designs: int, rng: np.random.Generator) -> World:
        """A world at random."""
        return cls(
            -3.0 + 0.35 * rng.normal(size=designs),
            0.35 * rng.normal(size=(len(DEVICES), designs)),
            0.25 * rng.normal(size=(len(REGIONS), designs)),
            0.3 * rng.normal(size=designs),
            0.4 * rng.normal(size=designs),
        )

    def click_rate(self, x: dict[str, Array], codes: Ints) -> Floats:
        """μ of row i under design ``codes[i]``."""
        logit = (
            self.quality[codes]
            + self.by_device[x["device"], codes]
            + self.by_region[x["region"], codes]
            + self.by_age[codes] * (x["age"] - 40) / 15
            + self.by_interest[codes] * x["interest"]
        )
        return np.asarray(1 / (1 + np.exp(-logit)))


def contexts(n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Two discrete and two continuous columns."""
    return {
        "device": rng.choice(len(DEVICES), size=n, p=(0.3, 0.6, 0.1)),
        "region": rng.integers(len(REGIONS), size=n),
        "age": rng.uniform(18, 70, size=n),
        "interest": rng.normal(size=n),
    }


def frame_of(x: dict[str, Array]) -> Any:
    """Contexts as the table a data scientist has."""
    import pandas as pd

    return pd.DataFrame(
        {
            "device": pd.Categorical.from_codes(x["device"], categories=list(DEVICES)),
            "region": pd.Categorical.from_codes(x["region"], categories=list(REGIONS)),
            "age": x["age"],
            "interest": x["interest"],
        }
    )


def columns_of(frame: Any) -> dict[str, Array]:
    """The columns of such a table as arrays."""
    return {
        "device": frame["device"].cat.codes.to_numpy().astype(np.int64),
        "region": frame["region"].cat.codes.to_numpy().astype(np.int64),
        "age": frame["age"].to_numpy(),
        "interest": frame["interest"].to_numpy(),
    }


@dataclass(frozen=True, eq=False)
class TopDesigns:
    """Shows one of the ``k`` designs that a (wrong, but useful) model of clicks likes best."""

    model: World
    k: int

    def best(self, x: dict[str, Array]) -> Ints:
        """(n, k) codes, best first."""
        n, designs = len(x["age"]), len(self.model.quality)
        out = np.empty((n, self.k), dtype=np.int64)
        for start in range(0, n, 20_000):
            part = {name: v[start : start + 20_000] for name, v in x.items()}
            rows = len(part["age"])
            rates = np.stack([self.model.click_rate(part, np.full(rows, a)) for a in range(designs)], axis=1)
            out[start : start + rows] = np.argsort(-rates, axis=1, kind="stable")[:, : self.k]
        return out

    def choices(self, context: Any) -> Ints:
        """Codes of the single best design."""
        return self.best(columns_of(context))[:, 0]


@dataclass(frozen=True, eq=False)
class Spread:
    """Spreads its impressions evenly over the designs `TopDesigns` likes best."""

    top: TopDesigns

    def probabilities(self, context: Any) -> Floats:
        """(n, K), 1 / k on each of the k best."""
        best = self.top.best(columns_of(context))
        out = np.zeros((len(best), len(self.top.model.quality)))
        np.put_along_axis(out, best, 1 / self.top.k, axis=1)
        return out


@dataclass(frozen=True, eq=False)
class Impressions:
    """What was logged: who saw which design in which batch, and whether they clicked.

    ``shares`` (batches, K) are the probabilities of the designs, the same for everyone inside a batch.
    """

    x: dict[str, Array]
    batch: Ints
    shares: Floats
    design: Ints
    click: Floats

    def frame(self) -> Any:
        """The log as a table, with the probability of each logged design as ``p``."""
        frame = frame_of(self.x)
        frame["hour"] = self.batch
        frame["design"] = self.design
        frame["click"] = self.click
        frame["p"] = self.shares[self.batch, self.design]
        return frame


def simulate(world: World, n: int, batches: int, rng: np.random.Generator) -> Impressions:
    """Impressions of a bandit that ignores the context.

    Thompson-like: shares lean towards good designs more and more, and none disappears.
    """
    designs = len(world.quality)
    x = contexts(n, rng)
    batch = np.sort(rng.integers(batches, size=n))
    sharpness = np.linspace(0, 3, batches)[:, None]
    drift = 0.3 * rng.normal(size=(batches, designs))
    shares = np.exp(sharpness * (world.quality - world.quality.mean()) + drift)
    shares = 0.9 * shares / shares.sum(axis=1, keepdims=True) + 0.1 / designs
    cumulative = shares.cumsum(axis=1)
    design = np.minimum((rng.random(n)[:, None] > cumulative[batch]).sum(axis=1), designs - 1)
    click = (rng.random(n) < world.click_rate(x, design)).astype(np.float64)
    return Impressions(x, batch, shares, design, click)


def blurred(world: World, rng: np.random.Generator) -> World:
    """The world as somebody sees it who has learned it imperfectly."""
    return World(*(part + 0.25 * rng.normal(size=part.shape) for part in astuple(world)))
