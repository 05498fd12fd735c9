"""Episodes and slates that stay where they are: read whole, or passed over in blocks of whole units."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._visible import printable
from offpolicy.engines.reading import Reading
from offpolicy.engines.scan import policy_columns
from offpolicy.engines.scanned import Scanned
from offpolicy.engines.unit_schema import Facts, UnitRoles, facts_of, kind_of, ordered
from offpolicy.errors import DataError, UsageError, check_choice
from offpolicy.logs import checks
from offpolicy.logs.frame import Columns
from offpolicy.logs.kinds import space_of, unit_word
from offpolicy.logs.layout import Layout
from offpolicy.logs.metrics import check_metric
from offpolicy.logs.steps import elsewhere
from offpolicy.splits.folds import check_enough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array
    from offpolicy.engines.engine import Engine
    from offpolicy.engines.unit_schema import Kind
    from offpolicy.logs.actions import Label
    from offpolicy.logs.kinds import ActionSpace, UnitKind
    from offpolicy.splits.folds import Plan


def scan_units(constructor: Any, source: Any, way: str, given: dict[str, Any]) -> UnitScan:
    """What `Trajectories.scan` and `Slates.scan` do: the roles are those of ``from_frame``."""
    kind = kind_of(constructor.kind)
    signature = inspect.signature(constructor.from_frame).parameters
    roles = {name for name in signature if name not in {"frame", *kind.in_memory_only}}
    for name in kind.in_memory_only:
        if given.get(name) is not None:
            raise UsageError(
                f"{name}= holds lists, which are read in memory only: load the log with "
                f"{constructor.__name__}.from_frame."
            )
    check_choice("way", way, "auto", "rows", "stream")
    rest = {k: v for k, v in given.items() if k not in {*roles, *kind.in_memory_only}}
    reading = Reading.of(rest, f"{constructor.__name__}.scan()", roles)
    for name in (*kind.needed, "action", "reward"):
        if given.get(name) is None and (name != kind.seen):
            raise UsageError(f"{constructor.__name__}.scan() needs {name}=: the column that holds it.")
    named = UnitRoles.of(kind, {k: v for k, v in given.items() if k in roles})
    labels = [c for c in (named.unit, named.action, named.cluster, named.fold) if c is not None]
    runner, rows = reading.open(source, labels)
    try:
        named.check(rows.columns)
    except BaseException:
        runner.close()
        raise
    described = str(source) if isinstance(source, str) else type(source).__name__
    return UnitScan(kind, runner, rows, named, named.actions, way, reading, described)


@dataclass(frozen=True, eq=False)
class UnitScan(Scanned):
    """Units of several rows behind a query engine. Build it with `Trajectories.scan` or `Slates.scan`.

    Nothing is read until it is evaluated. The engine puts the rows in the order of unit and step; every unit is
    checked once, as one in memory is.
    """

    layout: Kind
    engine: Engine
    table: Any
    roles: UnitRoles
    given_actions: tuple[Label, ...] | None
    way: str
    reading: Reading
    described: str

    in_memory: ClassVar[bool] = False
    action_features: ClassVar[None] = None

    @property
    def kind(self) -> str:
        """What a unit is."""
        return self.layout.name

    @property
    def progress(self) -> Any:  # type: ignore[override]
        """Called with the stage and how far it is."""
        return self.reading.progress

    @printable
    def __repr__(self) -> str:
        roles = self.roles
        return (
            f"{self.layout.title}Scan({self.engine.name}: {self.described}, {self.layout.unit} {roles.unit!r}, "
            f"{self.layout.seen} {list(roles.context)}, action {roles.action!r}, "
            f"reward {', '.join(map(repr, roles.rewards))})"
        )

    @cached_property
    def facts(self) -> Facts:
        """Numbers of units and rows, and the actions; by queries."""
        self.report("check", 0.0)
        found = facts_of(self.engine, self.table, self.roles, self.given_actions)
        self.report("check", 1.0)
        return found

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.roles.propensity is not None

    @property
    def n(self) -> int:
        """Units."""
        return self.facts.n

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions."""
        return self.facts.labels

    @property
    def unit_kind(self) -> UnitKind:
        """What a unit is, and what follows from it."""
        return super().unit_kind if self.roles.own_kind is None else self.roles.own_kind

    def with_actions(self, labels: tuple[Label, ...]) -> UnitScan:
        """The same log with its actions listed."""
        return replace(self, given_actions=labels)

    @property
    def space(self) -> ActionSpace:
        """What an action is."""
        return space_of(self.facts.labels)

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name."""
        return tuple(self.table.columns)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the rewards, the first of which is the log's."""
        return self.roles.rewards

    def with_reward(self, name: str) -> UnitScan:
        """The same log with another of its metrics as the reward."""
        check_metric(name, self.metrics)
        rest = tuple(other for other in self.metrics if other != name)
        return replace(self, roles=replace(self.roles, rewards=(name, *rest)))

    def up_to(self, steps: int) -> UnitScan:
        """The same log for the value of up to ``steps`` steps; slates refuse."""
        return replace(self, roles=self.layout.up_to(self.roles, steps))

    def read(self, extra: tuple[str, ...] = ()) -> Any:
        """All units in memory."""
        rows = self.engine.table(ordered(self.table, self.roles, extra))
        log = self.layout.whole(rows.to_pandas(), self.roles, self.facts)
        return replace(log, about=self.about("rows", log.rows))

    def whole(self) -> Any:
        """All of it in memory, on which the checks of a log run."""
        return self.read()

    def opened(self, plan: Plan, named: dict[str, Any], value_model: Any, behavior_model: Any, /) -> Any:
        """The units in memory, or what is narrow of them with contexts that come in blocks."""
        for what, model in (("value_model", value_model), ("behavior_model", behavior_model)):
            if isinstance(model, np.ndarray | list | tuple | dict):
                raise UsageError(
                    f"{what}= as an array has one row per {self.layout.step}, which a scanned log does not hold. Give "
                    f"a model, or load the log with {self.layout.title}.from_frame."
                )
        if plan.labels is not None or plan.stratify is not None:
            raise UsageError(
                "folds= must be an int for a scanned log. Labels of your own come in a column: "
                f"{self.layout.title}.scan(…, fold=…)."
            )
        extra = policy_columns({**named, "": behavior_model})
        if self.roles.fold is None and self.roles.cluster is None:
            check_enough(plan.k, self.n, unit_word(self, plural=True))
        few = self.facts.rows <= self.reading.max_rows
        if self.way == "rows" or (self.way == "auto" and few):
            return self.read(extra)
        self.layout.refuse_stream(self.engine, self.table, self.roles, self.facts)
        return streamed(Rows(self, extra))

    def about(self, way: str, held: int) -> dict[str, Any]:
        """Who reads the log and how much is in memory at once, for the settings of a result."""
        return self.described_as(way, self.facts.rows, held)


