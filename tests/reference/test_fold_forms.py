"""Folds, halves and strata against plain loops, and every refusal word by word."""

from __future__ import annotations

import numpy as np
import pytest
from forms import said

from offpolicy.splits import folds as f
from offpolicy.splits.folds import KFold, Plan
from offpolicy.splits.hashing import HALF, drawn, fold_of, hash_constants, hash_folds, scrambled

FOLDS = "folds= must be an int of at least 2 or fold labels. Got {} instead."


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KFold(1), FOLDS.format(1)),
        (lambda: KFold(True), FOLDS.format(True)),
        (lambda: KFold(2.0), FOLDS.format(2.0)),
        (lambda: KFold(3, "x"), "stratify= must be 'action', 'reward' or None. Got 'x' instead."),
        (lambda: Plan.of(2, 0), "repeats= must be an int of at least 1. Got 0 instead."),
        (lambda: Plan.of(2, True), "repeats= must be an int of at least 1. Got True instead."),
        (lambda: Plan.of(2, 1.0), "repeats= must be an int of at least 1. Got 1.0 instead."),
        (lambda: Plan.of(None), FOLDS.format(None)),
        (lambda: Plan.of(2.5), FOLDS.format(2.5)),
        (lambda: Plan.of(["a", None, "b"]),
         "folds=: the label is missing in 1 of 3 values (first: row 1). Give every unit a label."),
        (lambda: Plan.of(np.zeros((1, 2, 2))),
         "folds= must hold one label per unit, or one row of labels per repetition."),
        (lambda: Plan.of([[0, 1], [1, 0]], 3),
         "repeats=3, but folds= gives 2 row(s) of labels. Give one row per repetition."),
        (lambda: Plan.of([1, 1, 1]), "folds= has a single label. Cross-fitting needs at least two folds."),
        (lambda: Plan.of([0, 1, 0]).folds(np.arange(1200)),
         "folds= has 3 labels for 1,200 units. Give one label per unit, or an int."),
        (lambda: Plan.of(4).folds(np.arange(3)), "folds=4 needs at least 4 units; the log has 3."),
        (lambda: Plan.of(3).folds(np.array([1, 1, 5, 5]), cluster=np.array([0, 0, 1, 1])),
         "folds=3 needs at least 3 clusters; the log has 2."),
        (lambda: Plan.of([0, 1, 1, 0]).folds(np.arange(4), cluster=np.array([0, 0, 1, 1])),
         ("folds= splits a cluster: its units have different fold labels in 2 of 4 values (first: row 1, row 3). "
         "Give all units of a cluster the same label.")),
        (lambda: f.Part(("full",), np.array([], dtype=int), np.arange(2)).training,
         ("one fold has all units of the log, so none are left to fit models on. Use another seed, more units, "
         "or your own fold labels.")),
    ],
)  # fmt: skip
def test_refusals(call, words):
    assert said(call) == words


def test_as_many_units_as_folds_are_enough():
    assert Plan.of(4).folds(np.arange(4)).k == 4
    two = Plan.of([0, 0, 1, 1]).folds(np.arange(4), cluster=np.array([1, 1, 0, 0]))
    assert two.labels.tolist() == [[0, 0, 1, 1]]
    assert f.Part(("full",), np.array([3]), np.arange(2)).training.tolist() == [3]
    assert (KFold(np.int64(2)).k, Plan.of(np.int64(5)).k, Plan.of(KFold(3, "reward")).stratify) == (2, 5, "reward")
    assert (Plan().k, Plan().repeats, Plan().seed, KFold().k) == (2, 1, 0, 2)
    assert (Plan.of(2).repeats, Plan.of(2, 3, 7).repeats, Plan.of(2, 3, 7).seed) == (1, 3, 7)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 11])
