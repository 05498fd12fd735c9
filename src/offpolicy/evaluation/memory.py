"""A log in memory as the source of predictions: one block, predicted when a score asks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError
from offpolicy.evaluation.block import APART, OWN, Block
from offpolicy.evaluation.source import RowView, Specs, count_unfitted, keeps_without_reward
from offpolicy.inference.columns import Columns
from offpolicy.inference.reach import Reach, constant_propensities, largest_weight, masses, reach
from offpolicy.inference.units import Units
from offpolicy.logs.given import plain_numbers
from offpolicy.logs.layout import in_log_order
from offpolicy.models.behavior.logging_policy import as_logging_policy
from offpolicy.models.fitting.crossfit import CrossFit
from offpolicy.models.fitting.episodes import EpisodeFit
from offpolicy.models.fitting.policy_fits import learned_target
from offpolicy.models.fitting.store import BEHAVIOR, MRDR, REWARD, FitStore
from offpolicy.policies import target as targets
from offpolicy.policies.learned import CrossFitted
from offpolicy.policies.numbers import trial_stem
from offpolicy.trust.copies import Sampled, sampled
from offpolicy.trust.sums import LogSums, log_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.policies.coarse import Cells
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Split


@dataclass(eq=False)
class InMemory:
    """One block."""

    log: Log
    folds: Folds
    nuisances: Any
    discount: float
    columns: Columns = field(default_factory=Columns)
    said: dict[Any, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    n_blocks: int = 1
    cells: Cells | None = None
    ratio: Any = None
    keeps_sums: bool = (
        True  # of a further metric they are made when its checks ask, once, and not held
    )

    @classmethod
    def of(cls, log: Log, folds: Folds, specs: Specs) -> InMemory:
        """The source of a log in memory."""
        nuisances = nuisances_of(log, folds, specs)
        return cls(log, folds, nuisances, specs.discount, cells=specs.cells, ratio=specs.ratio)

    @property
    def ratio_log(self) -> Any:
        """The log whose actions the ratios are of: cells of actions, where ratios are coarse."""
        return self.nuisances.behaviors.log

    @property
    def log_is_continuous(self) -> bool:
        """Whether actions are numbers."""
        return bool(self.log.is_continuous)

    @property
    def action_range(self) -> Any:
        """Range of actions that are numbers."""
        return self.log.action_range

    def adapted(self, named: dict[str, Any]) -> dict[str, Any]:
        """Policies, each adapted from the form it came in."""
        return targets.adapted_policies(named, self.log)

    def adopt(self, renamed: Mapping[str, str], policies: Sequence[str]) -> None:
        """Drop the trials: densities of those that stay are computed anew when asked for."""
        self.columns.drop(lambda name: is_trial(name, policies))

    @cached_property
    def block(self) -> Block:
        """The log as a block."""
        return Block(
            0,
            self.log,
            self.folds,
            self.nuisances,
            self.discount,
            self.columns,
            self.said,
            self.cells,
        )

    def fit_notes(self, kind: int) -> list[str]:
        """What fitted models of a kind have to say about themselves."""
        notes: list[str] = self.nuisances.store.notes(kind)
        return notes

    @property
    def weights_known(self) -> bool:
        """Whether the logged propensities are used as they are."""
        return bool(self.nuisances.behaviors.is_known)

    @property
    def behavior_given(self) -> bool:
        """Whether no behavior model is fitted."""
        return bool(self.nuisances.behaviors.is_given)

    @property
    def regresses_ratios(self) -> bool:
        """Whether ratios of marginals are a regression on a continuous state: neither counted nor given."""
        return bool(self.nuisances.regresses_ratios)

    def units(self) -> Units:
        """The independent units."""
        log = self.log
        return Units(log.layout.n_units, log.count, log.weight, log.cluster, log.batch)

    def view(self, block: int | None) -> RowView:
        """All rows."""
        units = self.units()
        return RowView(self.log.layout, self.log.reward, units.mass, units.count, self.folds)

    def resolve(self, named: dict[str, Any]) -> dict[str, Target]:
        """Policies, in whichever form, against this log."""
        resolved = {
            name: learned_target(name, policy, self.log, self.nuisances)
            if isinstance(policy, CrossFitted)
            else targets.resolve(name, policy, self.log)
            for name, policy in self.adapted(named).items()
        }
        if not self.nuisances.targets:
            self.nuisances = replace(self.nuisances, targets=tuple(resolved.values()))
            vars(self).pop("block", None)
        return resolved

    def prepare(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> None:
        """Begin fits on threads; scores are made meanwhile."""
        splits = [
            (e.split, repeat)
            for e in estimators
            if "value" in e.needs and e.emphasis is None
            for repeat in range(1 if e.split == "full" else self.folds.repeats)
        ]
        self.nuisances.prepare(list(dict.fromkeys(splits)))

    def predict(
        self, target: Target, estimator: Estimator, repeat: int, together: Sequence[Target]
    ) -> None:
        """See to it that the columns are there which a score looks at."""
        block = self.block
        block.pi_e(target)
        if "behavior" in estimator.needs:
            block.behavior(estimator.split, repeat)
        if "value" in estimator.needs:
            block.values(target, estimator, repeat, together)
        if "marginal" in estimator.needs:
            block.marginal(target, estimator.split, repeat)

    def unfitted(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> int:
        """How many models are still to be fitted for these estimates, as far as can be told."""
        single = self.log.kind == "bandit"
        spec = self.nuisances.reward_model if single else self.nuisances.value_model
        return count_unfitted(
            self.nuisances.store.fits,
            (self.folds.k, self.folds.repeats),
            estimators,
            [t.name for t in targets],
            of_values=not isinstance(spec, np.ndarray | dict),
            of_behavior=not self.behavior_given,
            by_policy=not single,
        )

    def predict_behavior(self, split: Split, repeat: int) -> None:
        """See to it that π_b of one split is there."""
        self.block.behavior(split, repeat)

    def largest_weight(self, target: Target) -> float | None:
        """Largest weight that can occur, where logged propensities tell."""
        key = ("largest", target.name)
        if key not in self.said:
            self.said[key] = self._largest_weight(target)
        bound: float | None = self.said[key]
        return bound

    def _largest_weight(self, target: Target) -> float | None:
        log = self.ratio_log
        if not log.layout.is_single or log.propensity is None or log.is_continuous:
            return None
        # The reach asks the target about every context: not where the answer is None whatever it says.
        if log.distribution is None and np.isnan(constant_propensities(log)).all():
            return None
        return largest_weight(log, self.reach(target, half=False))

    def reach(self, target: Target, *, half: bool) -> Reach:
        """Where a target puts its mass: over all units, or the scored half."""
        key = ("reach", target.name, half)
        if key not in self.said:
            mass, square = masses(self.units())
            scored = self.folds.half[0] if half else np.ones(len(mass), dtype=bool)
            unit = self.log.layout.unit
            seen = target if self.cells is None else self.cells.target(target)
            self.said[key] = reach(
                self.ratio_log, seen, (mass * scored)[unit], (square * scored)[unit]
            )
        made: Reach = self.said[key]
        return made

    def sampled(self, target: Target) -> Sampled:
        """What a target does in some of the contexts."""
        return sampled(self.log, target)

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Rows with π_b of all their actions, where it is known or fitted."""
        yield from self.nuisances.behaviors.distributions(split)

    def log_sums(self) -> LogSums:
        """What checks need of contexts and whole distributions."""
        if not self.keeps_sums:
            return log_sums(self.log)
        if "log sums" not in self.said:
            self.said["log sums"] = log_sums(self.log)
        sums: LogSums = self.said["log sums"]
        return sums

    def with_behavior(self, behavior_model: Any) -> InMemory:
        """The same log with another π_b; value models that may have looked at π_b are fitted anew."""
        given = in_log_order(as_logging_policy(behavior_model, self.log), self.log)
        return InMemory(
            self.log,
            self.folds,
            self.nuisances.with_behavior(given),
            self.discount,
            self.columns.only(keeps_without_behavior(self.log.kind)),
            {k: v for k, v in self.said.items() if k == "log sums" or k[0] in {"largest", "reach"}},
            self.notes,
            cells=self.cells,
            ratio=self.ratio,
        )

    def with_exact_ratio(self) -> InMemory:
        """The same log with ratios, and reward models, of actions."""
        store = self.nuisances.store.without(BEHAVIOR, MRDR, REWARD)
        return InMemory(
            self.log,
            self.folds,
            replace(self.nuisances, cells=None, store=store),
            self.discount,
            self.columns.only(keeps_without_ratio),
            {k: v for k, v in self.said.items() if k == "log sums"},
            self.notes,
        )

    def with_reward(self, name: str, model: Any) -> InMemory:
        """The same log and π_b with another metric as the reward."""
        log = self.log.with_reward(name)
        same = {"largest", "reach", "behavior", "marginal"}
        return InMemory(
            log,
            self.folds,
            self.nuisances.with_reward(log, in_log_order(as_array(model), log)),
            self.discount,
            self.columns.only(keeps_without_reward, shared=True),
            {k: v for k, v in self.said.items() if k[0] in same},
            self.notes,
            cells=self.cells,
            ratio=self.ratio,
            keeps_sums=False,
        )

    def close(self) -> None:
        """Give up fits that have not begun."""
        self.nuisances.store.close()


