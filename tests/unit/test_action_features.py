"""Features of actions: where they come from, what is refused, and who reads them."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, UsageError
from offpolicy.policies.coarse import Cells

FRAME = pd.DataFrame(
    {
        "x": [0.1, 0.2, 0.3, 0.4],
        "song": ["b", "a", "c", "a"],
        "r": [1.0, 0.0, 1.0, 0.0],
        "genre": ["rock", "folk", "rock", "folk"],
        "length": [3.0, 4.0, np.nan, 4.0],
    }
)
ROLES = {"context": ["x"], "action": "song", "reward": "r"}


def features_of(given, frame=FRAME, **more):
    return op.BanditLog.from_frame(frame, **ROLES, action_features=given, **more).action_features


TABLES = {
    "columns": ["genre", "length"],
    "frame": pd.DataFrame({"song": ["c", "b", "a"], "genre": ["rock", "rock", "folk"], "length": [np.nan, 3.0, 4.0]}),
    "mapping": {
        "b": {"genre": "rock", "length": 3.0},
        "c": {"genre": "rock", "length": None},
        "a": {"genre": "folk", "length": 4.0},
    },
}


@pytest.mark.parametrize("given", TABLES.values(), ids=TABLES.keys())
def test_every_form_gives_one_table_in_the_order_of_the_actions(given):
    features = features_of(given)
    assert features.names == ("genre", "length")
    assert features.column("genre").tolist() == ["folk", "rock", "rock"]
    np.testing.assert_array_equal(features.column("length"), [4.0, 3.0, np.nan])


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
@pytest.mark.parametrize("given", TABLES.values(), ids=TABLES.keys())
def test_a_scanned_log_has_the_same_features(given, way):
    log = op.scan(pd.concat([FRAME] * 3), **ROLES, action_features=given, way=way)
    assert log.action_features.column("genre").tolist() == ["folk", "rock", "rock"]


def test_arrays_and_unnamed_features():
    log = op.BanditLog.from_arrays(None, [0, 1, 1], [0.0, 1, 2], action_features=[[1.0, 2], [3, 4]])
    assert log.action_features.names == ("feature0", "feature1")
    assert features_of({"a": 1, "b": 2, "c": 1}).column("feature0").tolist() == [1.0, 2.0, 1.0]


REFUSED = {
    "no such column": (["gender"], "no such column.*genre"),
    "varies": (["r2"], "row 3: action 'a' has 5.0, but 2.0 in other rows.*context="),
    "also context": (["x"], "both context= and action_features="),
    "action missing": (pd.DataFrame({"song": ["a", "b"], "g": [1, 2]}), "no row for action 'c'"),
    "twice": (pd.DataFrame({"song": ["a", "b", "c", "a"], "g": [1, 2, 3, 4]}), "'a' has 2 rows"),
    "no key": (pd.DataFrame({"item": ["a"], "g": [1]}), "no column 'song'"),
    "shape": (np.ones((2, 1)), r"3 actions.*\(2, 1\)"),
    "ragged": ({"a": (1, 2), "b": (1,), "c": (1, 2)}, "action 'b' and action 'a' have different features"),
    "infinite": ({"a": np.inf, "b": 1.0, "c": 1.0}, "infinite"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_features_are_named(given, says):
    frame = FRAME.assign(r2=[1.0, 2.0, 3.0, 5.0])
    with pytest.raises(DataError, match=says):
        features_of(given, frame)


def test_columns_cannot_tell_of_actions_never_logged():
    with pytest.raises(DataError, match=r"'d' was never logged.*table by action"):
        features_of(["genre"], actions=["a", "b", "c", "d"])


def test_a_scan_refuses_a_column_that_varies():
    log = op.scan(FRAME.assign(r2=[1.0, 2.0, 3.0, 5.0]), **ROLES, action_features=["r2"], way="stream")
    with pytest.raises(DataError, match=r"'r2' is not a feature of the action.*'a' has"):
        op.evaluate(log, op.policies.Fixed("a"))


# -- cells ---------------------------------------------------------------------------------------------


def cells_of(ratio, **columns):
    table = pd.DataFrame({"song": range(len(next(iter(columns.values())))), **columns})
    log = op.BanditLog.from_frame(
        pd.DataFrame({"song": table.song, "r": 0.0}),
        context=None, action="song", reward="r", action_features=table,
    )  # fmt: skip
    return ratio.cells(log)


def test_numbers_are_cut_at_quantiles_over_actions_and_equal_values_stay_together():
    cells = cells_of(op.CoarseRatio(bins=4), price=[1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9.0])
    assert cells.code.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3] or cells.n <= 4
    assert len(set(cells.code[:4].tolist())) == 1
    few = cells_of(op.CoarseRatio(bins=4), price=[1, 2, 3, 1, 2, 3.0])
    assert few.labels == ("1", "2", "3")


def test_missing_values_are_a_cell_of_their_own():
    cells = cells_of(op.CoarseRatio(bins=2), price=[1, 2, 3, 4, np.nan], kind=list("aaaab"))
    assert cells.labels[-1] == "price = missing, kind = b"
    assert (cells.code == cells.code[-1]).sum() == 1


def test_clusters_group_actions_that_are_near():
    cells = cells_of(op.CoarseRatio(clusters=2), a=[0, 0.1, 0.2, 5, 5.1, 5.2], b=[1, 1.1, 1, 9, 9, 9.0])
    assert cells.code.tolist() == [0, 0, 0, 1, 1, 1]


def test_sums_over_cells_are_loops():
    rng = np.random.default_rng(3)
    cells = Cells.of(rng.integers(0, 5, size=17).tolist(), ("f",))
    matrix = rng.random((6, 17))
    expected = [[sum(row[a] for a in range(17) if cells.code[a] == c) for c in range(cells.n)] for row in matrix]
    np.testing.assert_allclose(cells.sums(matrix), expected, atol=1e-14)


WRONG = {
    "unknown": (op.CoarseRatio(["genr"]), "no action feature 'genr'.*genre"),
    "bins of another": (op.CoarseRatio(["genre"], bins={"length": 3}), "'length', which is not among"),
    "class": (op.CoarseRatio, "Give an instance"),
    "word": ("coarse", "'exact', 'auto'"),
}


@pytest.mark.parametrize(("ratio", "says"), WRONG.values(), ids=WRONG.keys())
def test_ratios_that_cannot_be_meant(ratio, says):
    log = op.BanditLog.from_frame(FRAME, **ROLES, action_features=["genre", "length"])
    with pytest.raises(UsageError, match=says):
        op.evaluate(log, op.policies.Fixed("a"), ratio=ratio)


@pytest.mark.parametrize("bins", [0, 2.5, True])
def test_bins_are_whole_numbers(bins):
    with pytest.raises(UsageError, match="bins= must be an int"):
        op.CoarseRatio(bins=bins)


def test_a_coarse_ratio_needs_features_and_single_decisions():
    log = op.BanditLog.from_frame(FRAME, **ROLES)
    with pytest.raises(UsageError, match="action_features="):
        op.evaluate(log, op.policies.Fixed("a"), ratio=op.CoarseRatio())
    episodes = op.Trajectories.from_arrays(np.zeros((4, 3), int), np.zeros((4, 3), int), np.ones((4, 3)))
    with pytest.raises(UsageError, match="for bandit logs"):
        op.evaluate(episodes, op.policies.Fixed(0), ratio=op.CoarseRatio())


# -- reward models ------------------------------------------------------------------------------------


def catalogue(n=3000, k=300, seed=0):
    """Many actions, each seldom taken, whose reward follows from a feature."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=k)
    x = rng.normal(size=n)
    a = rng.integers(k, size=n)
    r = quality[a] * (1 + x) + rng.normal(size=n)
    return x, a, r, quality


