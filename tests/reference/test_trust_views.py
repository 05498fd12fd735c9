"""What a view of a policy takes from an evaluation: predictions, weights of episodes, means over decisions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from trust_episodes import Steps, view_of_steps


def test_which_predictions_a_view_takes():
    from types import SimpleNamespace

    from offpolicy.trust.view import View

    def view(known, behavior, values):
        made = {"pi_b": behavior, "v": values}
        found = View.of(SimpleNamespace(weights_known=known, made=made.__getitem__), None)
        return found.split, found.value_split

    assert view(True, [], ["half", "full"]) == ("half", "half")
    assert view(False, ["full"], ["half", "full"]) == ("full", "full")
    assert view(False, ["half"], ["full"]) == ("half", None)
    assert view(False, [], ["full"]) == ("crossfit", None)
    assert view(True, ["full"], []) == ("full", None)


def test_weights_of_episodes_beyond_a_float():
    s = Steps(3, 20)
    view = view_of_steps(s)
    product = np.array([np.prod(r) for r in s.ratio])
    assert view.weight == pytest.approx(product)
    assert view.scale == 1.0
    assert view.row_mass.tolist() == [1.0] * len(s.reward)
    values = np.arange(20.0)
    assert values[view.decisions.layout.unit].tolist() == np.repeat(values, s.lengths).tolist()
    d = view.decisions
    huge = replace(d, pi_b=np.where(d.layout.step == 0, 1e-308, d.pi_b))
    wide = view_of_steps(s)
    wide.problem.decisions = lambda target, probe: huge
    assert wide.weight.max() == 1.0
    assert wide.scale == math.inf
    logs = huge.log_weight
    assert wide.weight == pytest.approx(np.exp(logs - logs.max()))
    first = view.over_decisions(d.ratio)
    assert first.value == pytest.approx(d.ratio.mean())
    unit = np.repeat(np.arange(20), s.lengths)
    off = d.ratio - d.ratio.mean()
    error = math.sqrt(sum(off[unit == u].sum() ** 2 for u in range(20))) / len(unit)
    assert first.std_error == pytest.approx(error)
    some = d.layout.step == 0
    assert view.over_decisions(d.ratio, some).value == pytest.approx(d.ratio[some].mean())
