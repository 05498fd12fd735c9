"""Intervals of an estimate by name: each is the one of `offpolicy.inference.intervals` on the same units."""

import numpy as np
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference import intervals
from offpolicy.inference.estimate import Estimate, Units
from offpolicy.inference.methods import pair_of
from offpolicy.inference.registry import names

RNG = np.random.default_rng(0)
N = 2000
A = RNG.integers(2, size=N)
R = (RNG.random(N) < 0.3).astype(float)
LOG = op.BanditLog.from_arrays(None, A, R, np.full(N, 0.5), batch=np.arange(N) // 200)
EV = op.evaluate(LOG, {"one": op.policies.Fixed(1), "zero": op.policies.Fixed(0)}, estimators=["IPW"])
E = EV["one", "IPW"]
W = 2.0 * A


def test_every_name_gives_an_interval_around_the_estimate():
    lift = E.lift(EV.logged)
    for method in names():
        e = lift if method in {"delta", "fieller", "log-scale"} else E
        found = e.interval(0.9, method)
        assert found.low <= e.value <= found.high, method
        assert found.level == 0.9
    for alias in ("bernstein", "anytime", "adaptive", "percentile"):
        assert E.interval(method=alias).width > 0


def test_names_lead_to_the_functions():
    sample = intervals.Sample.of_mean(W * R)
    assert tuple(E.interval(method="t")) == pytest.approx(tuple(intervals.student(sample)))
    assert tuple(E.interval(method="bca", seed=3)) == tuple(intervals.bca(sample, seed=3))
    assert tuple(E.interval(method="empirical-likelihood")) == pytest.approx(
        tuple(intervals.empirical_likelihood(sample))
    )
    assert tuple(E.interval(method="hoeffding")) == pytest.approx(tuple(intervals.hoeffding(sample, low=0, high=2)))
    won, tried = int(R[A == 1].sum()), int((A == 1).sum())
    exact = stats.binomtest(won, tried).proportion_ci()
    assert E.interval(method="clopper-pearson").low == pytest.approx(min(exact.low, E.value))


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(UsageError, match="Did you mean 'normal'"):
        E.interval(method="norml")


def test_what_a_method_needs_is_said():
    other = Estimate.from_scores(RNG.normal(size=50))
    for method in ("clopper-pearson", "cressie-read", "anytime", "hoeffding", "adaptive", "fieller"):
        with pytest.raises(UsageError, match=r"needs|for a lift"):
            other.interval(method=method)
    wide = op.BanditLog.from_arrays(None, A, R * 3 - 1.5 * RNG.random(N), np.full(N, 0.5))
    e = op.evaluate(wide, op.policies.Fixed(1), estimators=["IPW"])["IPW"]
    with pytest.raises(UsageError, match="reward_range"):
        e.interval(method="cressie-read")
    found = e.interval(method="cressie-read", reward_range=(-1.5, 3))
    assert found.low < e.value < found.high


@pytest.mark.parametrize("name", ["SNIPW", "SNDR", "auto", "MinVar"])
def test_batches_are_combined_where_each_has_the_right_mean(name):
    """Coefficients and normalizing means of the whole log are known only after its last batch."""
    log = op.BanditLog.from_arrays(None, A, R, np.full(N, 0.5), batch=np.arange(N) // 200)
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW", "DML", name])
    for method in ("adaptive", "batch-pooled"):
        assert (ev["DML"] - ev.logged).interval(method=method).width > 0
        for e in (ev[name], ev[name] - ev.logged, 2.0 * ev[name], ev["IPW"].lift(ev.logged)):
            with pytest.raises(UsageError, match="means over the whole log"):
                e.interval(method=method)


def test_auto_says_what_it_picked_and_why():
    found = E.interval()
    assert found.method == "normal"
    assert "2,000 independent units" in found.note
    few = Estimate.from_scores(RNG.normal(size=40)).interval()
    assert few.method == "t"


def test_undefined_estimates_have_no_interval():
    e = Estimate.from_scores([np.nan, np.nan])
    assert all(np.isnan(end) for end in e.interval())


def test_repetitions_widen_every_method():
    psi = RNG.normal(size=(5, 300)) + np.array([[0.0], [0.5], [-0.5], [0.2], [-0.2]])
    e = Estimate.from_scores(psi)
    assert e.sample().std_error == pytest.approx(e.std_error)
    assert e.sample().estimate == pytest.approx(e.value)
    normal = e.interval(method="normal")
    assert normal.width == pytest.approx(2 * stats.norm.ppf(0.975) * e.std_error)


def test_half_sample_estimates_use_their_half():
    ev = op.evaluate(LOG, op.policies.Fixed(1), estimators=["DR-half"], reward_model=np.zeros((N, 2)))
    e = ev["DR-half"]
    half = ev.problem.folds.scored("half", 0)
    psi = (W * R)[half]
    assert e.sample().total == len(half)
    assert e.interval(method="t").width == pytest.approx(intervals.student(intervals.Sample.of_mean(psi)).width)


def test_differences_of_rare_events_are_narrower_than_their_parts_side_by_side():
    rng = np.random.default_rng(1)
    a = rng.integers(50, size=3000)
    r = (rng.random(3000) < 0.01).astype(float)
    log = op.BanditLog.from_arrays(None, a, r, np.full(3000, 0.02), actions=range(50))
    ev = op.evaluate(log, op.policies.Fixed(3), estimators=["IPW"])
    found = (ev["IPW"] - ev.logged).interval(0.9)
    assert found.method == "bounded-likelihood"
    top, bottom = ev["IPW"].interval(0.95), ev.logged.interval(0.95)
    assert found.width < (top.high - bottom.low) - (top.low - bottom.high)


def test_no_interval_says_that_clicks_are_more_than_all():
    rng = np.random.default_rng(3)
    a = rng.integers(2, size=60)
    r = (rng.random(60) < np.where(a == 1, 0.97, 0.4)).astype(float)
    log = op.BanditLog.from_arrays(None, a, r, np.full(60, 0.5), actions=range(2))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW", "IPW"])
    for name in ("SNIPW", "IPW"):
        assert ev[name].interval().high <= 1
    stars = op.BanditLog.from_arrays(None, a, 1 + 4 * r, np.full(60, 0.5), actions=range(2))
    found = op.evaluate(stars, op.policies.Fixed(1), estimators=["IPW"])["IPW"].interval(0.999)
    assert found.high <= 5


def test_a_lift_over_what_may_be_nothing_is_refused():
    noise = Estimate.from_scores(RNG.normal(size=400))
    other = Estimate.from_scores(RNG.normal(size=400), units=noise.units)
    lift = other.lift(noise).interval()
    assert not lift.sufficient
    assert lift.unbounded == "on both sides"
    assert "contains 0" in lift.reason
    assert "refused" in repr(other.lift(noise))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_lift_over_a_near_base_is_fiellers_and_mirrors(sign):
    rng = np.random.default_rng(3)
    base = Estimate.from_scores(sign * (1.0 + 3.0 * rng.normal(size=400)))
    other = Estimate.from_scores(sign * (1.5 + 3.0 * rng.normal(size=400)), units=base.units)
    lift = other.lift(base)
    found = lift.interval()
    assert found.method == "fieller"
    assert lift.value == pytest.approx((other.value - base.value) / abs(base.value))
    assert found.covers(lift.value)
    mirrored = Estimate.from_scores(-other.psi[0], units=base.units).lift(
        Estimate.from_scores(-base.psi[0], units=base.units)
    )
    assert tuple(mirrored.interval()) == pytest.approx((-found.high, -found.low))


def test_pairs_carry_the_covariance():
    x, y = RNG.normal(size=300), RNG.normal(size=300)
    y += x
    units = Units(300)
    pair = pair_of(Estimate.from_scores(x, units=units), Estimate.from_scores(y, units=units))
    assert pair.covariance == pytest.approx(np.cov(x, y, bias=True)[0, 1] / 300)


def test_clusters_and_weights_keep_to_scores():
    log = op.BanditLog.from_arrays(None, A, R, np.full(N, 0.5), cluster=np.arange(N) // 2)
    e = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])["IPW"]
    assert e.known() is None
    assert e.interval().method == "normal"
    with pytest.raises(UsageError, match="independent"):
        e.interval(method="clopper-pearson")


def test_the_largest_weight_is_known_from_the_design():
    assert E.known().weight_high == 2
    whole = np.tile([0.2, 0.8], (N, 1))
    a = (RNG.random(N) < 0.8).astype(int)
    e = op.evaluate(op.BanditLog.from_arrays(None, a, R, whole), np.tile([0.5, 0.5], (N, 1)), estimators=["IPW"])["IPW"]
    assert e.known().weight_high == pytest.approx(2.5)
    unknown = op.evaluate(op.BanditLog.from_arrays(None, A, R), op.policies.Fixed(1), estimators=["IPW"])["IPW"]
    assert unknown.known().weight_high is None
