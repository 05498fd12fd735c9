"""`evaluate`: the pipeline from a log to a result."""
