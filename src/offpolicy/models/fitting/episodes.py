"""Cross-fitting of episodes: each nuisance is fitted on the training episodes of a split only.

Behavior models are fitted as for single decisions, on the same folds; value models and ratios of marginals depend
on the policy, so there is one fit for every policy and training set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import MOST_LOG
from offpolicy._threads import few_threads
from offpolicy.errors import ModelError, did_you_mean
from offpolicy.logs.given import plain_numbers
from offpolicy.models.fitting.behavior_fits import behaviors_of
from offpolicy.models.fitting.crossfit import CrossFit, given_values
from offpolicy.models.fitting.predicted import Ratios, Values
from offpolicy.models.fitting.store import MRDR, RATIO, REWARD, FitStore, seed_of
from offpolicy.models.fitting.tables import tables_of
from offpolicy.models.values.marginal import MarginalRatio
from offpolicy.models.values.resolve import as_value_model
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
class EpisodeFit:
    """Nuisances of a trajectory log, made when first asked for and kept."""

    log: Log
    folds: Folds
    value_model: Any
    behavior_model: Any
    seed: int
    store: FitStore
    discount: float = 1.0
    ratio_model: Any = None
    targets: tuple[Target, ...] = ()

    tables = cached_property(tables_of)
    behaviors = cached_property(behaviors_of)

    @property
    def regresses_ratios(self) -> bool:
        """Whether ratios of marginals are a regression on a continuous state: neither counted nor given."""
        fits = self.ratio_model is None or hasattr(self.ratio_model, "fit_ratio")
        return fits and not self.log.is_discrete

    def prepare(self, splits: Sequence[tuple[Split, int]]) -> None:
        """Nothing yet: what is fitted depends on the target."""

    def values(
        self, split: Split, repeat: int, targets: list[Target], emphasis: Floats | None = None, tag: str = ""
    ) -> dict[str, Values]:
        """Q and v of every target in one split; ``emphasis`` multiplies the training weights (MRDR)."""
        return {t.name: self._values_of(split, repeat, t, emphasis, tag) for t in targets}

    def _values_of(self, split: Split, repeat: int, target: Target, emphasis: Floats | None, tag: str) -> Values:
        log = self.log
        given = self._given(self.value_model, target, "value_model")
        if given is not None:
            return given_values(given, log, target)
        model = as_value_model(self.value_model, log)
        one_step = self._one_step(model)
        if one_step is not None:
            return one_step.values(split, repeat, [target], emphasis, tag)[target.name]
        parts = self.folds.parts(split, repeat)
        q, v = np.full(len(log.action), np.nan), np.full(len(log.action), np.nan)
        missed, said = 0.0, []
        fits = self._fits(model, split, repeat, target, emphasis, tag)
        for part, made in zip(parts, fits, strict=True):
            rows = log.layout.rows_of(part.score)
            said.append(getattr(made, "note", ""))
            if len(rows) == 0:  # a block of a larger log may hold none of a fold
                continue
            # A block of a larger log is predicted by models that were fitted to others.
            here = replace(part, train=part.score)
            fit = made.moved(self._data(target, here)) if self.store.sealed else made
            what = f"{type(model).__name__}.predict"
            q[rows], v[rows] = (plain_numbers(p, what, ModelError) for p in fit.predict(rows))
            check_finite(q[rows], model)
            check_finite(v[rows], model)
            missed += self._unseen_mass(fit, target, rows)
        # A fit is of one policy: what it predicts is here, and it may be large.
        kind = MRDR if tag else REWARD
        self.store.spend([(kind, target.name, *part.key) for part in parts])
        # Where an episode was truncated nothing is known of what followed: v stands in, and no residual is taken.
        at = log.bootstrapped
        q[at] = np.where(np.isnan(q[at]), q[at], log.reward[at])
        notes = [*dict.fromkeys(said), _unseen_note(missed / len(parts))]
        return Values(q, v, "; ".join(note for note in notes if note))

    def fit(self, split: Split, repeat: int) -> None:
        """Fit the value models of a split for every target without predicting anything."""
        model = as_value_model(self.value_model, self.log)
        one_step = self._one_step(model)
        if one_step is not None:
            one_step.fit(split, repeat)
            return
        for target in self.targets:
            list(self._fits(model, split, repeat, target))

    def _one_step(self, model: Any) -> CrossFit | None:
        """An episode of one step is an impression: the same fit on the same rows."""
        if not self.log.layout.is_single or not hasattr(model, "one_step"):
            return None
        spec, behavior = model.one_step, self.behavior_model
        return CrossFit(self.log, self.folds, spec, behavior, self.seed, self.store)

    def _fits(
        self, model: Any, split: Split, repeat: int, target: Target, emphasis: Floats | None = None, tag: str = ""
    ) -> Iterator[Any]:
        """The fit of each part of a split, in turn."""
        parts = self.folds.parts(split, repeat)
        kind = MRDR if tag else REWARD
        keys: list[Key] = [(kind, target.name, *part.key) for part in parts]
        fit_part = partial(self._fit_values, model, target, emphasis=emphasis, kind=kind)
        makers: list[Callable[[], Any]] = [partial(fit_part, part) for part in parts]
        return self.store.get_all(keys, makers)

    def _fit_values(self, model: Any, target: Target, part: Part, *, emphasis: Floats | None, kind: int) -> Any:
        data = self._data(target, part, emphasis)
        with few_threads(len(data.rows)):
            fit = model.fit_values(data, seed_of(self.seed, kind, part.key))
        data.let_go()
        return fit

    def _data(self, target: Target, part: Part, emphasis: Floats | None = None) -> ValueData:
        rows = self.log.layout.rows_of(part.training)
        weight = self.tables.mass(rows)
        if emphasis is not None:
            weight = emphasis[rows] if weight is None else weight * emphasis[rows]
            if not (weight > 0).any():
                raise ModelError("MRDR: no training step has a positive weight, since the target shares no action.")
        return ValueData(
            self.log,
            rows,
            StatePolicy(target, self.log),
            self.discount,
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
        given = self._given(self.ratio_model, target, "ratio_model")
        if given is not None:
            if given.shape != log.action.shape or not np.isfinite(given).all() or (given < 0).any():
                raise ModelError(
                    f"ratio= must hold one finite ratio ≥ 0 per step: shape {log.action.shape}. Got {given.shape}."
                )
            return Ratios(given)
        scored_pi_b = self.behaviors.of_split(split, repeat).probability
        model = self._ratio_model()
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

    def _ratio_model(self) -> MarginalRatio:
        if self.ratio_model is not None:
            if not hasattr(self.ratio_model, "fit_ratio"):
                raise ModelError(
                    "ratio= must be offpolicy.models.MarginalRatio(…), a (steps,) array or None. "
                    f"Got {self.ratio_model!r} instead."
                )
            chosen: MarginalRatio = self.ratio_model
            return chosen
        time = getattr(self.value_model, "time", "pooled")
        return MarginalRatio("step" if time == "step" and self.log.is_discrete else "pooled")

    def _fit_ratio(self, model: Any, data: ValueData, part: Part, pi_e: Floats) -> Any:
        pi_b = self.behaviors.of_training(part, data.rows)
        seed = seed_of(self.seed, RATIO, part.key)
        return model.fit_ratio(data, pi_e[data.rows], pi_b, seed)

    def _training_ratio(self, target: Target, part: Part, rows: Ints) -> Floats:
        policy = StatePolicy(target, self.log)
        pi_e = policy.at_rows(rows)[np.arange(len(rows)), self.log.action[rows]]
        return np.asarray(pi_e / self.behaviors.of_training(part, rows))

    def _given(self, spec: Any, target: Target, name: str) -> Floats | None:
        """Predictions made elsewhere: one array, or one for each policy."""
        if isinstance(spec, Mapping):
            if target.name not in spec:
                raise ModelError(f"{name}= has no array for policy {target.name!r}.{did_you_mean(target.name, spec)}")
            return plain_numbers(spec[target.name], f"value_model[{target.name!r}]", ModelError)
        return spec if isinstance(spec, np.ndarray) else None


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
    weight = np.ones(len(rows)) if mass is None else mass
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
        f"{share:.1%} of the target's probability falls on state-action pairs that the training folds "
        "never saw: the value model guesses there, and the interval does not know it"
    )
