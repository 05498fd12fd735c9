"""Rewards of one day in the wrong rows are seen, and a season is not taken for it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import offpolicy as op

NAME = "reward_model_by_batch"


def log_of(seed, n=12_000, *, spoil=False, season=False):
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(10), n // 10)
    x, a = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    level = 0.3 * np.sin(day) if season else 0.0
    reward = level + 0.5 * x[:, 0] + 0.3 * a + rng.normal(size=n)
    if spoil:
        rows = np.flatnonzero(day == 7)
        reward[rows] = rng.permutation(reward[rows])
    return op.BanditLog.from_arrays(x, a, reward, np.full(n, 0.5), batch=day)


@pytest.mark.parametrize("season", [False, True])
def test_a_day_of_rewards_in_the_wrong_rows(season):
    ev = op.evaluate(log_of(0, spoil=True, season=season), "always:1", reward_model=Ridge())
    found = ev.diagnostics[NAME]
    assert found.level == "caution"
    assert "batch 7" in found.sentence
    assert ev.verdict().level == "caution"


@pytest.mark.parametrize("season", [False, True])
def test_days_that_differ_in_level_are_calm(season):
    for seed in range(8):
        ev = op.evaluate(log_of(seed, 4000, season=season), "always:1", reward_model=Ridge())
        assert ev.diagnostics[NAME].level == "ok"


def test_without_batches_or_a_model_it_is_not_run():
    n = 400
    plain = op.BanditLog.from_arrays(np.arange(n), np.arange(n) % 2, np.ones(n), np.full(n, 0.5))
    assert not op.evaluate(plain, "always:1", reward_model=Ridge()).diagnostics[NAME].ran
    weighted = op.evaluate(log_of(0, 1000), "always:1", estimators=["IPW"])
    assert not weighted.diagnostics[NAME].ran
