"""`Slots`: a unit is a slate, whose decisions are items shown together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy.kinds.single import MARGINALS
from offpolicy.models.values.fitted_q import FittedQ
from offpolicy.scores.catalog import DEFAULT

if TYPE_CHECKING:
    from offpolicy.logs.link import Link
    from offpolicy.logs.log import Log


@dataclass(frozen=True)
class Slots:
    """Units of several items, at positions."""

    name: str = "slates"
    unit: str = "slate"
    decision: str = "slot"
    argument: str = "value_model"
    decides_once: bool = False
    leads_on: bool = False
    shows_items: bool = True
    column: str | None = None

    def link(self, horizon: int) -> Link | None:
        """None: slates say themselves what their rewards depend on."""
        return None

    def check(self, question: Any) -> None:
        """Refuse what is for single decisions, or for episodes."""
        if question.reward_model is not None:
            raise UsageError(f"reward_model= is for bandit logs; {self.name} take value_model=.")
        if question.of_marginals is not None:
            raise UsageError(MARGINALS)
        if question.discount != 1:
            raise UsageError(
                f"discount={question.discount!r} is for episodes. If lower slots should count for less, scale their "
                "rewards."
            )

    def settings(self, log: Log, discount: float) -> dict[str, Any]:
        """The number of slots, and which value it is."""
        return {"horizon": None if log.unbounded else log.horizon, "estimand": log.estimand(discount)}

    def estimators(self, log: Log) -> tuple[str, ...]:
        """Without DM where a reward depends on several slots: no model is asked about these together."""
        link = log.layout.link
        return tuple(e for e in DEFAULT if e != "DM" or link is None or link.is_single)

    def auto(self, log: Log) -> Any:
        """The blend of single decisions."""
        return None

    def value_model(self, log: Log) -> Any:
        """What follows a slot depends on its position."""
        return FittedQ()

    def folds(self, log: Log) -> int:
        """Two."""
        return 2

    def behavior_model(self, log: Log, spec: Any) -> Any:
        """None: as asked."""
        return None


SLOTS = Slots()
