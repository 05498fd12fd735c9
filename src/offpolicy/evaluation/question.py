"""`Question`: what was asked of a log, as a frozen value; an evaluation is its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.kinds import HasKinds, is_marginal
from offpolicy.logs.metrics import check_metric
from offpolicy.policies.target import named_policies
from offpolicy.splits.folds import KFold
from offpolicy.splits.hashing import DEFAULT_SEED
from offpolicy.trust.assumption import check_declarations, check_learned_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpolicy.logs.log import Log, Scan

NUMBER = int | float | np.integer | np.floating


@dataclass(frozen=True)
class Combination:
    """A weighted sum of metrics.

    Attributes
    ----------
    name : str
    weights : tuple of (metric, weight)
    minimize : bool
        Whether less of it is better.
    """

    name: str
    weights: tuple[tuple[str, float], ...]
    minimize: bool = False

    @classmethod
    def of(cls, weights: Any, known: Sequence[str], name: str, *, minimize: bool) -> Combination:
        """Weights of metrics by name, or an error that says what is wrong with them.

        >>> Combination.of({"revenue": 1, "cost": -0.3}, ["revenue", "cost"], "margin", minimize=False).weights
        (('revenue', 1.0), ('cost', -0.3))
        """
        if not isinstance(weights, Mapping) or not weights:
            raise UsageError(
                f"combine() takes weights of metrics such as {{'revenue': 1, 'cost': -0.3}}. Got {weights!r}."
            )
        if name in known:
            raise UsageError(f"a metric named {name!r} already exists. Choose another name=.")
        for metric, weight in weights.items():
            check_metric(metric, known)
            if isinstance(weight, bool) or not isinstance(weight, NUMBER) or not np.isfinite(weight):
                raise UsageError(f"the weight of {metric!r} must be a finite number. Got {weight!r}.")
        return cls(name, tuple((str(m), float(w)) for m, w in weights.items()), minimize)


@dataclass(frozen=True)
class Asked:
    """Metrics of an evaluation.

    Attributes
    ----------
    names : tuple of str
        In the order of the log; the first is the one that the evaluation speaks of.
    minimized : tuple of str
        Those of which less is better.
    models : {name: model}
        What predicts each: as ``reward_model=`` or ``value_model=`` of `evaluate`.
    """

    names: tuple[str, ...]
    minimized: tuple[str, ...]
    models: Mapping[str, Any]

    @classmethod
    def of(cls, names: Iterable[str], minimize: Any, model: Any, argument: str) -> Asked:
        """Read what was given for all metrics, or for each.

        >>> Asked.of(["click", "cost"], ["cost"], None, "reward_model").minimized
        ('cost',)
        """
        known = tuple(names)
        return cls(known, _minimized(minimize, known), _models(model, known, argument))

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""
        return len(self.names) > 1


@dataclass(frozen=True, eq=False)
class Question:
    """The arguments of `evaluate`, checked, and which metric is asked about.

    Attributes
    ----------
    policies : {name: policy}
        One policy is called "policy".
    metric : str or None
        The reward; None: the first metric of the log, and the others beside it.
    combination : Combination or None
        A weighted sum of metrics as the reward.
    """

    log: Log | Scan
    policies: Any
    estimators: Any = None
    reward_model: Any = None
    value_model: Any = None
    behavior_model: Any = None
    ratio: Any = "exact"
    folds: Any = None
    repeats: int = 1
    discount: float = 1.0
    seed: int = DEFAULT_SEED
    n_jobs: int | None = None
    minimize: bool | str | Sequence[str] = False
    randomized: bool = False
    gamma: float | None = None
    learned_elsewhere: bool | str | Sequence[str] = False
    metric: str | None = None
    combination: Combination | None = None

    def __post_init__(self) -> None:
        log = self.log
        if not isinstance(log, HasKinds):
            raise UsageError(
                f"evaluate() takes a BanditLog, Trajectories or Slates. Got {type(log).__name__}. Build one with "
                "BanditLog.from_frame(frame, context=…, action=…, reward=…)."
            )
        self._check_numbers()
        log.unit_kind.check(self)
        named = named_policies(self.policies, log)
        object.__setattr__(self, "policies", named)
        _ = self.metrics, self.elsewhere
        check_declarations(log, self.randomized, self.gamma)
        if self.metric is not None:
            check_metric(self.metric, tuple(log.metrics))

    def _check_numbers(self) -> None:
        discount, n_jobs, seed = self.discount, self.n_jobs, self.seed
        if isinstance(discount, bool) or not isinstance(discount, NUMBER) or not 0 <= discount <= 1:
            raise UsageError(f"discount= must be in the range [0, 1]. Got {discount!r} instead.")
        if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or not n_jobs):
            raise UsageError(f"n_jobs= must be a non-zero int or None. Got {n_jobs!r} instead.")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise UsageError(f"seed= must be an int of at least 0. Got {seed!r} instead.")

    @property
    def elsewhere(self) -> list[str]:
        """Policies that were declared not to be learned from these rows."""
        return check_learned_elsewhere(self.learned_elsewhere, list(self.policies))

    @cached_property
    def argument(self) -> str:
        """What the models of the reward are called among the arguments."""
        return self.log.unit_kind.argument

    @cached_property
    def metrics(self) -> Asked:
        """The metrics of the log, which are better low, and their models."""
        return Asked.of(self.log.metrics, self.minimize, getattr(self, self.argument), self.argument)

    @cached_property
    def asked(self) -> Asked:
        """The metrics that the answer has: those of the log, or the combination alone."""
        chosen = self.combination
        if chosen is None:
            return self.metrics
        name = chosen.name
        return Asked((name,), (name,) if chosen.minimize else (), {name: None})

    @cached_property
    def reward(self) -> str:
        """The metric that the answer speaks of."""
        if self.combination is not None:
            return self.combination.name
        return self.metrics.names[0] if self.metric is None else self.metric

    @cached_property
    def of_marginals(self) -> Any:
        """What ``ratio=`` says of ratios of state-action marginals; None where it speaks of other ratios."""
        return self.ratio if is_marginal(self.ratio) else None

    @property
    def decides_ratio(self) -> bool:
        """Whether the log is to decide which ratio it is."""
        return isinstance(self.ratio, str) and self.ratio == "auto"

    @property
    def draws_folds(self) -> bool:
        """Whether folds are drawn, and not given."""
        log = self.log
        labels = getattr(log, "fold", None), getattr(getattr(log, "roles", None), "fold", None)
        drawn = self.folds is None or isinstance(self.folds, int | np.integer | KFold)
        return drawn and all(own is None for own in labels)

    def but(self, **changes: Any) -> Question:
        """The same question but for some arguments."""
        known = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise UsageError(f"ask() has no argument {name!r}.{did_you_mean(name, known)}")
        if changes.get("metric") is not None:
            changes.setdefault("combination", None)
        if changes.get("combination") is not None:
            changes.setdefault("metric", None)
        return dataclasses.replace(self, **changes)


def _minimized(minimize: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(minimize, bool):
        if minimize and len(names) > 1:
            raise UsageError(
                f"minimize=True does not say which metric. Name the metrics to minimize: minimize=[{names[-1]!r}]."
            )
        return names if minimize else ()
    if isinstance(minimize, str):
        minimize = [minimize]
    if not isinstance(minimize, list | tuple | set | frozenset):
        raise UsageError(f"minimize= must be True, False or names of metrics. Got {minimize!r} instead.")
    for name in minimize:
        if name not in names:
            raise UsageError(f"minimize=: no metric is called {name!r}.{did_you_mean(name, names)}")
    return tuple(name for name in names if name in minimize)


def _models(model: Any, names: tuple[str, ...], argument: str) -> dict[str, Any]:
    several = len(names) > 1
    by_metric = isinstance(model, Mapping) and bool(model) and all(key in names for key in model)
    # With one reward a mapping of value models goes by policy.
    if by_metric and (several or argument == "reward_model"):
        return {name: model.get(name) for name in names}
    if several and isinstance(model, Mapping) and any(key in names for key in model):
        odd = next(key for key in model if key not in names)
        raise UsageError(f"{argument}=: no metric is called {odd!r}.{did_you_mean(odd, names)}")
    if several and isinstance(model, np.ndarray | list | tuple | Mapping):
        raise UsageError(
            f"{argument}= has predictions of one reward, but the log has {len(names)} metrics. Give predictions "
            f"for each: {argument}={{{names[0]!r}: …, {names[1]!r}: …}}."
        )
    return dict.fromkeys(names, model)
