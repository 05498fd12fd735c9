"""`TrajectoryFit`: the nuisances of a trajectory log, each fitted on the training episodes of a split only.

Behavior models are fitted as for bandits, on the same folds; value models and ratios of marginals depend on
the policy, so there is one fit for every policy and training set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError, did_you_mean
from offpolicy.models.behavior.behavior import floor_at
from offpolicy.models.behavior.state_shares import StateShares, TimedBehavior
from offpolicy.models.fitting.crossfit import CrossFit, Values, given_values, seed_of
from offpolicy.models.values.fitted_q import with_time
from offpolicy.models.values.marginal import MarginalRatio
from offpolicy.models.values.values import StatePolicy, ValueData, as_value_model, check_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.behavior.behavior import BehaviorModel
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Part, Split

REWARD, BEHAVIOR, MRDR, RATIO = 1, 2, 3, 4


@dataclass(frozen=True, eq=False)
class Ratios:
    """w_t(S_t, A_t), (S,), and at how many steps the training fold had none."""

    ratio: Floats
    unseen: int = 0


@dataclass(eq=False)
class TrajectoryFit(CrossFit):
    """Fitted nuisances of one evaluation of trajectories; `reward_model` holds the value model."""

    discount: float = 1.0
    ratio_model: Any = None

    def prepare(self, estimators: Sequence[Estimator]) -> None:
        """Nothing yet: what is fitted depends on the target."""

    def values(
        self,
        split: Split,
        repeat: int,
        targets: list[Target],
        emphasis: Floats | None = None,
        tag: str = "",
    ) -> dict[str, Values]:
        """Q and v of every target in one split.

        ``emphasis`` multiplies the training weights (MRDR).
        """
        return {t.name: self._values_of(split, repeat, t, emphasis, tag) for t in targets}

    def _values_of(
        self,
        split: Split,
        repeat: int,
        target: Target,
        emphasis: Floats | None,
        tag: str,
    ) -> Values:
        log, spec = self.log, self.reward_model
        given = self._given(spec, target, "value_model")
        if given is not None:
            return given_values(given, log, target)
        model = as_value_model(spec, log)
        parts = self.folds.parts(split, repeat)
        kind = MRDR if tag else REWARD
        keys = [(kind, target.name, *part.key) for part in parts]
        fit_part = partial(self._fit_values, model, target, emphasis=emphasis, kind=kind)
        makers: list[Callable[[], Any]] = [partial(fit_part, part) for part in parts]
        q, v = np.full(len(log.action), np.nan), np.full(len(log.action), np.nan)
        missed = 0.0
        for part, fit in zip(parts, self._fit_all(keys, makers), strict=True):
            rows = log.layout.rows_of(part.score)
            q[rows], v[rows] = fit.predict(rows)
            check_finite(q[rows], model)
            check_finite(v[rows], model)
            missed += self._unseen_mass(fit, target, rows)
        return Values(q, v, _unseen_note(missed / len(parts)))

    def _fit_values(
        self,
        model: Any,
        target: Target,
        part: Part,
        *,
        emphasis: Floats | None,
        kind: int,
    ) -> Any:
        data = self._data(target, part, emphasis)
        return model.fit_values(data, seed_of(self.seed, kind, part.key))

    def _data(
        self,
        target: Target,
        part: Part,
        emphasis: Floats | None = None,
    ) -> ValueData:
        rows = self.log.layout.rows_of(part.train)
        weight = self._mass(rows)
        if emphasis is not None:
            weight = emphasis[rows] if weight is None else weight * emphasis[rows]
            if not (weight > 0).any():
                raise ModelError(
                    "MRDR: no training step has a positive weight, since the target shares no action."
                )
        return ValueData(
            self.log,
            rows,
            StatePolicy(target, self.log),
            self.discount,
            weight,
            self.table_of,
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
        log, spec = self.log, self.ratio_model
        given = self._given(spec, target, "ratio_model")
        if given is not None:
            if given.shape != log.action.shape or not np.isfinite(given).all() or (given < 0).any():
                raise ModelError(
                    f"ratio_model= must hold one finite ratio ≥ 0 a step: shape {log.action.shape}. Got "
                    f"{given.shape}."
                )
            return Ratios(given)
        scored_pi_b = self.behavior(split, repeat).probability
        model = self._ratio_model()
        out = np.full(len(log.action), np.nan)
        unseen = 0
        for part in self.folds.parts(split, repeat):
            data = self._data(target, part)
            make = partial(self._fit_ratio, model, data, part, pi_e)
            fit = self._fit((RATIO, target.name, *part.key), make)
            rows = log.layout.rows_of(part.score)
            state_ratio = fit.predict(rows)
            missing = np.isnan(state_ratio)
            unseen += int(missing.sum())
            step = pi_e[rows] / scored_pi_b[rows]
            out[rows] = np.where(missing, 0.0, state_ratio) * step
        return Ratios(out, unseen)

    def _ratio_model(self) -> MarginalRatio:
        if self.ratio_model is not None:
            if not hasattr(self.ratio_model, "fit_ratio"):
                raise ModelError(
                    "ratio_model= must be offpolicy.MarginalRatio(…), a (steps,) array or None. "
                    f"Got {self.ratio_model!r} instead."
                )
            chosen: MarginalRatio = self.ratio_model
            return chosen
        time = getattr(self.reward_model, "time", "pooled")
        return MarginalRatio("step" if time == "step" and self.log.is_discrete else "pooled")

    def _fit_ratio(self, model: Any, data: ValueData, part: Part, pi_e: Floats) -> Any:
        pi_b = self._training_behavior(part, data.rows)
        seed = seed_of(self.seed, RATIO, part.key)
        return model.fit_ratio(data, pi_e[data.rows], pi_b, seed)

    def _training_ratio(self, target: Target, part: Part, rows: Ints) -> Floats:
        policy = StatePolicy(target, self.log)
        pi_e = policy.at_rows(rows)[np.arange(len(rows)), self.log.action[rows]]
        return np.asarray(pi_e / self._training_behavior(part, rows))

    def _training_behavior(self, part: Part, rows: Ints) -> Floats:
        """π_b at training steps, from the model that was fitted to them."""
        spec, log = self.behavior_model, self.log
        if (spec is None and log.propensity is not None) or isinstance(spec, np.ndarray):
            return np.asarray(self.behavior("full", 0).probability[rows])
        model = self._behavior_model()
        fit = self._fit((BEHAVIOR, *part.key), partial(self._fit_behavior, model, part))
        groups = self._behavior_groups(model, rows)
        p = self._logged_probability(model, fit, rows, groups)
        return np.maximum(p, floor_at(fit, groups))

    def _given(self, spec: Any, target: Target, name: str) -> Floats | None:
        """Predictions made elsewhere: one array, or one for each policy."""
        if isinstance(spec, Mapping):
            if target.name not in spec:
                raise ModelError(
                    f"{name}= has no array for policy {target.name!r}."
                    f"{did_you_mean(target.name, spec)}"
                )
            return np.asarray(spec[target.name], dtype=np.float64)
        return spec if isinstance(spec, np.ndarray) else None

    # -- behavior ------------------------------------------------------------------------------------

    def _behavior_model(self) -> BehaviorModel:
        """Shares are per discrete state here; with one step an episode, what they are for bandits."""
        by_state = self.log.is_discrete and not self.log.layout.is_single
        if by_state and (self.behavior_model is None or _is_shares(self.behavior_model)):
            return StateShares()
        return super()._behavior_model()

    def _behavior_table(self, model: Any, rows: Ints) -> Any:
        if getattr(model, "wants_native", False):
            return self.log.context.native(self.log.context.positions(rows))
        table = super()._behavior_table(model, rows)
        if isinstance(model, TimedBehavior):
            return with_time(table, self.log.layout.step[rows])
        return table

    def _behavior_groups(self, model: Any, rows: Ints) -> Ints | None:
        if not isinstance(model, StateShares) or not self.log.is_discrete:
            return None
        state = self.log.context.positions(rows)
        if model.time == "pooled":
            return np.asarray(state)
        return np.asarray(self.log.layout.step[rows] * self.log.context.n_table + state)


def _unseen_note(share: float) -> str:
    if share == 0:
        return ""
    return (
        f"{share:.1%} of the target's probability falls on state-action pairs that the training folds "
        "never saw: the value model guesses there, and the interval does not know it"
    )


def _is_shares(spec: Any) -> bool:
    return isinstance(spec, str) and spec == "shares"
