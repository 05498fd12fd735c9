"""A behavior model that is told what the target policies would do.

The analyst knows π_e. A model of π_b that sees π_e(· | s) as input columns beside the state is still a
function of the state, so it is as valid as one that does not; and when the target resembles the logging
policy (it is the greedy policy behind an ε-greedy one, or its successor), far easier to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.models.behavior.resolve import fit_inner, inner_wants_encoded
from offpolicy.models.fitting.encode import Encoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.policies.target import Target


@checks_arguments
@dataclass(frozen=True, eq=False)
class SeesTargets:
    """Give a behavior model the probabilities of the evaluated policies as input columns.

    Parameters
    ----------
    model : classifier, "auto", or behavior model
        Gets the context's columns and K columns for each policy of the `evaluate` call.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2))
    >>> best = (np.sin(5 * x[:, 0]) > 0).astype(int)  # hard to learn from x, easy from the policy
    >>> a = np.where(rng.random(400) < 0.9, best, 1 - best)
    >>> log = op.BanditLog.from_arrays(x, a, a + rng.normal(size=400))
    >>> target = np.eye(2)[best]
    >>> model = op.models.SeesTargets(LogisticRegression())
    >>> e = op.evaluate(log, target, estimators=["IPW"], behavior_model=model)["policy", "IPW"]
    >>> bool(abs(e.value - best.mean()) < 4 * e.std_error)
    True
    """

    model: Any
    sees_targets = True

    wants_encoded = property(inner_wants_encoded)
    fit_behavior = fit_inner


def with_targets(table: Any, targets: Sequence[Target], context: Context, rows: Ints) -> Any:
    """Append the probabilities of each target at some rows of the log to what a model reads there."""
    blocks = [t.probabilities(context.positions(rows) if t.shares_context else rows) for t in targets]
    extra: Floats = np.column_stack([np.empty((len(rows), 0)), *blocks])
    if isinstance(table, Encoded):
        return Encoded(np.column_stack([table.matrix, extra]), table.categorical)
    if not hasattr(table, "iloc"):
        return np.column_stack([table, extra])
    import pandas as pd

    names = [f"{t.name}: π_e {k}" for t in targets for k in range(t.n_actions)]
    columns = pd.DataFrame(extra, columns=names, index=table.index)
    return pd.concat([table, columns], axis=1)
