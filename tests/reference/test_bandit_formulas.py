"""Estimates with given nuisances against the formulas, written as plain loops over rows."""

import math

import numpy as np
import pytest

from offpolicy import BanditLog, evaluate

N, K = 97, 3


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(5)
    pi_b = rng.dirichlet(np.full(K, 3.0), size=N)
    pi_e = rng.dirichlet(np.full(K, 1.0), size=N)
    action = np.array([rng.choice(K, p=p) for p in pi_b])
    reward = rng.normal(size=N) + action
    q = rng.normal(size=(N, K))
    return pi_b, pi_e, action, reward, q


def rows(world):
    pi_b, pi_e, action, reward, q = world
    for i in range(N):
        a = action[i]
        v = sum(pi_e[i, k] * q[i, k] for k in range(K))
        yield pi_e[i, a] / pi_b[i, a], reward[i], q[i, a], v


def mean_and_error(psi):
    value = math.fsum(psi) / len(psi)
    variance = math.fsum((p - value) ** 2 for p in psi) / len(psi)
    return value, math.sqrt(variance / len(psi))


def dm(world):
    return mean_and_error([v for _, _, _, v in rows(world)])


def ipw(world):
    return mean_and_error([w * r for w, r, _, _ in rows(world)])


def dr(world):
    return mean_and_error([w * (r - q) + v for w, r, q, v in rows(world)])


def snipw(world):
    total = math.fsum(w for w, _, _, _ in rows(world))
    value = math.fsum(w * r for w, r, _, _ in rows(world)) / total
    # Delta method for a ratio of means: Var ≈ Σ w²(r − θ)² / (Σ w)².
    square = math.fsum((w * (r - value)) ** 2 for w, r, _, _ in rows(world))
    return value, math.sqrt(square) / total


def sndr(world):
    total = math.fsum(w for w, _, _, _ in rows(world))
    ratio = math.fsum(w * (r - q) for w, r, q, _ in rows(world)) / total
    direct = math.fsum(v for _, _, _, v in rows(world)) / N
    # Influence of the ratio plus influence of the mean, on the same row.
    square = math.fsum((N * w * (r - q - ratio) / total + v - direct) ** 2 for w, r, q, v in rows(world))
    return ratio + direct, math.sqrt(square) / N


FORMULAS = {
    "DM": dm,
    "DM-cf": dm,
    "IPW": ipw,
    "IPW-cf": ipw,
    "DR-full": dr,
    "DML": dr,
    "DR-cf": dr,
    "SNIPW": snipw,
    "SNDR": sndr,
    "SNDR-cf": sndr,
}


@pytest.mark.parametrize("form", ["distribution", "logged"])
@pytest.mark.parametrize("name", FORMULAS)
def test_value_and_standard_error_are_the_formulas(world, name, form):
    pi_b, pi_e, action, reward, q = world
    propensity = pi_b if form == "distribution" else pi_b[np.arange(N), action]
    log = BanditLog.from_arrays(None, action, reward, propensity)
    e = evaluate(log, pi_e, estimators=[name], reward_model=q)["policy", name]
    value, error = FORMULAS[name](world)
    assert e.value == pytest.approx(value, abs=1e-10)
    assert e.std_error == pytest.approx(error, abs=1e-10)
    assert e.n == N


def test_half_sample_uses_only_its_half(world):
    pi_b, pi_e, action, reward, q = world
    log = BanditLog.from_arrays(None, action, reward, pi_b)
    labels = np.arange(N) % 2
    e = evaluate(log, pi_e, estimators=["DR-half"], reward_model=q, folds=labels)["policy", "DR-half"]
    psi = [w * (r - qa) + v for w, r, qa, v in rows(world)]
    value, error = mean_and_error([p for p, label in zip(psi, labels, strict=True) if label == 0])
    assert e.value == pytest.approx(value, abs=1e-10)
    assert e.std_error == pytest.approx(error, abs=1e-10)
    assert e.n == 49


def test_weights_and_clusters_by_loops(world):
    pi_b, pi_e, action, reward, q = world
    rng = np.random.default_rng(1)
    weight, cluster = rng.uniform(0.5, 2, size=N), rng.integers(0, 20, size=N)
    log = BanditLog.from_arrays(None, action, reward, pi_b, weight=weight, cluster=cluster)
    e = evaluate(log, pi_e, estimators=["DML"], reward_model=q)["policy", "DML"]
    psi = [w * (r - qa) + v for w, r, qa, v in rows(world)]
    total = math.fsum(weight)
    value = math.fsum(o * p for o, p in zip(weight, psi, strict=True)) / total
    sums = [math.fsum(weight[i] * (psi[i] - value) for i in range(N) if cluster[i] == g) for g in np.unique(cluster)]
    assert e.value == pytest.approx(value, abs=1e-10)
    assert e.std_error == pytest.approx(math.sqrt(math.fsum(s * s for s in sums)) / total, abs=1e-10)
