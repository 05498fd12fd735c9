"""The answer to a question: log → folds → models → scores → estimates, over a store that other questions share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from offpolicy._threads import prepare_threads
from offpolicy.columns.keys import Keys, Same, key_of
from offpolicy.errors import DataError, PolicyError, UsageError
from offpolicy.evaluation.estimates import Estimates
from offpolicy.evaluation.passes import as_array, prepare
from offpolicy.evaluation.problem import Problem
from offpolicy.evaluation.store import Store
from offpolicy.evaluation.trials import Trials
from offpolicy.logs.kinds import kind_called, ratio_of
from offpolicy.logs.outcome import settle
from offpolicy.models.behavior.logging_policy import as_logging_policy, fits_contexts
from offpolicy.models.fitting.store import Specs
from offpolicy.models.fitting.tables import abilities
from offpolicy.models.rewards.resolve import beside_behavior
from offpolicy.policies import target as targets
from offpolicy.policies.fitted import aimed
from offpolicy.policies.protocol import learned_from
from offpolicy.scores import catalog
from offpolicy.splits.folds import Folds, KFold, Plan
from offpolicy.trust.slots import settled

if TYPE_CHECKING:
    from offpolicy.evaluation.question import Question
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.kinds import Ratio
    from offpolicy.logs.log import Log, Scan
    from offpolicy.logs.slates import Slates
    from offpolicy.policies.coarse import Cells
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator

USUAL = 2  # folds, until the log is open


@dataclass(frozen=True, eq=False)
class Answer:
    """Estimates of every policy by every estimator, and what they rest on."""

    problem: Problem
    targets: dict[str, Target]
    estimators: list[Estimator]
    estimates: dict[tuple[str, str], Estimate]
    settings: dict[str, Any]


def answer(question: Question, store: Store | None = None) -> Answer:
    """Answer a question; what an earlier one over the same log has made is not made again."""
    prepare_threads()
    asked = _Asked.of(question, store)
    store, log, asked_of = asked.store, asked.store.log, question.metrics
    named_estimators = catalog.sensible(log) if question.estimators is None else question.estimators
    fitted = fits_contexts(asked.behavior, log)
    chosen = catalog.for_log(catalog.resolve(named_estimators, log.kind), log, fitted=fitted)
    # What the log decides by itself it decides by its first metric, so that all metrics have one answer.
    first = asked.problem(asked_of.names[0])
    trials = Trials(first, chosen, asked.behavior)
    named = asked.ratio.smoothed(asked.named, trials)
    resolved = first.resolve(named)
    chosen = _for_targets(resolved, chosen, asked=question.estimators is not None)
    ratio, why = asked.ratio.decided(resolved, replace(trials, estimators=chosen))
    if ratio is not asked.ratio:
        ratio, cells = _weighed(ratio, question.log)
        asked = replace(asked, ratio=ratio, cells=cells)
    problem = asked.whole(tuple(resolved.values()))
    _judged_by_others(problem, asked.named)
    prepare(problem, list(resolved.values()), chosen)
    metric, model = question.reward, asked_of.models[asked_of.names[0]]
    model = asked_of.models.get(metric, model)
    several = asked_of.are_several
    settings = {
        "estimators": [e.name for e in chosen],
        "reward_model": None,
        "value_model": None,
        question.argument: describe(model),
        "behavior_model": describe(question.behavior_model, log),
        "ratio": _spelled(ratio.asked if question.decides_ratio else question.ratio),
        **({"ratio_chosen": why} if why else {}),
        "folds": problem.k,
        "repeats": problem.repeats,
        "repeats_rule": "mean of the scores over repetitions; standard error of that mean",
        "discount": question.discount,
        **log.unit_kind.settings(log, float(question.discount)),
        "seed": question.seed,
        "minimize": metric in question.asked.minimized,
        **({"metric": metric} if several else {}),
        **({"weights": dict(question.combination.weights)} if question.combination else {}),
        "randomized": question.randomized,
        "gamma": question.gamma,
        **({"learned_elsewhere": question.elsewhere} if question.elsewhere else {}),
        **ratio.settings(named),
        **log.about,
    }
    problem.label = metric if several or question.combination is not None else ""
    return Answer(problem, resolved, chosen, Estimates(problem, problem.table).run(resolved, chosen), settings)


def _judged_by_others(problem: Problem, policies: Mapping[str, Any]) -> None:
    """Refuse a policy on the very rows that it was learned from."""
    lessons = {name: lesson for name, policy in policies.items() if (lesson := learned_from(policy))}
    for name, lesson in lessons.items():
        if lesson == str(problem.sums("log").lesson):
            raise PolicyError(
                f"policy {name!r} was learned from these very rows, on which its value is too high. Its honest value "
                "is in learned.evaluation of learn_policy; or evaluate it on rows that it has not seen."
            )


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question with its log opened and its arguments read: what the problems of all metrics share."""

    question: Question
    store: Store
    plan: Plan
    folds: Folds | None
    named: dict[str, Any]
    behavior: Any
    ratio: Ratio
    cells: Cells | None
    keys: Keys
    policies: dict[str, Any]
    targets: dict[str, Target]

    @classmethod
    def of(cls, question: Question, store: Store | None) -> _Asked:
        """Open the log, unless a store of the same log will do."""
        log = question.log
        known = store.policies if store is not None and store.asked_of is log else {}
        named, asked = {}, question.metrics
        lowest = asked.names[0] in asked.minimized
        for name, policy in question.policies.items():
            what = (name, key_of(policy), lowest)
            if what not in known:
                adapted = targets.adapted_policies({name: policy}, log)
                known[what] = aimed(adapted, lowest=lowest)[name]
            named[name] = known[what]
        plan = Plan.of(USUAL if question.folds is None else question.folds, question.repeats, question.seed)
        ratio = _weighed(ratio_of(question.ratio, log), log)
        behavior = as_logging_policy(question.behavior_model, log)
        opening = _opening(question, named, behavior)
        if store is None or store.opening != opening:
            store = Store(_opened(question, plan, named, behavior), opening, log, policies=known)
        opened: Any = store.log
        by_rows = not opened.in_memory and opened.unit_kind.decides_once
        if by_rows and opened.schema.folds is not None:
            plan = replace(plan, k=len(opened.schema.folds), repeats=1)
        elif question.folds is None:  # as many as suit the log, which is known now
            plan = replace(plan, k=opened.unit_kind.folds(opened))
        folds = None if by_rows else _folds(opened, plan, question.folds)
        return cls(question, store, plan, folds, named, behavior, *ratio, _keys(question, store, plan), {}, {})

    def problem(self, metric: str, found: tuple[Target, ...] = ()) -> Problem:
        """The columns of one metric."""
        question, store = self.question, self.store
        model = beside_behavior(question.metrics.models[metric], store.log, self.behavior)
        specs = Specs(
            as_array(model),
            as_array(self.behavior),
            as_array(question.of_marginals),
            question.seed,
            question.n_jobs,
            float(question.discount),
            self.cells,
        )
        facets = {
            **self.keys.facets,
            "reward": store.tokens.of(metric),
            "model": store.tokens.of(model),
            "ratio": store.tokens.of(self.ratio.key),
        }
        keys = Keys(facets, self.keys.policies)
        return Problem(
            store, self.plan, self.folds, specs, metric, keys,
            told=found, policies=self.policies, targets=self.targets, ratio=self.ratio.asked,
        )  # fmt: skip

    def whole(self, found: tuple[Target, ...]) -> Problem:
        """The columns of what was asked about: a metric, or a weighted sum of metrics."""
        combination = self.question.combination
        if combination is None:
            return self.problem(self.question.reward, found)
        parts = tuple((w, self.problem(metric, found)) for metric, w in combination.weights)
        return replace(parts[0][1], metric=combination.name, parts=parts)


