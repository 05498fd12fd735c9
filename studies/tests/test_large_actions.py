"""The study of many actions: its worlds are what they say, and its tables are made."""

import numpy as np
import pytest

from offpolicy_studies.large_actions import published, study
from offpolicy_studies.large_actions.worlds import Policy, World
from offpolicy_studies.monte_carlo import generator


def test_both_ratios_of_the_published_world_have_mean_one_and_the_marginal_one_varies_less():
    world, rng = published.World(50, seed=1), np.random.default_rng(0)
    log = published.draw(world, 20_000, np.array([0.0, 0.2, 0.3, 0.5]), rng)
    for ratio in (log.exact, log.marginal):
        assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(len(ratio)))
    assert log.marginal.std() < log.exact.std()
    weighted = log.marginal * log.reward
    assert weighted.mean() == pytest.approx(log.value, abs=5 * weighted.std() / np.sqrt(len(weighted)))


def test_values_of_worlds_are_means_over_contexts():
    world = World(actions=40, direct=0.2)
    x = np.random.default_rng(3).normal(size=(20_000, 3))
    pi = Policy(world, 1.5).probabilities(x)
    assert (pi * world.mean(x)).sum(axis=1).mean() == pytest.approx(world.values["soft"], abs=0.05)


def test_one_replication_and_its_table():
    cell = study.Cell(World(actions=40), 600, ratios=("exact", "cells"), modeled=False)
    found = [study.replicate(cell, generator(0, "a", i)) for i in range(2)]
    rows = study.summary(found)
    assert [r["ratio"] for r in rows] == ["exact", "exact", "cells", "cells"]
    assert [r["coarse"] for r in rows] == [0, 0, 1, 1]
    result = {
        "published": study.published_errors(study.Args(actions=(10,), logs=2)),
        "worlds": {"a": rows},
        "leaning": {"b": study.leaning_summary([study.leaning(cell, generator(0, "b", 0))])},
    }
    text = study.show(result)
    assert "| 10 | 3 × 2 |" in text
    assert "1.38" in text
