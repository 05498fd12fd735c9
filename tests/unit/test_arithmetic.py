"""Sums and multiples of estimates."""

from __future__ import annotations

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.score_table import Units


def evaluation(n: int = 800, *, rare: float = 0.3, seed: int = 0) -> op.Evaluation:
    rng = np.random.default_rng(seed)
    a = rng.integers(4, size=n)
    click = (rng.random(n) < rare * (1 + (a == 1)) / 2).astype(float)
    rewards = {"click": click, "cost": 1 + a + rng.normal(size=n)}
    log = op.BanditLog.from_arrays(None, a, rewards, np.full(n, 0.25))
    policies = {"one": op.policies.Fixed(1), "two": op.policies.Fixed(2)}
    return op.evaluate(log, policies, estimators=["DML", "IPW", "DM"])


METHODS = ["auto", "normal", "t", "empirical-likelihood", "bca"]


@pytest.mark.parametrize("factor", [2.0, -1.0, 0.3, -0.07, 3])
def test_a_multiple_has_the_same_multiple_of_every_interval(factor: float):
    for ev in (evaluation(), evaluation(rare=0.02)):
        for e in (*ev.estimates.values(), ev["one", "DML"] - ev["two", "DML"], ev.logged):
            for method in METHODS:
                ends = sorted(factor * end for end in e.interval(method=method))
                assert list((factor * e).interval(method=method)) == ends
            assert (factor * e).value == factor * e.value
            assert (e * factor).std_error == abs(factor) * e.std_error
            np.testing.assert_allclose((factor * e).psi, factor * e.psi)
    assert (e / 2).value == e.value / 2


def test_multiples_of_multiples_and_terms_that_cancel():
    ev = evaluation()
    a, b = ev["one", "DML"], ev["two", "DML"]
    assert (2 * (3 * a)).of.factors == (6.0,)
    assert 1 * a is a
    assert a + b - b is a
    assert (a + a).interval() == (2 * a).interval()
    assert (2 * a - 2 * b).interval() == (2 * (a - b)).interval()
    assert tuple((a - a).interval()) == (0.0, 0.0)
    assert (sum([a, b]) - a - b).value == 0
    assert tuple((2 * a).lift(2 * b).interval()) == tuple(a.lift(b).interval())
    assert tuple((-a).lift(-b).interval()) == tuple((-a.lift(b)).interval())
    with pytest.raises(UsageError, match="cannot be multiplied"):
        _ = a * float("inf")
    with pytest.raises(TypeError):
        _ = a * "2"
    with pytest.raises(TypeError):
        _ = a + 1


def test_a_sum_is_the_mean_of_summed_scores():
    ev = evaluation()
    click, cost = ev["one", "DML"], ev.metric("cost")["one", "DML"]
    margin = click - 0.3 * cost
    scores = click.psi[0] - 0.3 * cost.psi[0]
    assert margin.value == pytest.approx(scores.mean())
    assert margin.std_error == pytest.approx(scores.std() / np.sqrt(len(scores)))
    assert margin.interval().method == "normal"
    assert margin.label == "click of one (DML) − 0.3 · cost of one (DML)"
    assert margin.std_error < click.std_error + 0.3 * cost.std_error


def test_where_a_term_has_few_large_scores_the_sum_brackets_it():
    ev = evaluation(300, rare=0.03)
    click, cost = ev["one", "IPW"], ev.metric("cost")["one", "IPW"]
    assert click.interval().method == "clopper-pearson"
    interval = (click - cost).interval()
    assert interval.method == "bonferroni"
    (low, high), (least, most) = click.interval(0.975), cost.interval(0.975)
    assert tuple(interval) == pytest.approx((low - most, high - least))
    # A difference of two metrics never takes the evidence of one of them for both.
    assert (click - cost).evidence is None


def test_a_refused_term_refuses_the_sum():
    ev = evaluation(300)
    lone = op.evaluate(ev.problem.log, {"one": op.policies.Fixed(1)}, estimators=["DM"])  # no reference for its bias
    total = lone["one", "DM"] + lone.metric("cost")["one", "DM"]
    assert not total.interval().sufficient
    assert "has no interval" in total.interval().reason


def test_estimates_of_other_units_are_not_added():
    a = Estimate.from_scores([1.0, 2.0], units=Units(2))
    b = Estimate.from_scores([1.0, 2.0, 3.0], units=Units(3))
    with pytest.raises(UsageError, match="different units"):
        _ = a + b
