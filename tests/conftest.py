"""Settings shared by all tests."""

from hypothesis import settings

# The same examples on every run: a failure here is a failure everywhere.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
