"""The study of slates: its worlds, the published estimator, and its tables."""

import itertools

import numpy as np
import pytest

from offpolicy_studies.slates.study import WEIGHTED, Args, reproduce, show
from offpolicy_studies.slates.world import ITEMS, Logged, World, published_cascade_dr


@pytest.mark.parametrize("kind", ["cascade", "independent", "full"])
def test_values_are_those_of_all_slates(kind):
    rng = np.random.default_rng(1)
    world = next(w for w in (World.draw(kind, rng) for _ in range(100)) if w.slots == 3)
    x = rng.normal(size=(4, 5))
    p = np.exp(world.target) / np.exp(world.target).sum()
    exact = sum(
        np.prod(p[list(items)]) * world.chances(x, np.tile(items, (4, 1))).sum(axis=1).mean()
        for items in itertools.product(range(ITEMS), repeat=3)
    )
    assert world.value(x, 20_000, rng) == pytest.approx(exact, abs=0.02)


def test_only_the_slots_of_a_kind_matter():
    rng = np.random.default_rng(2)
    for kind, changes in (("independent", set()), ("cascade", {2}), ("full", {0, 2})):
        world = next(w for w in (World.draw(kind, rng) for _ in range(100)) if w.slots == 3)
        x, items = rng.normal(size=(50, 5)), rng.integers(ITEMS, size=(50, 3))
        other = items.copy()
        other[:, 1] = (items[:, 1] + 1) % ITEMS
        moved = np.abs(world.chances(x, items) - world.chances(x, other)).max(axis=0) > 1e-12
        assert set(np.flatnonzero(moved)) - {1} == changes


def test_the_published_estimator_is_close_to_the_truth():
    logged = Logged.draw("independent", 2000, np.random.default_rng(3))
    assert published_cascade_dr(logged) == pytest.approx(logged.here, abs=0.3)


def test_tables():
    found = reproduce(Args(slates=200, replications=2, fitted=2, kinds=("cascade",), workers=1))
    text = show(found)
    assert set(found["kinds"]["cascade"]["checks"]) == set(WEIGHTED)
    for name in ("IPS", "IIPS", "RIPS", "DML", "cascade-DR, published"):
        assert f"| {name} |" in text
    assert "| all | DML |" in text
    assert "| all | IPW, interaction chosen |" in text
