"""Sizes of A/B tests: the target's own variance, kept rows, clusters, and a difference that was not selected."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.trust.trial import shrunken

RNG = np.random.default_rng(0)
QUANTILES = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)


def test_the_promised_power_holds_on_average_over_the_logs_that_propose_a_test():
    """z ~ N(t, 1) of those beyond 1.96; the true power of a test sized for the shrunken z."""
    z = np.linspace(1.96, 16, 4000)
    size = np.array([shrunken(x) for x in z])
    for truth in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0):
        weight = stats.norm.pdf(z - truth)
        power = stats.norm.sf(1.96 - QUANTILES * truth / size)
        average = float(weight @ power / weight.sum())
        assert 0.74 < average < 0.9, (truth, average)


def test_the_variance_of_the_new_arm_is_its_own():
    n = 20_000
    a = RNG.integers(2, size=n)
    r = 1.0 + 0.3 * a + np.where(a == 1, 5.0, 0.5) * RNG.normal(size=n)
    log = op.BanditLog.from_arrays(None, a, r, np.full(n, 0.5))
    test = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test
    spread = r.var() + r[a == 1].var()
    assert test.per_arm == pytest.approx(QUANTILES**2 * spread / test.difference**2, rel=0.01)


def test_a_log_of_kept_rows_speaks_of_all_impressions():
    n = 40_000
    a = RNG.integers(2, size=n)
    r = (RNG.random(n) < 0.04 + 0.02 * a).astype(float)
    keep = np.where(r == 1, 1.0, 0.1)
    kept = RNG.random(n) < keep
    frame = pd.DataFrame({"a": a, "r": r, "p": 0.5, "keep": keep, "x": 0.0})
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    tests = []
    for rows, extra in ((frame, {}), (frame[kept], {"keep_probability": "keep"})):
        log = op.BanditLog.from_frame(rows.reset_index(drop=True), **roles, **extra)
        tests.append(op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]).verdict().test)
    whole, part = tests
    assert not whole.assumed
    assert not part.assumed
    assert part.total * part.difference**2 == pytest.approx(
        whole.total * whole.difference**2, rel=0.1
    )


def test_where_the_difference_may_be_0_the_test_is_of_a_relevant_change():
    n = 2000
    a, noise = np.arange(n) % 2, np.random.default_rng(1).normal(size=n)
    log = op.BanditLog.from_arrays(None, a, 1.0 + noise, np.full(n, 0.5))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    assert (ev["SNIPW"] - ev.logged).interval().covers(0.0)
    test = ev.verdict().test
    assert test.assumed
    assert test.difference == pytest.approx(0.1 * ev.logged.value)
    assert "10% of the logged value" in str(test)
