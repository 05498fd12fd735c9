"""Worlds in which rewards are seen in part and the truth is known: labels, judges, delays, long runs, several rows.

A world draws a log from a generator of random numbers. ``truth`` is the value of the new policy and of the logging one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.arrays import Floats

WINDOW = 168.0
MILLION = 1_000_000
Log = Any


@dataclass(frozen=True)
class World:
    """One world.

    Attributes
    ----------
    name : str
    draw : callable
        A log of n units, from a generator of random numbers.
    truth : (new, logged)
        Values of the new policy and of the one that logged.
    told : str
        What the log is told wrongly; empty where all it is told is true.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Log]
    truth: tuple[float, float]
    told: str = ""


def sigmoid(x: Any) -> Floats:
    """1 / (1 + exp(−x))."""
    return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Rows:
    """Rows of the worlds of labels: contexts, actions with their probability, rewards."""

    x: Floats
    action: Any
    propensity: Floats
    reward: Floats

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.action)


def rows(rng: np.random.Generator, n: int, kind: str = "number") -> Rows:
    """Two actions, chosen by the first column of the context; rewards that are numbers, 0/1, or have heavy tails."""
    x = rng.normal(size=(n, 2))
    p = 0.1 + 0.8 * sigmoid(0.8 * x[:, 0])
    action = (rng.random(n) < p).astype(np.int64)
    score = 0.3 + 0.5 * x[:, 0] + 0.4 * action + 0.3 * x[:, 1] * action
    if kind == "binary":
        reward = 1.0 * (rng.random(n) < sigmoid(score))
    else:
        noise = rng.normal(size=n) if kind == "number" else rng.standard_t(4, n) / np.sqrt(2)
        reward = score + noise
    return Rows(x, action, np.where(action == 1, p, 1 - p), np.asarray(reward, dtype=np.float64))


def truth_of(kind: str) -> tuple[float, float]:
    """Values of "always 1" and of the logging policy, by a million rows without noise."""
    x = np.random.default_rng(99).normal(size=(MILLION, 2))
    p = 0.1 + 0.8 * sigmoid(0.8 * x[:, 0])
    one, none = 0.7 + 0.5 * x[:, 0] + 0.3 * x[:, 1], 0.3 + 0.5 * x[:, 0]
    one, none = (sigmoid(one), sigmoid(none)) if kind == "binary" else (one, none)
    return float(one.mean()), float((p * one + (1 - p) * none).mean())


def judges(rng: np.random.Generator, r: Rows) -> dict[str, Floats | None]:
    """What judges say, from perfect to one that is wrong on purpose."""
    noise, other = rng.normal(size=(2, r.n))
    right = rng.random(r.n) < 0.8
    return {
        "perfect": r.reward,
        "good": r.reward + 0.3 * noise,
        "noisy": r.reward + noise,
        "useless": other,
        "adverse": -r.reward - 2 * r.action + noise,
        "prefers an arm": r.reward + r.action + 0.5 * noise,
        "bent": np.tanh(r.reward) + 0.2 * noise,
        "two judges": np.column_stack([r.reward + noise, r.reward * (r.action == 1) + other]),
        "none": None,
        "right in 80%": np.where(right, r.reward, 1 - r.reward),
        "kind to an arm": np.where(right | ((r.action == 1) & (r.reward == 1)), r.reward, 1 - r.reward),
    }


def designs(r: Rows, judge: Any) -> dict[str, Floats]:
    """With which probability rows are labeled."""
    j = judge if judge is not None and np.ndim(judge) == 1 else r.reward
    return {
        "10%": np.full(r.n, 0.1),
        "25%": np.full(r.n, 0.25),
        "60%": np.full(r.n, 0.6),
        "by judge": 0.1 + 0.4 * sigmoid(2 * j),
        "by context": 0.1 + 0.4 * sigmoid(2 * r.x[:, 1]),
        "by action": np.where(r.action == 1, 0.4, 0.15),
        "by reward": 0.05 + 0.5 * sigmoid(2.5 * r.reward - 1),
    }


