"""The only module that sees a dataframe: pandas, polars and pyarrow by way of narwhals.

Everything to the right of this file works with numpy arrays and with `Context`, which hands rows on to
policies (as the kind of frame they came in) and to learners (as pandas, with names and dtypes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import read_only
from offpolicy.errors import DataError, did_you_mean, doing, first_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints


def _narwhals() -> Any:
    import narwhals as nw

    return nw


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a table of named columns rather than an array."""
    return hasattr(value, "columns") or hasattr(value, "column_names")


class Columns:
    """Read access to the columns of a native frame, with errors that name them."""

    def __init__(self, frame: Any) -> None:
        nw = _narwhals()
        try:
            self._frame = nw.from_native(frame, eager_only=True)
        except nw.exceptions.DuplicateError as error:
            raise DataError(f"the frame has duplicate columns: {error}. Rename them.") from error
        except TypeError as error:
            kind = f"{type(frame).__module__}.{type(frame).__name__}"
            lazy = "Lazy" in type(frame).__name__ or "ibis" in kind or "duckdb" in kind
            remedy = (
                "Collect it first, or use offpolicy.scan for logs larger than memory."
                if lazy
                else "Give a pandas, polars or pyarrow table, or use from_arrays."
            )
            raise DataError(f"cannot read a {kind} as a table. {remedy}") from error
        self.names: list[str] = list(self._frame.columns)

    def __len__(self) -> int:
        return len(self._frame)

    def require(self, name: str, role: str) -> str:
        """Check that the column exists."""
        if not isinstance(name, str):
            raise DataError(f"{role}= must be a column name (str). Got {name!r} instead.")
        if name not in self.names:
            raise DataError(f"{role}={name!r}: the frame has no such column.{did_you_mean(name, self.names)}")
        return name

    def subset(self, names: Sequence[str]) -> Any:
        """Native frame with only these columns, in this order."""
        return self._frame[list(names)].to_native()  # polars would take select('*') for every column

    def separate(self) -> Any:
        """The frame as another object: a change of either does not reach the other."""
        native = self._frame.to_native()
        if not type(native).__module__.startswith("pandas"):
            return self._frame.clone().to_native()
        import pandas as pd

        # From version 3 on pandas copies when something is written.
        return native.copy(deep=int(pd.__version__.split(".")[0]) < 3)

    def rows(self, positions: Ints) -> Any:
        """Native frame with these rows, in this order."""
        return self._frame[positions].to_native()

    def values(self, name: str) -> Array:
        """A column as an array of any dtype; missing entries are None or NaN."""
        series = self._frame[name]
        nw = _narwhals()
        if isinstance(series.dtype, nw.Categorical | nw.Enum | nw.String):
            return _texts(series)
        if series.dtype == nw.Boolean and not series.is_null().any():
            return np.asarray(series.to_numpy(), dtype=bool)
        array = np.asarray(series.to_numpy())
        # polars gives a matrix of lists or structs of one length, and rows of such are no entries.
        return array if array.ndim == 1 and array.dtype.kind != "V" else _objects(series.to_list())

    def lists(self, name: str) -> list[Any]:
        """A column of lists (or of anything) as Python objects."""
        return list(self._frame[name].to_list())

    def numeric(self, name: str, role: str) -> Floats:
        """A column as float64; text and other non-numbers raise, NaN stays for the caller to judge."""
        series = self._frame[name]
        nw = _narwhals()
        if series.dtype.is_numeric() or series.dtype == nw.Boolean:
            if series.dtype.is_integer() and len(series):
                low, high = series.min(), series.max()
                if low is not None and max(-low, high) > LARGEST_WHOLE:
                    exact_in_float(np.asarray(series.to_numpy(), dtype=np.float64), name, role)
            return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        with doing(f"reading the column {name!r} as the {role}", DataError):
            return to_float(self.values(name), name, role)


def _texts(series: Any) -> Array:
    """Texts of a column as Python objects, one for all rows that hold the same: most columns hold few."""
    native = series.to_native()
    # Objects of a pandas frame are there already, and what is missing may be written in several ways.
    if not hasattr(native, "factorize") or native.dtype == object:
        return _objects(series.to_list())
    codes, distinct = native.factorize()
    missing = np.flatnonzero(codes < 0)[:1]
    return np.asarray(_objects([*distinct.tolist(), *native.iloc[missing].tolist()])[codes])


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


LARGEST_WHOLE = 2.0**53  # beyond it not every integer is a float64


def exact_in_float(values: Floats, column: str, role: str) -> None:
    """Integers so large that a float64 would round them are refused as numbers."""
    with np.errstate(invalid="ignore"):
        large = np.abs(values) >= LARGEST_WHOLE
    if large.any():
        raise DataError(
            f"column {column!r}: {first_rows(large, values)} are integers beyond 2^53, which float64 rounds. "
            f"The {role} is used in arithmetic; rescale it. Ids belong in id= or cluster=."
        )


