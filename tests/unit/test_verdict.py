"""Verdicts: trust where all is well, refusal where nothing can be known, and the test to settle it."""

import math

import numpy as np
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.errors import NotIdentifiedError, UsageError
from offpolicy.trust.trial import shrunken

RNG = np.random.default_rng(0)
N = 6000
X = RNG.normal(size=N)
A = RNG.integers(2, size=N)
R = (RNG.random(N) < 0.2 + 0.1 * A).astype(float)
LOG = op.BanditLog.from_arrays(X, A, R, np.full(N, 0.5))


@pytest.fixture(scope="module")
def ev():
    policies = {"one": op.policies.Fixed(1), "zero": op.policies.Fixed(0)}
    return op.evaluate(LOG, policies, estimators=["DML", "SNIPW", "IPW"])


def test_a_clean_gain_is_worth_a_test(ev):
    verdict = ev.verdict("one")
    assert verdict.level == "trust"
    assert verdict.test is not None
    text = " ".join(verdict.reasons)
    assert f"Worth an A/B test: {verdict.test.total:,} impressions" in text
    assert "ship" not in text.lower()
    assert str(verdict).startswith("TRUST")


def test_the_size_of_the_test_is_the_textbook_one_for_a_shrunken_difference(ev):
    test = ev.verdict("one").test
    p0, gap = R.mean(), ev["one", "DML"] - ev.logged
    # Two policies were compared: the difference had to clear the bar of the larger of two.
    bar = (gap.value - ev.compare().differences["one"].low) / gap.std_error
    strength = gap.value / gap.std_error
    planned = gap.value * shrunken(strength, bar) / strength
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    p1 = p0 + planned
    expected = z**2 * (p0 * (1 - p0) + p1 * (1 - p1)) / planned**2
    assert test.per_arm == math.ceil(expected)
    assert test.total == 2 * test.per_arm
    assert test.difference == pytest.approx(planned)
    assert test.estimated == pytest.approx(gap.value)
    assert "shrunk to offset selection" in str(test)


def test_the_intervals_that_a_verdict_quotes_have_its_level(ev):
    low, high = ev["one", "DML"].interval(0.8)
    quoted = f"(80% interval {low:.4g} to {high:.4g}"
    assert any(quoted in reason for reason in ev.verdict("one", level=0.8).reasons)


def test_a_clear_loss_is_not_worth_a_test(ev):
    assert any("not worth an A/B test" in r for r in ev.verdict("zero").reasons)


def test_names_are_checked(ev):
    with pytest.raises(UsageError, match="Did you mean 'zero'"):
        ev.verdict("zeros")
    with pytest.raises(UsageError, match="name the policy"):
        ev.verdict()
    with pytest.raises(KeyError):
        ev.verdict("one", "DMM")


def test_clusters_are_what_a_test_would_randomize():
    log = op.BanditLog.from_arrays(X, A, R, np.full(N, 0.5), cluster=np.arange(N) // 4)
    test = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test
    alone = op.evaluate(LOG, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test
    assert "cluster" in test.unit
    assert test.total == pytest.approx(alone.total / 4, rel=0.2)


def test_no_overlap_is_refused_with_a_reason():
    log = op.BanditLog.from_arrays(None, [0] * 100, R[:100], [0.5] * 100, actions=[0, 1])
    verdict = op.evaluate(log, op.policies.Fixed(1)).verdict()
    assert verdict.level == "insufficient evidence"
    assert "no overlap" in verdict.reasons[0].lower()


def test_a_handful_of_matches_is_refused_and_named():
    a = np.zeros(3000, dtype=int)
    a[:4] = 1
    p = np.where(a == 1, 0.001, 0.999)
    log = op.BanditLog.from_arrays(None, a, RNG.random(3000), p)
    verdict = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict()
    assert verdict.level == "insufficient evidence"
    assert any("4 of its 3,000 units" in r for r in verdict.reasons)
    assert "cannot tell" in verdict.reasons[-1]


def test_heavy_tails_are_refused():
    rng = np.random.default_rng(1)
    p = np.clip(rng.random(N) ** 6, 1e-9, 1)
    a = (rng.random(N) >= p).astype(int)
    log = op.BanditLog.from_arrays(p, a, rng.random(N), np.where(a == 0, p, 1 - p))
    ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW"])
    assert float(ev.diagnostics["pareto_k"]) > 0.7
    assert ev.verdict().level == "insufficient evidence"


def test_few_successes_make_a_caution_and_an_exact_interval():
    rng = np.random.default_rng(3)
    a = rng.integers(50, size=5000)
    r = (rng.random(5000) < 0.01).astype(float)
    log = op.BanditLog.from_arrays(None, a, r, np.full(5000, 0.02), actions=range(50))
    ev = op.evaluate(log, op.policies.Fixed(3), estimators=["IPW"])
    interval = ev["policy", "IPW"].interval()
    assert interval.method == "clopper-pearson"
    matched = a == 3
    exact = stats.binomtest(int(r[matched].sum()), int(matched.sum())).proportion_ci()
    assert tuple(interval) == pytest.approx((exact.low, exact.high))
    assert ev.verdict().level == "caution"


def test_the_direct_method_alone_is_no_evidence():
    verdict = op.evaluate(LOG, op.policies.Fixed(1), estimators=["DM"]).verdict()
    assert verdict.level == "insufficient evidence"
    assert any("DM is the only estimator" in r for r in verdict.reasons)


def test_the_logging_policy_itself_needs_no_test():
    verdict = op.evaluate(LOG, op.policies.Uniform(), estimators=["IPW"]).verdict()
    assert verdict.test is None
    assert verdict.level == "trust"


def test_easy_worlds_are_rarely_refused():
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = rng.integers(3, size=800)
        r = (rng.random(800) < 0.3 + 0.1 * (a == 2)).astype(float)
        log = op.BanditLog.from_arrays(None, a, r, np.full(800, 1 / 3))
        found = op.evaluate(log, op.policies.Fixed(2), estimators=["SNIPW", "IPW"]).verdict()
        refused += found.level == "insufficient evidence"
    assert refused <= 2


# -- several policies ------------------------------------------------------------------------------


def test_comparison(ev):
    compared = ev.compare(0.9)
    assert compared.best.names == ("one",)
    assert compared.p_values["one"] < 0.01
    one, gap = compared.values["one"], compared.differences["one"]
    assert one.width > ev["one", "DML"].interval(0.9, "normal").width
    assert gap.covers((ev["one", "DML"] - ev.logged).value)
    assert "10% error rate" in str(compared)


def test_a_single_policy_has_the_usual_interval():
    ev = op.evaluate(LOG, op.policies.Fixed(1), estimators=["IPW"])
    alone = ev.compare().differences["policy"]
    usual = (ev["IPW"] - ev.logged).interval(0.95, "normal")
    assert tuple(alone) == pytest.approx(tuple(usual), abs=0.03 * usual.width)


def test_policies_without_overlap_cannot_be_compared():
    log = op.BanditLog.from_arrays(None, [0] * 50, R[:50], [0.5] * 50, actions=[0, 1])
    with pytest.raises(NotIdentifiedError, match="policy"):
        op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]).compare()
