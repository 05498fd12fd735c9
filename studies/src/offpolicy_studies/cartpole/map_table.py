"""The CartPole map as JSON and Markdown: order of the estimators, DML against the best, bias and spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import ways
from offpolicy_studies.cartpole.plain_scores import errors, scores
from offpolicy_studies.cartpole.table import number
from offpolicy_studies.cartpole.ways import FIVE, LOGGED
from offpolicy_studies.paired import compare, parts, shift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy_studies.cartpole.plain_store import Request

WAYS = (ways.TRUE, ways.SHARES, ways.TARGET, ways.NINE, ways.SATURATED)


def summarize(
    columns: Sequence[tuple[Request, list[dict[str, Any]]]], truths: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return one entry for each policy, ε, q̂, number of steps and way of knowing π_b."""
    cells = [
        {
            "policy": request.cell.policy,
            "value": truths[request.cell.policy]["value"],
            "epsilon": request.cell.epsilon,
            **_kind(value),
            "way": way,
            "replications": len(lines),
            **scores(lines, value, way, truths[request.cell.policy]["value"]),
        }
        for request, lines in columns
        if lines
        for value in request.values
        for way in WAYS
    ]
    best = {
        request.name: sorted(int(s) for line in lines for s in line.get("best_step", [])) for request, lines in columns
    }
    return {
        "schema": "offpolicy/cartpole-map/1",
        "truths": truths,
        "cells": cells,
        "pooled": _pooled(columns, truths),
        # Quartiles of the step at which careful q̂ was best on its validation part.
        "careful_best_step": {
            name: [steps[round(q * (len(steps) - 1))] for q in (0.25, 0.5, 0.75, 1)]
            for name, steps in best.items()
            if steps
        },
    }


def _kind(value: str) -> dict[str, Any]:
    """Return what a name of q̂ in the arrays says.

    >>> _kind("careful500"), _kind("q2000")
    ({'q': 'careful', 'steps': 500}, {'q': 'plain', 'steps': 2000})
    """
    careful = value.startswith("careful")
    steps = int(value.removeprefix("careful").removeprefix("q"))
    return {"q": "careful" if careful else "plain", "steps": steps}


def _pooled(
    columns: Sequence[tuple[Request, list[dict[str, Any]]]], truths: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Test DR-full against DML over all policies and ε, errors relative to the policy's value.

    Data sets of different policies or ε share no random numbers.
    """
    out = []
    for value in dict.fromkeys(v for request, lines in columns if lines for v in request.values):
        own = [
            (lines, truths[request.cell.policy]["value"])
            for request, lines in columns
            if lines and value in request.values
        ]
        for way in WAYS:
            found = [(errors(lines, value, way, truth), truth) for lines, truth in own]
            full, dml = (np.concatenate([e[name] / truth for e, truth in found]) for name in ("DR-full", "DML"))
            tests = {"against_full": compare(full, dml), "parts": parts(full, dml)}
            facts = {"way": way, "data_sets": len(full), "over_fitting": shift(full, dml)}
            out.append({**_kind(value), **facts, **tests, "sd": float(dml.std())})
    return out


def markdown(summary: dict[str, Any]) -> str:
    """Return one line for each cell of the map."""
    head = ["value", "ε", "q̂", "steps", "π_b", *FIVE, LOGGED, "order", "DML / best",
            "bias / sd of DML", "bias / sd of DR-full", "MSE of DR-full − DML, p",
            "of which bias, variance", "mean of DR-full − DML (s.e.)", "residual of q̂ in / out"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 5 + "---:|" * 6 + "---|" + "---:|" * 7]
    for cell in summary["cells"]:
        rows = cell["rows"]
        best = cell["order"][0]
        mse = [f"**{number(rows[n]['mse'])}**" if n == best else number(rows[n]["mse"]) for n in (*FIVE, LOGGED)]
        test = cell["tests"]["DR-full"]
        shape = [f"{number(rows[n]['bias'])} / {number(rows[n]['sd'])}" for n in ("DML", "DR-full")]
        entries = [
            f"{cell['value']:.0f}", f"{cell['epsilon']:g}", cell["q"], f"{cell['steps']:,}", cell["way"],
            *mse, " < ".join(cell["order"]), number(cell["dml_over_best"]), *shape,
            f"{number(test['difference'])}, {test['p_value']:.2g}",
            f"{number(cell['parts']['bias'])}, {number(cell['parts']['variance'])}",
            "{} ({})".format(*(number(x) for x in cell["over_fitting"])),
            f"{cell['residual_in_over_out']:.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(entries) + " |")
    lines += ["", "All policies and ε together, errors in percent of the policy's value:", ""]
    return "\n".join([*lines, *_together(summary["pooled"])]) + "\n"


def _together(groups: list[dict[str, Any]]) -> list[str]:
    head = ["q̂", "steps", "π_b", "data sets", "mean of DR-full − DML (s.e.)", "sd of DML",
            "MSE of DR-full − DML", "of which bias, variance", "p", "signed-rank p", "ranks for DML"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 3 + "---:|" * 8]
    for group in groups:
        test, (gap, gap_error) = group["against_full"], group["over_fitting"]
        percent = (group["parts"]["bias"], group["parts"]["variance"])
        entries = [
            group["q"], f"{group['steps']:,}", group["way"], str(group["data_sets"]),
            f"{number(100 * gap)} ({number(100 * gap_error)})", number(100 * group["sd"]),
            number(1e4 * test["difference"]), ", ".join(number(1e4 * x) for x in percent),
            f"{test['p_value']:.2g}", f"{test['signed_rank']:.2g}", f"{test['ranks']:+.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(entries) + " |")
    return lines
