"""What is known of each action besides its name: a table with one row per action, in the order of the log's actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached, read_only
from offpolicy.errors import DataError, did_you_mean
from offpolicy.logs.actions import Label, encode, is_missing, label_array, plain
from offpolicy.logs.frame import Columns, is_frame
from offpolicy.logs.given import refuse_masked

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Ints


@dataclass(frozen=True, eq=False)
class ActionFeatures:
    """Features of the K actions of a log.

    Attributes
    ----------
    names : tuple of str
    columns : tuple of (K,) arrays
        Numbers (float64, NaN where missing) or texts (objects, None where missing).

    Examples
    --------
    >>> features = ActionFeatures(("genre",), (np.array(["rock", "folk"], dtype=object),))
    >>> features.column("genre").tolist(), features.is_text("genre")
    (['rock', 'folk'], True)
    """

    names: tuple[str, ...]
    columns: tuple[Array, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(read_only(c) for c in self.columns))

    @property
    def n(self) -> int:
        """Actions."""
        return len(self.columns[0])

    def column(self, name: str) -> Array:
        """The (K,) values of one feature."""
        if name not in self.names:
            raise DataError(
                f"the log has no action feature {name!r}.{did_you_mean(name, self.names)} Declared: "
                f"{', '.join(self.names)}."
            )
        return self.columns[self.names.index(name)]

    def is_text(self, name: str) -> bool:
        """Whether a feature is made of texts and not of numbers."""
        return self.column(name).dtype == object

    @cached_property
    def table(self) -> Any:
        """The features as learners read them: pandas, texts as categories."""
        import pandas as pd

        return pd.DataFrame(
            {
                name: pd.Categorical(values) if values.dtype == object else values
                for name, values in zip(self.names, self.columns, strict=True)
            },
            copy=False,  # the read-only columns themselves: a learner cannot write into them
        )


def of_frame(
    given: Any, frame: Columns, labels: tuple[Label, ...], codes: Ints, action: str, context: Sequence[str]
) -> ActionFeatures | None:
    """Features of the actions of a log in a frame: columns of the frame itself, or a table by action.

    Parameters
    ----------
    given : column name(s) of the log, or what `of_table` takes
    frame : Columns
        The log.
    codes : (n,) int array
        Codes of the logged actions among ``labels``.
    action : str
        Name of the column of actions.
    context : sequence of str
        Columns that features must not be.
    """
    check_feature_columns(given, frame.names, context)
    names = column_names(given)
    if names is None:
        return of_table(given, labels, action)
    return of_columns({name: frame.values(name) for name in names}, labels, codes, action)


def column_names(given: Any) -> tuple[str, ...] | None:
    """Names of columns of the log, where these are what was given; None where it is a table."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence) and given and all(isinstance(name, str) for name in given) and not is_frame(given):
        return tuple(given)
    return None


def check_feature_columns(given: Any, columns: Sequence[str], context: Sequence[str]) -> None:
    """Columns that are named as features exist, and are not in the context as well."""
    for name in column_names(given) or ():
        if name not in columns:
            raise DataError(f"action_features={name!r}: the source has no such column.{did_you_mean(name, columns)}")
        if name in context:
            raise DataError(
                f"column {name!r} is named in both context= and action_features=. The context is what was known before "
                "the action was taken, so leave the column out of context=."
            )


