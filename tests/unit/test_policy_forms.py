"""Policies as people hold them: classifiers, torch modules, dictionaries, words, agents, tables of states."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import offpolicy as op
from offpolicy.errors import OffPolicyError, PolicyError, UsageError
from offpolicy.policies.target import resolve

N = 600
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "key": np.arange(N),
        "u": RNG.normal(size=N),
        "v": RNG.normal(size=N),
        "ad": RNG.choice(["x", "y", "z"], N, p=[0.5, 0.3, 0.2]),
    }
)
FRAME["p"] = FRAME["ad"].map({"x": 0.5, "y": 0.3, "z": 0.2})
FRAME["r"] = FRAME["u"] * (FRAME["ad"] == "y") + RNG.normal(size=N)
ROLES = {"context": ["u", "v"], "action": "ad", "reward": "r", "propensity": "p"}
LOG = op.BanditLog.from_frame(FRAME, **ROLES)
# Seen in another order than the log's, and without one of its actions.
BEST = np.where(FRAME["u"] > 0, "y", "x")
MODEL = LogisticRegression().fit(FRAME[["u", "v"]], BEST)


def probabilities(policy, log=LOG):
    return resolve("new", policy, log).probabilities(np.arange(len(log.action)))


def expected(model, X):
    out = np.zeros((len(X), 3))
    for column, label in enumerate(model.classes_):
        out[:, ["x", "y", "z"].index(label)] = model.predict_proba(X)[:, column]
    return out


def test_a_classifier_gives_its_classes_probabilities():
    np.testing.assert_array_equal(probabilities(MODEL), expected(MODEL, FRAME[["u", "v"]]))
    assert (probabilities(MODEL)[:, 2] == 0).all()


def test_classes_come_in_any_order():
    class Backwards:
        classes_ = np.array(["z", "y", "x"])

        def predict_proba(self, X):
            return np.tile([0.1, 0.2, 0.7], (len(X), 1))

    np.testing.assert_array_equal(probabilities(Backwards()), np.tile([0.7, 0.2, 0.1], (N, 1)))


def test_a_classifier_is_given_the_columns_it_was_fitted_on():
    wide = op.BanditLog.from_frame(FRAME, **{**ROLES, "context": ["v", "key", "u"]})
    np.testing.assert_array_equal(probabilities(MODEL, wide), probabilities(MODEL))
    frame = pl.from_pandas(FRAME)
    np.testing.assert_array_equal(probabilities(MODEL, op.BanditLog.from_frame(frame, **ROLES)), probabilities(MODEL))
    narrow = op.BanditLog.from_frame(FRAME, **{**ROLES, "context": ["v"]})
    with pytest.raises(PolicyError, match="no column 'u'"):
        probabilities(MODEL, narrow)


def test_a_classifier_fitted_on_arrays_reads_frames_and_arrays():
    X = FRAME[["u", "v"]].to_numpy()
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, BEST)
    arrays = op.BanditLog.from_arrays(X, FRAME["ad"], FRAME["r"], FRAME["p"])
    np.testing.assert_array_equal(probabilities(forest), expected(forest, X))
    np.testing.assert_array_equal(probabilities(forest, arrays), expected(forest, X))


def test_classes_that_are_no_actions_are_named():
    other = LogisticRegression().fit(FRAME[["u", "v"]], np.where(BEST == "y", "why", "x"))
    with pytest.raises(PolicyError, match=r"policy 'new'.*LogisticRegression.*'why'"):
        probabilities(other)
    with pytest.raises(PolicyError, match="refitted on rows"):
        probabilities(LogisticRegression())


def test_predict_names_the_action():
    machine = LinearSVC().fit(FRAME[["u", "v"]], BEST)
    target = resolve("new", machine, LOG)
    chosen = [LOG.actions[c] for c in target.codes]
    assert chosen == machine.predict(FRAME[["u", "v"]]).tolist()


class Agent:
    """Stable-Baselines3's shape: predict(observation, state, episode_start, deterministic)."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        return (observation[:, 0] > 0).astype(np.int64), state


