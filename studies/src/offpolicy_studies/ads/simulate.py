"""Run the A/B test on a world: one compressed log for each campaign and batch.

Contexts and designs are discrete, so a batch is drawn as numbers of impressions and clicks of
each (context, design) pair instead of one row per impression: contexts are multinomial, designs
are drawn from the multi-armed bandit's probabilities independently of the context, clicks are
binomial. `to_rows` expands a batch into the impressions it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.testing import written_whole
from offpolicy_studies.ads.bandits import BetaPosterior, LogisticPosterior, choice_counts, logistic_prior
from offpolicy_studies.ads.config import generator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from offpolicy_studies.ads.world import World

# Second element of a seed key; the world itself uses 10 to 12.
_MAB, _CB, _ROWS = 20, 21, 22


@dataclass(frozen=True)
class AdCell:
    """What happened in one campaign and batch, and what is known about it.

    Attributes
    ----------
    campaign, batch : int
        Which cell.
    context, design : (m,) int arrays
        The distinct pairs of the multi-armed arm's log, sorted.
    shown, clicks : (m,) int arrays
        Impressions and clicks of each pair.
    alpha, beta : (K,) arrays
        The multi-armed bandit's beta posteriors.
    propensity : (K,) array
        Its choice probabilities, by quadrature.
    present : (p,) int array
        The distinct contexts of the log, sorted.
    choice : (p, K) uint8 array
        The contextual bandit's choice probabilities there, times ``draws``.
    draws : int
        Posterior draws it published.
    online_impressions, online_clicks : int
        The contextual arm's own log: the "ground truth" of the paper.
    true_value, true_logged : float
        The world's expected click rates of the contextual and the multi-armed bandit.
    """

    campaign: int
    batch: int
    context: NDArray[np.int32]
    design: NDArray[np.uint8]
    shown: NDArray[np.int32]
    clicks: NDArray[np.int32]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    propensity: NDArray[np.float64]
    present: NDArray[np.int32]
    choice: NDArray[np.uint8]
    draws: int
    online_impressions: int
    online_clicks: int
    true_value: float
    true_logged: float

    def save(self, path: Path) -> None:
        """Write the cell; a reader never sees a half-written file."""
        with written_whole(path) as part, part.open("wb") as stream:
            np.savez(stream, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def load(cls, path: Path) -> AdCell:
        """Read a cell written by `save`."""
        with np.load(path, allow_pickle=False) as stored:
            values: dict[str, Any] = {name: stored[name] for name in stored.files}
        return cls(**{k: v.item() if v.ndim == 0 else v for k, v in values.items()})


def simulate_campaign(world: World, campaign: int) -> Iterator[AdCell]:
    """Yield a campaign's batches in order; each algorithm learns from its own impressions.

    Examples
    --------
    >>> from offpolicy_studies.ads.config import AdConfig
    >>> from offpolicy_studies.ads.world import make_world
    >>> world = make_world(AdConfig().scaled(0.001), seed=0)
    >>> cell = next(simulate_campaign(world, 0))
    >>> int(cell.shown.sum()) == int(world.mab_sizes[0, 0])
    True
    """
    cfg, own = world.config, world.campaigns[campaign]
    k = own.n_designs
    levels = [size for _, size in cfg.columns]
    active = world.contexts + np.concatenate([[0], np.cumsum(levels)[:-1]])
    mab = BetaPosterior(np.zeros(k), np.zeros(k), cfg.mab_prior(campaign), cfg.mab_memory)
    cb = logistic_prior(cfg, sum(levels), k)
    for batch in range(cfg.batches):
        mu = world.click_probabilities(campaign, batch)
        rng = generator(world.seed, _MAB, campaign, batch)
        pi_b = np.asarray(op.policies.beta_thompson_probabilities(mab.alpha, mab.beta), dtype=np.float64)
        shown = _draw_pairs(world.mab_sizes[campaign, batch], own.share, pi_b, rng)
        pair = np.flatnonzero(shown)
        clicks = rng.binomial(shown[pair], mu.ravel()[pair])

        choice, online, cb = _contextual_batch(world, campaign, batch, mu, active=active, cb=cb)
        context, design = np.divmod(pair, k)
        present = np.unique(context)
        yield AdCell(
            campaign=campaign,
            batch=batch,
            context=context.astype(np.int32),
            design=design.astype(np.uint8),
            shown=shown[pair].astype(np.int32),
            clicks=clicks.astype(np.int32),
            alpha=mab.alpha,
            beta=mab.beta,
            propensity=pi_b,
            present=present.astype(np.int32),
            choice=choice[present],
            draws=cfg.cb_draws,
            online_impressions=online[0],
            online_clicks=online[1],
            true_value=float(own.share @ np.einsum("xk,xk->x", choice, mu)) / cfg.cb_draws,
            true_logged=float(own.share @ (mu @ pi_b)),
        )
        mab = mab.updated(np.bincount(design, shown[pair], minlength=k), np.bincount(design, clicks, minlength=k))


def _draw_pairs(
    size: int, share: NDArray[np.float64], pi_b: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return impressions of each (context, design) pair, flat, for designs that ignore contexts."""
    k = len(pi_b)
    contexts = np.repeat(np.arange(len(share)), rng.multinomial(size, share))
    designs = rng.choice(k, size=size, p=pi_b / pi_b.sum())
    return np.bincount(contexts * k + designs, minlength=len(share) * k)


