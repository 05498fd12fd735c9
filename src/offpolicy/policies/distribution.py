"""Rows of probabilities: made, restricted to eligible actions, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, PolicyError, did_you_mean, first_rows
from offpolicy.logs.actions import is_missing, refuse_rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints


SUM_TOLERANCE = 1e-6  # columns of logged probabilities are often single precision


def eligibility(eligible: Any, n: int, K: int) -> Bools | None:
    """Check an (n, K) array of eligible actions; every row must have one."""
    if eligible is None:
        return None
    mask = np.asarray(eligible)
    if mask.shape != (n, K) or mask.dtype != np.bool_:
        raise PolicyError(
            f"'eligible' must be a boolean array of shape ({n}, {K}). Got {mask.dtype} of shape {mask.shape} instead."
        )
    none = np.asarray(~mask.any(axis=1))
    if none.any():
        raise PolicyError(f"{first_rows(none)} have no eligible action: there is nothing to choose.")
    return mask


def uniform(n: int, K: int, eligible: Bools | None, mass: float = 1.0) -> Floats:
    """Spread ``mass`` equally over the eligible actions of each row (a read-only view if all are).

    >>> uniform(1, 4, np.array([[True, False, True, False]])).tolist()
    [[0.5, 0.0, 0.5, 0.0]]
    """
    if eligible is None:
        return np.broadcast_to(np.float64(mass / K), (n, K))
    return np.asarray(mass * eligible / eligible.sum(axis=1, keepdims=True))


def one_hot(codes: Ints, K: int) -> Floats:
    """Return the (n, K) distributions of deterministic choices.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    out = np.zeros((len(codes), K))
    out[np.arange(len(codes)), codes] = 1.0
    return out


