"""The skill of value models, step by step, by loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from trust_episodes import Steps, view_of_steps
from trust_views import checked, several

from offpolicy.trust import horizon, models, weights


def test_the_skill_of_a_value_model_by_a_loop():
    s = Steps(6, 30)
    mass = np.arange(30) % 2 + 1.0
    d = s.decisions(discount=0.9, weight=mass)
    unit, step = (np.repeat(np.arange(30), s.lengths), np.concatenate([np.arange(n) for n in s.lengths]))
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
    assert found.details["by_step"] == pytest.approx(horizon.step_skill(view.decisions).tolist(), nan_ok=True)
    worse = view_of_steps(replace(s, q=s.q + 50.0))
    assert horizon.skill(worse.decisions) == -1.0
    assert horizon._skill(worse).sentence == (
        "q explains none of the variance of R + γ v' inside the steps; a constant per step does better."
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


def test_the_efficiency_bound_of_episodes_by_a_loop():
    s = Steps(7, 40, zero=0.0)
    view = view_of_steps(s, discount=0.9)
    unit, step = (np.repeat(np.arange(40), s.lengths), np.concatenate([np.arange(n) for n in s.lengths]))
    first, noise, score = np.zeros(40), np.zeros(40), np.zeros(40)
    for u in range(40):
        rows = np.flatnonzero(unit == u)
        first[u] = s.v[rows[0]]
        before = 1.0
        for i in rows:
            rho = np.prod(s.ratio[u][: step[i] + 1])
            after = 0.9 * s.v[i + 1] if i != rows[-1] else 0.0
            noise[u] += (0.9 ** step[i] * rho * (s.reward[i] + after - s.q[i])) ** 2
            score[u] += 0.9 ** step[i] * (rho * (s.reward[i] - s.q[i]) + before * s.v[i])
            before = rho
    bound = first.var() + noise.mean()
    assert models.efficiency_bound(view.decisions) == pytest.approx(bound)
    found = checked("efficiency_ratio", view)
    assert found.details == {"variance": pytest.approx(score.var()), "bound": pytest.approx(bound)}
    assert view.score == pytest.approx(score)
    assert models._surely_less_noise(view)
    steps = [f.sentence for f in several(view, "reward_model_r2", "reward_model_calibration")]
    assert steps == ["judged step by step for episodes."] * 2
    slates = checked("efficiency_ratio", view_of_steps(s, kind="slates"))
    assert slates.sentence == "rewards of one slate may be correlated, which the bound ignores."
    plain = view_of_steps(s, q=False, discount=0.9)
    expected = [
        sum(0.9**t * np.prod(s.ratio[u][: t + 1]) * s.reward[unit == u][t] for t in range(s.lengths[u]))
        for u in range(40)
    ]
    assert plain.score == pytest.approx(expected)
    assert plain.decisions.returns == pytest.approx([
        sum(0.9**t * s.reward[unit == u][t] for t in range(s.lengths[u])) for u in range(40)
    ])  # fmt: skip


def test_mean_weights_of_episodes_in_batches():
    s = Steps(8, 60, zero=0.0)
    batch = np.repeat([0, 1], 30)
    view = view_of_steps(s, batch_labels=("a", "b"))
    view.problem.units = replace(view.problem.units, batch=batch)
    w = np.array([np.prod(r) for r in s.ratio])
    z = [(w[batch == b].sum() - 30) / math.sqrt(((w[batch == b] - w[batch == b].mean()) ** 2).sum()) for b in (0, 1)]
    assert weights._batch_z(view, batch) == pytest.approx(z)
    assert weights._expected_squares(view, batch, 2).tolist() == [1.0, 1.0]
    found = checked("mean_weight_by_batch", view)
    assert found.details["z"] == {"a": pytest.approx(z[0]), "b": pytest.approx(z[1])}
