"""Action labels of any kind, and the integer codes everything inside works with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy._arguments import is_hashable
from offpolicy._arrays import detached
from offpolicy.errors import DataError, did_you_mean, first_rows

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Ints

Label: TypeAlias = Hashable
MOST_ACTIONS = 1_000_000
EXACT = 2.0**53  # beyond it a float stands for several whole numbers
MANY_FRACTIONS = 50  # different fractions from which on an action looks continuous


def plain(value: Any) -> Any:
    """Return a numpy scalar as the Python value it holds."""
    return value.item() if isinstance(value, np.generic) else value


def label_array(values: Any) -> Array:
    """Labels as an array of one entry each: a list of lists or tuples becomes objects, not a matrix."""
    if hasattr(values, "__array__"):
        return np.asarray(detached(values))
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise DataError(f"'action' must be one label per row. Got {values!r:.60}.")
    items = list(values)
    if any(isinstance(v, list | tuple | set | dict) for v in items) or _kinds(items) > 1:
        # np.asarray would turn [1, "a"] into two texts.
        return _objects(items)
    array = np.asarray(items)
    # numpy makes floats of whole numbers that no integer type holds together.
    rounded = array.dtype.kind == "f" and all(isinstance(v, int | np.integer) for v in items)
    return _objects(items) if rounded and items else array


def _objects(items: list[Any]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _kinds(items: list[Any]) -> int:
    """How many kinds of label there are: text, numbers, others."""
    return len(
        {str if isinstance(v, str) else float if isinstance(v, int | float | np.number) else type(v) for v in items}
    )


def is_missing(values: Array) -> Bools:
    """(n,) whether an entry of an array of any dtype is None or NaN."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    if set(map(type, values)) <= {str}:
        return np.zeros(len(values), dtype=bool)
    # NaN and NaT are the values that differ from themselves; pandas' NA answers neither way.
    return np.fromiter((v is None or _differs(v) for v in values), bool, len(values))


def _differs(value: Any) -> bool:
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True


def action_list(actions: Iterable[Label], where: str) -> tuple[Label, ...]:
    """Check an explicit list of actions: not empty, no label twice."""
    if isinstance(actions, str | bytes) or not hasattr(actions, "__iter__"):
        raise DataError(
            f"{where}: actions={actions!r} is not a list of actions. Give a list of labels, for example "
            "actions=['a', 'b'], or range(K) for 0 … K−1."
        )
    if isinstance(actions, Sized) and len(actions) > MOST_ACTIONS:
        raise DataError(f"{where}: {len(actions):,} actions are listed; the limit is {MOST_ACTIONS:,}.")
    labels = tuple(plain(a) for a in actions)
    if not labels:
        raise DataError(f"{where}: the list of actions is empty. Give at least one action.")
    seen: set[Label] = set()
    for label in labels:
        if not isinstance(label, Hashable):
            raise DataError(f"{where}: {label!r} cannot be a label. A label is text or a number.")
        if label is None or _differs(label):
            raise DataError(f"{where}: {label!r} is a missing value, which cannot be a label. Leave it out.")
        if label in seen:
            raise DataError(f"{where}: action {label!r} is listed twice. List each action once.")
        seen.add(label)
    return labels


def refuse_continuous(labels: Sequence[Label], n: int, column: str, given: Sequence[Label] | None = None) -> None:
    """Fractions of which nearly every row has its own are a continuous action, unless listed as ``given``."""
    if given is not None:
        return
    several = len(labels) > MANY_FRACTIONS and 10 * len(labels) > n
    if several and any(isinstance(a, float) and a != int(a) for a in labels):
        raise DataError(
            f"column {column!r} has {len(labels):,} different numbers (such as {labels[0]!r}) in {n:,} rows, so the "
            "action looks continuous. Pass action_kind='continuous' (propensity= is then the density), round or bin "
            "the column, or name all actions with `actions=` if these are labels."
        )


def refuse_other_actions(by_action: Iterable[Label], labels: Sequence[Label]) -> None:
    """A mapping from actions to propensity columns names no action that the log does not have."""
    for label in by_action:
        if label not in labels:
            raise DataError(
                f"propensity= names a column for {label!r}, which is not an action of the "
                f"log.{did_you_mean(label, labels)}"
            )


def refuse_twice(columns: Sequence[str]) -> None:
    """A list of propensity columns names each of them once, and some at all."""
    if not list(columns):
        raise DataError("propensity= lists no columns. Give one for each action, or leave it out.")
    for name in columns:
        if list(columns).count(name) > 1:
            raise DataError(f"propensity= lists the column {name!r} twice. Give one column for each action.")


def by_label(columns: Sequence[str], labels: Sequence[Label]) -> tuple[str, ...]:
    """Columns called prefix + label, in the order of the labels; unchanged where the names do not say so.

    >>> by_label(["score_b", "score_a"], ["a", "b"]), by_label(["prob", "alpha"], ["a", "b"])
    (('score_a', 'score_b'), ('prob', 'alpha'))
    """
    first = str(next(iter(columns), ""))
    for text in (str(label) for label in labels):
        named = tuple(f"{first[: len(first) - len(text)]}{label}" for label in labels)
        if first.endswith(text) and sorted(named) == sorted(map(str, columns)):
            return named
    return tuple(columns)


