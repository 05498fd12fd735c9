"""`Marginal`: weights of steps are ratios of state-action marginals, given step by step or by a model of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offpolicy.logs.kinds import Ratio


@dataclass(frozen=True, eq=False)
class Marginal(Ratio):
    """Ratios of marginals beside those of the logged actions: an array, one per policy, or `models.MarginalRatio`."""

    given: Any

    @property
    def asked(self) -> Any:
        """As it was given."""
        return self.given

    @property
    def key(self) -> None:
        """Columns of single steps are those of the logged actions; those of marginals have a key of their own."""
        return

    @property
    def marginal(self) -> Any:
        """As it was given."""
        return self.given