@pytest.mark.parametrize("learner", ["auto", "lightgbm", "forest", "array"])
def test_reward_models_borrow_strength_from_features(learner):
    from sklearn.ensemble import RandomForestRegressor

    x, a, r, quality = catalogue(1500, 150)
    model = {
        "auto": "auto",
        "lightgbm": op.models.BoostedReward(rounds=60, validation=0),
        "forest": RandomForestRegressor(6, min_samples_leaf=5, random_state=0),
        "array": RandomForestRegressor(6, min_samples_leaf=5, random_state=0),
    }[learner]
    skill = {}
    for known in (None, quality):
        roles = {"actions": range(150), "action_features": known}
        if learner == "array":
            log = op.BanditLog.from_arrays(x, a, r, np.full(len(a), 1 / 150), **roles)
        else:
            frame = pd.DataFrame({"x": x, "a": a, "r": r, "p": 1 / 150})
            log = op.BanditLog.from_frame(frame, context=["x"], action="a", reward="r", propensity="p", **roles)
        ev = op.evaluate(log, "uniform", estimators=["DML"], reward_model=model)
        skill[known is None] = float(ev.diagnostics["reward_model_r2"])
    assert skill[False] > skill[True] + 0.1


def test_text_features_beside_an_array_context():
    x, a, r, quality = catalogue()
    table = {k: {"sign": "up" if q > 0 else "down"} for k, q in enumerate(quality)}
    log = op.BanditLog.from_arrays(x, a, r, np.full(len(a), 1 / 300), actions=range(300), action_features=table)
    from sklearn.linear_model import LinearRegression

    ev = op.evaluate(log, "uniform", estimators=["DML"], reward_model=LinearRegression())
    assert np.isfinite(ev["DML"].value)
