"""Sentences about bad rows, shared by logs in memory and logs behind a query engine.

``where`` names the rows: "3 of 1,000 values (first: row 17 = 25.0, …)".
"""

from __future__ import annotations


def not_finite(column: str, role: str, where: str) -> str:
    """A number is missing or infinite."""
    return (
        f"column {column!r}: {where} are missing or infinite. "
        f"The {role} must be a finite number; drop these rows or decide what they stand for "
        "before building the log (nothing is imputed)."
    )


def action_missing(column: str, where: str) -> str:
    """A logged action is missing."""
    return (
        f"column {column!r}: the action is missing in {where}. "
        "Every logged row needs the action that was taken; drop or repair these rows."
    )


def action_unknown(column: str, where: str, hint: str) -> str:
    """A logged action is not in the list."""
    return f"column {column!r}: {where} are not in the list of actions.{hint} Add them to `actions=`, or drop the rows."


def one_density(given: object) -> str:
    """A whole distribution was given for actions that are numbers."""
    return f"propensity= has one density for each row where actions are numbers. Got {given!r:.60} instead."


EMPTY = "the log is empty: it has no rows. There is nothing to evaluate."


def text_numbers(column: str, where: str) -> str:
    """Numbers are held as text."""
    return (
        f"column {column!r}: {where} are numbers written as text. "
        f"Convert the column to a numeric type first: it will not be guessed."
    )
