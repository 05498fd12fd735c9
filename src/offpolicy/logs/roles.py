"""What a column can be to a log, and which roles may be played by one column.

Every door reads this table: `from_frame` of each layout, scans, and through them the command line and run files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from offpolicy.errors import UsageError

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
    """

    name: str
    sort: Sort
    layouts: tuple[str, ...]


SINGLE, EPISODES, SLATES = "bandit", "trajectories", "slates"
ALL = (SINGLE, EPISODES, SLATES)

ROLES = (
    Role("context", "seen", (SINGLE, SLATES)),
    Role("state", "seen", (EPISODES,)),
    Role("action", "measured", ALL),
    Role("reward", "measured", ALL),
    Role("propensity", "measured", ALL),
    Role("weight", "measured", ALL),
    Role("keep_probability", "measured", (SINGLE,)),
    Role("count", "measured", (SINGLE,)),
    Role("eligible", "measured", (SINGLE, EPISODES)),
    Role("candidates", "measured", (SLATES,)),
    Role("terminated", "measured", (EPISODES,)),
    Role("truncated", "measured", (EPISODES,)),
    Role("batch", "key", (SINGLE,)),
    Role("cluster", "key", ALL),
    Role("fold", "key", ALL),
    Role("id", "key", (SINGLE,)),
    Role("episode", "key", (EPISODES,)),
    Role("step", "key", (EPISODES,)),
    Role("slate", "key", (SLATES,)),
    Role("position", "key", (SLATES,)),
)
_SORT = {role.name: role.sort for role in ROLES}
_ORDERED = ({"episode", "step"}, {"slate", "position"})  # keys of which one counts inside the other


def can_share(one: str, other: str) -> bool:
    """Whether a column can play both roles.

    >>> can_share("cluster", "fold"), can_share("reward", "propensity"), can_share("context", "batch")
    (True, False, True)
    """
    if "seen" in (_SORT[one], _SORT[other]):
        return True  # what an outcome may not be is said where contexts are checked
    return {_SORT[one], _SORT[other]} == {"key"} and {one, other} not in _ORDERED


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
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping):
        return tuple(given.values())
    return tuple(given) if hasattr(given, "__iter__") else ()