def _keys(question: Question, store: Store, plan: Plan) -> Keys:
    """What columns of any metric depend on."""
    of, behavior, discount = store.tokens.of, question.behavior_model, float(question.discount)
    drawn = _drawn(question.folds)
    told = abilities(behavior).sees_targets
    facets = {
        "folds": of((KFold(plan.k, plan.stratify), question.seed) if drawn else (question.folds, None)),
        "seed": of(question.seed),
        "behavior": of(behavior),
        "marginal": of((question.of_marginals, abilities(question.value_model).time)),
        "discount": of(discount),
        "weighting": of(None if store.log.unit_kind.decides_once else (behavior, discount)),
        "targets": of(question.policies if told else None),
    }
    return Keys(facets)


def _spelled(ratio: Any) -> str:
    """A ratio in the settings of a result."""
    return ratio if isinstance(ratio, str) else repr(ratio)


def _weighed(ratio: Ratio, log: Log | Scan) -> tuple[Ratio, Cells | None]:
    """A ratio and the cells of actions that it is of; one action per cell is the exact ratio."""
    cells = ratio.cells(log)
    return (kind_called("exact"), None) if cells is not None and cells.single.all() else (ratio, cells)


def _opening(question: Question, named: dict[str, Any], behavior: Any) -> Any:
    """All that the log looks at when it is opened; equal ones share a store."""
    log = question.log
    fixed: tuple[Any, ...] = (Same(log),)
    pseudo = getattr(log, "outcomes", None) or getattr(log, "has_outcomes", False)
    if pseudo:  # pseudo-rewards are made with the models of the question
        fixed = (*fixed, key_of(question.metrics.models))
    if pseudo or not log.in_memory or getattr(log, "undecided", False):
        reads = {column for policy in (*named.values(), behavior) for column in getattr(policy, "reads", ())}
        drawn = key_of((question.folds, question.repeats, question.seed))
        fixed = (*fixed, drawn, frozenset(reads))
    return fixed


