"""Rewards that come late, or that only an older log has: laws, what is refused, what is said."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, UsageError

WINDOW = 168.0


def late(seed=0, n=3000, oldest=400.0, slow=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    new = rng.random(n) < 0.4
    age = rng.uniform(0, oldest, n)
    buys = rng.random(n) < 1 / (1 + np.exp(1 - 0.5 * x - 0.4 * new))
    time = np.where(buys, rng.exponential(np.where(new, 120 * slow, 40), n), np.inf)
    return pd.DataFrame(
        {
            "x": x,
            "arm": np.where(new, "new", "old"),
            "p": np.where(new, 0.4, 0.6),
            "truth": (time <= WINDOW).astype(float),
            "hours": np.where(time <= age, time, np.nan),
            "bought": ((time <= age) & (time <= WINDOW)).astype(float),
            "age": age,
        }
    )


def delayed(frame, **changed):
    outcome = op.Delayed(**{"time": "hours", "age": "age", "window": WINDOW, **changed})
    return op.BanditLog.from_frame(frame, context=["x"], action="arm", reward="bought", propensity="p", outcome=outcome)


def value(log, name="DML"):
    return op.evaluate(log, {"new": op.policies.Fixed("new")}, estimators=[name])[name]


def test_where_every_window_has_passed_it_is_the_plain_estimator():
    frame = late().assign(age=1e6)
    frame["hours"] = np.where(frame["truth"] == 1, 10.0, np.nan)
    frame["bought"] = frame["truth"]
    plain = op.BanditLog.from_frame(frame, context=["x"], action="arm", reward="truth", propensity="p")
    np.testing.assert_allclose(value(delayed(frame)).psi, value(plain).psi, rtol=0, atol=1e-9)


def test_what_has_not_arrived_is_not_a_zero():
    gaps = []
    for seed in range(6):
        frame = late(seed)
        naive = op.BanditLog.from_frame(frame, context=["x"], action="arm", reward="bought", propensity="p")
        full = op.BanditLog.from_frame(frame, context=["x"], action="arm", reward="truth", propensity="p")
        gaps.append([value(log).value - value(full).value for log in (delayed(frame), naive)])
    ours, without = np.mean(gaps, axis=0)
    assert abs(ours) < 0.015
    assert without < -0.03


def test_the_log_says_how_much_was_corrected():
    ev = op.evaluate(delayed(late()), {"new": op.policies.Fixed("new")}, estimators=["DML"])
    finding = ev.diagnostics["reward_maturity"]
    assert finding.level == "ok"
    assert finding.details["corrected"] > finding.details["naive"]
    assert "rewards may still come" in finding.sentence
    assert "as late in new rows as in old ones" in str(ev.verdict())


def test_rewards_that_fade_are_noticed():
    frame = late(n=6000)
    keep = (frame["age"] < WINDOW) & (frame["bought"] == 1) & (frame.index % 3 > 0)
    frame.loc[keep, ["hours", "bought"]] = [np.nan, 0.0]
    ev = op.evaluate(delayed(frame), {"new": op.policies.Fixed("new")}, estimators=["DML"])
    assert {ev.diagnostics[c].level for c in ("reward_maturity", "label_balance")} != {"ok"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": -1.0}, "at least 0"),
        ({"hours": 1e9}, "later than the log was read"),
        ({"bought": 1.0, "hours": np.nan}, "does not say when it came"),
        ({"age": 100.0, "hours": np.nan, "bought": 0.0}, "no row is as old as window"),
    ],
)
def test_times_that_contradict_each_other_are_refused(change, words):
    with pytest.raises(DataError, match=words):
        delayed(late(n=300).assign(**change))


def test_a_window_is_a_positive_number():
    with pytest.raises(UsageError, match="window="):
        delayed(late(n=300), window=0)


def early(seed, n, shares=0.5, direct=0.0, known=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    new = rng.random(n) < shares
    visits = 0.5 * x + new + rng.normal(size=n)
    revenue = 2 * visits + 0.5 * x + direct * new + rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": x,
            "arm": np.where(new, "new", "old"),
            "p": np.where(new, shares, 1 - shares),
            "visits": visits,
            "truth": revenue,
            "revenue": np.where(rng.random(n) < known, revenue, np.nan),
        }
    )


def long_run(frame, history, **more):
    columns = {"context": ["x"], "action": "arm"}
    older = op.BanditLog.from_frame(history, reward="truth", **columns)
    outcome = op.LongTerm(older, proxies=["visits"], **more)
    return op.BanditLog.from_frame(frame, reward="revenue", propensity="p", outcome=outcome, **columns)


def test_the_long_run_is_foretold_from_an_older_log():
    hits = []
    for seed in range(20):
        e = value(long_run(early(seed, 800, 0.3), early(100 + seed, 800)))
        hits.append(e.interval().covers(2.0))
    assert sum(hits) >= 17


def test_both_samples_are_in_the_variance():
    frame = early(0, 800, 0.3)
    few, many = (value(long_run(frame, early(1, n))).std_error for n in (100, 5000))
    assert few > 1.5 * many


def test_surrogacy_is_said_and_checked_where_rewards_are_seen():
    history = early(1, 1500)
    ev = op.evaluate(long_run(early(0, 1500), history), "always:new", estimators=["DML"])
    assert ev.verdict().level == "caution"
    assert "does not depend on the action" in str(ev.verdict())
    assert not ev.diagnostics["surrogacy"].ran
    levels = []
    for direct in (0.0, 1.5):
        log = long_run(early(0, 1500, direct=direct, known=0.3), history)
        levels.append(op.evaluate(log, "always:new", estimators=["DML"]).diagnostics["surrogacy"].level)
    assert levels == ["ok", "alarm"]


def test_rows_unlike_the_older_log_are_noticed():
    frame = early(0, 800).assign(visits=lambda f: f["visits"] + 30)
    ev = op.evaluate(long_run(frame, early(1, 800)), "always:new", estimators=["DML"])
    assert ev.diagnostics["history_overlap"].level == "alarm"


def test_an_older_log_has_the_same_columns_and_all_rewards():
    frame, history = early(0, 100), early(1, 100)
    with pytest.raises(DataError, match="no such column"):
        long_run(frame, history.drop(columns="visits"))
    with pytest.raises(UsageError, match="history="):
        op.BanditLog.from_frame(
            frame, context=["x"], action="arm", reward="revenue",
            outcome=op.LongTerm(history, proxies=["visits"]),
        )  # fmt: skip
