"""Scores of one block after another, where a log is too large to be scored at once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.scores import catalog
from offpolicy.scores.decisions import Ledger

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.evaluation.pipeline import Pipeline
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator

MOST_PASSES = 8


def scores_by_block(p: Pipeline, target: Target, estimator: Estimator, repeat: int) -> Floats:
    """Scores of one block after another, in passes until every mean is the whole log's."""
    known: list[float] = []
    for _ in range(MOST_PASSES):
        parts: list[Floats] = []
        asked: list[list[tuple[float, float]]] = []
        for block in range(p.source.n_blocks):
            d = p.decisions(target, estimator, repeat, block)
            if d.n == 0:
                continue
            ledger = Ledger(known)
            parts.append(catalog.apply(estimator, replace(d, ledger=ledger)).psi)
            asked.append(ledger.asked)
        means = _means(asked)
        if not estimator.whole_log_means or _settled(means, known):
            return np.concatenate(parts)
        known = means
    raise AssertionError(f"the means that {estimator.name} asks for did not settle.")


def _means(asked: list[list[tuple[float, float]]]) -> list[float]:
    """Means over all blocks, in the order in which a score asked for them."""
    longest = max((len(each) for each in asked), default=0)
    means = []
    for place in range(longest):
        pairs = [each[place] for each in asked if place < len(each)]
        total, mass = (math.fsum(x) for x in zip(*pairs, strict=True))
        means.append(total / mass if mass else math.nan)
    return means


def _settled(means: list[float], known: list[float]) -> bool:
    """Whether a pass found the means it was given, up to rounding."""
    return len(means) == len(known) and bool(np.allclose(means, known, rtol=1e-13, atol=0.0, equal_nan=True))
