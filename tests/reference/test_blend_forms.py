"""Blends, floors and look-backs of scores: by loops and by hand, at their thresholds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from forms import weighted, world
from scipy import optimize

from offpolicy.logs.layout import Layout
from offpolicy.scores import blend, formulas
from offpolicy.scores import blend as look_back
from offpolicy.scores import tuning as magic
from offpolicy.scores import tuning as missed
from offpolicy.scores.decisions import Decisions

# -- blends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "supported"),
    [
        ([1.0] * 20, True), ([1.0] * 19, False),  # 20 at least
        ([10.0] * 50 + [0.0] * 450, True), ([500 / 49] * 49 + [0.0] * 451, False),  # a tenth of all
        ([20.0] * 100 + [0.0] * 1900, True), ([2000 / 99] * 99 + [0.0] * 1901, False),  # 100 are enough
        ([1.19] * 40, True), ([1.21] * 40, False), ([0.81] * 40, True), ([0.79] * 40, False),
        ([5.0] + [1.0] * 46, True), ([5.3] + [1.0] * 46, False),  # a tenth of the weight on one
        ([0.0] * 40, False),
    ],
)  # fmt: skip
def test_when_products_are_supported(weights, supported):
    assert blend.products_supported(weighted(weights)) is supported
    mass = np.full(len(weights), 3.0)
    assert blend.products_supported(weighted(weights, mass)) is supported


def test_limits_of_support_may_be_given():
    ten = weighted([1.0] * 10)
    assert blend.products_supported(ten, 10.0)
    assert not blend.products_supported(ten, 10.1)
    assert blend.products_supported(ten, 2.0, 0.1)
    assert not blend.products_supported(ten, 2.0, 0.099)
    assert not blend.products_supported(weighted([1.3] * 30), within=0.25)
    assert blend.products_supported(weighted([1.3] * 30), within=0.35)
    counted = replace(weighted([1.0] * 10, np.full(10, 30.0)), count=np.full(10, 30.0))
    assert not blend.products_supported(counted, largest=0.2)  # 300 units: a tenth of them is 30
    assert not blend.products_supported(weighted([1e305] * 30))


def test_ratios_of_marginals_are_contradicted_from_five_standard_errors_on():
    rng = np.random.default_rng(1)
    mass = rng.integers(1, 4, 30).astype(float)
    d = weighted(np.ones(30), mass)
    noise = rng.normal(size=30)
    noise -= noise @ mass / mass.sum()
    error = math.sqrt(mass**2 @ noise**2) / mass.sum()
    robust = rng.normal(size=30)
    for side in (1, -1):
        for z, found in ((4.99, False), (5.01, True)):
            assert blend.contradicted(d, robust + noise + side * z * error, robust) is found
    assert not blend.contradicted(d, robust + noise + 9 * error, np.full(30, np.nan))
    for n, found in ((8, True), (7, False)):
        psi = np.arange(n) % 2 * 0.1
        assert blend.contradicted(weighted(np.ones(n)), psi + 9.0, np.zeros(n)) is found


def test_who_takes_part():
    d = weighted(np.ones(40), marginal=np.ones(80))
    rewards = np.random.default_rng(2).random(80)
    d = replace(d, reward=rewards)
    parts, why = blend.candidates(d, None)
    assert (list(parts), why) == (["DRL", "DML", "WDR"], "")
    assert list(blend.candidates(replace(d, marginal=None), None)[0]) == ["DML", "WDR"]
    floor = missed.Floor.of(d)
    above = missed.Floor(floor.plain, 1e9)
    alone, why = blend.candidates(d, above)
    assert (list(alone), why) == (["DML"], "")
    assert alone["DML"] == pytest.approx(formulas.doubly_robust(d))
    assert list(blend.candidates(d, missed.Floor(floor.plain, 0.0))[0]) == ["DRL", "DML", "WDR"]
    lost = replace(
        weighted(np.r_[np.full(3, 20.0), np.zeros(57)], marginal=np.ones(120)), reward=np.tile(rewards[:60], 2)
    )
    parts, why = blend.candidates(lost, None)
    assert (list(parts), why) == (["DRL"], blend.LOST)
    thin = weighted(np.r_[np.full(12, 1.0), np.zeros(3)], marginal=np.full(30, 9.0))
    thin = replace(thin, reward=1 + 0.01 * np.random.default_rng(3).random(30))
    parts, why = blend.candidates(thin, None)
    assert list(parts) == ["DML", "WDR"]
    assert why == "DRL disagrees with products of ratios, which few episodes support"
    regressed = replace(world(n=200), regressed=True)
    regressed = replace(regressed, pi_e=regressed.pi_b * 2.5)  # products of mean 2.5 and more: lost
    parts, why = blend.candidates(regressed, None)
    assert list(parts)[:2] == ["DRL", "DRL looking 1 step back"]
    assert why == blend.LOST


def shares_by_search(matrix):
    n = len(matrix)
    found = optimize.minimize(
        lambda x: x @ matrix @ x / np.trace(matrix), np.full(n, 1 / n), bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1}, options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return found.x


def test_products_without_a_model_take_part_where_it_adds_noise():
    noisy = replace(world(7, n=80), pi_e=world(7, n=80).pi_b)  # predictions are random numbers
    made = blend.products(noisy)
    assert list(made) == ["DML", "WDR", "SNIPW"]
    spread = {name: float(((psi - psi.mean()) ** 2).sum()) for name, psi in made.items()}
    assert spread["SNIPW"] < min(spread["DML"], spread["WDR"])
    assert made["SNIPW"] == pytest.approx(formulas.self_normalized(noisy))
    # Truncated episodes: weights alone say nothing of what follows.
    assert list(blend.products(replace(noisy, whole=False))) == ["DML", "WDR"]
    assert not replace(noisy, whole=False).part(np.arange(3)).whole
    # A model that knows every reward of a step leaves nothing over.
    steps = Layout.ragged([1] * 40)
    reward, pi_e = np.tile([-1.0, 1.0], 20), np.random.default_rng(8).uniform(0.2, 0.8, 40)
    known = Decisions(steps, reward, pi_e, np.full(40, 0.5), reward, np.zeros(40))
    assert list(blend.products(known)) == ["DML", "WDR"]


@pytest.mark.parametrize("seed", range(4))
def test_the_minimum_over_the_simplex(seed):
    root = np.random.default_rng(seed).normal(size=(4, 6)) + 0.6
    matrix = root @ root.T
    found = magic.simplex_minimum(matrix)
    assert found.sum() == pytest.approx(1.0)
    best = shares_by_search(matrix)
    assert found @ matrix @ found == pytest.approx(best @ matrix @ best, rel=1e-6)
    assert magic.simplex_minimum(1e-8 * matrix) == pytest.approx(found, abs=1e-6)
    assert magic.simplex_minimum(np.zeros((3, 3))).tolist() == [0.0, 0.0, 1.0]


def test_a_blend_of_rungs_believes_the_highest():
    rng = np.random.default_rng(4)
    table = rng.normal(size=(3, 80)) + np.array([[0.4], [0.1], [0.0]])
    mass, members = rng.integers(1, 4, 80).astype(float), np.arange(80) % 4 > 0
    psi, m = table[:, members], mass[members] / mass[members].sum()
    means = psi @ m
    away = (psi - means[:, None]) * m
    omega = away @ away.T
    names = ["DRL", "DRL looking 1 step back", "DRL looking 2 steps back"]
    bias = np.abs(means - means[2])
    x, found = blend._weights(table, names, mass, members, 0.0)
    assert found == pytest.approx(bias)
    matrix = omega + np.outer(bias, bias)
    best = shares_by_search(matrix)
    assert x @ matrix @ x == pytest.approx(best @ matrix @ best, rel=1e-6)
    # Of two products the one that varies less is the witness.
    names, calm = ["DRL", "DML", "WDR"], table * np.array([[1.0], [3.0], [1.0]])
    means = calm[:, members] @ m
    away = (calm[:, members] - means[:, None]) * m
    omega = away @ away.T
    error = math.sqrt(omega[0, 0] + omega[2, 2] - 2 * omega[0, 2])
    _, found = blend._weights(calm, names, mass, members, 1.0)
    # What one episode adds to the distance is no evidence: the least that is left without one of them counts.
    apart, side = calm[0, members] - calm[2, members], np.sign(means[0] - means[2])
    left = min(side * np.average(np.delete(apart, i), weights=np.delete(m, i)) for i in range(60))
    assert found == pytest.approx([max(left - error, 0.0), 0.0, 0.0])
    assert found[0] > 0
    _, near = blend._weights(calm, names, mass, members, 9.0)
    assert near.tolist() == [0.0, 0.0, 0.0]
    one, none = blend._weights(table[:1], names[:1], mass, members, 0.0)
    assert (one.tolist(), none.tolist()) == ([1.0], [0.0])


@pytest.mark.parametrize("mass", [[1.0], [1e30, 1.0]])
def test_one_unit_is_no_evidence_of_bias(mass):
    """Divisions by what is left without it would warn, and warnings are errors here."""
    table = np.arange(3.0 * len(mass)).reshape(3, -1)
    names = ["DRL", "DRL looking 1 step back", "DML"]
    _, bias = blend._weights(table, names, np.array(mass), np.ones(len(mass), dtype=bool), 0.5)
    assert bias.tolist() == [0.0, 0.0, 0.0]


def test_a_standard_error_allows_for_a_bias():
    d = weighted(np.ones(30), np.random.default_rng(5).integers(1, 4, 30).astype(float))
    psi = np.random.default_rng(6).normal(size=30)
    share = d.mass / d.mass.sum()
    mean = share @ psi
    variance = share**2 @ (psi - mean) ** 2
    spread, text = blend._stretched(d, psi, 0.25)
    assert share @ spread == pytest.approx(mean)
    assert share**2 @ (spread - mean) ** 2 == pytest.approx(variance + 0.25**2)
    assert text == "the standard error allows for a bias of 0.25"
    for same in (blend._stretched(d, psi, 0.0), blend._stretched(d, np.ones(30), 0.25)):
        assert same[1] == ""
    assert blend._stretched(d, psi, 0.0)[0] is psi


def test_a_blend_is_fitted_on_other_folds():
    d = replace(world(7, n=80), fold=np.arange(80) % 2, pi_e=world(7, n=80).pi_b)
    parts, _ = blend.candidates(d, missed.Floor.of(d))
    table, names = np.stack(list(parts.values())), list(parts)
    expected, said_bias = np.zeros(80), 0.0
    shares = np.zeros(len(names))
    for fold in (0, 1):
        x, bias = blend._weights(table, names, d.mass, d.fold != fold, 1.0)
        expected[d.fold == fold] = (x @ table)[d.fold == fold]
        said_bias += x @ bias / 2
        shares += x / 2
    found = blend.blended(d)
    assert found.psi.mean() == pytest.approx(expected.mean())
    assert found.products == pytest.approx(shares[1:].sum())
    assert found.looks_back == 0.0
    order = sorted(range(len(names)), key=lambda j: -shares[j])
    text = ", ".join(f"{names[j]} {shares[j]:.0%}" for j in order if shares[j] > 0.005)
    assert found.note.startswith(f"blend by estimated mean squared error: {text}")
    whole = blend.blended(replace(d, fold=None))
    x, _ = blend._weights(table, names, d.mass, np.ones(80, dtype=bool), 1.0)
    assert whole.psi.mean() == pytest.approx((x @ table).mean())
    nothing = replace(d, marginal=None, pi_e=np.zeros_like(d.pi_e))
    assert np.isfinite(blend.blended(nothing).psi).all() or np.isnan(blend.blended(nothing).psi).all()


# -- floors and look-backs ---------------------------------------------------------------------------------


def test_the_least_spread_of_scores():
    d = replace(world(8), weight=np.random.default_rng(8).integers(1, 3, 60).astype(float))
    alone = d.sum(d.gamma * d.marginal * d.reward)
    share = d.mass / d.mass.sum()
    floor = missed.Floor.of(d)
    centered = alone - share @ alone
    assert floor.plain == pytest.approx(math.sqrt(3 / 60) * centered)
    assert floor.square == pytest.approx(3 / 60 * (d.mass @ centered**2))
    few = replace(weighted([1.0, 1.0], marginal=np.ones(4)), reward=np.arange(4.0))
    assert missed.Floor.of(few).plain == pytest.approx([-2.0, 2.0])  # no more than all of it
    psi = np.random.default_rng(9).normal(size=60)
    scale = math.sqrt(floor.square / (d.mass @ (psi - share @ psi) ** 2))
    for factor, above in ((0.99, True), (1.01, False)):
        assert floor.is_above(d, factor * scale * psi) is above
    made, note = missed.floored(d, 0.5 * scale * psi)
    assert share @ made == pytest.approx(share @ (0.5 * scale * psi))
    assert missed.spread(d, made) == pytest.approx(floor.square)
    more = missed.alternating(floor.plain)
    more -= share @ more
    rest = made - 0.5 * scale * psi  # a multiple of the deviations with alternating signs
    assert rest == pytest.approx((rest @ more) / (more @ more) * more)
    assert note == (
        "the value model explains almost all of the reward; the standard error allows for events of probability 0.05, "
        "which 60 episodes may have missed"
    )
    assert missed.floored(d, 2 * scale * psi)[1] == ""
    assert missed.floored(d, np.full(60, np.nan))[1] == ""
    assert missed.Floor.of(replace(d, marginal=None)) is None
    assert missed.Floor.of(replace(d, marginal=np.full_like(d.marginal, np.inf))) is None


def test_rewards_weighted_by_ratios_that_look_back():
    """Against a loop over steps: weights normalized at each, an episode that has ended keeping its last."""
    d = replace(world(12, n=9), weight=np.random.default_rng(12).integers(1, 4, 9).astype(float))
    ratio = look_back.ratios_back(d, 2)
    start, lengths = d.layout.offsets[:-1], np.asarray(d.layout.lengths)

    def value(mass):
        total = 0.0
        for t in range(d.layout.horizon):
            row = start + np.minimum(t, lengths - 1)
            weight = mass * ratio[row]
            total += d.discount**t * (weight @ (d.reward[row] * (t < lengths))) / weight.sum()
        return total

    psi = look_back.normalized(d, ratio)
    assert d.mass @ psi / d.mass.sum() == pytest.approx(value(d.mass))
    # A score is the derivative of the estimate by an episode's mass.
    for i in range(9):
        more = d.mass + 1e-6 * (np.arange(9) == i)
        slope = (value(more) - value(d.mass)) / 1e-6
        assert (psi[i] - value(d.mass)) / d.mass.sum() == pytest.approx(slope, abs=1e-6)
    # Looking back to the first step these are the weights of SNIPW.
    whole = look_back.normalized(d, look_back.ratios_back(d, d.layout.horizon))
    assert whole == pytest.approx(formulas.self_normalized(d))


def test_rungs_without_a_model_stand_before_those_with_it():
    steps, n = 40, 300
    rng = np.random.default_rng(13)
    one, half = np.ones(steps * n), np.full(steps * n, 0.5)
    noise = rng.normal(size=steps * n)
    d = Decisions(Layout.ragged([steps] * n), rng.normal(size=steps * n), half, half, 3 * noise, 0 * one, marginal=one)
    rungs = look_back.ladder(d)
    assert [rung.steps for rung in rungs] == [0, 1, 2, 4, 8, 16, 32]
    both = look_back.with_plain(d, rungs)
    assert [rung.name for rung in both[-5:]] == [
        "DRL looking 8 steps back", "SNIPW looking 16 steps back", "DRL looking 16 steps back",
        "SNIPW looking 32 steps back", "DRL looking 32 steps back",
    ]  # fmt: skip
    assert both[-2].psi == pytest.approx(look_back.normalized(d, look_back.ratios_back(d, 32)))
    # A model that explains the rewards is kept alone; of truncated episodes weights alone say nothing.
    assert look_back.with_plain(replace(d, q=d.reward), look_back.ladder(replace(d, q=d.reward)))[-2].modeled
    assert look_back.with_plain(replace(d, whole=False), rungs) == rungs


@pytest.mark.parametrize("k", [1, 2, 5])
def test_ratios_that_look_back(k):
    d = world(10, n=8)
    found, row = look_back.ratios_back(d, k), 0
    for length in d.layout.lengths:
        for t in range(length):
            ratio = d.pi_e[row - t : row + 1] / d.pi_b[row - t : row + 1]
            start = d.marginal[row - k] if t >= k else 1.0
            assert found[row] == pytest.approx(start * np.prod(ratio[-k:] if t >= k else ratio))
            row += 1


def test_which_ratios_a_log_supports():
    def supported(weights, n_units=None):
        n = len(weights)
        d = replace(weighted(np.ones(n)), count=None if n_units is None else np.full(n, n_units / n))
        return look_back.is_supported(d, np.repeat(np.asarray(weights, dtype=float), 2))

    assert supported(np.ones(60))
    assert supported(np.r_[np.full(20, 3.0), np.zeros(40)])
    assert not supported(np.r_[np.full(19, 3.0), np.zeros(41)])
    assert supported(np.r_[np.full(30, 10.0), np.zeros(270)])
    assert not supported(np.r_[np.full(29, 10.0), np.zeros(271)])
    assert supported(np.r_[np.full(100, 20.0), np.zeros(1900)])
    assert not supported(np.r_[np.full(99, 20.0), np.zeros(1901)])
    assert supported(np.r_[6.0, np.ones(54)])
    assert not supported(np.r_[6.2, np.ones(54)])
    assert supported(np.r_[5.0, np.zeros(48)])  # 49 episodes are not judged
    assert not supported(np.r_[5.0, np.zeros(49)])
    assert supported(np.r_[2.49, np.zeros(49)])  # nor steps of which less than 5% is left
    assert not supported(np.r_[2.51, np.zeros(49)])
    d = weighted(np.ones(60))
    later = np.column_stack([np.full(60, 0.01), np.r_[60.0, np.zeros(59)]]).ravel()
    assert not look_back.is_supported(d, later)  # a step that is not judged does not hide the next


def test_names_of_rungs():
    names = [look_back.Rung(k, np.zeros(1)).name for k in (0, 1, 2)]
    assert names == ["DRL", "DRL looking 1 step back", "DRL looking 2 steps back"]
    d = Decisions(Layout.ragged([6] * 80), *(np.full(480, 0.5) for _ in range(5)), marginal=np.ones(480))
    assert [r.steps for r in look_back.ladder(d)] == [0, 1, 2, 4]
    short = Decisions(Layout.ragged([4] * 80), *(np.full(320, 0.5) for _ in range(5)), marginal=np.ones(320))
    assert [r.steps for r in look_back.ladder(short)] == [0, 1, 2]
