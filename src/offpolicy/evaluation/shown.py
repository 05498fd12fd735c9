"""What a result and a decision hand to the pages and trackers that show them: plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from offpolicy._arguments import checks_arguments
from offpolicy._progress import track
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from offpolicy._document import Section
    from offpolicy.evaluation.result import Evaluation

TRAFFIC = re.compile(r"(\d[\d,]*\.?\d*)\s*([kmb]?)\s*(?:per|an?|each|every|/)\s*([a-z]+)", re.IGNORECASE)
THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}


@dataclass(frozen=True)
class Origin:
    """How a result came about, where whoever asked for it knows.

    Attributes
    ----------
    command : str
        As it was typed.
    paths : tuple of str
        Files that were read, without the folders of the machine.
    made : str
        When, in ISO 8601.
    """

    command: str | None = None
    paths: tuple[str, ...] = ()
    made: str | None = None


@dataclass(frozen=True)
class Traffic:
    """How many units a policy decides in a period, to say what a difference adds up to.

    Attributes
    ----------
    units : float
    period : str
        Such as "month".
    number, text : str
        How many, and all of it, as given.

    Examples
    --------
    >>> Traffic.parse("2M per month").units, Traffic.parse("150,000 a week").period
    (2000000.0, 'week')
    """

    units: float
    period: str
    number: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Traffic:
        """Read "2M per month"."""
        match = TRAFFIC.fullmatch(text.strip())
        units = 0.0
        if match is not None:
            units = float(match[1].replace(",", "")) * THOUSANDS[match[2].lower()]
        if match is None or not 0 < units < 1e15:
            raise UsageError(f'traffic={text!r}: write a number of decisions per period, such as "2M per month".')
        return cls(units, match[3].lower(), f"{match[1]}{match[2]}", text.strip())


@dataclass(frozen=True)
class Tracked:
    """What goes to an experiment tracker besides the evaluation.

    Attributes
    ----------
    metrics : {name: number}
    tags : {name: text}
    files : {file name: text}
        Artifacts.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


class Decision(Protocol):
    """Anything that was decided from an evaluation and can be shown with it."""

    def sections(self) -> list[Section]:
        """Parts of the report that come first."""
        ...

    def tracked(self) -> Tracked:
        """What a tracker is told."""
        ...


def name_of(text: str) -> str:
    """A name as trackers take it: letters, digits, spaces, and ``_ - .`` stay.

    >>> name_of("new (v2)")
    'new _v2_'
    """
    return re.sub(r"[^\w\-. ]", "_", text)


@checks_arguments
def rows(ev: Evaluation, level: float = 0.95) -> list[dict[str, Any]]:
    """One dictionary per policy and estimator: what `frame` and the reports show.

    Where ``refused`` gives a reason there is no interval: no method can be expected to cover.
    """
    table = []
    with track("intervals", len(ev.estimates)) as advance:
        for (policy, estimator), e in ev.estimates.items():
            interval = e.interval(level)
            low, high = interval.shown
            table.append(
                {
                    "policy": policy,
                    "estimator": estimator,
                    "value": e.value,
                    "std_error": e.std_error,
                    "low": low,
                    "high": high,
                    "method": interval.method,
                    "refused": interval.reason or None,
                    "n": e.n,
                    "difference": (e - ev.logged).value,
                    "difference_std_error": (e - ev.logged).std_error,
                    "notes": "; ".join(e.notes),
                }
            )
            advance()
    return table
