"""Actions that are numbers: prices, bids, doses. What a log knows of them is their range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.logs.checks import LARGEST, numbers, raise_first

if TYPE_CHECKING:
    from offpolicy._arrays import Floats

ActionKind: TypeAlias = Literal["discrete", "continuous"]


def are_numbers(kind: Any, given: dict[str, Any]) -> bool:
    """Whether ``action_kind=`` says that actions are numbers; what makes no sense then must not be ``given``."""
    if kind not in get_args(ActionKind):
        raise UsageError(f"action_kind= must be 'discrete' or 'continuous'. Got {kind!r} instead.")
    for name, value in given.items():
        if kind == "continuous" and value is not None:
            raise UsageError(f"{name}= is for actions that are labels; with action_kind='continuous' leave it out.")
    return bool(kind == "continuous")


def action_range(values: Floats, given: Any, column: str) -> tuple[float, float]:
    """Smallest and largest action: those logged, or the declared (low, high) that must hold them.

    >>> action_range(np.array([2.0, 5.0]), None, "price"), action_range(np.array([2.0]), (0, 9), "price")
    ((2.0, 5.0), (0.0, 9.0))
    """
    raise_first(numbers(values, np.isnan(values), column, "action")[:1])
    low, high = checked_range(float(values.min()), float(values.max()), given, column)
    outside = (values < low) | (values > high)
    if outside.any():
        raise DataError(outside_range(column, first_rows(outside, values), (low, high)))
    return low, high


def checked_range(low: float, high: float, given: Any, column: str) -> tuple[float, float]:
    """The declared range where there is one, else that of the logged numbers."""
    if given is not None:
        try:
            low, high = (float(end) for end in given)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"column {column!r}: of actions that are numbers, actions= is their range (low, high). "
                f"Got {given!r:.60} instead."
            ) from error
    if max(abs(low), abs(high)) > LARGEST:
        raise DataError(
            f"column {column!r}: actions from {low:g} to {high:g} are beyond 1e30 in size, where distances between "
            "actions are no longer numbers. Give them in another unit."
        )
    if not (np.isfinite([low, high]).all() and low < high):
        raise DataError(
            f"column {column!r}: actions from {low:g} to {high:g} do not differ. A log of numbers needs several "
            "of them to say anything of others."
        )
    return low, high


def outside_range(column: str, where: str, span: tuple[float, float]) -> str:
    """Logged actions are not in the declared range."""
    return (
        f"column {column!r}: {where} are outside of the declared range {span[0]:g} to {span[1]:g}. Give "
        "actions=(low, high) that holds every logged action, or leave it out."
    )
