"""What every log behind a query engine does: say who reads it, tell how far it is, and be closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from offpolicy.logs.kinds import HasKinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.engines.engine import Engine


class Scanned(HasKinds):
    """A log that stays where it is; a context manager."""

    engine: Engine
    progress: Callable[[str, float], None] | None

    def described_as(self, way: str, rows: int, held: int) -> dict[str, Any]:
        """Who reads the log and how much is in memory at once, for the settings of a result."""
        about = {"engine": self.engine.name, "way": way, "rows": rows, "held": held}
        fingerprint = self.engine.fingerprint
        return {"engine": about if fingerprint is None else {**about, "digest": fingerprint.digest}}

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
