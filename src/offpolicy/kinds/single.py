"""`Single`: a unit is one decision, the paper's contextual bandit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy.scores.catalog import DEFAULT

if TYPE_CHECKING:
    from offpolicy.logs.link import Link
    from offpolicy.logs.log import Log

MARGINALS = (
    "ratio= as ratios of marginals (MarginalRatio, an array) is for trajectories: only there does one decision lead to "
    "the next."
)


@dataclass(frozen=True)
class Single:
    """Units of one decision."""

    name: str = "bandit"
    unit: str = "impression"
    decision: str = "impression"
    argument: str = "reward_model"
    decides_once: bool = True
    leads_on: bool = False
    shows_items: bool = False
    column: str | None = None

    def link(self, horizon: int) -> Link | None:
        """None: there is one decision."""
        return None

    def check(self, question: Any) -> None:
        """Refuse what is for episodes."""
        if question.value_model is not None:
            raise UsageError("value_model= is for trajectories; a bandit log takes reward_model=.")
        if question.of_marginals is not None:
            raise UsageError(MARGINALS)

    def settings(self, log: Log, discount: float) -> dict[str, Any]:
        """Nothing: the value is that of one decision."""
        return {}

    def estimators(self, log: Log) -> tuple[str, ...]:
        """Names of the estimators to use when none are asked for."""
        return DEFAULT

    def auto(self, log: Log) -> Any:
        """The blend of single decisions."""
        return None

    def value_model(self, log: Log) -> Any:
        """None: rewards have reward models."""
        return None

    def folds(self, log: Log) -> int:
        """Two."""
        return 2

    def behavior_model(self, log: Log, spec: Any) -> Any:
        """None: as asked."""
        return None


SINGLE = Single()
