"""The catalog of scores, the checker of scores, and decisions: every promise and refusal."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import said, world

from offpolicy.errors import UsageError
from offpolicy.logs.layout import Layout
from offpolicy.logs.link import Link
from offpolicy.scores import catalog, formulas
from offpolicy.scores import formulas as normalized
from offpolicy.scores.catalog import Estimator, apply, named, resolve
from offpolicy.scores.decisions import Decisions, Ledger, undeclared, variance_emphasis
from offpolicy.scores.formulas import Scored
from offpolicy.testing import check_score

# -- catalog -----------------------------------------------------------------------------------------------


def test_what_estimators_say_of_themselves():
    direct, marginal = named("DM"), named("DRL")
    assert (direct.is_direct, marginal.is_direct, named("IPW").is_direct) == (True, False, False)
    uses = [named(n).uses_products for n in ("DM", "IPW", "DML", "DRL")]
    assert uses == [False, True, True, False]
    assert [named(n).by_block for n in ("IPW", "SNIPW", "auto")] == [True, True, False]
    assert [named(n).counts for n in ("IPW", "SNIPW", "auto", "WIS")] == [True, True, True, False]
    said_of = {n: named(n).why_biased(weights_known=False) for n in ("DM", "SWITCH", "MinVar", "DML")}
    assert said_of == {
        "DM": "its standard error ignores the error of its model",
        "SWITCH": "its standard error ignores the bias that it accepts for less variance",
        "MinVar": "its standard error treats the fitted π_b as the true one",
        "DML": "",
    }
    assert named("MinVar").why_biased(weights_known=True) == ""
    ranks = {n: named(n).rank for n in ("SNDR", "SNDR-cf", "SNDR-full", "IPW-full", "IPW-half", "SWITCH", "WDR")}
    assert ranks == {"SNDR": 5, "SNDR-cf": 5, "SNDR-full": 6, "IPW-full": 14, "IPW-half": 15, "SWITCH": 100, "WDR": 6}
    order = sorted((e for e in (named(n) for n in catalog.known_names()) if e.rank < 100), key=lambda e: e.rank)
    assert [e.name for e in order if "-" not in e.name] == [
        "auto", "DML", "MinVar", "DRL", "SNDR", "WDR", "SNIPW", "IPW", "DM",
    ]  # fmt: skip
    robust = [n for n in catalog.known_names() if named(n).is_robust]
    assert {"DML", "DR-half", "DR-cf", "SNDR", "MRDR", "WDR", "SNDR-half"} <= set(robust)
    assert not any(n.endswith("-full") for n in robust)
    assert "DR" not in catalog.known_names()
    asked = ("linear_in_reward", "whole_log_means", "takes_counts", "is_product", "biased", "needs_known_weights")
    flags = {n: tuple(getattr(named(n), flag) for flag in asked) for n in ("DM", "IPW", "SNIPW", "MinVar", "MAGIC")}
    assert flags == {
        "DM": (True, False, False, False, True, False), "IPW": (True, False, False, True, False, False),
        "SNIPW": (False, True, False, False, False, False), "MinVar": (False, False, True, False, False, True),
        "MAGIC": (False, False, False, False, True, False),
    }  # fmt: skip
    plain = Estimator("mine", lambda d: d.reward)
    assert (plain.rank, plain.linear_in_reward, plain.counts, plain.biased, plain.is_robust) == (
        100,
        False,
        False,
        False,
        False,
    )
    assert (catalog.AUTO_NUMBERS.whole_log_means, catalog.AUTO_NUMBERS.is_robust) == (True, True)
    assert Scored(np.zeros(1)) .model_share == 1.0  # fmt: skip
    assert (Scored(np.zeros(1)).looks_back, Scored(np.zeros(1)).products) == (0.0, None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: named("DR"), "no estimator is called 'DR'."),
        (lambda: named("IPX"), "no estimator is called 'IPX'. Did you mean 'IPW'?"),
        (lambda: resolve([], "bandit"), "estimators= is empty. Name at least one, or leave it out."),
        (lambda: resolve([3], "bandit"), "estimators= takes names and offpolicy.Estimator objects. Got 3."),
        (lambda: resolve("WIS", "bandit"), "WIS is not defined for a bandit log."),
        (lambda: resolve(["IPW", "IPW"], "bandit"), "estimators= lists 'IPW' twice. Give each its own name."),
        (lambda: Estimator("x", 3), "score= must be a function of Decisions. Got 3 instead."),
        (lambda: Estimator("x", len, "third"), "split= must be 'crossfit', 'full' or 'half'. Got 'third' instead."),
        (lambda: apply(Estimator("x", lambda d: np.ones((d.n, 1))), world()),
         ("the score of 'x' returned shape (60, 1) for 60 units. Return one number per unit; "
          "sum over steps with d.sum(…).")),
        (lambda: apply(Estimator("x", lambda d: np.r_[np.inf, np.zeros(d.n - 1)]), world()),
         "the score of 'x' is not finite in 1 of 60 values (first: row 0 = inf)."),
        (lambda: apply(Estimator("x", lambda d: np.full(d.n, np.inf)), world(n=2)),
         "the score of 'x' is not finite in 2 of 2 values (first: row 0 = inf, row 1 = inf)."),
    ],
)  # fmt: skip
def test_what_the_catalog_refuses(call, words):
    assert said(call).startswith(words)


def test_scores_that_are_not_identified_pass():
    assert np.isnan(apply(Estimator("x", lambda d: np.full(d.n, np.nan)), world()).psi).all()
    assert resolve("IPW", "bandit")[0].name == "IPW"
    assert resolve(named("IPW"), "bandit")[0].name == "IPW"


def breaks(**declared):
    return lambda score: said(lambda: check_score(Estimator("s", score, **declared)))


def test_promises_of_scores():
    calls = iter(range(100))
    assert "gives different numbers in a second call" in breaks()(lambda d: d.sum(d.reward) + next(calls))
    assert "when units come in a different order" in breaks()(lambda d: d.sum(d.reward) + np.arange(d.n))
    linear = breaks(linear_in_reward=True)
    assert "from twice the rewards, though linear_in_reward=True" in linear(lambda d: d.sum(d.reward**2))
    assert "of half the units alone, though linear_in_reward=True" in linear(
        lambda d: d.sum(d.reward) - d.sum(d.reward).mean()
    )
    counted = breaks(takes_counts=True)
    assert "of counted units, though takes_counts=True" in counted(lambda d: d.sum(d.reward) / d.n)
    assert "the score uses d.q, but its needs= does not name 'value'" in breaks(needs={"behavior"})(
        lambda d: d.sum(d.rho * d.q)
    )
    assert "the score uses d.pi_b, but its needs= does not name 'behavior'" in breaks(needs={"value"})(
        lambda d: d.sum(d.pi_b)
    )
    assert "the score uses d.v, but" in breaks(needs={"behavior"})(lambda d: d.sum(d.rho * d.v))
    for fine in (
        Estimator("s", lambda d: d.sum(d.gamma * d.rho * (d.reward - d.q)) + d.sum(d.v), linear_in_reward=True),
        Estimator("s", lambda d: d.sum(d.reward) - d.mean(d.sum(d.reward)), takes_counts=True),
        Estimator("s", lambda d: d.sum(d.marginal * d.reward), needs={"marginal"}, kinds=frozenset({"trajectories"})),
    ):
        check_score(fine)
    seen = []
    check_score(Estimator("s", lambda d: seen.append(d.layout.is_single) or d.sum(d.reward)))
    assert set(seen) == {True, False}
    for kinds, trajectories in ((frozenset({"bandit"}), True), (frozenset({"bandit", "trajectories"}), False)):
        seen.clear()
        score = Estimator("s", lambda d: seen.append(d.layout.is_single) or d.sum(d.reward), kinds=kinds)
        check_score(score, trajectories=trajectories)
        assert set(seen) == {True}
    seen.clear()
    check_score(
        Estimator("s", lambda d: seen.append(d.layout.is_single) or d.sum(d.reward), kinds=frozenset({"trajectories"}))
    )
    assert set(seen) == {False}
    for split, has in (("crossfit", True), ("full", False)):
        check_score(Estimator("s", lambda d, has=has: d.sum(d.reward) + 0 * (1 / ((d.fold is None) != has)), split))


# -- decisions ---------------------------------------------------------------------------------------------


def test_means_of_a_whole_log_from_its_blocks():
    first = Ledger()
    assert first.mean(np.array([1.0, 5.0]), np.array([3.0, 1.0])) == 2.0
    assert first.asked == [(8.0, 4.0)]
    assert math.isnan(first.mean(np.array([1.0]), np.zeros(1)))
    second = Ledger([7.0])
    assert second.mean(np.ones(2), np.ones(2)) == 7.0
    assert second.mean(np.ones(2), np.ones(2)) == 1.0


def test_units_that_stand_for_several_unfold():
    half = np.full(2, 0.5)
    d = Decisions(Layout.single(2), np.array([1.0, 2.0]), half, half, half, half, count=np.array([2.0, 1.0]))
    assert d.unfolded().reward.tolist() == [1.0, 1.0, 2.0]
    assert d.unfolded().weight.tolist() == [1.0, 1.0, 1.0]
    weighted = replace(d, weight=np.array([6.0, 1.0])).unfolded()
    assert weighted.weight.tolist() == [3.0, 3.0, 1.0]
    assert not weighted.is_counted
    plain = replace(d, count=None)
    assert plain.unfolded() is plain


def test_weights_beyond_a_float_are_refused():
    for step, fine in ((349.9, True), (350.1, False)):
        d = Decisions(Layout.ragged([2]), np.ones(2), np.ones(2), np.full(2, math.exp(-step)), np.ones(2), np.ones(2))
        if fine:
            assert np.log(d.rho) == pytest.approx([step, 2 * step])
        else:
            assert said(lambda d=d: d.rho).startswith(
                "an importance weight reaches e^700, which overflows: at a horizon of 2 steps these data"
            )


def test_products_of_slates():
    link = Link(np.array([[True, False], [True, True]]))
    layout = Layout.ragged([2, 1, 2], link)
    w = np.array([2.0, 3.0, 5.0, 0.0, 4.0])
    d = Decisions(layout, np.arange(5.0), w / 10, np.full(5, 0.1), np.ones(5), np.ones(5), 0.5)
    assert np.exp(d.log_product) == pytest.approx([6.0, 5.0, 0.0])
    assert d.outcome is d.reward  # the slots of a slate do not follow one another
    assert d.rho == pytest.approx([2.0, 6.0, 5.0, 0.0, 0.0])
    assert d.rho_before == pytest.approx([1.0, 2.0, 1.0, 1.0, 0.0])
    # Σ γ^t ρ_t / Σ γ^t, a slot that is not there weighing 1.
    assert np.exp(d.log_weight) == pytest.approx([(2 + 0.5 * 6) / 1.5, (5 + 0.5) / 1.5, 0.0])
    assert said(lambda: formulas.direct(d)).startswith(
        "a value model alone needs the mean of q over all slots of the mask"
    )


def test_weights_of_regressions_for_mrdr():
    d = world(13, n=4)
    plain = d.gamma**2 * d.rho**2 * (1 - d.pi_b)
    assert variance_emphasis(d) == pytest.approx(plain / plain.max())
    assert not variance_emphasis(replace(d, pi_e=np.zeros_like(d.pi_e))).any()
    with pytest.raises(UsageError):
        undeclared("q", "value", 3) + 1
    assert len(undeclared("q", "value", 3)) == 3


def test_what_follows_the_end_of_an_episode():
    log_sums, levels = np.array([0.1, -0.7, 0.4, 0.2]), np.array([1.0, -2.0, 3.0, 0.5])
    last, first = np.array([0.3, -0.2, 0.0]), np.array([0, 2, 4])
    found = normalized._after_the_end(log_sums, levels, last, first, 5.0)
    for i in range(3):
        terms = [levels[k] * (1 - 5.0 * math.exp(last[i] - log_sums[k])) for k in range(first[i], 4)]
        assert found[i] == pytest.approx(sum(terms))
