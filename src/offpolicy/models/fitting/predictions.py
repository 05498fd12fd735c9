"""Predictions of a fitted reward model for the pairs (context, action) that a score needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import places
from offpolicy._progress import track
from offpolicy.errors import ModelError, doing, first_rows
from offpolicy.logs.given import plain_numbers
from offpolicy.models.fitting.store import Values
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.tables import ActionColumns
    from offpolicy.models.rewards.reward import FittedReward
    from offpolicy.policies.coarse import Cells, Exact
    from offpolicy.policies.target import Target

PREDICT_ROWS = 250_000
NODES = 16  # predictions per row that are allowed for
MARKED = 32  # actions up to which the pairs that are needed are marked in a table, rather than sorted
GRID_PAIRS = 16  # predictions per row from which on a whole grid of actions is quicker


def take_rows(table: Any, positions: Array) -> Any:
    """Rows of a pandas table, an array or an encoded table."""
    if hasattr(table, "iloc"):
        return table.iloc[positions]
    return table.rows(positions) if hasattr(table, "rows") else table[positions]


def predict_values(
    fit: FittedReward,
    features: Any,
    context: Context,
    rows: Ints,
    action: Ints,
    targets: list[Target],
    of_action: ActionColumns | None = None,
) -> tuple[Floats, dict[str, Floats]]:
    """(m,) q at the logged actions, and v of each target, for some rows of the log.

    Where several rows share a context and every policy depends on it alone, each distinct (context,
    action) pair is predicted once. ``of_action`` puts the features of an action beside the context.
    """
    shared = context.index is not None and all(t.shares_context for t in targets)
    at, inverse = rows, np.arange(len(rows))
    if shared:
        at, inverse = places(context.positions(rows), context.n_table)
    order, bounds = _grouped(inverse, len(at))
    k = max((t.n_actions for t in targets), default=int(action.max()) + 1)
    q = np.empty(len(rows))
    v = {t.name: np.empty(len(at)) for t in targets}
    # Choices are kept as codes: a few pairs per row, however many actions there are.
    few = k > MARKED and all(t.codes is not None for t in targets) and len(targets) < GRID_PAIRS
    read = _Reader(features, of_action)
    parts = list(blocks(len(at), GRID_PAIRS if few else k))
    with track("predicting", len(parts)) as advance:
        for block in parts:
            members = order[bounds[block[0]] : bounds[block[-1] + 1]]
            local, taken = inverse[members] - block[0], action[members]
            positions = at[block] if shared else context.positions(at[block])
            asked = [(t, _ask(t, context, at[block], shared=shared)) for t in targets]
            if few:
                row, code = _distinct_pairs(local, taken, [pi for _, pi in asked], k)
                values = _predict_pairs(fit, read, positions[row], code)
                predicted: _Grid | _Pairs = _Pairs(row, code, values, (len(block), k), None)
            else:
                need = np.zeros((len(block), k), dtype=bool)
                need[local, taken] = True
                for _, pi in asked:
                    _mark(need, pi)
                predicted = _predict_needed(fit, read, positions, need)
            q[members] = predicted.at(local, taken)
            for target, pi in asked:
                v[target.name][block] = predicted.at(np.arange(len(block)), pi) if pi.ndim == 1 else predicted.mean(pi)
            advance()
    return q, {name: value[inverse] for name, value in v.items()}


def predict_all(
    fit: FittedReward, features: Any, context: Context, rows: Ints, k: int, of_action: ActionColumns | None = None
) -> Floats:
    """(m, K) predictions of every action for some rows of the log; rows that share a context are predicted once."""
    at, inverse = places(context.positions(rows), context.n_table)
    need = np.ones((len(at), k), dtype=bool)
    grid = _predict_needed(fit, _Reader(features, of_action), at, need)
    return np.asarray(grid.values).reshape(len(at), k)[inverse]


def predict_numbers(
    fit: FittedReward,
    features: Any,
    context: Context,
    rows: Ints,
    action: Floats,
    targets: list[Target],
    of_action: ActionColumns | None = None,
) -> tuple[Floats, dict[str, Floats]]:
    """The same as `predict_values` where actions are numbers: v is a weighted mean of few predictions per row."""
    positions = context.positions(rows)
    v: dict[str, Floats] = {}
    with track("predicting", 1 + len(targets)) as advance:
        read = _Reader(features, of_action)
        q = _predict_pairs(fit, read, positions, action)
        advance()
        for target in targets:
            assert target.numbers is not None
            v[target.name] = np.empty(len(rows))
            for block in blocks(len(rows), NODES):
                nodes, weights = target.numbers.nodes(rows[block])
                at = np.repeat(positions[block], nodes.shape[1])
                made = _predict_pairs(fit, read, at, nodes.ravel()).reshape(nodes.shape)
                v[target.name][block] = np.einsum("ij,ij->i", made, weights)
            advance()
    return q, v


def _grouped(inverse: Ints, n: int) -> tuple[Ints, Ints]:
    """Entries in the order of their group, and where each of the n groups begins and the last one ends."""
    bounds = np.append(0, np.cumsum(np.bincount(inverse, minlength=n)))
    if (inverse[1:] >= inverse[:-1]).all():  # a compressed log is sorted
        return np.arange(len(inverse)), bounds
    return np.argsort(inverse, kind="stable"), bounds


def _ask(target: Target, context: Context, at: Ints, *, shared: bool) -> Array:
    """Codes (m,) or probabilities (m, K) of a target."""
    positions = context.positions(at) if target.shares_context and not shared else at
    if target.codes is not None:
        return np.asarray(target.codes[positions])
    return target.probabilities(positions)


def _mark(need: Bools, pi: Array) -> None:
    """Mark the pairs that codes or probabilities need."""
    if pi.ndim == 1:
        need[np.arange(len(pi)), pi] = True
    else:
        np.logical_or(need, pi > 0, out=need)


def _distinct_pairs(local: Ints, taken: Ints, codes: list[Array], k: int) -> tuple[Ints, Ints]:
    """Rows and actions that were logged or are chosen, each pair once, in order."""
    chosen = [np.arange(len(each)) * k + each for each in codes]
    pairs = np.unique(np.concatenate([local * k + taken, *chosen]))
    return pairs // k, pairs % k


@dataclass(frozen=True, eq=False)
class _Reader:
    """What a reward model reads of pairs of a context and an action."""

    table: Any
    of_action: ActionColumns | None

    def __call__(self, positions: Ints, codes: Ints) -> Any:
        X = take_rows(self.table, positions)
        return X if self.of_action is None else self.of_action.beside(X, codes)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Predictions of every row and action, (m, K)."""

    values: Floats

    def at(self, row: Ints, code: Ints) -> Floats:
        return self.values[row, code]

    def mean(self, pi: Floats) -> Floats:
        return np.asarray(np.einsum("ij,ij->i", pi, self.values))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Predictions of some pairs of a row and an action, sorted; ``need`` marks them, where it is there."""

    row: Ints
    code: Ints
    values: Floats
    shape: tuple[int, int]
    need: Bools | None

    def at(self, row: Ints, code: Ints) -> Floats:
        if self.need is not None:
            first, rank = self._marked
            return np.asarray(self.values[first[row] + rank[row, code]])
        k = self.shape[1]
        return self.values[np.searchsorted(self.row * k + self.code, row * k + code)]

    @cached_property
    def _marked(self) -> tuple[Ints, Any]:
        """Where the pairs of each row begin, and which of them each action is."""
        rank: Any = np.cumsum(np.asarray(self.need), axis=1, dtype=np.int16 if self.shape[1] < 2**15 else np.int32)
        first = np.cumsum(rank[:, -1], dtype=np.int64)
        return first - rank[:, -1] - 1, rank

    def mean(self, pi: Floats) -> Floats:
        terms = pi[self.row, self.code] * self.values
        return np.bincount(self.row, weights=terms, minlength=self.shape[0]).astype(np.float64)


def _predict_needed(fit: FittedReward, read: _Reader, positions: Ints, need: Bools) -> _Grid | _Pairs:
    """Predictions where needed; of the whole grid where the model is quick at it and much is needed."""
    # A grid is of contexts by actions: columns that change with both are not in it.
    quick = None if read.of_action is not None else getattr(fit, "predict_grid", None)
    if quick is not None and np.count_nonzero(need) > GRID_PAIRS * len(need):
        grid = quick(take_rows(read.table, positions), need.shape[1])
        if grid is not None:
            return _Grid(plain_numbers(grid, "the reward model's predictions", ModelError))
    row, code = np.nonzero(need)
    values = _predict_pairs(fit, read, positions[row], code)
    return _Pairs(row, code, values, (need.shape[0], need.shape[1]), need)


def _predict_pairs(fit: FittedReward, read: _Reader, positions: Ints, codes: Any) -> Floats:
    out = np.empty(len(positions))
    for start in range(0, len(positions), PREDICT_ROWS):
        part = slice(start, start + PREDICT_ROWS)
        out[part] = _predicted(fit, read(positions[part], codes[part]), codes[part])
    bad = ~np.isfinite(out)
    if bad.any():
        where = first_rows(bad, out, positions)
        raise ModelError(f"the reward model predicted values that are not finite: {where}.")
    return out


def _predicted(fit: FittedReward, X: Any, codes: Any) -> Floats:
    """One prediction per pair; a user's own model may raise or give another shape."""
    what = f"predicting the rewards of {len(codes):,} pairs of a context and an action"
    with doing(what, ModelError):
        values = plain_numbers(fit.predict(X, codes), "the reward model's predictions", ModelError)
    if values.shape != (len(codes),):
        raise ModelError(
            f"the reward model returned shape {values.shape} for {len(codes):,} pairs of a context and an action. "
            "It must return one number per pair."
        )
    return values


