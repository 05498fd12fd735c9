"""The counterfactual policy of Figure 2: the design with the highest predicted click rate.

LightGBM with 20 leaves and learning rate 0.01, rounds by cross-validation, trained on the
multi-armed log of the first B − 1 batches; the policy shows argmax_a μ̂(x, a).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.ads.config import generator
from offpolicy_studies.ads.reward import features

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from offpolicy_studies.ads.simulate import AdCell

_FOLDS = 30  # second element of the seed key; see simulate.py


@dataclass(frozen=True)
class Training:
    """How the click model of the counterfactual policy is trained.

    Attributes
    ----------
    leaves, learning_rate
        The paper's values.
    max_rounds, patience, folds, every : int
        Cross-validation that chooses the number of rounds: at most so many, stopped after so many
        without progress, over so many folds, looking at the held-out loss every so many.
    min_hessian : float
        Smallest sum of hessians, about expected clicks, in a leaf.
    """

    leaves: int = 20
    learning_rate: float = 0.01
    max_rounds: int = 1_000
    patience: int = 20
    folds: int = 2
    every: int = 5
    min_hessian: float = 10.0

    def params(self) -> dict[str, Any]:
        """Return LightGBM's parameters; limits are weight-aware, as in `reward`."""
        return {
            "objective": "cross_entropy",
            "metric": "cross_entropy",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_sum_hessian_in_leaf": self.min_hessian,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "max_bin": 63,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }


@dataclass(frozen=True)
class Pairs:
    """Impressions and clicks of each (context, design) pair, pooled over batches."""

    context: NDArray[np.int64]
    design: NDArray[np.int64]
    shown: NDArray[np.int64]
    clicks: NDArray[np.int64]


def pooled(cells: Iterable[AdCell], n_contexts: int, n_designs: int) -> Pairs:
    """Add up cells of one campaign.

    Memory stays at one (contexts, designs) table whatever the number of batches.
    """
    shown = np.zeros(n_contexts * n_designs)
    clicks = np.zeros_like(shown)
    for cell in cells:
        pair = cell.context.astype(np.int64) * n_designs + cell.design
        shown += np.bincount(pair, cell.shown, minlength=len(shown))
        clicks += np.bincount(pair, cell.clicks, minlength=len(shown))
    seen = np.flatnonzero(shown)
    context, design = np.divmod(seen, n_designs)
    return Pairs(context, design, shown[seen].astype(np.int64), clicks[seen].astype(np.int64))


def best_designs(
    pairs: Pairs,
    contexts: NDArray[np.int16],
    wanted: NDArray[np.int32],
    n_designs: int,
    *,
    seed: int,
    training: Training,
) -> tuple[NDArray[np.int64], int]:
    """Train the click model and return the best design for each wanted context, and the rounds."""
    import lightgbm as lgb

    matrix = features(contexts[pairs.context], pairs.design)
    rounds = _rounds(matrix, pairs, seed, training)
    data = lgb.Dataset(matrix, pairs.clicks / pairs.shown, weight=pairs.shown.astype(np.float64))
    booster = lgb.train(training.params(), data, rounds)
    best = np.empty(len(wanted), dtype=np.int64)
    # A block of contexts times all designs at once: the whole table need not exist.
    for rows in np.array_split(np.arange(len(wanted)), max(1, len(wanted) // 4_000)):
        x = np.repeat(contexts[wanted[rows]], n_designs, axis=0)
        a = np.tile(np.arange(n_designs), len(rows))
        score = booster.predict(features(x, a), num_threads=1)
        best[rows] = np.asarray(score).reshape(len(rows), n_designs).argmax(axis=1)
    return best, rounds


def _rounds(matrix: NDArray[np.float32], pairs: Pairs, seed: int, training: Training) -> int:
    """Choose the number of rounds by cross-validation over impressions, folds in lockstep."""
    import lightgbm as lgb

    rng = generator(seed, _FOLDS)
    shares = np.full(training.folds, 1 / training.folds)
    clicks = rng.multinomial(pairs.clicks, shares)
    others = rng.multinomial(pairs.shown - pairs.clicks, shares)
    boosters = []
    for k in range(training.folds):
        train, valid = _labelled(matrix, pairs, clicks, others, k)
        if train[1] @ train[2] == 0:
            return 1
        data = lgb.Dataset(train[0], train[1], weight=train[2], params=training.params())
        booster = lgb.Booster(training.params(), data)
        held = data.create_valid(valid[0], valid[1], weight=valid[2], params=training.params())
        booster.add_valid(held, "valid")
        boosters.append(booster)
    best, best_loss = 1, np.inf
    for round_ in range(1, training.max_rounds + 1):
        for booster in boosters:
            booster.update()
        if round_ % training.every:
            continue
        loss = sum(booster.eval_valid()[0][2] for booster in boosters)
        if loss < best_loss:
            best, best_loss = round_, loss
        elif round_ - best >= training.patience:
            break
    return best


def _labelled(
    matrix: NDArray[np.float32], pairs: Pairs, clicks: NDArray[np.int64], others: NDArray[np.int64], fold: int
) -> tuple[Any, Any]:
    """Return (features, click rates, impressions) outside and inside a fold."""
    inside = clicks[:, fold], others[:, fold]
    outside = pairs.clicks - inside[0], pairs.shown - pairs.clicks - inside[1]
    out = []
    for hit, miss in (outside, inside):
        n = hit + miss
        rows = np.flatnonzero(n)
        out.append((matrix[rows], hit[rows] / n[rows], n[rows].astype(np.float64)))
    return out[0], out[1]
