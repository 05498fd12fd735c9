"""Episodes of unequal length from plain arrays, and a policy's view of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from offpolicy.inference.score_table import Units
from offpolicy.logs.kinds import kind_called, space_of
from offpolicy.logs.layout import Layout
from offpolicy.scores.decisions import Decisions
from offpolicy.trust.view import View

K, STATES = 4, 6


@dataclass
class Steps:
    """Episodes of one to four steps, with ratios, rewards and a value model; ``zero``: share of ratios that are 0."""

    seed: int
    n: int
    zero: float = 0.1
    reward: Any = None
    q: Any = None
    v: Any = None
    marginal: Any = None

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.lengths = [int(x) for x in rng.integers(1, 5, size=self.n)]
        rows = sum(self.lengths)
        self.pi_b = rng.choice([0.25, 0.5, 0.8], size=rows)
        self.pi_e = np.where(rng.random(rows) < self.zero, 0.0, rng.choice([0.3, 0.5, 0.6], size=rows))
        ends = np.cumsum(self.lengths)[:-1]
        self.ratio = [part.tolist() for part in np.split(self.pi_e / self.pi_b, ends)]
        self.state, self.action = rng.integers(STATES, size=rows), rng.integers(K, size=rows)
        drawn = {name: rng.normal(size=rows).round(3) for name in ("reward", "q", "v")}
        drawn["marginal"] = rng.lognormal(sigma=0.5, size=rows)
        for name, values in drawn.items():
            if getattr(self, name) is None:
                setattr(self, name, values)

    def decisions(self, **options: Any) -> Decisions:
        """What a score looks at."""
        return Decisions(
            Layout.ragged(self.lengths), self.reward, self.pi_e, self.pi_b, self.q, self.v,
            marginal=self.marginal, **options,
        )  # fmt: skip

    def log(self, **options: Any) -> Any:
        """What checks look at of the log."""
        context = SimpleNamespace(n_table=STATES, positions=lambda rows: self.state[rows])
        return SimpleNamespace(
            **{
                "context": context, "actions": range(K), "rows": len(self.state), "layout": Layout.ragged(self.lengths),
                "action": self.action, "reward": self.reward, "kind": "trajectories", "is_discrete": True,
                "unbounded": False, "horizon": max(self.lengths), "space": space_of(range(K)),
                "unit_kind": kind_called(options.get("kind", "trajectories")), **options,
            }
        )  # fmt: skip


def view_of_steps(
    s: Steps,
    *,
    q: bool = True,
    discrete: bool = True,
    known: bool = True,
    regressed: bool = False,
    discount: float = 1.0,
    **log: Any,
) -> View:
    """A policy's view of episodes; without q no value model was fitted."""
    d = s.decisions(discount=discount, regressed=regressed)
    own = s.log(is_discrete=discrete, **log)
    pi = np.full((STATES, K), 1 / K)
    target = SimpleNamespace(shown=None, shares_context=True, probabilities=lambda at: pi[at])
    problem = SimpleNamespace(
        ratio_log=own, log=own, weights_known=known, regresses_ratios=regressed, units=Units(s.n),
        decisions=lambda target, probe: d,
        folds=SimpleNamespace(labels=[np.arange(s.n) % 3], scored=lambda split, repeat: None),
    )  # fmt: skip
    return View(problem, target, "crossfit", "crossfit" if q else None)
