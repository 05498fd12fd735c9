"""`auto` for episodes: a blend of DML, WDR and DRL by estimated mean squared error.

Products of ratios (DML, WDR) need no Markov state and no model of the ratios, and die of the horizon; ratios of
marginals (DRL) live on, and are wrong where the state is not Markov or the ratios are badly fitted. So:

- products take part where they are supported: the weights of the last step leave at least 100 effective episodes, or a
  tenth of all if that is 20, none of which carries more than a tenth, and have a mean that is 1 within a fifth. With
  fewer, the spread of their scores is no guide to their error;
- where they are, the bias of DRL is what its distance from the better of the two exceeds the distance's own error by;
- x minimizes x'(Ω + b b')x over the simplex, Ω being the covariance of the scores and b the biases.

The x of a fold comes from the other folds' units, so that choosing is honest: a unit's score is not weighted by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.scores.formulas import Scored
from offpolicy.scores.magic import simplex_minimum
from offpolicy.scores.missed import floored

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.scores.decisions import Decisions

FEWEST_EPISODES = 20.0
ENOUGH_EPISODES = 100.0
ENOUGH_SHARE = 0.1
LARGEST_SHARE = 0.1
MEAN_WITHIN = 0.2
# Standard errors of the distance that are no sign of bias.
NOISE = 1.0


def products_supported(
    d: Decisions,
    fewest: float | None = None,
    largest: float = LARGEST_SHARE,
    within: float = MEAN_WITHIN,
) -> bool:
    """Whether the weights of whole episodes leave enough of the log to rest an estimate on."""
    if fewest is None:
        fewest = max(FEWEST_EPISODES, min(ENOUGH_EPISODES, ENOUGH_SHARE * d.size))
    logs = d.log_weight
    highest = float(logs.max(initial=-np.inf))
    if not -np.inf < highest <= LARGEST_LOG_WEIGHT:
        return False
    weight = d.mass * np.exp(logs - highest)
    total = float(weight.sum())
    mean = float(np.exp(highest)) * total / float(d.mass.sum())
    effective = total**2 / float((weight**2).sum())
    return bool(
        effective >= fewest and float(weight.max()) / total <= largest and abs(mean - 1) <= within
    )


def blended(d: Decisions) -> Scored:
    """Σ_j x_j ψ_j over the parts that these data support."""
    parts = {"DRL": scores.marginalized(d)} if d.marginal is not None else {}
    supported = products_supported(d)
    if supported or not parts:
        parts["DML"] = scores.doubly_robust(d)
        parts["WDR"] = scores.self_normalized_dr(d)
    names = [name for name, psi in parts.items() if np.isfinite(psi).all()]
    if not names:
        return Scored(np.full(d.n, np.nan))
    table = np.stack([parts[name] for name in names])
    shares = np.zeros((len(names), d.n))
    folds = np.zeros(d.n, dtype=np.int64) if d.fold is None else d.fold
    for fold in np.unique(folds):
        others = folds != fold
        if not others.any():
            others = np.ones(d.n, dtype=bool)
        x = _weights(table, names, d.mass, others)
        shares[:, folds == fold] = x[:, None]
    mean = shares @ d.mass / d.mass.sum()
    said = ", ".join(f"{names[j]} {mean[j]:.0%}" for j in np.argsort(-mean) if mean[j] > 0.005)
    note = f"blend by estimated mean squared error: {said}"
    if not supported and "DRL" in parts:
        note += "; products of ratios are not supported at this horizon"
    products = float(sum(m for name, m in zip(names, mean, strict=True) if name != "DRL"))
    psi, floor = floored(d, (shares * table).sum(axis=0))
    return Scored(psi, f"{note}; {floor}" if floor else note, products)


def _weights(table: Floats, names: list[str], mass: Floats, members: Bools) -> Floats:
    """The x of smallest x'(Ω + b b')x, from some units."""
    if len(names) == 1:
        return np.ones(1)
    psi, m = table[:, members], mass[members]
    total = float(m.sum())
    means = psi @ m / total
    centered = (psi - means[:, None]) * m / total
    covariance = centered @ centered.T
    bias = np.zeros(len(names))
    if "DRL" in names:
        j = names.index("DRL")
        rest = [i for i in range(len(names)) if i != j]
        best = min(rest, key=lambda i: covariance[i, i])
        spread = covariance[j, j] + covariance[best, best] - 2 * covariance[j, best]
        bias[j] = max(abs(means[j] - means[best]) - NOISE * np.sqrt(max(spread, 0.0)), 0.0)
    return simplex_minimum(covariance + np.outer(bias, bias))