def distribution_columns(propensity: Any, labels: Sequence[Label]) -> dict[Label, str]:
    """{action: column} of a whole logging distribution, given as a mapping or as a list: see `by_label`."""
    if isinstance(propensity, Mapping):
        missing = [label for label in labels if label not in propensity]
        if missing:
            raise DataError(f"propensity= names no column for action {missing[0]!r}. Name one for each.")
        refuse_other_actions(propensity, labels)
        return {label: propensity[label] for label in labels}
    refuse_twice(propensity)
    if len(propensity) != len(labels):
        raise DataError(
            f"propensity= lists {len(propensity)} columns for {len(labels)} actions. Give one column for "
            "each action, in the order of `actions`, or a mapping {action: column}."
        )
    return dict(zip(labels, by_label(propensity, labels), strict=True))


def _is_rounded(value: Any) -> bool:
    return isinstance(value, float | np.floating) and abs(float(value)) >= EXACT


def refuse_rounded(values: Array, where: str) -> None:
    """Floats beyond 2^53 are no labels: they stand for several whole numbers, and which one was meant is lost."""
    large: Bools = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        large = np.greater_equal(np.abs(values), EXACT)
    elif values.dtype == object and any(issubclass(kind, float | np.floating) for kind in set(map(type, values))):
        large = np.fromiter(map(_is_rounded, values), np.bool_, len(values))
    if large.any():
        raise DataError(
            f"{where}: {first_rows(large, values)} are floats beyond 2^53, where a float no longer identifies a whole "
            "number. Give labels as integers or text (pandas turns integers with missing values into floats: use "
            "'Int64')."
        )


def encode(values: Array, actions: Sequence[Label] | None, column: str) -> tuple[tuple[Label, ...], Ints]:
    """Return the labels and the (n,) codes of ``values`` among them.

    Without a list the labels are the distinct values in sorted order.

    >>> encode(np.array(["b", "a", "b"]), None, "ad")
    (('a', 'b'), array([1, 0, 1]))
    """
    missing = is_missing(values)
    if missing.any():
        raise DataError(action_missing(column, first_rows(missing)))
    refuse_rounded(values, f"column {column!r}")
    distinct, inverse = _distinct(values, column)
    _refuse_halves(distinct, column)
    if actions is None:
        order = _sorted_positions(distinct)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return tuple(distinct[i] for i in order), rank[inverse]
    labels = action_list(actions, f"column {column!r}")
    position = {label: i for i, label in enumerate(labels)}
    lookup = np.array([position.get(label, -1) for label in distinct], dtype=np.int64)
    codes = lookup[inverse]
    unknown = codes < 0
    if unknown.any():
        example = distinct[int(inverse[int(unknown.argmax())])]
        hint = did_you_mean(example, labels)
        raise DataError(action_unknown(column, first_rows(unknown, values), hint))
    return labels, codes


def _distinct(values: Array, column: str) -> tuple[list[Any], Ints]:
    """Distinct values (as Python objects) and the position of each entry among them."""
    if values.dtype.kind in "mM":
        # Finer units than Python's dates would come out as integers.
        coarse = values.astype(f"{values.dtype.kind}8[us]")
        values = coarse if bool((coarse == values).all()) else values
    if values.dtype.kind in "biufmM" or (values.dtype.kind in "US" and len(values) < 10_000):
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct.tolist(), inverse.astype(np.int64)
    kinds = set(map(type, values.tolist()))
    booleans = {kind for kind in kinds if issubclass(kind, bool | np.bool_)}
    if booleans and any(issubclass(k, Number) for k in kinds - booleans):  # True == 1 would make one label of two
        raise DataError(
            f"column {column!r} contains both booleans and numbers, and True equals 1. Give the column one type."
        )
    position: defaultdict[Any, int] = defaultdict()
    position.default_factory = position.__len__
    every = values.tolist()
    try:
        inverse = np.fromiter(map(position.__getitem__, every), np.int64, len(every))
    except TypeError as error:  # lists, dictionaries, arrays
        i, value = next((i, value) for i, value in enumerate(every) if not is_hashable(value))
        raise DataError(
            f"column {column!r}: row {i} = {value!r} is a {type(value).__name__}, which cannot be a label. "
            "A label is text or a number; join the parts into one text."
        ) from error
    return list(position), inverse


def _refuse_halves(labels: list[Any], column: str) -> None:
    """Half of a pair of surrogates is no character: no file, page or terminal can hold it."""
    for label in labels:
        if isinstance(label, str) and not label.isascii():
            try:
                label.encode()
            except UnicodeEncodeError as error:
                raise DataError(
                    f"column {column!r}: the label {label!a} holds half of a character, which cannot be written "
                    "anywhere. Repair the text."
                ) from error


def _sorted_positions(labels: list[Any]) -> list[int]:
    try:
        return sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:  # labels of mixed types have no common order
        return sorted(range(len(labels)), key=lambda i: (type(labels[i]).__name__, str(labels[i])))


def action_missing(column: str, where: str) -> str:
    """A logged action is missing."""
    return (
        f"column {column!r}: the action is missing in {where}. "
        "Every logged row needs the action that was taken; drop or repair these rows."
    )


def action_unknown(column: str, where: str, hint: str) -> str:
    """A logged action is not in the list."""
    return f"column {column!r}: {where} are not in the list of actions.{hint} Add them to `actions=`, or drop the rows."


def one_density(given: object) -> str:
    """A whole distribution was given for actions that are numbers."""
    return f"propensity= must be one density per row when actions are numbers. Got {given!r:.60} instead."
