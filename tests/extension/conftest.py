"""`extension.four_ways` is a module beside the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
