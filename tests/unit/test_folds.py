"""Folds: sizes, clusters, strata, given labels, and the parts each split asks for."""

import numpy as np
import pytest

from offpolicy import BanditLog, KFold, evaluate
from offpolicy.errors import DataError, UsageError
from offpolicy.splits.folds import Plan


def make_folds(n, folds, *, repeats=1, seed=0, cluster=None, strata=None):
    """Folds of n units numbered from 0, or of their clusters."""
    units = np.arange(n) if cluster is None else cluster
    return Plan.of(folds, repeats, seed).folds(units, cluster=cluster, strata=strata)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_drawn_folds_differ_by_at_most_one(k):
    sizes = np.bincount(make_folds(101, k, seed=3).labels[0])
    assert len(sizes) == k
    assert sizes.max() - sizes.min() <= 1


def test_the_seed_decides_and_repetitions_differ():
    one, same = make_folds(50, 2, repeats=3, seed=1), make_folds(50, 2, repeats=3, seed=1)
    np.testing.assert_array_equal(one.labels, same.labels)
    assert (one.labels != make_folds(50, 2, repeats=3, seed=2).labels).any()
    assert (one.labels[0] != one.labels[1]).any()


def test_more_repetitions_keep_the_first_ones():
    np.testing.assert_array_equal(
        make_folds(50, 3, repeats=2, seed=1).labels, make_folds(50, 3, repeats=5, seed=1).labels[:2]
    )


@pytest.mark.parametrize("k", [2, 3])
def test_clusters_stay_together(k):
    cluster = np.random.default_rng(0).integers(0, 30, size=200)
    folds = make_folds(200, k, repeats=2, seed=5, cluster=cluster)
    for row in [*folds.labels, *folds.half]:
        for g in np.unique(cluster):
            assert len(np.unique(row[cluster == g])) == 1


def test_strata_are_spread_evenly():
    strata = np.repeat([0, 1, 2], [50, 31, 7])
    labels = make_folds(88, 4, seed=0, strata=strata).labels[0]
    for s in range(3):
        sizes = np.bincount(labels[strata == s], minlength=4)
        assert sizes.max() - sizes.min() <= 1


def test_stratified_by_action_and_reward_through_evaluate():
    rng = np.random.default_rng(0)
    action, reward = rng.integers(0, 3, 60), rng.integers(0, 2, 60) * 1.0
    log = BanditLog.from_arrays(None, action, reward, np.full(60, 1 / 3))
    for by, values in (("action", action), ("reward", reward)):
        ev = evaluate(log, np.full((60, 3), 1 / 3), folds=KFold(3, by), estimators=["DML"])
        labels = ev.problem.folds.labels[0]
        for v in np.unique(values):
            sizes = np.bincount(labels[values == v], minlength=3)
            assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("k", [2, 3, 4])
def test_crossfit_scores_everyone_once_and_never_trains_on_them(k):
    parts = make_folds(40, k, seed=1).parts("crossfit", 0)
    scored = np.concatenate([p.score for p in parts])
    assert sorted(scored) == list(range(40))
    for p in parts:
        assert set(p.train) == set(range(40)) - set(p.score)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_half_trains_on_one_half_and_scores_the_other(k):
    (part,) = make_folds(40, k, seed=1).parts("half", 0)
    assert len(part.score) == len(part.train) == 20
    assert not set(part.train) & set(part.score)


def test_full_trains_on_and_scores_everyone():
    (part,) = make_folds(9, 2).parts("full", 0)
    assert len(part.train) == len(part.score) == 9


def test_given_labels_of_any_type_are_kept():
    labels = ["b", "a", "c", "a"]
    assert make_folds(4, labels).labels.tolist() == [[1, 0, 2, 0]]
    assert make_folds(4, np.array([[0, 1, 0, 1], [5, 5, 9, 9]])).labels.tolist() == [[0, 1, 0, 1], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("folds", "said"),
    [
        (1, "at least 2"),
        (0, "at least 2"),
        ([0, 1, 0], "3 labels for 4 units"),
        ([0, 0, 0, 0], "single label"),
        ([0.0, 1.0, float("nan"), 1.0], "row 2"),
        ([0, None, 1, 1], "row 1"),
        (5, "needs at least 5 units"),
    ],
)
def test_bad_folds_are_refused(folds, said):
    with pytest.raises(UsageError, match=said):
        make_folds(4, folds)


def test_other_bad_arguments():
    with pytest.raises(UsageError, match="repeats"):
        make_folds(4, 2, repeats=0)
    with pytest.raises(UsageError, match="repeats=3"):
        make_folds(4, [0, 1, 0, 1], repeats=3)
    with pytest.raises(UsageError, match="stratify"):
        KFold(2, "color")
    with pytest.raises(DataError, match=r"splits a cluster.*row 1"):
        make_folds(4, [0, 1, 0, 1], cluster=np.array([0, 0, 1, 2]))
    with pytest.raises(UsageError, match="clusters"):
        make_folds(4, 3, cluster=np.array([0, 0, 1, 1]))


def test_fold_labels_of_the_log_are_used_and_not_repeated():
    fold = ["u", "v", "v", "u"]
    log = BanditLog.from_arrays(None, [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], [0.5] * 4, fold=fold)
    target = np.full((4, 2), 0.5)
    ev = evaluate(log, target, estimators=["DML"], reward_model=np.zeros((4, 2)))
    assert ev.problem.folds.labels.tolist() == [[0, 1, 1, 0]]
    with pytest.raises(UsageError, match="repeats=2"):
        evaluate(log, target, estimators=["DML"], repeats=2)
