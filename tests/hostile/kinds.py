"""Slates, numbers as actions, features of actions, several metrics, router logs, decisions: what is wrong in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import offpolicy as op

Row = tuple[str, str | float, Callable[[Path], Any]]
N = 60
RNG = np.random.default_rng(3)
X = RNG.normal(size=N)
A = np.arange(N) % 3
R = (RNG.random(N) < 0.4).astype(float)
MISSING = ("NaN", np.nan), ("infinite", np.inf), ("minus infinite", -np.inf)


def bandit(**parts: Any) -> Any:
    given = {"context": X, "action": A, "reward": R, "propensity": np.full(N, 1 / 3), **parts}
    return op.BanditLog.from_arrays(**given)


# -- slates ------------------------------------------------------------------------------------------------

SLOTS = pd.DataFrame({"s": np.repeat(np.arange(20), 3), "k": np.tile(np.arange(3), 20), "x": np.repeat(X[:20], 3),
                      "item": np.tile([0, 1, 2], 20), "r": R, "p": np.tile([1 / 3, 1 / 2, 1.0], 20)})  # fmt: skip
SLATE_ROLES = {"slate": "s", "position": "k", "context": ["x"], "action": "item", "reward": "r", "propensity": "p"}


def slates(roles: dict[str, Any] | None = None, **columns: Any) -> Any:
    return op.Slates.from_frame(SLOTS.assign(**columns), **{**SLATE_ROLES, **(roles or {})})


def at(values: Any, row: int, value: Any) -> Any:
    """The values with another one at a row."""
    changed = pd.Series(values).astype(object).to_list()
    changed[row] = value
    return changed


def slate_value(log: Any, policy: Any = "uniform", estimator: str = "IPW") -> float:
    return float(op.evaluate(log, policy, estimators=[estimator])["policy", estimator].value)


def _slates() -> Iterator[Row]:
    def build(roles: dict[str, Any] | None = None, **columns: Any) -> Callable[[Path], Any]:
        return lambda _: slates(roles, **columns)

    yield "sound, uniform policy", float(R.sum() / 20), lambda _: slate_value(slates())
    yield (
        "rows in another order",
        float(R.sum() / 20),
        lambda _: slate_value(op.Slates.from_frame(SLOTS.sample(frac=1, random_state=1), **SLATE_ROLES)),
    )
    for name, bad in MISSING:
        yield f"reward {name}", "missing or infinite", build(r=at(R, 4, bad))
        yield f"propensity {name}", "propensity", build(p=at(SLOTS.p, 4, bad))
    for name, bad in (("0", 0.0), ("negative", -0.2), ("above 1", 1.5), ("1e-160", 1e-160)):
        yield (f"propensity {name}", "zero or negative|above 1|below 1e-30", build(p=at(SLOTS.p, 4, bad)))
    yield "position twice", "twice|position", build(k=at(SLOTS.k, 4, 0))
    yield "position missing", "position", build(k=at(SLOTS.k, 4, None))
    yield "position of a half", "position|whole", build(k=at(SLOTS.k, 4, 0.5))
    yield "position with a gap", "position|gap", build(k=SLOTS.k * 2)
    yield "slate missing", "slate.*missing|missing", build(s=at(SLOTS.s, 4, None))
    yield "item missing", "missing", build(item=at(SLOTS.item, 4, None))
    yield "items of lists", "label", build(item=[[1]] * N)
    yield "reward of texts", "reward", build(r=["a"] * N)
    yield "no rows", "empty|no rows", lambda _: op.Slates.from_frame(SLOTS.iloc[:0], **SLATE_ROLES)
    yield "a column that is not there", "no such column", build({"reward": "click"})
    yield "the reward in the context", "reward", build({"context": ["x", "r"]})
    yield "the item in the context", "action|item", build({"context": ["x", "item"]})
    yield (
        "weight that changes inside a slate",
        "within a slate|inside a slate|constant",
        build({"weight": "w"}, w=np.arange(1.0, N + 1)),
    )
    yield ("cluster that changes inside a slate", "inside a slate|constant|cluster", build({"cluster": "item"}))
    yield ("distinct, and an item twice", "item twice", build({"distinct": True}, item=[0, 1, 1] * 20))
    yield "an unknown interaction", "interaction", build({"interaction": "ladder"})
    yield ("a mask of another size", "mask|interaction", build({"interaction": np.ones((2, 2), dtype=bool)}))
    yield ("a mask of 2s", "mask|interaction|0 and 1|bool", build({"interaction": np.full((3, 3), 2)}))
    yield (
        "additive with a reward of slots",
        "one reward|slate",
        build({"interaction": "additive", "reward_of": "slate"}),
    )
    yield "reward_of nonsense", "reward_of", build({"reward_of": "page"})
    yield (
        "two columns of one name",
        "two columns|duplicate",
        lambda _: op.Slates.from_frame(pd.concat([SLOTS, SLOTS[["r"]]], axis=1), **SLATE_ROLES),
    )
    yield ("candidates without what was shown", "not among|candidates", build({"candidates": "c"}, c=[[5, 6]] * N))
    yield (
        "a policy of another width",
        "shape|columns",
        lambda _: slate_value(slates(), lambda x: np.full((len(x), 5), 0.2)),
    )
    yield "a policy that raises", "policy", lambda _: slate_value(slates(), lambda x: 1 / 0)
    yield (
        "a policy of NaN",
        "NaN|missing|finite|numbers",
        lambda _: slate_value(slates(), lambda x: np.full((len(x), 3), np.nan)),
    )
    yield "an unknown estimator", "estimator", lambda _: slate_value(slates(), estimator="XYZ")


# -- actions that are numbers ------------------------------------------------------------------------------

PRICE = RNG.uniform(0, 1, N)


def numbers(**parts: Any) -> Any:
    given = {"context": X, "action": PRICE, "reward": R, "propensity": np.ones(N), **parts}
    return op.BanditLog.from_arrays(**given, action_kind="continuous")


def number_value(policy: Any = None, log: Any = None, **options: Any) -> float:
    policy = (lambda x: np.full(len(x), 0.5)) if policy is None else policy
    ev = op.evaluate(numbers() if log is None else log, policy, estimators=["IPW"], **options)
    return float(ev["policy", "IPW"].value)


def _numbers() -> Iterator[Row]:
    def build(**parts: Any) -> Callable[[Path], Any]:
        return lambda _: numbers(**parts)

    half = {"ratio": op.KernelRatio(bandwidth=0.25, kernel="uniform")}
    near = np.abs(PRICE - 0.5) <= 0.25
    yield "a box around one price", float(np.mean(R * near / 0.5)), lambda _: number_value(**half)
    for name, bad in MISSING:
        yield f"action {name}", "action", build(action=at(PRICE, 4, bad))
        yield f"density {name}", "densit|propensity", build(propensity=at(np.ones(N), 4, bad))
        yield f"reward {name}", "reward", build(reward=at(R, 4, bad))
    for name, bad in (("0", 0.0), ("negative", -1.0), ("1e-160", 1e-160)):
        yield f"density {name}", "are not densities", build(propensity=at(np.ones(N), 4, bad))
    yield "densities of K columns", "one density|column|per row", build(propensity=np.ones((N, 2)))
    yield "actions of text", "number", build(action=["a"] * N)
    yield "actions of dates", "number", build(action=np.arange(N).astype("datetime64[D]"))
    yield "actions masked", "masked", build(action=np.ma.array(PRICE, mask=np.arange(N) == 3))
    yield "actions of 1e200", "1e30", build(action=at(PRICE, 4, 1e200))
    yield (
        "one price for all",
        "one value|same|differ|vary|constant",
        lambda _: number_value(lambda x: np.full(len(x), 0.5), numbers(action=np.full(N, 0.5))),
    )
    yield ("no rows", "empty", lambda _: op.BanditLog.from_arrays([], [], [], action_kind="continuous"))
    yield "an unknown kind", "action_kind", lambda _: bandit(action_kind="integer")
    yield "eligible actions", "eligible|continuous|number", build(eligible=[[0.5]] * N)
    yield "features of actions", "action_features|number", build(action_features=np.ones(N))
    yield ("a policy of NaN", "NaN|finite|missing", lambda _: number_value(lambda x: np.full(len(x), np.nan)))
    yield ("a policy of too few", "row|shape|length", lambda _: number_value(lambda x: np.full(3, 0.5)))
    yield ("a policy of two columns", "row|shape|one", lambda _: number_value(lambda x: np.ones((len(x), 2))))
    yield "a policy of texts", "number", lambda _: number_value(lambda x: ["a"] * len(x))
    yield "a policy that raises", "policy", lambda _: number_value(lambda x: 1 / 0)
    yield (
        "a policy that draws",
        "gives different",
        lambda _: number_value(lambda x: np.random.default_rng().uniform(size=len(x))),
    )
    for name, bad in (("0", 0.0), ("negative", -1.0), ("NaN", np.nan), ("a text", "wide")):
        yield (f"bandwidth {name}", "bandwidth", lambda _, bad=bad: number_value(ratio=op.KernelRatio(bandwidth=bad)))
    yield ("an unknown kernel", "kernel", lambda _: number_value(ratio=op.KernelRatio(kernel="round")))


# -- features of actions -----------------------------------------------------------------------------------


def _features() -> Iterator[Row]:
    genre = np.array([0, 0, 1])

    def cells(given: Any = genre, **options: Any) -> Callable[[Path], Any]:
        def run(_: Path) -> float:
            log = bandit(propensity=np.full((N, 3), 1 / 3), action_features=given)
            ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW"], ratio=op.CoarseRatio(**options))
            return float(ev["policy", "IPW"].value)

        return run

    yield "two actions in one cell", float(np.mean(R * (A < 2) * 1.5)), cells()
    yield "too few rows of features", "action_features", cells(np.ones(2))
    yield "too many rows of features", "action_features", cells(np.ones(4))
    exact = float(np.mean(3 * R * (A == 0)))
    yield "a missing feature is a cell of its own", exact, cells(np.array([0.0, np.nan, 1.0]))
    yield ("an infinite feature", "is infinite for action number 1", cells(np.array([0.0, np.inf, 1.0])))
    yield "features of objects", "neither a number nor text", cells(np.array([object()] * 3))
    yield "features of three dimensions", "action_features", cells(np.ones((3, 1, 1)))
    yield "features masked", "masked", cells(np.ma.array([0.0, 1.0, 2.0], mask=[0, 1, 0]))
    yield "no features", "action_features", cells(None)
    yield "an unknown feature", "feature", cells(features_of("genre"), features=["price"])
    by_label = pd.Series([1, 0, 0], index=[2, 1, 0])
    yield "a Series goes by its labels", float(np.mean(R * (A < 2) * 1.5)), cells(by_label)
    yield ("a Series of other labels", "has no row for action 0", cells(pd.Series([0, 1], index=[7, 8])))
    yield "no bins", "bins", cells(bins=0)
    yield "half a bin", "bins", cells(bins=2.5)
    yield "more clusters than actions", "clusters", cells(clusters=9)
    yield "clusters of text", "clusters", cells(clusters="two")
    yield "an unknown model", "model", cells(model="trees")
    yield ("a frame without an action", "action", cells(pd.DataFrame({"action": [0, 1], "g": [0, 1]})))
    yield (
        "a frame with an action twice",
        "has 2 rows",
        cells(pd.DataFrame({"action": [0, 1, 1, 2], "g": [0, 1, 2, 1]})),
    )
    yield "features that change with the row", "is not a feature of the action", lambda _: op.BanditLog.from_frame(
        pd.DataFrame({"x": X, "a": A, "r": R, "p": 1 / 3, "g": np.arange(N)}),
        context=["x"], action="a", reward="r", propensity="p", action_features=["g"],
    )  # fmt: skip


def features_of(name: str) -> pd.DataFrame:
    return pd.DataFrame({name: [0, 0, 1]}, index=[0, 1, 2])


# -- several metrics ---------------------------------------------------------------------------------------

FRAME = pd.DataFrame({"x": X, "a": A, "r": R, "cost": RNG.gamma(2, size=N), "p": 1 / 3})
ROLES = {"context": ["x"], "action": "a", "reward": ["r", "cost"], "propensity": "p"}


def _metrics() -> Iterator[Row]:
    def build(roles: dict[str, Any] | None = None, **columns: Any) -> Callable[[Path], Any]:
        return lambda _: op.BanditLog.from_frame(FRAME.assign(**columns), **{**ROLES, **(roles or {})})

    for name, bad in MISSING:
        yield (
            f"the second metric {name}",
            "cost.*(missing|infinite)|(missing|infinite).*cost",
            build(cost=at(FRAME.cost, 4, bad)),
        )
    yield "a metric twice", "twice|two", build({"reward": ["r", "r"]})
    yield "no metric", "reward", build({"reward": []})
    yield "an unknown metric", "no such column", build({"reward": ["r", "margin"]})
    yield "a metric in the context", "cost|reward", build({"context": ["x", "cost"]})
    yield "a metric of text", "cost", build(cost=["a"] * N)
    yield "a metric of 1e200", "1e30", build(cost=at(FRAME.cost, 4, 1e200))

    def gate(text: str) -> Any:
        return op.evaluate(build()(Path()), "uniform", estimators=["IPW"]).gate(text)

    yield "a gate on an unknown metric", "margin", lambda _: gate("margin.lift > 0")
    yield (
        "models for an unknown metric",
        "margin",
        lambda _: op.evaluate(build()(Path()), "uniform", reward_model={"r": None, "cost": None, "margin": None}),
    )


# -- router logs -------------------------------------------------------------------------------------------

LINE = {"candidates": ["small", "large"], "model": "small", "propensity": 0.5, "quality": 1, "cost": 0.1}


def _router() -> Iterator[Row]:
    def read(*changes: Any, **options: Any) -> Callable[[Path], Any]:
        def run(folder: Path) -> float:
            lines = [json.dumps({**LINE, **c}) if isinstance(c, dict) else c for c in ({}, *changes)]
            path = folder / "router.jsonl"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            return float(op.read_router_log(path, **options).reward.mean())

        return run

    yield "two lines", 0.5, read({"quality": 0})
    yield "a bad line, reported", 1.0, read("{", {"model": "large"}, on_error="report")
    for name, change, words in [
        ("no model", {"model": None}, "line 2|model"),
        ("a model that is no candidate", {"model": "huge"}, "candidate"),
        ("a candidate twice", {"candidates": ["small", "small"]}, "twice"),
        ("no candidates", {"candidates": []}, "candidates"),
        ("candidates a text", {"candidates": "small"}, "candidates"),
        ("candidates of lists", {"candidates": [["small"]]}, "candidates|label"),
        ("quality missing", {"quality": None}, "quality"),
        ("quality a text", {"quality": "good"}, "quality"),
        ("quality true", {"quality": [1]}, "quality"),
        ("propensity 0", {"propensity": 0}, "propensity"),
        ("propensity above 1", {"propensity": 1.5}, "propensity"),
        ("propensity negative", {"propensity": -0.5}, "propensity"),
        ("propensity a text", {"propensity": "half"}, "propensity"),
        ("propensities of another length", {"propensity": [0.5]}, "propensit"),
        ("propensities that sum to 1.5", {"propensity": [0.5, 1.0]}, "propensit|sum"),
        ("not an object", "[1, 2]", "line 2"),
        ("cut off", '{"candidates": [', "line 2"),
        ("a huge number", {"quality": 1e308}, "1e30"),
    ]:
        yield name, words, read(change)
    yield ("NaN in the file", "line 2|NaN|quality", read(json.dumps({**LINE, "quality": float("nan")})))
    yield "an unknown reward", "speed", read(reward="speed")
    yield "an unknown field", "modell", read(fields={"modell": "m"})
    yield ("no file", "there is no file .*none.jsonl", lambda folder: op.read_router_log(folder / "none.jsonl"))
    yield ("an empty file", "empty|no lines|no usable", lambda folder: op.read_router_log(_empty(folder)))


def _empty(folder: Path) -> Path:
    path = folder / "empty.jsonl"
    path.write_text("")
    return path


# -- learning, selecting, advising -------------------------------------------------------------------------


def _decide() -> Iterator[Row]:
    big = 300
    rng = np.random.default_rng(5)
    x, a = rng.normal(size=(big, 2)), rng.integers(2, size=big)
    r = (rng.random(big) < 0.3 + 0.3 * a).astype(float)

    def log(**parts: Any) -> Any:
        return op.BanditLog.from_arrays(
            **{"context": x, "action": a, "reward": r, "propensity": np.full(big, 0.5), **parts}
        )

    def learn(log_of: Callable[[], Any] = log, **options: Any) -> Callable[[Path], Any]:
        return lambda _: op.learn_policy(log_of(), **options)

    ev = op.evaluate(log(), {"one": op.policies.Fixed(1)}, estimators=["IPW"])
    yield "learn: slates", "slate|bandit|log", learn(slates)
    yield "learn: a frame", "log|BanditLog", learn(lambda: FRAME)
    yield (
        "learn: three rows",
        "rows|units|folds",
        learn(lambda: op.BanditLog.from_arrays([1.0, 2, 3], [0, 1, 0], [0, 1, 1], [0.5] * 3)),
    )
    for name, options, words in [
        ("an unknown learner", {"learner": "forest"}, "learner"),
        ("an unknown objective", {"objective": "regret"}, "objective"),
        ("depth of a half", {"max_depth": 1.5}, "max_depth"),
        ("no rows in a leaf", {"min_rows": 0}, "min_rows"),
        ("one fold", {"folds": 1}, "folds"),
        ("more folds than rows", {"folds": 10**6}, "folds"),
    ]:
        yield f"learn: {name}", words, learn(**options)
    for name, options, words in [
        ("rate 0", {"rate": 0.0}, "rate"),
        ("rate 1.5", {"rate": 1.5}, "rate"),
        ("rate NaN", {"rate": float("nan")}, "rate"),
        ("rate a text", {"rate": "low"}, "rate"),
        ("an unknown method", {"method": "hope"}, "method"),
        ("an unknown estimator", {"estimator": "XYZ"}, "XYZ|estimator"),
    ]:
        yield f"select: {name}", words, lambda _, options=options: op.select(ev, **options)
    yield "select: a log", "Evaluation|evaluate", lambda _: op.select(log())
    for name, options, words in [
        ("width 0", {"width": 0.0}, "width"),
        ("width negative", {"width": -1.0}, "width"),
        ("width NaN", {"width": float("nan")}, "width"),
        ("width a text", {"width": "narrow"}, "width"),
        ("level 1", {"level": 1.0}, "level"),
        ("level 95", {"level": 95}, "level"),
        ("exploration 0", {"exploration": [0.0]}, "exploration"),
        ("exploration 2", {"exploration": [2.0]}, "exploration"),
        ("exploration a number", {"exploration": 0.1}, "exploration"),
    ]:
        yield (
            f"advise: {name}",
            words,
            lambda _, options=options: op.advise(log(), op.policies.Fixed(1), estimators=["IPW"], **options),
        )
    yield "advise: no policy", "polic", lambda _: op.advise(log(), {})
    yield "advise: a policy that raises", "policy", lambda _: op.advise(log(), lambda x: 1 / 0)
    yield "advise: a frame", "log|BanditLog", lambda _: op.advise(FRAME, "uniform")


AREAS = {
    "slates": _slates,
    "actions that are numbers": _numbers,
    "features of actions": _features,
    "several metrics": _metrics,
    "router logs": _router,
    "decisions": _decide,
}
