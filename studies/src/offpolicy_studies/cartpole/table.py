"""Table 1: mean squared error with its standard error, bias, variance and coverage, as JSON and Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError
from offpolicy_studies.cartpole import store
from offpolicy_studies.cartpole.estimates import BEHAVIORS, ROWS
from offpolicy_studies.cartpole.settings import EPSILONS
from offpolicy_studies.folder import read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy_studies.cartpole.blocks import Cell
    from offpolicy_studies.cartpole.study import Args

#: Table 1 of the paper: MSE and its standard error by ε.
PAPER = {
    "DM": [(19.60, 1.96), (23.32, 2.26), (22.32, 2.49), (20.51, 1.71), (25.64, 2.22), (28.01, 2.54)],
    "IPW": [(300.71, 90.92), (201.17, 66.55), (215.15, 53.47), (131.44, 47.14), (170.31, 53.02),
            (100.93, 33.2)],
    "DR-full": [(32.03, 6.63), (27.43, 6.28), (23.25, 4.09), (16.00, 2.47), (14.44, 2.43),
                (12.63, 1.98)],
    "DR-half": [(8.7, 1.31), (12.18, 1.72), (11.84, 1.38), (9.5, 1.15), (12.53, 1.35), (13.47, 1.73)],
    "DML": [(5.31, 0.7), (6.82, 0.74), (6.47, 0.83), (7.07, 0.79), (9.69, 1.01), (10.52, 1.22)],
}  # fmt: skip
SHAPE = "bias / standard deviation / coverage of the 95% intervals, normal and default"
TITLES = {
    "true": "π_b known",
    "state": "π_b by a network on the state (the paper's setting)",
    "state+target": "π_b by a network that also sees π_e(·|s)",
}


def performance(values: np.ndarray, low: np.ndarray, high: np.ndarray, truth: float) -> dict[str, float]:
    """Score replicated estimates against the truth.

    >>> got = performance(np.array([1.0, 3.0]), np.array([0.0, 2.5]), np.array([2.0, 3.5]), 2.0)
    >>> got["mse"], got["bias"], got["variance"], got["coverage"]
    (1.0, 0.0, 1.0, 0.5)
    """
    squared = (values - truth) ** 2
    n = len(values)
    return {
        "mse": float(squared.mean()),
        "mse_std_error": float(squared.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan"),
        "median_squared_error": float(np.median(squared)),
        "bias": float(values.mean() - truth),
        "variance": float(values.var()),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "replications": n,
    }


def summarize(out: Path, cells: list[Cell], options: Args, settings: dict[str, Any]) -> dict[str, Any]:
    """Gather a run's estimates into one JSON-ready summary."""
    truth = json.loads((out / f"truth-{options.policy}.json").read_text(encoding="utf-8"))
    cell_summaries = []
    for cell in cells:
        name = store.cell_name(cell.policy, cell.epsilon, cell.folds)
        # Workers finish in any order, and two runs in one folder may both have added a line.
        done = {line["replication"]: line for line in read_lines(store.estimates_path(out, name))}
        lines = [done[r] for r in sorted(done) if r < options.replications]
        if not lines:
            raise DataError(f"{out} has no estimates for {name}. Run the stage 'all' first.")
        cell_summaries.append(
            {
                "name": name,
                "epsilon": cell.epsilon,
                "folds": cell.folds,
                "tables": {kind: _scores(lines, kind, truth["value"]) for kind in BEHAVIORS},
                "diagnostics": _diagnostics([line["diagnostics"] for line in lines]),
            }
        )
    return {
        "schema": "offpolicy/cartpole/1",
        "policy": options.policy,
        "truth": truth,
        "trajectories": options.trajectories,
        "seed": options.seed,
        "settings": settings,
        "cells": cell_summaries,
        "timing": [{k: v for k, v in line.items() if k != "curve"} for line in read_lines(out / "timing.jsonl")],
        "runs": read_lines(out / "runs.jsonl"),
    }


def _scores(lines: list[Any], kind: str, truth: float) -> dict[str, dict[str, float]]:
    out = {}
    for row in (*ROWS, "DRL"):
        got = [line["estimates"][kind][row] for line in lines if row in line["estimates"][kind]]
        if not got:
            continue
        column = {key: np.array([g[key] for g in got]) for key in got[0]}
        out[row] = performance(column["value"], column["low"], column["high"], truth)
        inside = (column["auto_low"] <= truth) & (truth <= column["auto_high"])
        out[row]["auto_coverage"] = float(inside.mean())
    return out


