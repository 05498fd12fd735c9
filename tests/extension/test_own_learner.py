"""A learner from outside: linear regressions of the scores, learned and valued like the library's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import UsageError

N = 1500


def frame(seed: int = 0, effect: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"x": rng.normal(size=N), "z": rng.normal(size=N)})
    df["a"], df["p"] = rng.choice(["left", "right"], size=N), 0.5
    df["r"] = effect * df["x"] * np.where(df["a"] == "right", 1, -1) + rng.normal(size=N)
    return df


ROLES = {"context": ["x", "z"], "action": "a", "reward": "r", "propensity": "p"}


def linear(context, scores, actions):
    """Regress the scores of each action on the context, and take the action of the highest prediction."""
    models = [LinearRegression().fit(context, column) for column in scores.T]

    def choose(rows):
        best = np.argmax([model.predict(rows) for model in models], axis=0)
        return np.array(actions)[best]

    return choose


class Softly:
    """The same as an object, with a policy that draws."""

    def __call__(self, context, scores, actions):
        chosen = linear(context, scores, actions)

        def probabilities(rows):
            best = chosen(rows)
            return np.column_stack([np.where(best == a, 0.9, 0.1) for a in actions])

        return probabilities


def learned(learner, **changes) -> op.Evaluation:
    log = op.BanditLog.from_frame(frame(**changes), **ROLES)
    return op.learn_policy(log, learner, reward_model=LinearRegression(), folds=3)


def test_it_learns_and_is_valued_honestly():
    found = learned(linear)
    best = float(np.sqrt(2 / np.pi))  # E|x|, what always going the right way earns
    assert found.value.interval().covers(best)
    assert abs(found.value.value - best) < 0.15
    assert "learned by linear" in str(found)
    assert found.evaluation.verdict().level == "trust"


def test_where_there_is_nothing_to_learn_the_honest_value_says_so():
    found = [learned(linear, seed=seed, effect=0.0) for seed in range(4)]
    assert all(each.gain_interval().low < 0 for each in found)
    assert np.mean([each.naive.value - each.value.value for each in found]) > 0


def test_what_it_gives_is_a_policy_elsewhere():
    found = learned(linear)
    other = op.BanditLog.from_frame(frame(seed=9), **ROLES)
    value = op.evaluate(other, found, estimators=["IPW"])["IPW"]
    assert value.interval().covers(float(np.sqrt(2 / np.pi)))
    drawn = op.evaluate(other, learned(Softly()), estimators=["IPW"])["IPW"]
    assert drawn.value < value.value


def test_its_policies_come_in_any_form_and_errors_name_it():
    assert learned(lambda context, scores, actions: "always:right").value.is_defined
    with pytest.raises(op.errors.PolicyError, match="learning a policy"):
        learned(lambda context, scores, actions: scores["x"])
    with pytest.raises(UsageError, match=r"a function \(context, scores, actions\)"):
        learned(3)


def test_it_is_refitted_out_of_fold_like_any_learner():
    log = op.BanditLog.from_frame(frame(), **ROLES)
    learner = op.policies.CrossFitted(
        lambda part: op.learn_policy(part, linear, reward_model=LinearRegression(), folds=2)
    )
    assert op.evaluate(log, learner, estimators=["IPW"])["IPW"].value > 0.5