@dataclass(frozen=True, eq=False)
class Rows:
    """Passes over the rows of a scan, in the order of unit and step."""

    scan: UnitScan
    extra: tuple[str, ...]

    @property
    def fit_rows(self) -> int:
        """Most decisions that models are fitted to."""
        return self.scan.reading.fit_rows

    @property
    def roles(self) -> UnitRoles:
        """What the columns are."""
        return self.scan.roles

    def frames(self) -> Iterator[Any]:
        """Pandas frames of whole units."""
        import pyarrow as pa

        scan, waiting = self.scan, None
        for batch in scan.engine.batches(self._rows(), scan.reading.chunk_rows):
            rows = pa.Table.from_batches([batch])
            rows = rows if waiting is None else pa.concat_tables([waiting, rows])
            last = _start_of_last(rows[scan.roles.unit])
            if last:
                yield rows.slice(0, last).to_pandas()
            waiting = rows.slice(last)
        if waiting is not None and waiting.num_rows:
            yield waiting.to_pandas()

    def log(self, frame: Any, first: int = 0) -> Any:
        """A log in memory of a pandas frame of whole units; ``first`` is the number of its first row."""
        layout = self.scan.layout
        try:
            log = layout.part(frame, self.roles, self.scan.facts)
        except DataError as error:
            counted = f"from row {first:,} on, " if first else ""
            raise DataError(
                f"{error} (Rows are counted {counted}in the order of {layout.unit} and {layout.step}.)"
            ) from error
        return self.coded(log)

    def coded(self, log: Any) -> Any:
        """Units whose text columns know all their values, also those of other rows."""
        levels = self.scan.facts.levels
        if not levels:
            return log
        changed = {"context": replace(log.context, levels=levels)}
        if getattr(log, "bare", None) is not None:
            changed["bare"] = replace(log.bare, levels=levels)
        return replace(log, **changed)

    def blocks(self) -> Iterator[Any]:
        """Logs of whole units, as `log` makes them."""
        first = 0
        for frame in self.frames():
            log = self.log(frame, first)
            if log.row_order is not None:
                layout, scan = self.scan.layout, self.scan
                raise UsageError(
                    f"column {scan.roles.unit!r}: {scan.engine.name} sorts this text in an order of its own. Give "
                    f"{layout.unit}s whole numbers, or read the log with way='rows'."
                )
            yield log
            first += len(frame)

    def column(self, name: str) -> Array:
        """One column of all rows."""
        rows = self.scan.engine.table(self._rows().select(name))
        return Columns(rows).values(name)

    def _rows(self) -> Any:
        return ordered(self.scan.table, self.scan.roles, self.extra)


