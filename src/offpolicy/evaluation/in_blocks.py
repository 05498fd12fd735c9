"""Episodes and slates whose contexts come in blocks: what is narrow is held, predictions are made block by block.

Rewards, items, propensities and the folds of all units are in memory, and so are the predictions, a few numbers per
decision. Contexts are read block by block: once to check them, once to fit, once to predict.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._progress import FITTING, track
from offpolicy.errors import UsageError
from offpolicy.evaluation.block import GIVEN, Block
from offpolicy.evaluation.memory import keeps_without_behavior
from offpolicy.evaluation.source import RowView, Specs, count_unfitted, keeps_without_reward
from offpolicy.inference.columns import Columns
from offpolicy.inference.reach import Reach, constant_propensities, largest_weight, masses, reach
from offpolicy.inference.units import Units
from offpolicy.models.behavior.logging_policy import as_logging_policy, is_given, is_known
from offpolicy.models.fitting.episodes import EpisodeFit
from offpolicy.models.fitting.store import BEHAVIOR, MRDR, REWARD, FitStore
from offpolicy.models.values.resolve import as_value_model
from offpolicy.policies.target import Target, adapted_policies, resolve
from offpolicy.splits.folds import Folds, part_keys
from offpolicy.splits.hashing import drawn
from offpolicy.trust.copies import SampleBlock, Sampled
from offpolicy.trust.sums import LogSums, log_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import BlockedLog
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Split


@dataclass(eq=False)
class InBlocks:
    """One block of columns, predicted in passes over blocks of whole units."""

    log: BlockedLog
    folds: Folds
    specs: Specs
    store: FitStore = field(default_factory=FitStore)
    columns: Columns = field(default_factory=Columns)
    said: dict[Any, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    policies: dict[str, Any] = field(default_factory=dict)
    sums: dict[Any, Any] = field(default_factory=dict)

    n_blocks: int = 1
    cells: None = None
    ratio: Any = None
    log_is_continuous: bool = False
    action_range: None = None

    @classmethod
    def of(cls, log: BlockedLog, folds: Folds, specs: Specs) -> InBlocks:
        """The source of a log that comes in blocks of whole units."""
        model = as_value_model(specs.value_model, log)
        if not getattr(model, "moves", False):
            raise UsageError(
                f"value_model={model!r} predicts the rows it was fitted on only, and a streamed log is predicted block "
                "by block. Use FittedQ(…), or read the log into memory with way='rows'."
            )
        return cls(log, folds, specs)

    @property
    def ratio_log(self) -> Any:
        """The log itself: ratios are of its items."""
        return self.log

    def adapted(self, named: dict[str, Any]) -> dict[str, Any]:
        """Policies, each adapted from the form it came in."""
        return adapted_policies(named, self.log)

    def adopt(self, renamed: Mapping[str, str], policies: Sequence[str]) -> None:
        """Nothing: there are no trials of bandwidths among labels."""

    def fit_notes(self, kind: int) -> list[str]:
        """What fitted models of a kind have to say about themselves."""
        return self.store.notes(kind)

    @property
    def weights_known(self) -> bool:
        """Whether the logged propensities are used as they are."""
        logged = self.log.propensity is not None
        return is_known(self.specs.behavior_model, of_ratios=logged, of_actions=logged)

    @property
    def behavior_given(self) -> bool:
        """Whether no behavior model is fitted."""
        return is_given(self.specs.behavior_model, known=self.weights_known)

    @property
    def regresses_ratios(self) -> bool:
        """Ratios of marginals are of episodes, which are in memory."""
        return False

    def units(self) -> Units:
        """The independent units."""
        log = self.log
        return Units(log.layout.n_units, log.count, log.weight, log.cluster, log.batch)

    def view(self, block: int | None) -> RowView:
        """All rows."""
        units = self.units()
        return RowView(self.log.layout, self.log.reward, units.mass, units.count, self.folds)

    def resolve(self, named: dict[str, Any]) -> dict[str, Target]:
        """Policies by name; they are asked block by block."""
        self.policies |= adapted_policies(named, self.log)
        head = next(iter(self.log.blocks()))
        k = len(self.log.actions)
        made = {}
        for name in named:
            known = resolve(name, self.policies[name], head).shown
            shown = None if known is None else np.empty(0)
            made[name] = Target(name, k, True, None, None, shown=shown)
        return made

    def prepare(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> None:
        """Fit what is missing, then predict what is missing, in one pass over the log."""
        for estimator in estimators:
            if estimator.emphasis is not None or "marginal" in estimator.needs:
                raise UsageError(
                    f"{estimator.name} fits models to the weights of all slates at once, which a streamed log does not "
                    "hold. Leave it out, or read the log into memory with way='rows'."
                )
        missing = [e for e in estimators if not all(self._has(e, t.name) for t in targets)]
        new = [t for t in targets if ("pi_e", t.name) not in self.columns]
        if not missing and not new:
            return
        names = [t.name for t in targets]
        with track(FITTING, self.unfitted(targets, estimators)):
            self._fit(names, _splits(self.folds, missing, "value"), self._behaviors(missing))
        self._pass(names, missing)

    def _behaviors(self, estimators: Sequence[Estimator]) -> list[tuple[Split, int]]:
        return [] if self.behavior_given else _splits(self.folds, estimators, "behavior")

    def _has(self, estimator: Estimator, target: str) -> bool:
        """Whether the columns are there which the score of an estimator looks at."""
        columns = self.columns
        for split, repeat in _splits(self.folds, [estimator], "value"):
            if not any(("v", s, repeat, target) in columns for s in self._shared(split)):
                return False
        for split, repeat in _splits(self.folds, [estimator], "behavior"):
            names = [GIVEN, *(("pi_b", s, repeat) for s in self._shared(split))]
            if not any(name in columns for name in names):
                return False
        return True

    def _shared(self, split: Split) -> tuple[Split, ...]:
        """With two folds a half-sample split takes the cross-fit's predictions over."""
        return ("half", "crossfit") if split == "half" and self.folds.half_is_a_fold else (split,)

    def _fit(
        self,
        names: Sequence[str],
        values: list[tuple[Split, int]],
        behaviors: list[tuple[Split, int]],
    ) -> None:
        keys = self.store.fits
        k = self.folds.k
        single = self.log.layout.is_single
        values = [
            each
            for each in values
            if any(
                (REWARD, "" if single else name, *key) not in keys
                for name in names
                for key in part_keys(*each, k)
            )
        ]
        behaviors = [
            each
            for each in behaviors
            if any((BEHAVIOR, *key) not in keys for key in part_keys(*each, k))
        ]
        if not values and not behaviors:
            return
        training, at = self._training()
        fitter = self._fits(training, _part(self.folds, at), names, self.store)
        for split, repeat in values:
            for target in fitter.targets:
                fitter.fit(split, repeat, target)
        for split, repeat in behaviors:
            for part in fitter.folds.parts(split, repeat):
                fitter.behaviors.fit(part)

    def _training(self) -> tuple[Any, Ints]:
        """Units in memory for the fits, all or as many as ``fit_rows`` allows, and which these are."""
        log = self.log
        share = log.fit_rows / log.rows
        parts, units, first = [], [], 0
        with track("reading", log.rows) as advance:
            for block in log.blocks():
                every = np.ones(block.n, dtype=bool)
                use = (
                    every if share >= 1 else np.asarray(drawn(block.units, share, self.specs.seed))
                )
                if use.any():
                    parts.append(block if share >= 1 else block.take(use))
                    units.append(first + np.flatnonzero(use))
                first += block.n
                advance(block.rows)
        training = log.gathered(parts)
        if share < 1:
            note = f"models were fitted on {training.rows:,} of {log.rows:,} rows (fit_rows=), drawn by a hash"
            self.notes = tuple(dict.fromkeys((*self.notes, note)))
        return training, np.concatenate(units)

    def _fits(
        self, log: BlockedLog, folds: Folds, names: Sequence[str], store: FitStore
    ) -> EpisodeFit:
        specs = self.specs
        targets = tuple(resolve(name, self.policies[name], log) for name in names)
        return EpisodeFit(
            log, folds, specs.value_model, specs.behavior_model, specs.seed, store, specs.discount,
            None, targets,
        )  # fmt: skip

    def _pass(
        self,
        names: Sequence[str],
        estimators: Sequence[Estimator],
        behaviors: Sequence[tuple[Split, int]] = (),
    ) -> None:
        """Predict every block; columns are put together in the order of the log."""
        parts: dict[Any, list[Any]] = {}
        reaches: dict[Any, Reach] = {}
        mass, square = masses(self.units())
        with track("reading and predicting", self.log.rows) as advance:
            for units, block, fits in self._fitted_blocks(names):
                columns, notes = Columns(limit=2**62), dict[Any, Any]()
                made = Block(0, block, fits.folds, fits, self.specs.discount, columns, notes)
                made.predict(fits.targets, estimators)
                for target in fits.targets:
                    made.pi_e(target)
                    for half, scored in ((False, 1.0), (True, fits.folds.half[0])):
                        key, unit = ("reach", target.name, half), block.layout.unit
                        masses_here = ((part[units] * scored)[unit] for part in (mass, square))
                        here = reach(block, target, *masses_here)
                        reaches[key] = reaches[key] + here if key in reaches else here
                for split, repeat in behaviors:
                    made.behavior(split, repeat)
                for name in columns:
                    parts.setdefault(name, []).append(columns[name])
                self.said |= {key: note for key, note in notes.items() if key not in self.said}
                advance(block.rows)
        self.sums |= reaches
        for name, values in parts.items():
            if name not in self.columns:
                self.columns.put(name, 0, np.concatenate(values))

    def _fitted_blocks(self, names: Sequence[str]) -> Iterator[tuple[slice, Any, EpisodeFit]]:
        """Blocks of the log, each with its units and the models of the whole."""
        sealed, first = FitStore(self.store.fits, sealed=True), 0
        for block in self.log.blocks():
            units = slice(first, first + block.n)
            yield units, block, self._fits(block, _part(self.folds, units), names, sealed)
            first += block.n

    def predict(
        self, target: Target, estimator: Estimator, repeat: int, together: Sequence[Target]
    ) -> None:
        """See to it that the columns are there which a score looks at."""
        if ("pi_e", target.name) not in self.columns or not self._has(estimator, target.name):
            self.prepare([target], [estimator])

    def unfitted(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> int:
        """How many models are still to be fitted for these estimates."""
        return count_unfitted(
            self.store.fits,
            (self.folds.k, self.folds.repeats),
            estimators,
            [t.name for t in targets],
            of_values=True,
            of_behavior=not self.behavior_given,
            by_policy=True,
        )

    def predict_behavior(self, split: Split, repeat: int) -> None:
        """See to it that π_b of one split is there."""
        if not self.behavior_given:
            self._fit([], [], [(split, repeat)])
        self._pass([], [], [(split, repeat)])

    def largest_weight(self, target: Target) -> float | None:
        """Largest weight that can occur, where logged propensities tell."""
        log = self.log
        if not log.layout.is_single or log.propensity is None:
            return None
        if not log.logs_distribution and np.isnan(constant_propensities(log)).all():
            return None
        return largest_weight(log, self.reach(target, half=False))

    def reach(self, target: Target, *, half: bool) -> Reach:
        """Where a target puts its mass: over all units, or the scored half."""
        made: Reach = self.sums["reach", target.name, half]
        return made

    def sampled(self, target: Target) -> Sampled:
        """What a target does in some of the contexts; of single decisions only."""
        parts = map(SampleBlock(target.name, self.policies[target.name]), self.log.blocks())
        return reduce(add, parts)

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Rows with π_b of all their items, where it is known or fitted; the log is passed over for it."""
        if (
            self.specs.behavior_model is None
            and self.weights_known
            and not self.log.logs_distribution
        ):
            return
        first = 0
        for _, block, fits in self._fitted_blocks([]):
            for rows, matrix in fits.behaviors.distributions(split):
                yield rows + first, matrix
            first += block.rows

    def log_sums(self) -> LogSums:
        """What checks need of contexts and whole distributions."""
        if "log" not in self.sums:
            found: LogSums | None = None
            with track("reading for the checks", self.log.rows) as advance:
                for block in self.log.blocks():
                    made = log_sums(block, rows=float(self.log.rows))
                    found = made if found is None else found + made
                    advance(block.rows)
            self.sums["log"] = found
        sums: LogSums = self.sums["log"]
        return sums

    def with_behavior(self, behavior_model: Any) -> InBlocks:
        """The same log with another π_b; value models may have looked at π_b and are fitted anew."""
        return replace(
            self,
            specs=replace(self.specs, behavior_model=as_logging_policy(behavior_model, self.log)),
            store=FitStore(),
            columns=self.columns.only(keeps_without_behavior(self.log.kind)),
            said={},
            sums=dict(self.sums),
            policies=dict(self.policies),
        )

    def with_reward(self, name: str, model: Any) -> InBlocks:
        """The same log and π_b with another metric as the reward."""
        return replace(
            self,
            log=self.log.with_reward(name),
            specs=replace(self.specs, value_model=model),
            store=self.store.without(REWARD, MRDR),
            columns=self.columns.only(keeps_without_reward, shared=True),
            said={key: note for key, note in self.said.items() if key[0] == "behavior"},
            sums={key: part for key, part in self.sums.items() if key != "log"},
            policies=dict(self.policies),
        )

    def with_exact_ratio(self) -> InBlocks:
        """The same source: its ratios are exact."""
        return self

    def close(self) -> None:
        """Give up fits that have not begun."""
        self.store.close()


def _splits(folds: Folds, estimators: Sequence[Estimator], need: str) -> list[tuple[Split, int]]:
    """(split, repetition) pairs in which some estimators need a prediction, each once."""
    return list(
        dict.fromkeys(
            (e.split, repeat)
            for e in estimators
            if need in e.needs
            for repeat in range(1 if e.split == "full" else folds.repeats)
        )
    )


def _part(folds: Folds, units: Any) -> Folds:
    """Folds of some units of the log."""
    return Folds(folds.labels[:, units], folds.half[:, units], folds.k)
