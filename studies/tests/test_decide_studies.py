"""Studies of decisions: bounds by hand, small runs, and values that are exact."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from offpolicy_studies.decide import (
    delta_ope,
    learning,
    published,
    replaying,
    routing,
    selection,
    selection_trials,
    sets,
    worlds,
)

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_prompts = pytest.mark.skipif(
    not (DATA / "router").exists(), reason="router/ is not in ../shared/data beside the repository"
)
NOWHERE = sets.Folders(None, None)


def test_published_bounds_by_hand():
    """Four rows with weight 1: all bounds are functions of the mean reward."""
    one, reward = np.full(4, 0.5), np.array([1.0, 1.0, 1.0, 0.0])
    log = math.log(20)
    smoothed = (1.5**0.75 * math.exp(-log / 4) - 1) / 0.5
    assert published.logarithmic_smoothing(one, one, reward, 0.05) == pytest.approx(max(0, smoothed))
    explored = 0.75 * 0.5 / (0.5 + 0.25) - 4 * log / 8
    assert published.implicit_exploration(one, one, reward, 0.05) == pytest.approx(max(0, explored))
    assert published.empirical_bernstein(one, one, reward, 0.05) == 0


def test_a_policy_that_knows_earns_what_noise_leaves():
    label = np.array([0, 1, 2])
    assert sets.value(sets.knowing(label, 3, 0.01), label, 0.2) == pytest.approx(0.8)
    faulty = sets.knowing(label, 3, 0.01, faulty=(0, 1))
    assert sets.value(faulty, label, 0.0) == pytest.approx(1 / 3)


def test_selection_on_one_set(tmp_path):
    options = selection.Args(sets=("iris",), trials=2, nulls=2, workers=1, out=tmp_path)
    result = selection.reproduce(options)
    assert set(result["choices"]["op.select, rate 0.05"]) == {"best", "better", "worse"}
    assert result["above"][selection.OURS][0] <= 0.2
    assert "published" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_softmax_by_weights_climbs():
    """Where the first column says which action pays, the policy learns to follow it."""
    rng = np.random.default_rng(0)
    X, action = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    reward = (action == (X[:, 0] > 0)).astype(float)
    log = sets.Drawn(np.arange(400), action, reward, np.full(400, 0.5))
    for normalized in (False, True):
        weights = selection_trials.softmax_by_weights(X, log, 2, normalized=normalized)
        assert ((X @ weights).argmax(axis=1) == (X[:, 0] > 0)).mean() > 0.95


def test_learning_in_a_world_with_a_known_best_tree():
    cell = learning.Cell("simulated", "crossing", NOWHERE, 600, 2, "means")
    found = learning.replicate(cell, np.random.default_rng(0))
    assert 0.4 < found[2] <= 0.5  # the true value, of at most one half
    assert found[6] == pytest.approx(1 / 6)
    assert worlds.simulated("crossing").best == 0.5


def test_small_cases_are_never_beaten():
    for depth in learning.DEPTHS:
        found, best = learning.small_case(depth, np.random.default_rng(depth))
        assert found <= best + 1e-9
        assert depth == 3 or found == pytest.approx(best)


def test_campaigns_have_rare_clicks_and_exact_values():
    world = worlds.campaign(0, 0.001)
    assert 0 < world.value(np.zeros(len(world.share), dtype=int)) < 0.01


@needs_prompts
def test_routing_at_a_small_scale(tmp_path):
    options = routing.Args(DATA, replications=1, rows=400, advised=1, workers=1, out=tmp_path)
    result = routing.reproduce(options)
    assert result["values"]["large for all"] == pytest.approx(0.806, abs=5e-4)
    assert set(result["argmax"]["refused"].values()) == {1}
    assert result["argmax"]["advised"] == 1


# -- differences of learned policies -------------------------------------------------------------------


def test_delta_ips_removes_what_the_weights_explain():
    rng = np.random.default_rng(0)
    first, second = 2.0 * rng.integers(2, size=4_000), 4.0 * (rng.random(4_000) < 0.25)
    value, error = delta_ope.delta_ips(first, second, np.full(4_000, 3.0) + 0.1 * rng.normal(size=4_000))
    plain = 3 * (first - second).std() / np.sqrt(4_000)
    assert abs(value) < 4 * error
    assert error < 0.1 * plain


def test_a_short_run_of_differences_is_resumed(tmp_path):
    options = delta_ope.Args(replications=1, rows=(780,), betas=(1.0,), workers=1, out=tmp_path)
    found = delta_ope.reproduce(options)
    cell = found["cells"]["780 rows, β = 1"]
    assert cell["logs"] == 3
    assert cell["whole"]["mse"][0] == cell["alone"]["mse"][0]
    assert cell["whole"]["width"][0] <= cell["alone"]["width"][0] * (1 + 1e-9)
    assert delta_ope.reproduce(options) == found
    assert "| 780 rows, β = 1 (3) | Δβ-IPS |" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_replayed_logs_are_compared_with_online_runs_of_their_own():
    """A learner earns more where more rows are accepted, and each value is right for its own log."""
    supported = np.repeat([20.0, 200.0], 40)
    value = np.repeat([0.3, 0.6], 40)
    steps = supported + np.tile([-4.0, 4.0], 40)
    rows = [
        {"replayed": [v] * replaying.BINS, "online": [v] * replaying.BINS, "value": v, "truth": v, "earned": v * s,
         "steps": s, "expected": e, "held": 1.0, "refused": 0.0}
        for v, e, s in zip(value, supported, steps, strict=True)
    ]  # fmt: skip
    assert replaying._against(rows)["online"].value == pytest.approx(0, abs=1e-12)