def _diagnostics(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Average over data sets; of the weights also the largest and the median."""
    out: dict[str, Any] = {}
    for kind in BEHAVIORS:
        each = [f[kind] for f in found]
        out[kind] = {key: float(np.mean([e[key] for e in each])) for key in ("log_loss", "agreement", "effective")}
        out[kind]["median_mean_weight"] = float(np.median([e["mean_weight"] for e in each]))
        out[kind]["largest_weight"] = float(np.max([e["largest_weight"] for e in each]))
    for name in ("q_full", "q_cross", "q_mrdr_cross"):
        out[name] = {key: float(np.mean([f[name][key] for f in found])) for key in ("bias", "rmse")}
    for name in ("q_spread", "logged_value", "clean_episodes"):
        out[name] = float(np.mean([f[name] for f in found]))
    return out


def number(value: float) -> str:
    """Print a mean squared error legibly whatever its size.

    >>> number(5.314), number(300.7), number(1.2e11), number(float("inf"))
    ('5.31', '300.7', '1.2e+11', 'inf')
    """
    if not np.isfinite(value):
        return str(value)
    if abs(value) >= 1e4:
        return f"{value:.1e}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def markdown(summary: dict[str, Any]) -> str:
    """Print the summary: one table of errors per way of knowing π_b, then bias, coverage, nuisances."""
    truth, cells = summary["truth"], summary["cells"]
    caption = (
        f"Evaluation policy ({summary['policy']}): value {truth['value']:.2f} "
        f"(standard error {truth['std_error']:.2f}, {truth['rollouts']:,} roll-outs), standard deviation "
        f"of an episode {truth['std']:.1f}, longest {truth['longest']:.0f}, "
        f"{100 * truth['at_cap']:.1f}% reach the cap. {summary['trajectories']} episodes per data set, "
        f"{cells[0]['tables']['true']['DM']['replications']} data sets per column, "
        f"{cells[0]['folds']} folds."
    )
    lines = [caption, ""]
    head = "| | " + " | ".join(f"ε = {c['epsilon']:g}" for c in cells) + " |"
    rule = "|---|" + "---:|" * len(cells)
    for kind in BEHAVIORS:
        lines += [f"### {TITLES[kind]}", "", "MSE (standard error)", "", head, rule]
        rows = list(cells[0]["tables"][kind])
        lines += [_row(row, cells, kind, _mse) for row in rows]
        lines += ["", "median squared error", "", head, rule]
        lines += [_row(row, cells, kind, _median) for row in rows]
        lines += ["", SHAPE]
        lines += ["", head, rule, *(_row(row, cells, kind, _shape) for row in rows)]
        lines.append("")
    lines += _paper(cells, head, rule)
    lines += ["### Nuisances out of fold", "", head, rule, *_nuisances(cells), ""]
    return "\n".join(lines)


def _paper(cells: list[Any], head: str, rule: str) -> list[str]:
    """Return the paper's own numbers for the same columns, when all of them are the paper's."""
    places = [EPSILONS.index(c["epsilon"]) for c in cells if c["epsilon"] in EPSILONS]
    if len(places) < len(cells):
        return []
    rows = [
        f"| {name} | " + " | ".join(f"{got[k][0]:.2f} ({got[k][1]:.2f})" for k in places) + " |"
        for name, got in PAPER.items()
    ]
    return ["### The paper's Table 1 (its policy's value is not given)", "", head, rule, *rows, ""]


def _row(row: str, cells: list[Any], kind: str, show: Any) -> str:
    return f"| {row} | " + " | ".join(show(c["tables"][kind][row]) for c in cells) + " |"


def _mse(score: dict[str, float]) -> str:
    return f"{number(score['mse'])} ({number(score['mse_std_error'])})"


def _median(score: dict[str, float]) -> str:
    return number(score["median_squared_error"])


def _shape(score: dict[str, float]) -> str:
    spread = number(score["variance"] ** 0.5)
    covered = f"{_share(score['coverage'])} {_share(score['auto_coverage'])}"
    return f"{number(score['bias'])} / {spread} / {covered}"


def _share(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _nuisances(cells: list[Any]) -> list[str]:
    def row(title: str, value: Any) -> str:
        return f"| {title} | " + " | ".join(value(c["diagnostics"]) for c in cells) + " |"

    lines = []
    for kind in BEHAVIORS:
        lines += [
            row(f"log-loss, {kind}", lambda d, k=kind: f"{d[k]['log_loss']:.3f}"),
            row(f"agreement with π_e, {kind}", lambda d, k=kind: f"{d[k]['agreement']:.3f}"),
            row(f"mean weight (median), {kind}", lambda d, k=kind: number(d[k]["median_mean_weight"])),
            row(f"largest weight, {kind}", lambda d, k=kind: number(d[k]["largest_weight"])),
            row(f"effective episodes, {kind}", lambda d, k=kind: f"{d[k]['effective']:.1f}"),
        ]
    return [
        *lines,
        row("q̂ against roll-outs: bias", lambda d: f"{d['q_cross']['bias']:.2f}"),
        row("q̂ against roll-outs: RMSE", lambda d: f"{d['q_cross']['rmse']:.2f}"),
        row("spread of q over logged steps", lambda d: f"{d['q_spread']:.2f}"),
        row("episodes without a deviation", lambda d: f"{d['clean_episodes']:.2f}"),
        row("value of the behavior policy", lambda d: f"{d['logged_value']:.2f}"),
    ]
