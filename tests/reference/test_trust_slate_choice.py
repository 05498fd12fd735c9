"""Which interaction is chosen by slates that no estimate uses."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy.trust import slots, slots_choice

sys.path.insert(0, str(Path(__file__).parent))

from trust_slates import frame_of, log_of


def test_the_narrowest_interaction_that_holds():
    flat = np.zeros(1500)
    for options, name in (
        ({}, "independent"),
        ({"effect": 0.9}, "cascade"),
        ({"effect": 0.9, "below": True}, "full"),
    ):
        log = log_of(frame_of(1500, 4, x=flat, **options), bare=True)
        assert slots_choice.choice(log, 0.001) == name
    log = log_of(frame_of(1500, 4, x=flat), bare=True)
    p = slots.dependence(log, np.tril(np.ones((3, 3), dtype=bool))).p
    assert slots_choice.depends(log, np.tril(np.ones((3, 3), dtype=bool)), p + 1e-9)
    assert not slots_choice.depends(log, np.tril(np.ones((3, 3), dtype=bool)), p)
    assert slots_choice.choice(log, 1.1) == "full"


def test_slates_that_choose_are_not_evaluated():
    log = log_of(frame_of(400, 4, x=np.zeros(400)), "auto", bare=True)
    kept = slots_choice.settled(log, 2, 0)
    apart = 400 - kept.n
    assert 80 <= apart <= 120
    first = kept.notes[-1]
    assert first.startswith("interaction '")
    assert f"was chosen on {apart} slates, which no estimate uses" in first
    for folds in ([0, 1], (0, 1), np.zeros(2)):
        with pytest.raises(UsageError, match="give folds= as a number"):
            slots_choice.settled(log, folds, 0)
    with pytest.raises(UsageError, match="needs logged propensities"):
        slots_choice.settled(replace(log, propensity=None), 2, 0)
    small = log_of(frame_of(100, 4, x=np.zeros(100)), "auto", bare=True)
    with pytest.raises(UsageError, match="of which there are 100 in all: too few"):
        slots_choice.settled(small, 2, 0)
