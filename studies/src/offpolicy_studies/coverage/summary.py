"""Numbers of the battery from its replications, and the tables that show them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from offpolicy_studies.monte_carlo import Measured, mean, root_mean_square, share

REFUSAL = "insufficient evidence"
DEFAULT, METHOD = "auto", "auto"
TARGET, EASY_REFUSALS = 0.94, 0.05


def summarize(found: list[dict[str, Any]]) -> dict[str, Any]:
    """{estimator: numbers} of one world."""
    return {name: _estimator([r[name] for r in found]) for name in found[0]}


def _estimator(rows: list[dict[str, Any]]) -> dict[str, Any]:
    error = np.array([r["error"] for r in rows], dtype=np.float64)
    refused = np.array([r["level"] == REFUSAL for r in rows])
    defined = np.isfinite(error)
    kept = ~refused
    methods = list(dict.fromkeys(m for r in rows for m in r["intervals"]))
    spread = float(error[defined].std()) if defined.sum() > 1 else math.nan
    return {
        "bias": mean(error[defined]),
        "rmse": root_mean_square(error[defined]),
        "se_ratio": mean(np.array([r["se"] for r in rows])[defined]).value / spread if spread > 0 else math.nan,
        "refused": share(refused),
        "undefined": float(1 - defined.mean()),
        "caution": share(np.array([r["level"] == "caution" for r in rows])),
        "chosen": dict(Counter(r["chosen"] for r in rows if r["level"] != REFUSAL)),
        "intervals": {m: _method(rows, m, kept) for m in methods},
    }


def _method(rows: list[dict[str, Any]], method: str, kept: Any) -> dict[str, Any]:
    here = np.array([method in r["intervals"] for r in rows])
    pairs = np.array([r["intervals"].get(method, [math.nan, math.nan]) for r in rows])
    width = pairs[here, 1]
    return {
        "coverage": share(pairs[here, 0]),
        "kept_coverage": share(pairs[here & kept, 0]),
        "width": float(np.nanmedian(width)) if np.isfinite(width).any() else math.nan,
    }


def meets(world: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the default covers at least 94% where it answers, and answers in an easy world.

    A share below the target by less than two of its Monte Carlo errors is no evidence of a miss.
    """
    row = world["estimators"][DEFAULT]
    refused = Measured(*row["refused"])
    answers = not world["easy"] or refused.value <= EASY_REFUSALS
    if METHOD not in row["intervals"]:
        return True, answers
    covered = Measured(*row["intervals"][METHOD]["kept_coverage"])
    return math.isnan(covered.value) or covered.value >= TARGET - 2 * covered.error, answers


def markdown(worlds: dict[str, Any]) -> str:
    """The default in every world, then every cell."""
    alone = all(list(w["estimators"]) == [DEFAULT] for w in worlds.values())
    return "\n".join([*_default(worlds), *([] if alone else ["", *_every(worlds)])])


def _default(worlds: dict[str, Any]) -> list[str]:
    lines = [
        "The default: estimator, interval and verdict chosen automatically.",
        "",
        "| world | easy | bias | RMSE | covers (answered) | s.e. | width | refused | normal | DML normal |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, world in worlds.items():
        rows = world["estimators"]
        r = rows[DEFAULT]
        auto, plain = r["intervals"].get(METHOD), r["intervals"].get("normal")
        dml = rows.get("DML", r)["intervals"].get("normal")
        lines.append(
            f"| {name} | {'yes' if world['easy'] else ''} | {r['bias'][0]:+.4f} | {r['rmse'][0]:.4f} | "
            f"{_percent(auto, 'kept_coverage')} | {_error(auto)} | {_width(auto)} | "
            f"{r['refused'][0]:.1%} | {_percent(plain, 'coverage')} | {_percent(dml, 'coverage')} |"
        )
    judged = {name: meets(world) for name, world in worlds.items()}
    exact = [n for n, w in worlds.items() if _below(w)]
    missed = [n for n, (covers, _) in judged.items() if not covers]
    silent = [n for n, (_, answers) in judged.items() if not answers]
    said = (
        f"Below 94% among answered: {_names(exact)}. Below by more than two Monte Carlo errors: "
        f"{_names(missed)}. Easy worlds with more than 5% refused: {_names(silent)}."
    )
    return [*lines, "", said]


def _below(world: dict[str, Any]) -> bool:
    auto = world["estimators"][DEFAULT]["intervals"].get(METHOD)
    return auto is not None and auto["kept_coverage"][0] < TARGET


def _every(worlds: dict[str, Any]) -> list[str]:
    columns = (
        "world", "estimator", "bias", "s.e.", "RMSE", "s.e.", "s.e./spread", "refused", "interval", "covers",
        "answered", "s.e.", "width",
    )  # fmt: skip
    lines = ["Every cell.", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, world in worlds.items():
        for estimator, r in world["estimators"].items():
            head = (
                f"| {name} | {estimator} | {r['bias'][0]:+.4f} | {r['bias'][1]:.4f} | {r['rmse'][0]:.4f} | "
                f"{r['rmse'][1]:.4f} | {r['se_ratio']:.2f} | {r['refused'][0]:.1%} | "
            )
            lines += [
                f"{head}{method} | {_percent(m, 'coverage')} | {_percent(m, 'kept_coverage')} | "
                f"{_error(m)} | {_width(m)} |"
                for method, m in r["intervals"].items()
            ] or [f"{head}– | – | – | – | – |"]
    return lines


def _percent(row: dict[str, Any] | None, key: str) -> str:
    return "–" if row is None or math.isnan(row[key][0]) else f"{row[key][0]:.1%}"


def _error(row: dict[str, Any] | None) -> str:
    return "–" if row is None or math.isnan(row["kept_coverage"][1]) else f"{row['kept_coverage'][1]:.1%}"


def _width(row: dict[str, Any] | None) -> str:
    return "–" if row is None or math.isnan(row["width"]) else f"{row['width']:.3g}"


def _names(names: list[str]) -> str:
    return "; ".join(names) if names else "none"
