"""Thresholds that decide answers are those that the documentation states: who changes one changes the pages too."""

from __future__ import annotations

import importlib

import pytest

FIGURES = {
    "scores.blend": {
        "LARGEST_SHARE": 0.1, "MEAN_WITHIN": 0.2, "BARELY": (8.0, 0.5, 0.5), "CONTRADICTED": 5.0, "NOISE": 1.0,
        "FEWEST_EPISODES": 20.0, "ENOUGH_EPISODES": 100.0, "ENOUGH_SHARE": 0.1,
        "LEFT_OVER": 0.05, "FEWEST_RUNNING": 50, "MOST_LOG": 200.0,
    },
    "scores.tuning": {"RULE_OF_THREE": 3.0, "QUARTILE": 0.6744897501960817, "MOST_RETURNS": 30},
    "scores.control_variates": {"UNITS_PER_COEFFICIENT": 50, "MOST_LEVERAGE": 1 - 1e-9, "MOST_SHARE": 0.5},
    "scores.decisions": {"LARGEST_LOG_WEIGHT": 700.0},
    "testing.checks": {"UNITS": 60, "CLOSE": 1e-9},
    "splits.hashing": {"P": 67108859, "Q": 67108837, "R": 67108819, "HALF": 0x4A1F, "DEFAULT_SEED": 0},
    "splits.folds": {"MANY_FOLDS": 10_000},
    "inference.bend": {
        "WINDOWS": (0.5, 0.354, 0.25), "MIDDLE": (0.05, 0.95), "FEWEST": 50, "MOST": 100_000, "SURE": 4.0,
        "STAYS": 0.45, "SUFFICE": 0.1, "SCALES": 1.64, "POWERS": {"corner": (4, 6, 8), "jump": (5, 7, 9)},
        "HALVED": {"corner": 2**-1.5, "jump": 2**-0.5},
    },
    "inference.condense": {"LIMIT": 65536, "MARGIN": 64, "SOME": 65536},
    "inference.confidence": {"NEAR_ZERO": 10.0, "SMALLEST": 1e-12, "USUAL": 0.05, "NEAR": 1e-7},
    "inference.estimate": {"INTERIOR": 4 / 3, "EDGE": 2.0, "UNSEEN": 1.0},
    "inference.score_table": {"MOST_ROWS": 1_000_000, "SMALL": 100_000, "ROUNDING": 1e-12},
    "columns.store": {"LIMIT": 64_000_000},
    "inference.intervals.cells": {
        "FINE": 4096, "COARSER": 5, "FEW": 16, "KINDS": 9, "POINTS": 4, "DENSE": 4194304, "BLOCK": 32768,
    },
    "inference.intervals.resample": {"ONE_BY_ONE": 8192, "TAIL": 2048, "CHUNK": 2097152},
    "inference.intervals.rules": {
        "SMOOTH": 0.1, "LUMPY": 0.25, "DOMINATED": 0.5, "FEW_UNITS": 10, "MANY_UNITS": 200, "LEAST_OF_HEAVY": 0.95,
        "NORMAL_QUANTILE": 1.959964,
    },
    "inference.intervals.sample": {"ROUNDING": 64 * 2**-52},
    "inference.intervals.tails": {
        "LEVELS": 5, "HEAVY_TAIL": 0.7, "VISIBLE": 0.05, "NO_FOURTH_MOMENT": 0.25, "NORMAL": 1.5957691216057308,
        "ROUNDING": 1e-9, "SMALLEST": 1e-50,
    },
    "inference.intervals.betting": {
        "DISTINCT": 20_000,
        "STAKES": {0.25: 0.25, 1.0: 0.3, 4.0: 0.2, 16.0: 0.1, 64.0: 0.06, 256.0: 0.05, 1024.0: 0.04},
        "JOINT_STAKES": {0.25: 0.3, 1.0: 0.35, 4.0: 0.25, 16.0: 0.1}, "EXPECTED": (1 / 3, 2 / 3, 1.0),
        "MOST_LOST": 0.95,
    },
}  # fmt: skip


@pytest.mark.parametrize("module", FIGURES)
def test_the_figures_of_a_module(module):
    found = importlib.import_module(f"offpolicy.{module}")
    assert {name: getattr(found, name) for name in FIGURES[module]} == FIGURES[module]
