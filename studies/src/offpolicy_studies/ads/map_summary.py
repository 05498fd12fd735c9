"""What the lines of an ads map say: errors, order and tests of every world, and of all worlds together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.ads.estimate import BEHAVIOR
from offpolicy_studies.ads.map_worlds import ESTIMATORS, MODELS, NAMES
from offpolicy_studies.paired import compare, compare_groups, parts, shift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy_studies.arrays import Floats


def summarize(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return errors, order and tests of each cell of the map, over seeds, campaigns and batches."""
    groups: dict[tuple[str, str], dict[Any, dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        place, *where, model = line["key"]
        groups[place, model][tuple(where)] = line
    out = []
    for (place, model), found in sorted(groups.items()):
        for behavior in BEHAVIOR:
            records = [found[key] for key in sorted(found)]
            factors = {**NAMES[place].__dict__, "model": model, "behavior": behavior}
            out.append({**factors, **_cell(records, behavior)})
    return out


def pooled(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Test DR-full against DML over all worlds together, for each reward model and way of knowing π_b.

    Worlds of the same seed share their random numbers, so the differences of a seed's campaign and batch are
    averaged over the worlds before they are tested.
    """
    out = []
    for model in MODELS:
        own = [line for line in lines if line["key"][-1] == model]
        for behavior in BEHAVIOR if own else ():
            error = _errors(own, behavior)
            full, dml = (error[:, ESTIMATORS.index(name)] for name in ("DR-full", "DML"))
            out.append(
                {
                    "model": model,
                    "behavior": behavior,
                    "records": len(own),
                    "rmse": {"DR-full": _root(full), "DML": _root(dml)},
                    "median": {name: float(np.median(np.abs(e))) for name, e in (("DR-full", full), ("DML", dml))},
                    "against_full": compare_groups(full, dml, [line["key"][1:4] for line in own]),
                    "parts": parts(full, dml),
                }
            )
    return out


def _root(error: Floats) -> float:
    return float(np.sqrt((error**2).mean()))


def _errors(records: Sequence[dict[str, Any]], behavior: str) -> Floats:
    """Return the errors relative to the true value, a column for each estimator."""
    truth = np.array([r["true_value"] for r in records])
    values = np.array([[r["estimates"][behavior][e][0] for e in ESTIMATORS] for r in records])
    error: Floats = values / truth[:, None] - 1
    return error


def _cell(records: list[dict[str, Any]], behavior: str) -> dict[str, Any]:
    truth = np.array([r["true_value"] for r in records])
    error = _errors(records, behavior)
    spread = np.array([[r["estimates"][behavior][e][1] for e in ESTIMATORS] for r in records])
    spread /= truth[:, None]
    at = {name: k for k, name in enumerate(ESTIMATORS)}
    rmse = np.sqrt((error**2).mean(0))
    logged = np.array([r["logged"] for r in records]) / truth - 1
    return {
        "records": len(records),
        "rmse": dict(zip(ESTIMATORS, rmse.tolist(), strict=True)),
        "bias": dict(zip(ESTIMATORS, error.mean(0).tolist(), strict=True)),
        "median": dict(zip(ESTIMATORS, np.median(np.abs(error), 0).tolist(), strict=True)),
        # What a single batch has of the sum of squares: near 1 where one click decides a mean.
        "largest_share": dict(zip(ESTIMATORS, ((error**2).max(0) / (error**2).sum(0)).tolist(), strict=True)),
        "logged_mean": float(np.sqrt((logged**2).mean())),
        "paper_order": bool(rmse[at["IPW"]] > rmse[at["DR-full"]] > rmse[at["DML"]]),
        # Positive in the paper's order; the largest of all cells comes closest to it.
        "toward_paper": float(
            np.log([rmse[at["IPW"]] / rmse[at["DR-full"]], rmse[at["DR-full"]] / rmse[at["DML"]]]).min()
        ),
        # Residual variance where the model was fitted over that where it was not: 1 without over-fitting.
        "in_sample_share": _median_ratio(spread[:, at["DR-full"]], spread[:, at["DML"]]),
        # What the model's predictions take off the variance of plain weighting, out of fold.
        "variance_left": _median_ratio(spread[:, at["DML"]], spread[:, at["IPW"]]),
        "over_fitting": shift(error[:, at["DR-full"]], error[:, at["DML"]]),
        "against_full": compare(error[:, at["DR-full"]], error[:, at["DML"]]),
        "parts": parts(error[:, at["DR-full"]], error[:, at["DML"]]),
        "against_ipw": compare(error[:, at["IPW"]], error[:, at["DML"]]),
    }


def _median_ratio(top: Floats, bottom: Floats) -> float:
    """Return the median ratio of variances, over batches in which the lower one is not 0."""
    some = bottom > 0
    return float(np.median(top[some] ** 2 / bottom[some] ** 2)) if some.any() else float("nan")
