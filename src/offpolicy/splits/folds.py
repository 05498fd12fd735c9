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

from offpolicy._arrays import places
from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.logs.actions import is_missing

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Ints

Split: TypeAlias = Literal["full", "half", "crossfit"]

MANY_FOLDS = 10_000


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
            raise UsageError(
                f"folds= must be an int of at least 2 or fold labels. Got {self.k!r} instead."
            )
        if self.stratify not in {None, "action", "reward"}:
            raise UsageError(
                f"stratify= must be 'action', 'reward' or None. Got {self.stratify!r} instead."
            )


@dataclass(frozen=True, eq=False)
class Part:
    """One fit and the units it is used for. Equal keys mean the same training units."""

    key: tuple[Any, ...]
    train: Ints
    score: Ints


@dataclass(frozen=True, eq=False)
class Folds:
    """Fold labels of N units, R times, and the scored half of each repetition.

    Attributes
    ----------
    labels : (R, N) int array, values 0 … K−1
    half : (R, N) bool array
        Units scored by the half-sample split; the others train it.
    """

    labels: Ints
    half: Bools

    @property
    def k(self) -> int:
        """Number of folds."""
        return int(self.labels.max()) + 1

    @property
    def repeats(self) -> int:
        """Number of repetitions."""
        return len(self.labels)

    def half_is_a_fold(self, repeat: int) -> bool:
        """Whether the half-sample split is the first of two folds."""
        return self.k == 2 and bool(np.array_equal(self.half[repeat], self.labels[repeat] == 0))

    def parts(self, split: Split, repeat: int) -> list[Part]:
        """The fits a split needs, each with the units it scores."""
        if split == "full":
            everyone = np.arange(self.labels.shape[1], dtype=np.int64)
            return [Part(("full",), everyone, everyone)]
        labels = self.labels[repeat]
        if split == "half":
            scored = self.half[repeat]
            # With two folds the half-sample fit is the cross-fit of fold 0: fit it once.
            shared = self.half_is_a_fold(repeat)
            key: tuple[Any, ...] = ("fold", repeat, 0) if shared else ("half", repeat)
            return [Part(key, np.flatnonzero(~scored), np.flatnonzero(scored))]
        return [
            Part(("fold", repeat, k), np.flatnonzero(labels != k), np.flatnonzero(labels == k))
            for k in range(self.k)
        ]


def make_folds(
    n: int,
    folds: int | KFold | Array,
    *,
    repeats: int = 1,
    seed: int = 0,
    cluster: Ints | None = None,
    strata: Ints | None = None,
) -> Folds:
    """Draw K folds of equal size, or check the labels given.

    Parameters
    ----------
    n : int
        Number of units.
    folds : int, KFold, or (n,) or (repeats, n) labels
        Labels of any type; they are used as given, in sorted order.
    repeats : int
        How many times to draw.
    seed : int
        Seed of the draw; repetition r uses its own stream.
    cluster : (n,) int array, optional
        Units of one cluster stay together.
    strata : (n,) int array, optional
        Each stratum is spread evenly.

    Examples
    --------
    >>> make_folds(6, 2, seed=1).labels.shape
    (1, 6)
    >>> make_folds(4, ["a", "b", "a", "b"]).labels.tolist()
    [[0, 1, 0, 1]]
    """
    if isinstance(folds, int | np.integer | KFold):
        spec = folds if isinstance(folds, KFold) else KFold(int(folds))
        return _draw(n, spec.k, repeats, seed, cluster, strata)
    if folds is None or np.ndim(folds) == 0:
        raise UsageError(
            f"folds= must be an int of at least 2 or fold labels. Got {folds!r} instead."
        )
    return _given(n, np.asarray(folds), repeats, cluster)


def _given(n: int, labels: Array, repeats: int, cluster: Ints | None) -> Folds:
    table = np.atleast_2d(labels)
    missing = is_missing(table.ravel())
    if missing.any():
        raise UsageError(
            f"folds=: the label is missing in {first_rows(missing)}. Give every unit a label."
        )
    if table.shape[1] != n or table.ndim != 2:
        raise UsageError(
            f"folds= holds {table.shape[-1]:,} labels for {n:,} units. Give one label a unit, or an int."
        )
    if repeats not in {1, len(table)}:
        raise UsageError(
            f"repeats={repeats}, but folds= gives {len(table)} row(s) of labels. Give one row a repetition."
        )
    codes = np.empty(table.shape, dtype=np.int64)
    for r, row in enumerate(table):
        number, codes[r] = _numbered(row)
        if number < 2:
            raise UsageError("folds= holds a single label. Cross-fitting needs at least two folds.")
        if cluster is not None:
            _check_clusters(codes[r], cluster)
    k = codes.max(axis=1, keepdims=True) + 1
    return Folds(codes, codes < (k + 1) // 2)


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
            f"folds= splits a cluster: the fold label differs inside it in {first_rows(broken)}. "
            "Give all units of a cluster the same label."
        )


