"""Query engines: a log that stays where it is, checked, compressed and handed over by DuckDB, Ibis or Spark."""
