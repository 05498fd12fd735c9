"""Checks as tests: calm on clean logs at the rate they state, and awake where a defect was put in."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.trust import check_log
from offpolicy.trust.check import CHECKS
from offpolicy.trust.mismatch import exact_p
from offpolicy.trust.moments import mean_z, normal_from_student

N = 2000
LOGS = 60


def draw(seed, n=N, k=3, **more):
    """A softmax policy on three columns, with what was drawn and its probability."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    slopes = np.array([[1.0, 0.0, -1.0], [0.0, 0.7, -0.7], [0.3, -0.3, 0.0]])[:, :k]
    p = np.exp(x @ slopes)
    p = 0.8 * p / p.sum(axis=1, keepdims=True) + 0.2 / k
    a = np.minimum((rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1), k - 1)
    r = (rng.random(n) < 0.3 + 0.1 * a + 0.1 * (x[:, 0] > 0)).astype(float)
    frame = pd.DataFrame(x, columns=["u", "v", "w"]).assign(a=a, r=r, p=p[np.arange(n), a])
    return frame.assign(**more), rng


ROLES = {"context": ["u", "v", "w"], "action": "a", "reward": "r", "propensity": "p"}


def checked(frame, **roles):
    return check_log(op.BanditLog.from_frame(frame, **{**ROLES, **roles}))


def few(alarms, rate):
    """As many as a binomial draw at this rate would have in all but one of a thousand runs."""
    return sum(alarms) <= stats.binom.isf(0.001, len(alarms), rate)


# -- balance ---------------------------------------------------------------------------------------


def clean(seed):
    return draw(seed)[0], {}