def of_columns(
    columns: Mapping[str, Array], labels: tuple[Label, ...], codes: Ints, action: str, *, numbered: bool = True
) -> ActionFeatures:
    """Features from columns of the log, which must have one value per action.

    ``numbered`` says whether entries are rows of the log, so that messages may name them.
    """
    k = len(labels)
    first = np.full(k, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    if (first < 0).any():
        absent = labels[int(np.flatnonzero(first < 0)[0])]
        raise DataError(
            f"action_features={list(columns)}: action {absent!r} was never logged, so its features are not in the "
            f"log's columns. Give a table by action: a frame with the column {action!r}, or {{action: "
            "features}."
        )
    out = []
    for name, values in columns.items():
        of_action = _feature(values, name)
        own = of_action[first][codes]
        missing = is_missing(of_action), is_missing(own)
        differs = (of_action != own) & ~(missing[0] & missing[1])
        if differs.any():
            row = int(differs.argmax())
            where = f"row {row}: " if numbered else ""
            raise DataError(
                f"action_features: column {name!r} is not a feature of the action: {where}action "
                f"{labels[int(codes[row])]!r} has {plain(values[row])!r}, but "
                f"{plain(values[first[codes[row]]])!r} in other rows. A "
                "column that varies within an action belongs in context=."
            )
        out.append(of_action[first])
    return ActionFeatures(tuple(columns), tuple(out))


def of_table(given: Any, labels: tuple[Label, ...], action: str) -> ActionFeatures | None:
    """Features from a table by action; None from None.

    Parameters
    ----------
    given : frame with a column of actions, mapping {action: features}, or (K, d) array
        Features in a mapping are a number or text, a sequence of them, or a mapping from name to value.
    """
    if given is None:
        return None
    if is_frame(given):
        return _of_keyed_frame(given, labels, action)
    if isinstance(given, Mapping):
        return _of_mapping(given, labels)
    refuse_masked(given, "action_features")
    index = getattr(given, "index", None)
    if hasattr(given, "items") and index is not None and list(index) != list(range(len(labels))):
        return _of_mapping(dict(given.items()), labels)  # a pandas Series: its labels say which action
    array = np.asarray(detached(given))
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != len(labels) or array.shape[1] == 0:
        raise DataError(
            f"action_features= must have one row for each of the {len(labels)} actions, in their order: (K, d). Got "
            f"shape {np.shape(given)}."
        )
    names = tuple(f"feature{j}" for j in range(array.shape[1]))
    return ActionFeatures(names, tuple(_feature(c, n) for n, c in zip(names, array.T, strict=True)))


def _of_keyed_frame(given: Any, labels: tuple[Label, ...], action: str) -> ActionFeatures:
    columns = Columns(given)
    if action not in columns.names:
        raise DataError(
            f"action_features: the table has no column {action!r} to name the action of each row. Its columns are "
            f"{columns.names}."
        )
    keys = columns.values(action)
    present, codes = encode(keys, None, action)
    place = {label: code for code, label in enumerate(present)}
    counts = np.bincount(codes, minlength=len(present))
    if (counts > 1).any():
        twice = present[int(np.flatnonzero(counts > 1)[0])]
        raise DataError(
            f"action_features: action {twice!r} has {int(counts.max())} rows in the table. Give each action one row."
        )
    at = _positions(labels, place, "the table")
    row_of = np.argsort(codes, kind="stable")
    names = [name for name in columns.names if name != action]
    if not names:
        raise DataError(f"action_features: the table has no column besides {action!r}.")
    return ActionFeatures(tuple(names), tuple(_feature(columns.values(name)[row_of[at]], name) for name in names))


def _positions(labels: tuple[Label, ...], place: Mapping[Any, int], where: str) -> Ints:
    absent = [label for label in labels if label not in place]
    if absent:
        raise DataError(
            f"action_features: {where} has no row for action {absent[0]!r} ({len(absent):,} of {len(labels):,} "
            "actions are missing). Give every action of the log its features."
        )
    return np.array([place[label] for label in labels], dtype=np.int64)


def _of_mapping(given: Mapping[Any, Any], labels: tuple[Label, ...]) -> ActionFeatures:
    place = {label: i for i, label in enumerate(given)}
    entries = list(given.values())
    rows = [entries[i] for i in _positions(labels, place, "the mapping")]
    if isinstance(rows[0], Mapping):
        names = tuple(map(str, rows[0]))
        rows = [tuple(row.values()) if tuple(map(str, row)) == names else None for row in rows]
    else:
        rows = [tuple(row) if isinstance(row, list | tuple | np.ndarray) else (row,) for row in rows]
        names = tuple(f"feature{j}" for j in range(len(rows[0])))
    for label, row in zip(labels, rows, strict=True):
        if row is None or len(row) != len(names):
            raise DataError(
                f"action_features: action {label!r} and action {labels[0]!r} have different features. Give every "
                "action the same features, in the same order."
            )
    return ActionFeatures(
        names, tuple(_feature(label_array([row[j] for row in rows]), name) for j, name in enumerate(names))
    )


def _feature(values: Array, name: str) -> Array:
    """Numbers as float64, anything else as texts; None and NaN stay missing."""
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    elif values.dtype == object and all(
        v is None or isinstance(v, bool | int | float | np.number) for v in values.tolist()
    ):
        numbers = np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)
    else:
        missing = is_missing(values)
        nameless = [v for v in values.tolist() if str(v) == object.__repr__(v)]
        if nameless:
            raise DataError(
                f"action_features: {name!r} contains a {type(nameless[0]).__name__}, which is neither a number nor "
                "text."
            )
        out = np.empty(len(values), dtype=object)
        out[:] = [None if gone else str(v) for v, gone in zip(values, missing, strict=True)]
        return out
    if np.isinf(numbers).any():
        raise DataError(
            f"action_features: {name!r} is infinite for action number {int(np.isinf(numbers).argmax())}. Replace it "
            "with a finite number, or leave it missing."
        )
    return numbers
