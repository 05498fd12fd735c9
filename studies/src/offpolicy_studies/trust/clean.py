"""Logs in which nothing is wrong: one recipe, whose parts are varied one by one.

Visitors have four columns. The score of action a is s_a(x) = c_a + x'θ_a; the logging policy is a softmax of
other preferences mixed with uniform exploration, or learns from batch to batch; the target takes the action of
the best score with probability .8. Whatever the recipe, propensities are those that actions were drawn with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

import offpolicy as op
from offpolicy.models import LinearReward
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

Logging = Literal["uniform", "softmax", "greedy", "learning", "decaying", "partial"]
Rewards = Literal["binary", "normal", "rare", "success", "spend", "stars", "lognormal"]
NAMES = ("x0", "x1", "x2", "x3")


@dataclass(frozen=True, eq=False)
class Case:
    """A frame with the roles of its columns, the policy that is asked about, and settings of `evaluate`."""

    frame: pd.DataFrame
    roles: dict[str, Any]
    policy: Any
    settings: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, seed: int) -> op.Evaluation:
        """Evaluate the policy with a linear model and the default set of estimators."""
        log = op.BanditLog.from_frame(self.frame, **self.roles)
        settings = {"reward_model": LinearReward(), **self.settings}
        return op.evaluate(log, self.policy, seed=seed, **settings)


@dataclass(frozen=True)
class Visits:
    """A recipe for clean logs.

    Attributes
    ----------
    n, actions : int
        Rows and actions.
    logging : str
        "learning" is ε-greedy on the means so far, "decaying" with ε falling from batch to batch; "partial" never
        takes the last action where x0 > 0.
    rewards : str
        0/1 at about 40%, normal, 0/1 at 2%, 0/1 at 99%, purchases of 3% with gamma amounts, one to five stars,
        log-normal.
    columns : {"continuous", "coarse", "text", "heavy"}
        What contexts look like: normal; few levels; two columns of labels; Cauchy.
    dependence : {"rows", "users", "sessions", "visits"}
        Independent rows; users who keep their action; users whose sessions keep one; users with an effect on
        rewards only.
    batches : int
        Batches in time; 0 for none.
    season : float
        Size of a weekly season of rewards.
    propensity : {"logged", "distribution", "unknown", "eligible"}
    kept : float
        Share of the rows without a reward that were kept; 1 keeps all.
    weighted : bool
        Whether rows carry analysis weights.
    null : bool
        Whether actions do not matter.
    randomized : bool
        Whether `evaluate` is told that actions were drawn at random given the context.
    """

    n: int = 3000
    actions: int = 3
    logging: Logging = "softmax"
    rewards: Rewards = "binary"
    columns: Literal["continuous", "coarse", "text", "heavy"] = "continuous"
    dependence: Literal["rows", "users", "sessions", "visits"] = "rows"
    batches: int = 0
    season: float = 0.0
    propensity: Literal["logged", "distribution", "unknown", "eligible"] = "logged"
    kept: float = 1.0
    weighted: bool = False
    null: bool = False
    randomized: bool = True

    def draw(self, rng: np.random.Generator) -> Case:
        """Draw one log."""
        frame, x, group, first = self._visitors(rng)
        batch = np.arange(self.n) * self.batches // self.n if self.batches else None
        score = self._scores(x)
        day = 0.0 if batch is None else self.season * np.cos(2 * np.pi * batch / 7)
        effect = 0.0 if group is None else 0.7 * rng.standard_normal(group.max() + 1)[group]
        level = score + np.asarray(day + effect)[..., None]
        if self.logging in {"learning", "decaying"}:
            chance, action, reward = self._learned(level, batch, rng)
        else:
            chance = self._chances(x)
            action = sample(chance, rng)[first]
            reward = self._rewards(level[np.arange(self.n), action], rng)
        frame["a"] = np.array([f"arm {k:02d}" for k in range(self.actions)])[action]
        frame["r"] = reward
        roles: dict[str, Any] = {"context": [*NAMES], "action": "a", "reward": "r"}
        settings: dict[str, Any] = {}
        if self.propensity == "distribution":
            names = [f"p{k}" for k in range(self.actions)]
            frame[names] = chance
            roles["propensity"] = names
        elif self.propensity == "unknown":
            settings["randomized"] = self.randomized
        else:
            frame["p"] = chance[np.arange(self.n), action]
            roles["propensity"] = "p"
        if self.propensity == "eligible":
            able = [[f"arm {k:02d}" for k in np.flatnonzero(row > 0)] for row in chance]
            frame["able"] = pd.Series(able)
            roles["eligible"] = "able"
        if group is not None:
            frame["user"] = group
            roles["cluster"] = "user"
        if batch is not None:
            frame["day"] = batch
            roles["batch"] = "day"
        if self.weighted:
            frame["weight"] = rng.uniform(0.5, 1.5, self.n)
            roles["weight"] = "weight"
        if self.kept < 1:
            frame["keep"] = np.where(reward != 0, 1.0, self.kept)
            roles["keep_probability"] = "keep"
            frame = frame[rng.random(self.n) < frame["keep"]].reset_index(drop=True)
        return Case(frame, roles, Target(self), settings)

    def _visitors(self, rng: np.random.Generator) -> tuple[pd.DataFrame, Floats, Ints | None, Ints]:
        """Context columns, their numbers, user (or None), and for each row the one whose action it repeats."""
        row = np.arange(self.n)
        group = None
        first = visitor = row
        if self.dependence != "rows":
            group = rng.integers(self.n // 6, size=self.n)
            visit = group if self.dependence == "users" else 5 * group + rng.integers(5, size=self.n)
            _, at, place = np.unique(visit, return_index=True, return_inverse=True)
            visitor = at[place]
            first = row if self.dependence == "visits" else visitor
        x = rng.standard_normal((self.n, 4))[visitor]
        if self.columns == "coarse":
            x = np.column_stack([np.digitize(x[:, :2], [-1, 0, 1]), x[:, 2:] > 0]).astype(float)
        frame = pd.DataFrame(x, columns=NAMES)
        if self.columns == "text":
            for name in NAMES[2:]:
                frame[name] = np.array(list("abcdefgh"))[np.digitize(frame[name], np.arange(-1.5, 2, 0.5))]
        elif self.columns == "heavy":
            frame[list(NAMES)] = np.sinh(2.5 * x)
        return frame, x, group, first

    def _scores(self, x: Floats) -> Floats:
        if self.null:
            return np.zeros((self.n, self.actions))
        return np.asarray(_effects(self.actions)[0] + 0.5 * x @ _effects(self.actions)[1])

    def _chances(self, x: Floats) -> Floats:
        """(n, K) π_b."""
        k = self.actions
        if self.logging == "uniform":
            return np.full((self.n, k), 1 / k)
        preference = x @ _effects(k)[2]
        if self.logging == "greedy":
            return np.asarray(0.6 * np.eye(k)[preference.argmax(axis=1)] + 0.4 / k)
        soft = softmax(0.6 * preference)
        if self.logging == "partial":
            soft = 0.7 * soft + 0.3 / k
            soft[x[:, 0] > 0, -1] = 0.0
            return np.asarray(soft / soft.sum(axis=1, keepdims=True))
        return np.asarray(0.8 * soft + 0.2 / k)

    def _learned(self, level: Floats, batch: Any, rng: np.random.Generator) -> tuple[Floats, Ints, Floats]:
        """ε-greedy on the mean rewards so far; ε stays .2 or falls as 1/√t from 1 to about .1."""
        k = self.actions
        chance, action, reward = (np.empty((self.n, k)), np.empty(self.n, dtype=int), np.empty(self.n))
        total, count = np.zeros(k), np.full(k, 1e-9)
        for b in range(self.batches):
            rows = np.flatnonzero(batch == b)
            explored = 0.2 if self.logging == "learning" else max(0.1, (b + 1) ** -0.5)
            p = explored / k + (1 - explored) * np.eye(k)[int((total / count).argmax())]
            chance[rows] = p if b else 1 / k
            action[rows] = sample(chance[rows], rng)
            reward[rows] = self._rewards(level[rows, action[rows]], rng)
            total += np.bincount(action[rows], weights=reward[rows], minlength=k)
            count += np.bincount(action[rows], minlength=k)
        return chance, action, reward

    def _rewards(self, level: Floats, rng: np.random.Generator) -> Floats:
        n = len(level)
        if self.rewards == "normal":
            return level + rng.standard_normal(n)
        if self.rewards == "lognormal":
            return np.exp(0.5 * level + 0.5 * rng.standard_normal(n))
        if self.rewards == "stars":
            return np.clip(np.round(3 + level + rng.standard_normal(n)), 1, 5)
        shift = {"binary": -0.4, "rare": -3.9, "success": 4.6, "spend": -3.3}[self.rewards]
        hit = (rng.random(n) < 1 / (1 + np.exp(-level - shift))).astype(float)
        return hit * np.round(rng.gamma(2.0, 20.0, n), 2) if self.rewards == "spend" else hit


@dataclass(frozen=True)
class Target:
    """The policy that is asked about: mostly the action of the best score."""

    world: Visits

    def probabilities(self, context: Any) -> Floats:
        """(n, K) probabilities."""
        columns = [context[name] for name in NAMES[:2]]
        k = self.world.actions
        if self.world.logging in {"learning", "decaying"}:
            return np.tile(np.r_[0.1, 0.9, np.zeros(k - 2)], (len(columns[0]), 1))
        x = np.column_stack([np.asarray(c, dtype=float) for c in columns])
        if self.world.columns == "heavy":
            x = np.arcsinh(x) / 2.5
        best = (_effects(k)[0] + 0.5 * x @ _effects(k)[1][:2]).argmax(axis=1)
        if self.world.logging == "partial":
            best = np.minimum(best, k - 2)
            return np.asarray(np.eye(k)[best])
        return np.asarray(0.7 * np.eye(k)[best] + 0.3 / k)


@lru_cache(maxsize=8)
def _effects(actions: int) -> tuple[Floats, Floats, Floats]:
    """Levels and slopes of the scores, and slopes of the logging policy's preferences."""
    rng = np.random.default_rng([11, actions])
    return (
        0.4 * rng.standard_normal(actions),
        0.6 * rng.standard_normal((4, actions)),
        rng.standard_normal((4, actions)),
    )


def softmax(values: Floats) -> Floats:
    """Rows of probabilities in proportion to exp(values)."""
    e = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
