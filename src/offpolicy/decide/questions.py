"""A tree's questions in words and in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy.decide.features import Feature

NUMBER = re.compile(r"(?P<column>.*) (?P<side>[≤>]) \S+(?P<missing>( or missing)?)", re.DOTALL)


def condition(feature: Feature, at: int) -> tuple[str, str]:
    """A question's yes and no, in words.

    >>> from offpolicy.decide.features import Feature
    >>> condition(Feature("age", cuts=(30.0, 50.0)), 0)
    ('age ≤ 30', 'age > 30')
    """
    if feature.is_text:
        return (f"{feature.label} is {feature.levels[at]}", f"{feature.label} is not {feature.levels[at]}")
    if at >= len(feature.cuts):
        return f"{feature.label} is known", f"{feature.label} is missing"
    cut = f"{feature.cuts[at]:.6g}"
    missing = " or missing" if feature.has_missing else ""
    return f"{feature.label} ≤ {cut}", f"{feature.label} > {cut}{missing}"


def shortened(conditions: list[str]) -> list[str]:
    """Conditions on a path without those that a later one about the same column makes needless.

    >>> shortened(["age ≤ 63", "device is tv", "age ≤ 40"])
    ['device is tv', 'age ≤ 40']
    >>> shortened(["age ≤ 63", "age > 40"])
    ['age ≤ 63', 'age > 40']
    """
    kept: dict[str, str] = {}
    for said in conditions:
        parts = NUMBER.fullmatch(said)
        key = said if parts is None else f"{parts['column']} {parts['side']}{parts['missing']}"
        kept.pop(key, None)
        kept[key] = said
    return list(kept.values())


def condition_in_sql(feature: Feature, at: int) -> tuple[str, str]:
    """A question's yes and no as SQL; a missing value goes right.

    >>> from offpolicy.decide.features import Feature
    >>> print(*condition_in_sql(Feature("device", levels=("it's", "tv")), 0))
    "device" = 'it''s' ("device" <> 'it''s' OR "device" IS NULL)
    """
    name = sql_name(feature.label)
    if feature.is_text:
        text = sql_literal(feature.levels[at])
        return f"{name} = {text}", f"({name} <> {text} OR {name} IS NULL)"
    if at >= len(feature.cuts):
        return f"{name} IS NOT NULL", f"{name} IS NULL"
    cut = repr(feature.cuts[at])
    return f"{name} <= {cut}", f"({name} > {cut} OR {name} IS NULL)"


def sql_name(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_literal(value: Any) -> str:
    """A literal: numbers as they are, text quoted."""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float | np.integer | np.floating):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return "'" + str(value).replace("'", "''") + "'"
