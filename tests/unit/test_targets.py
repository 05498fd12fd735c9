"""A policy in every form a user may have it in, and the ways one can be wrong."""

import numpy as np
import pandas as pd
import pytest

from offpolicy import BanditLog, evaluate, policies
from offpolicy.errors import PolicyError
from offpolicy.policies.target import named_policies, resolve

ACTIONS = ("a", "b", "c")
CHOICE = ["b", "a", "b", "c"]


@pytest.fixture
def log():
    df = pd.DataFrame(
        {
            "x": [0.0, 1.0, 2.0, 3.0],
            "ad": ["a", "a", "b", "c"],
            "r": [1.0, 2.0, 3.0, 4.0],
            "choice": CHOICE,
            "pa": [0.0, 1.0, 0.0, 0.0],
            "pb": [1.0, 0.0, 1.0, 0.0],
            "pc": [0.0, 0.0, 0.0, 1.0],
        }
    )
    return BanditLog.from_frame(df, context=["x"], action="ad", reward="r")


ONE_HOT = np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])


class WithMethod:
    def probabilities(self, context):
        return ONE_HOT[context["x"].to_numpy().astype(int)]


FORMS = {
    "array": ONE_HOT,
    "integers": ONE_HOT.astype(int),
    "nested lists": ONE_HOT.tolist(),
    "labels": np.array(CHOICE),
    "column of labels": "choice",
    "columns of probabilities": ["pa", "pb", "pc"],
    "method": WithMethod(),
    "callable of probabilities": WithMethod().probabilities,
    "callable of labels": lambda c: np.array(CHOICE)[c["x"].to_numpy().astype(int)],
    "callable of a series": lambda c: c["x"].map(dict(enumerate(CHOICE))),
    "callable of a frame": lambda c: pd.DataFrame(
        ONE_HOT[c["x"].to_numpy().astype(int)][:, ::-1], columns=["c", "b", "a"]
    ),
}


@pytest.mark.parametrize("policy", FORMS.values(), ids=FORMS.keys())
def test_every_form_is_the_same_policy(log, policy):
    target = resolve("new", policy, log)
    np.testing.assert_array_equal(target.probabilities(np.arange(4)), ONE_HOT)
    np.testing.assert_array_equal(target.of_actions(log.context, log.action), ONE_HOT[np.arange(4), log.action])


@pytest.mark.parametrize("form", ["labels", "column of labels", "callable of labels"])
def test_deterministic_forms_stay_codes(log, form):
    assert resolve("new", FORMS[form], log).codes.tolist() == [1, 0, 1, 2]


def test_float_labels_are_labels():
    log = BanditLog.from_arrays(None, [0.5, 1.5], [1.0, 2.0], [0.5, 0.5])
    assert resolve("new", np.array([1.5, 1.5]), log).codes.tolist() == [1, 1]


def spoiled(row, values):
    out = ONE_HOT.copy()
    out[row] = values
    return out


BAD = [
    (spoiled(2, [0.5, 0.4, 0.0]), ["row 2", "0.9", "sum to 1"]),
    (spoiled(1, [1.5, -0.5, 0.0]), ["row 1", "negative"]),
    (spoiled(3, [np.nan, 0.0, 1.0]), ["row 3", "missing"]),
    (np.ones((4, 2)) / 2, ["(4, 3)", "(4, 2)"]),
    (np.ones((3, 3)) / 3, ["(4, 3)", "(3, 3)"]),
    (np.array(["a", "b", "z", "a"]), ["row 2", "'z'"]),
    (lambda c: np.full((len(c), 2), 0.5), ["shape", "3 actions"]),
    (lambda c: np.array(["a"] * (len(c) + 1)), ["label"]),
    (lambda c: np.full((len(c), 3), "x"), ["numbers"]),
    (lambda c: spoiled(2, [2.0, 0.0, 0.0])[: len(c)], ["row 2"]),
    (lambda c: pd.DataFrame({"u": [1.0], "v": [0.0], "w": [0.0]}), ["log.actions"]),
    ("chioce", ["choice"]),
    (["pa", "pb"], ["2", "3 actions"]),
    (pd.DataFrame(ONE_HOT), ["ambiguous"]),
    (3, ["sum to 1. Got {'new': 3}"]),  # a mapping to numbers is a distribution over actions
    (None, ["not a policy", "Accepted: an object with probabilities(context)"]),
]


@pytest.mark.parametrize(("policy", "said"), BAD)
def test_what_is_no_distribution_is_refused(log, policy, said):
    with pytest.raises(ValueError, match="new") as caught:
        evaluate(log, {"new": policy}, estimators=["IPW"], behavior_model=np.full((4, 3), 1 / 3))
    for part in said:
        assert part in str(caught.value)


def test_columns_need_a_frame():
    log = BanditLog.from_arrays(None, ["a", "b"], [1.0, 2.0])
    with pytest.raises(PolicyError, match="not built from a frame"):
        resolve("new", "choice", log)


def test_eligible_actions_bind_policies():
    eligible = np.array([[True, True, False]] * 4)
    log = BanditLog.from_arrays(
        np.arange(4.0), ["a", "a", "b", "b"], np.ones(4), [0.5] * 4, actions=ACTIONS, eligible=eligible
    )
    for policy in (ONE_HOT, np.array(CHOICE), lambda c: ONE_HOT[: len(c)]):
        with pytest.raises(PolicyError, match=r"not eligible.*row 3"):
            evaluate(log, policy, estimators=["IPW"])
    allowed = np.tile([0.5, 0.5, 0.0], (4, 1))
    assert evaluate(log, allowed, estimators=["IPW"])["IPW"].value == 1.0
    assert evaluate(log, policies.Uniform(), estimators=["IPW"])["IPW"].value == 1.0


def test_names_of_policies(log):
    assert list(named_policies("choice", log)) == ["policy"]
    with pytest.raises(PolicyError, match="empty"):
        named_policies({}, log)
    with pytest.raises(PolicyError, match="non-empty strings"):
        named_policies({3: "choice"}, log)
    with pytest.raises(PolicyError, match="reserved for the current policy"):
        named_policies({"(logging policy)": policies.Fixed("a")}, log)


def test_a_policy_sees_blocks_and_answers_as_if_whole(log, monkeypatch):
    monkeypatch.setattr("offpolicy.policies.distribution.BLOCK_CELLS", 4)
    target = resolve("new", WithMethod(), log)
    np.testing.assert_array_equal(target.of_actions(log.context, log.action), ONE_HOT[np.arange(4), log.action])
