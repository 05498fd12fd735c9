"""Which interaction is chosen by slates that no estimate uses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trust_slates import frame_of, log_of

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.splits.hashing import drawn
from offpolicy.trust import slots
from offpolicy.trust.view import View


def test_the_narrowest_interaction_that_holds():
    flat = np.zeros(1500)
    for options, name in (({}, "independent"), ({"effect": 0.9}, "cascade"), ({"effect": 0.9, "below": True}, "full")):
        log = log_of(frame_of(1500, 4, x=flat, **options), bare=True)
        assert slots.choice(log, 0.001) == name
    log = log_of(frame_of(1500, 4, x=flat), bare=True)
    p = slots.dependence(log, np.tril(np.ones((3, 3), dtype=bool))).p
    assert slots.depends(log, np.tril(np.ones((3, 3), dtype=bool)), p + 1e-9)
    assert not slots.depends(log, np.tril(np.ones((3, 3), dtype=bool)), p)
    assert slots.choice(log, 1.1) == "full"


def test_slates_that_choose_are_not_evaluated():
    log = log_of(frame_of(400, 4, x=np.zeros(400)), "auto", bare=True)
    kept = slots.settled(log, 2, 0)
    apart = 400 - kept.n
    assert 80 <= apart <= 120
    first = kept.notes[-1]
    assert first.startswith("interaction '")
    assert f"was chosen on {apart} slates, which are not used for estimates" in first
    for folds in ([0, 1], (0, 1), np.zeros(2)):
        with pytest.raises(UsageError, match="folds= must be a number"):
            slots.settled(log, folds, 0)
    with pytest.raises(UsageError, match="needs logged propensities"):
        slots.settled(replace(log, propensity=None), 2, 0)
    small = log_of(frame_of(100, 4, x=np.zeros(100)), "auto", bare=True)
    with pytest.raises(UsageError, match="100 slates are too few"):
        slots.settled(small, 2, 0)


def test_levels_at_which_slates_choose(monkeypatch):
    log = log_of(frame_of(300, 4, x=np.zeros(300)), "auto", bare=True)
    asked_at, says = [], {0.2: "independent", 0.1: "independent"}

    def choice(part, level):
        asked_at.append((part.n, level))
        return says[level]

    monkeypatch.setattr(slots, "choice", choice)
    kept = slots.settled(log, 2, 5)
    apart = int(np.asarray(drawn(log.units, 0.25, 5)).sum())
    assert asked_at == [(apart, 0.2), (300 - apart, 0.1)]
    assert kept.notes[-1] == f"interaction 'independent' was chosen on {apart} slates, which are not used for estimates"
    says[0.1] = "cascade"
    wider = slots.settled(log, 2, 5)
    assert wider.interaction.name == "cascade"
    assert wider.notes[-1].endswith(", and widened to 'cascade', because rewards of the other slates depend on it")
    says.update({0.2: "full"})
    assert slots.settled(log, 2, 5).interaction.name == "full"


def test_forty_slates_are_enough_to_choose(monkeypatch):
    monkeypatch.setattr(slots, "choice", lambda part, level: "full")
    log = log_of(frame_of(120, 4, x=np.zeros(120)), "auto", bare=True)
    for size, fine in ((40, True), (39, False), (80, True), (81, False)):
        monkeypatch.setattr(slots, "drawn", lambda units, share, seed, size=size: np.arange(120) < size)
        if fine:
            assert slots.settled(log, 2, 0).n == 120 - size
        else:
            with pytest.raises(UsageError, match="too few"):
                slots.settled(log, 2, 0)


def test_a_hundred_slates_are_enough_for_a_wider_interaction():
    for n, ran in ((100, True), (99, False)):
        log = log_of(frame_of(n, 3, x=np.zeros(n)))
        same = op.evaluate(log, lambda rows: np.tile([0.5, 0.3, 0.2], (len(rows), 1)), estimators=["IPW"])
        assert slots.bias(View.of(same.problem, same.targets["policy"])).ran is ran
