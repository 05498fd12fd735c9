"""Tables of any columns for learners that read numbers only: most of scikit-learn's.

Numbers and booleans stay as they are, missing ones included; a time becomes days since 1970; text and categories
become 0/1 columns. The rule for text: the `MAX_LEVELS` values that are most frequent in the training rows have a
column each, all others, and values that come up in prediction only, share one. A column of ids or dates thus
never becomes thousands of columns, and the estimate carries a note. The encoding is learned from the training
rows of each fit, together with the learner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError
from offpolicy.models.fitting.encode import is_boolean
from offpolicy.policies.distribution import one_hot

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints

MAX_LEVELS = 50
DAY = 86_400_000_000_000  # in pandas' nanoseconds


@dataclass(frozen=True, eq=False)
class Levels:
    """The 0/1 columns of one text column: one per level in ``codes``, and a last one for all others."""

    codes: dict[Any, int]
    is_cut: bool  # whether the training rows had more levels than have a column

    @classmethod
    def learn(cls, series: Any, weight: Floats | None) -> Levels:
        """The most frequent levels; ties go to the one that is first in the alphabet."""
        place, values = numbered(series)
        mass = np.bincount(place, weights=weight, minlength=len(values))
        order = sorted(range(len(values)), key=lambda i: (-mass[i], str(values[i])))
        codes = {values[i]: code for code, i in enumerate(order[:MAX_LEVELS])}
        return cls(codes, len(order) > MAX_LEVELS)

    def columns(self, series: Any) -> Floats:
        """(n, levels + 1) zeros and ones."""
        place, values = numbered(series)
        other = len(self.codes)
        code = np.array([self.codes.get(v, other) for v in values], dtype=np.int64)
        return one_hot(code[place], other + 1)


@dataclass(frozen=True, eq=False)
class PlainTable:
    """How a frame becomes numbers: learned from one set of training rows."""

    levels: dict[str, Levels]
    keeps_categories: bool

    @classmethod
    def learn(cls, frame: Any, weight: Floats | None, *, keeps_categories: bool) -> PlainTable:
        """Look at the text columns of the training rows."""
        levels = {
            name: Levels.learn(frame[name], weight)
            for name in frame.columns
            if _is_text(frame[name], keeps_categories=keeps_categories)
        }
        return cls(levels, keeps_categories)

    def transform(self, frame: Any) -> Any:
        """The frame with nothing but numbers (and categories, where the learner reads these)."""
        import pandas as pd

        parts = []
        for name in frame.columns:
            series = frame[name]
            if name in self.levels:
                levels = self.levels[name]
                names = [*(f"{name}={level}" for level in levels.codes), f"{name}=…"]
                values = levels.columns(series)
                parts.append(pd.DataFrame(values, columns=names, index=frame.index))
            elif series.dtype.kind == "M":
                days = series.astype("datetime64[ns]").astype("int64").astype("float64") / DAY
                parts.append(days.where(series.notna()).to_frame())
            elif series.dtype == object:
                parts.append(series.astype("boolean").astype("float64").to_frame())
            else:
                parts.append(series.to_frame())
        return pd.concat(parts, axis=1)

    def note(self, learner: str) -> str:
        """What a reader of the estimate should know; empty when every value has its column."""
        cut = [repr(name) for name, levels in self.levels.items() if levels.is_cut]
        if not cut:
            return ""
        return (
            f"text column {', '.join(cut)}: {learner} tells the {MAX_LEVELS} most frequent values apart, "
            "all others count as one"
        )


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A learner fitted on a `PlainTable`, asked with frames as they come."""

    table: PlainTable
    learned: Any
    note: str

    @property
    def reads_categories(self) -> bool:
        """Whether it can be handed a categorical column."""
        return self.table.keeps_categories

    @property
    def classes_(self) -> Any:
        """Of a classifier."""
        return self.learned.classes_

    def fit(self, X: Any, y: Any, **keywords: Any) -> PlainModel:
        """Go on fitting, for learners that start where they stopped; the table stays."""
        self.learned.fit(self.table.transform(X), y, **keywords)
        return self

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.learned.predict(self.table.transform(X))

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes."""
        return self.learned.predict_proba(self.table.transform(X))


def fit_plain(
    X: Any, weight: Floats | None, fit: Callable[[Any], Any], learner: str, *, keeps_categories: bool
) -> PlainModel:
    """Learn the table from training rows and fit a learner on it."""
    table = PlainTable.learn(X, weight, keeps_categories=keeps_categories)
    return PlainModel(table, fit(table.transform(X)), table.note(learner))


def needs_plain(X: Any, *, keeps_categories: bool) -> bool:
    """Whether a frame has columns that are not numbers."""
    return hasattr(X, "iloc") and any(
        X[name].dtype.kind == "M" or X[name].dtype == object or _is_text(X[name], keeps_categories=keeps_categories)
        for name in X.columns
    )


def _is_text(series: Any, *, keeps_categories: bool) -> bool:
    if hasattr(series.dtype, "categories"):
        return not keeps_categories
    if series.dtype.kind in "biufM":
        return False
    return not is_boolean(series)


def numbered(series: Any) -> tuple[Ints, list[Any]]:
    """(n,) number of each value, and the distinct values, all kinds of missing being None."""
    import pandas as pd

    try:
        place, values = pd.factorize(series.astype(object), use_na_sentinel=True)
    except TypeError as error:  # lists, dictionaries, arrays
        raise ModelError(
            f"context {series.name!r} holds values such as {series.iloc[0]!r}, which learners cannot use "
            f"({error}). Spread them over columns of numbers or text, or leave the column out."
        ) from error
    found = list(values)
    missing = place < 0
    return np.where(missing, len(found), place), [*found, None] if missing.any() else found
