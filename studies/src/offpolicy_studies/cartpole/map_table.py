"""The CartPole map as JSON and Markdown: order of the estimators, DML against the best, bias and spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy_studies.cartpole import ways
from offpolicy_studies.cartpole.plain_scores import scores
from offpolicy_studies.cartpole.table import number
from offpolicy_studies.cartpole.ways import FIVE, LOGGED

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
            "q": "careful" if value.startswith("careful") else "plain",
            "steps": int(value.removeprefix("careful").removeprefix("q")),
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
        request.name: sorted(int(s) for line in lines for s in line.get("best_step", []))
        for request, lines in columns
    }
    return {
        "schema": "offpolicy/cartpole-map/1",
        "truths": truths,
        "cells": cells,
        # Quartiles of the step at which careful q̂ was best on its validation part.
        "careful_best_step": {
            name: [steps[round(q * (len(steps) - 1))] for q in (0.25, 0.5, 0.75, 1)]
            for name, steps in best.items()
            if steps
        },
    }


def markdown(summary: dict[str, Any]) -> str:
    """Return one line for each cell of the map."""
    head = ["value", "ε", "q̂", "steps", "π_b", *FIVE, LOGGED, "order", "DML / best",
            "bias / sd of DML", "bias / sd of DR-full", "MSE of DR-full − DML, p",
            "mean of DR-full − DML (s.e.)", "residual of q̂ in / out"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * 5 + "---:|" * 6 + "---|" + "---:|" * 6]
    for cell in summary["cells"]:
        rows = cell["rows"]
        best = cell["order"][0]
        mse = [
            f"**{number(rows[n]['mse'])}**" if n == best else number(rows[n]["mse"])
            for n in (*FIVE, LOGGED)
        ]
        test = cell["tests"]["DR-full"]
        shape = [f"{number(rows[n]['bias'])} / {number(rows[n]['sd'])}" for n in ("DML", "DR-full")]
        entries = [
            f"{cell['value']:.0f}", f"{cell['epsilon']:g}", cell["q"], f"{cell['steps']:,}", cell["way"],
            *mse, " < ".join(cell["order"]), number(cell["dml_over_best"]), *shape,
            f"{number(test['difference'])}, {test['p_value']:.2g}",
            "{} ({})".format(*(number(x) for x in cell["over_fitting"])),
            f"{cell['residual_in_over_out']:.2f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(entries) + " |")
    return "\n".join(lines) + "\n"
