"""What the units of a log and their decisions are called."""

from __future__ import annotations

UNITS = {"bandit": "impression", "trajectories": "episode", "slates": "slate"}
#: How a note begins that is for authors of estimators: frames and JSON have it, printed tables leave it out.
DETAIL = "detail: "

DECISIONS = {"bandit": "impression", "trajectories": "step", "slates": "slot"}


def unit_word(kind: str, *, plural: bool = False) -> str:
    """A unit of a log of some kind.

    >>> unit_word("slates"), unit_word("bandit", plural=True)
    ('slate', 'impressions')
    """
    return UNITS[kind] + ("s" if plural else "")


def decision_word(kind: str, *, plural: bool = False) -> str:
    """A decision inside a unit.

    >>> decision_word("slates", plural=True)
    'slots'
    """
    return DECISIONS[kind] + ("s" if plural else "")
