"""Context tables as numbers: matrices for the built-in models, plain tables for learners that read numbers only.

Trees of the library get codes, its linear models one-hot and scaled columns.
The encoding looks at contexts only, never at rewards or actions, so it may use every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import or_ones
from offpolicy.errors import ModelError, first_rows
from offpolicy.policies.distribution import one_hot

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints


MAX_ONE_HOT = 200


@dataclass(frozen=True, eq=False)
class Encoded:
    """A matrix for trees: numbers, and integer codes for the columns listed as categorical."""

    matrix: Floats
    categorical: tuple[int, ...]
    of_action: int = 0  # how many of the last columns are features of the action

    def rows(self, rows: Any) -> Encoded:
        """Chosen rows."""
        return Encoded(self.matrix[rows], self.categorical, self.of_action)

    def parts(self) -> tuple[Encoded, Encoded]:
        """The columns of the context, and those of the action."""
        cut = self.matrix.shape[1] - self.of_action
        first = tuple(j for j in self.categorical if j < cut)
        rest = tuple(j - cut for j in self.categorical if j >= cut)
        return Encoded(self.matrix[:, :cut], first), Encoded(self.matrix[:, cut:], rest)

    def __len__(self) -> int:
        return len(self.matrix)


def encode_table(table: Any) -> Encoded:
    """Encode a learner table (pandas or a 2-D array); missing values stay NaN.

    >>> encode_table(np.array([[1.0], [2.0]])).categorical
    ()
    """
    if not hasattr(table, "iloc"):
        numbers = np.asarray(table, dtype=np.float64)
        return Encoded(_no_infinity(numbers, [f"column {j}" for j in range(numbers.shape[1])]), ())
    columns: list[Floats] = []
    categorical: list[int] = []
    for j, name in enumerate(table.columns):
        series = table[name]
        kind = getattr(series.dtype, "kind", "O")
        if kind == "O" and series.dtype == object and is_boolean(series):
            series, kind = series.astype("boolean"), "b"
        if kind in "biuf" and not hasattr(series.dtype, "categories"):
            columns.append(series.to_numpy(dtype=np.float64, na_value=np.nan))
        elif kind == "M":
            seconds = series.astype("int64").to_numpy().astype(np.float64)
            columns.append(np.where(series.isna().to_numpy(), np.nan, seconds))
        else:
            codes = _codes(series, str(name))
            columns.append(np.where(codes < 0, np.nan, codes))
            categorical.append(j)
    matrix = np.column_stack(columns) if columns else np.empty((len(table), 0))
    return Encoded(_no_infinity(matrix, [str(c) for c in table.columns]), tuple(categorical))


LARGEST = 1e100  # numbers whose squares and sums are numbers too


def _no_infinity(matrix: Floats, names: list[str]) -> Floats:
    for j, name in enumerate(names):
        with np.errstate(invalid="ignore"):
            bad = np.abs(matrix[:, j]) > LARGEST
        if bad.any():
            raise ModelError(
                f"context {name!r}: {first_rows(bad, matrix[:, j])} are infinite or beyond {LARGEST:g}, which the "
                "built-in models cannot use. Make them missing, rescale them, or leave the column out."
            )
    return matrix


def _codes(series: Any, name: str) -> Floats:
    try:
        coded = series.astype("category").cat.codes
    except TypeError as error:  # lists, dictionaries, arrays
        raise ModelError(
            f"context {name!r} holds values such as {series.iloc[0]!r}, which the built-in models cannot use "
            f"({error}). Split them into columns of numbers or text, or leave the column out."
        ) from error
    return np.asarray(coded.to_numpy(), dtype=np.float64)


def is_boolean(series: Any) -> bool:
    """Whether an object column holds booleans and missing values, as some readers leave it."""
    import pandas as pd

    return bool(pd.api.types.infer_dtype(series, skipna=True) == "boolean")


@dataclass(frozen=True, eq=False)
class LinearDesign:
    """One-hot and standardized columns, learned from a reference table.

    Attributes
    ----------
    center, scale : arrays
        Of the numeric columns.
    flagged : tuple of int
        Numeric columns (positions among them) with missing values, which get an indicator.
    levels : tuple of (column, (L,) array)
        Output column of each level of a categorical column; −1 for levels too rare to have one.
    """

    center: Floats
    scale: Floats
    numeric: tuple[int, ...]
    flagged: tuple[int, ...]
    levels: tuple[tuple[int, Ints], ...]

    @classmethod
    def learn(cls, encoded: Encoded, weight: Floats | None = None) -> LinearDesign:
        """Means, scales, missing columns and the most frequent levels."""
        mass = or_ones(weight, len(encoded))
        numeric = tuple(j for j in range(encoded.matrix.shape[1]) if j not in encoded.categorical)
        values = encoded.matrix[:, list(numeric)]
        known = ~np.isnan(values)
        total = mass @ known
        total = np.where(total > 0, total, 1.0)
        center = mass @ np.where(known, values, 0.0) / total
        spread = np.sqrt(mass @ np.where(known, values - center, 0.0) ** 2 / total)
        levels = []
        for j in encoded.categorical:
            column = encoded.matrix[:, j]
            there = ~np.isnan(column)
            counts = np.bincount(column[there].astype(np.int64), weights=mass[there])
            place = np.full(len(counts), -1, dtype=np.int64)
            top = np.argsort(-counts, kind="stable")[:MAX_ONE_HOT]
            place[top] = np.arange(len(top))
            levels.append((j, place))
        return cls(
            center,
            np.where(spread > 0, spread, 1.0),
            numeric,
            tuple(int(j) for j in np.flatnonzero(~known.all(axis=0))),
            tuple(levels),
        )

    @property
    def width(self) -> int:
        """Columns of the design."""
        one_hot = sum(int(place.max(initial=-1)) + 1 for _, place in self.levels)
        return len(self.numeric) + len(self.flagged) + one_hot

    def transform(self, encoded: Encoded) -> Any:
        """Sparse (n, p) matrix; a missing number sits at the mean and sets its indicator."""
        from scipy import sparse

        values = encoded.matrix[:, list(self.numeric)]
        missing = np.isnan(values)
        scaled = np.where(missing, 0.0, (values - self.center) / self.scale)
        blocks = [sparse.csr_array(scaled), sparse.csr_array(missing[:, list(self.flagged)].astype(np.float64))]
        for j, place in self.levels:
            column = encoded.matrix[:, j]
            code = np.where(np.isnan(column), -1, column).astype(np.int64)
            if len(place) == 0:  # nothing but missing values
                continue
            spot = np.where((code >= 0) & (code < len(place)), place[np.clip(code, 0, len(place) - 1)], -1)
            rows = np.flatnonzero(spot >= 0)
            shape = (len(column), int(place.max(initial=-1)) + 1)
            blocks.append(sparse.csr_array((np.ones(len(rows)), (rows, spot[rows])), shape=shape))
        return sparse.csr_array(sparse.hstack(blocks, format="csr"))


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
            f"text column {', '.join(cut)}: {learner} uses the {MAX_LEVELS} most frequent values and groups all others"
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
            f"({error}). Split them into columns of numbers or text, or leave the column out."
        ) from error
    found = list(values)
    missing = place < 0
    return np.where(missing, len(found), place), [*found, None] if missing.any() else found
