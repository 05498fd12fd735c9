"""The worlds of the truth battery: those of the coverage battery, and shops of many kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpolicy_studies.coverage.worlds import WORLDS as COVERAGE
from offpolicy_studies.truth.laws import Coin, LogNormal, Normal, Pareto, RareLoss, Rating, Same, Spend
from offpolicy_studies.truth.question import Question
from offpolicy_studies.truth.shops import Shop

if TYPE_CHECKING:
    import numpy as np

    from offpolicy_studies.coverage.draw import World
    from offpolicy_studies.truth.question import Asker


@dataclass(frozen=True)
class Single:
    """A world of the coverage battery, with its one policy."""

    world: World

    def ask(self, rng: np.random.Generator) -> Question:
        """Draw a log and say what is true."""
        d = self.world.draw(rng)
        return Question(d.log, {"new": d.policy}, {"new": d.truth}, d.logged, d.models)


CLICK = Coin(intercept=-4.6, slope=0.5)
SHOPS: dict[str, Asker] = {
    # Signs and scales.
    "costs around -5": Shop(Normal(shift=-5.0)),
    "baseline near 0": Shop(Normal(scale=1.0, shift=0.0), logging="uniform"),
    "rewards in millions": Shop(Normal(scale=1e6, shift=2e6)),
    "rewards in millionths": Shop(Normal(scale=1e-6, shift=2e-6)),
    "levels -1 and 0": Shop(Coin(-1.0, 0.0)),
    "levels 0 and 20": Shop(Coin(0.0, 20.0, intercept=-4.6, slope=0.5)),
    "levels 3 and 3.5": Shop(Coin(3.0, 3.5)),
    "99% success": Shop(Coin(intercept=4.6, slope=0.5)),
    "clicks of 0.1%": Shop(Coin(intercept=-7.0, slope=0.5), n=10_000),
    "one reward for all": Shop(Same(0.1)),
    "stars": Shop(Rating()),
    # Rare losses and heavy tails.
    "rare losses / uniform": Shop(RareLoss(), logging="uniform"),
    "rare losses / softmax": Shop(RareLoss()),
    "rare losses / rare arm": Shop(RareLoss(), logging="rare"),
    "Pareto 1.3": Shop(Pareto(1.3), logging="uniform"),
    "Pareto 1.5": Shop(Pareto(1.5), logging="uniform"),
    "Pareto 2 / softmax": Shop(Pareto(2.0)),
    "Pareto 2.5 / softmax": Shop(Pareto(2.5)),
    "log-normal spend / greedy logging": Shop(LogNormal(), logging="greedy"),
    "spend of 1%": Shop(Spend(0.01), n=5000, logging="uniform"),
    "spend of 3% / softmax": Shop(Spend(0.03)),
    "spend of 3% / rare arm": Shop(Spend(0.03), n=5000, logging="rare"),
    "spend of 3% / 400 rows": Shop(Spend(0.03), n=400, logging="uniform"),
    # Many arms, dependence, design.
    "50 arms / stars": Shop(Rating(), actions=50, logging="uniform", n=5000),
    "50 arms / clicks": Shop(CLICK, actions=50, logging="uniform", n=5000),
    "sticky users": Shop(dependence="users", n=2000, clusters=400),
    "sticky users / clicks of 38%": Shop(Coin(), dependence="users", n=2000, clusters=400),
    "sticky sessions": Shop(dependence="sessions", clusters=200),
    "25 users": Shop(dependence="sessions", clusters=25),
    "downsampled zeros": Shop(CLICK, n=20_000, kept=0.1),
    "downsampled zeros / spend": Shop(Spend(0.03), n=10_000, kept=0.2),
    "weekly season": Shop(days=7),
    "greedy logging / clicks": Shop(CLICK, n=5000, logging="greedy"),
    "weights": Shop(weighted=True),
    # Unknown propensities.
    "unknown / shares / spend": Shop(Spend(0.03), logging="rare", propensities="shares", n=5000),
    "unknown / classifier": Shop(propensities="classifier"),
    "unknown / both models wrong": Shop(propensities="classifier", model="weak", logging="greedy"),
    "unknown / clicks of 38%": Shop(Coin(), propensities="classifier"),
    "unknown / clicks": Shop(CLICK, propensities="classifier", n=5000),
    "unknown / stars": Shop(Rating(), propensities="classifier"),
    "unknown / uniform / clicks of 38%": Shop(Coin(), propensities="shares", logging="uniform"),
    "unknown / hidden cause": Shop(propensities="classifier", hidden=2.0),
    "unknown / hidden cause / clicks of 38%": Shop(Coin(), propensities="classifier", hidden=2.0),
    "unknown / hidden cause / stars": Shop(Rating(), propensities="classifier", hidden=4.0),
    # Several policies.
    "3 policies": Shop(Coin(), rivals=2),
    "10 policies / stars": Shop(Rating(), rivals=9),
    "10 equal policies / clicks / 2000 rows": Shop(CLICK, rivals=9, equal=True),
    "10 equal policies / clicks / 5000 rows": Shop(CLICK, rivals=9, equal=True, n=5000),
    "10 equal policies / clicks / 20000 rows": Shop(CLICK, rivals=9, equal=True, n=20_000),
    "10 equal policies / spend": Shop(Spend(0.03), rivals=9, equal=True),
    "10 equal policies / 25 users": Shop(dependence="sessions", clusters=25, rivals=9, equal=True, logging="uniform"),
    "50 equal policies / clicks": Shop(CLICK, rivals=49, equal=True, n=5000),
}
WORLDS: dict[str, Asker] = {**{name: Single(w) for name, w in COVERAGE.items()}, **SHOPS}
#: A cause of both action and reward that is not in the log: no estimate from it can be right, only its Γ bounds.
HIDDEN = tuple(name for name, w in SHOPS.items() if isinstance(w, Shop) and w.hidden > 1)
QUICK = ("stars", "rare losses / softmax", "3 policies", "sticky sessions", "uniform / binary")
