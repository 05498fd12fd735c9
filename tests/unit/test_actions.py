"""Action labels and their codes."""

import numpy as np
import pandas as pd
import pytest

from offpolicy import BanditLog, evaluate, policies
from offpolicy.errors import DataError
from offpolicy.logs.actions import action_list, encode, is_missing

LABELS = [
    [0, 1, 2],
    [3, 7, 11],
    ["a", "b", "c"],
    [False, True, True],
    [0.5, 1.5, 2.5],
    [("x", 1), ("x", 2), ("y", 1)],
    ["a", 1, None.__class__],
]


@pytest.mark.parametrize("labels", LABELS)
def test_any_hashable_label_survives_the_round_trip(labels):
    values = np.empty(3, dtype=object)
    values[:] = labels
    known, codes = encode(values, None, "ad")
    assert [known[c] for c in codes] == labels


def test_sorted_without_a_list_and_as_listed_with_one():
    values = np.array(["b", "a", "b"])
    assert encode(values, None, "ad")[0] == ("a", "b")
    labels, codes = encode(values, ["z", "b", "a"], "ad")
    assert labels == ("z", "b", "a")
    assert codes.tolist() == [1, 2, 1]


def test_many_text_labels_take_the_same_codes_as_few():
    rng = np.random.default_rng(0)
    values = rng.choice(["x", "y", "z"], size=20_000)
    labels, codes = encode(values, None, "ad")
    assert labels == ("x", "y", "z")
    np.testing.assert_array_equal(np.array(labels)[codes], values)


def test_lists_of_actions_are_checked():
    with pytest.raises(DataError, match="empty"):
        action_list([], "actions")
    with pytest.raises(DataError, match="'a' is listed twice"):
        action_list(["a", "b", "a"], "actions")


def test_unknown_label_gets_a_hint():
    with pytest.raises(DataError, match=r"row 1 = 'bannr'.*Did you mean 'banner'"):
        encode(np.array(["banner", "bannr"]), ["banner", "video"], "ad")


def test_missing_of_every_kind():
    values = np.empty(5, dtype=object)
    values[:] = [None, float("nan"), pd.NA, pd.NaT, "a"]
    assert is_missing(values).tolist() == [True, True, True, True, False]
    assert is_missing(np.array(["2020", "NaT"], dtype="M8[D]")).tolist() == [False, True]


@pytest.mark.parametrize("labels", [["u", "v"], [10, 20], [True, False], [0.25, 0.75]])
def test_relabelling_does_not_change_the_number(labels):
    rng = np.random.default_rng(3)
    code, reward = rng.integers(0, 2, size=50), rng.normal(size=50)
    plain = BanditLog.from_arrays(None, code, reward, np.full(50, 0.5))
    named = BanditLog.from_arrays(None, np.array(labels)[code], reward, np.full(50, 0.5))
    one = evaluate(plain, policies.Fixed(1), estimators=["IPW"])["IPW"]
    other = evaluate(named, policies.Fixed(labels[1]), estimators=["IPW"])["IPW"]
    assert one.value == other.value


def test_an_action_never_logged_has_its_column():
    log = BanditLog.from_arrays(None, ["a", "b"], [1.0, 2.0], [0.5, 0.5], actions=["a", "b", "c"])
    ev = evaluate(log, np.array([[1, 0, 0], [0, 0, 1.0]]), estimators=["IPW"])
    assert ev["IPW"].value == 1.0
