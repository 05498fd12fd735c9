"""What the paper's pairs (MSE, standard error) say about bias and spread: our inference, not the paper's.

An MSE m over n data sets with standard error s fixes the variance n s² of the squared error. For a normal error
with bias b and variance v that variance is 2v² + 4b²v, and m = b² + v, so

    b² = (m² − n s²/2)^½,      v = m − b²,

and no normal error fits where n s²/2 > m²: its tails are heavier (the pair is then read as spread alone).

`two_readings` fits the twelve cells of DML and DR-half. *Saturated*: weights stay 1 while the log follows π_e, so an
episode counts the reward up to its first deviation plus q̂ there; with q̂ short of the rest by a share δ,

    MSE = (δ E[rest])² + σ²/n_scored,     E[rest] = T − (1 − (1 − ε/2)^T)/(ε/2),

for episodes of T steps. *Correct weights*: no bias, and a variance that grows like the mean squared weight,
MSE = σ² ((1 − ε/2)^−T − 1)/(T ε/2) / n_scored. Both have two parameters, (δ, σ) at given T and (σ, T).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy_studies.cartpole.settings import EPSILONS
from offpolicy_studies.cartpole.table import PAPER

DATA_SETS = 100
SCORED = {"DML": 100, "DR-half": 50}
LENGTH = 38


def decompose(mse: float, std_error: float, n: int = DATA_SETS) -> tuple[float, float]:
    """Return the bias (without its sign) and the standard deviation behind a pair; bias 0 for heavy tails.

    >>> decompose(5.31, 0.70)
    (1.386..., 1.840...)
    >>> decompose(32.03, 6.63)[0]
    0.0
    """
    left = mse**2 - n * std_error**2 / 2
    squared_bias = float(np.sqrt(left)) if left > 0 else 0.0
    return float(np.sqrt(squared_bias)), float(np.sqrt(mse - squared_bias))


def two_readings(length: int = LENGTH) -> dict[str, dict[str, float]]:
    """Fit both readings to the paper's twelve cells of DML and DR-half by weighted least squares."""
    from scipy.optimize import minimize

    p = np.array(EPSILONS) / 2

    def distance(predicted: dict[str, np.ndarray]) -> float:
        pairs = {name: np.array(PAPER[name]).T for name in SCORED}
        return float(sum(
            (((pairs[name][0] - predicted[name]) / pairs[name][1]) ** 2).sum() for name in SCORED
        ))  # fmt: skip

    def saturated(x: np.ndarray) -> float:
        rest = length - (1 - (1 - p) ** length) / p
        return distance({k: (x[0] * rest) ** 2 + x[1] ** 2 / n for k, n in SCORED.items()})

    def correct(x: np.ndarray) -> float:
        growth = ((1 - p) ** -x[1] - 1) / (x[1] * p)
        return distance({k: x[0] ** 2 * growth / n for k, n in SCORED.items()})

    first = minimize(saturated, [0.1, 20.0], method="Nelder-Mead")
    second = minimize(correct, [20.0, 38.0], method="Nelder-Mead")
    return {
        "saturated": {"share": abs(float(first.x[0])), "sigma": abs(float(first.x[1])),
                      "length": float(length), "chi_squared": float(first.fun)},
        "correct": {"sigma": abs(float(second.x[0])), "length": float(second.x[1]),
                    "chi_squared": float(second.fun)},
    }  # fmt: skip


def markdown() -> str:
    """Return the paper's pairs as bias / standard deviation, and both readings."""
    head = "| | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |"
    lines = [head, "|---|" + "---:|" * len(EPSILONS)]
    for name, pairs in PAPER.items():
        cells = []
        for mse, std_error in pairs:
            bias, sd = decompose(mse, std_error)
            cells.append(f"{bias:.1f} / {sd:.1f}" if bias else f"– / {sd:.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    got: Any = two_readings()
    a, b = got["saturated"], got["correct"]
    reading = (
        f"Saturated weights (T = {a['length']:.0f} given): χ² {a['chi_squared']:.1f} with a share of "
        f"{a['share']:.2f} of the rest missing and σ = {a['sigma']:.0f}. Correct weights: χ² {b['chi_squared']:.1f} "
        f"with σ = {b['sigma']:.0f} and T = {b['length']:.0f}. Ten degrees of freedom each."
    )
    return "\n".join([*lines, "", reading]) + "\n"
