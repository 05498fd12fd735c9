"""Columns of a context cut into a few bins, so that a tree can be searched by adding up histograms.

A number's bins are its quantiles: bin j holds what is at most the j-th cut. A text's bins are its most
frequent values. What is missing, or was not seen, has a bin of its own, the last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import PolicyError, UsageError
from offpolicy.logs.frame import Columns, is_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Floats, Ints


MOST_BINS = 63


@dataclass(frozen=True)
class Feature:
    """One column and its bins.

    Attributes
    ----------
    name : str or int
        Column of a frame, or of an array.
    cuts : tuple of float
        Upper ends of a number's bins; empty for text.
    levels : tuple of str
        Values of a text column; empty for numbers.
    has_missing : bool
        Whether a number was missing in the log.
    """

    name: str | int
    cuts: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()
    has_missing: bool = False

    @property
    def is_text(self) -> bool:
        """Whether values are compared for equality instead of size."""
        return bool(self.levels)

    @property
    def bins(self) -> int:
        """Number of bins, with the one for what is missing."""
        return len(self.levels) + 1 if self.is_text else len(self.cuts) + 2

    @property
    def label(self) -> str:
        """The column's name as people read it."""
        return self.name if isinstance(self.name, str) else f"context {self.name}"

    def codes(self, values: Array) -> Ints:
        """Bin of each value.

        >>> Feature("x", cuts=(1.0, 2.0)).codes(np.array([0.5, 1.0, 1.5, 9.0, np.nan])).tolist()
        [0, 0, 1, 2, 3]
        >>> Feature("x", levels=("a", "b")).codes(np.array(["b", "c", None], dtype=object)).tolist()
        [1, 2, 2]
        """
        if self.is_text:
            place = {level: i for i, level in enumerate(self.levels)}
            return np.array([place.get(str(v), len(place)) for v in values.tolist()], dtype=np.int64)
        numbers = np.asarray(values, dtype=np.float64)
        codes = np.searchsorted(np.array(self.cuts), numbers, side="left")
        return np.where(np.isnan(numbers), len(self.cuts) + 1, codes)

    def goes_left(self, codes: Ints, at: int) -> Array:
        """Which bins a split sends left: the bin itself for text, all up to it for numbers."""
        return codes == at if self.is_text else codes <= at


def learn_features(context: Any, names: Sequence[str] | None) -> list[Feature]:
    """Bins of every column of a context that has more than one value."""
    found = [_feature(name, column_of(context, name)) for name in _names(context, names)]
    return [f for f in found if f is not None]


def _names(context: Any, names: Sequence[str] | None) -> list[str | int]:
    if names is not None:
        return list(names)
    array = np.asarray(context)
    return list(range(array.shape[1])) if array.ndim == 2 else [0]


def column_of(context: Any, name: str | int) -> Array:
    """One column of a frame or of an array."""
    if is_frame(context):
        columns = Columns(context)
        if name not in columns.names:
            raise PolicyError(f"the policy was learned with a column {name!r}, which is missing here.")
        return columns.values(str(name))
    array = np.asarray(context)
    return array if array.ndim == 1 else array[:, int(name)]


def _feature(name: str | int, values: Array) -> Feature | None:
    if values.dtype.kind in "mM":
        raise UsageError(
            f"learn_policy: the context column {name!r} has dates or durations, which a later log will not repeat. "
            "Turn it into a number (such as hours) or a label (such as the weekday), or leave it out."
        )
    if values.dtype.kind in "biuf":
        return _number(name, np.asarray(values, dtype=np.float64))
    present = [str(v) for v in values.tolist() if v is not None and v == v]  # noqa: PLR0124  (NaN)
    levels, counts = np.unique(np.array(present, dtype=object), return_counts=True)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MOST_BINS])
    return Feature(name, levels=tuple(levels[frequent].tolist())) if len(levels) > 1 else None


def _number(name: str | int, values: Floats) -> Feature | None:
    present = np.sort(values[~np.isnan(values)])
    different = present[np.r_[True, np.diff(present) > 0]] if len(present) else present
    if len(different) < 2:
        return None
    if len(different) > MOST_BINS:
        # The smallest value that a share j / 63 of the rows does not exceed.
        places = -(-np.arange(1, MOST_BINS) * len(present) // MOST_BINS) - 1
        cuts = np.unique(present[places])
        cuts = cuts[cuts < different[-1]]
    else:
        cuts = different[:-1]
    return Feature(name, cuts=tuple(cuts.tolist()), has_missing=len(present) < len(values))


def coded(context: Any, features: Sequence[Feature]) -> list[Ints]:
    """(n,) bins of each feature."""
    return [f.codes(column_of(context, f.name)) for f in features]


NUMBER = re.compile(r"(?P<column>.*) (?P<side>[≤>]) \S+(?P<missing>( or missing)?)", re.DOTALL)


def condition(feature: Feature, at: int) -> tuple[str, str]:
    """A question's yes and no, in words.

    >>> from offpolicy.decide.features import Feature
    >>> condition(Feature("age", cuts=(30.0, 50.0)), 0)
    ('age ≤ 30', 'age > 30')
    """
    if feature.is_text:
        return (f"{feature.label} is {feature.levels[at]}", f"{feature.label} is not {feature.levels[at]}")
    if at >= len(feature.cuts):
        return f"{feature.label} is known", f"{feature.label} is missing"
    cut = f"{feature.cuts[at]:.6g}"
    missing = " or missing" if feature.has_missing else ""
    return f"{feature.label} ≤ {cut}", f"{feature.label} > {cut}{missing}"


def shortened(conditions: list[str]) -> list[str]:
    """Conditions on a path without those that a later one about the same column makes needless.

    >>> shortened(["age ≤ 63", "device is tv", "age ≤ 40"])
    ['device is tv', 'age ≤ 40']
    >>> shortened(["age ≤ 63", "age > 40"])
    ['age ≤ 63', 'age > 40']
    """
    kept: dict[str, str] = {}
    for said in conditions:
        parts = NUMBER.fullmatch(said)
        key = said if parts is None else f"{parts['column']} {parts['side']}{parts['missing']}"
        kept.pop(key, None)
        kept[key] = said
    return list(kept.values())


def condition_in_sql(feature: Feature, at: int) -> tuple[str, str]:
    """A question's yes and no as SQL; a missing value goes right.

    >>> from offpolicy.decide.features import Feature
    >>> print(*condition_in_sql(Feature("device", levels=("it's", "tv")), 0))
    "device" = 'it''s' ("device" <> 'it''s' OR "device" IS NULL)
    """
    name = sql_name(feature.label)
    if feature.is_text:
        text = sql_literal(feature.levels[at])
        return f"{name} = {text}", f"({name} <> {text} OR {name} IS NULL)"
    if at >= len(feature.cuts):
        return f"{name} IS NOT NULL", f"{name} IS NULL"
    cut = repr(feature.cuts[at])
    return f"{name} <= {cut}", f"({name} > {cut} OR {name} IS NULL)"


def sql_name(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_literal(value: Any) -> str:
    """A literal: numbers as they are, text quoted."""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | np.integer | np.floating):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return "'" + str(value).replace("'", "''") + "'"
