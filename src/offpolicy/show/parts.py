"""`Part`: a section of the report, by what it is called, how it is read, and what makes it; and what makers share.

The library's parts stand in `about_policy` and `about_all`; one of your own is registered (`offpolicy.show.register`),
and shows up in text, HTML and JSON.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from offpolicy._document import Axis, Mark, Picture
from offpolicy.inference.figures import DASH, level_text, measured, plain
from offpolicy.logs.kinds import unit_word
from offpolicy.show.svg import domain
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._document import Block, Row
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.show.document import Document

Output: TypeAlias = Literal["page", "text", "json"]
Place: TypeAlias = Literal["all", "evidence", "end"]

PAGE: frozenset[Output] = frozenset(("page",))
BETWEEN = "low high std_error value"  # keys of a row that an interval takes
ORDERS = (("", "as given"), ("value", "by value"), ("width", "by precision"))
BESIDE = (("soft", "estimate and interval"), ("logged", "logged value"))


@dataclass(frozen=True, eq=False)
class Subject:
    """What a part is about: an evaluation, and a policy of it; the most promising where the part is about all.

    Attributes
    ----------
    document : Document
        The evaluation, and how it is to be shown.
    policy : str
    """

    document: Document
    policy: str

    @property
    def ev(self) -> Evaluation:
        """The evaluation."""
        return self.document.ev

    @property
    def level(self) -> float:
        """Of the intervals."""
        return self.document.level

    @cached_property
    def view(self) -> View:
        """Weights, decisions and predictions of the policy, as its checks see them."""
        return View.of(self.ev.problem, self.ev.targets[self.policy])

    @property
    def interval(self) -> str:
        """Heading of a column of intervals."""
        return f"{level_text(self.level)} interval"

    @property
    def note(self) -> str:
        """What static pictures say of their intervals."""
        return f"{self.interval}s"


@dataclass(frozen=True)
class Part:
    """A section of the report.

    Attributes
    ----------
    key : str
        What links lead to, and what `Evaluation.plot` calls its picture.
    title, about : str
        Heading, and how to read it, in a sentence or two.
    make : callable
        From a `Subject` to paragraphs, tables and pictures; none where there is nothing to show.
    place : "evidence", "all" or "end"
        With the evidence about each policy; or once, with what is about all policies, or after everything.
    nothing : str
        Why there may be no picture.
    shown : set of str
        Where it shows up: on the page, in text, in JSON.
    """

    key: str
    title: str
    about: str
    make: Callable[[Subject], Sequence[Block]]
    place: Place = "evidence"
    nothing: str = "there is nothing to draw"
    shown: frozenset[Output] = field(default=frozenset(("page", "text", "json")))


def per_unit(ev: Evaluation) -> str:
    """What the axis of values counts."""
    return f"value per {unit_word(ev.problem.log)}"


# -- cells of tables ------------------------------------------------------------------------------------------------


def between(low: float, high: float, error: float, value: float) -> str:
    """An interval in words."""
    if math.isnan(low):
        return "no estimate" if math.isnan(value) else "refused"
    return f"{measured(low, error)} to {measured(high, error)}"


def span(low: float, high: float) -> str:
    """An interval in few digits."""
    return "refused" if math.isnan(low) else f"{plain(low)} to {plain(high)}"


def gap(value: float, low: float, high: float, error: float) -> str:
    """A difference with its interval in words; a dash where there is none.

    >>> gap(0.02, -0.0101, 0.0499, 0.015), gap(-0.02, math.nan, math.nan, 0.015)
    ('+0.020 (−0.010 to +0.050)', '−0.020 (refused)')
    """
    if math.isnan(value):
        return DASH

    def signed(x: float) -> str:
        return f"{'−' if x < 0 else '+'}{measured(abs(x), error)}"

    return f"{signed(value)} ({'refused' if math.isnan(low) else f'{signed(low)} to {signed(high)}'})"


def interval_rows(
    key: str, rows: Sequence[Row], label: str, about: str, title: str, *, references: Sequence[float] = (), **more: Any
) -> Picture:
    """A picture of points with intervals, one below the other."""
    drawn = [{**r, "width": r["high"] - r["low"] if r["value"] == r["value"] else math.nan} for r in rows]
    beside = [r["logged"] for r in rows if "logged" in r]
    ends = domain(rows, (*references, *beside))
    return Picture(key, drawn, [Mark("interval", "value")], about, Axis(title, *ends), label=label, **more)
