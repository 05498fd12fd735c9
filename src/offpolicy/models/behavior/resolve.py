"""What a user passes as ``behavior_model=``, as a behavior model; and one that is told what the policies would do.

The analyst knows π_e. A model of π_b that sees π_e(· | s) as input columns beside the state is still a function of the
state, so it is as valid as one that does not; and when the target resembles the logging policy (it is the greedy policy
behind an ε-greedy one, or its successor), far easier to fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError, UsageError
from offpolicy.models.auto import resolved
from offpolicy.models.behavior.auto_behavior import AutoBehavior
from offpolicy.models.behavior.behavior import ClassifierBehavior, Shares
from offpolicy.models.fitting.encode import Encoded
from offpolicy.models.fitting.tables import abilities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.models.behavior.behavior import BehaviorData, BehaviorModel, FittedBehavior
    from offpolicy.policies.target import Target


#: Behavior models in words, the same in Python and on the command line.
BEHAVIOR_WORDS: dict[str, Callable[[], Any]] = {"shares": Shares, "auto": AutoBehavior}


def as_behavior_model(spec: Any) -> BehaviorModel:
    """Resolve ``behavior_model=``: "shares", "auto", a classifier or an object with ``fit_behavior``."""
    model: BehaviorModel | None = resolved("behavior_model=", spec, "fit_behavior", BEHAVIOR_WORDS, UsageError)
    if model is not None:
        return model
    if hasattr(spec, "predict_proba"):
        return ClassifierBehavior(spec)
    raise ModelError(
        f"behavior_model= must be a classifier with predict_proba, 'shares', 'auto', an (n, K) array or "
        f"None. Got {spec!r} instead."
    )


def inner_model(wrapper: Any) -> BehaviorModel:
    """The model inside one that adds columns to what it reads."""
    return as_behavior_model(wrapper.model)


def inner_wants_encoded(wrapper: Any) -> bool:
    """Whether the model inside reads encoded tables."""
    return abilities(inner_model(wrapper)).wants_encoded


def fit_inner(wrapper: Any, data: BehaviorData, seed: int) -> FittedBehavior:
    """Fit the model inside."""
    return inner_model(wrapper).fit_behavior(data, seed)


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