def is_trial(name: Any, policies: Sequence[str]) -> bool:
    """Whether a column was made to try a bandwidth of one of some policies."""
    return isinstance(name, tuple) and any(
        isinstance(name[-1], str) and name[-1].startswith(trial_stem(policy)) for policy in policies
    )


def keeps_without_behavior(kind: str) -> Any:
    """Which columns do not depend on π_b: π_e always, and q and v of single decisions but MRDR's."""

    def keeps(name: Any) -> bool:
        if not isinstance(name, tuple) or name[0] in {"pi_e", APART, "fold", "half", "metric"}:
            return True
        if name[:2] == (OWN, "pi_e"):
            return True
        return kind == "bandit" and name[0] in {"q", "v"} and not name[1].startswith("mrdr")

    return keeps


def keeps_without_ratio(name: Any) -> bool:
    """Which columns of a bandit log do not depend on what ratios are of: those of the log itself."""
    if not isinstance(name, tuple):
        return True
    return name[0] in {"fold", "half", "metric"}


def nuisances_of(log: Log, folds: Folds, specs: Specs) -> Any:
    """The models of a log in memory, as its kind needs them."""
    store = FitStore(n_jobs=specs.n_jobs)
    behavior = in_log_order(as_array(specs.behavior_model), log)
    if log.kind == "bandit":
        reward = in_log_order(as_array(specs.reward_model), log)
        return CrossFit(log, folds, reward, behavior, specs.seed, store, cells=specs.cells)
    return EpisodeFit(
        log,
        folds,
        in_log_order(as_array(specs.value_model), log),
        behavior,
        specs.seed,
        store,
        specs.discount,
        in_log_order(as_array(specs.ratio_model), log),
    )


def as_array(model: Any) -> Any:
    """Arrays and nested lists as numbers, checked; everything else is left as it is."""
    if isinstance(model, list | tuple | np.ndarray):
        return plain_numbers(model, "an array of predictions", ModelError)
    return model