def _opened(question: Question, plan: Plan, named: dict[str, Any], behavior: Any) -> Any:
    """The log in the form in which it is evaluated."""
    model = getattr(question, question.argument)
    log: Log = question.log.opened(plan, named, model, behavior)
    if log.undecided:
        log = settled(cast("Slates", log), question.folds, question.seed)
    if not log.in_memory:
        return log
    # Rewards that are seen in part become pseudo-rewards, made out of fold.
    drawn = partial(_folds, log, plan, question.folds)
    return settle(log, drawn, question.metrics.models, question.seed)


def _for_targets(resolved: Mapping[str, Any], chosen: list[Estimator], *, asked: bool) -> list[Estimator]:
    """The estimators that policies allow: those known for the logged actions only have weights and no v."""
    partial = next((name for name, target in resolved.items() if target.shown is not None), None)
    modeled = [e.name for e in chosen if "value" in e.needs]
    if partial is None or not modeled:
        return chosen
    if asked:
        raise UsageError(
            f"policy {partial!r} has probabilities only for the shown items, but {', '.join(modeled)} need them for "
            "all items. Use estimators such as IPW and SNIPW, or give the probabilities of all items."
        )
    return [e for e in chosen if "value" not in e.needs]


def _drawn(folds: Any) -> bool:
    """Whether folds are drawn, and not given."""
    return folds is None or isinstance(folds, int | np.integer | KFold)


def _folds(log: Log, plan: Plan, asked: Any) -> Folds:
    """Folds of a log whose units are known: its own labels, the ones given, or drawn."""
    drawn = _drawn(asked)
    labels = log.fold if drawn else None
    order = log.row_order if log.unit_kind.decides_once else None
    if not drawn and order is not None and plan.labels is not None:
        plan = replace(plan, labels=plan.labels[:, order])  # given in the order of the frame
    if labels is not None and plan.repeats not in {1, len(labels)}:
        raise UsageError(
            f"repeats={plan.repeats}, but the log has one column of fold labels. Pass folds= as a "
            "(repeats, n) array of labels, or build the log without fold=."
        )
    counted = float(log.count.max()) > 1
    if counted and drawn and labels is None:
        raise DataError(
            "rows of this log stand for several impressions, which new folds would keep together. "
            "Compress the log with fold labels (fold=…), or pass folds= as labels."
        )
    strata = None
    if plan.stratify is not None:
        if not log.unit_kind.decides_once:
            raise UsageError("stratify= is for bandit logs.")
        if log.has_clusters:
            raise UsageError("folds cannot be stratified and clustered at once. Leave stratify out.")
        if plan.stratify == "action" and not log.space.finite:
            raise UsageError("stratify='action' is for actions that are labels.")
        by = log.action if plan.stratify == "action" else log.reward
        strata = np.unique(by, return_inverse=True)[1]
    return plan.folds(
        log.units,
        labels=labels,
        half=None if labels is None else log.half,
        cluster=log.cluster if log.has_clusters else None,
        strata=strata,
    )


def describe(model: Any, log: Log | None = None) -> str:
    """A model in a few words, for the settings of a result."""
    if model is None:
        known = log is not None and log.has_propensity
        return "logged propensities" if known else "auto"
    if isinstance(model, np.ndarray | list | tuple):
        return "given array"
    if isinstance(model, Mapping):
        return "given arrays"
    return model if isinstance(model, str) else repr(model).split("\n", maxsplit=1)[0][:200]