# -- predictions made elsewhere, and models of cells -----------------------------------------------------


def given_numbers(arrays: Mapping[str, Any], log: Log, targets: list[Target]) -> dict[str, Values]:
    """Predictions made elsewhere for actions that are numbers: "logged", and one array per policy."""
    n = len(log.action)
    wanted = {"logged", *(t.values_of for t in targets)}
    missing = sorted(wanted - arrays.keys())
    if missing:
        raise ModelError(
            f"reward_model= as arrays has {sorted(arrays)}; {missing} are missing. Give q of the logged actions as "
            "'logged' and, under each policy's name, the policy's expected reward in each row."
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
    ratios: Cells | Exact

    def predict(self, X: Any, codes: Ints) -> Floats:
        """(m,) predicted mean reward of the cells of actions."""
        return self.model.predict(X, self.ratios.told(codes))


def given_values(array: Floats, log: Log, target: Target) -> Values:
    """Predictions made elsewhere: (n, K)."""
    n, k = len(log.action), len(log.actions)
    if array.shape != (n, k):
        raise ModelError(
            f"a value array must have shape (n, K) = ({n}, {k}), one column for each of log.actions. Got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ModelError("the value array has missing or infinite entries.")
    rows = np.arange(n)
    v = np.empty(n)
    for block in blocks(n, k):
        at = log.context.positions(block) if target.shares_context else block
        if target.codes is not None:
            v[block] = array[block, target.codes[at]]
        else:
            v[block] = (target.probabilities(at) * array[block]).sum(axis=1)
    return Values(array[rows, log.action].astype(np.float64), v)
