"""What a decision (a learned policy, a choice among policies) adds to reports and trackers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from offpolicy.report.sections import Section


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
