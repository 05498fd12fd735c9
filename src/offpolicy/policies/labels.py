"""From labels to codes: the position of each value in a list of known ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, PolicyError, did_you_mean, first_rows
from offpolicy.logs.actions import is_missing, refuse_rounded

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from offpolicy._arrays import Array, Ints

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
