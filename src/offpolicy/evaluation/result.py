"""`Evaluation`: estimates by (policy, estimator), what they rest on, and ways to show them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy._visible import printable
from offpolicy.errors import PolicyError, UnknownNameError, UsageError, did_you_mean
from offpolicy.evaluation import curves, readings, shown
from offpolicy.evaluation import returns as distributions
from offpolicy.evaluation.answer import answer
from offpolicy.evaluation.estimates import Estimates
from offpolicy.evaluation.passes import forget
from offpolicy.evaluation.question import Combination
from offpolicy.evaluation.store import packed, unpacked
from offpolicy.logs.metrics import check_metric
from offpolicy.policies.target import named_policies
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy.evaluation.problem import Problem
    from offpolicy.evaluation.question import Asked, Question
    from offpolicy.evaluation.shown import Origin
    from offpolicy.evaluation.store import Store
    from offpolicy.inference.estimate import Estimate
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Estimates of one or more policies by one or more estimators.

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [0.5] * 4)
    >>> ev = op.evaluate(log, {"always 1": op.policies.Fixed(1)}, estimators=["IPW", "SNIPW"])
    >>> ev["always 1", "IPW"].value
    1.0
    >>> ev.logged.value
    0.5
    """

    question: Question
    problem: Problem
    targets: dict[str, Target]
    estimators: list[Estimator]
    estimates: dict[tuple[str, str], Estimate]
    settings: dict[str, Any]
    origin: Origin | None = None
    # Answers to other questions over the same store. Those asked for by this one are kept by it; whoever was asked
    # before is known as long as somebody else keeps it, so that no circle keeps any of them.
    _known: WeakValueDictionary[str, Evaluation] = field(default_factory=WeakValueDictionary, init=False, repr=False)
    _kept: dict[Any, Evaluation] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, question: Question, store: Store | None = None) -> Evaluation:
        """The answer to a question."""
        made = answer(question, store)
        return cls(question, made.problem, made.targets, made.estimators, made.estimates, made.settings)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its columns and facts; what cannot be pickled (functions, connections) stays behind."""
        own = {k: v for k, v in vars(self).items() if k not in {"_known", "_kept"}}
        return _unpacked, (packed(own),)

    def ask(self, **changes: Any) -> Evaluation:
        """The same question but for some arguments of `evaluate`, or for its ``metric``.

        What both questions have in common is not made again: predictions and fits are kept by all that they depend
        on. Estimates of both are paired unit by unit, unless the log differs, or has to be opened anew for other folds.

        Parameters
        ----------
        **changes
            Arguments of `evaluate` by name, ``metric=`` (the reward to speak of), or ``log=`` another log.

        Examples
        --------
        >>> import numpy as np, offpolicy as op
        >>> a = np.random.default_rng(0).integers(2, size=100)
        >>> log = op.BanditLog.from_arrays(None, a, a + 0.5, np.full(100, 0.5))
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
        >>> ev.ask(behavior_model="shares").settings["behavior_model"]
        'shares'
        """
        made = Evaluation.of(self.question.but(**changes), self.problem.store)
        return made if self.origin is None else replace(made, origin=self.origin)

    @property
    def replayed(self) -> Any:
        """How learners were trained on the log (`offpolicy.replay`); None where policies stand still."""
        return self.problem.store.replayed

    @property
    def asked(self) -> Asked:
        """The metrics of this evaluation, which of them are better low, and their models."""
        return self.question.asked

    @property
    def draws_folds(self) -> bool:
        """Whether folds were drawn, and can be drawn again."""
        return self.question.draws_folds

    @property
    def is_whole(self) -> bool:
        """Whether it speaks of all metrics of the log, and not of one of them or of a sum."""
        return self.question.metric is None and self.question.combination is None

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(self.targets)

    @property
    def minimize(self) -> bool:
        """Whether a lower value is better."""
        return bool(self.settings.get("minimize", False))

    @cached_property
    def logged(self) -> Estimate:
        """Estimate of the logging policy's own value."""
        return Estimates(self.problem, self.problem.table).logged()

    def __getitem__(self, key: tuple[str, str] | str) -> Estimate:
        """``ev["policy", "DML"]``; ``ev["policy"]`` is its headline, and with one policy ``ev["DML"]`` will do."""
        if isinstance(key, str):
            names = [e.name for e in self.estimators]
            if key in self.targets and not (len(self.targets) == 1 and key in names):
                key = (key, headline(self.estimators).name)
            elif len(self.targets) == 1:
                key = (self.policies[0], key)
            elif key in names:
                raise UsageError(f"name the policy as well: ev[policy, {key!r}]. Policies: {self.policies}.")
            else:
                raise UnknownNameError(f"no policy is called {key!r}.{did_you_mean(key, self.targets)}")
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(part, str) for part in key):
            raise UnknownNameError(f"ask for a policy and an estimator: ev['new', 'DML']. Got {key!r:.80} instead.")
        if key not in self.estimates:
            policy, estimator = key
            if policy not in self.targets:
                raise UnknownNameError(f"no policy is called {policy!r}.{did_you_mean(policy, self.targets)}")
            known = [e.name for e in self.estimators]
            raise UnknownNameError(f"no estimate by {estimator!r}.{did_you_mean(estimator, known)}")
        return self.estimates[key]

    @property
    def metrics(self) -> list[str]:
        """Names of the rewards of the log; the evaluation itself speaks of the first."""
        return list(self.asked.names)

    @property
    def metric_name(self) -> str:
        """The reward that this evaluation speaks of."""
        return self.question.reward

    @checks_arguments
    def metric(self, name: str) -> Evaluation:
        """The same policies and estimators for another metric of the log.

        Folds, weights and fits of π_b are shared, models of the reward are its own; estimates of different metrics
        are paired unit by unit. Made when first asked for.

        Examples
        --------
        >>> import offpolicy as op
        >>> rewards = {"click": [0, 1, 1, 0], "cost": [1.0, 2.0, 2.0, 1.0]}
        >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], rewards, [0.5] * 4)
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"], minimize=["cost"])
        >>> ev["IPW"].value, ev.metric("cost")["IPW"].value
        (1.0, 2.0)
        """
        names = self.question.metrics.names
        check_metric(name, names)
        if name == self.metric_name and self.question.combination is None:
            return self
        if self.question.combination is None:
            self._known[self.metric_name] = self
        known = self._known.get(name)
        if known is None:
            known = self.ask(metric=None if name == names[0] else name, combination=None)
            vars(known)["_known"] = self._known
            self._known[name] = self._kept[name] = known
        return known

    @checks_arguments
    def combine(self, weights: Mapping[str, float], *, name: str = "combination", minimize: bool = False) -> Evaluation:
        """The same policies and estimators for a weighted sum of metrics, such as a margin.

        Its models are the weighted sums of the metrics' models, so that nothing is fitted; its scores are paired with
        theirs.

        Parameters
        ----------
        weights : {metric: number}
        name : str
            What the sum is called.
        minimize : bool
            Whether less of it is better.

        Examples
        --------
        >>> import offpolicy as op
        >>> rewards = {"revenue": [0, 5, 5, 0], "cost": [1.0, 2.0, 2.0, 1.0]}
        >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], rewards, [0.5] * 4)
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
        >>> ev.combine({"revenue": 1, "cost": -0.5}, name="margin")["IPW"].value
        4.0
        """
        known = self.question.metrics.names
        made = self.ask(combination=Combination.of(weights, known, name, minimize=minimize))
        vars(made)["_known"] = self._known
        return made

    @checks_arguments
    def add(self, policies: Any) -> Evaluation:
        """Evaluate more policies with the models already fitted; nothing is refitted."""
        named = named_policies(policies, self.problem.log)
        for name in named:
            if name in self.targets:
                raise PolicyError(f"a policy named {name!r} already exists. Choose another name.")
        return self.ask(policies={**self.question.policies, **named})

    @checks_arguments
    def instead(self, policies: Any) -> Evaluation:
        """Other policies in place of these, with the models already fitted."""
        return self.ask(policies=policies)

    @checks_arguments
    def redrawn(self, repeats: int, estimator: str | None = None, *, seed: int | None = None) -> Evaluation | None:
        """The same with folds drawn several times, for the estimator that speaks (or ``estimator``).

        Models are fitted anew for every draw. ``estimate.fold_spread`` of the result says how far an estimate moves
        from draw to draw. ``seed`` is that of the draws, the evaluation's own where not given. None where folds were
        not drawn but given.
        """
        if not self.draws_folds:
            return None
        named = {e.name: e for e in self.estimators}
        if estimator is not None and estimator not in named:
            raise UnknownNameError(f"no estimate by {estimator!r}.{did_you_mean(estimator, named)}")
        chosen = headline(self.estimators) if estimator is None else named[estimator]
        seed = self.question.seed if seed is None else seed
        key = ("redrawn", repeats, chosen.name, seed)
        if key not in self._kept:
            again = self.ask(repeats=repeats, estimators=[chosen], seed=seed, ratio=self.problem.ratio)
            # Of a draw of the folds the scores are all that is needed.
            same = again.question.seed == self.question.seed
            forget(again.problem, self.problem.repeats if same else 0)
            self._kept[key] = again
        return self._kept[key]

    @checks_arguments
    def with_behavior(self, behavior_model: Any) -> Evaluation:
        """The same policies with another π_b; what did not depend on π_b is not refitted.

        Parameters
        ----------
        behavior_model : classifier, "shares", "auto" or None
            As in `evaluate`; None uses the logged propensities.
        """
        return self.ask(behavior_model=behavior_model)

    returns = distributions.returns
    step_curves = curves.step_curves
    position_values = curves.position_values
    value_curve = curves.value_curve
    against = curves.against

    assumption = property(readings.assumption)
    diagnostics = cached_property(readings.diagnostics)
    verdict = readings.verdict
    bounds = readings.bounds
    gate = readings.gate
    compare = readings.compare
    pareto = readings.pareto
    rows = shown.rows
    frame = readings.frame
    summary = readings.summary
    segments = readings.segments
    to_latex = readings.to_latex
    to_json = readings.to_json
    report = readings.report
    log_mlflow = readings.log_mlflow
    learning_curve = readings.learning_curve
    plot = readings.plot

    @printable
    def __repr__(self) -> str:
        return str(door("text")(self))

    def _repr_html_(self) -> str:
        return str(door("notebook")(self))


def _unpacked(data: bytes) -> Evaluation:
    made = object.__new__(Evaluation)
    vars(made).update(unpacked(data), _known=WeakValueDictionary(), _kept={})
    return made
