"""What differs between layouts when an engine holds their rows: which facts are asked for, and rows as a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from offpolicy.engines.compress import TooManyCellsError, compress
from offpolicy.engines.facts import facts_of_rows, facts_of_units
from offpolicy.engines.rows import Schema, codes_of
from offpolicy.engines.stream import StreamedLog
from offpolicy.engines.table import levels_of, normalized, unit_rows
from offpolicy.engines.units import UnitPasses, streamed
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.endings import TREATMENTS, endings, whole_steps
from offpolicy.logs.frame import Columns
from offpolicy.logs.outcome import columns_of, with_outcomes
from offpolicy.logs.roles import OWN_WORDS
from offpolicy.logs.slates import UNDECIDED, Slates
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from offpolicy.engines.facts import Facts
    from offpolicy.engines.scan import LogScan
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.roles import Roles
    from offpolicy.splits.folds import Plan

COARSE = 0.1  # share of distinct values up to which a column is worth compressing


class Scanned(Protocol):
    """A layout behind an engine.

    Attributes
    ----------
    title : str
        Beginning of what a scan of it is called.
    constructor, door : str
        Who builds such a log in memory, and who scans it.
    row, units : str
        One row, and its units, in words.
    outcome : Outcome, {metric: Outcome} or None
        Why rewards are missing, where they are.
    """

    title: ClassVar[str]
    constructor: ClassVar[str]
    door: ClassVar[str]
    row: ClassVar[str]
    units: ClassVar[str]

    @property
    def outcome(self) -> Any:
        """Why rewards are missing; None: every row has its own."""
        ...

    def facts(self, scan: LogScan) -> Facts:
        """What queries tell of the log."""
        ...

    def up_to(self, steps: int) -> Scanned:
        """The layout for the value of fewer steps."""
        ...

    def opened(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> Any:
        """The log, ready to be read; ``extra`` are columns that policies name."""
        ...

    def cells(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> BanditLog:
        """The log as weighted cells."""
        ...

    def rows(self, scan: LogScan, extra: tuple[str, ...]) -> Any:
        """The log in memory."""
        ...

    def whole(self, scan: LogScan) -> Any:
        """The log in memory, on which its checks run."""
        ...


@dataclass(frozen=True, eq=False)
class Single:
    """Single decisions: rows, weighted cells, or blocks of rows; ``outcome`` says why rewards are missing."""

    outcome: Any = None

    title: ClassVar[str] = "Log"
    constructor: ClassVar[str] = "BanditLog"
    door: ClassVar[str] = "scan"
    row: ClassVar[str] = "logged row"
    units: ClassVar[str] = "units"

    def facts(self, scan: LogScan) -> Facts:
        """Every row is checked."""
        return facts_of_rows(scan.engine, scan.table, scan.roles, self.outcomes(scan))

    def outcomes(self, scan: LogScan) -> Mapping[str, Any]:
        """Outcomes of metrics that are seen in part."""
        if self.outcome is None:
            return {}
        return self.outcome if isinstance(self.outcome, Mapping) else dict.fromkeys(scan.roles.rewards, self.outcome)

    def reads(self, scan: LogScan, extra: tuple[str, ...]) -> tuple[str, ...]:
        """Columns besides those of the roles: what policies name, and what outcomes read."""
        if self.outcome is None:
            return extra
        own = columns_of(self.outcome)
        return tuple(dict.fromkeys((*extra, *(scan.table.columns if own is None else own)))) or (scan.roles.reward,)

    def up_to(self, steps: int) -> Single:
        """Refused: a unit is one decision."""
        raise UsageError("horizon= is for trajectories; a bandit log has one decision per unit.")

    def opened(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> Any:
        """The smallest exact form that fits: cells where values repeat, rows where they are few, or blocks."""
        way, most, n = scan.way, scan.reading, scan.n
        few = "rows" if n <= most.max_rows else "stream"
        if scan.roles.eligible is not None:
            if (few if way == "auto" else way) != "rows":
                refuse_lists(scan)
            way = "rows"
        distinct = scan.facts.distinct
        widest = max(distinct[name] for name in (*scan.roles.context, "reward"))
        if way == "auto" and (not scan.roles.space.finite or widest > COARSE * n or self.outcome is not None):
            way = few
        if way in {"auto", "cells"}:
            try:
                return self.cells(scan, plan, extra)
            except TooManyCellsError as error:
                if way == "cells":
                    raise UsageError(
                        f"the log has {error}. Use way='stream', or raise max_cells={most.max_cells:,}."
                    ) from None
            way = few
        if self.outcome is not None:
            refuse_many(scan)
        if way == "rows" or self.outcome is not None:
            return self.rows(scan, extra)
        return StreamedLog(scan, self.schema(scan, extra))

    def cells(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> BanditLog:
        """Equal rows, counted."""
        if not scan.roles.space.finite:
            raise UsageError("way='cells' counts equal rows, and actions that are numbers seldom repeat.")
        refuse_lists(scan)
        for name, each in self.outcomes(scan).items():
            if not getattr(each, "counts_rows", True):
                raise UsageError(
                    f"{type(each).__name__} needs single rows of {name!r}, which cells do not have. Use way='rows'."
                )
        scan.report("compress", 0.0)
        extra = self.reads(scan, extra)
        cells = compress(
            scan.engine, scan.table, scan.roles, scan.facts, plan, extra=extra, max_cells=scan.reading.max_cells
        )
        scan.engine.rest()
        scan.report("compress", 1.0)
        return self._made(scan, replace(cells, action_features=scan.action_features), "cells")

    def rows(self, scan: LogScan, extra: tuple[str, ...]) -> BanditLog:
        """All rows, as one block."""
        whole = StreamedLog(scan, self.schema(scan, self.reads(scan, extra)))
        log = whole.schema.log(scan.engine.table(whole.table()))
        cluster = np.unique(log.cluster, return_inverse=True)[1] if log.has_clusters else log.cluster
        return self._made(scan, replace(log, cluster=cluster), "rows")

    def _made(self, scan: LogScan, log: BanditLog, way: str) -> BanditLog:
        """The log with where it was read, and what it holds of its outcomes."""
        log = replace(log, about=scan.about(way, log.rows))
        if self.outcome is None:
            return log
        made: BanditLog = with_outcomes(log, self.outcome, scan.roles, Columns(log.source))
        return made

    def whole(self, scan: LogScan) -> BanditLog:
        """Weighted cells; all rows, where these hold lists or rewards are seen in part."""
        counted = self.outcome is None and scan.roles.eligible is None
        return scan.compress() if counted else self.rows(scan, ())

    def schema(self, scan: LogScan, extra: tuple[str, ...]) -> Schema:
        """What rows share, learned from the engine."""
        roles, engine = scan.roles, scan.engine
        rows = normalized(scan.table, roles, scan.facts.labels, extra)
        levels = levels_of(engine, rows, {name: f"x{j}" for j, name in enumerate(roles.context)})

        def labels(role: str) -> tuple[Any, ...] | None:
            if role not in rows.columns:
                return None
            return codes_of(engine.table(rows.select(role).distinct()), role)[0]

        batches, folds = labels("batch"), labels("fold")
        return Schema(roles, scan.facts.space, extra, batches, folds, levels, features=scan.action_features)


def refuse_lists(scan: LogScan) -> None:
    """Which actions could be taken is known row by row, and held in memory only."""
    if scan.roles.eligible is not None:
        word = OWN_WORDS[scan.roles.layout].get("eligible", "eligible")
        raise UsageError(
            f"{word}= contains lists, which are read in memory only: use way='rows', and raise "
            f"max_rows={scan.reading.max_rows:,} if the log has more of them."
        )


def refuse_many(scan: LogScan) -> None:
    """Rewards that are seen in part are made whole in memory, which holds as many rows as models are fitted on."""
    n, limit = scan.facts.rows, max(scan.reading.max_rows, scan.reading.fit_rows)
    if n > limit:
        raise UsageError(
            f"the log has {n:,} rows, but partly observed rewards are completed in memory, for up to {limit:,} "
            "rows. Raise max_rows=, scan a sample, or use way='cells' if rows repeat."
        )


class Units:
    """What episodes and slates have in common: all in memory, or narrow columns with contexts that come in blocks."""

    def cells(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> BanditLog:
        """Refused: units of several rows are not counted."""
        raise UsageError("way='cells' works only for single decisions.")

    def rows(self, scan: LogScan, extra: tuple[str, ...]) -> Any:
        """All units in memory."""
        own: Any = self
        roles = scan.roles
        if own.outcome is not None:
            named = columns_of(own.outcome)
            extra = tuple(dict.fromkeys((*extra, *(scan.table.columns if named is None else named))))
        rows = unit_rows(scan.table, roles, extra).order_by([roles.unit, roles.step])
        log = own.log(scan.engine.table(rows).to_pandas(), roles, scan.facts, part=False)
        return replace(log, about=scan.about("rows", log.rows))

    def whole(self, scan: LogScan) -> Any:
        """All units in memory."""
        return self.rows(scan, ())

    def opened(self, scan: LogScan, plan: Plan, extra: tuple[str, ...]) -> Any:
        """In memory where they are few, else in blocks."""
        own: Any = self
        few = scan.facts.rows <= scan.reading.max_rows
        if scan.way == "rows" or (scan.way == "auto" and few):
            return self.rows(scan, extra)
        refuse_lists(scan)
        if own.outcome is not None:
            refuse_many(scan)
            return self.rows(scan, extra)
        own.refuse_stream(scan)
        return streamed(UnitPasses(scan, extra))


@dataclass(frozen=True, eq=False)
class Slots(Units):
    """Slates: an item per slot, of which the order is known before."""

    interaction: Any = "cascade"
    reward_of: str | None = None
    distinct: bool | None = None
    slots: int | None = None
    outcome: Any = None

    title: ClassVar[str] = "Slates"
    constructor: ClassVar[str] = "Slates"
    door: ClassVar[str] = "Slates.scan"
    row: ClassVar[str] = "position"
    units: ClassVar[str] = "slates"
    needed: ClassVar[tuple[str, ...]] = ("slate", "position", "action", "reward")

    @classmethod
    def of(cls, given: dict[str, Any]) -> tuple[Slots, dict[str, Any]]:
        """The layout, and the arguments that are left."""
        own = {k: given[k] for k in ("interaction", "reward_of", "distinct", "slots", "outcome") if k in given}
        return cls(**own), {k: v for k, v in given.items() if k not in own}

    def facts(self, scan: LogScan) -> Facts:
        """Whether an item is shown twice is known from all slates."""
        facts = facts_of_units(scan.engine, scan.table, scan.roles, repeats=True)
        if self.distinct and facts.repeats:
            raise UsageError("distinct=True, but the log has slates that show an item twice.")
        return facts

    def up_to(self, steps: int) -> Slots:
        """Refused, as by slates in memory."""
        raise UsageError(
            f"horizon={steps!r} is for episodes. To value only the first slots of a slate, set the rewards of the "
            "others to 0."
        )

    def log(self, frame: Any, roles: Roles, facts: Facts, *, part: bool) -> Slates:
        """Slates of some rows; whether items repeat and how many slots there are is known from all of them."""
        return Slates.built(
            frame,
            replace(roles, space=facts.space),
            interaction=self.interaction,
            reward_of=self.reward_of,
            distinct=not facts.repeats if self.distinct is None else self.distinct,
            slots=self.slots or facts.longest,
            outcome=self.outcome,
        )

    def refuse_stream(self, scan: LogScan) -> None:
        """Nothing: blocks know all that slates need."""

    def narrow(self, cls: Any, fields: dict[str, Any], whole: dict[Any, Any], roles: Roles) -> Any:
        """The slates without their contexts, under the interaction that was asked for."""
        starts = np.unique(whole["start"])
        if len(starts) > 1:
            raise DataError(
                f"column {roles.step!r}: some slates start at position {starts.max()}, others at {starts.min()}. A "
                f"slate without its beginning cannot be weighted; drop it, or renumber {roles.step!r} in each "
                f"{roles.unit!r}."
            )
        log = cls(**{**fields, "slot_reward": fields["reward"], "bare": fields["context"], "allowed": None})
        undecided = isinstance(self.interaction, str) and self.interaction == UNDECIDED
        return replace(log.assuming(fields["interaction"]), undecided=undecided)


@dataclass(frozen=True, eq=False)
class Runs(Units):
    """Episodes: one decision leads to the next."""

    treatment: str = "raise"
    horizon: int | None = None
    discrete: bool | None = None
    outcome: Any = None

    title: ClassVar[str] = "Trajectories"
    constructor: ClassVar[str] = "Trajectories"
    door: ClassVar[str] = "Trajectories.scan"
    row: ClassVar[str] = "step"
    units: ClassVar[str] = "episodes"
    needed: ClassVar[tuple[str, ...]] = ("episode", "step", "action", "reward")

    @classmethod
    def of(cls, given: dict[str, Any]) -> tuple[Runs, dict[str, Any]]:
        """The layout, and the arguments that are left."""
        rest = {k: v for k, v in given.items() if k not in {"truncated", "horizon", "discrete", "outcome"}}
        cut = given.get("truncated", "raise")
        is_treatment = isinstance(cut, str) and cut in TREATMENTS
        layout = cls(
            cut if is_treatment else "raise", given.get("horizon"), given.get("discrete"), given.get("outcome")
        )
        return layout, {**rest, "truncated": None if is_treatment else cut}

    def facts(self, scan: LogScan) -> Facts:
        """Numbers of episodes and steps."""
        return facts_of_units(scan.engine, scan.table, scan.roles, repeats=False)

    def up_to(self, steps: int) -> Runs:
        """The value of up to so many steps, as ``horizon=`` asks for it."""
        return replace(self, horizon=whole_steps(steps, "horizon="))

    def log(self, frame: Any, roles: Roles, facts: Facts, *, part: bool) -> Trajectories:
        """Episodes of some rows; how they end is decided for all together."""
        roles = replace(roles, space=facts.space)
        if not part:
            return Trajectories.built(
                frame, roles, self.treatment, self.horizon, discrete=self.discrete, outcome=self.outcome
            )
        roles = replace(roles, terminated=None, truncated=None)
        return Trajectories.built(frame, roles, "raise", facts.longest + 1, discrete=False)

    def refuse_stream(self, scan: LogScan) -> None:
        """States that are ids are counted, which needs all of them at once."""
        discrete, table, context = self.discrete, scan.table, scan.roles.context
        if discrete is None and context:
            held = [table[name].type() for name in context]
            discrete = all(t.is_integer() or t.is_boolean() or t.is_string() for t in held)
            if discrete and len(context) > 1:
                states = table.select(*context).distinct()
                number = scan.engine.table(states.aggregate(n=states.count()))["n"][0].as_py()
                discrete = 2 * int(number) <= scan.facts.rows
        if discrete:
            raise UsageError(
                "states are ids, and models of ids need all steps in memory. Read the log with way='rows', "
                "or pass discrete=False to use the columns as features of a model (FittedQ)."
            )

    def narrow(self, cls: Any, fields: dict[str, Any], whole: dict[Any, Any], roles: Roles) -> Any:
        """The episodes without their contexts, and which value they speak of."""
        terminated = None if roles.terminated is None else whole["flag", roles.terminated]
        truncated = self.treatment if roles.truncated is None else whole["flag", roles.truncated]
        ending = endings(whole["lengths"], terminated, truncated, self.horizon)
        log = cls(
            **{
                **fields,
                "horizon": ending.horizon if ending.cut is None else int(whole["lengths"].max()),
                "ended": ending.ended,
                "unbounded": ending.unbounded,
                "notes": (ending.note,) if ending.note else (),
            }
        )
        return log if ending.cut is None else replace(log.first(ending.cut), ended=ending.ended)


LAYOUTS: dict[str, Any] = {"slates": Slots, "trajectories": Runs}
