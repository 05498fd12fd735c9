"""Chunks of a log that streams: each a `BanditLog` with its folds, and predictions by models fitted before.

A chunk runs through the same `Problem` as a log in memory. Codes of batches and of text columns are those of
the whole log, and a cluster never spans two chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.compress import FoldPlan, codes_of
from offpolicy.engines.fetch import NEEDS_ID, log_of, row_folds
from offpolicy.engines.roles import in_order, normalized
from offpolicy.errors import UsageError
from offpolicy.models.fitting.crossfit import CrossFit
from offpolicy.models.fitting.encode import encode_table
from offpolicy.splits.folds import Folds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy.engines.roles import Roles
    from offpolicy.engines.scan import LogScan
    from offpolicy.logs.bandit import BanditLog

MAX_CATEGORIES = 1_000_000


@dataclass(frozen=True, eq=False)
class ChunkFolds(Folds):
    """Folds of a chunk, which may hold rows of some folds only."""

    n_folds: int = 2

    @property
    def k(self) -> int:
        """Number of folds of the whole log."""
        return self.n_folds


@dataclass(frozen=True, eq=False)
class Schema:
    """What the chunks of one log share; plain values, so that it can be sent to other machines.

    Attributes
    ----------
    labels : tuple
        The K actions.
    batches : tuple or None
        Labels of the batches, sorted.
    categories : dict
        Sorted distinct values of each text column of the context.
    """

    roles: Roles
    labels: tuple[Any, ...]
    plan: FoldPlan
    extra: tuple[str, ...]
    batches: tuple[Any, ...] | None
    categories: dict[str, list[Any]]

    def chunk(self, rows: Any, first: int) -> tuple[BanditLog, ChunkFolds]:
        """A log of Arrow rows; ``first`` is the number of the first row where rows have no ids."""
        log = log_of(rows, self.roles, self.labels, self.extra)
        if self.batches is not None:
            position = {label: i for i, label in enumerate(self.batches)}
            assert log.batch is not None
            assert log.batch_labels is not None
            codes = np.array([position[b] for b in log.batch_labels], dtype=np.int64)
            log = replace(log, batch=codes[log.batch], batch_labels=self.batches)
        labels = row_folds(rows, self.plan, first)
        return log, ChunkFolds(labels, labels < (self.plan.k + 1) // 2, self.plan.k)

    def coded(self, frame: Any) -> Any:
        """A chunk's context with text columns as categories of the whole log."""
        import pandas as pd

        if not self.categories:
            return frame
        return frame.assign(
            **{
                name: pd.Categorical(frame[name], categories=values)
                for name, values in self.categories.items()
            }
        )


def make_schema(log: LogScan, plan: FoldPlan, extra: tuple[str, ...]) -> Schema:
    """Learn from the engine what chunks share."""
    rows = normalized(log.table, log.roles, log.facts.labels, extra)
    if "id" not in rows.columns and log.roles.fold is None and log.engine.name != "duckdb":
        raise UsageError(NEEDS_ID.format(name=log.engine.name))
    if log.roles.fold is not None:
        raise UsageError(
            "fold= labels are for logs that compress; a streamed log draws folds by id=."
        )
    batches = None
    if log.roles.batch is not None:
        batches = codes_of(log.engine.table(rows.select("batch").distinct()), "batch")[0]
    categories = {}
    for j, name in enumerate(log.roles.context):
        if rows[f"x{j}"].type().is_string():
            found = log.engine.table(rows.select(f"x{j}").distinct().limit(MAX_CATEGORIES))
            categories[name] = sorted(v for v in found[f"x{j}"].to_pylist() if v is not None)
    return Schema(log.roles, log.facts.labels, plan, extra, batches, categories)


def chunks(log: LogScan, schema: Schema) -> Iterator[tuple[Any, int]]:
    """Arrow tables of rows and the number of their first row; clusters stay whole.

    Rows with ids come in the order of their ids, so that every pass and every engine gives the same chunks.
    Rows without come in the order of the file, and a pass that finds another order raises.
    """
    import pyarrow as pa

    rows = normalized(log.table, log.roles, log.facts.labels, schema.extra)
    named = "id" in rows.columns
    if named:
        rows = in_order(rows)
    first = 0
    left: Any = None
    for batch in log.engine.batches(rows, log.limits.chunk):
        table = pa.Table.from_batches([batch])
        if not named:
            _check_order(log, first, table)
        if log.roles.cluster is not None:
            table = table if left is None else pa.concat_tables([left, table])
            cut = last_cluster_start(table)
            left, table = table.slice(cut), table.slice(0, cut)
        if table.num_rows:
            yield table, first
            first += table.num_rows
    if left is not None and left.num_rows:
        yield left, first


def _check_order(log: LogScan, first: int, table: Any) -> None:
    """Folds and predictions go by the number of a row: raise when it is another row than before."""
    from pandas.util import hash_pandas_object

    values = table.select(["action", "reward"]).to_pandas()
    seen = hash(hash_pandas_object(values, index=False).to_numpy().tobytes())
    if log.kept.setdefault(f"order of row {first}", seen) != seen:
        raise UsageError(
            "the rows came in another order the second time they were read, so that their numbers cannot "
            "draw the folds. Name id=: a column that tells rows apart (or cluster=)."
        )


def last_cluster_start(table: Any) -> int:
    """Where the last cluster of sorted rows begins."""
    codes = codes_of(table, "cluster")[1]
    changes = np.flatnonzero(codes[1:] != codes[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


@dataclass(eq=False)
class Fitted(CrossFit):
    """Nuisances that were fitted before: a chunk is predicted, never fitted on."""

    schema: Schema | None = field(default=None)

    def _fit(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self.fits:
            raise AssertionError(f"no model was fitted for {key}; {make} must not run on a chunk.")
        return self.fits[key]

    def table_of(self, *, encoded: bool) -> Any:
        """The chunk's learner table, with the whole log's categories where it is encoded."""
        if encoded not in self._features:
            table = self.log.context.learner_table
            if encoded and self.schema is not None and hasattr(table, "iloc"):
                table = self.schema.coded(table)
            self._features[encoded] = encode_table(table) if encoded else table
        return self._features[encoded]
