"""What differs between episodes and slates when an engine holds their rows: roles, facts, and rows as a log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from offpolicy.engines.codes import codes_of
from offpolicy.engines.engine import ibis_module
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs import messages
from offpolicy.logs.actions import encode, label_array, refuse_continuous
from offpolicy.logs.endings import TREATMENTS, endings, whole_steps
from offpolicy.logs.kinds import own_kind
from offpolicy.logs.metrics import reward_names
from offpolicy.logs.roles import check_apart
from offpolicy.logs.slates import UNDECIDED, Slates
from offpolicy.logs.trajectories import Trajectories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.actions import Label
    from offpolicy.logs.kinds import UnitKind

MAX_LEVELS = 1_000_000
KEYS = ("action", "propensity", "cluster", "weight", "fold")


@dataclass(frozen=True)
class UnitRoles:
    """Column names by role; ``settings`` are the other arguments of ``from_frame``."""

    kind: Kind
    unit: str
    step: str
    context: tuple[str, ...]
    action: str
    rewards: tuple[str, ...]
    propensity: str | tuple[str, ...] | None = None
    cluster: str | None = None
    weight: str | None = None
    fold: str | None = None
    actions: tuple[Any, ...] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    own_kind: UnitKind | None = None  # a kind of unit that is not the library's

    @classmethod
    def of(cls, kind: Kind, given: dict[str, Any]) -> UnitRoles:
        """From the arguments of ``from_frame``."""
        rest = dict(given)
        seen = rest.pop(kind.seen, None)
        propensity, actions = rest.pop("propensity", None), rest.pop("actions", None)
        unit, own = own_kind(rest.pop(kind.unit))
        return cls(
            kind,
            unit,
            rest.pop(kind.step),
            (seen,) if isinstance(seen, str) else tuple(seen or ()),
            rest.pop("action"),
            reward_names(rest.pop("reward")),
            propensity if isinstance(propensity, str | None) else tuple(propensity),
            rest.pop("cluster", None),
            rest.pop("weight", None),
            rest.pop("fold", None),
            None if actions is None else tuple(actions),
            rest,
            own,
        )

    @property
    def reward(self) -> str:
        """The first of the rewards."""
        return self.rewards[0]

    @property
    def distribution(self) -> tuple[str, ...]:
        """Columns of the whole logging distribution, when it was logged."""
        return self.propensity if isinstance(self.propensity, tuple) else ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Columns that say how units end."""
        return tuple(c for c in self.kind.flags(self.settings) if c is not None)

    @property
    def named(self) -> dict[str, str]:
        """{column: role} of every column that is read."""
        one = {self.propensity: "propensity"} if isinstance(self.propensity, str) else {}
        columns: dict[Any, str] = {
            self.unit: self.kind.unit,
            self.step: self.kind.step,
            **dict.fromkeys(self.context, self.kind.seen),
            self.action: "action",
            **dict.fromkeys(self.rewards, "reward"),
            **one,
            **dict.fromkeys(self.distribution, "propensity"),
            **dict.fromkeys(self.flags, "terminated"),
        }
        optional = {role: getattr(self, role) for role in ("cluster", "weight", "fold")}
        return {**columns, **{name: role for role, name in optional.items() if name is not None}}

    def check(self, columns: Sequence[str]) -> None:
        """Every named column exists, and plays one role."""
        flags = dict(zip(("terminated", "truncated"), self.kind.flags(self.settings), strict=False))
        single = {role: getattr(self, role) for role in KEYS}
        units = {self.kind.unit: self.unit, self.kind.step: self.step}
        check_apart({"reward": self.rewards, **units, **single, **flags})
        for name, role in self.named.items():
            if not isinstance(name, str):
                raise DataError(f"{role}= must be a column name (str). Got {name!r} instead.")
            if name not in columns:
                raise DataError(f"{role}={name!r}: the source has no such column.{did_you_mean(name, columns)}")

    def arguments(self, facts: Facts) -> dict[str, Any]:
        """Those of ``from_frame`` for rows of this log."""
        return {
            self.kind.unit: self.unit if self.own_kind is None else self.own_kind,
            self.kind.step: self.step,
            self.kind.seen: list(self.context),
            "action": self.action,
            "reward": list(self.rewards),
            "propensity": self.propensity,
            "cluster": self.cluster,
            "weight": self.weight,
            "fold": self.fold,
            "actions": facts.labels,
            **self.settings,
        }


