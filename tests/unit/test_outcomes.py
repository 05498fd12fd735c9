"""Rewards seen in part: what is refused, what is said, and what checks find."""

import json

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, UsageError


def world(seed=0, n=3000, labels=None, judge=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    new = rng.random(n) < 0.3
    truth = rng.binomial(1, 1 / (1 + np.exp(-x - 0.5 * new))).astype(float)
    judged = np.where(rng.random(n) < 0.85, truth, 1 - truth) + 0.1 * rng.normal(size=n)
    judged = judged if judge is None else judge(judged, new)
    p = np.full(n, 0.3) if labels is None else labels(truth, judged)
    return pd.DataFrame(
        {
            "x": x,
            "arm": np.where(new, "new", "old"),
            "p": np.where(new, 0.3, 0.7),
            "judge": judged,
            "label": np.where(rng.random(n) < p, truth, np.nan),
            "truth": truth,
            "p_label": p,
        }
    )


def log_of(frame, outcome, reward="label"):
    return op.BanditLog.from_frame(
        frame, context=["x"], action="arm", reward=reward, propensity="p", outcome=outcome
    )


def evaluated(frame, outcome):
    return op.evaluate(
        log_of(frame, outcome), {"new": op.policies.Fixed("new")}, estimators=["DML", "IPW"]
    )


def test_a_missing_reward_needs_an_outcome_that_says_why():
    with pytest.raises(DataError, match="label"):
        log_of(world(), None)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (op.Labeled(proxies=["x"]), "context both hold 'x'"),
        (op.Labeled(proxies=["jugde"]), "no such column"),
        (op.Labeled(proxies=["judge", "judge"]), "twice"),
        (op.Labeled(probability="zero"), "zero"),
        (op.Labeled(probability=1.5), "probability"),
        (op.Labeled(model="given"), "name one"),
        ("labeled", "must be an outcome"),
        ({"lable": op.Labeled()}, "no metric is called 'lable'"),
    ],
)
def test_what_contradicts_itself_is_refused(outcome, words):
    frame = world(n=200).assign(zero=0.0)
    with pytest.raises((DataError, UsageError), match=words):
        log_of(frame, outcome)


def test_of_several_metrics_the_one_seen_in_part_is_named():
    with pytest.raises(UsageError, match=r"outcome=\{'label'"):
        log_of(world(n=200), op.Labeled(), ["label", "truth"])


def test_no_label_at_all_is_refused():
    with pytest.raises(DataError, match="missing in every row"):
        log_of(world(n=200).assign(label=np.nan), op.Labeled(proxies=["judge"]))


def test_arrays_are_the_columns_of_a_frame():
    frame = world()
    named = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    log = op.BanditLog.from_arrays(
        frame[["x"]].to_numpy(), frame["arm"].to_numpy(), frame["label"].to_numpy(), frame["p"].to_numpy(),
        outcome=op.Labeled(proxies=frame["judge"].to_numpy(), probability=0.3),
    )  # fmt: skip
    given = op.evaluate(log, {"new": op.policies.Fixed("new")}, estimators=["DML"])
    assert given["DML"].value == pytest.approx(named["DML"].value, abs=1e-9)


def test_the_result_says_how_many_labels_there_are_and_what_it_assumes():
    frame = world()
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    n = int(frame["label"].notna().sum())
    assert f"seen in {n:,} of 3,000 rows" in str(ev)
    assert "rests on the given probabilities" in str(ev.verdict())
    about = json.loads(ev.to_json())["settings"]["outcome"]["label"]
    assert (about["seen"], about["of"]) == (n, 3000)
    assert 0.5 < about["share_of_proxies"] <= 1


def test_fitted_probabilities_of_labels_are_an_assumption_and_no_reason_to_trust():
    ev = evaluated(world(), op.Labeled(proxies=["judge"]))
    assert ev.verdict().level == "caution"
    assert "whether a row was labeled depends on nothing but" in str(ev.verdict())


@pytest.mark.parametrize("seed", range(5))
def test_clean_labels_raise_nothing(seed):
    ev = evaluated(world(seed), op.Labeled(proxies=["judge"], probability="p_label"))
    assert {name: ev.diagnostics[name].level for name in ("label_balance", "effective_labels")} == {
        "label_balance": "ok",
        "effective_labels": "ok",
    }


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_depend_on_the_reward_are_noticed_where_their_probability_was_given(seed):
    frame = world(seed, labels=lambda truth, judged: np.where(truth == 1, 0.4, 0.2))
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability=0.3))
    assert ev.diagnostics["label_balance"].level != "ok"
    assert ev.verdict().level != "trust"


@pytest.mark.parametrize("seed", range(5))
def test_labels_drawn_by_the_judge_are_fitted(seed):
    frame = world(seed, labels=lambda truth, judged: np.where(judged > 0.5, 0.5, 0.1))
    ev = evaluated(frame, op.Labeled(proxies=["judge"]))
    truth = frame["truth"][frame["arm"] == "new"].mean()
    assert abs(ev["DML"].value - truth) < 4 * ev["DML"].std_error
    naive = frame["label"][frame["arm"] == "new"].mean()
    assert abs(naive - truth) > 0.05


def test_a_judge_that_prefers_an_arm_is_noticed_and_does_no_harm():
    frame = world(judge=lambda judged, new: judged + 0.5 * new)
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    assert ev.diagnostics["proxy_preference"].level == "note"
    truth = frame["truth"][frame["arm"] == "new"].mean()
    assert abs(ev["DML"].value - truth) < 4 * ev["DML"].std_error


def test_few_labels_of_what_the_policy_does_are_counted():
    frame = world()
    frame.loc[(frame["arm"] == "new") & (frame.index > 200), "label"] = np.nan
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    assert ev.diagnostics["new", "effective_labels"].level in {"caution", "alarm"}
    assert ev.verdict().level != "trust"