def _draw(
    n: int, k: int, repeats: int, seed: int, cluster: Ints | None, strata: Ints | None
) -> Folds:
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise UsageError(f"repeats= must be an int of at least 1. Got {repeats!r} instead.")
    groups = n if cluster is None else int(cluster.max()) + 1
    if groups < k:
        what = "units" if cluster is None else "clusters"
        raise UsageError(f"folds={k} needs at least {k} {what}; the log has {groups}.")
    if cluster is not None and strata is not None:
        raise UsageError("folds cannot be stratified and clustered at once. Leave stratify out.")
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2 * repeats)]
    labels = np.stack([_balanced(streams[2 * r], groups, k, strata) for r in range(repeats)])
    if k % 2 == 0:
        half = labels < k // 2
    else:
        half = np.stack(
            [_balanced(streams[2 * r + 1], groups, 2, strata) == 0 for r in range(repeats)]
        )
    if cluster is not None:
        labels, half = labels[:, cluster], half[:, cluster]
    return Folds(labels, half)


def _balanced(rng: np.random.Generator, n: int, k: int, strata: Ints | None) -> Ints:
    """Random labels whose sizes differ by at most one (inside each stratum as well)."""
    order = rng.permutation(n)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    labels = np.empty(n, dtype=np.int64)
    labels[order] = np.arange(n) % k
    return labels


# The three largest primes below 2^31: products of two residues stay below 2^62.
P, Q, R = 2147483647, 2147483629, 2147483587


def hash_constants(seed: int, repeat: int = 0) -> tuple[int, int, int, int]:
    """Multipliers and shifts of the fold hash for one seed and repetition."""
    words = np.random.SeedSequence([seed, repeat, 0xF01D]).generate_state(4, np.uint64)
    a, b, s, t = (int(w) % (Q - 2) + 1 for w in words)
    return a, b, s, t


def hash_arithmetic(ids: Any, k: int, constants: tuple[int, int, int, int]) -> Any:
    """Fold of an id, as the same arithmetic on numpy arrays, Python ints and Ibis columns.

    With primes p, q, r just below 2³¹: u = (a·id + s) mod p, v = (b·id + t) mod q, fold = (u·v mod r) mod k.
    Only + * % are used and nothing leaves 64 bits, so every engine gives the same fold. A first
    remainder is shifted to be non-negative, on which engines disagree for negative ids.
    """
    a, b, s, t = constants
    u = ((ids % P + P) % P * a + s) % P
    v = ((ids % Q + Q) % Q * b + t) % Q
    return u * v % R % k


def hash_folds(ids: Any, k: int = 2, seed: int = 0, *, repeat: int = 0) -> Ints:
    """Folds by a fixed arithmetic hash of row (or cluster) ids: the ones `offpolicy.scan` uses.

    Parameters
    ----------
    ids : (n,) int or text array
        Equal ids get equal folds. Text enters by the first 32 bits of its MD5 digest.
    k : int
        Number of folds.
    seed, repeat : int
        Other folds for other values.

    Returns
    -------
    (n,) int array of labels 0 … k − 1

    Examples
    --------
    >>> hash_folds([1, 2, 3, 4, 5, 6], 2, seed=0).tolist()
    [1, 1, 0, 1, 1, 0]
    """
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        array = _text_numbers(array)
    numbers = array.astype(np.int64)
    return np.asarray(hash_arithmetic(numbers, k, hash_constants(seed, repeat)), dtype=np.int64)


def _text_numbers(values: Array) -> Ints:
    """The first 32 bits of each text's MD5 digest."""
    import hashlib

    bad = np.fromiter((not isinstance(v, str) for v in values.tolist()), bool, len(values))
    if bad.any():
        raise DataError(
            f"ids must be integers or text: {first_rows(bad, values)} are neither. Cast the column."
        )
    known: dict[str, int] = {}
    for value in values.tolist():
        if value not in known:
            digest = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
            known[value] = int(digest[:8], 16)
    return np.array([known[value] for value in values.tolist()], dtype=np.int64)
