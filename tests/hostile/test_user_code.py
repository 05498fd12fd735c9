"""Code of the user's is asked again, its answers are checked, and its exceptions say who raised them and where."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

import offpolicy as op
from offpolicy.errors import ModelError, PolicyError, UsageError

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
A = RNG.integers(2, size=N)
R = (RNG.random(N) < 0.4).astype(float)
P = np.full(N, 0.5)


def log():
    return op.BanditLog.from_arrays(X, A, R, P)


def half(n):
    return np.full((n, 2), 0.5)


# -- policies ----------------------------------------------------------------------------------------------


class Stateful:
    calls = 0

    def probabilities(self, x):
        self.calls += 1
        return np.column_stack([np.full(len(x), 1 / (1 + self.calls)), np.full(len(x), 1 - 1 / (1 + self.calls))])


def drawn(x):
    return np.random.default_rng().integers(2, size=len(x))


def scaled(x):
    share = (x - x.min()) / (np.ptp(x) or 1)
    return np.column_stack([share, 1 - share])


def ranked(x):
    return (np.argsort(np.argsort(x)) > len(x) / 2).astype(int)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Stateful(), "in a second call"),
        (drawn, "in a second call|when fewer rows"),
        (scaled, "when rows are passed in two parts"),
        (ranked, "when fewer rows are passed"),
    ],
    ids=["stateful", "random", "scaled over rows", "ranked over rows"],
)
def test_policies_that_depend_on_more_than_their_row(policy, words):
    with pytest.raises(PolicyError, match=words):
        op.evaluate(log(), policy, estimators=["IPW"])


def test_a_streamed_log_asks_again_as_well(tmp_path):
    pd.DataFrame({"x": X, "a": A, "r": R, "p": P}).to_parquet(tmp_path / "log.parquet")
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    with (
        op.scan(str(tmp_path / "log.parquet"), way="stream", **roles) as scanned,
        pytest.raises(PolicyError, match="in a second call"),
    ):
        op.evaluate(scanned, Stateful(), estimators=["IPW"])


def test_rounding_of_single_precision_is_no_dependence():
    def network(x):
        share = 0.5 + 1e-7 * (len(x) % 3)
        return np.column_stack([np.full(len(x), share), np.full(len(x), 1 - share)])

    assert np.isfinite(op.evaluate(log(), network, estimators=["IPW"])["policy", "IPW"].value)


class Chooses:
    def __init__(self, value):
        self.value = value

    def choices(self, x):
        return np.full(len(x), self.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.7, "not whole numbers"), (np.nan, "not whole numbers"), (2, "out of range"), (-1, "out of range"),
     ("1", "as integers"), (True, "as integers")],
)  # fmt: skip
def test_choices_are_positions_of_actions(value, words):
    with pytest.raises(PolicyError, match=words):
        op.evaluate(log(), Chooses(value), estimators=["IPW"])


def test_whole_floats_are_positions():
    ev = op.evaluate(log(), {"float": Chooses(1.0), "int": Chooses(1)}, estimators=["IPW"])
    assert ev["float", "IPW"].value == ev["int", "IPW"].value


def test_a_policy_that_fails_says_at_which_row():
    def brittle(x):
        if (np.abs(x - X[137]) < 1e-12).any():
            raise KeyError("no such segment")
        return half(len(x))

    with pytest.raises(PolicyError, match="policy 'new' failed on row 137 with KeyError") as caught:
        op.evaluate(log(), {"new": brittle}, estimators=["IPW"])
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_policy_that_fails_on_many_rows_only():
    def greedy(x):
        if len(x) > 100:
            raise MemoryError("too many rows")
        return np.ones(len(x), dtype=int)

    with pytest.raises(PolicyError, match="200 rows together with MemoryError"):
        op.evaluate(log(), greedy, estimators=["IPW"])


# -- learners ----------------------------------------------------------------------------------------------


class Odd(RegressorMixin, BaseEstimator):
    def __init__(self, answer=None, fails=""):
        self.answer, self.fails = answer, fails

    def fit(self, X, y):
        if self.fails == "fit":
            raise ZeroDivisionError("by nothing")
        return self

    def predict(self, X):
        if self.fails == "predict":
            raise IndexError("beyond the end")
        return self.answer(len(X))


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        (Odd(lambda n: np.zeros(n + 1)), "predict returned shape"),
        (Odd(lambda n: np.zeros((n, 2))), "predict returned shape"),
        (Odd(lambda n: np.full(n, np.nan)), "not finite"),
        (Odd(lambda n: np.full(n, np.inf)), "not finite"),
        (Odd(lambda n: np.array(["a"] * n)), "not numbers"),
        (Odd(lambda n: np.ma.array(np.zeros(n), mask=np.arange(n) == 1)), "are masked"),
        (Odd(fails="fit"), "Odd could not be fitted to .* rows: ZeroDivisionError"),
        (Odd(fails="predict"), "Odd.predict failed on .*: IndexError"),
    ],
)
def test_learners_that_give_something_else(learner, words):
    with pytest.raises(ModelError, match=words) as caught:
        op.evaluate(log(), lambda x: half(len(x)), estimators=["DML"], reward_model=learner)
    if learner.fails:
        assert isinstance(caught.value.__cause__, (ZeroDivisionError, IndexError))
    with pytest.raises(ModelError, match=words):
        op.testing.check_reward_model(learner)


class Unsure(ClassifierMixin, BaseEstimator):
    def __init__(self, total=1.04):
        self.total = total

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), self.total / len(self.classes_))


@pytest.mark.parametrize("total", [1.04, 0.9, np.nan])
@pytest.mark.parametrize("role", ["reward_model", "behavior_model"])
def test_probabilities_of_a_classifier_sum_to_one(total, role):
    with pytest.raises(ModelError, match="do not sum to 1"):
        op.evaluate(log(), lambda x: half(len(x)), estimators=["DML"], **{role: Unsure(total)})


def test_checkers_pass_what_is_sound():
    op.testing.check_reward_model(LinearRegression())
    op.testing.check_reward_model(LogisticRegression())
    op.testing.check_policy(lambda x: half(len(x)), X, (0, 1))
    op.testing.check_score(op.Estimator("ipw", lambda d: d.sum(d.gamma * d.rho * d.reward), linear_in_reward=True))


class Writes(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        X[:] = 0
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Redraws(Writes):
    def fit(self, X, y):
        self.level_ = np.random.default_rng().random()
        return self

    def predict(self, X):
        return np.full(len(X), self.level_)


class Ranks(Redraws):
    def predict(self, X):
        return np.arange(len(X), dtype=float)


@pytest.mark.parametrize(
    ("learner", "words"), [(Redraws(), "fitted again with the same seed"), (Ranks(), "different order|two parts")]
)
def test_check_reward_model_finds(learner, words):
    with pytest.raises(ModelError, match=words):
        op.testing.check_reward_model(learner)


# -- scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["q", "v"])
def test_a_score_gets_only_what_it_declares(name):
    undeclared = op.Estimator("mine", lambda d: d.reward - getattr(d, name), needs={"behavior"})
    with pytest.raises(UsageError, match=f"uses d.{name}, but its needs= does not name 'value'"):
        op.evaluate(log(), lambda x: half(len(x)), estimators=[undeclared])
    with pytest.raises(UsageError, match=f"uses d.{name}"):
        op.testing.check_score(undeclared)


def test_a_score_without_behavior_gets_no_weights():
    with pytest.raises(UsageError, match=r"uses d.pi_b"):
        op.testing.check_score(op.Estimator("mine", lambda d: d.rho * d.reward, needs={"value"}), trajectories=False)


def test_a_score_of_single_decisions_is_told_what_it_works_for():
    def clipped(d):
        return np.minimum(d.rho, 10.0) * d.reward

    with pytest.warns(UserWarning, match="works for single decisions, not for episodes"):
        op.testing.check_score(clipped)
    op.testing.check_score(op.Estimator("clipped", clipped, kinds={"bandit"}))
    with pytest.raises(UsageError, match="one number per unit"):
        op.testing.check_score(clipped, trajectories=True)


@pytest.mark.parametrize(
    ("score", "declared", "words"),
    [
        (lambda d: d.reward.mean(), {}, "returned shape"),
        (lambda d: np.where(np.arange(d.n) == 3, np.inf, d.sum(d.reward)), {}, "not finite"),
        (lambda d: d.sum(d.reward) + np.arange(d.n), {}, "different order"),
        (lambda d: d.sum(d.reward**2), {"linear_in_reward": True}, "twice the rewards"),
        (lambda d: d.sum(d.reward) - d.sum(d.reward).mean(), {"linear_in_reward": True}, "half the units"),
        (lambda d: d.reward.__setitem__(0, 1.0), {}, "read-only"),
        (lambda d: {}["missing"], {}, "the score of 'mine' on 60 units failed with KeyError"),
    ],
)
@pytest.mark.filterwarnings("ignore:(divide|invalid)")
def test_check_score_finds(score, declared, words):
    with pytest.raises(UsageError, match=words):
        op.testing.check_score(op.Estimator("mine", score, **declared))


def test_tensors_with_a_gradient_are_numbers():
    torch = pytest.importorskip("torch")
    shares = torch.full((N, 2), 0.5, requires_grad=True)
    given = op.evaluate(log(), {"array": shares, "function": lambda x: shares[: len(x)]}, estimators=["IPW"])
    assert given["array", "IPW"].value == given["function", "IPW"].value
    rewards = torch.tensor(R, requires_grad=True)
    assert op.BanditLog.from_arrays(torch.tensor(X), A, rewards, P).reward.tolist() == R.tolist()
