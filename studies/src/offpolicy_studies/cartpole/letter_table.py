"""The letter's table as JSON and Markdown, and what the paper's own pairs (MSE, s.e.) say about bias and spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import paper_pairs
from offpolicy_studies.cartpole.plain_scores import errors, scores
from offpolicy_studies.cartpole.table import number
from offpolicy_studies.cartpole.ways import FIVE, LOGGED, ROWS, TITLES, WAYS
from offpolicy_studies.paired import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy_studies.cartpole.plain_store import Request


def summarize(columns: Sequence[tuple[Request, list[dict[str, Any]]]], truth: dict[str, Any]) -> dict[str, Any]:
    """Return every column's scores for every way of knowing π_b."""
    cells = []
    for request, lines in columns:
        if not lines:
            continue
        value = request.values[-1]
        cells.append(
            {
                "epsilon": request.cell.epsilon,
                "replications": len(lines),
                "ways": {way: scores(lines, value, way, truth["value"]) for way in WAYS},
            }
        )
    return {
        "schema": "offpolicy/cartpole-letter/1",
        "truth": truth,
        "cells": cells,
        "pooled": _pooled(columns, truth["value"]),
    }


def _pooled(
    columns: Sequence[tuple[Request, list[dict[str, Any]]]], truth: float
) -> dict[str, dict[str, dict[str, float]]]:
    """Return DML's paired tests over the data sets of all columns, for each way of knowing π_b."""
    out = {}
    for way in WAYS:
        found = [errors(lines, r.values[-1], way, truth) for r, lines in columns if lines]
        joined = {name: np.concatenate([e[name] for e in found]) for name in FIVE} if found else {}
        out[way] = {name: compare(error, joined["DML"]) for name, error in joined.items() if name != "DML"}
    return out


def markdown(summary: dict[str, Any]) -> str:
    """Print errors, then bias and spread, then tests and diagnostics, for each way of knowing π_b."""
    truth, cells = summary["truth"], summary["cells"]
    if not cells:
        return "No data set has been estimated yet.\n"
    head = "| | " + " | ".join(f"ε = {c['epsilon']:g}" for c in cells) + " |"
    rule = "|---|" + "---:|" * len(cells)
    gaps = ", ".join(f"{c['ways'][WAYS[0]]['value_minus_logged']:.2f}" for c in cells)
    caption = (
        f"Evaluation policy: value {truth['value']:.2f} (standard error {truth['std_error']:.2f}, "
        f"{truth['rollouts']:,} roll-outs), standard deviation of an episode {truth['std']:.1f}. "
        f"V_e − V_b by column: {gaps}. Data sets per column: {cells[0]['replications']}."
    )
    lines = [caption, ""]
    for way in WAYS:
        lines += [f"### {TITLES[way]}", "", "MSE (standard error)", "", head, rule]
        lines += [_row(name, cells, way, _mse) for name in (*ROWS, LOGGED)]
        lines += ["", "bias / standard deviation; at the end DML against DR-full and the networks", ""]
        lines += [head, rule, *(_row(name, cells, way, _shape) for name in (*ROWS, LOGGED))]
        lines += _facts(cells, way)
        lines.append("")
    lines += [
        "### DML against its rivals, all columns together",
        "",
        *_against(summary["pooled"]),
        "",
        "### The paper's pairs as bias / standard deviation (our inference)",
        "",
        paper_pairs.markdown(),
    ]
    return "\n".join(lines)


def _against(pooled: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Print the difference of mean squared errors and its p-value, by way of knowing π_b."""
    rivals = [name for name in FIVE if name != "DML"]
    return [
        "| MSE − DML's, p | " + " | ".join(rivals) + " |",
        "|---|" + "---:|" * len(rivals),
        *(f"| {way} | " + " | ".join(_test(tests[name]) for name in rivals) + " |" for way, tests in pooled.items()),
    ]


def _row(name: str, cells: list[Any], way: str, show: Any) -> str:
    return f"| {name} | " + " | ".join(show(c["ways"][way]["rows"][name]) for c in cells) + " |"


def _mse(row: dict[str, float]) -> str:
    return f"{number(row['mse'])} ({number(row['mse_std_error'])})"


def _shape(row: dict[str, float]) -> str:
    return f"{number(row['bias'])} / {number(row['sd'])}"


def _facts(cells: list[Any], way: str) -> list[str]:
    def line(title: str, value: Any) -> str:
        return f"| {title} | " + " | ".join(value(c["ways"][way]) for c in cells) + " |"

    return [
        line("MSE of DR-full − DML, p", lambda s: _test(s["tests"]["DR-full"])),
        line("mean of DR-full − DML (s.e.)", lambda s: "{} ({})".format(*map(number, s["over_fitting"]))),
        line("MSE of DR-half − DML, p", lambda s: _test(s["tests"]["DR-half"])),
        line("log-loss of π̂_b, in sample / out", lambda s: f"{s['log_loss_in']:.3f} / {s['log_loss_out']:.3f}"),
        line("mean weight (median), effective episodes", lambda s: f"{number(s['mean_weight'])}, {s['effective']:.0f}"),
        line("squared residual of q̂, in sample over out", lambda s: f"{s['residual_in_over_out']:.2f}"),
    ]  # fmt: skip


def _test(test: dict[str, float]) -> str:
    return f"{number(test['difference'])}, {test['p_value']:.2g}"
