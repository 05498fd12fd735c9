"""Draws, comparisons and changes against their forms; figures and sentences word by word."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import said
from scipy import stats

from offpolicy.inference import comparison, family, figures, pareto
from offpolicy.inference import family as multiple
from offpolicy.inference import figures as display
from offpolicy.inference.comparison import Change, change, has_lift, lift
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.score_table import Units

RNG = np.random.default_rng(31)


def normal_scores(n, mean=0.0, spread=1.0):
    """Scores with exactly this mean and standard deviation, and no skewness."""
    x = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return mean + spread * (x - x.mean()) / x.std()


# -- draws -------------------------------------------------------------------------------------------------


def test_the_largest_gap_of_all_pairs():
    sigma = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 2.0]])
    errors = multiple.gap_errors(sigma)
    for j in range(3):
        for k in range(3):
            assert errors[j, k] == pytest.approx(math.sqrt(max(sigma[j, j] + sigma[k, k] - 2 * sigma[j, k], 0)))
    values, vectors = np.linalg.eigh(sigma)
    z = np.random.default_rng(4).standard_normal((500, 3)) @ (vectors * np.sqrt(values)).T
    gaps = [(z[:, j] - z[:, k]) / errors[j, k] for j in range(3) for k in range(3) if j != k]
    expected = np.max(gaps, axis=0)
    assert multiple.largest_gap(sigma, draws=500, seed=4) == pytest.approx(expected)
    shrink = np.sqrt(np.random.default_rng([4, 1]).chisquare(7, 500) / 7)
    assert multiple.largest_gap(sigma, degrees=7, draws=500, seed=4) == pytest.approx(expected / shrink)


def test_joint_limits_of_estimates():
    sigma = np.array([[4.0, 0.0], [0.0, 0.0]])
    values, vectors = np.linalg.eigh(np.diag([1.0, 0.0]))
    z = np.random.default_rng(3).standard_normal((400, 2)) @ (vectors * np.sqrt(values)).T
    assert multiple.largest_t(sigma, draws=400, seed=3) == pytest.approx(np.abs(z).max(axis=1))
    assert said(lambda: multiple.largest_t(sigma, draws=0)) == "The 'draws' parameter must be at least 1. Got 0."
    one = comparison.best({"a": Estimate.from_scores([1.0, 2.0, 3.0])}, (), 0.95)
    assert (one.names, one.leader, one.margin, one.settled) == (("a",), "a", math.inf, True)


def test_sentences_about_the_best():
    made = {
        (): "There is not enough evidence about any of the policies.",
        ("a",): "a is the best policy (5% error rate).",
        ("a", "b"): "Either a or b is best; the log cannot tell them apart (5% error rate).",
    }
    for names, words in made.items():
        found = multiple.BestPolicy(names, "a", 0.95, 0.1)
        assert (found.statement, found.settled) == (words, len(names) == 1)
    partly = multiple.BestPolicy(("a",), "a", 0.95, 0.1, ("c", "d"))
    assert (
        partly.statement == "a is the best of the policies with enough evidence (5% error rate). "
        "There is not enough evidence about c, d."
    )
    assert not partly.settled


# -- comparisons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "minimize"), [(900, False), (900, True), (120, False)])
def test_the_leads_of_the_best(n, minimize):
    sign = -1.0 if minimize else 1.0
    units = Units(n)
    base = RNG.normal(size=n)
    made = {k: Estimate.from_scores(sign * (m + base + RNG.normal(size=n)), units=units)
            for k, m in (("a", 0.0), ("b", 1.0), ("c", 0.95), ("d", 0.4))}  # fmt: skip
    found = comparison.best(made, ("x",), 0.9, minimize=minimize)
    sigma = family.covariance(list(made.values()))
    few = n < 200
    factor = np.quantile(multiple.largest_gap(sigma, degrees=n - 1 if few else None), 0.9)
    factor *= math.sqrt(n / (n - 1)) if few else 1.0
    leader = max(made, key=lambda k: sign * made[k].value)
    leads = {}
    for k, e in made.items():
        if k == leader:
            continue
        gap = sign * (made[leader].value - e.value)
        error = (made[leader] - e).std_error
        if gap <= error:
            leads[k] = gap - 2 * error
        else:
            each = (made[leader] - e).interval(1 - 0.1 / 6)
            own = -each.high if minimize else each.low
            leads[k] = max(own, gap - factor * error)
    assert found.leader == leader
    assert found.margin == pytest.approx(min(leads.values()))
    assert found.names == tuple(k for k in made if k == leader or leads[k] <= 0)
    assert found.unjudged == ("x",)


def test_few_to_compare():
    e = Estimate.from_scores(normal_scores(300, 1.0), units=(units := Units(300)))
    f = Estimate.from_scores(normal_scores(300)[::-1], units=units)
    none = comparison.best({}, ("x",), 0.9)
    assert (none.names, none.leader, none.unjudged) == ((), "", ("x",))
    assert math.isnan(none.margin)
    one = comparison.best({"a": e}, (), 0.9)
    assert (one.names, one.leader, one.margin) == (("a",), "a", math.inf)
    two = comparison.best({"f": f, "e": e}, (), 0.9)
    assert (two.leader, two.margin) == ("e", (e - f).interval(0.9).low)
    refused = Interval(0.0, 1.0, 0.9, "t", "insufficient evidence: few", sufficient=False)
    assert comparison._words(refused, ".4g") == "refused (few)"
    assert comparison._words(Interval(0.12345, 2.0, 0.9, "t"), "+.3g") == "+0.123 to +2"
    table = comparison.Comparison(0.9, {"a": Interval(0.1, 0.2, 0.9, "t"), "b": refused},
                                  {"a": Interval(-0.1, 0.2, 0.9, "t"), "b": refused},
                                  {"a": 0.0312, "b": math.nan}, one)  # fmt: skip
    assert str(table).splitlines() == [
        "All intervals of a column hold at once with 90% probability.",
        "a: value 0.1 to 0.2, difference from the current policy -0.1 to +0.2 (adjusted p = 0.031)",
        "b: value refused (few), difference from the current policy refused (few)",
        "a is the best policy (10% error rate).",
    ]
    assert table.lifts == {}
    html = display.comparison_html(table)
    for words in (
        "a is the best policy (10% error rate).",
        "value, 90% interval",
        "0.1 to 0.2",
        "refused",
        "0.031",
        "—",
    ):
        assert words in html


def test_who_beats_whom_in_every_metric():
    units = Units(400)
    none = Estimate.from_scores(np.zeros(400), units=units)
    at = {z: Estimate.from_scores(normal_scores(400, z / 20), units=units) for z in (-4.0, 0.9, 1.5, 4.0)}

    def beats(first, second, minimized=()):
        own = {"m": at.get(first, none), "k": at.get(second, none)}
        return pareto._beats(own, {"m": none, "k": none}, minimized, 0.95)

    assert beats(4.0, 4.0)
    assert beats(4.0, 0.0)  # the same on every unit in one metric
    assert not beats(0.0, 0.0)
    assert not beats(4.0, 1.5)  # better, but not shown
    assert not beats(1.5, 1.5)
    assert not beats(4.0, 0.9)
    assert not beats(4.0, -4.0)
    assert beats(4.0, -4.0, ("k",))
    assert not beats(4.0, 4.0, ("k",))


# -- changes and figures -----------------------------------------------------------------------------------


def test_changes():
    low, high = (Estimate.from_scores([1.0, 1.2] * 200), Estimate.from_scores([2.0, 2.4, 2.1, 2.3] * 100))
    made = change(high, low)
    assert (made.is_lift, made.sign, made.better(), made.better(minimize=True)) == (True, 1, 1, -1)
    assert change(low, high).sign == -1
    around = Estimate.from_scores([-1.0, 1.0] * 200)
    plain = change(high, around)
    assert (plain.is_lift, plain.estimate.value) == (False, pytest.approx(2.2))
    assert lift(high, around) is None
    assert lift(Estimate.from_scores([math.nan] * 400), low) is None
    assert not has_lift(Estimate.from_scores([math.nan] * 4))
    ends = [(0.1, 0.2, 1), (-0.2, -0.1, -1), (-0.1, 0.1, 0), (0.0, 0.1, 0), (-0.1, 0.0, 0)]
    for a, b, sign in ends:
        assert Change(made.estimate, Interval(a, b, 0.9, "t"), is_lift=True).sign == sign
    assert Change(made.estimate, Interval(0.1, 0.2, 0.9, "t", sufficient=False), is_lift=True).sign == 0


def test_numbers_as_people_read_them():
    assert [figures.decimals(x) for x in (1e-20, 0.00012, 0.01, 0.0999, 0.1, 1.0, 9.9, 10.0, 1e5)] == [
        12,
        5,
        3,
        3,
        2,
        1,
        1,
        0,
        0,
    ]
    assert [figures.plain(x) for x in (-math.inf, 1e13, 9.9e12, -0.00001, 123.4, 0.999)] == [
        "−∞", "1.00e+13", "9,900,000,000,000", "-0.00001", "123", "0.999",
    ]  # fmt: skip
    assert [figures.plain(x, 1) for x in (0.26, 26.0, 2e-7)] == ["0.3", "30", "2e-07"]
    assert [figures.percent(x) for x in (0.994, 0.996, -0.996, 1.234, 0.5, math.inf)] == [
        "99%",
        "99.6%",
        "-99.6%",
        "123%",
        "50%",
        "—",
    ]
    assert [figures.count(x) for x in (math.nan, 0.0, 1234.6)] == ["—", "0", "1,235"]
    assert [figures.count(x, 2) for x in (0.0, -3.0, 1260.0, 0.126)] == ["0", "-3", "1,300", "0"]
    assert [figures.level_text(x) for x in (0.5, 0.999)] == ["50%", "99.9%"]
    assert [figures.plural_of(x) for x in ("day", "id", "", "user-uuid", "Box")] == [
        "days",
        "units",
        "units",
        "users",
        "boxs",
    ]
    assert [figures.capitalized(x) for x in ("ok!", "why?", "", "éa")] == ["Ok!", "Why?", ".", "éa."]
    e = Estimate.from_scores([0.1234, 0.2345] * 50)
    assert display.interval_text(e, Interval(0.1, 0.25, 0.9, "t")) == "0.1000 to 0.2500"
    assert display.interval_text(e, Interval(0.1, 0.25, 0.9, "t", sufficient=False)) == "refused"
    assert display.interval_text(Estimate.from_scores([math.nan]), Interval(0.1, 0.2, 0.9, "t")) == "no estimate"
    table = display.small_table(["a", "b"], [["x", "1"]], left=1)
    assert table.count(display.TEXT) == table.count(display.NUMBER) == 2
    assert table.index(display.TEXT) < table.index(display.NUMBER)
    assert replace(Interval(0.0, 1.0, 0.9, "t"), low=-1.0).width == 2.0
