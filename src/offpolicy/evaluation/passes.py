"""The pass: what is asked for and not there is fitted, then made in one pass over the blocks of a log.

Of one block everything has a name: columns that models predict, and sums that add up over blocks. A log in memory is
one block, whose columns are made when a score asks for them. Blocks of any other log are predicted one after another,
here or where their rows are, by a `Task` of plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arrays import is_constant
from offpolicy._progress import FITTING, track
from offpolicy.columns.keys import APART, EMPHASIZED, GIVEN, LEANING, OWN, WITHOUT_FOLDS
from offpolicy.columns.store import Columns
from offpolicy.errors import DataError, ModelError
from offpolicy.inference.reach import calibration_sums, masses, reach
from offpolicy.inference.score_table import Units
from offpolicy.logs.given import plain_numbers
from offpolicy.models.fitting import streamed as fitting
from offpolicy.models.fitting.crossfit import Nuisances
from offpolicy.policies.target import resolve
from offpolicy.scores.decisions import Decisions, variance_emphasis
from offpolicy.trust.copies import MOST, sampled
from offpolicy.trust.hashes import table_hashes
from offpolicy.trust.sums import log_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.columns.store import Name
    from offpolicy.evaluation.problem import Problem
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.store import FitStore, Specs, Values
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Plan
    from offpolicy.trust.hashes import Hashes


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
    if p.by_rows and p.cells is None and p.opened.space.finite and p.opened.rows <= MOST:
        # Of a longer log only policies that earn more than expected are looked at so closely.
        names += [("sampled", t.name) for t in every if t.shown is None and not t.unseen]
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
    folds = p.plan.block(log.units, labels=log.fold) if p.by_rows else p.folds.at(at)
    found = {name: resolve(name, p.policies[name], log) for name in _named(p, names, told=True)}
    fits = Nuisances(log, folds, p.specs.in_order(log), p.fits, tuple(found.values()))
    return Block(log, folds, fits, found, Columns(), {}, {}, p.specs)


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
        advance(scan.rows)  # a pass that makes sums alone tells of no rows
    for name, made in sums.items():
        p.summed[name] = made
    _put_later(p, later)


def _run(p: Problem, task: Task) -> Iterator[Any]:
    """What a task makes of each block, in order."""
    yield from p.opened.run(task) if p.by_rows else p.opened.run(task, p.folds)


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
                f"the log changed while it was read: it had {p.log.rows:,} rows at first and has {len(whole):,} now."
            )
        if borders is None:
            sizes = [len(p.columns.block("action", b)) for b in range(p.columns.blocks)]
            borders = np.cumsum(sizes)[:-1]
        for number, values in enumerate(np.split(whole, borders)):
            p.columns.put(name, number, values)


TOGETHER = 64_000_000  # bytes of v that are predicted in one pass
BASE = ("action", "propensity", "batch", "cluster", "weight")


def as_array(model: Any) -> Any:
    """Arrays and nested lists as numbers, checked; everything else is left as it is."""
    if isinstance(model, list | tuple | np.ndarray):
        return plain_numbers(model, "an array of predictions", ModelError)
    return model


@dataclass(frozen=True, eq=False)
class Block:
    """A piece of a log with its folds and models; `make` puts what has a name into ``columns`` and ``sums``."""

    log: Log
    folds: Folds
    nuisances: Any
    policies: Mapping[str, Target]
    columns: Columns
    sums: Any  # by name: what adds up over blocks
    said: Any  # by name: what models say of columns
    specs: Specs
    rows: float | None = None  # decisions of the whole log, where this is a part of it

    def make(self, names: Sequence[Name]) -> None:
        """Every column and sum of these names that is not there."""
        for name in names:
            if name not in self.columns and name not in self.sums:
                self._makers[name if isinstance(name, str) else name[0]](self, name, names)  # type: ignore[index]

    def _made(self, name: Any) -> Array:
        self.make([name])
        return self.columns[name]

    def _target(self, name: str) -> Target:
        """The policy, or smoothing of one, of this name; else one whose v is kept under it."""
        every = [t for target in self.policies.values() for t in target.all]
        named = [t for t in every if t.name == name]
        return (named or [t for t in every if t.values_of == name])[0]

    # -- columns -----------------------------------------------------------------------------------------

    def _base(self, *_: Any) -> None:
        """What is known of every row."""
        for name in BASE:
            values = getattr(self.log, name)
            if values is not None and not is_constant(values):
                self.columns.put(name, 0, values)
        for name, values in self.log.metrics.items():
            self.columns.put(("metric", name), 0, values)

    def _fold(self, name: Any, _: Any) -> None:
        repeat = name[1]
        self.columns.put(name, 0, self.folds.labels[repeat].astype(np.int32))
        self.columns.put(("half", repeat), 0, self.folds.half[repeat])

    def _pi_e(self, name: Any, _: Any) -> None:
        """(S,) π_e of the logged actions, or of their cells where ratios are of these."""
        log, target, ratios = self.log, self._target(name[1]), self.specs.ratios
        own, weighted = ratios.of_logged(target, log.context, log.action)
        self.columns.put(name, 0, weighted)
        if ratios.is_coarse:
            self.columns.put((OWN, *name), 0, own)
        if target.numbers is not None and target.numbers.apart is not None:
            apart, action = target.numbers.apart, np.asarray(log.action, dtype=np.float64)
            self.columns.keep((APART, target.values_of), 0, lambda: apart(action))

    def _pi_b(self, name: Any, _: Any) -> None:
        """π_b of the logged actions in one split; of the actions themselves too, where ratios are of cells."""
        behaviors = self.nuisances.behaviors
        made = behaviors.of_split("full" if name == GIVEN else name[1], name[2])
        self.columns.put(name, 0, made.probability)
        if made.note:
            self.said["behavior", *name[1:]] = made.note
        if made.raised is not None:
            self.columns.put(("raised", *name[1:]), 0, made.raised)
        if self.specs.ratios.is_coarse and (OWN, "pi_b") not in self.columns:
            for own, values in (((OWN, "pi_b"), behaviors.of_actions), (LEANING, behaviors.leaning)):
                if values is not None:
                    self.columns.put(own, 0, values)

    def _values(self, name: Any, names: Sequence[Any]) -> None:
        """Q and v of one policy in one split, and of as many others as still fit in memory beside it."""
        split, repeat = name[1].removeprefix(EMPHASIZED), name[2]
        if split != name[1]:
            self._emphasized(name, split)
            return
        most = max(1, TOGETHER // (8 * max(len(self.log.action), 1)))
        others = [n for n in names if n[:3] == name[:3] and n != name and n not in self.columns]
        chosen = {n[3]: self._target(n[3]) for n in [name, *others][:most]}
        made = self.nuisances.values(split, repeat, list(chosen.values()))
        for of, target in chosen.items():
            # q depends on the target for episodes only; one column serves all targets of a bandit log.
            self._keep_values((*name[:3], of), made[target.name], "" if self.log.layout.is_single else of)

    def _keep_values(self, name: Any, values: Values, of: str) -> None:
        self.columns.keep(("q", *name[1:3], of), 0, lambda: values.q)
        self.columns.put(name, 0, values.v)
        if values.note:
            self.said[name] = values.note

    def _emphasized(self, name: Any, split: Any) -> None:
        """Q fitted to minimize the variance of the doubly robust score (MRDR)."""
        repeat, target, fits, emphasis = name[2], self._target(name[3]), self.nuisances, None
        if not fits.store.sealed:
            log, pi_e = self.log, self._made(("pi_e", target.name))
            # Training rows of a half-sample split have no out-of-fold π_b of their own there.
            own = ("pi_b", "crossfit" if split == "half" else split, repeat)
            pi_b = self._made(GIVEN if fits.behaviors.is_given else own)
            blank = np.zeros_like(pi_e)
            emphasis = variance_emphasis(
                Decisions(log.layout, log.reward, pi_e, pi_b, blank, blank, self.specs.discount)
            )
        made = fits.values(split, repeat, [target], emphasis, target.name)
        self._keep_values(name, made[target.name], target.name)

    def _marginal(self, name: Any, _: Any) -> None:
        """Ratios of state-action marginals at the logged steps, in one split."""
        _, split, repeat, of = name
        made = self.nuisances.marginal(split, repeat, self._target(of), self._made(("pi_e", of)))
        self.columns.put(name, 0, made.ratio)
        self.said[name] = made.off

    # -- sums --------------------------------------------------------------------------------------------

    def _masses(self) -> tuple[Floats, Floats]:
        return masses(Units(self.log.layout.n_units, self.log.count, self.log.weight))

    def _reach(self, name: Any, _: Any) -> None:
        """Where a target puts its mass: over all units, or the scored half."""
        target, unit = self.specs.ratios.target(self._target(name[2])), self.log.layout.unit
        scored: Any = self.folds.half[0] if name[1] == "half" else 1.0
        mass, square = ((each * scored)[unit] for each in self._masses())
        self.sums[name] = reach(self.nuisances.behaviors.log, target, mass, square)

    def _calibration(self, name: Any, _: Any) -> None:
        """π_b of all actions against those taken; None where only the logged action's is known."""
        (mass, square), log, sums = self._masses(), self.nuisances.behaviors.log, None
        for rows, matrix in self.nuisances.behaviors.distributions(name[1]):
            at = log.layout.unit[rows]
            part = calibration_sums(matrix, log.action[rows], mass[at], square[at], self.log.count[at])
            sums = part if sums is None else sums + part
        self.sums[name] = sums

    def _sampled(self, name: Any, _: Any) -> None:
        self.sums[name] = sampled(self.log, self._target(name[1]), self._contexts)

    @cached_property
    def _contexts(self) -> Hashes:
        """Hashes of the contexts, of which every policy's sample is drawn."""
        return table_hashes(self.log)

    def _log(self, name: Any, _: Any) -> None:
        self.sums[name] = log_sums(self.log, rows=self.rows)

    _makers: ClassVar[dict[Any, Any]] = {
        "action": _base,
        "fold": _fold,
        "pi_e": _pi_e,
        "pi_b": _pi_b,
        "v": _values,
        "marginal": _marginal,
        "reach": _reach,
        "calibration": _calibration,
        "sampled": _sampled,
        "log": _log,
    }


@dataclass(frozen=True, eq=False)
class Task:
    """What is done with one block; plain values, so that it can be sent to other machines."""

    plan: Plan
    specs: Specs
    fits: FitStore
    policies: dict[str, Any]
    names: Sequence[Name]
    rows: float

    def __call__(self, log: Log, folds: Folds | None = None) -> tuple[dict[Any, Array], dict[Any, Any], dict[Any, Any]]:
        """Columns of the block, what adds up over blocks, and what models have to say."""
        folds = self.plan.block(log.units, labels=log.fold) if folds is None else folds
        found = {name: resolve(name, policy, log) for name, policy in self.policies.items()}
        fits = Nuisances(log, folds, self.specs.in_order(log), self.fits, tuple(found.values()))
        block = Block(log, folds, fits, found, Columns(limit=2**62), {}, {}, self.specs, self.rows)
        block.make(self.names)
        return {name: block.columns[name] for name in block.columns}, block.sums, block.said