class Algorithm:
    """d3rlpy's shape."""

    def predict(self, x):
        return (x[:, 0] > 0).astype(np.int64)


@pytest.mark.parametrize("agent", [Agent(), Algorithm()])
def test_agents_take_their_deterministic_action(agent):
    states = RNG.normal(size=(20, 3, 2))
    actions = RNG.integers(2, size=(20, 3))
    log = op.Trajectories.from_arrays(states, actions, RNG.random((20, 3)), propensities=np.full((20, 3), 0.5))
    target = resolve("agent", agent, log)
    np.testing.assert_array_equal(target.codes, (states.reshape(-1, 2)[:, 0] > 0).astype(int))
    assert op.evaluate(log, agent, estimators=["DML"])["DML"].n == 20


def test_a_regressor_is_no_policy():
    with pytest.raises(UsageError, match=r"policy 'new': Ridge predicts a number.*Greedy"):
        probabilities(Ridge().fit(FRAME[["u", "v"]], FRAME["r"]))


def test_torch_modules_give_logits_in_evaluation_mode():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    module[2].eval()
    found = probabilities(module)
    np.testing.assert_array_equal(found, probabilities(module))  # no dropout
    assert module.training
    assert not module[2].training
    assert all(p.grad is None for p in module.parameters())
    with torch.no_grad():
        module.eval()
        x = torch.tensor(FRAME[["u", "v"]].to_numpy(), dtype=torch.float32)
        np.testing.assert_allclose(found, torch.softmax(module(x), 1).numpy(), atol=1e-6)


def test_torch_states_that_are_numbers_are_embedded():
    states = RNG.integers(4, size=(30, 3))
    log = op.Trajectories.from_arrays(
        states, RNG.integers(2, size=(30, 3)), RNG.random((30, 3)), propensities=np.full((30, 3), 0.5)
    )
    module = torch.nn.Embedding(4, 2)
    assert op.evaluate(log, module, estimators=["DML"])["DML"].n == 30
    with pytest.raises(PolicyError, match=r"Embedding returned \(.*\(n, K\)"):
        op.evaluate(log, torch.nn.Embedding(4, 3), estimators=["DML"])


def test_torch_modules_cannot_read_text():
    log = op.BanditLog.from_frame(FRAME.assign(t="a"), **{**ROLES, "context": ["u", "t"]})
    with pytest.raises(PolicyError, match="'t' is not numeric"):
        probabilities(torch.nn.Linear(2, 3), log)


def test_dictionaries_are_constant_policies():
    np.testing.assert_array_equal(probabilities({"y": 0.8, "x": 0.2}), np.tile([0.2, 0.8, 0.0], (N, 1)))
    alone = op.evaluate(LOG, {"x": 0.2, "y": 0.8}, estimators=["IPW"])
    named = op.evaluate(LOG, {"mix": {"x": 0.2, "y": 0.8}}, estimators=["IPW"])
    assert alone["policy", "IPW"].value == named["mix", "IPW"].value
    weight = FRAME["ad"].map({"x": 0.2 / 0.5, "y": 0.8 / 0.3, "z": 0.0})
    assert alone["IPW"].value == pytest.approx((weight * FRAME["r"]).mean())


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"x": 0.2, "y": 0.7}, "sum to 1"),
        ({"x": 1.2, "y": -0.2}, "from 0 to 1"),
        ({"x": 0.2, "why": 0.8}, "no action 'why'"),
        ({"x": float("nan"), "y": 1.0}, "from 0 to 1"),
    ],
)
def test_dictionaries_that_are_no_distribution(shares, said):
    with pytest.raises(PolicyError, match=said):
        op.evaluate(LOG, {"mix": shares}, estimators=["IPW"])


def test_obp_arrays_have_an_axis_of_positions():
    given = expected(MODEL, FRAME[["u", "v"]])
    np.testing.assert_array_equal(probabilities(given[:, :, None]), given)
    with pytest.raises(PolicyError, match=r"3 positions.*array\[:, :, position\]"):
        probabilities(np.repeat(given[:, :, None], 3, axis=2))


