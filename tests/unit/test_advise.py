"""`advise`: widths that follow rows and exploration, and logs that no number of rows would help."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError

MEANS = np.array([0.3, 0.6])


def log_of(rng, n, explored):
    """Action 0 but for a share of decisions drawn uniformly."""
    p = np.array([1 - explored / 2, explored / 2])
    a = (rng.random(n) < p[1]).astype(int)
    r = (rng.random(n) < MEANS[a]).astype(float)
    return op.BanditLog.from_arrays(rng.normal(size=(n, 1)), a, r, p[a], actions=[0, 1])


def width_of(seeds, n, explored):
    widths = []
    for seed in seeds:
        log = log_of(np.random.default_rng([seed, n]), n, explored)
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"], reward_model=np.tile(MEANS, (n, 1)))
        widths.append(ev["policy", "DML"].interval().width)
    return float(np.mean(widths))


def advice_of(seeds, n, explored, **options):
    made = []
    for seed in seeds:
        log = log_of(np.random.default_rng([seed, n]), n, explored)
        made.append(op.advise(log, op.policies.Fixed(1), reward_model=np.tile(MEANS, (n, 1)), **options))
    return made


def test_widths_are_those_that_such_logs_turn_out_to_have():
    """Twenty per cent more exploration on top of ten is twenty-eight in all."""
    advice = advice_of(range(6), 1500, 0.1, exploration=[0.2], width=0.05)
    more = np.mean([a["policy"].plan(0.2).width for a in advice])
    assert more == pytest.approx(width_of(range(20, 26), 1500, 0.28), rel=0.15)
    rows = int(np.mean([a["policy"].plan(0).rows for a in advice]))
    assert width_of(range(30, 33), rows, 0.1) == pytest.approx(0.05, rel=0.15)


def test_a_predicted_width_varies_less_than_that_of_a_log_and_says_by_how_much():
    """Ten logs: predictions lie nearer together than the logs' own standard errors, by about what they say."""
    plans, errors = [], []
    for seed in range(10):
        log = log_of(np.random.default_rng([40, seed]), 1500, 0.1)
        settings = {"reward_model": np.tile(MEANS, (1500, 1)), "estimators": ["DML"]}
        plans.append(op.advise(log, op.policies.Fixed(1), **settings)["policy"].plan(0))
        ev = op.evaluate(log, op.policies.Fixed(1), **settings)
        errors.append(ev["policy", "DML"].std_error)
    scales = [p.forecast.curve.scale for p in plans]
    spread = [np.std(x) / np.mean(x) for x in (scales, errors)]
    assert spread[0] <= spread[1]
    said = np.mean([p.forecast.uncertainty for p in plans])
    assert 0.3 < said / spread[0] < 3
    assert f"({plans[0].low:.2g} to {plans[0].high:.2g})" in plans[0].shown


def test_logs_have_widths_in_the_range_that_goes_with_a_prediction():
    """Twenty logs say where the widths of logs with more exploration will be, and twenty such logs mostly are there."""
    advice = advice_of(range(20), 1500, 0.1, estimators=["DML"], exploration=[0.2])
    plans = [a["policy"].plan(0.2) for a in advice]
    ranges = np.array([(p.low, p.high) for p in plans])
    widths = np.array([width_of([seed], 1500, 0.28) for seed in range(100, 120)])
    inside = (ranges[:, :1] <= widths) & (widths <= ranges[:, 1:])
    # Of 400 pairs, of 20 and 20 logs; a range of two standard deviations on each side.
    assert inside.mean() > 0.9
    assert ((ranges[:, 1] - ranges[:, 0]) / widths.mean()).mean() < 0.5


def test_which_of_two_actions_was_taken_is_chance_with_known_odds():
    """Predictions from logs that differ in what was drawn, not in odds, lie closer together than the draws."""
    n, seeds = 1500, range(12)
    plans = [a["policy"].plan(0.2) for a in advice_of(seeds, n, 0.1, estimators=["DML"], exploration=[0.2])]
    drawn = [log_of(np.random.default_rng([seed, n]), n, 0.1).action.sum() for seed in seeds]
    spread = np.std([p.forecast.curve.scale for p in plans]) / np.mean([p.forecast.curve.scale for p in plans])
    assert spread < 0.5 * 0.5 * np.std(drawn) / np.mean(drawn)


def test_the_scale_is_that_of_the_known_variance():
    """σ² = p (1 − p) / π_b' of the action that is always taken, but for how the log's residuals compare."""
    n = 1500
    log = log_of(np.random.default_rng([0, n]), n, 0.1)
    advice = op.advise(
        log, op.policies.Fixed(1), estimators=["DML"], exploration=[0.2], reward_model=np.tile(MEANS, (n, 1))
    )["policy"]
    taken = log.action == 1
    calibration = ((log.reward[taken] - MEANS[1]) ** 2).mean()
    for share, propensity in ((0.0, 0.05), (0.2, 0.8 * 0.05 + 0.1)):
        scale = advice.plan(share).forecast.curve.scale
        assert scale == pytest.approx(2 * 1.959964 * np.sqrt(calibration / propensity), rel=0.01)


def test_a_table_of_predictions_learns_nothing_from_more_rows():
    fixed = advice_of([0], 1500, 0.2)[0]["policy"].plan(0).forecast
    assert fixed.curve.learned(6000) == 1.0
    log = log_of(np.random.default_rng([0, 1500]), 1500, 0.2)
    fitted = op.advise(log, op.policies.Fixed(1))["policy"].plan(0).forecast
    assert fitted.curve.learned(6000) == pytest.approx(4**-0.025)
    assert fitted.width(6000) < fitted.width(1500) / 2
    low, high = fitted.between(6000)
    assert low < fitted.width(6000) < high


