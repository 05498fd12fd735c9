"""The published benchmark of estimator choice: its parts by hand, and ours on the same logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from offpolicy_studies.choice import OURS, PARTS, Args, Cell, at_hand, peers, relative, replicate, reproduce, ridges

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "uci"
needs_sets = pytest.mark.skipif(
    not DATA.exists(), reason="the UCI sets are not in ../shared/data beside the repository"
)


def test_the_parts_by_hand():
    """One context, two actions: ridge regressions are the actions' means."""
    action, reward = np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0])
    q = ridges(np.zeros((4, 1)), action, reward, 2)
    found = peers(q, action, reward, np.full((4, 2), 0.5), np.tile([0.2, 0.8], (4, 1)))
    assert found["IPS"] == pytest.approx((0.4 * 1 + 1.6 * 2) / 4)
    assert found["DM"] == pytest.approx(0.2 * 0.5 + 0.8)
    assert found["DR"] == pytest.approx(found["DM"])


@needs_sets
def test_one_log_has_every_estimator_for_both_targets():
    found = replicate(Cell(DATA, "glass", 2), np.random.default_rng(0))
    assert set(found) == {"strong", "weak"}
    for errors in found.values():
        assert {*PARTS, *(f"{e} (ridge)" for e in OURS)} <= set(errors)
        assert all(0 <= x < 1 for x in errors.values())


@needs_sets
def test_errors_are_relative_to_the_best_part(tmp_path):
    result = reproduce(Args(DATA, sets=("glass",), replications=2, folds=2, workers=1, out=tmp_path))
    for table in result["relative"].values():
        assert min(table[p]["glass"].value for p in PARTS) == 1
    shown = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| OCV_DR, published | 7.33 | 7.33 |" in shown


def test_the_error_of_a_ratio_is_that_of_runs_drawn_anew():
    """The delta method against the spread of the figure over many benchmarks of 200 runs."""
    rng = np.random.default_rng(0)

    def benchmark():
        ips = rng.chisquare(1, (2, 200))
        rows = [{"IPS": x, "DM": 9 * x, "DR": 5 * x, "auto": 0.8 * x * rng.uniform(0.5, 1.5, 200)} for x in ips]
        return relative({"one": rows[0], "two": rows[1]})["auto"]["mean"]

    found = np.array([benchmark() for _ in range(400)])
    assert found[:, 0].mean() == pytest.approx(0.8, abs=0.005)
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.15)


def test_the_sets_that_are_at_hand(tmp_path):
    """Raw features of ``vehicle`` are the published ones; scaled ones stand in where only these are there."""
    for name in ("yeast.data", "vehicle.csv"):
        (tmp_path / name).write_text("")
    assert at_hand(tmp_path) == ["yeast", "vehicle"]
    for part in "abcdefghi":
        (tmp_path / f"xa{part}.dat").write_text("")
    assert at_hand(tmp_path) == ["vehicle-raw", "yeast"]