@dataclass(frozen=True)
class Facts:
    """What queries tell of a log.

    Attributes
    ----------
    rows, n : int
        Decisions, and units.
    longest : int
        Decisions of the longest unit.
    labels : tuple
        The K actions.
    repeats : bool
        Whether some unit has an action twice.
    levels : dict
        Sorted distinct values of each text column of the context.
    """

    rows: int
    n: int
    longest: int
    labels: tuple[Label, ...]
    repeats: bool
    levels: dict[str, list[Any]]


def facts_of(engine: Engine, table: Any, roles: UnitRoles, actions: Sequence[Label] | None) -> Facts:
    """What the whole log has to say before any block of it is read."""
    counts = table.group_by(roles.unit).aggregate(rows=table.count())
    found = engine.table(
        counts.aggregate(n=counts.count(), rows=counts.rows.sum(), longest=counts.rows.max())
    ).to_pylist()[0]
    if not found["n"]:
        raise DataError(messages.EMPTY)
    logged = engine.table(table.select(roles.action).distinct().limit(MAX_LEVELS))
    if logged[roles.action].null_count:
        raise DataError(
            f"column {roles.action!r}: some rows have no {roles.kind.acts}. Every row needs one; leave out the others."
        )
    labels, _ = encode(label_array(codes_of(logged, roles.action)[0]), actions, roles.action)
    refuse_continuous(labels, int(found["rows"]), roles.action, actions)
    levels = {}
    for name in roles.context:
        if table[name].type().is_string():
            present = engine.table(table.select(name).distinct().limit(MAX_LEVELS))
            levels[name] = sorted(v for v in present[name].to_pylist() if v is not None)
    repeats = roles.kind.repeats(engine, table, roles)
    return Facts(int(found["rows"]), int(found["n"]), int(found["longest"]), labels, repeats, levels)


def ordered(table: Any, roles: UnitRoles, extra: Sequence[str]) -> Any:
    """The columns that are read, unit after unit and step after step."""
    for name in extra:
        if name not in table.columns:
            raise DataError(
                f"a policy names the column {name!r}, which the source does not have."
                f"{did_you_mean(name, table.columns)}"
            )
    names = list(dict.fromkeys([*roles.named, *extra]))
    kind = ibis_module().expr.datatypes
    columns = {}
    for name in names:
        column = table[name]
        # Engines differ in what they make of decimals; a reward is a float64 everywhere.
        columns[name] = column.cast("float64") if isinstance(column.type(), kind.Decimal) else column
    return table.select(**columns).order_by([roles.unit, roles.step])


