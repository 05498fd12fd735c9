"""`Reading`: who reads the rows of a scan, with how much memory, in which chunks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from offpolicy._arguments import checks_arguments
from offpolicy.engines.sources import open_source
from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from offpolicy.engines.engine import Engine

Progress: TypeAlias = Callable[[str, float], None]
MAX_ROWS = 1_000_000
MAX_CELLS = 12_000_000


@checks_arguments
@dataclass(frozen=True)
class Reading:
    """How a scan is read: the options of every scan besides its roles.

    Parameters
    ----------
    table : str, optional
        Table of a DuckDB file or connection.
    engine : {"duckdb", "spark", "spark://…"}, optional
        Who reads files.
    memory_limit : str, optional
        Of DuckDB, such as "2GB".
    threads : int, optional
        Of DuckDB.
    temp_directory : path, optional
        Where temporary files go; they are removed in the end, also after an interrupt.
    network : bool
        Whether a source such as "s3://…" or "https://…" may be read. DuckDB needs its extension httpfs for it,
        which must have been installed; nothing is installed unasked.
    max_rows, max_cells : int
        Most rows (cells) to hold in memory.
    chunk_rows : int
        Rows of a chunk when streaming.
    fit_rows : int
        When streaming, most training rows for learners that cannot be fitted in chunks.
    progress : callable, optional
        Called as ``progress(stage, done)``: stage is "check", "compress", "fit" or "score", and done goes
        from 0 to 1.

    Examples
    --------
    >>> Reading(chunk_rows=1000).fit_rows
    2000000
    """

    table: str | None = None
    engine: str | None = None
    memory_limit: str | None = None
    threads: int | None = None
    temp_directory: str | Path | None = None
    network: bool = False
    max_rows: int = MAX_ROWS
    max_cells: int = MAX_CELLS
    chunk_rows: int = 250_000
    fit_rows: int = 2_000_000
    progress: Progress | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], what: str = "scan()", beside: Collection[str] = ()) -> Reading:
        """From the keywords of a scan.

        >>> Reading.of({"chunk_row": 5})
        Traceback (most recent call last):
        offpolicy.errors.UsageError: scan() has no argument 'chunk_row'. Did you mean 'chunk_rows'?
        """
        names = [each.name for each in fields(cls)]
        for name in given:
            if name not in names:
                raise UsageError(f"{what} has no argument {name!r}.{did_you_mean(name, [*names, *beside])}")
        made = cls(**given)
        if made.engine not in {None, "duckdb"} and made.memory_limit is not None:
            raise UsageError("memory_limit= is DuckDB's. Spark takes spark.executor.memory.")
        return made

    def open(self, source: Any, labels: list[str]) -> tuple[Engine, Any]:
        """The engine and its table; columns of ``labels`` hold labels, also where they look like numbers."""
        return open_source(
            source,
            table=self.table,
            engine=self.engine,
            memory_limit=self.memory_limit,
            threads=self.threads,
            temp_directory=self.temp_directory,
            network=self.network,
            labels=labels,
        )


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """The arguments of a scan by name: its own, and the options of `Reading` in place of ``**reading``."""
    own = inspect.signature(function)
    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
        for f in fields(Reading)
    ]
    return own.replace(parameters=[*kept, *options])
