"""OPE-bench: frozen tasks with exact truths, entries in environments of their own, one scorer, one page."""
