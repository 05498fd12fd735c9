"""What the rows of a scanned log of slates share, and rows as `Slates`: the whole log, or whole slates of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from offpolicy.engines.codes import codes_of
from offpolicy.engines.engine import ibis_module
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs import messages
from offpolicy.logs.actions import encode, label_array, refuse_continuous
from offpolicy.logs.roles import check_apart
from offpolicy.logs.slates import Slates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.actions import Label

MAX_LEVELS = 1_000_000


@dataclass(frozen=True)
class SlateRoles:
    """Column names by role, and what is assumed of the slates."""

    slate: str
    position: str
    context: tuple[str, ...]
    action: str
    rewards: tuple[str, ...]
    propensity: str | tuple[str, ...] | None = None
    cluster: str | None = None
    weight: str | None = None
    fold: str | None = None
    interaction: Any = "cascade"
    reward_of: str | None = None
    distinct: bool | None = None

    @property
    def reward(self) -> str:
        """The first of the rewards."""
        return self.rewards[0]

    @property
    def distribution(self) -> tuple[str, ...]:
        """Columns of the whole logging distribution, when it was logged."""
        return self.propensity if isinstance(self.propensity, tuple) else ()

    @property
    def named(self) -> dict[str, str]:
        """{column: role} of every column that is read."""
        one = (
            {} if self.propensity is None or self.distribution else {self.propensity: "propensity"}
        )
        columns: dict[Any, str] = {
            self.slate: "slate",
            self.position: "position",
            **dict.fromkeys(self.context, "context"),
            self.action: "action",
            **dict.fromkeys(self.rewards, "reward"),
            **one,
            **dict.fromkeys(self.distribution, "propensity"),
        }
        optional = {role: getattr(self, role) for role in ("cluster", "weight", "fold")}
        return {**columns, **{name: role for role, name in optional.items() if name is not None}}

    def check(self, columns: Sequence[str]) -> None:
        """Every named column exists, and plays one role."""
        single = ("slate", "position", "action", "propensity", "cluster", "weight", "fold")
        check_apart({"reward": self.rewards, **{role: getattr(self, role) for role in single}})
        for name, role in self.named.items():
            if not isinstance(name, str):
                raise DataError(f"{role}= must be a column name (str). Got {name!r} instead.")
            if name not in columns:
                raise DataError(
                    f"{role}={name!r}: the source has no such column.{did_you_mean(name, columns)}"
                )


@dataclass(frozen=True)
class SlateFacts:
    """What queries tell of a log of slates.

    Attributes
    ----------
    rows, n : int
        Slots, and slates.
    slots : int
        Of the longest slate.
    labels : tuple
        The K items.
    repeats : bool
        Whether some slate shows an item twice.
    levels : dict
        Sorted distinct values of each text column of the context.
    """

    rows: int
    n: int
    slots: int
    labels: tuple[Label, ...]
    repeats: bool
    levels: dict[str, list[Any]]


def facts_of(
    engine: Engine, table: Any, roles: SlateRoles, actions: Sequence[Label] | None
) -> SlateFacts:
    """What the whole log has to say before any block of it is read."""
    counts = table.group_by(roles.slate).aggregate(slots=table.count())
    found = engine.table(
        counts.aggregate(n=counts.count(), rows=counts.slots.sum(), slots=counts.slots.max())
    ).to_pylist()[0]
    if not found["n"]:
        raise DataError(messages.EMPTY)
    shown = engine.table(table.select(roles.action).distinct().limit(MAX_LEVELS))
    if shown[roles.action].null_count:
        raise DataError(
            f"column {roles.action!r}: some rows have no item. Every row of a slate shows one; leave out the rows of "
            "empty slots."
        )
    logged = codes_of(shown, roles.action)[0]
    labels, _ = encode(label_array(logged), actions, roles.action)
    refuse_continuous(labels, int(found["rows"]), roles.action, actions)
    pairs = table.group_by([roles.slate, roles.action]).aggregate(times=table.count())
    twice = engine.table(pairs.aggregate(times=pairs.times.max()))["times"][0].as_py() > 1
    if roles.distinct and twice:
        raise UsageError("distinct=True, but the log has slates that show an item twice.")
    levels = {}
    for name in roles.context:
        if table[name].type().is_string():
            present = engine.table(table.select(name).distinct().limit(MAX_LEVELS))
            levels[name] = sorted(v for v in present[name].to_pylist() if v is not None)
    return SlateFacts(
        int(found["rows"]), int(found["n"]), int(found["slots"]), labels, bool(twice), levels
    )


def ordered(table: Any, roles: SlateRoles, extra: Sequence[str]) -> Any:
    """The columns that are read, slate after slate and slot after slot."""
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
        columns[name] = (
            column.cast("float64") if isinstance(column.type(), kind.Decimal) else column
        )
    return table.select(**columns).order_by([roles.slate, roles.position])


@dataclass(frozen=True, eq=False)
class SlateSchema:
    """How rows become slates."""

    roles: SlateRoles
    facts: SlateFacts

    def log(self, frame: Any, first: int = 0) -> Slates:
        """Slates of a pandas frame that holds whole ones; ``first`` is the number of its first row."""
        roles, facts = self.roles, self.facts
        try:
            log = Slates.from_frame(
                frame,
                slate=roles.slate,
                position=roles.position,
                context=list(roles.context),
                action=roles.action,
                reward=list(roles.rewards),
                propensity=roles.propensity,
                interaction=roles.interaction,
                reward_of=roles.reward_of,
                distinct=not facts.repeats if roles.distinct is None else roles.distinct,
                cluster=roles.cluster,
                weight=roles.weight,
                fold=roles.fold,
                actions=facts.labels,
                slots=facts.slots,
            )
        except DataError as error:
            counted = f"from row {first:,} on, " if first else ""
            raise DataError(
                f"{error} (Rows are counted {counted}in the order of slate and position.)"
            ) from error
        return self.coded(log)

    def coded(self, log: Slates) -> Slates:
        """Slates whose text columns know all their values, also those of other rows."""
        if not self.facts.levels:
            return log
        assert log.bare is not None
        levels = self.facts.levels
        return replace(
            log,
            context=replace(log.context, levels=levels),
            bare=replace(log.bare, levels=levels),
        )