def test_drawn_folds_and_their_halves(k, seed):
    units = np.array([0, 1, 2, 3, 7, 8, 21, 22, 1000, 4, 5, 6])
    made = Plan.of(k, 2, seed).folds(units)
    assert (made.repeats, made.k, made.half_is_a_fold) == (2, k, k == 2)
    for r in range(2):
        labels = [fold_of(int(u), k, hash_constants(seed, r)) for u in units]
        assert made.labels[r].tolist() == labels
        odd = [fold_of(int(u), 2, hash_constants(seed, r, HALF)) == 0 for u in units]
        even = [label < k // 2 for label in labels]
        assert made.half[r].tolist() == (odd if k % 2 else even)
        half = made.parts("half", r)
        assert len(half) == 1
        assert half[0].score.tolist() == np.flatnonzero(made.half[r]).tolist()
        assert half[0].train.tolist() == np.flatnonzero(~made.half[r]).tolist()
        assert half[0].key == (("fold", r, 0) if k == 2 else ("half", r))
        parts = made.parts("crossfit", r)
        assert [p.key for p in parts] == [("fold", r, j) for j in range(k)]
        for j, part in enumerate(parts):
            assert part.score.tolist() == [i for i in range(12) if labels[i] == j]
            assert part.train.tolist() == [i for i in range(12) if labels[i] != j]
        (full,) = made.parts("full", r)
        assert (full.key, full.train.tolist(), full.score.tolist()) == (("full",), list(range(12)), list(range(12)))


def test_halves_of_given_labels():
    units = np.arange(6)
    for labels, k in (([0, 1, 2, 3, 0, 3], 4), ([0, 1, 0, 1, 1, 0], 2)):
        made = Plan.of(labels).folds(units)
        assert made.half[0].tolist() == [label < k // 2 for label in labels]
    odd = [0, 1, 2, 2, 1, 0]
    made = Plan.of(odd, seed=5).folds(units)
    assert made.half[0].tolist() == [fold_of(u, 2, hash_constants(5, 0, HALF)) == 0 for u in range(6)]
    rows = np.array([odd, odd[::-1]])
    two = Plan.of(rows, seed=5).folds(units)
    assert two.half[1].tolist() == [fold_of(u, 2, hash_constants(5, 1, HALF)) == 0 for u in range(6)]
    # Labels that the log carries split no further: of three the first two are scored.
    carried = Plan.of(2).block(units, labels=np.array([odd]))
    assert (carried.k, carried.half[0].tolist()) == (3, [label < 2 for label in odd])
    given = Plan.of(2).block(units, labels=np.array([odd]), half=np.ones((1, 6), dtype=bool))
    assert given.half.all()
    own = Plan.of(odd).block(units, half=np.zeros((1, 6), dtype=bool))
    assert not own.half.any()


def test_codes_of_labels():
    assert Plan.of(["b", "a", "b"]).labels.tolist() == [[1, 0, 1]]
    assert Plan.of([7, 3, 7, 9]).labels.tolist() == [[1, 0, 1, 2]]
    assert Plan.of([-1, 5, 5]).labels.tolist() == [[0, 1, 1]]
    for large in (9_999, 10_000, 10_001):
        number, codes = f._numbered(np.array([large, 3, large]))
        assert (number, codes.tolist()) == (2, [1, 0, 1])
    plan = Plan.of([[0, 1, 2], [0, 1, 1]])
    assert (plan.k, plan.repeats) == (3, 2)


def test_small_labels_are_not_sorted(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(f.np, "unique", refuse)
    assert f._numbered(np.array([9_999, 3]))[0] == 2
    for sorted_ones in ([10_000, 3], [-1, 3], [0.5, 3.0]):
        with pytest.raises(AssertionError):
            f._numbered(np.array(sorted_ones))


@pytest.mark.parametrize("k", [2, 3])
def test_strata_are_spread_evenly(k):
    strata = np.array([0, 1, 1, 0, 2, 1, 0, 1, 2, 2, 1, 0, 0, 1])
    numbers = f._within(strata, k)
    expected = np.empty(len(strata), dtype=int)
    start = 0
    for s in range(3):
        members = np.flatnonzero(strata == s)
        expected[members] = start + np.arange(len(members))
        start += -(-len(members) // k) * k
    assert numbers.tolist() == expected.tolist()
    made = Plan.of(KFold(k, "action"), 1, 3).folds(np.arange(14), strata=strata)
    assert made.labels[0].tolist() == [fold_of(int(m), k, hash_constants(3)) for m in expected]
    for s in range(3):
        sizes = np.bincount(made.labels[0][strata == s], minlength=k)
        assert np.ptp(sizes) <= 1


def test_constants_of_the_hash():
    for seed, repeat, stream in ((0, 0, 0), (5, 2, HALF)):
        words = np.random.SeedSequence([seed, repeat, 0xF01D, stream]).generate_state(4, np.uint64)
        assert hash_constants(seed, repeat, stream) == tuple(int(w) % 67108835 + 1 for w in words)
    ids = np.array([5, 6, 7, 8, -3])
    assert hash_folds(ids, 3, 4, repeat=2).tolist() == [fold_of(int(i), 3, hash_constants(4, 2)) for i in ids]
    assert hash_folds(ids).tolist() == hash_folds(ids, 2, 0, repeat=0).tolist()
    numbers = np.arange(5000)
    hashed = scrambled(numbers, hash_constants(9, 0, 0xFA17)) % 2**20
    for share in (0.25, 0.1):
        assert drawn(numbers, share, 9).tolist() == (hashed < int(share * 2**20)).tolist()