def test_where_decisions_are_drawn_evenly_more_exploration_is_said_to_be_useless():
    even = advice_of([0], 1500, 1.0)[0]
    assert "More exploration would not make the interval narrower." in str(even)
    assert "% more" not in str(even)
    assert "% more" in str(advice_of([0], 1500, 0.2)[0])


def test_a_log_without_exploration_is_refused_with_a_plan_that_holds():
    advice = advice_of([0], 1500, 0.0, exploration=[0.2], width=0.05)[0]
    assert not advice.explores
    assert not advice.answered
    assert advice["policy"].uncovered == 1.0
    assert math.isinf(advice["policy"].plan(0).rows)
    assert "no exploration" in str(advice)
    assert advice["policy"].plan(0.2).width == pytest.approx(width_of(range(6), 1500, 0.2), rel=0.15)
    data = json.loads(advice.to_json())
    assert data["policies"][0]["plans"][0]["rows"] is None
    assert data["answered"] is False


def test_without_a_wanted_width_rows_are_counted_for_half_of_it():
    advice = advice_of([0], 1500, 0.2)[0]["policy"]
    assert advice.wanted == pytest.approx(advice.width / 2)
    assert 3.5 * 1500 < advice.plan(0).rows <= 4 * 1500 + 1


def test_episodes_are_counted():
    rng = np.random.default_rng(0)
    states, actions = rng.integers(3, size=(200, 2)), rng.integers(2, size=(200, 2))
    rewards = actions + rng.normal(size=(200, 2))
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((200, 2), 0.5))
    advice = op.advise(log, lambda s: np.tile([0.3, 0.7], (len(s), 1)))
    assert advice.unit == "episodes"
    assert [p.exploration for p in advice["policy"].plans] == [0.0]
    plan = advice["policy"].plan(0)
    assert 600 < plan.rows <= 801
    assert 0.7 * plan.width < plan.low < plan.width < plan.high < 1.6 * plan.width


def test_episodes_of_the_policy_itself_are_the_other_way():
    """Of the logging policy they are worth what logged ones are, or a little less: no model averages over actions."""
    rng = np.random.default_rng(1)
    states, actions = rng.integers(3, size=(400, 2)), rng.integers(2, size=(400, 2))
    log = op.Trajectories.from_arrays(
        states, actions, actions + rng.normal(size=(400, 2)), propensities=np.full((400, 2), 0.5)
    )
    same, other = (
        op.advise(log, lambda s, p=p: np.tile([1 - p, p], (len(s), 1)), width=0.1)["policy"] for p in (0.5, 0.95)
    )
    assert same.plan(0).rows < same.run_itself + 400 < 1.3 * same.plan(0).rows
    assert other.run_itself < 0.6 * other.plan(0).rows
    assert "Or run the policy itself: " in "\n".join(other.lines("episodes", 400))
    assert op.advise(log, lambda s: np.full((len(s), 2), 0.5), width=10.0)["policy"].run_itself == 0


def test_baskets_of_a_later_log_may_be_larger_than_any_of_this_one():
    """One buyer in ten, log-normal baskets: the next log's interval may be much wider, and that is in the range."""

    def drawn(rng, n):
        a = rng.choice(3, p=[0.5, 0.3, 0.2], size=n)
        baskets = (rng.random(n) < 0.1 + 0.03 * (a == 1)) * rng.lognormal(0, 0.8, n)
        return op.BanditLog.from_arrays(None, a, baskets, np.array([0.5, 0.3, 0.2])[a])

    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        plan = op.advise(drawn(rng, 2000), "always:1", estimators=["DML"])["policy"].plan(0)
        low, high = plan.forecast.between(4000)
        later = op.evaluate(drawn(rng, 4000), "always:1", estimators=["DML"])["DML"]
        held.append(low <= later.interval().width <= high)
    assert np.mean(held) >= 0.8
    clicks = op.BanditLog.from_arrays(None, [0, 1] * 500, [0.0, 1.0, 1.0, 0.0] * 250, np.full(1000, 0.5))
    assert op.advise(clicks, "always:1")["policy"].plan(0).forecast.tail == 0


@pytest.mark.parametrize("change", [{"width": 0}, {"width": "a"}, {"exploration": [0.0]}, {"exploration": [2]}])
def test_bad_arguments_are_named(change):
    with pytest.raises(UsageError, match=f"{next(iter(change))}="):
        advice_of([0], 100, 0.5, **change)


def test_clusters_are_what_is_counted():
    rng = np.random.default_rng(7)
    user = np.repeat(np.arange(150), 4)
    a = rng.integers(2, size=150)[user]
    log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=600), np.full(600, 0.5), cluster=user)
    advice = op.advise(log, {"one": op.policies.Fixed(1)}, width=0.1)
    assert (advice.n, advice.unit) == (150, "clusters")
    assert "width with 150 clusters" in str(advice)


def test_numbers_have_no_even_draw():
    rng = np.random.default_rng(3)
    price = rng.uniform(size=100)
    log = op.BanditLog.from_arrays(None, price, price, np.ones(100), action_kind="continuous")
    with pytest.raises(UsageError, match="the actions of this log are numbers"):
        op.advise(log, {"half": 0.5})
