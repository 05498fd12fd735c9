"""The study of actions that are numbers: its worlds, and one small run."""

import numpy as np
import pytest

from offpolicy_studies.continuous.study import Args, reproduce, show
from offpolicy_studies.continuous.world import WORLDS, logged


@pytest.mark.parametrize("name", WORLDS)
def test_densities_of_a_world_are_those_of_its_draws(name):
    """E[1{a < A < b} / density] is b − a wherever every context can draw there."""
    data = logged(name, 200_000, np.random.default_rng(0))
    low, high = np.quantile(data.action, (0.3, 0.7))
    inside = ((data.action > low) & (data.action < high)) / data.density
    error = inside.std() / np.sqrt(len(inside))
    assert abs(inside.mean() - (high - low)) < 5 * error


def test_a_small_run():
    result = reproduce(Args(worlds=("wave",), sizes=(400,), replications=2, curves=1, workers=1))
    assert set(result["cells"]) == {"wave, n = 400", "synthetic, n = 400, densities fitted"}
    assert next(iter(result["bandwidths"])) == "0.25"
    text = show(result)
    assert "| wave, n = 400 | DML |" in text
    assert "OBP's DR bias" in text
