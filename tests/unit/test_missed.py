"""What episodes may have missed is allowed for without a covariance that is not there."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.logs.layout import Layout
from offpolicy.scores.decisions import Decisions
from offpolicy.scores.tuning import Floor, floored


def decisions(n=2000, seed=0):
    """Rewards at the top of a ladder: the ratio-weighted returns go with the logged ones."""
    rng = np.random.default_rng(seed)
    reward, weight = (rng.random(n) < 0.6) * 1.0, rng.choice([0.5, 1.5], n)
    half, one = np.full(n, 0.5), np.ones(n)
    return Decisions(Layout.ragged([1] * n), reward, half, half, one, one, marginal=weight), reward


def test_an_allowance_does_not_go_with_the_returns():
    d, reward = decisions()
    rng = np.random.default_rng(1)
    scores = 0.6 + 1e-3 * rng.normal(size=2000)
    psi, note = floored(d, scores)
    floor = Floor.of(d)
    assert note
    assert psi.mean() == pytest.approx(scores.mean(), abs=1e-12)
    assert ((psi - psi.mean()) ** 2).sum() == pytest.approx(floor.square)
    assert abs(np.corrcoef(psi, reward)[0, 1]) < 0.05
    apart = (psi - reward).var()
    assert apart == pytest.approx(psi.var() + reward.var(), rel=0.01)


def test_what_scores_share_with_the_returns_stays():
    d, reward = decisions()
    scores = 0.6 + 0.01 * (reward - reward.mean())
    psi, note = floored(d, scores)
    assert note
    assert np.cov(psi, reward, bias=True)[0, 1] == pytest.approx(0.01 * reward.var(), rel=0.1)
