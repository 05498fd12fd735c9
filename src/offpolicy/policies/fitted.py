"""Models that people already have, as policies: classifiers, objects that predict an action, torch modules."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError
from offpolicy.logs.actions import plain
from offpolicy.policies.distribution import require_actions
from offpolicy.policies.protocol import bound, feature_matrix, n_rows, numeric_array

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from offpolicy._arrays import Array, Bools, Floats


@checks_arguments
@dataclass(frozen=True, eq=False)
class Classifier:
    """Follow a fitted classifier: the probability of an action is that of its class.

    Parameters
    ----------
    model
        Anything fitted with ``predict_proba(X)`` and ``classes_``. Classes are action labels, in any
        order; actions of the log that are no class have probability 0. A model that remembers the names
        of its features is given these columns of the context, in its order.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit(np.array([[0.0], [1.0]]), ["b", "a"])
    >>> policy = Classifier(model).bind(("a", "b", "c"))
    >>> policy.probabilities(np.array([[0.5]])).round(6).tolist()
    [[0.5, 0.5, 0.0]]
    """

    model: Any
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    note: str = field(default="", kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not hasattr(self.model, "predict_proba"):
            raise UsageError(
                f"The 'model' parameter of Classifier must have predict_proba. Got {type(self.model).__name__} instead."
            )

    def bind(self, actions: tuple[Hashable, ...]) -> Classifier:
        """Return the policy for these actions, in this order."""
        name = type(self.model).__name__
        if not hasattr(self.model, "classes_"):
            raise PolicyError(f"{name} has no classes_ yet. Fit it before using it as a policy.")
        require_actions([plain(c) for c in self.model.classes_], actions, f"a class of {name}")
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the classes' probabilities in the order of the log's actions; (n, K)."""
        actions = bound(self.actions, self)
        given = np.asarray(self.model.predict_proba(feature_matrix(context, self.model)))
        out = np.zeros((n_rows(context), len(actions)))
        out[:, [actions.index(plain(c)) for c in self.model.classes_]] = given
        return out


@checks_arguments
@dataclass(frozen=True, eq=False)
class Predictor:
    """Follow an object whose ``predict`` names the action: Stable-Baselines3, d3rlpy, a classifier.

    ``predict`` is given the contexts (states) and answers with one action label per row, with (n, K)
    probabilities, or with a tuple that begins with one of these. One that takes ``deterministic`` is asked
    for its deterministic action.

    Parameters
    ----------
    model
        The object.

    Examples
    --------
    >>> class Agent:
    ...     def predict(self, observation, deterministic=False):
    ...         return (observation[:, 0] > 0).astype(int), None
    >>> Predictor(Agent())(np.array([[1.0], [-1.0]])).tolist()
    [1, 0]
    """

    model: Any

    def __post_init__(self) -> None:
        if not hasattr(self.model, "predict"):
            raise UsageError(
                f"The 'model' parameter of Predictor must have predict. Got {type(self.model).__name__} instead."
            )
        if _is_regressor(self.model):
            raise UsageError(
                f"{type(self.model).__name__} predicts a number, not an action. To take the action with the highest "
                "predicted reward, use offpolicy.policies.Greedy({action: model, …})."
            )

    def __call__(self, context: Any) -> Array:
        """Return one label per row, or (n, K) probabilities."""
        keywords = {"deterministic": True} if _takes(self.model.predict, "deterministic") else {}
        answer = self.model.predict(feature_matrix(context, self.model), **keywords)
        return np.asarray(answer[0] if isinstance(answer, tuple) else answer)


@checks_arguments
@dataclass(frozen=True, eq=False)
class TorchLogits:
    """Follow a torch module that gives logits over the log's actions: π = softmax(module(x)).

    The module is asked in evaluation mode and without gradients, on its own device, and left in the mode
    it was in. It is given a tensor of its parameters' dtype with the context's columns in order; states
    that are single whole numbers come as int64, as ``nn.Embedding`` wants them. An answer with an
    attribute ``logits`` (a `Categorical`, a transformer's output) counts with that.

    Parameters
    ----------
    module : torch.nn.Module
        Gives (n, K), in the order of ``log.actions``.
    """

    module: Any
    actions: tuple[Hashable, ...] | None = field(default=None, kw_only=True, repr=False)
    respects_eligible: ClassVar[bool] = False

    def bind(self, actions: tuple[Hashable, ...]) -> TorchLogits:
        """Return the policy for these actions, in this order."""
        return replace(self, actions=tuple(actions))

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """Return the softmax of the logits; (n, K)."""
        import torch

        actions, n = bound(self.actions, self), n_rows(context)
        name = type(self.module).__name__
        values = numeric_array(context, name)
        first = next(self.module.parameters(), torch.empty(0))
        ids = values.ndim == 1 and values.dtype.kind in "iu"
        made = torch.as_tensor(np.array(values), device=first.device)
        with _evaluating(self.module), torch.no_grad():
            answer = self.module(made.long() if ids else made.to(first.dtype))
        logits = getattr(answer, "logits", answer)
        shape = tuple(getattr(logits, "shape", ()))
        if shape != (n, len(actions)):
            raise PolicyError(
                f"{name} returned {shape or type(logits).__name__} for {n} rows. A torch policy must "
                f"return logits of shape (n, K) = {(n, len(actions))}: one for each of log.actions "
                f"{actions[:5]}, in their order."
            )
        return np.asarray(torch.softmax(logits.double(), dim=1).cpu().numpy(), dtype=np.float64)


def is_torch_module(given: Any) -> bool:
    """Whether ``given`` is a torch module; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.nn.Module)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _is_regressor(model: Any) -> bool:
    if not hasattr(model, "get_params"):
        return False
    from sklearn.base import is_regressor

    return bool(is_regressor(model))


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
        f"policy {name!r}: a learner is refitted on rows in memory, which a streamed log does not have. Read the log "
        "with way='rows', or fit the learner on other rows and pass the fitted policy."
    )