def to_float(values: Array, column: str, role: str) -> Floats:
    """Numbers held as objects become float64; anything else raises, naming the first bad row."""
    if values.dtype.kind in "mM":  # nanoseconds would pass for numbers
        raise DataError(
            f"column {column!r} contains dates or durations (first: row 0 = {values[0]!s}), not numbers. "
            f"The {role} must be numeric; convert the column before building the log."
        )
    out = np.full(len(values), np.nan)
    bad: Bools = np.zeros(len(values), dtype=bool)
    text: Bools = np.zeros(len(values), dtype=bool)
    for i, value in enumerate(values.tolist()):
        if value is None:
            continue
        text[i] = isinstance(value, str | bytes)
        bad[i] = not _is_number(value)
        out[i] = np.nan if bad[i] else float(value)
    if bad.any():
        raise DataError(
            f"column {column!r}: {first_rows(bad, values)} are not numbers. "
            f"The {role} must be numeric; convert the column before building the log."
        )
    if text.any():
        raise DataError(
            f"column {column!r}: {first_rows(text, values)} are numbers written as text. "
            f"Convert the column to a numeric type first; offpolicy does not guess."
        )
    return out


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class Context:
    """Rows that policies and learners see: an array (m, …) or a native frame, and a row map.

    Parameters
    ----------
    table : array or native frame
        Rows; the distinct ones when ``index`` is given.
    index : (n,) int array or None
        Row of ``table`` for each row of the log; None means row i of the log is row i of the table.
    levels : dict
        All values of the text columns, sorted, where the table holds a part of the log only.
    load : callable or None
        Gives a column by its name, where the table is elsewhere.
    """

    table: Any
    index: Ints | None = None
    names: tuple[str, ...] | None = field(default=None)
    levels: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    load: Callable[[str], Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", read_only(self.table))
        object.__setattr__(self, "index", read_only(self.index))

    @classmethod
    def from_frame(cls, frame: Any, index: Ints | None = None) -> Context:
        """Wrap a native frame."""
        return cls(frame, index, tuple(Columns(frame).names))

    @property
    def is_frame(self) -> bool:
        """Whether rows have named columns."""
        return self.names is not None

    @cached_property
    def n_table(self) -> int:
        """Rows of the table."""
        return int(self.table.num_rows) if hasattr(self.table, "num_rows") else len(self.table)

    def __len__(self) -> int:
        return self.n_table if self.index is None else len(self.index)

    def positions(self, rows: Array) -> Ints:
        """Table rows of log rows."""
        return np.asarray(rows if self.index is None else self.index[rows], dtype=np.int64)

    def native(self, positions: Array | slice) -> Any:
        """Table rows as they came in: what a policy is given."""
        if not self.is_frame:
            return self.table[positions]
        if isinstance(positions, slice) and positions == slice(0, self.n_table):
            return Columns(self.table).separate()
        if isinstance(positions, slice):
            positions = np.arange(*positions.indices(self.n_table))
        frame = _narwhals().from_native(self.table, eager_only=True)
        return frame[positions].to_native()

    def take(self, rows: Ints) -> Context:
        """The context of some rows of the log."""
        if self.index is None:
            return Context(self.native(rows), None, self.names)
        return Context(self.table, self.index[rows], self.names)

    def column(self, name: str) -> Array:
        """A column of the table."""
        return Columns(self.table).values(name) if self.load is None else self.load(name)

    @cached_property
    def learner_table(self) -> Any:
        """The table as scikit-learn and LightGBM read it: pandas with names and dtypes, or a 2-D array."""
        if self.load is not None:
            import pandas as pd

            return pd.DataFrame({name: self.load(name) for name in self.names or ()})
        if self.is_frame:
            native = self.table
            if type(native).__module__.startswith("pandas"):
                return native.reset_index(drop=True)
            return _narwhals().from_native(native, eager_only=True).to_pandas()
        return as_features(np.asarray(self.table))

    @property
    def coded_table(self) -> Any:
        """`learner_table` with text columns as categories of the whole log, where it is a part of one."""
        if not self.levels:
            return self.learner_table
        import pandas as pd

        table = self.learner_table
        return table.assign(
            **{name: pd.Categorical(table[name], categories=values) for name, values in self.levels.items()}
        )


def with_categories(frame: Any, codes: dict[str, Ints], labels: Sequence[Any]) -> Any:
    """The frame with further columns of labels, given as codes; −1 is missing.

    Labels are categories in pandas, and text elsewhere.
    """
    if type(frame).__module__.startswith("pandas"):
        import pandas as pd

        kind = pd.CategoricalDtype(pd.Index(list(labels)))
        made = {name: pd.Categorical.from_codes(part, dtype=kind) for name, part in codes.items()}
        return frame.assign(**made)
    nw = _narwhals()
    wrapped = nw.from_native(frame, eager_only=True)
    text = np.array([*map(str, labels), None], dtype=object)
    series = [
        nw.new_series(name, text[part].tolist(), nw.String, backend=wrapped.implementation)
        for name, part in codes.items()
    ]
    return wrapped.with_columns(*series).to_native()


def as_features(array: Array) -> Array:
    """Context arrays as an (n, p) matrix: ids (integers, text) are one-hot, images are flattened.

    >>> as_features(np.array([0, 2, 0])).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    if array.ndim == 1 and array.dtype.kind in "biuUS":
        ids, code = np.unique(array, return_inverse=True)
        if len(ids) <= 1_000 or array.dtype.kind in "US":
            return np.eye(len(ids))[code]
        return array.astype(np.float64)[:, None]
    if array.ndim == 1:
        return array[:, None]
    return array if array.ndim == 2 else array.reshape(len(array), -1)
