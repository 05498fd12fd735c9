"""The worlds of the ads map, and what is compared in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.reward import OverfittingBoosting, TunedBoosting

ESTIMATORS = ("IPW", "DR-full", "DR-half", "DML", "DM")
RATES = (1, 10)
EFFECTS = (0.2, 1.0)
OVERLAPS = ("good", "poor")
MODELS = {"tuned": TunedBoosting, "over-fitting": OverfittingBoosting}


@dataclass(frozen=True)
class Place:
    """A world of the map without its seed."""

    rate: int
    effects: float
    overlap: str

    @property
    def name(self) -> str:
        """Name of the world in files.

        >>> Place(10, 0.2, "poor").name
        'x10-c0.2-poor'
        """
        return f"x{self.rate}-c{self.effects:g}-{self.overlap}"

    def config(self, scale: float) -> AdConfig:
        """Return the constants of this world; poor overlap is textbook Thompson sampling from Beta(1, 1)."""
        base = AdConfig().scaled(scale)
        poor = {"mab_flat_prior": True, "mab_memory": 1.0} if self.overlap == "poor" else {}
        rates = tuple(self.rate * r for r in base.click_rates)
        return replace(base, click_rates=rates, column_sd=self.effects, **poor)  # type: ignore[arg-type]


PLACES = tuple(Place(*levels) for levels in product(RATES, EFFECTS, OVERLAPS))
NAMES = {place.name: place for place in PLACES}
