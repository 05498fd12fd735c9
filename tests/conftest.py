"""Settings shared by all tests; modules beside them (`clusters`) can be imported by name."""

import sys
from pathlib import Path

from hypothesis import settings

# The same examples on every run: a failure here is a failure everywhere.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

sys.path.insert(0, str(Path(__file__).parent))
