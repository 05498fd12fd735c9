"""A fitted heavy tail refuses an answer only where the largest weight is as large as such a tail makes it."""

import numpy as np
import pytest

from offpolicy.inference.intervals import Evidence, Sample, choose, tail_index
from offpolicy.inference.intervals.tails import tail_is_visible


def scores(weights, seed=0):
    rewards = np.random.default_rng(seed).normal(size=len(weights))
    return Sample.of_mean(weights * rewards), Evidence(weights=weights, rewards=rewards)


def truncated(n=500):
    """Weights that climb steeply up to a bound: a large index, and no unit that matters."""
    rng = np.random.default_rng(1)
    body = rng.uniform(0.2, 1.2, size=n - 60)
    return np.concatenate([body, 1.2 + 3 * np.arange(1, 61) ** 3 / 60**3])


def test_a_tail_that_ends_is_answered():
    w = truncated()
    assert tail_index(w) > 0.7
    assert not tail_is_visible(w)
    assert choose(*scores(w)).sufficient


def test_a_tail_that_shows_is_refused():
    w = np.random.default_rng(0).pareto(0.9, size=2000) + 0.1
    assert tail_index(w) > 0.7
    assert tail_is_visible(w)
    choice = choose(*scores(w))
    assert not choice.sufficient
    assert "Pareto tail index" in choice.reason


@pytest.mark.parametrize("n", [1000, 100_000])
def test_true_heavy_tails_show_at_any_size(n):
    rng = np.random.default_rng(2)
    seen = [tail_is_visible((1 - rng.random(n)) ** -0.9) for _ in range(40)]
    assert np.mean(seen) > 0.85


def test_counts_stand_for_units():
    w = np.array([1.0, 9.0])
    assert tail_is_visible(w, [99, 1])
    assert not tail_is_visible(w, [990, 10])
