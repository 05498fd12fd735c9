"""Cross-fitting of single decisions: every nuisance is fitted on a split's training units and predicts the others.

Fits are kept by the training units they saw, so that the half-sample and cross-fitted estimators share them and
another policy needs predictions only. Predictions are made for the pairs (context, action) that a score needs: the
logged action, and actions with π_e > 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.errors import ModelError
from offpolicy.logs.given import plain_numbers
from offpolicy.logs.outcome import learned
from offpolicy.models.fitting.behavior_fits import behaviors_of_cells
from offpolicy.models.fitting.predicted import Values
from offpolicy.models.fitting.store import MRDR, REWARD, FitStore, seed_of
from offpolicy.models.fitting.tables import part_of, tables_of
from offpolicy.models.fitting.training import merged, sorted_rows
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import FittedReward, RewardData
from offpolicy.policies.blocks import blocks
from offpolicy.policies.coarse import modeled_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.store import Key
    from offpolicy.policies.coarse import Cells
    from offpolicy.policies.target import Target
    from offpolicy.splits.folds import Folds, Part, Split


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Nuisances of a bandit log, or of a block of one, made when first asked for and kept.

    Parameters
    ----------
    log : BanditLog
    folds : Folds
    reward_model, behavior_model : as in `evaluate`
        Arrays (n, K) are predictions made elsewhere and serve every split.
    targets : tuple of Target
        Policies that a behavior model may be told of.
    """

    log: Log
    folds: Folds
    reward_model: Any
    behavior_model: Any
    seed: int
    store: FitStore
    targets: tuple[Target, ...] = ()
    cells: Cells | None = None  # of which the ratios are, where they are not of single actions

    #: Ratios of marginals are of episodes.
    regresses_ratios: ClassVar[bool] = False

    tables = cached_property(tables_of)
    behaviors = cached_property(behaviors_of_cells)

    @property
    def _modeled(self) -> Cells | None:
        """Cells that reward models are told in place of actions; None where they are told actions."""
        return modeled_cells(self.cells)

    def values(
        self, split: Split, repeat: int, targets: list[Target], emphasis: Floats | None = None, tag: str = ""
    ) -> dict[str, Values]:
        """Q and v of every target in one split.

        ``emphasis`` multiplies the training weights (MRDR); ``tag`` keeps such fits apart.
        """
        log, spec = self.log, self.reward_model
        given: dict[str, Values] | None = log.space.given_values(spec, log, targets)
        if given is not None:
            note = "" if emphasis is None else "predictions are given, so MRDR is DR here"
            return {name: replace(each, note=note) for name, each in given.items()}
        n = len(log.action)
        q = np.full(n, np.nan)
        v = {t.name: np.full(n, np.nan) for t in targets}
        parts = self.folds.parts(split, repeat)
        model = as_reward_model(spec)
        keys, makers = self._fits(model, parts, emphasis, tag)
        for part, made in zip(parts, self.store.get_all(keys, makers), strict=True):
            fit = made if self._modeled is None else OfCells(made, self._modeled.code)
            rows = log.layout.rows_of(part.score)
            if len(rows) == 0:  # a block of a larger log may hold none of a fold
                continue
            features = self.tables.for_model(model)
            with few_threads(len(rows)):
                q[rows], values = log.space.predict(
                    fit, features, log.context, rows, part_of(log.action, rows), targets, self.tables.of_action
                )
            for name, value in values.items():
                v[name][rows] = value
        return {name: Values(q, value) for name, value in v.items()}

    def fit(self, split: Split, repeat: int) -> None:
        """Fit the reward models of a split without predicting anything."""
        model = as_reward_model(self.reward_model)
        list(self.store.get_all(*self._fits(model, self.folds.parts(split, repeat))))

    def prepare(self, splits: Sequence[tuple[Split, int]]) -> None:
        """Begin the reward fits of some (split, repetition) pairs, where there are threads."""
        if isinstance(self.reward_model, np.ndarray | dict):
            return
        model = as_reward_model(self.reward_model)
        for split, repeat in splits:
            self.store.start(*self._fits(model, self.folds.parts(split, repeat)))

    def _fits(
        self, model: Any, parts: list[Part], emphasis: Floats | None = None, tag: str = ""
    ) -> tuple[list[Key], list[Callable[[], Any]]]:
        """Keys of the reward fits of some parts, and functions that make them."""
        kind = MRDR if tag else REWARD
        fit_part = partial(self.fit_reward, model, emphasis=emphasis, kind=kind)
        keys = [(kind, tag, *part.key) for part in parts]
        return keys, [partial(fit_part, part) for part in parts]

    def fit_reward(self, model: Any, part: Part, emphasis: Floats | None, kind: int) -> FittedReward:
        """A reward model fitted on the training units of a part, to rewards made of these units alone."""
        log = learned(self.log, part)
        if log is not self.log:
            other = replace(self, log=log)
            vars(other)["tables"] = self.tables.with_reward(log)
            return other.fit_reward(model, part, emphasis, kind)
        rows, weight, count = self._training_rows(model, part.training, emphasis)
        action, cells = part_of(log.action, rows), self._modeled
        data = RewardData(
            self.tables.pairs(model, log.context.positions(rows), action),
            action if cells is None else cells.code[action],
            part_of(log.reward, rows),
            weight,
            log.actions if cells is None else cells.labels,
            log.names.action,
            count,
        )
        with few_threads(len(rows)):
            fit: FittedReward = model.fit_reward(data, seed_of(self.seed, kind, part.key))
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
            count = None if count is None else count[some]
            if len(rows) == 0:
                raise ModelError("MRDR: no training row has a positive weight, since the target shares no action.")
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


