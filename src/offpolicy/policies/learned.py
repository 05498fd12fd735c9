"""`CrossFitted`: a learner in place of a policy, refitted out of fold and valued on the rows that it did not see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


@checks_arguments
@dataclass(frozen=True, eq=False)
class CrossFitted:
    """What a learner would earn: it is refitted without each fold of the evaluation, and acts on that fold's rows.

    A policy that was fitted to a log looks too good on the same rows. `evaluate` takes an unfitted scikit-learn
    estimator or pipeline as ``CrossFitted(estimator)``. With ``repeats=`` folds are drawn several times, and the value
    is that of the policies of all draws, each with the same probability.

    Parameters
    ----------
    learner
        A model of the reward, as ``reward_model=`` of `evaluate` takes it: it is fitted to context and action, and the
        policy takes the action of the highest prediction (the lowest, where the metric is minimized). Or a learner of
        policies: an object with ``fit_policy(log)`` or ``fit(log)``, or a function of a log, which gives a policy.
    lowest : bool
        Whether the lowest prediction is the best; `evaluate` sets it by its ``minimize=``.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=(2000, 2)), rng.integers(2, size=2000)
    >>> log = op.BanditLog.from_arrays(x, a, rng.normal(size=2000), np.full(2000, 0.5))  # nothing to learn
    >>> tree = DecisionTreeRegressor(random_state=0)
    >>> abs(op.evaluate(log, CrossFitted(tree), estimators=["IPW"])["IPW"].value) < 0.1
    True
    """

    learner: Any
    lowest: bool = False
    #: Asked once the folds are drawn, and not before.
    by_fold: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.learner, type):
            name = self.learner.__name__
            raise UsageError(f"CrossFitted takes an instance: CrossFitted({name}(…)).")


def is_unfitted(given: Any) -> bool:
    """Whether ``given`` is a scikit-learn estimator or pipeline, or of its kind, that has yet to be fitted."""
    if isinstance(given, type) or not (hasattr(given, "get_params") and hasattr(given, "fit")):
        return False
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(given)
    except NotFittedError:
        return True
    return False


def aimed(named: Mapping[str, Any], *, lowest: bool) -> dict[str, Any]:
    """The same policies, where those that are learned here learn what is better."""
    return {
        name: replace(policy, lowest=lowest) if isinstance(policy, CrossFitted) else policy
        for name, policy in named.items()
    }


def needs_rows(name: str) -> PolicyError:
    """The error about a learner where rows are not held."""
    return PolicyError(
        f"policy {name!r}: a learner is refitted on rows in memory, which a streamed log does not hold. Read the log "
        "with way='rows', or fit the learner on other rows and give the fitted policy."
    )
