"""Scores of single decisions against their formulas, and the rules that choose constants."""

import numpy as np
import pytest

from offpolicy import BanditLog, Estimator, evaluate
from offpolicy.errors import UsageError
from offpolicy.logs.layout import Layout
from offpolicy.scores import catalog as estimators
from offpolicy.scores import formulas as scores
from offpolicy.scores import tuning
from offpolicy.scores.decisions import Decisions

N = 200


def decisions(seed=0, weight=None, **changes):
    rng = np.random.default_rng(seed)
    parts = {
        "reward": rng.normal(size=N),
        "pi_e": rng.uniform(0, 1, size=N),
        "pi_b": rng.uniform(0.1, 1, size=N),
        "q": rng.normal(size=N),
        "v": rng.normal(size=N),
    }
    return Decisions(Layout.single(N), **{**parts, **changes}, weight=weight)


def test_the_plain_scores():
    d = decisions()
    w = d.pi_e / d.pi_b
    np.testing.assert_allclose(scores.direct(d), d.v)
    np.testing.assert_allclose(scores.importance_weighted(d), w * d.reward)
    np.testing.assert_allclose(scores.trajectory_weighted(d), w * d.reward)
    np.testing.assert_allclose(scores.doubly_robust(d), w * (d.reward - d.q) + d.v)


def test_switch_keeps_small_weights_and_drops_large_ones():
    d = decisions()
    w = d.pi_e / d.pi_b
    expected = np.where(w <= 1.5, w * (d.reward - d.q), 0.0) + d.v
    np.testing.assert_allclose(scores.switched(d, 1.5), expected)
    np.testing.assert_allclose(scores.switched(d, np.inf), scores.doubly_robust(d))
    np.testing.assert_allclose(scores.switched(d, 0.0)[w > 0], d.v[w > 0])


def test_shrinkage_runs_from_the_direct_to_the_doubly_robust_score():
    d = decisions()
    w = d.pi_e / d.pi_b
    np.testing.assert_allclose(scores.shrunk(d, 2.0), 2 * w / (w**2 + 2) * (d.reward - d.q) + d.v)
    np.testing.assert_allclose(scores.shrunk(d, np.inf), scores.doubly_robust(d))
    np.testing.assert_allclose(scores.shrunk(d, 1e-14), scores.direct(d), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_self_normalised_scores_average_to_the_ratio(weighted):
    m = np.random.default_rng(9).uniform(0.5, 2, size=N) if weighted else None
    d = decisions(weight=m)
    w, o = d.pi_e / d.pi_b, np.ones(N) if m is None else m
    ratio = (o * w * d.reward).sum() / (o * w).sum()
    assert np.average(scores.self_normalized(d), weights=o) == pytest.approx(ratio, abs=1e-12)
    robust = (o * w * (d.reward - d.q)).sum() / (o * w).sum() + np.average(d.v, weights=o)
    assert np.average(scores.self_normalized_dr(d), weights=o) == pytest.approx(robust, abs=1e-12)


def test_the_linearised_score_is_the_jackknife_of_the_ratio():
    d = decisions()
    w = d.pi_e / d.pi_b
    psi = scores.self_normalized(d)
    top, bottom = (w * d.reward).sum(), w.sum()
    without = (top - w * d.reward) / (bottom - w)
    # Each unit moves the ratio by its centred score over N, to first order in 1/N.
    np.testing.assert_allclose((N - 1) * (top / bottom - without), psi - psi.mean(), atol=0.1)


@pytest.mark.parametrize(
    ("tuned", "grid", "score"),
    [
        (tuning.tuned_switch, tuning.switch_grid, scores.switched),
        (tuning.tuned_shrinkage, tuning.shrinkage_grid, scores.shrunk),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_constants_minimise_the_stated_error(tuned, grid, score, seed):
    d = decisions(seed)
    center = scores.doubly_robust(d).mean()

    def error(psi):
        return (psi.mean() - center) ** 2 + psi.var() / N

    chosen = tuned(d)
    best = min(error(score(d, c)) for c in grid(d))
    assert error(chosen.psi) == pytest.approx(best, rel=1e-12)
    assert "smallest estimated mean squared error" in chosen.note
    assert error(chosen.psi) <= error(scores.doubly_robust(d))


def test_constants_see_counts_as_repeated_rows():
    count = np.random.default_rng(1).integers(1, 4, size=N).astype(float)
    small = decisions(weight=count)
    small = Decisions(small.layout, small.reward, small.pi_e, small.pi_b, small.q, small.v, weight=count, count=count)
    again = np.repeat(np.arange(N), count.astype(int))
    large = Decisions(
        Layout.single(len(again)), *(getattr(small, k)[again] for k in ("reward", "pi_e", "pi_b", "q", "v"))
    )
    # Quantiles of distinct rows are not those of repeated ones, so the grids are compared at one constant.
    for score in (scores.switched, scores.shrunk):
        one, other = score(small, 1.3), score(large, 1.3)
        assert small.mean(one) == pytest.approx(large.mean(other), abs=1e-12)


def test_names_of_the_grid():
    for name in ["DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "SNDR", "SWITCH", "DRos", "MRDR"]:
        assert estimators.named(name).name == name
    assert estimators.named("DML").split == estimators.named("DR-cf").split == "crossfit"
    for name in ("SNDR", "SWITCH", "DRos", "MRDR", "WDR", "MAGIC"):
        assert estimators.named(name).split == "crossfit"
        assert estimators.named(f"{name}-full").split == "full"
        assert estimators.named(f"{name}-half").split == "half"
    assert [estimators.named(name).split for name in ("DM", "IPW", "SNIPW")] == ["full"] * 3
    for unknown in ("DR", "dml", "IPS", "DML-cf-cf"):
        with pytest.raises(UsageError, match="no estimator is called"):
            estimators.named(unknown)
    with pytest.raises(UsageError, match="Did you mean 'SNIPW'"):
        estimators.named("SNIPS")


@pytest.mark.parametrize("names", [[], ["DML", "DML"], [3]])
def test_bad_lists_of_estimators(names):
    with pytest.raises(UsageError, match="estimators="):
        estimators.resolve(names, "bandit")


LOG = {"context": None, "action": [0, 1, 0, 1], "reward": [1.0, 2.0, 3.0, 4.0]}


def with_score(score, **options):
    log = BanditLog.from_arrays(**LOG, propensity=[0.5] * 4)
    mine = Estimator("mine", score, **options)
    return evaluate(log, np.full((4, 2), 0.5), estimators=[mine], reward_model=np.zeros((4, 2)))["mine"]


def test_a_users_own_estimator():
    e = with_score(lambda d: np.minimum(d.rho, 0.5) * d.reward, split="full")
    assert e.value == pytest.approx(1.25)


@pytest.mark.parametrize(
    "score", [lambda d: 1.0, lambda d: np.ones((d.n, 1)), lambda d: np.r_[np.nan, np.ones(d.n - 1)]]
)
def test_a_score_must_give_one_finite_number_per_unit(score):
    with pytest.raises(UsageError, match="'mine'"):
        with_score(score)


def test_estimators_are_checked_when_made():
    with pytest.raises(UsageError, match="split="):
        Estimator("mine", lambda d: d.v, split="third")
    with pytest.raises(UsageError, match="score="):
        Estimator("mine", "score")
