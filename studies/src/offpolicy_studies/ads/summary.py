"""From the estimates of all cells to Table 2, its standard errors, tests, and the error against truth."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.ads.estimate import BEHAVIOR, ESTIMATORS
from offpolicy_studies.ads.metrics import (
    DRAWS,
    Online,
    forget_draws,
    relative_rmse,
    rmse_difference,
    rmse_spread,
    truth_error,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Table 2 of the paper: estimated, then true behavior policy; (relative-RMSE, standard error).
PAPER = {
    "IPW": ((0.72531, 0.03077), (0.72907, 0.03061)),
    "DR-full": ((0.65470, 0.02900), (0.65056, 0.02880)),
    "DR-half": ((0.66331, 0.02726), (0.67209, 0.02527)),
    "DML": ((0.56623, 0.02952), (0.56196, 0.02922)),
}


def summarize(records: Sequence[dict[str, Any]], *, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """Return the study's numbers as plain values.

    Parameters
    ----------
    records : sequence of dict
        One for each cell, from `estimate_cell`.
    draws, seed : int
        Of appendix C's simulation.
    """
    n = _column(records, "online_impressions")
    clicks = _column(records, "online_clicks")
    truth = _column(records, "true_value")
    online = Online(clicks / n, n)
    out: dict[str, Any] = {
        "cells": len(records),
        "mab_impressions": int(_column(records, "n").sum()),
        "cb_impressions": int(n.sum()),
        "mean_true_value": float(n @ truth / n.sum()),
        "zero_click_cells": int((~online.defined).sum()),
        "zero_click_weight": float(n[~online.defined].sum() / n.sum()),
        # What a perfect estimator would score: nothing but the noise of the online rates.
        "oracle_relative_rmse": relative_rmse(truth, online),
        "online_noise": float(np.sqrt(n @ (clicks / n / truth - 1) ** 2 / n.sum())),
        "estimators": {},
        "against_dml": {},
        "dml_intervals": {b: _coverage(records, b, truth) for b in BEHAVIOR},
    }
    for behavior in BEHAVIOR:
        table, tests = {}, {}
        dml, dml_se = _estimates(records, behavior, "DML")
        for name in ESTIMATORS:
            value, se = _estimates(records, behavior, name)
            spread = rmse_spread(value, se, online, draws=draws, seed=seed)
            table[name] = {**asdict(spread), "truth": asdict(truth_error(value, se, truth, n))}
            if name != "DML":
                paired = np.array([r["difference_std_error"][behavior][name] for r in records])
                test = rmse_difference((value, dml), (se, dml_se), paired, online, draws=draws, seed=seed)
                tests[name] = {**asdict(test), "z": test.z, "p_value": test.p_value}
        out["estimators"][behavior] = table
        out["against_dml"][behavior] = tests
    forget_draws()
    return out


def markdown(summary: dict[str, Any]) -> str:
    """Return the table beside the paper's, and the error against the true value, as Markdown."""
    lines = [
        "| method | paper, estimated π_b | ours, estimated π_b | paper, true π_b | ours, true π_b |",
        "|---|---|---|---|---|",
    ]
    for name in ESTIMATORS:
        cells = []
        for j, behavior in enumerate(BEHAVIOR):
            row = summary["estimators"][behavior][name]
            known = PAPER.get(name)
            cells.append(f"{known[j][0]:.3f} ({known[j][1]:.3f})" if known else "–")
            cells.append(f"{row['value']:.3f} ({row['fixed']:.3f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    oracle = f"{summary['oracle_relative_rmse']:.3f}"
    lines += [
        f"| the true value itself | – | {oracle} | – | {oracle} |",
        "",
        (
            f"Relative-RMSE over {summary['cells'] - summary['zero_click_cells']} of {summary['cells']} "
            f"cells; {summary['zero_click_cells']} have no online click and no relative error. In "
            "parentheses, the standard error by appendix C's simulation; ours divides the draws by "
            "the observed online rates, since drawn ones come close to zero."
        ),
        "",
        (
            "| method | error against the true value (est. π_b) | bias | claimed by its s.e. | "
            "95% intervals cover | RMSE − DML's, p | error against truth (true π_b) | cover |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ESTIMATORS:
        a = summary["estimators"]["estimated"][name]["truth"]
        b = summary["estimators"]["true"][name]["truth"]
        test = summary["against_dml"]["estimated"].get(name)
        against = f"{test['value']:+.3f}, p = {test['p_value']:.2f}" if test else "–"
        lines.append(
            f"| {name} | {a['rmse']:.3f} | {a['bias']:+.3f} | {a['claimed']:.3f} | "
            f"{a['coverage']:.1%} | {against} | {b['rmse']:.3f} | {b['coverage']:.1%} |"
        )
    lines.append("")
    for behavior, kinds in summary["dml_intervals"].items():
        wide = {
            k: f"mean width {v['width']:.2f} V" if np.isfinite(v["width"]) else "some unbounded"
            for k, v in kinds.items()
        }
        parts = [f"{k} {v['coverage']:.1%} ({wide[k]})" for k, v in kinds.items()]
        lines.append(f"DML's 95% intervals with {behavior} π_b cover the truth: {'; '.join(parts)}.")
    return "\n".join(lines) + "\n"


def _coverage(
    records: Sequence[dict[str, Any]], behavior: str, truth: NDArray[np.float64]
) -> dict[str, dict[str, float]]:
    """Return how often each kind of interval of DML contains the truth, and its width / truth."""
    out = {}
    for kind in ("normal", "automatic"):
        ends = np.array([r["dml_intervals"][behavior][kind] for r in records])
        inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        width = float(((ends[:, 1] - ends[:, 0]) / truth).mean())
        out[kind] = {"coverage": float(inside.mean()), "width": width}
    return out


def _column(records: Sequence[dict[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([r[name] for r in records], dtype=np.float64)


def _estimates(
    records: Sequence[dict[str, Any]], behavior: str, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pairs = np.array([r["estimates"][behavior][name] for r in records], dtype=np.float64)
    return pairs[:, 0], pairs[:, 1]
