"""What a column of an unknown log holds: facts of a sample, from which roles are guessed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["number", "whole", "text", "date", "truth", "list", "empty"]

FEW = 20  # different values that are kept by name
SAMPLE = 200  # values whose writing is looked at
DATE = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}.*)?\s*|\s*\d{1,2}[./]\d{1,2}[./]\d{2,4}.*")
ISO = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?\s*")


@dataclass(frozen=True)
class ColumnFacts:
    """A column in figures.

    Attributes
    ----------
    name : str
    kind : str
        What the values are: decimal numbers, whole numbers, text, dates (also as text), true and false, lists.
    rows, missing, distinct : int
        Rows of the sample, those without a value, and different values.
    low, high : float
        Of numbers.
    values : tuple of str
        The different values as text, sorted, where there are few.
    mean_inverse : float
        Mean of 1 / value where all lie in (0, 1]: of true propensities it is near the number of actions.
    iso : bool
        Whether dates are written as 2026-01-31.
    """

    name: str
    kind: Kind
    rows: int
    missing: int = 0
    distinct: int = 0
    low: float = math.nan
    high: float = math.nan
    values: tuple[str, ...] = ()
    mean_inverse: float = math.nan
    iso: bool = True

    @property
    def filled(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def unique(self) -> bool:
        """Whether nearly every row has a value of its own."""
        return self.filled >= 20 and self.distinct > 0.9 * self.filled

    @property
    def is_probability(self) -> bool:
        """Whether all values lie in (0, 1] and some are no whole numbers."""
        return self.kind == "number" and 0 < self.low <= self.high <= 1 and not self.missing

    @property
    def words(self) -> tuple[str, ...]:
        """Parts of the name, in small letters."""
        return words_of(self.name)

    def describe(self) -> str:
        """What it holds, in a few words."""
        some = f"{self.distinct:,} different" if self.distinct != 1 else "always the same"
        text = {
            "number": f"numbers, {self.low:.4g} to {self.high:.4g}",
            "whole": f"whole numbers, {self.low:.10g} to {self.high:.10g} ({some})",
            "text": f"text, {some}",
            "date": f"dates or times, {some}",
            "truth": "true and false",
            "list": "lists",
            "empty": "nothing",
        }[self.kind]
        if self.kind == "text" and 1 < len(self.values) <= 4:
            text = f"text: {', '.join(self.values)}"
        return text + (f", {self.missing:,} missing" if self.missing and self.filled else "")


def words_of(name: str) -> tuple[str, ...]:
    """Parts of a column's name, whether written in snake or in camel case.

    >>> words_of("userId"), words_of("p_click-2"), words_of("recommended ad")
    (('user', 'id'), ('p', 'click', '2'), ('recommended', 'ad'))
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return tuple(w.lower() for w in re.split(r"[^0-9a-zA-Z]+", spaced) if w)


def facts_of(frame: Any) -> list[ColumnFacts]:
    """Facts of every column of a pandas frame."""
    return [column_facts(str(name), frame[name]) for name in frame.columns]


def column_facts(name: str, values: Any) -> ColumnFacts:
    """Facts of one column, a pandas series."""
    present = values.dropna()
    rows, missing = len(values), int(values.isna().sum())
    kind = kind_of_values(present)
    if kind in {"empty", "list"}:
        return ColumnFacts(name, kind, rows, missing)
    distinct = int(present.nunique())
    few = tuple(sorted(str(v) for v in present.unique())) if distinct <= FEW else ()
    plain = ColumnFacts(name, kind, rows, missing, distinct, values=few)
    if kind == "date":
        texts = present.iloc[:SAMPLE].astype(str)
        return replace(plain, iso=all(ISO.fullmatch(t) for t in texts), values=())
    return _in_numbers(plain, present) if kind == "number" else plain


def kind_of_values(present: Any) -> Kind:
    """What the values of a column are; whole numbers are told from others by `column_facts`."""
    if not len(present):
        return "empty"
    by_type: dict[str, Kind] = {"b": "truth", "M": "date", "i": "number", "u": "number", "f": "number"}
    kind = by_type.get(present.dtype.kind)
    if kind is not None:
        return kind
    if present.dtype.kind == "O" and _is_list(present.iloc[0]):
        return "list"
    texts = present.iloc[:SAMPLE].astype(str)
    if {t.lower() for t in present.astype(str).unique()[:3]} <= {"true", "false"}:
        return "truth"
    return "date" if all(DATE.fullmatch(t) for t in texts) else "text"


def _in_numbers(facts: ColumnFacts, present: Any) -> ColumnFacts:
    numbers = present.to_numpy(dtype=float)
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())
    inverse = float(np.mean(1 / numbers)) if low > 0 and high <= 1 else math.nan
    kind: Kind = "whole" if whole else "number"
    return replace(facts, kind=kind, low=low, high=high, mean_inverse=inverse)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | dict | np.ndarray)
