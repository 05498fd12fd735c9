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
from offpolicy_studies.decide import sets as bandits

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

POOL = 20_000
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
    logging : (m, K) array
    """

    context: pd.DataFrame
    means: Floats
    share: Floats
    noise: float
    best: float | None
    logging: Floats

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
        p = self.logging[rows]
        action = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
        mean = self.means[rows, action]
        reward = (
            mean + self.noise * rng.normal(size=n)
            if self.noise
            else (rng.random(n) < mean).astype(np.float64)
        )
        table = self.context.iloc[rows].reset_index(drop=True)
        names = list(table.columns)
        table = table.assign(
            action=np.array(self.actions)[action], reward=reward, p=p[np.arange(n), action]
        )
        return op.BanditLog.from_frame(
            table,
            context=names,
            action="action",
            reward="reward",
            propensity="p",
            actions=self.actions,
        )


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
    """A campaign of the ads study in its last batch, ten designs of it shown alike."""
    from offpolicy_studies.ads.config import AdConfig
    from offpolicy_studies.ads.world import make_world

    config = AdConfig().scaled(scale)
    world = make_world(config, 0)
    own = world.campaigns[index]
    means = world.click_probabilities(index, config.batches - 1)[:, :10]
    names: list[Any] = [name for name, _ in config.columns]
    frame = pd.DataFrame(world.contexts.astype(float), columns=names)
    logging = np.full(means.shape, 1 / means.shape[1])
    return World(frame, means, own.share, 0.0, None, logging)
