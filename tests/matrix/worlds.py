"""Small logs, each with something in it that has been answered differently on different paths.

All contexts are discrete, so that every log can be compressed; one of them is text. Rows come in another
order than their ids.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

ARMS = np.array(["u", "v", "w"])


@dataclass(frozen=True, eq=False)
class World:
    """A log as a frame, the roles of its columns, and what to ask of it."""

    name: str
    frame: pd.DataFrame
    roles: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    reward_range: tuple[float, float] = (0.0, 1.0)
    weight_high: float = 60.0
    bar: float = 0.0

    @property
    def policies(self) -> dict[str, Any]:
        """A deterministic function of the context, and one that gives probabilities."""
        return {"sharp": sharp, "soft": soft}

    @property
    def ranges(self) -> dict[str, Any]:
        """What bounded intervals have to be told."""
        return {"reward_range": self.reward_range, "weight_high": self.weight_high}

    @property
    def gates(self) -> tuple[str, ...]:
        """Gates of every kind: on a value, a lift, a difference, and one that cannot hold."""
        return (
            "sharp lift > 0",
            "soft lift > -90%",
            f"sharp value > {self.bar}",
            f"soft value < {self.bar}",
            "sharp - soft > 0",
            "soft - logged < 1e6",
            "soft value > 1e6",
        )

    def named(self, *, id: bool = True) -> dict[str, Any]:  # noqa: A002
        """Roles with the column of ids, or without it."""
        return {**self.roles, "id": "id"} if id else dict(self.roles)


def sharp(frame: Any) -> Any:
    """One label a row."""
    x = np.asarray(frame["x"], dtype=float)
    kind = np.asarray(frame["kind"], dtype=object)
    return np.where(kind == "b", "w", np.where(x >= 2, "v", "u"))


def soft(frame: Any) -> Any:
    """Probabilities of u, v and w."""
    x = np.asarray(frame["x"], dtype=float)
    kind = np.asarray(frame["kind"], dtype=object)
    logits = np.column_stack([np.zeros(len(x)), x / 3, 0.4 - x / 2 + 0.3 * (kind == "c")])
    weight = np.exp(logits)
    return weight / weight.sum(axis=1, keepdims=True)


# The same two policies in the columns that `base` writes.
COLUMNS: dict[str, Any] = {"sharp": "choice", "soft": ["t_u", "t_v", "t_w"]}


def numbers(frame: Any) -> Any:
    """Context and action as numbers, for a linear model."""
    x = frame["x"].to_numpy(dtype=float)
    v, w = (frame["arm"] == "v").to_numpy(float), (frame["arm"] == "w").to_numpy(float)
    b, c = ((frame["kind"] == k).fillna(False).to_numpy(dtype=float) for k in ("b", "c"))
    return np.column_stack([x, b, c, v, w, v * x, w * b])


def linear() -> Any:
    """Least squares on `numbers`: a learner of scikit-learn that every path can fit exactly."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(FunctionTransformer(numbers), LinearRegression())


