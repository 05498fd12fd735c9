"""`scan`: a log that stays where it is, and the choice of how much of it to bring over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from offpolicy.engines.roles import Roles
from offpolicy.engines.sources import open_source
from offpolicy.engines.validate import Facts, facts
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.actions import Label
    from offpolicy.logs.bandit import BanditLog

Progress: TypeAlias = Callable[[str, float], None]
Way: TypeAlias = Literal["auto", "rows", "cells", "sums", "stream"]
WAYS = ("auto", "rows", "cells", "sums", "stream")
MAX_ROWS = 1_000_000
MAX_CELLS = 12_000_000


@dataclass(frozen=True)
class Limits:
    """How much may be held in memory at once, and how many rows a chunk has."""

    rows: int = MAX_ROWS
    cells: int = MAX_CELLS
    chunk: int = 250_000
    fit_rows: int = 2_000_000


@dataclass(frozen=True, eq=False)
class LogScan:
    """A log behind a query engine. Build it with `offpolicy.scan` and give it to `evaluate`.

    Nothing is read until it is checked or evaluated. Use it as a context manager, or call `close`, to
    remove temporary files at once instead of when it goes out of use.
    """

    engine: Engine
    table: Any
    roles: Roles
    given_actions: tuple[Label, ...] | None
    way: Way
    limits: Limits
    progress: Progress | None
    described: str
    kept: dict[str, Any] = field(default_factory=dict, repr=False)

    kind: ClassVar[str] = "bandit"
    is_scan: ClassVar[bool] = True

    def __repr__(self) -> str:
        roles = self.roles
        return (
            f"LogScan({self.engine.name}: {self.described}, context {list(roles.context)}, "
            f"action {roles.action!r}, reward {roles.reward!r})"
        )

    @cached_property
    def facts(self) -> Facts:
        """Number of rows, actions and distinct values; made by checking every row once."""
        self.report("check", 0.0)
        found = facts(self.engine, self.table, self.roles, self.given_actions)
        self.report("check", 1.0)
        return found

    def check(self) -> LogScan:
        """Check every row now, by queries; raises `DataError` with counts and examples of bad rows."""
        _ = self.facts
        return self

    @property
    def n(self) -> int:
        """Rows."""
        return self.facts.n

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions."""
        return self.facts.labels

    def compress(self, folds: int = 2, *, seed: int = 0) -> BanditLog:
        """The log as weighted cells in memory: a `BanditLog` with counts and fold labels."""
        from dataclasses import replace

        from offpolicy.engines.compress import FoldPlan, compress

        cells = compress(
            self.engine,
            self.table,
            self.roles,
            self.facts,
            FoldPlan(folds, 1, seed),
            max_cells=self.limits.cells,
        )
        return replace(cells.log, fold=cells.folds[0])

    def report(self, stage: str, done: float) -> None:
        """Tell whoever watches how far a stage ("check", "compress", "fit", "score") is, from 0 to 1."""
        if self.progress is not None:
            self.progress(stage, done)

    def close(self) -> None:
        """Remove temporary files and close connections that the scan opened."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def scan(
    source: Any,
    *,
    context: Sequence[str] | str | None,
    action: str,
    reward: str,
    propensity: str | Sequence[str] | Mapping[Label, str] | None = None,
    batch: str | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    actions: Sequence[Label] | None = None,
    id: str | None = None,  # noqa: A002
    keep_probability: str | None = None,
    fold: str | None = None,
    table: str | None = None,
    engine: str | None = None,
    way: Way = "auto",
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | Path | None = None,
    max_rows: int = MAX_ROWS,
    max_cells: int = MAX_CELLS,
    chunk_rows: int = 250_000,
    fit_rows: int = 2_000_000,
    progress: Progress | None = None,
) -> LogScan:
    """Open a log that is larger than memory, or that lives in an engine.

    Parameters
    ----------
    source : path or pattern, DuckDB relation or connection, Arrow dataset, Ibis table, Spark DataFrame
        Parquet or CSV files ("logs/*.parquet"), a folder of Parquet, a DuckDB file (with ``table=``), or
        anything an Ibis backend reads.
    context, action, reward, propensity, batch, cluster, weight, actions, keep_probability, fold
        As in `BanditLog.from_frame`.
    id : column name, optional
        Integer or text that tells rows apart. Folds are a hash of it (of ``cluster`` where given), so
        they are the same on every engine. Without it a compressed log draws its folds cell by cell.
    table : str, optional
        Table of a DuckDB file or connection.
    engine : {"duckdb", "spark", "spark://…"}, optional
        Who reads files.
    way : {"auto", "rows", "cells", "sums", "stream"}
        What comes over: all rows, weighted cells, cells with sums of rewards, or chunks of rows one after
        another. "auto" chooses by the number of rows and distinct values.
    memory_limit : str, optional
        Of DuckDB, such as "2GB".
    threads : int, optional
        Of DuckDB.
    temp_directory : path, optional
        Where temporary files go; they are removed in the end, also after an interrupt.
    max_rows, max_cells : int
        Most rows (cells) to hold in memory.
    chunk_rows : int
        Rows of a chunk when streaming.
    fit_rows : int
        When streaming, most training rows for learners that cannot be fitted in chunks.
    progress : callable, optional
        Called as ``progress(stage, done)``: stage is "check", "compress", "fit" or "score", and done goes
        from 0 to 1.

    Returns
    -------
    LogScan

    Examples
    --------
    >>> import pandas as pd, offpolicy as op
    >>> frame = pd.DataFrame({"age": [20, 31] * 5, "ad": ["a", "b"] * 5, "click": [0, 1] * 5})
    >>> log = op.scan(frame, context=["age"], action="ad", reward="click")
    >>> log.n, log.actions
    (10, ('a', 'b'))
    """
    names = (context,) if isinstance(context, str) else tuple(context or ())
    if way not in WAYS:
        raise UsageError(f"way= must be one of {', '.join(WAYS)}. Got {way!r} instead.")
    if propensity is not None and not isinstance(propensity, str | Mapping):
        propensity = tuple(propensity)
    if engine not in {None, "duckdb"} and memory_limit is not None:
        raise UsageError("memory_limit= is DuckDB's. Spark takes spark.executor.memory.")
    runner, rows = open_source(
        source,
        table=table,
        engine=engine,
        memory_limit=memory_limit,
        threads=threads,
        temp_directory=temp_directory,
    )
    roles = Roles(
        names, action, reward, propensity, batch, cluster, weight, keep_probability, id, fold
    )
    try:
        roles.check(rows.columns)
    except BaseException:
        runner.close()
        raise
    described = str(source) if isinstance(source, str) else type(source).__name__
    return LogScan(
        runner,
        rows,
        roles,
        None if actions is None else tuple(actions),
        way,
        Limits(max_rows, max_cells, chunk_rows, fit_rows),
        progress,
        described,
    )