def _start_of_last(unit: Any) -> int:
    """Row at which the last unit of some rows starts, whose end may not have come yet."""
    import pyarrow.compute as pc

    if len(unit) == 0:
        return 0
    same = pc.fill_null(pc.equal(unit, unit[len(unit) - 1]), fill_value=False)
    other = np.flatnonzero(~np.asarray(same.to_numpy(), dtype=bool))
    return int(other[-1]) + 1 if len(other) else 0


def streamed(passes: Rows) -> Any:
    """What is narrow of all units, each of which is checked in this pass; contexts come in blocks."""
    scan, parts, heads = passes.scan, [], list[Any]()
    for block in passes.blocks():
        heads = heads or [block.take(np.arange(1))]
        parts.append(_narrow(block, scan))
    head = heads[0]
    whole = {name: _together([part[name] for part in parts]) for name in parts[0]}
    _, cluster = checks.coded(whole["cluster"], scan.roles.cluster or "cluster", "cluster")
    _, fold = checks.coded(whole["fold"], "fold", "fold")
    names = (head.context if getattr(head, "bare", None) is None else head.bare).names
    context = elsewhere(len(whole["action"]), names, passes.column)
    fields = {each.name: getattr(head, each.name) for each in dataclasses.fields(head)}
    changed = {
        "action": whole["action"],
        "reward": whole["reward"],
        "further": {name: whole["further", name] for name in head.further},
        "propensity": whole["propensity"],
        "distribution": None,
        "layout": Layout.ragged(whole["lengths"], head.unit_kind.link(int(whole["lengths"].max()))),
        "ended": np.ones(len(whole["lengths"]), dtype=bool),
        "cluster": cluster,
        "weight": whole["weight"],
        "count": None,
        "batch": None,
        "fold": None if fold is None else fold[None, :],
        "unit": whole["unit"],
        "source": None,
        "row_order": None,
        "eligible": None,
        "context": context,
        "about": scan.about("stream", scan.reading.chunk_rows),
        "passes": passes,
    }
    return scan.layout.narrow(type(head), {**fields, **changed}, whole, scan.roles)


def _narrow(block: Any, scan: UnitScan) -> dict[Any, Any]:
    """What is held of one block."""
    source, first, roles = Columns(block.source), block.layout.offsets[:-1], scan.roles

    def labels(name: str | None) -> Array | None:
        return None if name is None else source.values(name)[first]

    return {
        "action": block.action,
        "reward": block.metrics[block.names.reward],
        "propensity": block.propensity,
        "lengths": np.diff(block.layout.offsets),
        "weight": block.weight if block.is_weighted else None,
        "unit": block.units,
        "cluster": labels(roles.cluster),
        "fold": labels(roles.fold),
        "start": np.full(1, getattr(block, "positions", (0,))[0]),
        **{("flag", name): source.values(name) for name in roles.flags},
        **{("further", name): values for name, values in block.further.items()},
    }


def _together(parts: list[Any]) -> Any:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else None
