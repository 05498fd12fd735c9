"""A gate that would pass is asked again with folds that no seed moves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from trust_gates import KNOWN, RESTS, UNSEEN, Ev, scores

from offpolicy.inference.estimate import Estimate
from offpolicy.trust import gate
from offpolicy.trust.gate import check


@pytest.mark.parametrize(
    ("options", "asked", "expected"),
    [
        ({}, None, 7),
        ({"seed": 5}, None, 7),
        ({"repeats": 9}, None, 0),
        ({"repeats": 9, "seed": 5}, None, 9),
        ({"repeats": 7}, None, 0),
        ({}, 1, 0),
        ({}, 3, 3),
        ({"seed": 5}, 1, 1),
        ({"estimator": "IPW"}, None, 0),
        ({"estimator": "IPW-cf", "known": False}, None, 7),
        ({"estimator": "IPW", "known": False}, None, 7),
        ({"estimator": "DML", "redraw": False}, None, 0),
    ],
)
def test_how_often_folds_are_drawn(options, asked, expected):
    ev = Ev({"new": scores(2.0)}, **options)
    if ev.estimators[0].split == "full":
        expected = 0
    assert gate._draws(ev, SimpleNamespace(estimator=None, draws=asked)) == expected


def test_large_logs_are_drawn_once_more_at_most():
    ev = Ev({"new": scores(2.0)}, seed=5)
    asked = SimpleNamespace(estimator=None, draws=None)
    ev.logged = SimpleNamespace(n=50_000)
    assert gate._draws(ev, asked) == 7
    ev.logged = SimpleNamespace(n=50_001)
    assert gate._draws(ev, asked) == 1


def passing(again, **options):
    ev = Ev({"new": scores(2.0)}, **options)
    ev.again = None if again is None else Ev({"new": again})
    return ev, check(ev, "value > 1.8")


def test_a_gate_that_passes_again():
    e = scores(2.0, draws=7)
    ev, result = passing(e)
    low, high = e.interval(0.95)
    assert result.passed
    assert ev.asked[-1] == (7, "DML", 0)
    assert f" It also passes on average over 7 random splits ({low:.4g} to {high:.4g}; the estimate varies by " in (
        result.sentence
    )
    _, result = passing(scores(2.0), repeats=1, seed=3)
    assert "It also passes on average over 7 random splits" in result.sentence


def test_a_gate_that_passes_once_only():
    worse = scores(1.85, draws=7)
    low, high = worse.interval(0.95)
    _, result = passing(worse)
    assert (result.passed, result.exit_code) == (None, 4)
    assert result.sentence == (
        "gate 'value > 1.8': not enough evidence. It passes with one random split but not on average over 7 random "
        f"splits ({low:.4g} to {high:.4g}; the estimate varies by {worse.fold_spread:.4g} between splits). {RESTS}"
    )
    _, more = passing(worse, repeats=3)
    assert "It passes with the splits as drawn but not" in more.sentence
    assert passing(None)[1].passed
    lost = Estimate.from_scores(np.array([1.0, 9.0, 9.0]), label="few")
    assert passing(lost)[1].passed is None


def test_one_draw_of_the_default_seed():
    ev = Ev({"new": scores(2.0)}, seed=3)
    ev.again = Ev({"new": scores(2.0)})
    result = check(ev, "value > 1.8", draws=1)
    low, high = scores(2.0).interval(0.95)
    assert result.sentence.endswith(
        f" It also passes with the splits of the default seed ({low:.4g} to {high:.4g}). {RESTS}"
    )
    ev.again = Ev({"new": scores(1.85)})
    low, high = scores(1.85).interval(0.95)
    assert check(ev, "value > 1.8", draws=1).sentence == (
        "gate 'value > 1.8': not enough evidence. It passes with one random split but not with the splits of the "
        f"default seed ({low:.4g} to {high:.4g}). {RESTS}"
    )


def test_what_an_answer_rests_on():
    assert gate.assumption(Ev({"new": scores(2.0)})) == RESTS
    assert gate.assumption(Ev({"new": scores(2.0)}, assumption="assumes much")) == f"{KNOWN} It assumes much. {UNSEEN}"
    for given, word in ((False, "estimated"), (True, "given")):
        ev = Ev({"new": scores(2.0)}, known=False, given=given, assumption="assumes much")
        assert gate.assumption(ev) == f"The propensities were {word}, so this assumes much. {UNSEEN}"
