"""The truth of the simulated ad platform: who sees ads, and how likely each design is clicked.

With context x, design a, campaign c, batch b (six-hour slot s, time τ in [0, 1] of the week)

    logit μ_{c,b}(x, a) = α_c + slot_s + Σ_j main_{c,j}(x_j)
                          + design_{c,a} + τ·drift_{c,a} + Σ_j inter_{c,j}(x_j, a)

where α_c is set so that the campaign's configured click rate is the mean over contexts and
designs, up to the curvature of the logit at rates near zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from offpolicy_studies.ads.config import AdConfig, generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

# First element of every seed key: which part of the world a stream belongs to.
_POOL, _CAMPAIGN, _SIZES = 10, 11, 12


@dataclass(frozen=True)
class Campaign:
    """One campaign's audience and click model.

    Attributes
    ----------
    index : int
        Position of the campaign in the configuration.
    share : (contexts,) array
        Probability of each context.
    intercept : float
        α_c.
    main : (levels,) array
        Log-odds effect of each level of each column, columns laid end to end.
    design, drift : (K,) arrays
        Design effects, and their change over the week.
    interaction : (levels, K) array
        Effect of each level on each design's log-odds.
    """

    index: int
    share: NDArray[np.float64]
    intercept: float
    main: NDArray[np.float64]
    design: NDArray[np.float64]
    drift: NDArray[np.float64]
    interaction: NDArray[np.float64]

    @property
    def n_designs(self) -> int:
        """Number of designs of this campaign."""
        return len(self.design)


@dataclass(frozen=True)
class World:
    """Contexts, campaigns and cell sizes of one simulated platform.

    Attributes
    ----------
    contexts : (n, columns) int array
        Level of every column, for each distinct context.
    onehot : (n, levels) float32 array
        The same contexts as indicator columns; μ and the policies are matrix products with it.
    mab_sizes, cb_sizes : (campaigns, batches) int arrays
        Impressions of each arm.
    """

    config: AdConfig
    seed: int
    contexts: NDArray[np.int16]
    onehot: NDArray[np.float32]
    campaigns: tuple[Campaign, ...]
    mab_sizes: NDArray[np.int64]
    cb_sizes: NDArray[np.int64]

    def click_probabilities(self, campaign: int, batch: int) -> NDArray[np.float64]:
        """Return μ for every context and design of a campaign in a batch, shape (contexts, K)."""
        cfg, own = self.config, self.campaigns[campaign]
        tau = batch / max(cfg.batches - 1, 1)
        by_context = own.intercept + cfg.slot_effects[batch % cfg.slots] + self.onehot @ own.main
        by_design = own.design + tau * own.drift
        score = self.onehot.astype(np.float64) @ own.interaction
        score += by_context[:, None]
        score += by_design
        return np.asarray(expit(score))


def make_world(config: AdConfig, seed: int) -> World:
    """Draw the contexts, effects and cell sizes of a world.

    Examples
    --------
    >>> world = make_world(AdConfig().scaled(0.001), seed=0)
    >>> world.contexts.shape, int(world.mab_sizes.sum()), int(world.cb_sizes.sum())
    ((949, 7), 40101, 299342)
    """
    contexts = _context_pool(config, generator(seed, _POOL))
    onehot = one_hot(contexts, [levels for _, levels in config.columns])
    campaigns = tuple(_campaign(config, c, onehot, generator(seed, _CAMPAIGN, c)) for c in range(config.campaigns))
    traffic = np.outer(config.campaign_traffic, np.resize(config.slot_traffic, config.batches)).ravel()
    traffic = traffic / traffic.sum()
    # Independent Poisson traffic and a coin per impression, given the two totals, is multinomial.
    rng = generator(seed, _SIZES)
    shape = (config.campaigns, config.batches)
    mab = rng.multinomial(config.mab_impressions, traffic).reshape(shape)
    cb = rng.multinomial(config.cb_impressions, traffic).reshape(shape)
    return World(config, seed, contexts, onehot, campaigns, mab, cb)


def one_hot(levels: NDArray[np.int16], sizes: list[int]) -> NDArray[np.float32]:
    """Return indicator columns of categorical columns, laid end to end.

    >>> one_hot(np.array([[1, 0]], dtype=np.int16), [2, 3])
    array([[0., 1., 1., 0., 0.]], dtype=float32)
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    out = np.zeros((len(levels), sum(sizes)), dtype=np.float32)
    out[np.arange(len(levels))[:, None], levels + offsets] = 1.0
    return out


def _context_pool(config: AdConfig, rng: np.random.Generator) -> NDArray[np.int16]:
    sizes = [levels for _, levels in config.columns]
    codes = rng.choice(int(np.prod(sizes)), size=config.contexts, replace=False)
    return np.stack(np.unravel_index(codes, sizes), axis=1).astype(np.int16)


def _campaign(config: AdConfig, index: int, onehot: NDArray[np.float32], rng: np.random.Generator) -> Campaign:
    k = config.designs[index]
    names = np.repeat([n for n, _ in config.columns], [levels for _, levels in config.columns])
    share = rng.permutation(np.arange(1, config.contexts + 1, dtype=np.float64) ** -config.zipf)
    share /= share.sum()
    main = rng.normal(0.0, config.column_sd, size=len(names))
    design = rng.normal(0.0, config.design_sd, size=k)
    interaction = rng.normal(0.0, config.interaction_sd, size=(len(names), k))
    interaction[~np.isin(names, config.interacting)] = 0.0
    effect = (onehot @ main)[:, None] + design + onehot @ interaction
    rate = config.click_rates[index] / float(share @ np.exp(effect).mean(axis=1))
    return Campaign(
        index=index,
        share=share,
        intercept=float(logit(rate)),
        main=main,
        design=design,
        drift=rng.normal(0.0, config.drift_sd, size=k),
        interaction=interaction,
    )
