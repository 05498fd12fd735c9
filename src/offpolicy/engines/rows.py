"""Arrow rows of a scanned log as a `BanditLog`: the whole log, or a block of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import is_constant, picked, places
from offpolicy.errors import DataError
from offpolicy.logs.actions import encode, label_array
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.checks import eligible_from_lists, logged_is_eligible
from offpolicy.logs.frame import Context
from offpolicy.logs.reader import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.roles import Roles


LARGEST = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Schema:
    """What the rows of one log share; plain values, so that it can be sent to other machines.

    Attributes
    ----------
    space : ActionSpace
        The actions.
    extra : tuple of str
        Columns that policies name.
    batches, folds : tuple or None
        Labels of the batches and of the folds, sorted.
    levels : dict
        Sorted distinct values of each text column of the context.
    metric : str or None
        Which metric is the reward; None: the first.
    """

    roles: Roles
    space: ActionSpace
    extra: tuple[str, ...] = ()
    batches: tuple[Any, ...] | None = None
    folds: tuple[Any, ...] | None = None
    levels: dict[str, list[Any]] | None = None
    metric: str | None = None
    features: ActionFeatures | None = None

    @property
    def labels(self) -> tuple[Any, ...]:
        """The K actions."""
        return self.space.labels

    def log(self, rows: Any, first: int = 0) -> BanditLog:
        """A log of Arrow rows that have been checked; ``first`` is the number of the first row."""

        def numbers(name: str) -> Any:
            if name not in rows.column_names:
                return None
            return np.array(rows[name].to_numpy(), dtype=np.float64)

        def frame(columns: Sequence[str], names: Sequence[str]) -> Any:
            return rows.select(list(columns)).rename_columns(list(names)).to_pandas()

        roles = self.roles
        context = Context(np.empty((rows.num_rows, 0)))
        if roles.context:
            columns = [f"x{j}" for j in range(len(roles.context))]
            context = Context(frame(columns, roles.context), None, tuple(roles.context), self.levels or {})
        source = None
        if self.extra:
            source = frame([f"extra{j}" for j in range(len(self.extra))], self.extra)
        unit = rows["unit"].to_numpy() if "unit" in rows.column_names else None
        reward = numbers("reward")
        assert reward is not None
        fold = _placed(rows, "fold", self.folds)
        action = numbers("action") if self.space.numeric else _encoded(rows, self.space)
        log = BanditLog(
            context=context,
            space=self.space,
            action=action,
            reward=reward,
            further=further_of(roles, lambda name: np.array(rows[name].to_numpy(), dtype=np.float64)),
            propensity=numbers("propensity"),
            distribution=distribution_of(roles, numbers),
            eligible=self._eligible(rows, action),
            batch=_placed(rows, "batch", self.batches),
            batch_labels=self.batches or (),
            cluster=_clusters(rows),
            weight=numbers("weight"),
            fold=picked(fold, (None, slice(None))),
            unit=None if unit is None else np.asarray(unit, dtype=np.int64),
            first=first,
            source=source,
            names=names_of(roles),
            action_features=self.features,
        )
        return log if self.metric is None else log.with_reward(self.metric)

    def _eligible(self, rows: Any, action: Ints) -> Bools | None:
        """(n, K) which actions could be taken, where that was logged."""
        name = self.roles.eligible
        if name is None:
            return None
        mask = eligible_from_lists(rows["eligible"].to_pylist(), self.labels, name)
        return logged_is_eligible(mask, action, name)


def _encoded(rows: Any, space: ActionSpace) -> Any:
    """What a log holds of each action; distinct ones are looked at once."""
    present, code = codes_of(rows, "action")
    return space.encode(label_array(present))[code]


def _placed(rows: Any, name: str, labels: tuple[Any, ...] | None) -> Any:
    """Codes of a column among the labels of the whole log."""
    if labels is None or name not in rows.column_names:
        return None
    present, code = codes_of(rows, name)
    position = {label: i for i, label in enumerate(labels)}
    return np.array([position[label] for label in present], dtype=np.int64)[code]


def _clusters(rows: Any) -> Any:
    """Numbers of the clusters, the same in every block: integers as they are, others by 63 bits of a digest."""
    if "cluster" not in rows.column_names:
        return None
    present, code = codes_of(rows, "cluster")
    numbers = [_cluster_number(label) for label in present]
    return np.array(numbers, dtype=np.int64)[code]


def _cluster_number(label: Any) -> int:
    if isinstance(label, int):
        return label & LARGEST  # codes of clusters are not negative
    digest = hashlib.blake2b(str(label).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def further_of(roles: Roles, column: Callable[[str], Floats]) -> dict[str, Floats]:
    """Metrics beside the reward, by the names of their owner."""
    return {name: column(f"metric{j}") for j, name in enumerate(roles.further)}


def distribution_of(roles: Roles, column: Callable[[str], Floats | None]) -> Floats | None:
    """(n, K) the logging policy's whole distribution, where it was logged."""
    if not roles.distribution:
        return None
    columns = [column(f"p{j}") for j in range(len(roles.distribution))]
    return np.column_stack([p for p in columns if p is not None])