def labels(kind: str, judge: str, design: str, told: str = "true", *, clusters: bool = False) -> Any:
    """A world of labels; ``told``: the true probability, "fitted", or a design that is not the true one."""

    def draw(rng: np.random.Generator, n: int) -> Log:
        r = rows(rng, n, kind)
        j = judges(rng, r)[judge]
        chance = designs(r, j)
        e = chance[design]
        seen = rng.random(n) < e
        if clusters:  # four rows are labeled together
            seen = np.repeat(rng.random((n + 3) // 4) < 0.25, 4)[:n]
        given = {"true": e, "fitted": None, "mean": float(seen.mean()), "double": np.minimum(1, 2 * e)}.get(told)
        outcome = op.Labeled(proxies=j, probability=given)
        more: Any = {"cluster": np.arange(n) // 4} if clusters else {}
        label = np.where(seen, r.reward, np.nan)
        return op.BanditLog.from_arrays(r.x, r.action, label, r.propensity, outcome=outcome, **more)

    return draw


def many_actions(rng: np.random.Generator, n: int) -> Log:
    """Five actions, logged by a softmax, a noisy judge, a quarter labeled."""
    x = rng.normal(size=(n, 2))
    scores = x[:, :1] * np.linspace(-0.5, 0.5, 5)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    action = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    reward = 0.2 * action + 0.3 * x[:, 1] + rng.normal(size=n)
    label = np.where(rng.random(n) < 0.25, reward, np.nan)
    outcome = op.Labeled(proxies=reward + 0.7 * rng.normal(size=n), probability=0.25)
    return op.BanditLog.from_arrays(x, action, label, p[np.arange(n), action], actions=range(5), outcome=outcome)


def many_truth() -> tuple[float, float]:
    """Values of "always 1" and of the softmax."""
    x = np.random.default_rng(99).normal(size=(MILLION, 1))
    p = np.exp(x * np.linspace(-0.5, 0.5, 5))
    p /= p.sum(axis=1, keepdims=True)
    return 0.2, float((p @ (0.2 * np.arange(5))).mean())


def delays(kind: str, *, proxy: bool = False, fades: bool = False) -> Any:
    """Conversions that come after an exponential or heavy-tailed time, or later for one action."""

    def draw(rng: np.random.Generator, n: int) -> Log:
        x, age = rng.normal(size=n), rng.uniform(0, 400, n)
        p = sigmoid(x)
        action = (rng.random(n) < p).astype(np.int64)
        times = {
            "exponential": rng.exponential(60, n),
            "heavy": 20 * rng.pareto(0.8, n),
            "by action": rng.exponential(np.where(action == 1, 120, 30)),
        }
        chance = sigmoid(-0.2 + 0.5 * x + 0.4 * action)
        buys = rng.random(n) < np.where(fades & (age < WINDOW), 0.4 * chance, chance)
        time = np.where(buys, times[kind], np.inf)
        came = np.where(time <= age, time, np.nan)
        basket = 1.0 * (rng.random(n) < np.where(buys, 0.8, 0.2)) if proxy else None
        outcome = op.Delayed(came, age, WINDOW, proxies=basket)
        return op.BanditLog.from_arrays(
            x, action, (came <= WINDOW) * 1.0, np.where(action == 1, p, 1 - p), outcome=outcome
        )  # fmt: skip

    return draw


def delay_truth(kind: str) -> tuple[float, float]:
    """Values of "always 1" and of the logging policy."""
    x = np.random.default_rng(99).normal(size=MILLION)
    p = sigmoid(x)
    late = {"exponential": (60.0, 60.0), "by action": (30.0, 120.0)}
    if kind == "heavy":
        shares = (1 - (1 + WINDOW / 20) ** -0.8,) * 2
    else:
        shares = tuple(1 - np.exp(-WINDOW / mean) for mean in late[kind])
    none, one = shares[0] * sigmoid(-0.2 + 0.5 * x), shares[1] * sigmoid(0.2 + 0.5 * x)
    return float(one.mean()), float((p * one + (1 - p) * none).mean())


def long_run(*, part: float = 0.0, direct: float = 0.0) -> Any:
    """A year's value that an older log has, foretold from early visits; ``direct``: what proxies miss of the action."""

    def side(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        x = rng.normal(size=n)
        p = sigmoid(0.5 * x)
        action = (rng.random(n) < p).astype(np.int64)
        early = 0.5 * action + 0.3 * x + rng.normal(size=n)
        year = early + 0.5 * x + direct * action + rng.normal(size=n)
        return x, action, np.where(action == 1, p, 1 - p), early, year

    def draw(rng: np.random.Generator, n: int) -> Log:
        x, action, p, before, year = side(rng, n)
        history = op.BanditLog.from_arrays(x, action, year, p)
        x, action, p, early, year = side(rng, n)
        outcome = op.LongTerm(history, proxies=early, history_proxies=before)
        seen = np.where(rng.random(n) < part, year, np.nan)
        return op.BanditLog.from_arrays(x, action, seen, p, outcome=outcome)

    return draw


def units(layout: str) -> Any:
    """Episodes and slates of three decisions, of whose rewards 40% are labeled."""

    def draw(rng: np.random.Generator, n: int) -> Log:
        import pandas as pd

        n = n // 3
        m = 3 * n
        s, a = rng.normal(size=m), rng.integers(2, size=m)
        reward = 0.5 * a + 0.3 * s + rng.normal(size=m)
        frame = pd.DataFrame(
            {"unit": np.repeat(np.arange(n), 3), "t": np.tile(np.arange(3), n), "s": s, "a": a, "p": 0.5}
        ).assign(
            judge=reward + 0.5 * rng.normal(size=m), label=np.where(rng.random(m) < 0.4, reward, np.nan)
        )  # fmt: skip
        shared: Any = {"action": "a", "reward": "label", "propensity": "p"}
        shared["outcome"] = op.Labeled(proxies=["judge"], probability=0.4)
        if layout == "episodes":
            return op.Trajectories.from_frame(frame, episode="unit", step="t", state=["s"], **shared)
        return op.Slates.from_frame(
            frame, slate="unit", position="t", context=["s"], interaction="independent", **shared
        )  # fmt: skip

    return draw


def worlds() -> list[World]:
    """All of them: those that are told the truth first."""
    number, binary, heavy = (truth_of(kind) for kind in ("number", "binary", "heavy"))
    made = [
        World(f"number, 25%, judge: {judge}", labels("number", judge, "25%"), number)
        for judge in ("perfect", "good", "noisy", "useless", "adverse", "prefers an arm", "bent", "two judges", "none")
    ]
    made += [
        World(f"0/1, 25%, judge: {judge}", labels("binary", judge, "25%"), binary)
        for judge in ("right in 80%", "kind to an arm", "none")
    ]
    made += [
        World(f"number, {design}, e {told}", labels("number", "noisy", design, told), number)
        for design in ("by judge", "by context", "by action")
        for told in ("true", "fitted")
    ]
    late = {kind: delay_truth(kind) for kind in ("exponential", "heavy", "by action")}
    made += [
        World("number, 10%, judge: good", labels("number", "good", "10%"), number),
        World("number, 60%, judge: good", labels("number", "good", "60%"), number),
        World("heavy tails, 25%, judge: good", labels("heavy", "good", "25%"), heavy),
        World("five actions, 25%, judge: noisy", many_actions, many_truth()),
        World("number, 25% in clusters, judge: noisy", labels("number", "noisy", "25%", clusters=True), number),
        *(World(f"delay: {kind}", delays(kind), truth) for kind, truth in late.items()),
        World("delay: exponential, early basket", delays("exponential", proxy=True), late["exponential"]),
        World("long run", long_run(), (0.5, 0.25)),
        World("long run, 20% seen", long_run(part=0.2), (0.5, 0.25)),
        World("episodes, 40%, judge: good", units("episodes"), (1.5, 0.75)),
        World("slates, 40%, judge: good", units("slates"), (1.5, 0.75)),
    ]
    wrong = "labels follow the reward"
    made += [
        World("by reward, told the mean, judge: good", labels("number", "good", "by reward", "mean"), number, wrong),
        World("by reward, told the mean, no judge", labels("number", "none", "by reward", "mean"), number, wrong),
        World("by reward, e fitted, judge: noisy", labels("number", "noisy", "by reward", "fitted"), number, wrong),
        World("0/1 by reward, told the mean", labels("binary", "right in 80%", "by reward", "mean"), binary, wrong),
        World("by judge, told the mean", labels("number", "noisy", "by judge", "mean"), number, "e"),
        World("25%, told 50%", labels("number", "noisy", "25%", "double"), number, "e"),
        World("delay: new rows convert less", delays("exponential", fades=True), late["exponential"], "delay"),
        World("long run, the action matters besides", long_run(part=0.3, direct=0.6), (1.1, 0.55), "surrogacy"),
    ]
    return made