def sticky_sessions(seed):
    frame, _ = draw(seed)
    first = np.repeat(np.arange(0, N, 4), 4)  # four rows of a session are its first one, again
    frame = frame.iloc[first].reset_index(drop=True)
    return frame.assign(user=np.arange(N) // 16), {"cluster": "user"}


def subsampled(seed):
    frame, rng = draw(seed, 3 * N)
    keep = np.where(frame["r"] > 0, 1.0, 0.25)
    frame = frame.assign(keep=keep)[rng.random(len(frame)) < keep].reset_index(drop=True)
    return frame, {"keep_probability": "keep"}


def labels(seed):
    frame, _ = draw(seed)
    return frame.assign(u=np.where(frame["u"] > 0, "yes", "no"), w=frame["w"].round().astype(str)), {}


def learned(seed):
    """ε-greedy with ten batches; what was drawn before decides what comes next."""
    rng = np.random.default_rng(seed)
    parts, total, count = [], np.zeros(3), np.full(3, 1e-9)
    for b in range(10):
        p = np.full(3, 0.05)
        p[int((total / count).argmax())] = 0.9
        a = rng.choice(3, size=N // 10, p=p)
        r = (rng.random(len(a)) < 0.3 + 0.1 * a).astype(float)
        total, count = total + np.bincount(a, r, 3), count + np.bincount(a, minlength=3)
        parts.append(pd.DataFrame({"a": a, "r": r, "p": p[a], "day": b}))
    frame = pd.concat(parts, ignore_index=True)
    frame[["u", "v", "w"]] = rng.normal(size=(len(frame), 3))
    return frame, {"batch": "day"}


@pytest.mark.parametrize("world", [clean, sticky_sessions, subsampled, labels, learned])
def test_clean_logs_raise_nothing(world):
    raised = []
    for seed in range(LOGS):
        frame, roles = world(seed)
        raised += [f.name for f in checked(frame, **roles) if f.level in {"caution", "alarm"}]
    # All checks of the log together may raise something in one log of fifty.
    assert len(raised) <= stats.binom.isf(0.001, LOGS, 0.02), raised


def stale(frame, rng):
    x = frame[["w", "u", "v"]].to_numpy()
    p = np.exp(x @ np.array([[1.0, 0.0, -1.0], [0.0, 0.7, -0.7], [0.3, -0.3, 0.0]]))
    p = 0.8 * p / p.sum(axis=1, keepdims=True) + 0.2 / 3
    return frame.assign(p=p[np.arange(len(x)), frame["a"]])


def permuted(frame, rng):
    return frame.assign(p=rng.permutation(frame["p"]))


def leaked_propensity(frame, rng):
    return frame.assign(w=frame["p"])


def leaked_action(frame, rng):
    return frame.assign(w=np.array(["left", "right", "middle"])[frame["a"]])


@pytest.mark.parametrize("spoil", [stale, permuted, leaked_propensity, leaked_action])
def test_propensities_and_columns_that_contradict_each_other_are_refused(spoil):
    for seed in range(5):
        frame, rng = draw(seed)
        found = checked(spoil(frame, rng))
        assert found["balance"].level == "alarm", found["balance"]
        log = op.BanditLog.from_frame(spoil(frame, rng), **ROLES)
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
        assert ev.verdict().level == "insufficient evidence"


def test_the_whole_distribution_is_compared_row_by_row():
    frame, rng = draw(0)
    x = frame[["u", "v", "w"]].to_numpy()
    p = np.exp(x @ np.array([[1.0, 0.0, -1.0], [0.0, 0.7, -0.7], [0.3, -0.3, 0.0]]))
    p = 0.8 * p / p.sum(axis=1, keepdims=True) + 0.2 / 3
    names = ["p0", "p1", "p2"]
    right = frame.assign(**dict(zip(names, p.T, strict=True)))
    wrong = frame.assign(**dict(zip(names, p[rng.permutation(N)].T, strict=True)))
    assert checked(right, propensity=names)["balance"].level == "ok"
    assert checked(wrong, propensity=names)["balance"].level == "alarm"


# -- leaks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reward", "scaled", "labels"])
def test_a_column_that_knows_the_reward_is_refused(kind):
    frame, rng = draw(1)
    column = {
        "reward": frame["r"],
        "scaled": 3 - 2 * frame["r"],
        "labels": [f"page {int(r)}{k}" for r, k in zip(frame["r"], rng.integers(5, size=N), strict=True)],
    }[kind]
    log = op.BanditLog.from_frame(frame.assign(w=column), **ROLES)
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    assert ev.diagnostics["leaks"].level == "alarm"
    assert "'w'" in ev.diagnostics["leaks"].sentence
    assert ev.verdict().level == "insufficient evidence"


@pytest.mark.parametrize(("included", "level"), [(True, "caution"), (False, "ok")])
def test_a_column_that_counts_clicks_so_far_is_asked_about(included, level, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(500, size=4000), "a": rng.integers(2, size=4000), "p": 0.5})
    frame["r"] = (rng.random(4000) < 0.2) * 1
    frame["clicks"] = frame.groupby("user").r.cumsum() - (0 if included else frame.r)
    roles = {"context": ["clicks"], "action": "a", "reward": "r", "propensity": "p"}
    frame.to_parquet(tmp_path / "log.parquet")
    scan = op.scan(tmp_path / "log.parquet", **roles, way="stream", chunk_rows=900)
    for log in (op.BanditLog.from_frame(frame, **roles), scan):
        found = op.evaluate(log, "always:1", estimators=["SNIPW"]).diagnostics["leaks"]
        assert found.level == level
        assert ("rows in which the context column 'clicks' is 0 has a reward" in found.sentence) == included


# -- copies ----------------------------------------------------------------------------------------


def test_copies_exact_and_jittered():
    frame, rng = draw(2)
    again = frame.iloc[:200]
    exact = checked(pd.concat([frame, again], ignore_index=True))
    assert exact["duplicates"].level == "alarm"
    assert exact["duplicates"].value == pytest.approx(200 / 2200)
    near = again.assign(v=again["v"] + 0.01 * rng.normal(size=200))
    found = checked(pd.concat([frame, near], ignore_index=True))
    assert found["duplicates"]["duplicates"].level == "ok"
    assert found["near_duplicates"].level == "alarm"
    assert found["near_duplicates"].details["column"] == "v"
    assert checked(frame)["near_duplicates"].level == "ok"


@pytest.mark.parametrize("known", [True, False])
def test_coarse_columns_repeat_by_nature(known):
    alarms = []
    for seed in range(LOGS // 2):
        rng = np.random.default_rng(seed)
        x = rng.integers([60, 20, 3], size=(N, 3))  # 3,600 kinds of visitor for 2,000 rows
        a = rng.integers(3, size=N)
        frame = pd.DataFrame(x, columns=["u", "v", "w"])
        frame = frame.assign(a=a, r=(rng.random(N) < 0.01).astype(float), p=1 / 3)
        found = checked(frame, **({} if known else {"propensity": None}))
        alarms += [found[name].level != "ok" for name in ("duplicates", "near_duplicates")]
    assert few(alarms, 0.001)


# -- the pieces ------------------------------------------------------------------------------------


def test_counts_of_few_are_tested_exactly():
    rng = np.random.default_rng(3)
    counts = rng.multinomial(60, [0.9, 0.07, 0.03], size=20_000)
    p = np.array([exact_p(c[c > 0] * 1.0, np.array([0.9, 0.07, 0.03])[c > 0]) for c in counts])
    for level in (0.05, 0.01, 0.001):
        assert few(p < level, level)


@pytest.mark.parametrize("heavy", [False, True])
def test_means_of_skewed_weights(heavy):
    """Off by 3.3 standard errors is one log in a thousand; the plain z of log-normal weights says ten."""
    rng = np.random.default_rng(4)
    plain, corrected = [], []
    for _ in range(4000):
        w = np.exp(rng.normal(size=200) - 0.5) if heavy else 20.0 * (rng.random(1000) < 0.05)
        sample = op.Estimate.from_scores(w).sample()
        corrected.append(abs(mean_z(sample, 1.0)) > 3.3)
        plain.append(abs(sample.estimate - 1) / sample.std_error > 3.3)
    assert np.mean(corrected) < (0.006 if heavy else 0.003)
    assert np.mean(corrected) < np.mean(plain) / (2 if heavy else 1)


def test_few_clusters_have_students_tails():
    assert normal_from_student(4.0, 6) == pytest.approx(stats.norm.isf(stats.t.sf(4.0, 5)))


def test_each_test_states_its_rate():
    tests = {c.name: c.limits.false_alarms for c in CHECKS.values() if c.limits.false_alarms is not None}
    assert {"balance", "leaks", "duplicates", "estimator_disagreement", "pareto_k"} <= set(tests)
    assert all(0 < rate <= 0.01 for rate in tests.values())


# -- verdicts --------------------------------------------------------------------------------------


def best(context):
    """Action 1 where u is positive, else 0."""
    return (np.asarray(context["u"], dtype=float) > 0).astype(int)


def evaluated(frame, roles=(), **settings):
    log = op.BanditLog.from_frame(frame, **{**ROLES, **dict(roles)})
    return op.evaluate(log, best, reward_model=LinearRegression(), **settings)


def test_estimators_far_apart_refuse_for_the_one_that_speaks():
    frame, _ = draw(5, 4000)
    wrong = frame.assign(r=frame["r"] + 3.0 * (frame["u"] > 0))
    # Propensities of a policy that does not look at u: DML and IPW part, each sure of itself.
    ev = evaluated(wrong, behavior_model="shares", randomized=True)
    finding = ev.diagnostics["policy", "estimator_disagreement"]
    assert finding.level == "alarm"
    for name in ("auto", "DML", "IPW"):
        verdict = ev.verdict(estimator=name)
        assert verdict.level == "insufficient evidence"
    assert any(f.name == "estimator_disagreement" for f in ev.verdict(estimator="IPW").findings)


def test_fitted_propensities_need_more_than_a_fit_to_be_trusted():
    frame, _ = draw(6, 4000)
    frame["r"] += 1.0 * (frame["a"] == 1)
    plain = evaluated(frame, {"propensity": None})
    assert plain.verdict().level == "caution"
    assert "nothing outside the context columns" in plain.assumption
    assert any(plain.assumption in reason for reason in plain.verdict().reasons[:-1])
    declared = evaluated(frame, {"propensity": None}, randomized=True)
    assert declared.verdict().level == "trust"
    assert "drawn at random" in declared.assumption
    assert any("drawn at random" in reason for reason in declared.verdict().reasons)
    accepted = evaluated(frame, {"propensity": None}, gamma=1.2)
    assert accepted.verdict().level == "trust"
    assert any("off by a factor of up to 1.2" in reason for reason in accepted.verdict().reasons)
    doubted = evaluated(frame, {"propensity": None}, gamma=10.0)
    assert doubted.verdict().level == "insufficient evidence"
    assert "may be 0" in doubted.verdict().reasons[0]
    assert evaluated(frame).assumption == ""


@pytest.mark.parametrize("wrong", [{"gamma": 0.5}, {"gamma": True}, {"randomized": 1}])
def test_declarations_that_cannot_be_meant(wrong):
    frame, _ = draw(7, 100)
    with pytest.raises(op.errors.UsageError, match=next(iter(wrong))):
        evaluated(frame, {"propensity": None}, **wrong)


def test_what_is_advice_leaves_the_verdict_alone():
    """Purchases of 3% with gamma amounts, a weekly season, 99% success: all of it clean."""
    frame, rng = draw(8, 5000)
    day = np.arange(5000) * 28 // 5000
    p = np.full(5000, 1 / 3)
    a = rng.integers(3, size=5000)
    season = 0.02 * np.cos(2 * np.pi * day / 7)
    spend = (rng.random(5000) < 0.03 + season) * rng.gamma(2.0, 20.0, size=5000)
    for reward in (spend, (rng.random(5000) < 0.99).astype(float)):
        ev = evaluated(frame.assign(a=a, p=p, r=reward, day=day), {"batch": "day"})
        assert ev.verdict().level == "trust", ev.verdict()
