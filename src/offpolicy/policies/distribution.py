"""Rows of probabilities: made, restricted to eligible actions, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, PolicyError, did_you_mean, first_rows
from offpolicy.logs.actions import is_missing, refuse_rounded

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

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
        raise PolicyError(f"{first_rows(none)} have no eligible action, so there is nothing to choose.")
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
    Divide each row by its sum, or find the action that was left out. offpolicy never normalizes them for you.
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
            f"{policy}: probabilities must have shape (n, K) = {shape}: one column for each of the log's "
            f"{shape[1]} actions, in their order. Got {out.shape} instead. Name actions that were never logged "
            "with `actions=` (`labels=` of Trajectories.from_arrays)."
        )

    def refuse(bad: Any, what: str, shown: Floats | None = None) -> None:
        if bad.any():
            where = first_rows(np.asarray(bad), shown, rows)
            raise PolicyError(f"{policy}: {what.format(where)}")

    lowest, total = out.min(axis=1), out.sum(axis=1)
    inputs = "Check the model for missing inputs and overflow in these rows."
    refuse(~np.isfinite(total), f"probabilities are missing, NaN or infinite in {{}}. {inputs}")
    remedy = "Turn scores into probabilities with Softmax or Greedy."
    refuse(lowest < 0, f"probabilities are negative in {{}}. {remedy}", lowest)
    remedy = "Divide each row by its sum, or find the action that was left out."
    off = np.abs(total - 1) > SUM_TOLERANCE
    refuse(off, f"probabilities do not sum to 1 in {{}}. {remedy} offpolicy never normalizes them for you.", total)
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
            f"{policy} chooses actions that are not in the log: {first_rows(unknown, values)}."
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
            f"{policy} has no entry for action {absent[0]!r} ({len(absent)} of {len(actions)} "
            "actions are missing). Give an entry for every action of the log."
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
