"""The simulated ad platform of `offpolicy demo`: click rates, impressions, a bandit's log, two policies."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints

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
