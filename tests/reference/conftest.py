"""What the reference tests share: modules beside them (`forms`, `trust_logs`, `trust_views`, …), and an evaluation."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def ev():
    """Two policies on 400 rows of four batches, by four estimators."""
    import offpolicy as op

    n = 400
    rng = np.random.default_rng(42)
    x = rng.normal(size=n)
    a = rng.integers(3, size=n)
    r = (rng.random(n) < 0.2 + 0.1 * a) * 2.0 + 0.5 * (rng.random(n) < 0.5)
    log = op.BanditLog.from_arrays(x, a, r, np.full(n, 1 / 3), batch=np.arange(n) // 100)
    targets = {"one": op.policies.Fixed(1), "two": op.policies.Fixed(2)}
    return op.evaluate(log, targets, estimators=["IPW", "SNIPW", "DML", "DR-half"], reward_model=None)
