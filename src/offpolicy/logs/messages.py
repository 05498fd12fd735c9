"""Sentences about bad rows, shared by logs in memory and logs behind a query engine.

``where`` names the rows: "3 of 1,000 values (first: row 17 = 25.0, …)".
"""

from __future__ import annotations

ROUNDING = 1.001


def not_finite(column: str, role: str, where: str) -> str:
    """A number is missing or infinite."""
    return (
        f"column {column!r}: {where} are missing or infinite. "
        f"The {role} must be a finite number; drop these rows or decide what they stand for "
        "before building the log (nothing is imputed)."
    )


def probability_missing(column: str, role: str, where: str) -> str:
    """A probability is missing."""
    drop = f"column {column!r}: the {role} is missing in {where}. Drop these rows"
    return f"{drop}." if role != "propensity" else f"{drop}, or leave {role}= out so that it is estimated."


def probability_low(column: str, role: str, where: str) -> str:
    """A probability is 0 or negative."""
    what = "the row was kept" if role == "keep-probability" else "the logged action was taken"
    return (
        f"column {column!r}: {where} are zero or negative. The {role} is the "
        f"probability with which {what}, which cannot be 0; check the column."
    )


def probability_high(column: str, role: str, where: str, largest: float) -> str:
    """A probability is above 1."""
    if largest <= ROUNDING:
        remedy = " They exceed 1 by rounding only: set them to 1."
    elif largest <= 100:
        remedy = " They look like percentages: divide by 100."
    else:
        remedy = " Check the column."
    return f"column {column!r}: {where} are above 1. A {role} is a probability in (0, 1].{remedy}"


def negative_weight(column: str, where: str) -> str:
    """A weight is negative."""
    return f"column {column!r}: {where} are negative. Weights are ≥ 0."


def no_weight(column: str) -> str:
    """All weights are 0."""
    return f"column {column!r}: every weight is 0, so nothing would be counted."


def action_missing(column: str, where: str) -> str:
    """A logged action is missing."""
    return (
        f"column {column!r}: the action is missing in {where}. "
        "Every logged row needs the action that was taken; drop or repair these rows."
    )


def action_unknown(column: str, where: str, hint: str) -> str:
    """A logged action is not in the list."""
    return f"column {column!r}: {where} are not in the list of actions.{hint} Add them to `actions=`, or drop the rows."


def group_missing(column: str, role: str, where: str) -> str:
    """A row belongs to no batch, cluster or fold."""
    return (
        f"column {column!r}: the {role} is missing in {where}. Every row belongs to "
        f"one {role}; fill in or drop these rows."
    )


def density_bad(column: str, where: str) -> str:
    """A density is missing, infinite, 0 or negative."""
    return (
        f"column {column!r}: {where} are no densities. Where actions are numbers, the propensity is the density with "
        "which the logged one was drawn: from 1e-30 to 1e30. Drop these rows, or leave propensity= out so that it "
        "is estimated."
    )


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


def too_large(column: str, role: str, where: str) -> str:
    """Numbers whose squares leave the range of a float."""
    return (
        f"column {column!r}: {where} are beyond 1e30 in size. The {role} is squared and multiplied by weights, "
        "which leaves the range of a float: rescale the column."
    )


def too_small(column: str, role: str, largest: float) -> str:
    """A column of numbers that are all next to nothing."""
    return (
        f"column {column!r}: the largest {role} is {largest:g}; squares of such numbers vanish in a float. Rescale "
        "the column."
    )


def only_rounding(column: str, low: float, high: float) -> str:
    """Rewards that differ by no more than a float can tell apart."""
    return (
        f"column {column!r}: rewards lie between {low!r} and {high!r}, which differ only in the last digits that a "
        "float keeps. Subtract their common part before logging them as numbers."
    )


def probability_vanishing(column: str, role: str, where: str) -> str:
    """Probabilities that nothing that happened can have had."""
    return (
        f"column {column!r}: {where} are below 1e-30. What was logged happened, which an action of such {role} "
        "does not: look for log-probabilities, underflow or a wrong column. Leave these rows out if they are errors."
    )