def _contextual_batch(
    world: World,
    campaign: int,
    batch: int,
    mu: NDArray[np.float64],
    *,
    active: NDArray[np.int64],
    cb: LogisticPosterior,
) -> tuple[NDArray[np.uint8], tuple[int, int], LogisticPosterior]:
    """Serve one batch; return π_e·draws, (impressions, clicks) and the next posterior."""
    rng = generator(world.seed, _CB, campaign, batch)
    draws = cb.draw(world.config.cb_draws, rng)
    choice = choice_counts(draws, world.onehot)
    size = int(world.cb_sizes[campaign, batch])
    context = rng.choice(len(mu), size=size, p=world.campaigns[campaign].share)
    served = rng.integers(len(draws), size=size)
    design = np.empty(size, dtype=np.int64)
    for d, matrix in enumerate(draws):
        mine = served == d
        design[mine] = np.argmax(world.onehot[context[mine]] @ matrix[1:] + matrix[0], axis=1)
    click = rng.binomial(1, mu[context, design])
    return choice, (size, int(click.sum())), cb.updated(active[context], design, click)


def to_rows(world: World, cell: AdCell) -> dict[str, NDArray[Any]]:
    """Expand a cell into one row per impression, in random order.

    Returns
    -------
    dict of (n,) arrays
        ``campaign``, ``batch``, every context column, ``design``, ``click``, ``propensity``.
    """
    rng = generator(world.seed, _ROWS, cell.campaign, cell.batch)
    pair = np.repeat(np.arange(len(cell.shown)), cell.shown)
    first = np.repeat(np.cumsum(cell.shown) - cell.shown, cell.shown)
    click = (np.arange(len(pair)) - first < cell.clicks[pair]).astype(np.int8)
    order = rng.permutation(len(pair))
    pair, click = pair[order], click[order]
    design = cell.design[pair]
    rows: dict[str, NDArray[Any]] = {
        "campaign": np.full(len(pair), cell.campaign, dtype=np.int8),
        "batch": np.full(len(pair), cell.batch, dtype=np.int8),
    }
    for j, (name, _) in enumerate(world.config.columns):
        rows[name] = world.contexts[cell.context[pair], j].astype(np.int8)
    rows |= {"design": design, "click": click, "propensity": cell.propensity[design]}
    return rows


def rows_path(cell: AdCell, folder: Path) -> Path:
    """Return the file of a cell's impressions."""
    return folder / f"campaign={cell.campaign}-batch={cell.batch:02d}.parquet"


def write_rows(world: World, cell: AdCell, folder: Path) -> Path:
    """Write a cell's impressions as one Parquet file and return its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    path = rows_path(cell, folder)
    pq.write_table(pa.table(to_rows(world, cell)), path, compression="zstd")
    return path
