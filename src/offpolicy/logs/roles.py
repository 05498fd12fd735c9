"""What a column can be to a log, which roles one column may play, and `Roles`: the columns of one log by their roles.

Every door reads this table: `from_frame` of each layout, scans, and through them the command line and run files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs.kinds import own_kind, space_of
from offpolicy.logs.metrics import check_metric, reward_names

if TYPE_CHECKING:
    from offpolicy.logs.kinds import ActionSpace, UnitKind

Sort = Literal["seen", "key", "measured"]


@dataclass(frozen=True)
class Role:
    """One thing that a column can be.

    Attributes
    ----------
    name : str
        The argument of a constructor, the flag of the command line (``--name``) and the key of a run file.
    sort : {"seen", "key", "measured"}
        "seen": what is known before a decision, which any other column may be besides. "key": tells rows or groups of
        them apart; one column can be several keys. "measured": a column that is this and nothing else.
    layouts : tuple of str
        Kinds of logs that have it.
    is_label : bool
        Whether its values tell things apart, so that text that looks like a number stays text.
    """

    name: str
    sort: Sort
    layouts: tuple[str, ...]
    is_label: bool = False


SINGLE, EPISODES, SLATES = "bandit", "trajectories", "slates"
ALL = (SINGLE, EPISODES, SLATES)

ROLES = (
    Role("context", "seen", (SINGLE, SLATES)),
    Role("state", "seen", (EPISODES,)),
    Role("action", "measured", ALL, is_label=True),
    Role("reward", "measured", ALL),
    Role("propensity", "measured", ALL),
    Role("weight", "measured", ALL),
    Role("keep_probability", "measured", (SINGLE,)),
    Role("count", "measured", (SINGLE,)),
    Role("eligible", "measured", (SINGLE, EPISODES)),
    Role("candidates", "measured", (SLATES,)),
    Role("terminated", "measured", (EPISODES,)),
    Role("truncated", "measured", (EPISODES,)),
    Role("batch", "key", (SINGLE,), is_label=True),
    Role("cluster", "key", ALL, is_label=True),
    Role("fold", "key", ALL, is_label=True),
    Role("id", "key", (SINGLE,), is_label=True),
    Role("episode", "key", (EPISODES,), is_label=True),
    Role("step", "key", (EPISODES,)),
    Role("slate", "key", (SLATES,), is_label=True),
    Role("position", "key", (SLATES,)),
)
_ROLE = {role.name: role for role in ROLES}
_ORDERED = ({"episode", "step"}, {"slate", "position"})  # keys of which one counts inside the other
#: What a layout calls the roles that `Roles` knows by one name.
OWN_WORDS: dict[str, dict[str, str]] = {
    SINGLE: {},
    EPISODES: {"context": "state", "unit": "episode", "step": "step"},
    SLATES: {"context": "context", "unit": "slate", "step": "position", "eligible": "candidates"},
}


def can_share(one: str, other: str) -> bool:
    """Whether a column can play both roles.

    >>> can_share("cluster", "fold"), can_share("reward", "propensity"), can_share("context", "batch")
    (True, False, True)
    """
    sorts = {_ROLE[one].sort, _ROLE[other].sort}
    if "seen" in sorts:
        return True  # what an outcome may not be is said where contexts are checked
    return sorts == {"key"} and {one, other} not in _ORDERED


class UnitRoles(TypedDict, total=False):
    """Columns that units of every kind may have."""

    cluster: str | None
    weight: str | None
    fold: str | None


class StepRoles(UnitRoles, total=False):
    """Columns that episodes may have besides."""

    eligible: str | None


class RowRoles(StepRoles, total=False):
    """Columns that single decisions may have besides."""

    batch: str | None
    keep_probability: str | None
    id: str | None


class CountedRoles(RowRoles, total=False):
    """The same of rows that may stand for several."""

    count: str | None


@dataclass(frozen=True)
class Roles:
    """The columns of one log by their roles; None where no column plays one.

    Attributes
    ----------
    layout : {"bandit", "trajectories", "slates"}
    context : tuple of str
        What is known before a decision; the ``state`` of episodes.
    rewards : tuple of str
        One column per metric, the reward first.
    propensity : str, tuple of str, {action: str} or None
    unit, step : str or None
        The ``episode`` and ``step``, or the ``slate`` and ``position``.
    eligible : str or None
        Lists of actions that could be taken; the ``candidates`` of slates.
    space : ActionSpace
        What an action is, before any row is read.
    """

    layout: str
    context: tuple[str, ...]
    action: str
    rewards: tuple[str, ...]
    propensity: Any = None
    unit: str | None = None
    step: str | None = None
    id: str | None = None
    batch: str | None = None
    cluster: str | None = None
    weight: str | None = None
    keep_probability: str | None = None
    count: str | None = None
    fold: str | None = None
    eligible: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    space: ActionSpace = field(default_factory=lambda: space_of(None))
    own_kind: UnitKind | None = None  # a kind of unit that is not the library's

    @classmethod
    def of(cls, layout: str, given: Mapping[str, Any], space: ActionSpace | None = None) -> Roles:
        """From arguments by the names that the layout has for them.

        >>> Roles.of("trajectories", {"episode": "id", "step": "t", "state": "s", "action": "a", "reward": "r"}).unit
        'id'
        """
        own = {theirs: ours for ours, theirs in OWN_WORDS[layout].items()}
        named = {own.get(name, name): column for name, column in given.items()}
        context, propensity = named.pop("context", None), named.pop("propensity", None)
        if isinstance(propensity, Sequence) and not isinstance(propensity, str):
            propensity = tuple(propensity)
        own_unit = None
        if "unit" in named:
            named["unit"], own_unit = own_kind(named["unit"])
        return cls(
            layout,
            (context,) if isinstance(context, str) else tuple(() if context is None else context),
            rewards=reward_names(named.pop("reward")),
            propensity=propensity,
            space=space_of(None) if space is None else space,
            own_kind=own_unit,
            **named,
        )

    @property
    def reward(self) -> str:
        """The column of the reward."""
        return self.rewards[0]

    @property
    def further(self) -> tuple[str, ...]:
        """Columns of the other metrics."""
        return self.rewards[1:]

    def with_reward(self, name: str) -> Roles:
        """The same columns with another metric as the reward."""
        check_metric(name, self.rewards)
        return replace(self, rewards=(name, *(other for other in self.rewards if other != name)))

    @property
    def distribution(self) -> tuple[str, ...]:
        """Columns of the whole logging distribution, when it was logged."""
        return _columns(self.propensity) if not isinstance(self.propensity, str) else ()

    def word(self, role: str) -> str:
        """What the layout calls a role."""
        return OWN_WORDS[self.layout].get(role, role)

    @property
    def named(self) -> dict[str, Any]:
        """{role: column or columns} of all roles that are played, in the layout's own words."""
        keys = ("unit", "step")
        rest = ("batch", "cluster", "weight", "eligible", "keep_probability", "count", "fold", "id")
        roles = {"context": self.context, **{role: getattr(self, role) for role in keys}, "action": self.action}
        roles |= {"reward": self.rewards, "propensity": self.propensity}
        roles |= {role: getattr(self, role) for role in (*rest, "terminated", "truncated")}
        return {self.word(role): column for role, column in roles.items() if column is not None}

    @property
    def columns(self) -> tuple[Any, ...]:
        """Every column that is read, each once."""
        return tuple(dict.fromkeys(c for given in self.named.values() for c in _columns(given)))

    @property
    def labels(self) -> list[str]:
        """Columns whose values tell things apart."""
        named = {role: c for role, c in self.named.items() if _ROLE[role].is_label}
        return [c for role, c in named.items() if role != "action" or not self.space.numeric]

    def check(self, columns: Sequence[str], where: str = "source") -> None:
        """Every named column is there, none is in two roles, and the context holds neither outcome nor action."""
        seen, names = self.word("context"), list(self.context)
        for role, given in self.named.items():
            for name in _columns(given):
                if not isinstance(name, str):
                    raise DataError(f"{role}= must be a column name (str). Got {name!r} instead.")
                if name not in columns:
                    raise DataError(f"{role}={name!r}: the {where} has no such column.{did_you_mean(name, columns)}")
        if len(set(names)) != len(names):
            raise DataError(f"{seen}= lists a column twice: {names}. List each column once.")
        for role in ("action", "reward"):
            held = [name for name in _columns(self.named[role]) if name in names]
            if held:
                raise DataError(
                    f"{seen}= contains the {role} column {held[0]!r}. The {seen} is what was known "
                    f"before the action was taken; leave the {role} out."
                )
        check_apart({role: given for role, given in self.named.items() if role != seen})


def check_apart(named: Mapping[str, Any]) -> None:
    """Refuse one column in two roles that it cannot both play.

    Parameters
    ----------
    named : {role: column, columns, {action: column} or None}

    Examples
    --------
    >>> check_apart({"action": "ad", "reward": "click", "propensity": "p", "weight": None})
    """
    columns = {role: _columns(given) for role, given in named.items()}
    for one, other in combinations(columns, 2):
        both = [c for c in columns[one] if c in columns[other]]
        if both and not can_share(one, other):
            raise UsageError(
                f"{one}= and {other}= both name the column {both[0]!r}, which cannot be both. Name the column that "
                f"holds the {other.replace('_', ' ')}, or leave {other}= out."
            )
    listed = columns.get("propensity", ())
    if not isinstance(named.get("propensity"), Mapping) and len(set(listed)) < len(listed):
        raise UsageError(f"propensity= lists a column twice: {list(listed)}. Give one per action.")


def _columns(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    if isinstance(given, Mapping):
        return tuple(given.values())
    return (given,) if isinstance(given, str) or not hasattr(given, "__iter__") else tuple(given)
