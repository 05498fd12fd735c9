"""P-values against their intervals, and families against the draws that they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from offpolicy.inference import confidence as inversion
from offpolicy.inference import family
from offpolicy.inference import family as multiple
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.rules import critical
from offpolicy.inference.registry import method_named
from offpolicy.inference.score_table import Units

RNG = np.random.default_rng(31)


def normal_scores(n, mean=0.0, spread=1.0):
    """Scores with exactly this mean and standard deviation, and no skewness."""
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return mean + spread * (x - x.mean()) / x.std()


# -- p-values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "law"), [(400, stats.norm()), (200, stats.norm()), (199, stats.t(198)), (40, stats.t(39))]
)
def test_p_values_of_balanced_scores(n, law):
    e = Estimate.from_scores(normal_scores(n, 1.0))
    factor = 1.0 if n >= 200 else math.sqrt((n - 1) / n)
    for null in (0.9, 1.03, 1.0 - 2.2 / math.sqrt(n), 1.0 + 5 / math.sqrt(n)):
        z = (1.0 - null) * math.sqrt(n) * factor
        assert e.p_value(null) == pytest.approx(2 * law.sf(abs(z)), rel=1e-6)
        assert e.p_value(null, "greater") == pytest.approx(law.sf(z), rel=1e-6)
        assert e.p_value(null, "less") == pytest.approx(law.cdf(z), rel=1e-6)
    assert e.p_value(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["empirical-likelihood", "cautious-likelihood", "auto"])
def test_a_p_value_is_where_an_end_of_the_interval_meets_the_null(method):
    skewed = np.append(np.linspace(0, 1, 60) ** 3, [2.0, 2.5, 4.0])
    e = Estimate.from_scores(skewed)
    for null in (
        e.value - 3 * e.std_error,
        e.value - 0.4 * e.std_error,
        e.value + e.std_error,
        e.value + 2.5 * e.std_error,
    ):
        p = e.p_value(null, method=method)
        interval = e.interval(1 - p, method)
        end = interval.low if null < e.value else interval.high
        assert end == pytest.approx(null, abs=2e-6 * e.std_error)
        inside = e.interval(0.95, method).covers(null)
        assert inside is (p > 0.05)


def test_ends_of_p_values():
    e = Estimate.from_scores(np.append(np.linspace(0, 1, 60) ** 3, [2.0, 2.5]))
    likely = {"method": "empirical-likelihood"}
    assert e.p_value(-50.0, **likely) == 1e-12
    assert e.p_value(e.value, **likely) == 1.0
    assert math.isnan(Estimate.from_scores([math.nan, 1.0]).p_value())
    assert math.isnan(Estimate.from_scores([1.0, 1.0]).p_value())
    assert method_named("bca").p_value is None
    flat = Estimate.from_scores([2.0, 2.0])
    assert [method_named("normal").p_value(flat, v) for v in (2.0, 1.0)] == [1.0, 0.0]
    units = Units(300)
    same = Estimate.from_scores(normal_scores(300), units=units)
    zero = same - same
    assert (zero.interval().method, zero.p_value(0.0), zero.p_value(0.1)) == ("exact", 1.0, 0.0)


def test_the_search_for_a_crossing():
    asked = []

    def falling(x):
        asked.append(x)
        return 2.0 - x**3

    root = inversion.crossing(falling, (0.0, 2.0), (2.0, -6.0))
    assert root == pytest.approx(2 ** (1 / 3), abs=1e-6)
    assert asked[0] == pytest.approx(0.5)  # along the chord
    assert len(asked) <= 12
    assert inversion.crossing(lambda x: -1.0 if x > 0.3 else 1.0, (0.0, 1.0), (1.0, -1.0)) == pytest.approx(
        0.3, abs=1e-6
    )
    steep = inversion.crossing(lambda x: math.exp(-9 * x) - 0.5, (0.0, 20.0), (0.5, -0.5))
    assert steep == pytest.approx(math.log(2) / 9, abs=1e-6)


# -- families ----------------------------------------------------------------------------------------------


def three(n=900):
    units = Units(n)
    base = RNG.normal(size=n)
    return [
        Estimate.from_scores(m + base + RNG.normal(size=n), units=units, label=k)
        for k, m in (("a", 0.0), ("b", 0.5), ("c", 0.1))
    ]


@pytest.mark.parametrize("n", [900, 150])
def test_intervals_that_share_a_critical_value(n):
    es = three(n)
    psi = np.stack([e.psi[0] for e in es])
    sigma = np.cov(psi, bias=True) / n
    assert family.covariance(es) == pytest.approx(sigma)
    maxima = multiple.largest_t(sigma, degrees=n - 1 if n < 200 else None)
    if n < 200:
        maxima = maxima * math.sqrt(n / (n - 1))
    factor = min(critical(1 - 0.1 / 3, n), np.quantile(maxima, 0.9))
    made = family.together(es, 0.9, tested=True)
    for e, i, p in zip(es, made.intervals, made.p_values, strict=True):
        assert (i.low, i.high) == pytest.approx((e.value - factor * e.std_error, e.value + factor * e.std_error))
        assert (i.method, i.level) == ("max-t", 0.9)
        assert i.note == f"holds at once with 2 others; {n} independent units with balanced scores"
        larger = (maxima >= abs(e.value) / e.std_error).sum()
        assert p == pytest.approx(min((1 + larger) / (1 + len(maxima)), max(min(1.0, 3 * e.p_value()), 0)))
    assert np.isnan(family.together(es, 0.9).p_values).all()
    alone = family.together(es[:1], 0.9, tested=True)
    assert tuple(alone.intervals[0]) == tuple(es[0].interval(0.9))
    assert alone.p_values == (pytest.approx(es[0].p_value()),)


def test_some_of_a_family_share_the_rest_stand_alone():
    units = Units(500)
    rare = np.zeros(500)
    rare[:12] = 1.0
    es = [*(Estimate.from_scores(normal_scores(500)[RNG.permutation(500)], units=units) for _ in range(2)),
          Estimate.from_scores(rare, units=units)]  # fmt: skip
    made = family.together(es, 0.95, tested=True)
    assert [i.method for i in made.intervals[:2]] == ["max-t", "max-t"]
    own = es[2].interval(family.adjusted(0.95, 3))
    assert (made.intervals[2].low, made.intervals[2].method) == (own.low, own.method)
    maxima = multiple.largest_t(family.covariance(es[:2]))
    factor = min(critical(1 - 0.05 / 3, 500), np.quantile(maxima, 1 - 0.05 * 2 / 3))
    assert made.intervals[0].high == pytest.approx(es[0].value + factor * es[0].std_error)


def test_covariances_in_blocks_with_clusters_and_counts(monkeypatch):
    n = 60
    for units in (
        Units(n, cluster=np.arange(n) // 3),
        Units(n, count=np.arange(n) % 3 + 1.0),
        Units(n, weight=np.arange(n) % 2 + 1.0),
    ):
        es = [Estimate.from_scores(RNG.normal(size=n), units=units) for _ in range(5)]
        whole = family.covariance(es)
        assert np.sqrt(np.diag(whole)) == pytest.approx([e.std_error for e in es])
        assert whole[0, 1] == pytest.approx(
            (es[0].std_error ** 2 + es[1].std_error ** 2 - (es[0] - es[1]).std_error ** 2) / 2
        )
        for cells in (1, 4 * n, 6 * n):
            monkeypatch.setattr(family, "MOST_CELLS", cells)
            assert family.covariance(es) == pytest.approx(whole)
        monkeypatch.undo()


def test_bonferronis_p_value_is_looked_for_only_where_it_is_below_one():
    e = Estimate.from_scores(normal_scores(400, 0.0))
    for z, number in ((3.0, 5), (1.7, 5), (0.9, 1), (2.0, 2)):
        at = Estimate.from_scores(normal_scores(400, z / 20))
        assert family._p_value(at, number) == pytest.approx(min(1.0, number * 2 * stats.norm.sf(z)), rel=1e-6)
    assert family._p_value(e, 3) == 1.0
    assert [family.adjusted(0.9, k) for k in (0, 1, 4)] == [0.9, 0.9, 0.975]