def test_words_are_those_of_the_command_line(tmp_path, monkeypatch):
    np.testing.assert_array_equal(probabilities("uniform"), np.full((N, 3), 1 / 3))
    np.testing.assert_array_equal(probabilities("always:y"), np.tile([0.0, 1.0, 0.0], (N, 1)))
    with pytest.raises(PolicyError, match="policy 'new': always:why"):
        probabilities("always:why")
    column = op.BanditLog.from_frame(FRAME.assign(uniform="z"), **ROLES)
    assert resolve("new", "uniform", column).codes.tolist() == [2] * N  # a column comes first
    monkeypatch.chdir(tmp_path)
    coarse = FRAME.assign(u=(FRAME["u"] > 0).astype(int))
    table = pd.DataFrame({"u": [0, 1, 1], "ad": ["x", "y", "z"], "probability": [1, 0.5, 0.5]})
    table.to_csv("new.csv", index=False)
    log = op.BanditLog.from_frame(coarse, **{**ROLES, "context": ["u"]})
    rows = np.array([[1, 0, 0], [0, 0.5, 0.5]])[coarse["u"]]
    np.testing.assert_array_equal(probabilities("new.csv", log), rows)


def test_tables_of_states():
    states = RNG.integers(3, size=(40, 4))
    log = op.Trajectories.from_arrays(
        states, RNG.integers(2, size=(40, 4)), RNG.random((40, 4)), propensities=np.full((40, 4), 0.5)
    )
    table = np.array([[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])
    by_table = op.evaluate(log, table, estimators=["DML", "IPW"])
    by_function = op.evaluate(log, lambda s: table[s], estimators=["DML", "IPW"])
    assert by_table["DML"].value == by_function["DML"].value
    assert by_table["IPW"].value == by_function["IPW"].value
    with pytest.raises(PolicyError, match="not among them"):
        op.evaluate(log, table[:2], estimators=["IPW"])
    with pytest.raises(PolicyError, match="do not sum to 1"):
        op.evaluate(log, table * 2, estimators=["IPW"])
    rows = {"e": np.repeat(np.arange(40), 4), "t": np.tile(np.arange(4), 40), "s": states.ravel()}
    frame = pd.DataFrame(rows).assign(a=log.action, r=log.reward, p=0.5)
    roles = {"episode": "e", "step": "t", "state": ["s"], "action": "a", "reward": "r"}
    framed = op.Trajectories.from_frame(frame, **roles, propensity="p")
    assert op.evaluate(framed, table, estimators=["IPW"])["IPW"].value == pytest.approx(by_table["IPW"].value)


MANY_WAYS = [
    MODEL,
    "uniform",
    "always:y",
    {"x": 0.2, "y": 0.8},
    torch.nn.Linear(2, 3),
    LinearSVC().fit(FRAME[["u", "v"]], BEST),
]


@pytest.mark.parametrize("policy", MANY_WAYS, ids=lambda p: type(p).__name__)
def test_every_form_gives_the_same_answer_on_every_path(policy):
    wanted = op.evaluate(LOG, {"new": policy}, estimators=["SNIPW"])["new", "SNIPW"]
    for way in ("rows", "stream"):
        with op.scan(FRAME, **ROLES, id="key", way=way, chunk_rows=250) as log:
            found = op.evaluate(log, {"new": policy}, estimators=["SNIPW"])["new", "SNIPW"]
        assert found.value == pytest.approx(wanted.value, rel=1e-6)


@pytest.mark.parametrize("policy", [object(), 3, None, [[1, 2], [3]], pd.DataFrame({"x": [1]})])
def test_what_is_no_policy_is_told_what_is(policy):
    with pytest.raises(OffPolicyError, match=r"policy 'new'.*(Accepted: .*uniform|ambiguous)"):
        op.evaluate(LOG, {"new": policy, "other": "uniform"}, estimators=["IPW"])
