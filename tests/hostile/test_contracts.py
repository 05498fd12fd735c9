"""What users bring along (policies, predictions, scores, weights) keeps its contract, or is refused by name."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from findings import FRAME, ROLES, value
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import ModelError, PolicyError, UsageError

N, K = 300, 3
LOG = op.BanditLog.from_frame(FRAME, **ROLES)


# -- 3: budgets ----------------------------------------------------------------------------------------------------


def best(number):
    """The best rows get b, as probabilities."""

    def policy(context):
        chosen = np.argsort(np.argsort(-np.asarray(context["x"]))) < number
        return np.column_stack([1 - chosen, chosen, 0 * chosen]) * 1.0

    return policy


@pytest.mark.parametrize("budget", [70, 100, 200])
def test_a_budget_is_refused_also_where_it_is_given_as_probabilities(budget):
    with pytest.raises(PolicyError, match="may depend only on that row"):
        value(LOG, best(budget))
    for way in ("rows", "stream"):
        with op.scan(FRAME, **ROLES, way=way) as log, pytest.raises(PolicyError, match="only on that row"):
            value(log, best(budget))
    steps = FRAME.assign(episode=np.repeat(range(150), 2), t=[0, 1] * 150)
    episodes = op.Trajectories.from_frame(
        steps, episode="episode", step="t", state=["x"], action="ad", reward="click", propensity="p"
    )
    with pytest.raises(PolicyError, match="may depend only on that row"):
        op.evaluate(episodes, best(budget), estimators=["IPW"])


def test_a_policy_that_hands_out_its_own_buffer_is_read_before_it_writes_again():
    buffer = np.zeros((N, K))

    def policy(context):
        x = np.asarray(context["x"])
        buffer[: len(x)] = np.column_stack([x > 0, x <= 0, 0 * x])
        return buffer[: len(x)]

    plain = value(LOG, lambda c: np.column_stack([c["x"] > 0, c["x"] <= 0, 0 * c["x"]]) * 1.0)
    assert value(LOG, policy) == plain


# -- 4: weights have no unit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [{}, {"cluster": "u"}], ids=["rows", "clusters"])
@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_analysis_weights_have_no_unit(extra, spread):
    base = 1 + spread * np.cos(np.arange(N))
    found = []
    for unit in (1.0, 1 / N, 0.001, 0.5, 2.0, 1e6):
        frame = FRAME.assign(w=unit * base, u=np.arange(N) // 2)
        ev = op.evaluate(
            op.BanditLog.from_frame(frame, **ROLES, **extra, weight="w"), "always:b", estimators=["IPW", "DML"]
        )
        row = []
        for name in ("IPW", "DML"):
            interval = ev["policy", name].interval()
            row += [ev["policy", name].value, ev["policy", name].std_error, interval.low, interval.high]
        found.append((row, interval.method, ev.verdict("policy").level, ev.gate("value > 0.5").outcome))
    for row, *words in found[1:]:
        assert words == list(found[0][1:])
        np.testing.assert_allclose(row, found[0][0], rtol=1e-6)
    if not spread and not extra:
        bare = op.evaluate(LOG, "always:b", estimators=["IPW", "DML"])["policy", "DML"].interval()
        np.testing.assert_allclose(found[0][0][-2:], [bare.low, bare.high], rtol=1e-6)


# -- 19: predictions and scores ------------------------------------------------------------------------------------

SOUND = np.full((N, K), 0.5)
HIDDEN = np.ma.array(SOUND, mask=np.arange(N * K).reshape(N, K) == 6)
PREDICTIONS = {
    "masked": (HIDDEN, "masked"),
    "complex": (SOUND + 1j, "complex128, not numbers"),
    "dates": (np.full((N, K), np.datetime64("2024-01-01")), "not numbers"),
    "durations": (np.full((N, K), np.timedelta64(1, "D")), "not numbers"),
    "text": (np.full((N, K), "0.5"), "not numbers"),
    "objects": (np.full((N, K), None), "not numbers"),
    "huge": (SOUND * 1e300, "larger than 1e\\+30"),
}


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_predictions_are_plain_numbers(kind):
    given, words = PREDICTIONS[kind]
    with pytest.raises(ModelError, match=words):
        op.evaluate(LOG, "always:b", estimators=["DML"], reward_model=given)

    class Learner(LinearRegression):
        def predict(self, X):
            return given[: len(X), 0]

    with pytest.raises(ModelError, match=words):
        op.evaluate(LOG, "always:b", estimators=["DML"], reward_model=Learner())


def test_arrays_for_every_kind_of_log_are_checked():
    prices = FRAME.assign(price=np.linspace(1, 2, N), density=1.0)
    log = op.BanditLog.from_frame(
        prices, context=["x"], action="price", reward="click", propensity="density", action_kind="continuous"
    )
    arrays = {"logged": SOUND[:, 0] + 1j, "policy": SOUND[:, 0]}
    with pytest.raises(ModelError, match="complex"):
        op.evaluate(log, 1.5, estimators=["DML"], reward_model=arrays)
    with pytest.raises(ModelError, match="masked"):
        op.evaluate(LOG, "always:b", estimators=["IPW"], behavior_model=HIDDEN)


DRAWN = np.random.default_rng(0)
CALLS = itertools.count()
SCORES = {
    "masked": (lambda d: np.ma.array(d.reward, mask=d.reward > 0), "masked"),
    "complex": (lambda d: d.reward + 1j, "complex128, not numbers"),
    "dates": (lambda d: np.full(d.n, np.datetime64("2024-01-01")), "not numbers"),
    "text": (lambda d: d.reward.astype(str), "not numbers"),
    "huge": (lambda d: np.full(d.n, 1e308), "larger than 1e\\+100"),
    "random": (lambda d: d.reward + DRAWN.normal(size=d.n), "second call"),
    "stateful": (lambda d: d.reward + next(CALLS), "second call"),
}


@pytest.mark.parametrize("kind", SCORES)
def test_scores_are_plain_numbers_and_the_same_twice(kind):
    score, words = SCORES[kind]
    with pytest.raises(UsageError, match=words):
        op.evaluate(LOG, "always:b", estimators=[op.Estimator("mine", score, needs={"behavior"})])


@pytest.mark.parametrize("needs", ["behavior", {"magic"}, ["value", "q"]])
def test_needs_are_words_that_are_known(needs):
    with pytest.raises(UsageError, match="needs= must be a set of 'value', 'behavior', 'marginal'"):
        op.Estimator("mine", lambda d: d.reward, needs=needs)


# -- 28: another index ---------------------------------------------------------------------------------------------


def test_a_policy_of_numbers_answers_about_the_rows_it_was_given():
    prices = FRAME.assign(price=np.linspace(1, 2, N), density=1.0)
    log = op.BanditLog.from_frame(
        prices, context=["x"], action="price", reward="click", propensity="density", action_kind="continuous"
    )

    def sorted_by_x(context):
        return 1.5 + 0.01 * context["x"].sort_values()

    with pytest.raises(PolicyError, match="and the context have different indexes"):
        op.evaluate(log, sorted_by_x, estimators=["IPW"])
    other = pd.Series(np.full(N, 1.5), index=range(5, 5 + N))
    with pytest.raises(PolicyError, match="and the log have different indexes"):
        op.evaluate(log, other, estimators=["IPW"])