def given_numbers(arrays: dict[str, Any], log: Log, targets: list[Target]) -> dict[str, Values]:
    """Predictions made elsewhere for actions that are numbers: "logged", and one array per policy."""
    n = len(log.action)
    wanted = {"logged", *(t.values_of for t in targets)}
    missing = sorted(wanted - arrays.keys())
    if missing:
        raise ModelError(
            f"reward_model= as arrays has {sorted(arrays)}; {missing} are missing. Give q at the logged actions as "
            "'logged' and, under each policy's name, what the policy earns in each row."
        )
    made = {}
    for name in wanted:
        array = plain_numbers(arrays[name], f"reward_model[{name!r}]", ModelError)
        if array.shape != (n,) or not np.isfinite(array).all():
            raise ModelError(
                f"reward_model[{name!r}] must hold one finite number per row, shape ({n},). Got {array.shape}."
            )
        made[name] = array
    return {t.name: Values(made["logged"], made[t.values_of]) for t in targets}


@dataclass(frozen=True, eq=False)
class OfCells:
    """A reward model of cells, asked about actions."""

    model: FittedReward
    code: Ints

    def predict(self, X: Any, codes: Ints) -> Floats:
        """(m,) predicted mean reward of the cells of actions."""
        return self.model.predict(X, self.code[codes])


def given_values(array: Floats, log: Log, target: Target) -> Values:
    """Predictions made elsewhere: (n, K)."""
    n, k = len(log.action), len(log.actions)
    if array.shape != (n, k):
        raise ModelError(
            f"a value array must have shape (n, K) = ({n}, {k}), one column for each of log.actions. Got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ModelError("the value array holds entries that are missing or infinite.")
    rows = np.arange(n)
    v = np.empty(n)
    for block in blocks(n, k):
        at = log.context.positions(block) if target.shares_context else block
        if target.codes is not None:
            v[block] = array[block, target.codes[at]]
        else:
            v[block] = (target.probabilities(at) * array[block]).sum(axis=1)
    return Values(array[rows, log.action].astype(np.float64), v)
