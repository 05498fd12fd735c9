"""`Episodes`: a unit is a run of decisions, each of which leads to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.models.behavior.auto_behavior import AutoBehavior
from offpolicy.models.behavior.episodes import ExploringLogit, StateShares
from offpolicy.models.values.auto_q import AutoQ
from offpolicy.models.values.tabular import Tabular
from offpolicy.scores.catalog import AUTO_EPISODES, DEFAULT, DEFAULT_TRAJECTORIES

if TYPE_CHECKING:
    from offpolicy.logs.link import Link
    from offpolicy.logs.log import Log

FEW_STEPS = 100  # of a state, on average
ENOUGH = 100  # episodes, or clusters of them, to be split into five


@dataclass(frozen=True)
class Episodes:
    """Units of several decisions, in time."""

    name: str = "trajectories"
    unit: str = "episode"
    decision: str = "step"
    argument: str = "value_model"
    decides_once: bool = False
    leads_on: bool = True
    shows_items: bool = False
    column: str | None = None

    def link(self, horizon: int) -> Link | None:
        """None: a reward answers to all decisions up to its own."""
        return None

    def check(self, question: Any) -> None:
        """Refuse what is for single decisions."""
        if question.reward_model is not None:
            raise UsageError(f"reward_model= is for bandit logs; {self.name} take value_model=.")

    def settings(self, log: Log, discount: float) -> dict[str, Any]:
        """The horizon, and which value it is."""
        return {"horizon": None if log.unbounded else log.horizon, "estimand": log.estimand(discount)}

    def estimators(self, log: Log) -> tuple[str, ...]:
        """Those that look along an episode; of episodes of one step, those of single decisions."""
        return DEFAULT if log.layout.is_single else DEFAULT_TRAJECTORIES

    def auto(self, log: Log) -> Any:
        """The blend that looks at ratios of marginals as well."""
        return None if log.layout.is_single else AUTO_EPISODES

    def value_model(self, log: Log) -> Any:
        """A table of states that are ids, else what predicts best.

        With one step per episode this is the bandit's default, number for number.
        """
        return Tabular() if log.is_discrete and not log.layout.is_single else AutoQ()

    def folds(self, log: Log) -> int:
        """Two; five where states are ids with so few steps each that half of the episodes lack pairs of the whole."""
        if not log.is_discrete or log.layout.is_single or log.rows >= FEW_STEPS * log.context.n_table:
            return 2
        return 5 if (len(np.unique(log.cluster)) if log.has_clusters else log.n) >= ENOUGH else 2

    def behavior_model(self, log: Log, spec: Any) -> Any:
        """Shares per discrete state, or an agent that explores."""
        if log.layout.is_single or not (spec is None or isinstance(spec, str)):
            return None
        if log.is_discrete:
            return StateShares() if spec in {None, "shares"} else None
        return AutoBehavior(regression=ExploringLogit()) if spec in {None, "auto"} else None


EPISODES = Episodes()
