"""What users of the library stumble over: wrong rows, wrong types, numbers that are not distributions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, ModelError, PolicyError, UsageError, did_you_mean

N = 200


def frame(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    shares = {"u": 0.5, "v": 0.3, "w": 0.2}
    df = pd.DataFrame({"x": rng.normal(size=n), "a": rng.choice(list(shares), n, p=[0.5, 0.3, 0.2])})
    df["p"] = df["a"].map(shares)
    df["r"] = rng.normal(size=n) + (df["a"] == "v")
    df["new"] = np.where(df["x"] > 0, "u", "v")
    return df


def log(df: pd.DataFrame | None = None, **changes: Any) -> op.BanditLog:
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"} | changes
    return op.BanditLog.from_frame(frame() if df is None else df, **roles)


def value(data: Any, policy: Any, name: str = "IPW", **options: Any) -> float:
    return float(op.evaluate(data, policy, estimators=[name], **options)["policy", name].value)


def test_a_series_in_another_order_is_not_taken_by_position() -> None:
    df = frame()
    mixed = df["new"].sample(frac=1, random_state=0)
    with pytest.raises(PolicyError, match="different indexes"):
        value(log(df), mixed)
    with pytest.raises(PolicyError, match="different indexes"):
        value(log(df), lambda c: c["x"].sort_values().map(lambda x: "u" if x > 0 else "v"))
    assert value(log(df), mixed.reindex(df.index)) == value(log(df), "new")


def test_the_logged_action_is_no_policy() -> None:
    with pytest.raises(PolicyError, match=r"ev\.logged"):
        value(log(), "a")


def test_a_class_is_no_policy() -> None:
    with pytest.raises(PolicyError, match=r"Give an instance: Uniform"):
        value(log(), op.policies.Uniform)


def test_a_policy_that_fails_is_named() -> None:
    with pytest.raises(PolicyError, match=r"policy 'policy' failed on row 0 with KeyError: 'nope'"):
        value(log(), lambda c: c["nope"])


def test_rows_of_a_behavior_array_are_distributions() -> None:
    with pytest.raises(ModelError, match=r"200 of 200 values \(first: row 0 = 3.0"):
        value(log(), "new", behavior_model=np.ones((N, 3)))
    fair = np.full((N, 3), 1 / 3, dtype=np.float32)
    df = frame()
    expected = float((3 * (df["new"] == df["a"]) * df["r"]).mean())
    assert value(log(), "new", behavior_model=fair) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("folds", "two"), ("folds", 2.5), ("discount", "0.9"), ("n_jobs", "2"), ("n_jobs", 1.5), ("ratio", np.ones(N))],
)
def test_arguments_of_the_wrong_kind(option: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"{option}="):
        value(log(), "new", **{option: wrong})


@pytest.mark.parametrize("level", ["0.9", 95, True, 0, None])
def test_levels(level: Any) -> None:
    with pytest.raises(UsageError, match="level"):
        op.evaluate(log(), "new", estimators=["IPW"]).logged.interval(level)


@pytest.mark.parametrize("actions", ["uvw", 3])
def test_a_list_of_actions_is_a_list(actions: Any) -> None:
    with pytest.raises(DataError, match="not a list of actions"):
        log(actions=actions)


def test_messages_fit_the_column() -> None:
    with pytest.raises(DataError, match="only by rounding"):
        log(frame().assign(p=1.0000001))
    with pytest.raises(DataError, match="percentages"):
        log(frame().assign(p=lambda d: 100 * d["p"]))
    with pytest.raises(DataError, match="with which the row was kept"):
        log(frame().assign(k=0.0), keep_probability="k")
    with pytest.raises(ModelError, match="context 'x' holds values such as"):
        value(log(frame().assign(x=[[1, 2]] * N)), op.policies.Uniform(), "DML")


def test_hints_look_past_the_case() -> None:
    assert did_you_mean("dml", ["DM-cf", "DML"]) == " Did you mean 'DML'?"


def test_nothing_is_left_to_estimate_between_equals() -> None:
    same = op.evaluate(log(), np.tile([0.5, 0.3, 0.2], (N, 1)), estimators=["IPW"])
    e = same["policy", "IPW"]
    for gap in (e - e, e - same.logged, e.lift(same.logged)):
        assert tuple(gap.interval()) == (0.0, 0.0)
    nobody = log(frame().assign(r=0.0))
    other = op.evaluate(nobody, op.policies.Fixed("w"), estimators=["IPW"])
    low, high = (other["policy", "IPW"] - other.logged).interval()
    assert low < 0 < high  # no click yet is no proof that there will be none


def test_findings_can_be_iterated() -> None:
    ev = op.evaluate(log(), {"a": "new", "b": op.policies.Uniform()}, estimators=["IPW"])
    found = list(ev.diagnostics)
    assert len(found) == len(ev.diagnostics.rows())
    assert {f.name for f in found} >= {"propensities", "duplicates"}


def test_level_and_method_are_in_the_outputs() -> None:
    ev = op.evaluate(log(), "new", estimators=["IPW"])
    made = json.loads(ev.to_json(level=0.8))
    low, high, *_ = ev["policy", "IPW"].interval(0.8)
    assert (made["level"], made["estimates"][0]["low"], made["estimates"][0]["high"]) == (0.8, low, high)
    assert ev.frame()["method"][1] == ev["policy", "IPW"].interval().method


def test_a_mixture_takes_functions() -> None:
    df = frame()
    mixed = op.policies.Mixture(
        [
            lambda c: np.where(c["x"] > 0, "u", "v"),
            lambda c: np.tile([0.5, 0.3, 0.2], (len(c), 1)),
            op.policies.Uniform(),
        ],
        [0.5, 0.3, 0.2],
    )
    pi = 0.5 * (df["new"] == df["a"]) + 0.3 * df["p"] + 0.2 / 3
    assert value(log(df), mixed) == pytest.approx(float((pi / df["p"] * df["r"]).mean()))
    with pytest.raises(UsageError, match="Got str instead"):
        op.policies.Mixture(["new"], [1.0])


def test_eligible_actions_as_lists_or_as_a_mask() -> None:
    rng = np.random.default_rng(0)
    lists = [["b", "c"] if i % 2 else ["a", "b", "c"] for i in range(N)]
    taken = [rng.choice(row) for row in lists]
    rewards, p = rng.normal(size=N), [1 / len(row) for row in lists]
    mask = [["a" in row, True, True] for row in lists]
    for eligible in (lists, mask, np.array(mask)):
        data = op.BanditLog.from_arrays(None, taken, rewards, p, eligible=eligible)
        assert value(data, op.policies.Uniform()) == pytest.approx(rewards.mean())
    codes = np.tile([0, 1], N // 2)
    pairs = op.BanditLog.from_arrays(None, codes, rewards, [0.5] * N, eligible=[[0, 1]] * N)
    assert pairs.eligible is not None
    assert pairs.eligible.all()  # labels, not truth values
    with pytest.raises(DataError, match="lists an action twice"):
        op.BanditLog.from_arrays(None, codes, rewards, [0.5] * N, eligible=[[1, 1]] * N)
    with pytest.raises(DataError, match="'eligible' has 3 rows"):
        op.BanditLog.from_arrays(None, taken, rewards, p, eligible=lists[:3])


@pytest.mark.parametrize("shape", ["series", "text"])
def test_one_column_of_text_may_come_from_pandas(shape: str) -> None:
    words = pd.Series(np.where(np.arange(N) % 2, "ph", "pc"))
    given = {"series": words, "text": words.to_numpy(str)}
    df = frame()
    data = op.BanditLog.from_arrays(given[shape], df["a"], df["r"], df["p"])
    got = value(data, lambda c: np.where(c == "ph", "u", "v"))
    want = ((np.where(words == "ph", "u", "v") == df["a"]) / df["p"] * df["r"]).mean()
    assert got == pytest.approx(want)
