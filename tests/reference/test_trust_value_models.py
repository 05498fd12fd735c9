"""The skill of value models, step by step, by loops."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpolicy.trust import horizon

sys.path.insert(0, str(Path(__file__).parent))

from trust_episodes import Steps, view_of_steps


def test_the_skill_of_a_value_model_by_a_loop():
    s = Steps(6, 30)
    mass = np.arange(30) % 2 + 1.0
    d = s.decisions(discount=0.9, weight=mass)
    unit, step = (
        np.repeat(np.arange(30), s.lengths),
        np.concatenate([np.arange(n) for n in s.lengths]),
    )
    y = s.reward.copy()
    for i in range(len(y) - 1):
        if unit[i + 1] == unit[i]:
            y[i] += 0.9 * s.v[i + 1]
    error = spread = 0.0
    for t in range(max(s.lengths)):
        rows = np.flatnonzero(step == t)
        m = mass[unit[rows]]
        center = m @ y[rows] / m.sum()
        own, left = m @ (y[rows] - center) ** 2, m @ (y[rows] - s.q[rows]) ** 2
        error, spread = error + left, spread + own
        if own > 0:
            assert horizon.step_skill(d)[t] == pytest.approx(1 - left / own)
    assert horizon.skill(d) == pytest.approx(1 - error / spread)
    view = view_of_steps(s, discount=0.9)
    found = horizon._skill(view)
    value = horizon.skill(view.decisions)
    assert found.value == pytest.approx(value)
    assert found.details["by_step"] == pytest.approx(
        horizon.step_skill(view.decisions).tolist(), nan_ok=True
    )
    worse = view_of_steps(replace(s, q=s.q + 50.0))
    assert horizon.skill(worse.decisions) == -1.0
    assert horizon._skill(worse).sentence == (
        "q explains none of the variance of R + γ v' inside the steps: a constant for each step does better."
    )
    assert (horizon._skill(worse).level, horizon._skill(worse).remedy != "") == ("note", True)
    good = replace(s, v=np.zeros_like(s.v), q=s.reward + 0.01)
    share = horizon.skill(view_of_steps(good).decisions)
    assert horizon._skill(view_of_steps(good)).sentence == (
        f"q explains {share:.0%} of the variance of R + γ v' inside the steps, out of fold."
    )
    still = replace(s, reward=np.zeros_like(s.reward), v=np.zeros_like(s.v))
    assert math.isnan(horizon.skill(still.decisions()))
    assert horizon._skill(view_of_steps(still)).sentence == "one-step targets do not vary."
    assert np.isnan(horizon.step_skill(still.decisions())).all()
