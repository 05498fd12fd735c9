"""Rates and the efficiency bound of Corollary 1, in a discrete world where it has a closed form.

σ²_CB = E[Σ_a π_e(a|S)² / π_b(a|S) · σ²_R(S, a) + (Σ_a π_e(a|S) μ(S, a) − V)²]
"""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from offpolicy import BanditLog, evaluate
from offpolicy.models import PerAction
from offpolicy.trust.models import efficiency_bound

P_S = np.array([0.4, 0.3, 0.2, 0.1])
MU = np.array([[0.0, 1.0, 0.5], [1.0, 0.2, 0.0], [0.3, 0.3, 2.0], [1.5, -1.0, 0.0]])
SD = np.array([[1.0, 0.5, 0.8], [0.7, 1.2, 0.4], [1.0, 1.0, 0.6], [0.9, 0.5, 1.1]])
PI_B = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3], [0.3, 0.3, 0.4]])
PI_E = np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.2, 0.1, 0.7], [0.6, 0.2, 0.2]])
V_S = (PI_E * MU).sum(axis=1)
VALUE = float(P_S @ V_S)
BOUND = float(P_S @ ((PI_E**2 / PI_B * SD**2).sum(axis=1) + (V_S - VALUE) ** 2))


def draw(rng, n):
    s = rng.choice(4, size=n, p=P_S)
    action = (rng.random((n, 1)) > PI_B[s].cumsum(axis=1)).sum(axis=1).clip(max=2)
    reward = MU[s, action] + SD[s, action] * rng.normal(size=n)
    return s, action, reward


def one(seed, n, names=("DML",), known=True):
    rng = np.random.default_rng(seed)
    s, action, reward = draw(rng, n)
    log = BanditLog.from_arrays(s, action, reward, PI_B[s], batch=None if known else s)
    return evaluate(
        log,
        PI_E[s],
        estimators=list(names),
        reward_model=PerAction(LinearRegression(fit_intercept=False)),
        # The context is the batch: shares by context are a right model of π_b.
        behavior_model=None if known else "shares",
        seed=int(rng.integers(2**31)),
    )


def errors(n, replications, name="DML", known=True, seed=0):
    streams = np.random.SeedSequence([seed, n]).spawn(replications)
    return np.array([one(s, n, (name,), known)[name].value - VALUE for s in streams])


def rmse(x):
    return float(np.sqrt(np.mean(x**2)))


@pytest.mark.parametrize("known", [True, False])
def test_the_estimated_variance_reaches_the_bound(known):
    e = one(3, 60_000, known=known)["DML"]
    assert e.variance == pytest.approx(BOUND, rel=0.05)
    assert abs(e.value - VALUE) < 4 * np.sqrt(BOUND / 60_000)


def test_the_bound_is_estimated():
    ev = one(3, 60_000)
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    assert efficiency_bound(d) == pytest.approx(BOUND, rel=0.05)


def test_other_estimators_stay_above_the_bound():
    ev = one(4, 60_000, ("IPW", "SNIPW", "DML"))
    assert ev["IPW"].variance > 1.2 * BOUND
    assert ev["SNIPW"].variance > 1.05 * BOUND


def test_the_error_halves_when_the_sample_is_four_times_as_large():
    ratio = rmse(errors(400, 100)) / rmse(errors(1_600, 100))
    assert 1.5 < ratio < 2.6


def test_the_standard_error_of_snipw_is_that_of_the_simulation():
    runs = [one(s, 300, ("SNIPW",))["SNIPW"] for s in np.random.SeedSequence(9).spawn(400)]
    spread = np.std([e.value for e in runs])
    assert np.mean([e.std_error for e in runs]) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("name", ["SNIPW", "SNDR"])
def test_the_standard_error_of_a_ratio_is_that_of_the_bootstrap(name):
    rng = np.random.default_rng(1)
    s, action, reward = draw(rng, 1_000)
    q = MU[s] + 0.3
    log = BanditLog.from_arrays(s, action, reward, PI_B[s])
    e = evaluate(log, PI_E[s], estimators=[name], reward_model=q)[name]
    at = np.arange(1_000)
    w = (PI_E[s] / PI_B[s])[at, action]
    weighted = reward - (q[at, action] if name == "SNDR" else 0)
    v = (PI_E[s] * q).sum(axis=1) if name == "SNDR" else np.zeros(1_000)
    draws = rng.integers(0, 1_000, size=(3_000, 1_000))
    values = (w * weighted)[draws].sum(axis=1) / w[draws].sum(axis=1) + v[draws].mean(axis=1)
    assert e.std_error == pytest.approx(values.std(), rel=0.06)


@pytest.mark.verify
def test_the_error_falls_at_the_root_of_n(record_property):
    sizes = [500, 1_000, 2_000, 4_000, 8_000]
    found = [rmse(errors(n, 600, seed=5)) for n in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(found), 1)[0])
    record_property("slope", float(slope))
    print(f"\nRMSE {dict(zip(sizes, np.round(found, 4).tolist(), strict=True))}, slope {slope:.3f}")
    assert -0.55 < slope < -0.45


@pytest.mark.verify
@pytest.mark.parametrize("known", [True, False])
def test_rmse_is_within_five_percent_of_the_bound(known, record_property):
    # The cost of estimating the nuisances falls as 1/N: at N = 2,000 the ratios were 1.024 and 1.049.
    ratio = rmse(errors(8_000, 3_000, known=known, seed=11)) / np.sqrt(BOUND / 8_000)
    record_property("ratio", float(ratio))
    print(f"\nRMSE / bound, π_b {'known' if known else 'unknown'}: {ratio:.4f}")
    assert 0.95 < ratio < 1.05


@pytest.mark.verify
def test_half_the_sample_doubles_the_variance(record_property):
    ratio = np.var(errors(1_000, 1_500, "DR-half", seed=3)) / np.var(errors(1_000, 1_500, seed=3))
    record_property("ratio", float(ratio))
    print(f"\nvariance of DR-half over DML: {ratio:.3f}")
    assert 1.75 < ratio < 2.25
