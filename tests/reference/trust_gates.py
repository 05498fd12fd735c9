"""The parts of an evaluation that a gate looks at, from plain scores."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.score_table import Units
from offpolicy.scores.catalog import named

UNITS = Units(400)
NOISE = np.random.default_rng(0).normal(size=400)
NOISE = (NOISE - NOISE.mean()) / NOISE.std()


def scores(mean, spread=1.0, draws=1):
    """Scores with this mean and spread, and folds that move them a little."""
    psi = mean + spread * NOISE
    rows = psi if draws == 1 else np.stack([psi + 0.01 * d for d in range(draws)])
    return Estimate.from_scores(rows, units=UNITS, label=f"value {mean}")


class Ev:
    """The parts of an evaluation that a gate looks at."""

    def __init__(self, values, logged=1.0, *, estimator="DML", verdict="trust", known=True, redraw=True, **settings):
        self.estimates = values
        self.policies, self.targets = list(values), dict.fromkeys(values)
        self.logged = scores(logged, 0.5)
        self.estimators = [named(estimator)]
        self.metrics, self.metric_name, self.assumption = (("reward",), "reward", settings.pop("assumption", ""))
        self.problem = SimpleNamespace(weights_known=known, behavior_given=settings.pop("given", False))
        self.settings = {"repeats": 1, "seed": 0, **settings}
        self.draws_folds = redraw
        self.says, self.asked, self.again = verdict, [], None
        self.others = {}

    def __getitem__(self, key):
        return self.estimates[key[0]]

    def metric(self, name):
        return self.others[name]

    def verdict(self, name, estimator, *, level):
        self.asked.append((name, estimator, level))
        return SimpleNamespace(level=self.says, reasons=["Too few.", "More."])

    def redrawn(self, draws, estimator, *, seed):
        self.asked.append((draws, estimator, seed))
        return self.again

    def compare(self, level, estimator):
        self.asked.append(("compare", level, estimator))
        at = {name: i for i, name in enumerate(self.policies)}
        return SimpleNamespace(
            values={n: Interval(1.0 + at[n], 2.0 + at[n], level, "joint") for n in at},
            lifts={n: Interval(0.1 + at[n], 0.2 + at[n], level, "joint") for n in at},
            differences={n: Interval(-0.2 + at[n], -0.1 + at[n], level, "joint") for n in at},
        )


KNOWN = "This assumes the logged propensities are the ones actually used."
UNSEEN = "It assumes that the policy was not learned from these rows."
RESTS = f"{KNOWN} {UNSEEN}"
