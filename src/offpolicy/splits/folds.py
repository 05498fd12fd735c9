"""Sample splits: who is in which fold, and what is trained on whom.

Every estimator is a score in one of three splits (the columns of the grid in the design):

- ``full``: nuisances are fitted on all units and the score is taken on all units;
- ``half``: fitted on one half, scored on the other (Jiang and Li 2016; the paper's DR-half);
- ``crossfit``: for each of K folds, fitted on the other folds and scored on it (the paper's DML).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import places
from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.logs.actions import is_missing
from offpolicy.splits.hashing import HALF, fold_of, hash_constants

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Ints

Split: TypeAlias = Literal["full", "half", "crossfit"]

MANY_FOLDS = 10_000


@checks_arguments
@dataclass(frozen=True)
class KFold:
    """How to draw folds: their number, and what to balance over them.

    Parameters
    ----------
    k : int
        Number of folds, at least 2.
    stratify : {"action", "reward"} or None
        Spread each action (or each reward value of a discrete reward) evenly over the folds.

    Examples
    --------
    >>> KFold(5, stratify="action")
    KFold(k=5, stratify='action')
    """

    k: int = 2
    stratify: Literal["action", "reward"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 2:
            raise UsageError(f"folds= must be an int of at least 2 or fold labels. Got {self.k!r} instead.")
        if self.stratify not in {None, "action", "reward"}:
            raise UsageError(f"stratify= must be 'action', 'reward' or None. Got {self.stratify!r} instead.")


@dataclass(frozen=True, eq=False)
class Part:
    """One fit and the units it is used for. Equal keys mean the same training units."""

    key: tuple[Any, ...]
    train: Ints
    score: Ints

    @property
    def training(self) -> Ints:
        """The training units, of which a fit needs some."""
        if len(self.train) == 0:
            raise UsageError(
                "one fold has all units of the log, so none are left to fit models on. Use another "
                "seed, more units, or your own fold labels."
            )
        return self.train


@dataclass(frozen=True, eq=False)
class Folds:
    """Fold labels of N units, R times, and the scored half of each repetition.

    Attributes
    ----------
    labels : (R, N) int array, values 0 … K−1
    half : (R, N) bool array
        Units scored by the half-sample split; the others train it.
    k : int
        Number of folds of the whole log; a block of it may hold units of some only.
    """

    labels: Ints
    half: Bools
    k: int

    @property
    def repeats(self) -> int:
        """Number of repetitions."""
        return len(self.labels)

    def at(self, units: Any) -> Folds:
        """Folds of some units."""
        return Folds(self.labels[:, units], self.half[:, units], self.k)

    @property
    def half_is_a_fold(self) -> bool:
        """Whether the half-sample split is the first of two folds."""
        return self.k == 2

    def scored(self, split: Split, repeat: int) -> Ints | None:
        """Units that a split scores; None means all."""
        return np.flatnonzero(self.half[repeat]) if split == "half" else None

    def parts(self, split: Split, repeat: int) -> list[Part]:
        """The fits a split needs, each with the units it scores."""
        keys = part_keys(split, repeat, self.k)
        if split == "full":
            everyone = np.arange(self.labels.shape[1], dtype=np.int64)
            return [Part(keys[0], everyone, everyone)]
        if split == "half":
            scored = self.half[repeat]
            return [Part(keys[0], np.flatnonzero(~scored), np.flatnonzero(scored))]
        labels = self.labels[repeat]
        return [Part(key, np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k, key in enumerate(keys)]


def part_keys(split: Split, repeat: int, k: int) -> list[tuple[Any, ...]]:
    """What the fits of a split are called; with two folds a half-sample fit is the cross-fit of fold 0."""
    if split == "full":
        return [("full",)]
    if split == "half":
        return [("fold", repeat, 0) if k == 2 else ("half", repeat)]
    return [("fold", repeat, j) for j in range(k)]


@dataclass(frozen=True, eq=False)
class Plan:
    """How units are assigned to folds: by the hash of their numbers, or by labels given.

    Attributes
    ----------
    k, repeats, seed : int
    stratify : {"action", "reward"} or None
    labels : (R, N) int array or None
        Codes of the labels given, one per unit.
    """

    k: int = 2
    repeats: int = 1
    seed: int = 0
    stratify: Literal["action", "reward"] | None = None
    labels: Ints | None = None

    @classmethod
    def of(cls, folds: int | KFold | Array, repeats: int = 1, seed: int = 0) -> Plan:
        """Check what the user asked for.

        >>> Plan.of(3).k, Plan.of(["a", "b", "a", "b"]).labels.tolist()
        (3, [[0, 1, 0, 1]])
        """
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise UsageError(f"repeats= must be an int of at least 1. Got {repeats!r} instead.")
        if isinstance(folds, int | np.integer | KFold):
            spec = folds if isinstance(folds, KFold) else KFold(int(folds))
            return cls(int(spec.k), repeats, seed, spec.stratify)
        if folds is None or np.ndim(folds) == 0:
            raise UsageError(f"folds= must be an int of at least 2 or fold labels. Got {folds!r} instead.")
        labels = _codes(np.asarray(folds), repeats)
        return cls(int(labels.max()) + 1, len(labels), seed, labels=labels)

    def folds(
        self,
        units: Ints,
        *,
        labels: Ints | None = None,
        half: Bools | None = None,
        cluster: Ints | None = None,
        strata: Ints | None = None,
    ) -> Folds:
        """Folds of a whole log, checked: there are units enough, and no cluster is split.

        Parameters
        ----------
        units : (N,) ints
            Numbers of the units; of their clusters where units come in clusters.
        labels : (R, N) ints, optional
            Labels that the log carries.
        half : (R, N) bools, optional
            The scored halves, where the log carries them too.
        cluster, strata : (N,) ints, optional
        """
        made = self.block(units, labels=labels, half=half, strata=strata)
        groups = len(units) if cluster is None else len(np.unique(cluster))
        check_enough(made.k, groups, "units" if cluster is None else "clusters")
        if cluster is not None:
            for row in made.labels:
                _check_clusters(row, cluster)
        return made

    def block(
        self, units: Ints, *, labels: Ints | None = None, half: Bools | None = None, strata: Ints | None = None
    ) -> Folds:
        """Folds of some units of a log."""
        given = self.labels if labels is None else labels
        if given is not None:
            if given.shape[1] != len(units):
                raise UsageError(
                    f"folds= has {given.shape[1]:,} labels for {len(units):,} units. Give one label per "
                    "unit, or an int."
                )
            k = self.k if labels is None else int(given.max()) + 1
            if half is None and labels is None and k % 2:
                halves = [in_half(row, units, k, self.seed, r) for r, row in enumerate(given)]
                half = np.stack(halves)
            # A column of labels may be all that is known of a compressed row, and splits no further: of an odd
            # number of labels the larger part is scored.
            return Folds(given, given < (k + 1) // 2 if half is None else half, k)
        numbers = units if strata is None else _within(strata, self.k)
        drawn = np.stack(
            [
                np.asarray(fold_of(numbers, self.k, hash_constants(self.seed, r)), dtype=np.int64)
                for r in range(self.repeats)
            ]
        )
        halves = [in_half(row, numbers, self.k, self.seed, r) for r, row in enumerate(drawn)]
        return Folds(drawn, np.stack(halves), self.k)


def check_enough(k: int, groups: int, what: str) -> None:
    """As many units (or clusters) as folds, at least."""
    if groups < k:
        raise UsageError(f"folds={k} needs at least {k} {what}; the log has {groups}.")


def in_half(labels: Any, units: Any, k: int, seed: int, repeat: int) -> Any:
    """Whether the half-sample split scores a unit: half of the folds, or a draw where their number is odd.

    The same arithmetic for arrays and for columns of engines.
    """
    if k % 2 == 0:
        return labels < k // 2
    return fold_of(units, 2, hash_constants(seed, repeat, HALF)) == 0


def _within(strata: Ints, k: int) -> Ints:
    """Numbers that run on inside each stratum and begin at a multiple of k: folds are even in each."""
    order = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // k) * k)[:-1]])
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    numbers = np.empty(len(strata), dtype=np.int64)
    ranked = strata[order]
    numbers[order] = np.arange(len(strata)) - firsts[ranked] + starts[ranked]
    return numbers


def _codes(labels: Array, repeats: int) -> Ints:
    table = np.atleast_2d(labels)
    missing = is_missing(table.ravel())
    if missing.any():
        raise UsageError(f"folds=: the label is missing in {first_rows(missing)}. Give every unit a label.")
    if table.ndim != 2:
        raise UsageError("folds= must hold one label per unit, or one row of labels per repetition.")
    if repeats not in {1, len(table)}:
        raise UsageError(
            f"repeats={repeats}, but folds= gives {len(table)} row(s) of labels. Give one row per repetition."
        )
    codes = np.empty(table.shape, dtype=np.int64)
    for r, row in enumerate(table):
        number, codes[r] = _numbered(row)
        if number < 2:
            raise UsageError("folds= has a single label. Cross-fitting needs at least two folds.")
    return codes


def _numbered(labels: Array) -> tuple[int, Ints]:
    """How many different labels there are, and the place of each among them; small integers need no sort."""
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < MANY_FOLDS:
        present, place = places(labels, int(labels.max()) + 1)
        return len(present), place
    distinct, inverse = np.unique(labels, return_inverse=True)
    return len(distinct), inverse


def _check_clusters(labels: Ints, cluster: Ints) -> None:
    first = np.full(int(cluster.max()) + 1, -1, dtype=np.int64)
    first[cluster[::-1]] = labels[::-1]
    broken = labels != first[cluster]
    if broken.any():
        raise DataError(
            f"folds= splits a cluster: its units have different fold labels in {first_rows(broken)}. "
            "Give all units of a cluster the same label."
        )