def numbers(table: Any, name: str) -> Floats:
    """A column as float64."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def codes_of(table: Any, name: str) -> tuple[tuple[Any, ...], Ints]:
    """Sorted labels of a column and the position of each entry among them; missing ones come last."""
    import pyarrow as pa

    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)  # a dictionary may hold labels that no row has
    if pa.types.is_nested(column.type):
        raise DataError(
            f"column {name!r} holds {column.type}, which cannot be a label. A label is text or a number; join "
            "the parts into one text."
        )
    if (small := _small_integers(column)) is not None:
        return small
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    labels: tuple[Any, ...]
    if distinct.type in _number_types():
        values = distinct.to_numpy(zero_copy_only=False)
        order = np.argsort(values)
        rank = np.empty(len(values), dtype=np.int64)
        rank[order] = np.arange(len(values))
        labels = tuple(values[order].tolist())
    else:
        objects = np.empty(len(distinct), dtype=object)
        objects[:] = distinct.to_pylist()
        labels, rank = encode(objects, None, name)
    if column.null_count:
        labels, rank = (*labels, None), np.append(rank, len(labels))
    indices = encoded.indices.fill_null(len(distinct)) if column.null_count else encoded.indices
    index = indices.to_numpy(zero_copy_only=False)
    return labels, rank[index]


def _small_integers(column: Any) -> tuple[tuple[Any, ...], Ints] | None:
    """The same for integers of a narrow range, by marking those that occur."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count or len(column) == 0:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    if high - low >= len(values) or high >= 2**62:
        return None
    present, place = places(values.astype(np.int64) - low, high - low + 1)
    return tuple((present + low).tolist()), place


def _number_types() -> set[Any]:
    import pyarrow as pa

    return {pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8()}


def joined(blocks: Iterable[BanditLog]) -> BanditLog:
    """One log of the rows of several, which share actions, batches and levels."""
    parts = list(blocks)
    first = parts[0]
    if len(parts) == 1:
        return first

    def column(name: str, axis: int = 0) -> Any:
        if getattr(first, name) is None or is_constant(getattr(first, name)):
            return None
        return np.concatenate([getattr(part, name) for part in parts], axis=axis)

    table: Any
    if first.context.is_frame:
        import pandas as pd

        table = pd.concat([part.context.table for part in parts], ignore_index=True)
    else:
        table = np.concatenate([part.context.table for part in parts])
    source = None
    if first.source is not None:
        import pandas as pd

        source = pd.concat([part.source for part in parts], ignore_index=True)
    return replace(
        first,
        context=Context(table, None, first.context.names, first.context.levels),
        action=column("action"),
        reward=column("reward"),
        further={name: np.concatenate([part.further[name] for part in parts]) for name in first.further},
        propensity=column("propensity"),
        batch=column("batch"),
        cluster=column("cluster"),
        weight=column("weight"),
        count=column("count"),
        fold=column("fold", 1),
        unit=np.concatenate([part.units for part in parts]),
        source=source,
    )
