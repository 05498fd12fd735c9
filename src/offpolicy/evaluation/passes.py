"""The pass: what is asked for and not there is fitted, then made in one pass over the blocks of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._progress import FITTING, track
from offpolicy.columns.keys import WITHOUT_FOLDS
from offpolicy.columns.names import EMPHASIZED
from offpolicy.columns.store import Columns
from offpolicy.errors import DataError
from offpolicy.evaluation.block import Block, Task
from offpolicy.models.fitting import streamed as fitting
from offpolicy.models.fitting.crossfit import Nuisances
from offpolicy.policies.target import resolve
from offpolicy.splits.folds import Folds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpolicy._arrays import Ints
    from offpolicy.columns.store import Name
    from offpolicy.evaluation.problem import Problem
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator


def need(p: Problem, names: Sequence[Name]) -> None:
    """Make the columns and sums of these names that are not there."""
    for _, part in p.parts:
        need(part, names)
    missing = p.columns.lacking(names, p.store.sums)
    if not missing:
        return
    if not p.streams:
        p.block.make(missing)
        return
    with track(FITTING, unfitted(p, missing)):
        notes = fitting.fit(p, missing, lambda log, at: _training(p, log, at, missing))
    p.store.notes = tuple(dict.fromkeys((*p.store.notes, *notes)))
    _over_blocks(p, missing)


def prepare(p: Problem, targets: Sequence[Target], estimators: Sequence[Estimator]) -> None:
    """Begin fits on threads, or make all that the estimates and checks of a stream look at, in one pass."""
    for _, part in p.parts:
        prepare(part, targets, estimators)
    if p.parts:
        return
    if not p.streams:
        wanted: list[Any] = p.names.of(targets, estimators)
        values = [n for n in wanted if n[0] == "v" and not n[1].startswith(EMPHASIZED)]
        p.block.nuisances.prepare(list(dict.fromkeys((n[1], n[2]) for n in values)))
        return
    every = [t for target in targets for t in target.all]
    names = p.names.of(every, estimators)
    names += [("pi_e", t.name) for t in every]
    names += [("reach", which, t.name) for t in every for which in ("full", "half")]
    if p.by_rows:
        names += ["action", *(("fold", repeat) for repeat in range(p.repeats))]
    if p.is_first:
        names.append("log")
    need(p, names)


def unfitted(p: Problem, names: Sequence[Name]) -> int:
    """How many models of values and of π_b are still to be fitted for some columns, for progress."""
    if p.parts:
        return sum(unfitted(part, names) for _, part in p.parts)
    keys = {key for name in names for key in fitting.fit_keys(p, name)}
    return sum(key not in p.fits for key in keys)


def close(p: Problem) -> None:
    """Give up fits that have not begun."""
    for each in (p, *(part for _, part in p.parts)):
        each.fits.close()


def forget(p: Problem, draws: int) -> None:
    """Let go of columns and fits of draws of the folds from the given one on; they can be made again."""
    for _, part in p.parts:
        forget(part, draws)
    folded = {"pi_b", "raised", "q", "v", "marginal"}

    def gone(name: Any) -> bool:
        return name[0] in folded and name[1] not in WITHOUT_FOLDS and bool(name[2] >= draws)

    p.columns.drop(gone)
    for key in p.fits.own:
        if key[-1] != "full" and key[-2 if "fold" in key[-3:-2] else -1] >= draws:
            del p.fits.fits[p.keys(key)]


# -- blocks ----------------------------------------------------------------------------------------------


def _named(p: Problem, names: Sequence[Any], *, told: bool) -> list[str]:
    """Policies that some columns are of; first those that a model of π_b is told of."""
    wanted = {name[-1] for name in names if isinstance(name, tuple)}
    every = [t.name for t in p.told] if told else []
    for policy, target in p.targets.items():
        if policy in p.policies and wanted & {of for t in target.all for of in (t.name, t.values_of)}:
            every.append(policy)
    return list(dict.fromkeys(every))


def _training(p: Problem, log: Log, at: Ints, names: Sequence[Name]) -> Block:
    """Some units in memory as a block whose fits are the log's; ``at`` says which they are."""
    folds = p.plan.block(log.units, labels=log.fold) if p.by_rows else _part_of(p.folds, at)
    found = {name: resolve(name, p.policies[name], log) for name in _named(p, names, told=True)}
    fits = Nuisances(log, folds, p.specs.in_order(log), p.fits, tuple(found.values()))
    return Block(log, folds, fits, found, Columns(), {}, {}, p.specs)


def _part_of(folds: Folds, units: Any) -> Folds:
    return Folds(folds.labels[:, units], folds.half[:, units], folds.k)


def _over_blocks(p: Problem, names: Sequence[Name]) -> None:
    """Make every name of every block; columns are kept in the blocks of the first pass, or whole where narrow."""
    scan, first = p.opened, p.by_rows and "action" not in p.columns
    policies = {name: p.policies[name] for name in _named(p, names, told=p.sees_targets)}
    task = Task(p.plan, p.specs, p.fits.closed(), policies, names, float(scan.rows))
    later: dict[Any, list[Any]] = {}
    sums: dict[Any, Any] = {}
    with track("reading and predicting", scan.rows) as advance:
        for number, (columns, summed, notes) in enumerate(_run(p, task)):
            for name, values in columns.items():
                if first:
                    p.columns.put(name, number, values)
                elif name not in p.columns:
                    later.setdefault(name, []).append(values)
            for name, part in summed.items():
                known = sums.get(name)
                sums[name] = part if known is None else known if part is None else known + part
            for name, note in notes.items():
                if name not in p.said:
                    p.said[name] = note
            advance(max(map(len, columns.values()), default=0))
    for name, made in sums.items():
        p.summed[name] = made
    _put_later(p, later)


def _run(p: Problem, task: Task) -> Iterator[Any]:
    """What a task makes of each block, in order."""
    if p.by_rows:
        yield from p.opened.run(task)
        return
    first = 0
    for block in p.opened.blocks():
        yield task(block, _part_of(p.folds, slice(first, first + block.n)))
        first += block.n


def _put_later(p: Problem, later: dict[Any, list[Any]]) -> None:
    """Columns of a later pass in the blocks of the first: rows come in one order, borders need not."""
    borders: Any = None
    for name, parts in later.items():
        whole = np.concatenate(parts)
        if not p.by_rows:
            p.columns.put(name, 0, whole)
            continue
        if len(whole) != p.log.rows:
            raise DataError(
                f"the log changed while it was read: {p.log.rows:,} rows came first, and now {len(whole):,}."
            )
        if borders is None:
            sizes = [len(p.columns.block("action", b)) for b in range(p.columns.blocks)]
            borders = np.cumsum(sizes)[:-1]
        for number, values in enumerate(np.split(whole, borders)):
            p.columns.put(name, number, values)
