"""What the past of each block of time gives: the policies of learners, and models of the reward.

A log in memory is asked at once: policies and predictions are arrays. Of a log that is not held, the learners as they
stood before each block and the fitted models are kept, and answer when its rows come by.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from offpolicy.decide.online.own import as_array, frozen
from offpolicy.decide.time_blocks import TimedLog
from offpolicy.errors import UsageError
from offpolicy.logs.outcome import settle
from offpolicy.models.fitting.policy_fits import FittedApart
from offpolicy.models.fitting.tables import Tables
from offpolicy.policies.distribution import check_rows
from offpolicy.splits.folds import Plan
from offpolicy.splits.hashing import drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpolicy._arrays import Floats, Ints
    from offpolicy.decide.time_blocks import Timed, TimedStream
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log

SOME = 200  # rows on which the policies of two blocks are compared
TOLERANCE = 1e-6
GROWTH = 1.2  # a reward model is fitted again when the past has grown by this factor


def stages(sizes: Ints) -> list[tuple[int, int]]:
    """Blocks (first, last + 1) that share a reward model, fitted on all blocks before the first.

    >>> stages(np.array([10, 10, 10, 10, 10, 10, 10, 10]))
    [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 8)]
    """
    before = np.concatenate([[0], np.cumsum(sizes)])
    made, first = [], 1
    while first < len(sizes):
        last = first + 1
        while last < len(sizes) and before[last] < GROWTH * before[first]:
            last += 1
        made.append((first, last))
        first = last
    return made


# -- learners --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Telling:
    """What learners are told of a decision: which metric is the reward, and its sign."""

    metric: str
    lowest: bool

    def show(self, learner: Any, log: Log, rows: Ints | None = None) -> None:
        """Let a learner see decisions (default: all of a log) and what they earned."""
        at = np.arange(log.rows) if rows is None else rows
        reward = np.array(log.metrics[self.metric][at], dtype=np.float64)
        labels = as_array(log.actions)[log.action[at]]
        propensity = None if log.propensity is None else np.array(log.propensity[at])
        learner.update(_contexts(log, at), labels, -reward if self.lowest else reward, propensity)


def ask(name: str, learner: Any, log: Log, rows: Ints | None = None) -> Floats:
    """(n, K) probabilities with which a learner would act now on some rows (default: all of a log), checked."""
    at = np.arange(log.rows) if rows is None else rows
    shape = (len(at), len(log.actions))
    if log.eligible is None:
        return check_rows(learner.probabilities(_contexts(log, at)), shape, f"learner {name!r}")
    if not getattr(learner, "respects_eligible", False):
        raise UsageError(
            f"some actions of this log are not always eligible, and learner {name!r} does not say that it takes only "
            "eligible ones. Give it respects_eligible = True and probabilities(context, eligible=mask)."
        )
    mask = log.eligible[at]
    return check_rows(learner.probabilities(_contexts(log, at), eligible=mask), shape, f"learner {name!r}", mask)


def _contexts(log: Log, rows: Ints) -> Any:
    return log.context.native(log.context.positions(rows))


@dataclass(frozen=True, eq=False)
class Course:
    """How learners went through the blocks.

    Attributes
    ----------
    policies : {learner: policy}
        As `evaluate` takes them.
    moved : {learner: float}
        Mean distance between the policies of the last two blocks, on contexts of the first of them.
    """

    policies: dict[str, Any]
    moved: dict[str, float]


def progressive(time: Timed, learners: Mapping[str, Any], telling: Telling, advance: Callable[[int], None]) -> Course:
    """Learners see each block once it is over."""
    holds, last = isinstance(time, TimedLog), len(time.labels) - 1
    made: dict[str, list[Any]] = {name: [] for name in learners}
    moved: dict[str, float] = {}
    before: BanditLog | None = None
    for number, (shown, block) in enumerate(time.steps()):
        for name, learner in learners.items():
            old = ask(name, learner, before) if before is not None and number == last else None
            if shown is not None:
                telling.show(learner, shown)
            if before is not None and old is not None:
                moved[name] = 0.5 * float(np.abs(ask(name, learner, before) - old).sum(axis=1).mean())
            if number > 0:
                made[name].append(ask(name, learner, block) if holds else frozen(learner))
                advance(block.rows)
        before = block.take(np.arange(min(block.rows, SOME)))
    if holds:
        return Course({name: np.concatenate(parts) for name, parts in made.items()}, moved)
    return Course({name: ByBlock(name, tuple(parts)) for name, parts in made.items()}, moved)


def is_trained(name: str, learner: Any, log: BanditLog) -> bool:
    """Whether a learner acts differently in different contexts before it has seen anything."""
    some = log.take(np.arange(min(log.rows, SOME)))
    p = ask(name, learner, some)
    blank = np.full(p.shape, 1.0) if some.eligible is None else some.eligible.astype(np.float64)
    base = p[0] * blank if some.eligible is None else blank
    base = base / base.sum(axis=1, keepdims=True)
    return bool(np.abs(p - base).max() > TOLERANCE)


@dataclass(frozen=True, eq=False)
class ByBlock:
    """A policy for each block: that of a learner which has seen the blocks before. The block of a row is its batch."""

    name: str
    learners: tuple[Any, ...]
    reads: tuple[str, ...] = ()

    def on_rows(self, log: Log) -> Floats:
        """(n, K) probabilities."""
        out = np.empty((log.rows, len(log.actions)))
        for number in np.unique(log.batch):
            rows = np.flatnonzero(log.batch == number)
            out[rows] = ask(self.name, self.learners[int(number)], log, rows)
        return out


# -- rewards ---------------------------------------------------------------------------------------------------------


def past_rewards(time: Timed, models: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], list[str]]:
    """Predictions of the rewards of scored rows by models of the blocks before, as `evaluate` takes them; and notes."""
    if isinstance(time, TimedLog):
        return {metric: _predictions(time, metric, model, seed) for metric, model in models.items()}, []
    return _models(cast("TimedStream", time), models, seed)


def _predictions(time: TimedLog, metric: str, model: Any, seed: int) -> Floats:
    """(n, K) predictions for the scored rows of a log in memory."""
    rows, out = time.rows, np.empty((len(time.rows), len(time.log.actions)))
    block, log = time.block, replace(time.log.with_reward(metric), outcomes={})
    tables = Tables(log)
    for first, last in stages(time.sizes):
        used = time.order[block[time.order] < first]
        if metric in time.log.outcomes:
            pseudo = np.zeros(log.rows)
            pseudo[used] = _made_whole(time.log.take(used), metric, model, seed)
            tables = Tables(replace(log, reward=pseudo))
        where = (block[rows] >= first) & (block[rows] < last)
        out[where] = FittedApart.of(tables, used, model, seed).predict(tables, rows[where])
    return out


def _made_whole(past: BanditLog, metric: str, model: Any, seed: int) -> Floats:
    """Pseudo-rewards of the past alone, where rewards are seen in part."""
    own = replace(past.with_reward(metric), further={}, outcomes={metric: past.outcomes[metric]})
    plan = Plan.of(2, 1, seed)
    settled = settle(own, lambda: plan.folds(own.units), {metric: model}, seed)
    return np.asarray(settled.reward)


def _models(time: TimedStream, models: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], list[str]]:
    """Models of a log that is not held: the past is gathered up to ``fit_rows`` rows, drawn by a hash beyond that."""
    begins = {first for first, _ in stages(time.sizes)}
    fits: dict[str, list[FittedApart]] = {metric: [] for metric in models}
    past: list[BanditLog] = []
    seen, most = 0, time.fit_rows
    for number, (_, block) in enumerate(time.steps()):
        if number in begins:
            together = time.gathered(past)
            for metric, model in models.items():
                tables = Tables(together.with_reward(metric))
                fits[metric].append(FittedApart.of(tables, np.arange(together.rows), model, seed))
        seen += block.rows
        if number < max(begins):
            past.append(block)
            if seen > most:
                past = [part.take(np.asarray(drawn(part.units, most / seen, seed))) for part in past]
    of_block = np.repeat(np.arange(len(begins)), [last - first for first, last in stages(time.sizes)])
    notes = []
    if seen > most:
        notes.append(f"reward models were fitted on at most {most:,} earlier rows (fit_rows=), drawn by a hash")
    return {metric: PastRewards(tuple(made), of_block) for metric, made in fits.items()}, notes


@dataclass(frozen=True, eq=False, repr=False)
class PastRewards:
    """Rewards predicted by models of the blocks before. The block of a row is its batch."""

    fits: tuple[FittedApart, ...]
    fit_of_block: Ints = field(repr=False)

    def __repr__(self) -> str:
        return "given array"

    def on_rows(self, log: Log) -> Floats:
        """(n, K) predictions."""
        out, tables = np.empty((log.rows, len(log.actions))), Tables(log)
        fit = self.fit_of_block[log.batch]
        for number in np.unique(fit):
            rows = np.flatnonzero(fit == number)
            out[rows] = self.fits[int(number)].predict(tables, rows)
        return out
