"""Query engines: a log that stays where it is, checked, compressed and handed over by DuckDB, Ibis or Spark."""

from __future__ import annotations

from offpolicy.engines.duckdb import DuckDB
from offpolicy.engines.engine import Backend, Engine, Here
from offpolicy.engines.reading import Reading, register

__all__ = ["Backend", "DuckDB", "Engine", "Here", "Reading", "register"]
