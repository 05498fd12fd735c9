"""Cross-fitting: every nuisance is fitted on a split's training units and predicts the others.

Fits are kept by the training units they saw, so that the half-sample and cross-fitted estimators share them. Where a
unit is one decision, all policies share a model of the reward, and predictions are made for the pairs (context, action)
that a score needs: the logged action, and actions with π_e > 0. Value models of episodes and ratios of marginals depend
on the policy, so that there is one fit for every policy and training set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import MOST_LOG, or_ones, picked
from offpolicy._threads import few_threads
from offpolicy.errors import ModelError, did_you_mean
from offpolicy.logs.given import plain_numbers
from offpolicy.logs.outcome import learned
from offpolicy.models.fitting.behavior_fits import BehaviorFits
from offpolicy.models.fitting.predictions import OfCells, given_numbers, given_values
from offpolicy.models.fitting.store import MRDR, RATIO, REWARD, FitStore, Ratios, Specs, Values, note_of, seed_of
from offpolicy.models.fitting.tables import Tables, abilities, merged, part_of, sorted_rows
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import FittedReward, RewardData
from offpolicy.models.values.auto_q import as_value_model
from offpolicy.models.values.marginal import MarginalRatio
from offpolicy.models.values.values import StatePolicy, ValueData, check_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.store import Key
    from offpolicy.policies.target import Target
    from offpolicy.splits.folds import Folds, Part, Split

FEWEST = 50


@dataclass(frozen=True, eq=False)
class Nuisances:
    """What models predict of a log, or of a block of one, made when first asked for and kept.

    Attributes
    ----------
    specs : Specs
        Arrays are predictions made elsewhere and serve every split.
    store : FitStore
    targets : tuple of Target
        Policies that a behavior model may be told of.
    """

    log: Log
    folds: Folds
    specs: Specs
    store: FitStore
    targets: tuple[Target, ...] = ()

    @cached_property
    def tables(self) -> Tables:
        """What learners read of the log."""
        return Tables(self.log)

    @cached_property
    def behaviors(self) -> BehaviorFits:
        """π_b in every split: of actions, or of the cells of actions that the ratios are of."""
        specs, ratios = self.specs, self.specs.ratios
        log, targets = ratios.log(self.log), tuple(map(ratios.target, self.targets))
        return BehaviorFits(
            log, self.folds, specs.behavior_model, specs.seed, self.store, self.tables, targets, self.log, ratios
        )

    @cached_property
    def _model(self) -> tuple[Any, bool]:
        """What is fitted to rewards, and whether it is of one policy.

        An episode of one step is an impression: the same fit on the same rows.
        """
        if self.log.unit_kind.decides_once:
            return as_reward_model(self.specs.model), False
        model = as_value_model(self.specs.model, self.log)
        one_step = abilities(model).one_step if self.log.layout.is_single else None
        return (model, True) if one_step is None else (as_reward_model(one_step), False)

    # -- q and v -----------------------------------------------------------------------------------------

    def values(
        self, split: Split, repeat: int, targets: list[Target], emphasis: Floats | None = None, tag: str = ""
    ) -> dict[str, Values]:
        """Q and v of every target in one split.

        ``emphasis`` multiplies the training weights (MRDR); ``tag`` keeps such fits apart.
        """
        if self.specs.is_given:
            return self._given_values(targets, emphasis)
        alone = self._model[1]
        predicted = self._predicted_values if alone else self._predicted_rewards
        made: dict[str, Values] = {}
        for group in [[t] for t in targets] if alone else [targets]:
            fits = self._fits(self.folds.parts(split, repeat), group[0], emphasis, tag)
            made |= predicted(fits, group, tag)
        return made

    def fit(self, split: Split, repeat: int) -> None:
        """Fit the models of a split, for every target where they are of one, without predicting anything."""
        parts = self.folds.parts(split, repeat)
        for target in self.targets if self._model[1] else (None,):
            list(self._fits(parts, target))

    def prepare(self, splits: Sequence[tuple[Split, int]]) -> None:
        """Begin the fits of some (split, repetition) pairs, where there are threads and all policies share them."""
        if not self.specs.is_given and not self._model[1]:
            for split, repeat in splits:
                self.store.start(*self._makers(self.folds.parts(split, repeat), None))

    def _makers(
        self, parts: list[Part], target: Target | None, emphasis: Floats | None = None, tag: str = ""
    ) -> tuple[list[Key], list[Callable[[], Any]]]:
        """Keys of the fits of some parts, and functions that make them."""
        (model, alone), kind = self._model, MRDR if tag else REWARD
        if alone:
            assert target is not None
            own: Any = partial(self._fit_values, model, target, emphasis=emphasis, kind=kind)
            return [(kind, target.name, *part.key) for part in parts], [partial(own, part) for part in parts]
        shared = partial(self.fit_reward, model, emphasis=emphasis, kind=kind)
        return [(kind, tag, *part.key) for part in parts], [partial(shared, part) for part in parts]

    def _fits(
        self, parts: list[Part], target: Target | None, emphasis: Floats | None = None, tag: str = ""
    ) -> Iterator[tuple[Part, Ints, Any]]:
        """Every part with the rows it scores and its fit, in turn."""
        for part, fit in zip(parts, self.store.get_all(*self._makers(parts, target, emphasis, tag)), strict=True):
            yield part, self.log.layout.rows_of(part.score), fit

    def _predicted_rewards(
        self, fits: Iterator[tuple[Part, Ints, Any]], targets: list[Target], _: str
    ) -> dict[str, Values]:
        log, model = self.log, self._model[0]
        q = np.full(len(log.action), np.nan)
        v = {t.name: np.full(len(log.action), np.nan) for t in targets}
        for _part, rows, made in fits:
            if len(rows) == 0:  # a block of a larger log may hold none of a fold
                continue
            fit = made if self.specs.ratios.models_actions else OfCells(made, self.specs.ratios)
            features, taken = self.tables.for_model(model), part_of(log.action, rows)
            with few_threads(len(rows)):
                q[rows], values = log.space.predict(
                    fit, features, log.context, rows, taken, targets, self.tables.of_action
                )
            for name, value in values.items():
                v[name][rows] = value
        return {name: Values(q, value) for name, value in v.items()}

    def fit_reward(self, model: Any, part: Part, emphasis: Floats | None, kind: int) -> FittedReward:
        """A reward model fitted on the training units of a part, to rewards made of these units alone."""
        log = learned(self.log, part)
        if log is not self.log:
            other = replace(self, log=log)
            vars(other)["tables"] = self.tables.with_reward(log)
            return other.fit_reward(model, part, emphasis, kind)
        rows, weight, count = self._training_rows(model, part.training, emphasis)
        action, ratios = part_of(log.action, rows), self.specs.ratios
        data = RewardData(
            self.tables.pairs(model, log.context.positions(rows), action),
            ratios.told(action),
            part_of(log.reward, rows),
            weight,
            ratios.told_labels(log.actions),
            log.names.action,
            count,
        )
        with few_threads(len(rows)):
            fit: FittedReward = model.fit_reward(data, seed_of(self.specs.seed, kind, part.key))
        return fit

    def _training_rows(
        self, model: Any, train: Ints, emphasis: Floats | None
    ) -> tuple[Ints, Floats | None, Floats | None]:
        """Rows a model is fitted on, with their weights and counts."""
        log, tables = self.log, self.tables
        rows = log.layout.rows_of(train)
        index: Any = log.context.index
        counted = index is not None and log.is_counted
        if tables.merges(model):
            rows = tables.in_order(rows)
        elif counted:  # cells that differ in another metric only are alike here
            rows = rows[sorted_rows(index[rows], log.action[rows], log.reward[rows])]
        weight, count = tables.mass(rows), tables.count(rows)
        if emphasis is not None:
            weight = emphasis[rows] if weight is None else weight * emphasis[rows]
            some = weight > 0
            rows, weight = rows[some], weight[some]
            count = picked(count, some)
            if len(rows) == 0:
                raise ModelError(
                    "MRDR: no training row has a positive weight because the policy never takes a logged action."
                )
        if tables.merges(model) or counted:
            one = np.ones(len(rows))
            each = merged(
                (tables.codes if tables.merges(model) else index, log.action, log.reward),
                rows,
                one if weight is None else weight,
                one if count is None else count,
            )
            return each.rows, each.weight, each.count
        return rows, weight, count

    def _predicted_values(
        self, fits: Iterator[tuple[Part, Ints, Any]], targets: list[Target], tag: str
    ) -> dict[str, Values]:
        log, model, target = self.log, self._model[0], targets[0]
        q, v = np.full(len(log.action), np.nan), np.full(len(log.action), np.nan)
        missed, keys, said = 0.0, list[Any](), dict[str, None]()
        for part, rows, made in fits:
            said[note_of(made)] = None
            keys.append((MRDR if tag else REWARD, target.name, *part.key))
            if len(rows) == 0:  # a block of a larger log may hold none of a fold
                continue
            # A block of a larger log is predicted by models that were fitted to others.
            fit = made.moved(self._data(target, replace(part, train=part.score))) if self.store.sealed else made
            what = f"{type(model).__name__}.predict"
            q[rows], v[rows] = (plain_numbers(p, what, ModelError) for p in fit.predict(rows))
            check_finite(q[rows], model)
            check_finite(v[rows], model)
            missed += self._unseen_mass(fit, target, rows)
        # A fit is of one policy: what it predicts is here, and it may be large.
        self.store.spend(keys)
        # Where an episode was truncated nothing is known of what followed: v stands in, and no residual is taken.
        at = log.bootstrapped
        q[at] = np.where(np.isnan(q[at]), q[at], log.reward[at])
        notes = [*said, _unseen_note(missed / len(keys))]
        return {target.name: Values(q, v, "; ".join(note for note in notes if note))}

    def _fit_values(self, model: Any, target: Target, part: Part, *, emphasis: Floats | None, kind: int) -> Any:
        data = self._data(target, part, emphasis)
        with few_threads(len(data.rows)):
            fit = model.fit_values(data, seed_of(self.specs.seed, kind, part.key))
        data.let_go()
        return fit

    def _data(self, target: Target, part: Part, emphasis: Floats | None = None) -> ValueData:
        rows = self.log.layout.rows_of(part.training)
        weight = self.tables.mass(rows)
        if emphasis is not None:
            weight = emphasis[rows] if weight is None else weight * emphasis[rows]
            if not (weight > 0).any():
                raise ModelError(
                    "MRDR: no training step has a positive weight because the policy never takes a logged action."
                )
        return ValueData(
            learned(self.log, part),
            rows,
            StatePolicy(target, self.log),
            self.specs.discount,
            weight,
            self.tables.of,
            partial(self._training_ratio, target, part, rows),
        )

    def _unseen_mass(self, fit: Any, target: Target, rows: Ints) -> float:
        """Mean probability π_e gives to pairs the training fold never saw, over the scored steps."""
        seen = getattr(fit, "seen", None)
        if seen is None or bool(seen.all()):
            return 0.0
        state = self.log.context.positions(rows)
        policy = StatePolicy(target, self.log)
        return float((policy.at_rows(rows) * ~seen[state]).sum(axis=1).mean())

    def marginal(self, split: Split, repeat: int, target: Target, pi_e: Floats) -> Ratios:
        """w_t at the logged steps, from ratios fitted in the training folds."""
        log = self.log
        given = self._given(self.specs.ratio_model, target, "ratio_model")
        if given is not None:
            if given.shape != log.action.shape or not np.isfinite(given).all() or (given < 0).any():
                raise ModelError(
                    f"ratio= must hold one finite ratio ≥ 0 per step: shape {log.action.shape}. Got {given.shape}."
                )
            return Ratios(given)
        scored_pi_b = self.behaviors.of_split(split, repeat).probability
        model = _ratio_model(self.specs, self.log)
        out = np.full(len(log.action), np.nan)
        off = 0.0
        for part in self.folds.parts(split, repeat):
            data = self._data(target, part)
            make = partial(self._fit_ratio, model, data, part, pi_e)
            fit = self.store.get((RATIO, target.name, *part.key), make)
            rows = log.layout.rows_of(part.score)
            step = pi_e[rows] / scored_pi_b[rows]
            raw = fit.predict(rows, earlier_products(step, rows, log)) * step
            out[rows], gap = normalized(raw, rows, log, fit.alive, self.tables.mass)
            off = max(off, gap)
            data.let_go()
            self.store.spend([(RATIO, target.name, *part.key)])
        return Ratios(out, off)

    def _fit_ratio(self, model: Any, data: ValueData, part: Part, pi_e: Floats) -> Any:
        pi_b = self.behaviors.of_training(part, data.rows)
        seed = seed_of(self.specs.seed, RATIO, part.key)
        return model.fit_ratio(data, pi_e[data.rows], pi_b, seed)

    def _training_ratio(self, target: Target, part: Part, rows: Ints) -> Floats:
        policy = StatePolicy(target, self.log)
        pi_e = policy.at_rows(rows)[np.arange(len(rows)), self.log.action[rows]]
        return np.asarray(pi_e / self.behaviors.of_training(part, rows))

    # -- predictions made elsewhere ----------------------------------------------------------------------

    def _given_values(self, targets: list[Target], emphasis: Floats | None) -> dict[str, Values]:
        if self.log.unit_kind.decides_once and isinstance(self.specs.model, Mapping):
            if self.log.space.finite:
                as_reward_model(self.specs.model)  # refuses it
            return given_numbers(self.specs.model, self.log, targets)
        note = "" if emphasis is None else "MRDR equals DR here because predictions were given"
        made = {t.name: self._given(self.specs.model, t, "value_model") for t in targets}
        return {t.name: replace(given_values(np.asarray(made[t.name]), self.log, t), note=note) for t in targets}

    def _given(self, spec: Any, target: Target, name: str) -> Floats | None:
        """Predictions made elsewhere: one array, or one for each policy."""
        if isinstance(spec, Mapping):
            if target.name not in spec:
                raise ModelError(f"{name}= has no array for policy {target.name!r}.{did_you_mean(target.name, spec)}")
            return plain_numbers(spec[target.name], f"value_model[{target.name!r}]", ModelError)
        return spec if isinstance(spec, np.ndarray) else None


def _ratio_model(specs: Specs, log: Log) -> MarginalRatio:
    """What is fitted to ratios of marginals."""
    if specs.ratio_model is None:
        by_step = abilities(specs.model).time == "step" and log.is_discrete
        return MarginalRatio("step" if by_step else "pooled")
    if not hasattr(specs.ratio_model, "fit_ratio"):
        raise ModelError(
            "ratio= must be offpolicy.models.MarginalRatio(…), a (steps,) array or None. "
            f"Got {specs.ratio_model!r} instead."
        )
    chosen: MarginalRatio = specs.ratio_model
    return chosen


def earlier_products(ratio: Floats, rows: Ints, log: Log) -> Floats:
    """(m,) product of the ratios of the steps before each, inside its episode; rows are whole episodes."""
    with np.errstate(divide="ignore"):
        logs = np.log(ratio)
    dead = np.isneginf(logs)
    sums = np.cumsum(np.where(dead, 0.0, logs))
    gone = np.cumsum(dead)
    first = np.flatnonzero(log.layout.step[rows] == 0)
    start = np.repeat(first, np.diff(np.append(first, len(rows))))
    before = np.where(start > 0, sums[start - 1], 0.0)
    lost = gone - dead - np.where(start > 0, gone[start - 1], 0)
    product = np.exp(np.minimum(sums - np.where(dead, 0.0, logs) - before, MOST_LOG))
    return np.where(lost > 0, 0.0, product)


def normalized(ratio: Floats, rows: Ints, log: Log, alive: Floats, mass_of: Any) -> tuple[Floats, float]:
    """Ratios whose mean over the episodes of each step is the probability that the target is still running.

    Steps at which fewer than 50 episodes run are left as they are: their mean is mostly noise. Also gives how far
    the means of the others were from it, as the largest of |log| over steps.
    """
    mass = mass_of(rows)
    weight = or_ones(mass, len(rows))
    step = log.layout.step[rows]
    first = step == 0
    size = float(weight[first].sum())
    total = np.bincount(step, weights=weight * ratio, minlength=len(alive))[: len(alive)]
    count = np.bincount(step, minlength=len(alive))[: len(alive)]
    judged = (count >= FEWEST) & (total > 0) & (alive > 0)
    factor = np.where(judged, alive * size / np.where(total > 0, total, 1.0), 1.0)
    # A mean that is off by more than a half is no matter of normalization.
    off = float(np.abs(np.log(factor[judged])).max(initial=0.0))
    return ratio * np.clip(factor, 1 / 1.5, 1.5)[np.minimum(step, len(alive) - 1)], off


def _unseen_note(share: float) -> str:
    if share == 0:
        return ""
    return (
        f"{share:.1%} of the policy's probability is on state-action pairs that are not in the training folds; "
        "the value model guesses there, and the interval does not account for it"
    )
