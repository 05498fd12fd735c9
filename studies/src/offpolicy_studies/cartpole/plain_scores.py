"""How far estimates by the letter are from the truth: errors, bias, spread, and DML against its rivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole.ways import FIVE, LOGGED, ROWS
from offpolicy_studies.paired import compare, parts, shift

if TYPE_CHECKING:
    from collections.abc import Sequence


def errors(lines: Sequence[dict[str, Any]], value: str, way: str, truth: float) -> dict[str, np.ndarray]:
    """Return each row's errors over the data sets, the logged mean's among them."""
    out = {
        row: np.array([line["estimates"][value][way][row][0] for line in lines]) - truth
        for row in ROWS
        if row in lines[0]["estimates"][value][way]
    }
    out[LOGGED] = np.array([line["diagnostics"]["logged"] for line in lines]) - truth
    return out


def score(error: np.ndarray) -> dict[str, float]:
    """Return the mean squared error with its standard error, the median, bias and spread.

    >>> got = score(np.array([-1.0, 3.0]))
    >>> got["mse"], got["bias"], got["sd"]
    (5.0, 1.0, 2.0)
    """
    squared = error**2
    n = len(error)
    return {
        "mse": float(squared.mean()),
        "mse_std_error": float(squared.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        "median_squared_error": float(np.median(squared)),
        "bias": float(error.mean()),
        "sd": float(error.std()),
        "replications": n,
    }


def scores(lines: Sequence[dict[str, Any]], value: str, way: str, truth: float) -> dict[str, Any]:
    """Return scores of all rows, the order of the paper's five, and paired tests of DML."""
    error = errors(lines, value, way, truth)
    rows = {name: score(e) for name, e in error.items()}
    order = sorted(FIVE, key=lambda name: rows[name]["mse"])
    return {
        "rows": rows,
        "order": order,
        "over_fitting": shift(error["DR-full"], error["DML"]),
        "parts": parts(error["DR-full"], error["DML"]),
        "dml_over_best": rows["DML"]["mse"] / rows[order[0]]["mse"],
        "tests": {name: compare(error[name], error["DML"]) for name in ("DR-full", "DR-half", "DM", "IPW")},
        **_parts(lines, value, way, truth),
    }


def _parts(lines: Sequence[dict[str, Any]], value: str, way: str, truth: float) -> dict[str, float]:
    """Return diagnostics: how q̂ fits in and out of its sample, how π̂_b does, what the weights are."""
    q = [line["diagnostics"]["q"][value] for line in lines]
    own = [line["diagnostics"]["ways"][way] for line in lines]
    inside, outside = (np.array([d[f"residual_{fit}"] for d in q]) for fit in ("full", "cross"))
    logged = np.array([line["diagnostics"]["logged"] for line in lines])
    return {
        "residual_in_over_out": float(np.median(inside / outside)),
        "q_bias_in": float(np.mean([d["bias_full"] for d in q])),
        "q_bias_out": float(np.mean([d["bias_cross"] for d in q])),
        "log_loss_in": float(np.mean([d["log_loss_in"] for d in own])),
        "log_loss_out": float(np.mean([d["log_loss_out"] for d in own])),
        "mean_weight": float(np.median([d["mean_weight"] for d in own])),
        "effective": float(np.mean([d["effective"] for d in own])),
        "clean_episodes": float(np.mean([line["diagnostics"]["clean_episodes"] for line in lines])),
        "value_minus_logged": truth - float(logged.mean()),
    }
