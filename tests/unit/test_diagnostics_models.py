"""Nuisances and stability: quality out of fold, the efficiency bound, drift, disagreement, clipping."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import offpolicy as op
from offpolicy._arrays import quantiles
from offpolicy.scores.catalog import named
from offpolicy.trust.models import efficiency_bound, reliability, skill
from offpolicy.trust.stability import heterogeneity

N = 1000
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 2))
A = RNG.integers(2, size=N)
R = X[:, 0] * A + RNG.normal(size=N)
FOLD = np.arange(N) % 2
LOG = op.BanditLog.from_arrays(X, A, R, np.full(N, 0.5))


def better(x):
    return (x[:, 0] > 0).astype(int)


def test_skill_is_r2_out_of_fold():
    ev = op.evaluate(LOG, better, reward_model=op.models.PerAction(LinearRegression()), folds=FOLD, estimators=["DML"])
    q = np.empty(N)
    for k in (0, 1):
        for a in (0, 1):
            train, test = (k != FOLD) & (a == A), (k == FOLD) & (a == A)
            q[test] = LinearRegression().fit(X[train], R[train]).predict(X[test])
    expected = 1 - np.sum((R - q) ** 2) / np.sum((R - R.mean()) ** 2)
    assert float(ev.diagnostics["reward_model_r2"]) == pytest.approx(expected)
    gap = R - q
    z = ev.diagnostics["reward_model_calibration"].details["z"]
    assert z == pytest.approx(abs(gap.mean()) / (gap.std() / math.sqrt(N)))


def test_an_over_fitting_model_is_called_so():
    log = op.BanditLog.from_arrays(X, A, R)  # unknown propensities: a bad model can bias
    found = op.evaluate(
        log, better, reward_model=DecisionTreeRegressor(random_state=0), estimators=["DML"]
    ).diagnostics["reward_model_r2"]
    assert found.level != "ok"
    assert "worse than predicting the mean" in found.sentence
    same = op.evaluate(
        log, better, reward_model=DecisionTreeRegressor(random_state=0), estimators=["DR-full"]
    ).diagnostics["reward_model_r2"]
    assert float(same) == pytest.approx(1.0)
    assert "fitted on" in same.sentence


def test_nothing_is_fitted_for_a_check():
    ev = op.evaluate(LOG, better, estimators=["IPW"])
    before = len(ev.problem.fits)
    assert math.isnan(ev.diagnostics["reward_model_r2"].value)
    assert len(ev.problem.fits) == before == 0


def test_half_split_checks_its_scored_half():
    ev = op.evaluate(LOG, better, estimators=["DR-half"], folds=FOLD)
    w = (better(X) == A) / 0.5
    half = ev.problem.folds.scored("half", 0)
    assert float(ev.diagnostics["mean_weight"]) == pytest.approx(w[half].mean())
    assert ev.diagnostics["effective_sample_size"].details["units"] == len(half)


def test_efficiency_bound_with_the_truth():
    # Known μ and unit noise: the bound is Var(v) + E[w²], and DML with the true μ attains it.
    q = np.column_stack([np.zeros(N), X[:, 0]])
    ev = op.evaluate(LOG, better, reward_model=q, estimators=["DML"])
    d = ev.problem.decisions(ev.targets["policy"], named("DML"))
    v = q[np.arange(N), better(X)]
    w = (better(X) == A) / 0.5
    noise = R - q[np.arange(N), A]
    assert efficiency_bound(d) == pytest.approx(v.var() + np.mean(w**2 * noise**2))
    ratio = ev.diagnostics["efficiency_ratio"]
    assert ratio.details["variance"] == pytest.approx(ev["policy", "DML"].variance)
    assert 0.85 < float(ratio) < 1.15


def test_efficiency_bound_of_rates():
    rng = np.random.default_rng(0)
    r = (rng.random(N) < 0.3).astype(float)
    log = op.BanditLog.from_arrays(X, A, r, np.full(N, 0.5))
    ev = op.evaluate(log, better, reward_model=np.full((N, 2), 0.3), estimators=["DML"])
    w = (better(X) == A) / 0.5
    assert ev.diagnostics["efficiency_ratio"].details["bound"] == pytest.approx(np.mean(w**2) * 0.21)


def test_reliability_bins_hold_equal_mass():
    r, q, m = RNG.random(500), RNG.random(500), RNG.uniform(0.5, 2, 500)
    table = reliability(r, q, m)
    assert sum(b["mass"] for b in table) == pytest.approx(m.sum())
    assert max(b["mass"] for b in table) < 0.12 * m.sum()
    assert skill(np.ones(4), np.ones(4), np.ones(4)) != skill(r, r, m) == 1.0


def test_a_behavior_model_that_misses_the_context_is_refused():
    p = 1 / (1 + np.exp(-X[:, 0]))
    a = (np.random.default_rng(3).random(N) < p).astype(int)
    log = op.BanditLog.from_arrays(X, a, R)
    right = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
    wrong = op.evaluate(log, better, estimators=["DML"], behavior_model="shares")
    assert right.verdict().level != "insufficient evidence"
    assert wrong.diagnostics["mean_weight"].level == "alarm"
    assert wrong.verdict().level == "insufficient evidence"


def test_floored_rows_are_counted():
    a = A.copy()
    a[0] = 2
    log = op.BanditLog.from_arrays(X, a, R)
    found = op.evaluate(log, "uniform", estimators=["IPW-cf"], behavior_model="shares", folds=FOLD).diagnostics[
        "floored"
    ]
    assert found.details["rows"] == 1
    assert found.value == pytest.approx(1 / N)
    assert found.level == "caution"


# -- stability -------------------------------------------------------------------------------------


def test_heterogeneity_is_cochrans_q():
    mean, error = np.array([0.1, 0.3, 0.2]), np.array([0.05, 0.04, 0.1])
    q, p = heterogeneity(mean, error)
    weights = 1 / error**2
    center = np.average(mean, weights=weights)
    assert q == pytest.approx(np.sum(weights * (mean - center) ** 2))
    assert p == pytest.approx(stats.chi2.sf(q, 2))


def test_drift_between_batches():
    batch = np.arange(N) // 250
    steady = op.BanditLog.from_arrays(X, A, R, np.full(N, 0.5), batch=batch)
    moving = op.BanditLog.from_arrays(X, A, R + batch, np.full(N, 0.5), batch=batch)
    calm = op.evaluate(steady, better, estimators=["IPW"]).diagnostics["batch_drift"]
    found = op.evaluate(moving, better, estimators=["IPW"]).diagnostics["batch_drift"]
    assert calm.level == "ok"
    assert found.level == "note"  # the value over all batches is what it is
    psi = (better(X) == A) * 2 * (R + batch)
    rows = found.details["batches"]
    for b in range(4):
        part = psi[batch == b]
        assert rows[b]["value"] == pytest.approx(part.mean())
        assert rows[b]["std_error"] == pytest.approx(part.std() / math.sqrt(250))


def test_estimators_that_disagree():
    # Propensities off by a factor: IPW moves, the self-normalized estimate does not.
    rng = np.random.default_rng(1)
    r = 5 + rng.normal(size=N)
    a = (rng.random(N) < 0.5).astype(int)
    fair = op.BanditLog.from_arrays(None, a, r, np.full(N, 0.5))
    off = op.BanditLog.from_arrays(None, a, r, np.full(N, 0.6))
    names = ["IPW", "SNIPW"]
    calm = op.evaluate(fair, op.policies.Fixed(1), estimators=names).diagnostics
    loud = op.evaluate(off, op.policies.Fixed(1), estimators=names).diagnostics
    assert calm["estimator_disagreement"].level == "ok"
    assert loud["estimator_disagreement"].level == "alarm"
    same = op.evaluate(fair, op.policies.Fixed(1), estimators=["SNIPW"]).diagnostics
    assert math.isnan(same["estimator_disagreement"].value)


def test_clipping_curve():
    found = op.evaluate(LOG, better, estimators=["SNIPW"]).diagnostics["clipping_sensitivity"]
    assert found.value == 0  # one weight level: nothing is above it
    rng = np.random.default_rng(3)
    p = np.where(rng.random(N) < 0.02, 0.01, 0.5)
    a = (rng.random(N) >= p).astype(int)
    p_logged = np.where(a == 0, p, 1 - p)
    r = np.where(p == 0.01, 10.0, 1.0)
    log = op.BanditLog.from_arrays(p, a, r, p_logged)
    ev = op.evaluate(log, op.policies.Fixed(0), estimators=["SNIPW"])
    curve = ev.diagnostics["clipping_sensitivity"].details["curve"]
    caps = [point["cap"] for point in curve]
    assert caps == sorted(caps)
    w = np.where(a == 0, 1 / p_logged, 0.0)
    for point in curve:
        cut = np.minimum(w, point["cap"])
        assert point["value"] == pytest.approx((cut * r).sum() / cut.sum())


def test_quantile_of_mass_is_that_of_repeated_values():
    x, m = RNG.random(30), RNG.integers(1, 6, 30)
    shares = (0.1, 0.5, 0.9, 1.0)
    repeated = np.sort(np.repeat(x, m))
    expected = [repeated[math.ceil(s * len(repeated) - 1e-9) - 1] for s in shares]
    assert quantiles(x, shares, m.astype(float)).tolist() == expected
