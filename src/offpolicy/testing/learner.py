"""A public checker for algorithms that learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.decide.online.own import as_array, fresh
from offpolicy.errors import UsageError
from offpolicy.policies.distribution import check_rows

ROWS = 60
AGREEMENT = 1e-9


@checks_arguments
def check_learner(learner: Any) -> None:
    """Check that a learner can be replayed: it acts before and after it has seen data, and keeps to its contract.

    A copy is bound to three actions. It has to give (n, K) probabilities before any update and after two updates, the
    same ones when asked twice, and the same ones for a row whichever others are asked with it. The learner that was
    passed has to be left as it was.

    Parameters
    ----------
    learner
        An object with ``probabilities(context)`` and ``update(context, action, reward, propensity)``.

    Raises
    ------
    UsageError
        That says which promise is not kept.

    Examples
    --------
    >>> import offpolicy as op
    >>> op.testing.check_learner(op.learners.LinUCB())
    """
    name, actions = type(learner).__name__, ("a", "b", "c")
    rng = np.random.default_rng(0)
    context = rng.normal(size=(ROWS, 2))
    own, other = fresh(learner, actions), fresh(learner, actions)
    for update in range(3):
        p = check_rows(own.probabilities(context), (ROWS, 3), name)
        _same(p, own.probabilities(context), f"{name} gives other probabilities when asked again")
        alone = np.vstack([own.probabilities(context[:7]), own.probabilities(context[7:])])
        _same(p, alone, f"{name} gives a row other probabilities when other rows are asked with it")
        if update < 2:
            action = as_array(np.array(actions, dtype=object)[rng.integers(3, size=ROWS)])
            reward = (rng.random(ROWS) < 0.3 + 0.3 * (action == "b")) * 1.0
            own.update(context, action, reward, np.full(ROWS, 1 / 3))
    first = check_rows(other.probabilities(context), (ROWS, 3), name)
    untouched = fresh(learner, actions).probabilities(context)
    _same(first, untouched, f"{name} shares what it learns with copies of itself")


def _same(a: Any, b: Any, what: str) -> None:
    gap = np.abs(np.asarray(a) - np.asarray(b)).max()
    if gap > AGREEMENT:
        raise UsageError(
            f"{what}: they differ by up to {gap:.3g}. probabilities() must depend on its row and on the updates alone."
        )
