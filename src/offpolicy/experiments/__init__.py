"""Studies: each is a module with an `Args` dataclass and a function that runs it."""
