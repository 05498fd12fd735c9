"""An evaluation is the answer to a question; another question shares what it has in common with the first."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.evaluation import passes

N = 200
FITS = []


class Counted(RegressorMixin, BaseEstimator):
    """Ridge that counts its fits."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        FITS.append(self.alpha)
        self.model_ = Ridge(self.alpha).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.fixture(autouse=True)
def _no_fits_yet():
    FITS.clear()


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=N), rng.integers(2, size=N)
    return pd.DataFrame({"x": x, "a": a, "r": x * a + rng.normal(size=N), "c": 1.0 + a, "p": 0.5})


def log_of(frame, **roles):
    roles = {"reward": "r", "propensity": "p", **roles}
    return op.BanditLog.from_frame(frame, context=["x"], action="a", **roles)


def asked(log, policies=None, **how):
    how = {"estimators": ["DML", "IPW"], "reward_model": Counted(), **how}
    return op.evaluate(log, policies or {"new": op.policies.Uniform()}, **how)


def same(mine, theirs, name="DML"):
    for policy in theirs.policies:
        np.testing.assert_array_equal(mine[policy, name].psi, theirs[policy, name].psi)


CHANGES = [
    {"reward_model": Counted(10.0)},
    {"behavior_model": "shares"},
    {"folds": 3},
    {"seed": 5},
    {"repeats": 2},
    {"estimators": ["DML", "DR-full"]},
    {"policies": {"one": op.policies.Fixed(1), "new": op.policies.Uniform()}},
    {"policies": {"new": op.policies.Fixed(1)}},
    {"minimize": True},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_an_asked_question_has_the_answer_of_a_fresh_one(frame, change):
    log = log_of(frame)
    mine = asked(log).ask(**change)
    policies = change.get("policies", {"new": op.policies.Uniform()})
    how = {name: value for name, value in change.items() if name != "policies"}
    fresh = asked(log, policies, **how)
    same(mine, fresh)
    assert mine.settings == fresh.settings
    assert mine.question.log is log


def test_what_is_shared_is_not_made_again(frame):
    ev = asked(log_of(frame))
    first = len(FITS)
    ev.ask(behavior_model="shares")
    ev.ask(policies={"one": op.policies.Fixed(1)})
    ev.ask(estimators=["DML", "SNDR"])
    assert len(FITS) == first
    ev.ask(repeats=2)
    assert len(FITS) == first + 2, "the first draw of the folds is the one there was"
    ev.ask(reward_model=Counted(2.0))
    assert FITS[-2:] == [2.0, 2.0]


def test_a_model_that_changes_between_two_questions_is_fitted_again(frame):
    log, model = log_of(frame), Counted()
    ev = asked(log, reward_model=model)
    model.set_params(alpha=50.0)
    again = ev.ask(n_jobs=None)
    assert again["DML"].value != ev["DML"].value
    same(again, asked(log, reward_model=Counted(50.0)))


def test_an_array_that_changes_between_two_questions_is_read_again(frame):
    log, q, pi = log_of(frame), np.zeros((N, 2)), np.full((N, 2), 0.5)
    ev = asked(log, {"new": pi}, reward_model=q)
    before = ev["DML"].value
    q[:, 1] = 2.0
    with_q = ev.ask(reward_model=q)
    assert ev["DML"].value == before != with_q["DML"].value
    same(with_q, asked(log, {"new": pi}, reward_model=q))
    pi[:] = [0.1, 0.9]
    with_pi = ev.ask(policies={"new": pi})
    same(with_pi, asked(log, {"new": pi}, reward_model=q))
    assert with_pi["DML"].value != with_q["DML"].value


def test_a_frame_that_changes_between_two_questions_is_another_log(frame):
    ev = asked(log_of(frame))
    frame["r"] += 1.0
    other = log_of(frame)
    moved = ev.ask(log=other)
    assert moved["IPW"].value == pytest.approx(ev["IPW"].value + 1.0, abs=0.2)
    same(moved, asked(other))
    probabilities = pd.DataFrame({"0": 0.5, "1": 0.5}, index=range(N))
    framed = ev.ask(policies={"new": lambda x: probabilities.iloc[: len(x)]})
    probabilities["0"], probabilities["1"] = 0.0, 1.0
    assert framed.ask(policies={"new": lambda x: probabilities.iloc[: len(x)]})["DML"].value != framed["DML"].value


def test_a_model_that_was_refitted_in_place_is_another_policy(frame):
    from sklearn.linear_model import LogisticRegression

    log = log_of(frame)
    x = frame[["x"]]
    classifier = LogisticRegression().fit(x, frame["a"])
    ev = asked(log, {"new": classifier})
    classifier.fit(x, (frame["x"] > 0).astype(int))
    again = ev.ask(policies={"new": classifier})
    assert again["IPW"].value != ev["IPW"].value
    same(again, asked(log, {"new": classifier}), "IPW")


def test_estimates_of_two_questions_are_paired(frame):
    ev = asked(log_of(frame))
    other = ev.ask(reward_model=Counted(100.0))
    difference = other["DML"] - ev["DML"]
    assert difference.std_error < 0.5 * ev["DML"].std_error
    assert other["IPW"].table is ev["IPW"].table


def test_metrics_and_sums_are_questions(frame):
    log = log_of(frame, reward=["r", "c"])
    ev = asked(log, minimize=["c"])
    cost = ev.metric("c")
    assert cost.question.metric == "c"
    assert cost.metric("c") is cost
    assert ev.metric("c") is cost
    assert cost.metric("r") is ev
    assert ev.ask(metric="c")["DML"].value == cost["DML"].value
    margin = ev.combine({"r": 1.0, "c": -0.5}, name="margin")
    expected = ev["IPW"].value - 0.5 * cost["IPW"].value
    assert margin["IPW"].value == pytest.approx(expected)
    assert margin.metric("c") is cost
    other = ev.combine({"r": 2.0}, name="margin")
    assert other["IPW"].value == pytest.approx(2 * ev["IPW"].value)
    assert [e.settings["minimize"] for e in (ev, cost, margin)] == [False, True, False]
    more = cost.add({"one": op.policies.Fixed(1)})
    assert more["one", "IPW"].value == pytest.approx(2.0, abs=0.4)
    assert more.metric_name == "c"
    assert margin.with_behavior("shares").metric_name == "margin"


def test_redrawn_folds_keep_scores_only(frame):
    ev = asked(log_of(frame))
    before = len(ev.problem.store.fits), len(list(ev.problem.columns))
    again = ev.redrawn(4, seed=9)
    store = ev.problem.store
    assert (len(store.fits), len(list(ev.problem.columns))) == before
    assert len(again["DML"].rows) == 4
    fresh = asked(log_of(frame), repeats=4, seed=9, estimators=["DML"])
    same(again, fresh)
    # What was let go is made again where somebody asks.
    assert np.isfinite(again.diagnostics.rows()[0]["value"] or 0.0)


def test_an_argument_that_evaluate_has_not_is_refused(frame):
    ev = asked(log_of(frame))
    with pytest.raises(UsageError, match=r"'behaviour_model'.*behavior_model"):
        ev.ask(behaviour_model="shares")
    with pytest.raises(UsageError, match="seed="):
        ev.ask(seed=-1)


def test_ratios_of_marginals_are_given_as_ratio():
    rng = np.random.default_rng(0)
    log = op.Trajectories.from_arrays(
        rng.integers(3, size=(60, 3)),
        rng.integers(2, size=(60, 3)),
        rng.normal(size=(60, 3)),
        propensities=np.full((60, 3), 0.5),
    )
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["DRL"])
    given = ev.ask(ratio=np.ones(log.rows))
    assert np.isfinite(given["DRL"].value)
    assert op.evaluate(log, "uniform", estimators=["DRL"], ratio=op.models.MarginalRatio())["DRL"]


def test_sums_of_the_checks_belong_to_the_log_and_are_made_once(frame, monkeypatch):
    made = []

    def counted(*arguments, **options):
        made.append(arguments)
        return own(*arguments, **options)

    own = passes.log_sums
    monkeypatch.setattr(passes, "log_sums", counted)
    ev = asked(log_of(frame))
    assert ev.diagnostics.rows()
    assert ev.with_behavior("shares").diagnostics.rows()
    assert ev.add({"other": op.policies.Fixed(0)}).diagnostics.rows()
    assert len(made) == 1


def test_what_is_lacking_is_neither_a_column_nor_a_sum(frame):
    problem = asked(log_of(frame)).problem
    (name,) = [name for name in problem.columns if name[0] == "pi_e"]
    problem.sums("log")
    unknown = ("pi_e", "nobody")
    assert problem.columns.lacking([name, "log", unknown, unknown], problem.store.sums) == [unknown]