def base(n: int, seed: int, probabilities: Any = None) -> tuple[pd.DataFrame, np.random.Generator]:
    """Contexts, arms drawn from the logging policy, propensities, ids, and policies as columns."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, n)
    kind = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"x": x, "kind": kind})
    given = np.tile([1 / 3, 1 / 3, 1 / 3], (n, 1)) if probabilities is None else probabilities(x)
    arm = (rng.random(n)[:, None] > np.cumsum(given, axis=1)[:, :2]).sum(axis=1)
    frame["arm"] = ARMS[arm]
    frame["p"] = given[np.arange(n), arm]
    frame["id"] = rng.permutation(n) * 977 - 5_000
    frame["choice"] = sharp(frame)
    target = soft(frame)
    for j, label in enumerate(ARMS):
        frame[f"t_{label}"] = target[:, j]
    return frame, rng


ROLES = {"context": ["x", "kind"], "action": "arm", "reward": "r", "propensity": "p"}


def rare(n: int = 1_200, seed: int = 1, clicks: float = 0.05) -> World:
    """An arm logged with probability .02, and few clicks."""
    frame, rng = base(n, seed, lambda x: np.tile([0.55, 0.43, 0.02], (len(x), 1)))
    rate = clicks * (0.6 + 0.3 * frame["x"].to_numpy() + 0.8 * (frame["arm"] == "w").to_numpy())
    frame["r"] = (rng.random(n) < rate).astype(float)
    return World("rare", frame, ROLES, bar=0.04)


def silent(n: int = 600, seed: int = 2) -> World:
    """Nobody ever clicked."""
    frame, _ = base(n, seed, lambda x: np.tile([0.5, 0.3, 0.2], (len(x), 1)))
    frame["r"] = 0.0
    return World("silent", frame, ROLES, weight_high=5.0, bar=0.01)


def money(n: int = 900, seed: int = 3) -> World:
    """Purchases with a Pareto tail; propensities with all their digits; ids are text."""
    frame, rng = base(n, seed, lambda x: _softmax(np.outer(x, [0.0, 0.3, -0.2])))
    bought = rng.random(n) < 0.35
    frame["r"] = np.round(bought * (1 + rng.pareto(1.4, n)) * (1 + frame["x"].to_numpy() / 4), 2)
    frame["id"] = [f"row-{i:05d}" for i in rng.permutation(n)]
    return World("money", frame, ROLES, reward_range=(0.0, 5_000.0), weight_high=10.0, bar=2.0)


def users(n: int = 1_000, seed: int = 4) -> World:
    """Several rows a user, whose rewards hang together."""
    frame, rng = base(n, seed)
    user = rng.integers(0, n // 4, n)
    taste = rng.normal(size=n // 4)[user]
    signal = taste + frame["x"].to_numpy() / 2 + (frame["arm"] == "v").to_numpy()
    frame["r"] = np.clip(np.round(signal + rng.normal(size=n)), -2, 4)
    frame["user"] = [f"user{u}" for u in user]
    roles = {**ROLES, "cluster": "user"}
    return World("users", frame, roles, reward_range=(-2.0, 4.0), weight_high=3.0, bar=1.0)


def hours(n: int = 1_000, seed: int = 5) -> World:
    """Batches between which the logging policy learned; a text column with missing values."""
    frame, rng = base(n, seed)
    hour = np.sort(rng.integers(0, 4, n))
    given = np.array([[1 / 3] * 3, [0.4, 0.4, 0.2], [0.3, 0.6, 0.1], [0.25, 0.7, 0.05]])[hour]
    arm = (rng.random(n)[:, None] > np.cumsum(given, axis=1)[:, :2]).sum(axis=1)
    frame["arm"], frame["p"], frame["hour"] = ARMS[arm], given[np.arange(n), arm], hour
    rate = 0.2 + 0.1 * frame["x"].to_numpy() / 3 + 0.15 * (arm == 1)
    frame["r"] = (rng.random(n) < rate).astype(float)
    frame["kind"] = frame["kind"].astype(object).where(frame["kind"] != "a", None)
    mixed = rng.permutation(n)
    roles = {**ROLES, "batch": "hour"}
    return World("hours", frame.iloc[mixed].reset_index(drop=True), roles, weight_high=20.0, bar=0.3)


def weighted(n: int = 800, seed: int = 6) -> World:
    """Analysis weights, and rewards of a few levels."""
    frame, rng = base(n, seed, lambda x: _softmax(np.outer(x, [0.2, 0.0, -0.3])))
    mean = 0.5 + 0.3 * frame["x"].to_numpy() + 0.4 * (frame["arm"] == "w").to_numpy()
    frame["r"] = rng.poisson(mean).astype(float)
    frame["w"] = rng.choice([0.5, 1.0, 2.0], n)
    roles = {**ROLES, "weight": "w"}
    return World("weighted", frame, roles, reward_range=(0.0, 12.0), weight_high=8.0, bar=1.0)


def unknown(n: int = 900, seed: int = 7) -> World:
    """No propensities: shares of the arms in each batch stand for them."""
    world = hours(n, seed)
    roles = {key: value for key, value in world.roles.items() if key != "propensity"}
    settings = {"behavior_model": "shares"}
    return World("unknown", world.frame.drop(columns="p"), roles, settings, weight_high=25.0, bar=0.3)


def whole(n: int = 800, seed: int = 8) -> World:
    """The whole logging distribution, which rules an arm out in some contexts."""
    given = np.array([[0.6, 0.3, 0.1], [0.25, 0.5, 0.25], [0.5, 0.5, 0.0], [0.2, 0.2, 0.6]])
    frame, rng = base(n, seed, lambda x: given[x])
    for j, label in enumerate(ARMS):
        frame[f"b_{label}"] = given[frame["x"].to_numpy(), j]
    rate = 0.2 + 0.1 * frame["x"].to_numpy() / 3 + 0.2 * (frame["arm"] == "w").to_numpy()
    frame["r"] = (rng.random(n) < rate).astype(float)
    roles = {**ROLES, "propensity": [f"b_{label}" for label in ARMS]}
    return World("whole", frame, roles, weight_high=12.0, bar=0.3)


def several(n: int = 700, seed: int = 9) -> World:
    """Three metrics: clicks, what they earn, and a cost of which less is better; asked about in files of its own."""
    world = whole(n, seed)
    frame, rng = world.frame.copy(), np.random.default_rng([seed, 1])
    frame["earned"] = frame["r"] * rng.choice([1.0, 2.5, 8.0], n)
    frame["cost"] = 0.25 * rng.integers(1, 4, n) + 0.5 * (frame["arm"] == "w").to_numpy()
    roles = {**world.roles, "reward": ["r", "earned", "cost"]}
    return World("several", frame, roles, {"minimize": ["cost"]}, weight_high=12.0, bar=0.3)


MAKERS = {m.__name__: m for m in (rare, silent, money, users, hours, weighted, unknown, whole)}
NAMES = tuple(MAKERS)
MAKERS["several"] = several


@cache
def world(name: str) -> World:
    """A world by its name, made once."""
    return MAKERS[name]()


def changed(world: World, **columns: Any) -> World:
    """The same world with other columns."""
    return World(
        world.name,
        world.frame.assign(**columns),
        world.roles,
        world.settings,
        world.reward_range,
        world.weight_high,
        world.bar,
    )


def shuffled(world: World, seed: int) -> World:
    """The same rows in another order."""
    order = np.random.default_rng(seed).permutation(len(world.frame))
    frame = world.frame.iloc[order].reset_index(drop=True)
    return changed(world, **{c: frame[c] for c in frame})


def _softmax(logits: Any) -> Any:
    weight = np.exp(logits)
    return weight / weight.sum(axis=1, keepdims=True)
