"""Worlds in which policies are learned: two with a known best tree, classification sets, and ad campaigns.

A world draws logs and says exactly what a policy earns: the mean over a fixed pool of contexts of the mean reward of
the action it takes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import offpolicy as op
from offpolicy_studies.ads.bandits import BetaPosterior
from offpolicy_studies.decide import sets as bandits
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

POOL = 20_000
#: After each of which Thompson sampling learns: a day.
BATCHES = 4
SIMULATED = ("steps", "crossing")
#: Campaigns of the simulated ad platform, the paper's three panels.
CAMPAIGNS = ("campaign 1", "campaign 2", "campaign 3")


@dataclass(frozen=True, eq=False)
class World:
    """A pool of contexts with the mean reward of every action.

    Attributes
    ----------
    context : DataFrame of m rows
    means : (m, K) array
    share : (m,) array
        Probability of each context.
    noise : float
        Standard deviation of normal rewards; 0 for rewards of 0 and 1.
    best : float or None
        Value of the best tree of depth two, where it is known.
    logging : (m, K) array or None
        None: beta Thompson sampling, which learns from batch to batch.
    prior : (float, float)
        Of Thompson sampling.
    """

    context: pd.DataFrame
    means: Floats
    share: Floats
    noise: float
    best: float | None
    logging: Floats | None
    prior: tuple[float, float] = (1.0, 1.0)

    @property
    def actions(self) -> list[str]:
        """Labels, in the order of ``means``."""
        return [f"a{j:02d}" for j in range(self.means.shape[1])]

    def value(self, choices: Ints) -> float:
        """What these choices earn."""
        return float(self.share @ self.means[np.arange(len(self.share)), choices])

    def log(self, n: int, rng: np.random.Generator) -> op.BanditLog:
        """Rows drawn with replacement, actions of the logging policy."""
        rows = rng.choice(len(self.share), size=n, p=self.share)
        if self.logging is None:
            action, reward, propensity, batch = self._by_thompson(rows, rng)
        else:
            p = self.logging[rows]
            action = sample(p, rng)
            reward = self._rewards(rows, action, rng)
            propensity, batch = p[np.arange(n), action], None
        table = self.context.iloc[rows].reset_index(drop=True)
        names = list(table.columns)
        table = table.assign(action=np.array(self.actions)[action], reward=reward, p=propensity, batch=batch)
        return op.BanditLog.from_frame(
            table,
            context=names,
            action="action",
            reward="reward",
            propensity="p",
            batch=None if batch is None else "batch",
            actions=self.actions,
        )

    def _rewards(self, rows: Ints, action: Ints, rng: np.random.Generator) -> Floats:
        mean = self.means[rows, action]
        if self.noise:
            return np.asarray(mean + self.noise * rng.normal(size=len(rows)))
        return (rng.random(len(rows)) < mean).astype(np.float64)

    def _by_thompson(self, rows: Ints, rng: np.random.Generator) -> tuple[Ints, Floats, Floats, Ints]:
        """Actions, rewards, propensities and batches of the multi-armed bandit of the ads study."""
        k = self.means.shape[1]
        posterior = BetaPosterior(np.zeros(k), np.zeros(k), self.prior, 1.0)
        parts: list[tuple[Ints, Floats, Floats, Ints]] = []
        for batch, part in enumerate(np.array_split(rows, BATCHES)):
            thompson = op.policies.BetaThompson(posterior.alpha, posterior.beta)
            share = thompson.bind(tuple(self.actions)).probabilities(np.zeros(1))[0]
            action = rng.choice(k, p=share / share.sum(), size=len(part))
            reward = self._rewards(part, action, rng)
            shown = np.bincount(action, minlength=k)
            clicks = np.bincount(action, weights=reward, minlength=k)
            posterior = posterior.updated(shown, clicks.astype(np.int64))
            parts.append((action, reward, share[action], np.full(len(part), batch)))
        action, reward, propensity, batches = map(np.concatenate, zip(*parts, strict=True))
        return action, reward, propensity, batches


@lru_cache(maxsize=4)
def simulated(name: str) -> World:
    """Two worlds of three actions whose best tree has depth two.

    ``steps``: phones want a01 when young, a00 when old, all else wants a02. ``crossing``: which of two actions is right
    depends on the signs of two numbers together, so that neither question alone helps.
    """
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, POOL).astype(float),
            "device": rng.choice(["phone", "tv", "tablet"], POOL),
            "x": rng.normal(size=POOL).round(1),
            "y": rng.normal(size=POOL).round(1),
        }
    )
    if name == "steps":
        right = np.where(frame["device"] == "phone", np.where(frame["age"] <= 40, 1, 0), 2)
    else:
        right = np.where((frame["x"] > 0) ^ (frame["y"] > 0), 1, 0)
    means = 0.5 * np.eye(3)[right]
    share = np.full(POOL, 1 / POOL)
    return World(frame, means, share, 0.5, 0.5, np.full((POOL, 3), 1 / 3))


@lru_cache(maxsize=16)
def classified(folders: bandits.Folders, name: str) -> World:
    """A classification set: the right label earns 1, all labels are logged alike."""
    X, y = bandits.read(folders, name)
    k = int(y.max()) + 1
    columns = pd.DataFrame(X[:, :20], columns=[f"x{j}" for j in range(min(20, X.shape[1]))])
    logging = np.full((len(y), k), 1 / k)
    return World(columns, np.eye(k)[y], np.full(len(y), 1 / len(y)), 0.0, None, logging)


@lru_cache(maxsize=4)
def campaign(index: int, scale: float = 0.01) -> World:
    """A campaign of the ads study with the click rates of its last batch, ten designs shown by Thompson sampling."""
    from offpolicy_studies.ads.config import AdConfig
    from offpolicy_studies.ads.world import make_world

    config = AdConfig().scaled(scale)
    world = make_world(config, 0)
    own = world.campaigns[index]
    means = world.click_probabilities(index, config.batches - 1)[:, :10]
    names: list[Any] = [name for name, _ in config.columns]
    frame = pd.DataFrame(world.contexts.astype(float), columns=names)
    return World(frame, means, own.share, 0.0, None, None, config.mab_prior(index))
