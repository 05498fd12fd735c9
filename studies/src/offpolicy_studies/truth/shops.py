"""Worlds with 64 kinds of visitor, a table of scores, any reward law and any way of logging: all values are sums.

Column 0 of the context is a region (four of them); the rest are two numbers. The logging policy, the targets
and the scores are tables over kinds of visitor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import offpolicy as op
from offpolicy_studies.coverage.bandits import learners, softmax
from offpolicy_studies.sampling import sample
from offpolicy_studies.truth.laws import Coin, Law, Normal, Rating
from offpolicy_studies.truth.question import Question

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

KINDS, REGIONS = 64, 4
BOUNDED = (Normal, Coin, Rating)  # laws of which the worst that a hidden cause can do is known
ASKED_GAMMA = 2.0
Logging = Literal["uniform", "softmax", "greedy", "rare"]
Dependence = Literal["rows", "users", "sessions"]


@dataclass(frozen=True)
class Shop:
    """A contextual bandit.

    Attributes
    ----------
    law : Law
        How rewards are drawn.
    n, actions : int
        Rows (before any are dropped), and actions.
    logging : {"uniform", "softmax", "greedy", "rare"}
        Uniform; softmax of other preferences with 10% exploration; ε-greedy with ε = 0.3; or the target's
        action in 2% of the rows.
    model : {"good", "weak", "overfit"}
        Reward model, as in the coverage battery.
    propensities : {"logged", "shares", "classifier"}
        Known, or estimated.
    dependence : {"rows", "users", "sessions"}
        Independent rows; users whose action never changes and who share an effect on rewards; users with
        sessions in which the action does not change.
    clusters : int
        Number of users.
    kept : float
        Share of the rows without a reward that were kept, logged as ``keep_probability``.
    days : int
        Days with a season in the rewards, logged as batches; 0 for none.
    rivals : int
        Further policies; with ``equal`` all of them, and the logging policy, have one value.
    weighted : bool
        Whether rows have weights (which are noise here).
    hidden : float
        Factor between the odds of the target's action with and without an unlogged cause; 1 for none.
    """

    law: Law = field(default_factory=Normal)
    n: int = 2000
    actions: int = 4
    logging: Logging = "softmax"
    model: str = "good"
    propensities: Literal["logged", "shares", "classifier"] = "logged"
    dependence: Dependence = "rows"
    clusters: int = 200
    kept: float = 1.0
    days: int = 0
    rivals: int = 0
    equal: bool = False
    weighted: bool = False
    hidden: float = 1.0

    def ask(self, rng: np.random.Generator) -> Question:
        """Draw a log and say what is true."""
        town = self.town()
        at, user, session = self.visits(rng)
        cause = rng.random(self.n) < 0.5
        chance = self._chances(town, at, cause)
        # Rows of one session (or of a user who never changes) have one kind and one draw of the action.
        action = sample(chance, rng)[_first(session)]
        score = town.score[at, action] + self.effects(user, cause, rng)
        day = rng.integers(self.days, size=self.n) if self.days else None
        reward = self.law.draw(score, rng)
        if day is not None:
            # A season moves all rewards of a day alike and sums to 0 over the days.
            reward = reward + np.cos(2 * np.pi * day / self.days)
        rows = np.flatnonzero((reward != 0) | (rng.random(self.n) < self.kept))
        keep = None if self.kept == 1 else np.where(reward != 0, 1.0, self.kept)[rows]
        logged = self._marginal(town)[at, action]
        log = op.BanditLog.from_arrays(
            town.context[at[rows]],
            action[rows],
            reward[rows],
            logged[rows] if self.propensities == "logged" else None,
            cluster=None if user is None else user[rows],
            batch=None if day is None else day[rows],
            weight=rng.uniform(0.5, 1.5, len(rows)) if self.weighted else None,
            keep_probability=keep,
            actions=range(self.actions),
        )
        mean = self._means(town)
        truths = {name: float((t * mean).sum(axis=1).mean()) for name, t in town.targets.items()}
        return Question(
            log,
            {name: t[at[rows]] for name, t in town.targets.items()},
            truths,
            float((self._marginal(town) * mean).sum(axis=1).mean()),
            learners(self.model, self.propensities),
            self._segments(town, mean),
            partial(_spread, self),
            *self._hidden(town, truths["new"], rng),
        )

    def visits(self, rng: np.random.Generator) -> tuple[Ints, Ints | None, Ints]:
        """Kind of visitor, user (None for independent rows) and session of each row."""
        if self.dependence == "rows":
            return rng.integers(KINDS, size=self.n), None, np.arange(self.n)
        user = rng.integers(self.clusters, size=self.n)
        session = user if self.dependence == "users" else user * 4 + rng.integers(4, size=self.n)
        kind = rng.integers(KINDS, size=session.max() + 1)
        return kind[session], user, session

    def _chances(self, town: Town, at: Ints, cause: Any) -> Floats:
        chance = town.logging[at]
        if self.hidden == 1:
            return chance
        return _moved(chance, town.best[at], np.where(cause, self.hidden, 1 / self.hidden) ** 0.5)

    def _marginal(self, town: Town) -> Floats:
        """(kinds, K) π_b given what is logged: hidden causes averaged out."""
        if self.hidden == 1:
            return town.logging
        up = _moved(town.logging, town.best, np.full(KINDS, self.hidden**0.5))
        down = _moved(town.logging, town.best, np.full(KINDS, self.hidden**-0.5))
        return (up + down) / 2

    def _hidden(self, town: Town, truth: float, rng: np.random.Generator) -> tuple[float, float]:
        """Γ and a value that it allows: the true one with a hidden cause, else the highest or lowest there could be."""
        if self.hidden > 1:
            return self._gamma(town), truth
        plain = self.dependence == "rows" and not self.days
        if self.propensities == "logged" or not plain or not isinstance(self.law, BOUNDED):
            return 1.0, math.nan
        factor = ASKED_GAMMA if rng.random() < 0.5 else 1 / ASKED_GAMMA
        unseen = (1 - town.logging) * self.law.largest(town.score, factor)
        value = town.targets["new"] * (town.logging * self.law.mean(town.score) + unseen)
        return ASKED_GAMMA, float(value.sum(axis=1).mean())

    def _gamma(self, town: Town) -> float:
        """Largest factor between the odds of an action given the hidden cause and those given the context."""
        told = self._marginal(town)
        ratios = [
            (p / (1 - p)) / (told / (1 - told))
            for f in (self.hidden**0.5, self.hidden**-0.5)
            for p in (_moved(town.logging, town.best, np.full(KINDS, f)),)
        ]
        return float(max(max(r.max(), (1 / r).max()) for r in ratios))

    def effects(self, user: Ints | None, cause: Any, rng: np.random.Generator) -> Floats:
        """What users and hidden causes add to the score of each row."""
        effect = np.zeros(self.n)
        if user is not None:
            effect = 0.5 * rng.standard_normal(self.clusters)[user]
        return effect + (np.where(cause, 1.0, -1.0) if self.hidden > 1 else 0.0)

    def _means(self, town: Town) -> Floats:
        """(kinds, K) mean rewards of an action that is chosen without regard to hidden things."""
        if self.hidden > 1:
            return (self.law.mean(town.score + 1.0) + self.law.mean(town.score - 1.0)) / 2
        if self.dependence == "rows":
            return self.law.mean(town.score)
        points, weights = np.polynomial.hermite_e.hermegauss(41)
        total = sum(w * self.law.mean(town.score + 0.5 * p) for p, w in zip(points, weights, strict=True))
        return np.asarray(total / weights.sum())

    def _segments(self, town: Town, mean: Floats) -> dict[str, float]:
        value = (next(iter(town.targets.values())) * mean).sum(axis=1)
        region = town.context[:, 0]
        return {f"{r:g}": float(value[region == r].mean()) for r in np.unique(region)}

    def table(self, town: Town, policy: str | None) -> Floats:
        """(kinds, K) what a policy does, or the logging policy."""
        return self._marginal(town) if policy is None else town.targets[policy]

    def row_variance(self, policy: str | None) -> float:
        """Exact variance of the reward of one impression."""
        town = self.town()
        causes = (1.0, -1.0) if self.hidden > 1 else (0.0,)
        table = self.table(town, policy)

        def average(of: Any) -> float:
            made = [(table * of(town.score + c)).sum(axis=1).mean() for c in causes]
            return float(np.mean(made))

        if not np.isfinite(self.law.square(town.score)).all():
            return math.inf
        season = 0.5 if self.days else 0.0
        return average(self.law.square) - average(self.law.mean) ** 2 + season

    def town(self) -> Town:
        """Kinds of visitor."""
        return _town(self.actions, self.logging, self.rivals, equal=self.equal)


@dataclass(frozen=True, eq=False)
class Town:
    """Kinds of visitor: contexts, scores, what the logging policy and the targets do; all (kinds, …)."""

    context: Floats
    score: Floats
    logging: Floats
    targets: dict[str, Floats]
    best: Ints


@lru_cache(maxsize=64)
def _town(actions: int, logging: Logging, rivals: int, *, equal: bool) -> Town:
    rng = np.random.default_rng([29, actions, rivals])
    region = np.repeat(np.arange(REGIONS), KINDS // REGIONS).astype(np.float64)
    x = rng.standard_normal((KINDS, 2))
    score = 0.4 * rng.standard_normal(actions) + 0.4 * x @ rng.standard_normal((2, actions))
    score += 0.2 * (region - 1.5)[:, None]
    best = score.argmax(axis=1)
    preference = x @ rng.standard_normal((2, actions)) - 0.5 * score
    table = {
        "uniform": np.full((KINDS, actions), 1 / actions),
        "softmax": 0.9 * softmax(preference) + 0.1 / actions,
        "greedy": 0.7 * np.eye(actions)[preference.argmax(axis=1)] + 0.3 / actions,
        "rare": np.tile(np.r_[0.02, np.full(actions - 1, 0.98 / (actions - 1))], (KINDS, 1)),
    }[logging]
    chosen = np.zeros(KINDS, dtype=np.int64) if logging == "rare" else best
    targets = {"new": np.eye(actions)[chosen]}
    for i in range(rivals):
        targets[f"rival {i + 1}"] = softmax(2.0 * rng.standard_normal((KINDS, actions)))
    if equal:
        # With one score for all, every policy earns the same.
        targets["new"] = softmax(2.0 * rng.standard_normal((KINDS, actions)))
        score = np.zeros_like(score)
    context = np.column_stack([region, x])
    return Town(context, score, np.asarray(table), targets, chosen)


@lru_cache(maxsize=256)
def _spread(shop: Shop, policy: str | None) -> float:
    """Variance of the mean of an arm times its units; of users by drawing many of them."""
    if shop.dependence == "rows":
        return shop.row_variance(policy)
    users = 40_000
    many = replace(shop, n=shop.n * users // shop.clusters, clusters=users)
    rng, town = np.random.default_rng(3), shop.town()
    at, user, session = many.visits(rng)
    action = sample(shop.table(town, policy)[at], rng)[_first(session)]
    score = town.score[at, action] + many.effects(user, np.zeros(many.n), rng)
    reward = shop.law.draw(score, rng)
    assert user is not None
    total = np.bincount(user, weights=reward - reward.mean(), minlength=users)
    return float((total**2).mean() / (many.n / users) ** 2)


def _moved(chance: Floats, action: Ints, factor: Floats) -> Floats:
    """Probabilities after the odds of one action per row are multiplied by a factor."""
    rows = np.arange(len(chance))
    p = chance[rows, action]
    new = factor * p / (1 - p + factor * p)
    moved = chance * ((1 - new) / (1 - p))[:, None]
    moved[rows, action] = new
    return np.asarray(moved)


def _first(session: Ints) -> Ints:
    """For every row, the first row of its session."""
    _, first, place = np.unique(session, return_index=True, return_inverse=True)
    return np.asarray(first[place])
