"""The letter's table as JSON and Markdown, and what the paper's own pairs (MSE, s.e.) say about bias and spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy_studies.cartpole import paper_pairs
from offpolicy_studies.cartpole.plain_scores import scores
from offpolicy_studies.cartpole.table import number
from offpolicy_studies.cartpole.ways import LOGGED, ROWS, TITLES, WAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy_studies.cartpole.plain_store import Request


def summarize(
    columns: Sequence[tuple[Request, list[dict[str, Any]]]], truth: dict[str, Any]
) -> dict[str, Any]:
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
    return {"schema": "offpolicy/cartpole-letter/1", "truth": truth, "cells": cells}


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
        lines += [
            "",
            "bias / standard deviation; at the end DML against DR-full and the networks",
            "",
        ]
        lines += [head, rule, *(_row(name, cells, way, _shape) for name in (*ROWS, LOGGED))]
        lines += _facts(cells, way)
        lines.append("")
    lines += [
        "### The paper's pairs as bias / standard deviation (our inference)",
        "",
        paper_pairs.markdown(),
    ]
    return "\n".join(lines)


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
