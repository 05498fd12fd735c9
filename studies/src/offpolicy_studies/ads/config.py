"""Every constant of the simulated ad platform, written down before any estimator was run.

The paper's logs are proprietary. What it states about them is copied here (campaigns, batches,
numbers of impressions, "around 55" designs, contexts with "tens of thousands of possible
values"); what it does not state is chosen for realism, with the reason beside the number.

The spread of the designs and the multi-armed bandit's prior and memory were settled on one
ground only: the variance bound of Corollary 1, which needs no estimator. With wider designs and
a Beta(1, 1) prior, some designs had probabilities of 1e-9 in a batch, and the question "what
would the contextual bandit have earned?" had no answer in that log. Nothing was revised after
an estimate had been seen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from offpolicy.errors import UsageError

MAB_IMPRESSIONS = 40_101_050
CB_IMPRESSIONS = 299_342


@dataclass(frozen=True)
class AdConfig:
    """Constants of the ad world; the defaults are the paper's size.

    Attributes
    ----------
    mab_impressions, cb_impressions : int
        Totals over all campaigns and batches (Table 2 of the paper).
    designs : tuple of int
        Number of ad designs of each campaign, "around 55".
    batches, slots : int
        28 six-hour batches; 4 of them make a day.
    contexts : int
        Distinct contexts, drawn without replacement from the product of ``columns``.
    columns : tuple of (str, int)
        Categorical context columns and their number of levels.
    zipf : float
        The r-th most frequent context of a campaign has a share proportional to r**-zipf.
    click_rates : tuple of float
        Mean click rate of a uniformly random design in each campaign, mid-day. At about 2,700
        contextual impressions per cell these give 3 to 8 clicks, hence an online rate whose own
        relative standard error is .35 to .6: the range to which the paper's errors point.
    campaign_traffic, slot_traffic : tuple of float
        Relative numbers of impressions by campaign and by six-hour slot (night first).
    slot_effects : tuple of float
        Log-odds of a click by six-hour slot.
    column_sd, design_sd, interaction_sd, drift_sd : float
        Standard deviations of normal log-odds effects: a context column's level; a design; a level
        of an ``interacting`` column with a design; a design's linear change over the week
        (fatigue).
    interacting : tuple of str
        Columns whose levels change which design is best.
    mab_prior_impressions : float
        Strength n₀ of the multi-armed bandit's prior Beta(n₀·r, n₀·(1 − r)), r the campaign's click
        rate: an advertiser knows what its earlier designs earned. Beta(1, 1) would expect 50%.
    mab_flat_prior : bool
        Start from Beta(1, 1) instead. Kept for the map of `offpolicy_studies.ads.map`, where poor overlap
        is a factor.
    mab_memory : float
        Factor by which its past counts shrink at each update. Below 1 because designs drift; it
        also keeps every design in play. 1 is the textbook algorithm.
    cb_design_sd, cb_weight_sd, cb_column_sd : float
        Prior standard deviations (the regularization) of the contextual bandit's logistic model.
    cb_draws : int
        Posterior draws published with each update; an impression is served by one of them at
        random. Choice probabilities are therefore multiples of 1/cb_draws, known exactly.
    figure_campaigns : tuple of int
        The three campaigns of Figure 2.

    Examples
    --------
    >>> AdConfig().cells
    112
    >>> AdConfig().scaled(0.01).mab_impressions
    401010
    """

    mab_impressions: int = MAB_IMPRESSIONS
    cb_impressions: int = CB_IMPRESSIONS
    designs: tuple[int, ...] = (55, 52, 57, 54)
    batches: int = 28
    slots: int = 4
    contexts: int = 30_000
    columns: tuple[tuple[str, int], ...] = (
        ("os", 2),
        ("device", 8),
        ("age", 6),
        ("gender", 3),
        ("region", 12),
        ("genre", 10),
        ("placement", 4),
    )
    zipf: float = 0.9
    click_rates: tuple[float, ...] = (0.0012, 0.0016, 0.0020, 0.0028)
    campaign_traffic: tuple[float, ...] = (0.3, 0.3, 0.2, 0.2)
    slot_traffic: tuple[float, ...] = (0.7, 0.9, 1.1, 1.3)
    slot_effects: tuple[float, ...] = (-0.20, -0.05, 0.0, 0.15)
    column_sd: float = 0.20
    design_sd: float = 0.08
    interaction_sd: float = 0.08
    drift_sd: float = 0.08
    interacting: tuple[str, ...] = ("age", "gender", "genre", "placement")
    mab_prior_impressions: float = 5_000.0
    mab_flat_prior: bool = False
    mab_memory: float = 0.8
    cb_design_sd: float = 0.3
    cb_weight_sd: float = 0.1
    cb_column_sd: float = 0.3
    cb_draws: int = 50
    figure_campaigns: tuple[int, ...] = (0, 1, 2)

    @property
    def campaigns(self) -> int:
        """Number of campaigns."""
        return len(self.designs)

    @property
    def cells(self) -> int:
        """Number of (campaign, batch) pairs."""
        return self.campaigns * self.batches

    def mab_prior(self, campaign: int) -> tuple[float, float]:
        """Return the parameters of the multi-armed bandit's beta prior.

        >>> [round(x, 6) for x in AdConfig().mab_prior(0)], AdConfig(mab_flat_prior=True).mab_prior(0)
        ([6.0, 4994.0], (1.0, 1.0))
        """
        n0, rate = self.mab_prior_impressions, self.click_rates[campaign]
        return (1.0, 1.0) if self.mab_flat_prior else (n0 * rate, n0 * (1 - rate))

    def scaled(self, scale: float) -> AdConfig:
        """Return the same world with a smaller multi-armed-bandit log.

        The log has ``scale`` times the impressions, the context pool √scale times the contexts (at
        least 500), so that contexts still repeat. The contextual arm keeps its 299,342
        impressions: they cost nothing, and with fewer of them most cells would have no online
        click and no relative error.
        """
        if not 0 < scale <= 1:
            raise UsageError(f"The 'scale' argument must be in (0, 1]. Got {scale!r} instead.")
        values = {**self.__dict__}
        values["mab_impressions"] = round(self.mab_impressions * scale)
        values["contexts"] = max(500, round(self.contexts * float(np.sqrt(scale))))
        return AdConfig(**values)

    def as_dict(self) -> dict[str, object]:
        """Return the constants as plain values for a JSON file."""
        return asdict(self)


def generator(*key: int) -> np.random.Generator:
    """Return the random generator of one part of the world; equal keys give equal streams.

    >>> bool(generator(1, 2).random() == generator(1, 2).random())
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(key))))
