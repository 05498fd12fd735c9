"""Sizes of A/B tests: the target's own variance, kept rows, clusters, and a difference that was not selected."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.inference.comparison import Change
from offpolicy.show.answer import answers
from offpolicy.show.schema import document
from offpolicy.trust.trial import ab_test, shrunken

RNG = np.random.default_rng(0)
QUANTILES = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)


@pytest.mark.parametrize("bar", [1.282, 1.96, 2.576, 2.81, 3.29])
def test_the_promised_power_holds_on_average_over_the_logs_that_propose_a_test(bar):
    """z ~ N(t, 1) of those beyond a bar; the true power of a test sized for the shrunken z."""
    z = np.linspace(bar, bar + 25, 6000)
    size = np.array([shrunken(x, bar) for x in z])
    for truth in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0):
        weight = stats.norm.pdf(z - truth)
        power = stats.norm.sf(1.96 - QUANTILES * truth / size)
        average = float(weight @ power / weight.sum())
        assert 0.74 < average < 0.9, (truth, average)


@pytest.mark.parametrize("clustered", [False, True])
def test_a_difference_of_many_standard_errors_is_hardly_shrunken(clustered):
    """Ratings are no coin: far out their intervals are likelihood ones, which say less than they know at 95%."""
    rng, n = np.random.default_rng(4), 3000
    a = rng.integers(2, size=n)
    r = 1.0 + rng.binomial(4, 0.3 + 0.2 * a)
    users = rng.integers(600, size=n) if clustered else None
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.5), cluster=users)
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    gap = ev["SNIPW"] - ev.logged
    assert gap.value > 8 * gap.std_error
    assert ev.verdict().test.difference == pytest.approx(gap.value, rel=0.02)


def test_one_of_several_policies_is_shrunken_more():
    rng, n = np.random.default_rng(3), 4000
    a = rng.integers(4, size=n)
    r = 1.0 + 0.12 * (a == 1) + rng.normal(size=n)
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.25), actions=range(4))
    alone = op.evaluate(log, {"p1": op.policies.Fixed(1)}, estimators=["SNIPW"])
    many = alone.add({f"p{j}": op.policies.Fixed(j) for j in (0, 2, 3)})
    tests = [ev.verdict("p1").test for ev in (alone, many)]
    assert not any(t.assumed for t in tests)
    assert tests[1].difference < tests[0].difference


def test_the_variance_of_the_new_arm_is_its_own():
    n = 20_000
    a = RNG.integers(2, size=n)
    r = 1.0 + 0.3 * a + np.where(a == 1, 5.0, 0.5) * RNG.normal(size=n)
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.5))
    test = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test
    spread = r.var() + r[a == 1].var()
    assert test.per_arm == pytest.approx(QUANTILES**2 * spread / test.difference**2, rel=0.01)


def test_a_log_of_kept_rows_speaks_of_all_impressions():
    n = 40_000
    a = RNG.integers(2, size=n)
    r = (RNG.random(n) < 0.04 + 0.02 * a).astype(float)
    keep = np.where(r == 1, 1.0, 0.1)
    kept = RNG.random(n) < keep
    frame = pd.DataFrame({"a": a, "r": r, "p": 0.5, "keep": keep, "x": 0.0})
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    tests = []
    for rows, extra in ((frame, {}), (frame[kept], {"keep_probability": "keep"})):
        log = op.BanditLog.from_frame(rows.reset_index(drop=True), **roles, **extra)
        tests.append(op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test)
    whole, part = tests
    assert not whole.assumed
    assert not part.assumed
    assert part.total * part.difference**2 == pytest.approx(whole.total * whole.difference**2, rel=0.1)


def test_where_the_difference_may_be_0_the_test_is_of_a_relevant_change():
    n = 2000
    a, noise = np.arange(n) % 2, np.random.default_rng(1).normal(size=n)
    log = op.BanditLog.from_arrays(None, a, 1.0 + noise, np.full(n, 0.5))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    assert (ev["SNIPW"] - ev.logged).interval().covers(0.0)
    test = ev.verdict().test
    assert test.assumed
    assert test.difference == pytest.approx(0.1 * ev.logged.value)
    assert "10% of the logged value" in str(test)


def test_an_estimate_at_the_end_of_a_borrowed_interval_has_a_size_too():
    """A biased estimate below the doubly robust interval is where that interval, stretched, begins."""
    rng = np.random.default_rng(0)
    n = 2_000
    action = rng.integers(2, size=n)
    reward = (rng.random(n) < np.where(action == 1, 0.8, 0.2)).astype(float)
    log = op.BanditLog.from_arrays(None, action, reward, np.full(n, 0.5))
    q = np.column_stack([np.full(n, 0.2), 0.6 + 0.05 * rng.random(n)])
    policies = {"one": op.policies.Fixed(1), "also": op.policies.Constant({0: 0.1, 1: 0.9})}
    ev = op.evaluate(log, policies, estimators=["DML", "DM"], reward_model=q)
    gap = ev["one", "DM"] - ev.logged
    own = gap.interval()
    assert own.low == gap.value
    among_two = replace(own, low=own.low - 0.01)  # corrected for the other policy
    test = ab_test(ev, ev["one", "DM"], Change(gap, among_two, is_lift=False))
    assert test.total > 0


def just_above_the_bar():
    """Two arms whose difference is 2.1 standard errors, of 2,000 impressions."""
    n = 2000
    a, noise = np.arange(n) % 2, np.random.default_rng(1).normal(size=n)
    noise -= np.where(a == 1, noise[a == 1].mean(), noise[a == 0].mean())
    r = 1.0 + noise + 2.1 * a * 2 / np.sqrt(n)
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.5))
    return op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"])


def test_a_test_of_many_logs_is_not_proposed_as_one_to_plan():
    ev = just_above_the_bar()
    test = ev.verdict().test
    assert not test.assumed
    assert test.logs == pytest.approx(test.total / 2000)
    assert test.logs > 10
    told = " ".join(ev.verdict().reasons)
    assert "Worth an A/B test" not in told
    assert "times this log" in told
    said = answers(ev)[0].text
    assert "size of the gain is uncertain" in said
    assert "Worth an A/B test" not in said
    assert "times this log" in said


@pytest.mark.parametrize("effect", [0.4, -0.4])
def test_a_proposed_test_says_what_it_would_detect(effect):
    rng, n = np.random.default_rng(5), 3000
    a = rng.integers(2, size=n)
    r = -2.0 + effect * a + rng.normal(size=n)
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.5))
    ev = op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"], minimize=effect < 0)
    test = ev.verdict().test
    assert test.is_reasonable
    assert test.relative == pytest.approx(test.difference / abs(ev.logged.value))
    share = f"{100 * abs(test.relative):.2g}%"
    word = "gain" if effect > 0 else "drop"
    assert f"would detect a {word} of {share}" in answers(ev)[0].text
    assert f"to detect a {word} of {share}" in answers(ev)[0].numbers[-1].remark
    written = document(ev)["verdicts"]["new"]["test"]
    assert written["difference"] == test.difference
    assert written["total"] == test.total == 2 * written["per_arm"]


def test_where_there_may_be_no_difference_the_sentence_names_the_change_of_the_test():
    n = 2000
    a, noise = np.arange(n) % 2, np.random.default_rng(1).normal(size=n)
    log = op.BanditLog.from_arrays(None, a, 1.0 + noise, np.full(n, 0.5))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    assert "would detect a change of 10%" in answers(ev)[0].text
