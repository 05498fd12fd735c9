"""`Problem`: a log with its folds and models under one question, and the columns that scores are made of.

All questions about a log share one `Store`: a column's key says all that it depends on, so that another metric, logging
policy, ratio or draw of the folds is another problem over the same store.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arrays import constant
from offpolicy.columns.keys import GIVEN, Names, smoothed_for
from offpolicy.errors import UsageError
from offpolicy.evaluation import passes
from offpolicy.evaluation.passes import Block
from offpolicy.evaluation.store import Said
from offpolicy.inference.score_table import Units
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.frame import Context
from offpolicy.logs.layout import Layout
from offpolicy.models.behavior.logging_policy import is_given, is_known
from offpolicy.models.fitting.crossfit import Nuisances
from offpolicy.models.fitting.policy_fits import learned_target
from offpolicy.models.fitting.store import Behavior, FitStore
from offpolicy.models.fitting.tables import abilities
from offpolicy.models.values.auto_q import as_value_model
from offpolicy.policies.fitted import CrossFitted, needs_rows
from offpolicy.policies.numbers import Smoothed, blank_target, with_variants
from offpolicy.policies.target import Target, adapted_policies, note_of, resolve
from offpolicy.scores.decisions import Decisions, undeclared
from offpolicy.splits.folds import Folds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.columns.keys import Keys
    from offpolicy.columns.store import Columns, Name
    from offpolicy.evaluation.store import Store
    from offpolicy.inference.reach import CalibrationSums, Reach
    from offpolicy.inference.score_table import ScoreTable
    from offpolicy.models.fitting.store import Specs
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Plan, Split

OUT_OF_FOLD_FIRST: tuple[Split, ...] = ("crossfit", "half", "full")


@dataclass(eq=False)
class Problem:
    """The columns of one question.

    Attributes
    ----------
    store : Store
        What it shares with other questions.
    plan : Plan
        How folds are drawn.
    drawn : Folds or None
        Folds of all units, where these are known before the first pass.
    specs : Specs
        Models; of the metric that is the reward.
    metric : str
        What the reward is called.
    keys : Keys
        All that columns depend on.
    parts : tuple of (factor, Problem)
        The metrics that the reward is a weighted sum of; empty where it is one of them. Their models are weighted as
        they are: nothing is fitted for a sum.
    told : tuple of Target
        Policies that a model of π_b may be told of.
    policies, targets : by name
        Policies that columns may be of, and what they are on this log.
    label : str
        Which of several metrics the reward is; empty where there is one.
    ratio : str or Ratio
        What ``ratio=`` says to ask for the ratio that it came to.
    """

    store: Store
    plan: Plan
    drawn: Folds | None
    specs: Specs
    metric: str
    keys: Keys
    parts: tuple[tuple[float, Problem], ...] = ()
    told: tuple[Target, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    label: str = ""
    ratio: Any = "exact"
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        log, specs = self.store.log, self.specs
        #: Cells of actions that the ratios are of; None where they are of actions.
        self.cells = specs.cells
        self.columns: Columns = self.store.columns.under(self.keys)
        self.said, self.summed = (Said(each, self.keys) for each in (self.store.said, self.store.sums))
        self.streams: bool = not log.in_memory
        # Blocks may be all there is: not even what is narrow is held before the first pass.
        self.by_rows = self.streams and self.drawn is None
        self.fits = FitStore(self.store.fits, None if self.streams else specs.n_jobs, key=self.keys)
        self.discount = specs.discount
        self.k, self.repeats = (self.plan.k, self.plan.repeats) if self.drawn is None else (
            self.drawn.k, self.drawn.repeats
        )  # fmt: skip
        #: Whether models of π_b are told what the policies would do.
        self.sees_targets = abilities(specs.behavior_model).sees_targets
        #: Whether each policy has value models of its own.
        self.fits_by_policy: bool = not log.unit_kind.decides_once
        streamed: Any = log
        whole = streamed.logs_distribution if self.streams else log.distribution is not None
        logged, spec = bool(log.has_propensity), specs.behavior_model
        of_cells = self.cells is None or whole or bool(self.cells.single.all())
        #: Whether the logged propensities are used as they are, and whether no behavior model is fitted.
        self.weights_known = is_known(spec, of_ratios=logged and of_cells, of_actions=logged)
        self.behavior_given = is_given(spec, known=self.weights_known)
        self.logs_distribution = bool(whole)
        #: Whether ratios of marginals are a regression on a continuous state: neither counted nor given.
        fits_ratios = specs.ratio_model is None or hasattr(specs.ratio_model, "fit_ratio")
        self.regresses_ratios = self.fits_by_policy and not self.streams and fits_ratios and not log.is_discrete
        #: Whether the reward is the first metric: sums of others are made when their checks ask, and not held.
        self.is_first = not self.parts and self.metric == next(iter(log.metrics))
        self.names = Names(
            self.columns, self.k, self.repeats, self.behavior_given, in_units=self.streams and not self.by_rows
        )
        weights = tuple((factor, part.metric) for factor, part in self.parts)
        #: The column of the reward (the return) of each unit.
        self.earning: Name = ("return", self.metric, weights, self.discount)
        #: The log as it was opened, with the metric as its reward.
        first = self.parts[0][1].metric if self.parts else self.metric
        self.opened: Any = log if first == next(iter(log.metrics)) else log.with_reward(first)
        if self.names.in_units and specs.model is not None:
            _need_moving(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without what follows from the rest."""
        made = {"columns", "said", "summed", "fits", "names", "block", "ratio_log"}
        return {**{name: value for name, value in vars(self).items() if name not in made}, "cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    # -- facts -----------------------------------------------------------------------------------------

    @cached_property
    def log(self) -> Any:
        """The log: what is known of all rows."""
        log = _rows(self) if self.by_rows else self.opened
        if not self.parts:
            return log
        weighted = [factor * part.log.reward for factor, part in self.parts]
        names = replace(log.names, reward=self.metric)
        return replace(log, reward=np.sum(weighted, axis=0), further={}, names=names)

    @cached_property
    def ratio_log(self) -> Any:
        """The log whose actions the ratios are of: cells of actions, where ratios are coarse."""
        if self.cells is None:
            return self.log
        if not self.streams:
            made = self.block.nuisances.behaviors.log
            return made if not self.parts else replace(made, reward=self.log.reward)
        made = self.cells.log(self.log)
        # Blocks know the whole distribution; of all rows there is what followed from it for the logged cells.
        known = self.columns.get(GIVEN) if self.weights_known else None
        return made if known is None else replace(made, propensity=known)

    @cached_property
    def folds(self) -> Folds:
        """Folds of all units."""
        if self.drawn is not None:
            return self.drawn
        labels, half = (np.stack([self.columns[n, r] for r in range(self.repeats)]) for n in ("fold", "half"))
        return Folds(labels, half, self.k)

    @cached_property
    def units(self) -> Units:
        """The independent units."""
        log = self.log
        return Units(log.layout.n_units, log.count, log.weight, log.cluster, log.batch)

    @property
    def table(self) -> ScoreTable:
        """Scores of all questions, unit by unit."""
        return self.store.scores(self.units)

    @cached_property
    def block(self) -> Block:
        """A log in memory as a block."""
        fits = Nuisances(self.opened, self.folds, self.specs.in_order(self.opened), self.fits, self.told)
        vars(fits)["tables"] = self.store.tables_of(fits)
        return Block(self.opened, self.folds, fits, self.targets, self.columns, self.summed, self.said, self.specs)

    def facets(self, split: Split) -> tuple[Any, ...]:
        """All that an estimate of one split depends on besides its policy and score."""
        own = (v for name, v in self.keys.facets.items() if name != "folds" or split != "full")
        parts = tuple((factor, part.facets(split)) for factor, part in self.parts)
        return (self.metric, *own, parts)

    def resolve(self, named: dict[str, Any]) -> dict[str, Target]:
        """Policies, in whichever form, against this log."""
        found = {name: _target(self, name, policy) for name, policy in named.items()}
        for name, target in found.items():
            self.targets[name] = target
            what = self.keys.policies[name]
            self.keys.policies.update((each.name, what) for each in target.all)
        return found

    # -- columns ---------------------------------------------------------------------------------------

    def need(self, names: Sequence[Name]) -> None:
        """Make sure that columns and sums are there: fit what is missing, then make one pass over the blocks."""
        if self.names.in_units and any(name[0] == "v" for name in names):  # type: ignore[index]
            _need_moving(self)
        passes.need(self, names)

    def column(self, name: Any, block: int | None = None) -> Floats:
        """A column of all rows, or of one block; of a weighted sum of metrics q, v and the reward are weighted."""
        if self.parts and (name == "reward" or name[0] in {"q", "v"}):
            parts = [factor * part.column(name, block) for factor, part in self.parts]
            total: Floats = np.sum(parts, axis=0)
            return total
        if name == "reward":
            name = ("metric", self.metric)
        return self.columns[name] if block is None else self.columns.block(name, block)

    def sums(self, *name: Any) -> Any:
        """What adds up over blocks, by its name.

        "log" is what checks need of contexts and whole distributions: of a sum of metrics, of the first.
        """
        short = name if len(name) > 1 else name[0]
        if self.parts and short == "log":
            return self.parts[0][1].sums("log")
        self.need([short])
        return self.summed.pop(short) if short == "log" and not self.is_first else self.summed[short]

    def reach(self, target: Target, split: Split = "full") -> Reach:
        """Where a target puts its mass, over the units that a split scores."""
        made: Reach = self.sums("reach", "half" if split == "half" else "full", target.name)
        return made

    def decisions(self, target: Target, estimator: Estimator, repeat: int = 0, block: int | None = None) -> Decisions:
        """What the score of one estimator looks at, on the units its split scores; of one block or of all."""
        target = smoothed_for(target, estimator)
        self.need(self.names.of([target], [estimator], repeat))
        return self.gathered(target, estimator, repeat, block)

    def gathered(self, target: Target, estimator: Estimator, repeat: int, block: int | None = None) -> Decisions:
        """The same, where all columns are there and the policy is smoothed as the estimator takes it."""
        split = estimator.split
        repeat = 0 if split == "full" else repeat
        layout, reward, mass, count = self.log.layout, self.log.reward, self.units.mass, self.units.count
        fold, half = self.folds.labels[repeat], self.folds.half[repeat]
        if block is not None:
            reward = self.column("reward", block)
            layout, count = Layout.single(len(reward)), constant(1.0, len(reward))
            mass = self.columns.block("weight", block) if "weight" in self.columns else count
            fold, half = (self.columns.block((name, repeat), block) for name in ("fold", "half"))
        pi_e = self.column(("pi_e", target.name), block)
        if "behavior" in estimator.needs:
            pi_b = self.column(self.names.behavior(split, repeat), block)
        else:
            pi_b = undeclared("pi_b", "behavior", len(pi_e))
        if "value" in estimator.needs:
            name = self.names.values(target, estimator, repeat)
            q, v = self.column(self.names.q(name), block), self.column(name, block)
        else:
            q, v = (undeclared(name, "value", len(pi_e)) for name in ("q", "v"))
        marginal = None
        if "marginal" in estimator.needs:
            marginal = self.column(("marginal", split, repeat, target.name), block)
        made = Decisions(
            layout,
            reward,
            pi_e,
            pi_b,
            q,
            v,
            self.discount,
            mass,
            marginal,
            count,
            fold if split == "crossfit" else None,
            regressed=marginal is not None and not self.log.is_discrete,
            whole=layout.is_single or not len(self.log.bootstrapped),
        )
        if split == "half":
            return made.part(np.flatnonzero(half))
        if block is None and "behavior" in estimator.needs:
            # Estimators of one split share their weights: the last used are kept where a cached property keeps its
            # value, so that `dataclasses.replace` leaves them behind.
            key, held = (target.name, split, repeat), self.cache.get("ratio")
            if held is None or held[0] != key:
                held = self.cache["ratio"] = (key, made.ratio)
            vars(made)["ratio"] = held[1]
        return made

    def behavior(self, split: Split, repeat: int) -> Behavior:
        """π_b of the logged actions in one split."""
        name = self.names.behavior(split, repeat)
        self.need([name])
        return Behavior(self.columns[name], self.columns.get(("raised", *name[1:])))

    def made(self, kind: Literal["v", "pi_b"]) -> list[Split]:
        """Splits in which v, or π_b, has been predicted already, out-of-fold ones first."""
        splits = {name[1] for name in self.columns if isinstance(name, tuple) and name[0] == kind}
        return [split for split in OUT_OF_FOLD_FIRST if split in splits or "given" in splits]

    def blend(self, target: str, estimator: Estimator) -> tuple[float, float]:
        """Shares of an estimate that rest on products of ratios over an episode, and on ratios of marginals times
        products of the steps since.
        """
        key = ("blend", target, self.keys.policies.get(target), estimator, *self.facets(estimator.split))
        products, looks_back = self.store.said.get(key, (None, None))
        return float(estimator.uses_products) if products is None else float(products), float(looks_back or 0.0)


def behavior_calibration(p: Problem, split: Split) -> CalibrationSums | None:
    """π_b of all actions against those taken; None where only the logged action's is known."""
    alone = p.specs.behavior_model is None and p.weights_known and not p.logs_distribution
    if alone or not p.store.log.space.finite:
        return None
    made: CalibrationSums | None = p.sums("calibration", split)
    return made


def _need_moving(p: Problem) -> None:
    """Refuse a model of values that predicts only the rows it was fitted on."""
    model = as_value_model(p.specs.model, p.opened)
    if not abilities(model).moves:
        raise UsageError(
            f"value_model={model!r} can only predict the rows it was fitted on, but a streamed log is predicted in "
            "blocks. Use FittedQ(…), or read the log into memory with way='rows'."
        )


def _rows(p: Problem) -> BanditLog:
    """All rows of a stream without their contexts."""
    columns, scan = p.columns, p.opened
    reward = columns["metric", scan.metrics[0]]
    if p.store.rows is None:
        cluster: Any = columns.get("cluster")
        if cluster is not None:
            cluster = np.unique(cluster, return_inverse=True)[1]
        batch: Any = columns.get("batch")
        weight: Any = columns.get("weight")
        p.store.rows = BanditLog(
            context=Context(np.empty((scan.n, 0)), names=scan.schema.roles.context, load=scan.column),
            space=scan.space,
            action=columns["action"],
            reward=reward,
            propensity=columns.get("propensity"),
            batch=batch,
            batch_labels=scan.batch_labels or (),
            cluster=cluster,
            weight=weight,
            names=scan.names,
            action_features=scan.schema.features,
        )
    made: BanditLog = replace(p.store.rows, reward=reward, names=scan.names)
    return made


def _target(p: Problem, name: str, policy: Any) -> Target:
    """What a policy is on the log, made once for all questions."""
    adapted = adapted_policies({name: policy}, p.store.log)[name]
    p.policies[name] = adapted
    # What is learned out of fold depends on the folds and on what is learned from.
    told = [p.keys.facets[part] for part in ("folds", "seed", "reward")]
    whole = (adapted, told) if getattr(adapted, "by_fold", False) else adapted
    what = p.keys.policies.setdefault(name, p.store.tokens.of(whole))
    if (name, what) not in p.store.targets:
        p.store.targets[name, what] = _resolved(p, name, adapted)
    return p.store.targets[name, what]


def _resolved(p: Problem, name: str, policy: Any) -> Target:
    log = p.store.log
    if not p.streams:
        if isinstance(policy, CrossFitted):
            return learned_target(name, policy, p.opened, p.block.nuisances)
        return resolve(name, policy, log)
    if getattr(policy, "by_fold", False):
        raise needs_rows(name)
    if isinstance(policy, Smoothed):
        return with_variants(name, policy, blank_target)
    shown = None
    if not p.by_rows:
        known = resolve(name, policy, next(iter(log.blocks()))).shown
        shown = None if known is None else np.empty(0)
    return Target(name, len(log.actions), True, None, None, shown=shown, note=note_of(policy))