def check_rows(
    values: Any, shape: tuple[int, int], policy: str, eligible: Bools | None = None, rows: Array | None = None
) -> Floats:
    """Return ``values`` as float64 if each row is a distribution; raise naming the first bad row.

    ``eligible`` are the (n, K) actions that may be taken, ``rows`` the numbers of the rows in the log.

    >>> check_rows([[0.5, 0.6]], (1, 2), "mine")
    Traceback (most recent call last):
    offpolicy.errors.PolicyError: mine: probabilities do not sum to 1 in 1 of 1 values (first: row 0 = 1.1).
    Nothing is normalized unasked: divide each row by its sum, or find the action that was left out.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        raise PolicyError(f"{policy}: probabilities must be numbers. Got {array.dtype}.")
    try:
        out = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{policy}: probabilities must be numbers ({error}).") from error
    if out.shape != shape:
        raise PolicyError(
            f"{policy}: probabilities must have shape (n, K) = {shape}: a column for each of the log's "
            f"{shape[1]} actions, in their order. Got {out.shape} instead. Actions that were never logged "
            "are named with `actions=` (`labels=` of Trajectories.from_arrays)."
        )

    def refuse(bad: Any, what: str, shown: Floats | None = None) -> None:
        if bad.any():
            where = first_rows(np.asarray(bad), shown, rows)
            raise PolicyError(f"{policy}: {what.format(where)}")

    lowest, total = out.min(axis=1), out.sum(axis=1)
    inputs = "Check the model for missing inputs and overflow at these rows."
    refuse(~np.isfinite(total), f"probabilities are missing, NaN or infinite in {{}}. {inputs}")
    remedy = "Scores become probabilities by Softmax or Greedy."
    refuse(lowest < 0, f"probabilities are negative in {{}}. {remedy}", lowest)
    remedy = "divide each row by its sum, or find the action that was left out."
    off = np.abs(total - 1) > SUM_TOLERANCE
    refuse(off, f"probabilities do not sum to 1 in {{}}. Nothing is normalized unasked: {remedy}", total)
    if eligible is not None:
        unable = ((out > 0) & ~eligible).any(axis=1)
        refuse(unable, "gives probability to actions that were not eligible in {}.")
    return out


def as_rows(answer: Any, labels: tuple[Hashable, ...], shape: tuple[int, int], policy: str) -> Floats:
    """What a function gave, (n, K) probabilities or one label per row, as checked probabilities."""
    if np.ndim(answer) == 1:
        return one_hot(action_codes(answer, labels, policy, shape[0]), shape[1])
    return check_rows(answer, shape, policy)


BLOCK_CELLS = 4_000_000


def blocks(n: int, width: int) -> Iterator[Ints]:
    """Consecutive row numbers in blocks of bounded size."""
    step = max(1, BLOCK_CELLS // max(width, 1))
    for start in range(0, n, step):
        yield np.arange(start, min(n, start + step), dtype=np.int64)


def fit_together(n: int, width: int) -> bool:
    """Whether so many rows are one block."""
    return n * width <= BLOCK_CELLS


_MISSING = object()  # None, NaN and NaT are one value when contexts are compared


def positions(values: Array, known: Mapping[Any, int]) -> Ints:
    """Return ``known[value]`` for each value, −1 where there is none.

    >>> positions(np.array([3, 1, 2]), {1: 0, 3: 1}).tolist()
    [1, 0, -1]
    """
    values = np.asarray(values)
    if values.dtype.kind in "biuf":
        distinct, inverse = np.unique(values, return_inverse=True)
        return _look_up(distinct, known)[inverse]
    return _look_up(values, known)


def keys(values: Array) -> list[Any]:
    """Values as dictionary keys, all kinds of missing being the same one."""
    found: list[Any] = values.tolist()
    for row in np.flatnonzero(is_missing(values)):
        found[row] = _MISSING
    return found


def action_codes(labels: Any, actions: Sequence[Hashable], policy: str, n: int) -> Ints:
    """Return the (n,) codes of labels given row by row; unknown ones raise, naming the first rows.

    >>> action_codes(["b", "a"], ("a", "b"), "policy", 2).tolist()
    [1, 0]
    """
    values = labels if isinstance(labels, np.ndarray) else _as_array(labels)
    if values.shape != (n,):
        raise PolicyError(
            f"{policy} must give one action label per row, shape ({n},). Got shape {values.shape} instead."
        )
    try:
        refuse_rounded(values, policy)
    except DataError as error:
        raise PolicyError(str(error)) from error
    codes = positions(values, {label: code for code, label in enumerate(actions)})
    unknown = codes < 0
    if unknown.any():
        example = values[int(unknown.argmax())]
        raise PolicyError(
            f"{policy} chooses actions that the log does not have: {first_rows(unknown, values)}."
            f"{did_you_mean(example, actions)}"
        )
    return codes


def require_actions(
    labels: Iterable[Hashable], actions: Sequence[Hashable], policy: str, *, every: bool = False
) -> None:
    """Check that labels are actions of the log, and with ``every`` that each action is there."""
    labels = list(labels)
    for label in labels:
        if label not in actions:
            raise PolicyError(f"{policy}: the log has no action {label!r}.{did_you_mean(label, actions)}")
    if every and (absent := [a for a in actions if a not in labels]):
        raise PolicyError(
            f"{policy} has nothing for the action {absent[0]!r} ({len(absent)} of {len(actions)} "
            "actions are absent). Give an entry for every action of the log."
        )


def _look_up(values: Array, known: Mapping[Any, int]) -> Ints:
    found = (known.get(key, -1) for key in keys(values))
    return np.fromiter(found, dtype=np.int64, count=len(values))


def _as_array(labels: Any) -> Array:
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    items = list(labels)
    # np.array would turn [1, "a"] into two strings, and tuples into rows.
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


FEW = 64  # rows that every evaluation asks about again
AGREEMENT = 1e-9  # matrix products may round differently for other numbers of rows
SINGLE = 1e-5  # the same for networks in single precision
ALONE = "A row's distribution may depend only on that row; look for sums, ranks or scaling over all rows."
SAME = (
    "The same rows must give the same distribution: return probabilities rather than draws, and keep nothing "
    "between calls."
)


def some_rows(n: int, most: int = FEW) -> Ints:
    """A few row numbers, spread over all.

    >>> some_rows(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def probe(
    ask: Callable[[Ints], Array], rows: Ints, who: str, *, reference: Array | None = None, tolerance: float = SINGLE
) -> None:
    """Compare what ``ask`` gives for rows twice, in another order, and in two parts.

    Parameters
    ----------
    ask : callable
        (m, K) probabilities or (m,) codes of some rows.
    reference : array, optional
        What it gave for these rows among all others.

    Raises
    ------
    PolicyError
        Naming the first row that got another answer.
    """
    first = ask(rows).copy()  # a policy may hand out and then overwrite its own buffer
    if reference is not None:
        same_alone(reference, first, rows, who, tolerance)
    _agree(first, ask(rows), rows, who, "in a second call", SAME, tolerance)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = np.empty_like(first)
    shuffled[order] = ask(rows[order])
    _agree(first, shuffled, rows, who, "when rows come in another order", ALONE, tolerance)
    if len(rows) > 1:
        parts = [ask(part).copy() for part in np.array_split(rows, 2)]
        joined = np.concatenate(parts)
        _agree(first, joined, rows, who, "when rows are passed in two parts", ALONE, tolerance)


def same_alone(among: Array, alone: Array, rows: Ints, who: str, tolerance: float = SINGLE) -> None:
    """Raise where rows get other distributions among many others than they get by themselves."""
    _agree(among, alone, rows, who, "when fewer rows are passed", ALONE, tolerance)


def _agree(one: Array, other: Array, rows: Ints, who: str, when: str, remedy: str, tolerance: float) -> None:
    apart = np.abs(np.subtract(one, other, dtype=np.float64))
    differs = np.asarray((apart if apart.ndim == 1 else apart.max(axis=1)) > tolerance)
    if differs.any():
        where = first_rows(differs, None, rows)
        raise PolicyError(f"{who} gives other probabilities {when}: {where}. {remedy}")


def failing_row(ask: Callable[[Ints], Any], rows: Ints) -> int | None:
    """The first row that a function fails on alone, found by halves; None where no row does."""
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rest = rows[len(rows) // 2 :]
        if _fails(ask, half):
            rows = half
        elif _fails(ask, rest):
            rows = rest
        else:
            return None
    return int(rows[0])


def _fails(ask: Callable[[Ints], Any], rows: Ints) -> bool:
    try:
        ask(rows)
    except (Exception, SystemExit):  # noqa: BLE001 — whatever the user's code raises
        return True
    return False
