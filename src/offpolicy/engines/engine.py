"""Who runs the queries: DuckDB by itself, any Ibis backend, Spark, or an engine of your own.

Queries are Ibis expressions. An engine gives Arrow tables or batches back, and takes small Arrow tables
(distinct contexts, action labels) to join with.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offpolicy._workspace import Workspace
from offpolicy.errors import DataError, OffPolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offpolicy.engines.files import Fingerprint

    Work: TypeAlias = Callable[[Iterator[Any], int], Iterator[Any]]

BATCH_ROWS = 250_000


def ibis_module() -> Any:
    """Ibis, imported when a scan first needs it."""
    import ibis

    return ibis


class Engine(Protocol):
    """What a scan needs from the place where its rows live. `Here` has all but the first three methods.

    Attributes
    ----------
    keeps_order : bool
        Whether rows come in the same order every time, so that their numbers can tell them apart.
    packs_keys : bool
        Whether grouping by one integer is much faster here than by several columns.
    has_nan : bool
        Whether its numbers can be NaN; where they cannot, only missing values are missing.
    elsewhere : bool
        Whether blocks are worked on where the rows are, by `run`.
    fingerprint : Fingerprint or None
        Of the files behind the rows, where they lie on this machine.
    """

    name: str
    workspace: Workspace
    keeps_order: bool
    packs_keys: bool
    has_nan: bool
    elsewhere: bool
    fingerprint: Fingerprint | None

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        ...

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches of about ``rows`` rows, one in memory at a time."""
        ...

    def upload(self, table: Any) -> Any:
        """An Ibis table with the rows of a small Arrow table."""
        ...

    def watch_table(self, table: Any) -> None:
        """Remember what the files behind a table are now, so that a change between two passes is found."""
        ...

    def run(self, expression: Any, work: Work, keys: Sequence[str], rows: int) -> Iterator[Any]:
        """What ``work`` makes of the batches of each part of the result, in order.

        Where there are ``keys``, rows come in their order, and those that agree in the first key stay in one part;
        ``work`` is told how many values of that key came before. ``rows`` is the size of a batch, about.
        """
        ...

    def frame(self, expression: Any) -> Any:
        """Result as a table of the engine's own, to which models can be fitted where it is; None: there is none."""
        ...

    def rest(self) -> None:
        """Give memory back between queries."""
        ...

    def close(self) -> None:
        """Release connections and temporary files."""
        ...


class Here:
    """What engines have in common that answer with rows, and leave the work to this process."""

    name: str = "own"
    keeps_order: bool = False
    packs_keys: bool = False
    has_nan: bool = True
    elsewhere: bool = False
    fingerprint: Fingerprint | None = None

    def __init__(self, temp_directory: str | Path | None = None) -> None:
        self.workspace = Workspace(temp_directory)

    def watch_table(self, table: Any) -> None:
        """Nothing lies here that could change."""

    def unchanged(self, *, tails: bool = False) -> None:
        """The files are what they were when the scan began."""
        if self.fingerprint is not None:
            self.fingerprint.check(tails=tails)

    def run(self, expression: Any, work: Work, keys: Sequence[str], rows: int) -> Iterator[Any]:
        """What ``work`` makes of all rows."""
        own: Any = self
        return work(own.batches(expression.order_by(list(keys)) if keys else expression, rows), 0)

    def frame(self, expression: Any) -> Any:
        """None: models are fitted in this process."""
        return None

    def rest(self) -> None:
        """Nothing to give back."""

    def close(self) -> None:
        """Remove temporary files; a connection is the user's."""
        self.workspace.close()


class Backend(Here):
    """Any Ibis backend: PostgreSQL, BigQuery, Snowflake, …"""

    def __init__(self, backend: Any, *, temp_directory: str | Path | None = None) -> None:
        super().__init__(temp_directory)
        self.backend = backend
        self.name = str(backend.name)

    def table(self, expression: Any) -> Any:
        """Result as an Arrow table."""
        with backend_errors(self.name):
            return self.backend.to_pyarrow(expression)

    def batches(self, expression: Any, rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Result as Arrow record batches."""
        with backend_errors(self.name):
            reader = self.backend.to_pyarrow_batches(expression, chunk_size=rows)
        while True:
            with backend_errors(self.name):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def upload(self, table: Any) -> Any:
        """An Ibis table in memory, which the backend uploads when a query uses it."""
        return ibis_module().memtable(table)


class SQLite(Backend):
    """SQLite, which has neither NaN nor MD5: the first is declared, the second lent to the connection.

    So text ids give the folds that they give everywhere.
    """

    has_nan = False

    def __init__(self, backend: Any, *, temp_directory: str | Path | None = None) -> None:
        super().__init__(backend, temp_directory=temp_directory)
        backend.con.create_function("MD5", 1, _md5, deterministic=True)


def _md5(text: str | None) -> str | None:
    return None if text is None else hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@contextmanager
def backend_errors(name: str) -> Iterator[None]:
    """What another engine has to say, as an error of this library."""
    try:
        yield
    except OffPolicyError:
        raise
    except Exception as error:
        raise DataError(f"{name} could not answer a query about the log: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """What an error says, in a line or a few."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    shown = [f"{line[:160]}…" if len(line) > 160 else line for line in lines[:4]]
    return " ".join(shown)[:600] or type(error).__name__