class Kind(Protocol):
    """What a layout says of its rows behind an engine."""

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]
    step: ClassVar[str]
    seen: ClassVar[str]
    acts: ClassVar[str]
    needed: ClassVar[tuple[str, ...]]
    in_memory_only: ClassVar[tuple[str, ...]]

    def flags(self, settings: dict[str, Any]) -> tuple[str | None, ...]:
        """Columns that say how units end."""

    def repeats(self, engine: Engine, table: Any, roles: UnitRoles) -> bool:
        """Whether some unit has an action twice."""

    def up_to(self, roles: UnitRoles, steps: int) -> UnitRoles:
        """The roles for the value of fewer steps."""

    def whole(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """The log of all rows."""

    def part(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """A log of whole units that are a part of a larger one."""

    def refuse_stream(self, engine: Engine, table: Any, roles: UnitRoles, facts: Facts) -> None:
        """Refuse what blocks cannot give the same answer for."""

    def narrow(self, cls: Any, fields: dict[str, Any], whole: dict[Any, Any], roles: UnitRoles) -> Any:
        """The log without its contexts."""


@dataclass(frozen=True)
class Slots:
    """Slates: an item per slot, of which the order is known before."""

    name: ClassVar[str] = "slates"
    title: ClassVar[str] = "Slates"
    unit: ClassVar[str] = "slate"
    step: ClassVar[str] = "position"
    seen: ClassVar[str] = "context"
    acts: ClassVar[str] = "item"
    needed: ClassVar[tuple[str, ...]] = ("slate", "position")
    in_memory_only: ClassVar[tuple[str, ...]] = ("candidates",)

    def flags(self, settings: dict[str, Any]) -> tuple[str | None, ...]:
        """None: a slate is whole."""
        return ()

    def repeats(self, engine: Engine, table: Any, roles: UnitRoles) -> bool:
        """Whether some slate shows an item twice."""
        pairs = table.group_by([roles.unit, roles.action]).aggregate(times=table.count())
        twice = engine.table(pairs.aggregate(times=pairs.times.max()))["times"][0].as_py() > 1
        if roles.settings.get("distinct") and twice:
            raise UsageError("distinct=True, but the log has slates that show an item twice.")
        return bool(twice)

    def up_to(self, roles: UnitRoles, steps: int) -> UnitRoles:
        """Refused, as by slates in memory."""
        raise UsageError(
            f"horizon={steps!r} is for episodes. For the value of the first slots of a slate set the rewards of the "
            "others to 0."
        )

    def whole(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """All slates; whether items repeat and how many slots there are is known from all of them."""
        return self.part(frame, roles, facts)

    def part(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """Slates of a part of the rows."""
        arguments = {"slots": facts.longest, **roles.arguments(facts)}
        if arguments.get("distinct") is None:
            arguments["distinct"] = not facts.repeats
        return Slates.from_frame(frame, **arguments)

    def refuse_stream(self, engine: Engine, table: Any, roles: UnitRoles, facts: Facts) -> None:
        """Nothing: blocks know all that slates need."""

    def narrow(self, cls: Any, fields: dict[str, Any], whole: dict[Any, Any], roles: UnitRoles) -> Any:
        """The slates, under the interaction that was asked for."""
        starts = np.unique(whole["start"])
        if len(starts) > 1:
            raise DataError(
                f"column {roles.step!r}: some slates start at position {starts.max()}, others at {starts.min()}. A "
                f"slate whose beginning is missing cannot be weighted; drop it, or renumber {roles.step!r} in each "
                f"{roles.unit!r}."
            )
        narrow = {"slot_reward": fields["reward"], "bare": fields["context"], "allowed": None}
        log = cls(**{**fields, **narrow})
        asked = roles.settings.get("interaction", "cascade")
        undecided = isinstance(asked, str) and asked == UNDECIDED
        return replace(log.assuming(fields["interaction"]), undecided=undecided)


@dataclass(frozen=True)
class Runs:
    """Episodes: one decision leads to the next."""

    name: ClassVar[str] = "trajectories"
    title: ClassVar[str] = "Trajectories"
    unit: ClassVar[str] = "episode"
    step: ClassVar[str] = "step"
    seen: ClassVar[str] = "state"
    acts: ClassVar[str] = "action"
    needed: ClassVar[tuple[str, ...]] = ("episode", "step")
    in_memory_only: ClassVar[tuple[str, ...]] = ("eligible",)

    def flags(self, settings: dict[str, Any]) -> tuple[str | None, ...]:
        """Columns of flags: terminated, truncated."""
        cut = settings.get("truncated", "raise")
        return settings.get("terminated"), None if cut in TREATMENTS else cut

    def repeats(self, engine: Engine, table: Any, roles: UnitRoles) -> bool:
        """Not asked of episodes."""
        return True

    def up_to(self, roles: UnitRoles, steps: int) -> UnitRoles:
        """The value of up to so many steps, as ``horizon=`` asks for it."""
        steps = whole_steps(steps, "horizon=")
        return replace(roles, settings={**roles.settings, "horizon": steps})

    def whole(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """All episodes."""
        return Trajectories.from_frame(frame, **roles.arguments(facts))

    def part(self, frame: Any, roles: UnitRoles, facts: Facts) -> Any:
        """Some episodes; how they end is decided for all together."""
        given = roles.arguments(facts)
        given |= {"terminated": None, "truncated": "raise", "discrete": False}
        return Trajectories.from_frame(frame, **{**given, "horizon": facts.longest + 1})

    def refuse_stream(self, engine: Engine, table: Any, roles: UnitRoles, facts: Facts) -> None:
        """States that are ids are counted, which needs all of them at once."""
        discrete = roles.settings.get("discrete")
        if discrete is None and roles.context:
            held = [table[name].type() for name in roles.context]
            ids = all(t.is_integer() or t.is_boolean() or t.is_string() for t in held)
            discrete = ids
            if ids and len(roles.context) > 1:
                states = table.select(*roles.context).distinct()
                number = engine.table(states.aggregate(n=states.count()))["n"][0].as_py()
                discrete = 2 * int(number) <= facts.rows
        if discrete:
            raise UsageError(
                "states are ids, of which tables are made that need all steps at once. Read the log with way='rows', "
                "or say discrete=False: the columns are then features of a model (FittedQ)."
            )

    def narrow(self, cls: Any, fields: dict[str, Any], whole: dict[Any, Any], roles: UnitRoles) -> Any:
        """The episodes, and which value they speak of."""
        terminated, truncated = self.flags(roles.settings)
        cut = roles.settings.get("truncated", "raise")
        ending = endings(
            whole["lengths"],
            None if terminated is None else whole["flag", terminated],
            cut if truncated is None else whole["flag", truncated],
            roles.settings.get("horizon"),
        )
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


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Slots(), Runs())}


def kind_of(name: str) -> Kind:
    """The layout of a constructor."""
    return KINDS[name]
