"""`offpolicy reproduce delta-ope`: is one learned policy better than another, in the world of Δ-OPE (RecSys 2024)?

Logs of softmax(β q) over 5, 10 and 15 actions, and two policies that a logistic regression and a random forest learned
from other rows (the world is the bench's, `offpolicy_bench.tasks.paired`; actions of the log and of the training rows
share no random numbers). Asked for is the difference of the two values. Each log is given twice, with the whole logging
distribution and with the propensity of the logged action alone, and answered by `auto` at its defaults. Beside it
stands the published estimator, Δβ-IPS: the difference of weighted rewards, less its regression on the difference of
weights, with a normal interval.

Reported: how often the 95% interval covers, its width, the normal interval's width by the same standard error, power
(0 outside, on the right side) and its paired difference to that of Δβ-IPS, and how many logs are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import Z, mean, share, simulate

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats

ACTIONS = (5, 10, 15)
GIVEN = ("whole", "alone")


@dataclass(frozen=True)
class Args:
    """Options of the study of differences of learned policies."""

    replications: int = 100
    """Worlds of each cell (β × number of actions × rows), one log each."""
    rows: tuple[int, ...] = (780, 3125)
    """Rows of a log."""
    betas: tuple[float, ...] = (1.0, 2.0, 4.0)
    """How steep the logging policy is."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


def delta_ips(first: Floats, second: Floats, reward: Floats) -> tuple[float, float]:
    """Δβ-IPS of two policies' weights, and its standard error (Jeunen and Ustimenko 2024).

    >>> value, error = delta_ips(np.array([2.0, 0.0, 2.0, 0.0]), np.array([0.0, 2.0, 0.0, 2.0]), np.ones(4))
    >>> value, error
    (0.0, 0.0)
    """
    gap = first - second
    earned, spread = gap * reward, float(gap.var())
    slope = float(((gap - gap.mean()) * earned).mean()) / spread if spread > 0 else 0.0
    left = earned - slope * gap
    return float(left.mean()), float(left.std(ddof=1) / np.sqrt(len(left)))


def replicate(cell: tuple[float, int, int], rng: np.random.Generator) -> dict[str, Any]:
    """One world and one log of it: the published answer, and ours with either kind of propensities."""
    try:
        from offpolicy_bench.tasks.paired import drawn
    except ImportError as missing:
        raise UsageError("delta-ope draws its worlds with the bench: pip install ./bench.") from missing
    beta, k, rows = cell
    log, truth = drawn(beta, k, rows, int(rng.integers(2**31)), rng)
    own = np.arange(rows)
    p = log["distribution"][own, log["action"]]
    weights = [log[name][own, log["action"]] / p for name in ("target", "baseline")]
    value, error = delta_ips(weights[0], weights[1], log["reward"])
    answer = {"truth": truth, "published": [value, error, value - Z * error, value + Z * error]}
    policies = {"a": log["target"], "b": log["baseline"]}
    for name, propensity in zip(GIVEN, (log["distribution"], p), strict=True):
        read = op.BanditLog.from_arrays(log["context"], log["action"], log["reward"], propensity, actions=range(k))
        ev = op.evaluate(read, policies, estimators=["auto"])
        d = ev["a", "auto"] - ev["b", "auto"]
        interval = d.interval()
        refused = not interval.sufficient or any(ev.verdict(x).level == "insufficient evidence" for x in policies)
        answer[name] = [d.value, d.std_error, interval.low, interval.high]
        answer[f"{name}_says"] = [interval.method, refused]
    return answer


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study: {"options", "cells": {(rows, β): numbers}}."""
    cells = {
        f"{rows} rows, β = {beta:g}, {k} actions": (beta, k, rows)
        for rows in options.rows
        for beta in options.betas
        for k in ACTIONS
    }
    found = simulate(
        replicate,
        cells,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"world": "paired"},
        title="differences of learned policies",
    )
    together: dict[str, list[dict[str, Any]]] = {}
    for rows in options.rows:
        for beta in options.betas:
            names = [f"{rows} rows, β = {beta:g}, {k} actions" for k in ACTIONS]
            together[f"{rows:,} rows, β = {beta:g}"] = [r for name in names for r in found[name]]
        together[f"{rows:,} rows, all"] = [
            r for name, kept in found.items() if name.startswith(f"{rows} rows") for r in kept
        ]
    answer = {
        "options": {"replications": options.replications, "seed": options.seed},
        "cells": {name: _numbers(rows) for name, rows in together.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    truth = np.array([r["truth"] for r in rows])
    out: dict[str, Any] = {"logs": len(rows)}
    found = {}
    for name in ("published", *GIVEN):
        value, error, low, high = np.array([r[name] for r in rows]).T
        found[name] = ((low > 0) | (high < 0)) & (np.sign(value) == np.sign(truth))
        out[name] = {
            "covers": share((low <= truth) & (truth <= high)),
            "width": mean(high - low),
            "normal": mean(2 * Z * error),
            "power": share(found[name]),
            "more_power": mean(found[name].astype(float) - found["published"]),
            "mse": mean((value - truth) ** 2),
        }
    for name in GIVEN:
        out[name]["refused"] = share(np.array([r[f"{name}_says"][1] for r in rows]))
    return out


def show(result: dict[str, Any]) -> str:
    """The table, in Markdown."""
    lines = [
        (
            "95% intervals of the difference of two learned policies; ± is one Monte Carlo error. Width / normal is "
            "the mean width over that of normal intervals by the same standard errors."
        ),
        "",
        "| logs | answer | covers | width | width / normal | power | power − Δβ-IPS | mean squared error | refused |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = {"published": "Δβ-IPS", "whole": "`auto`, π_b of all actions", "alone": "`auto`, π_b of the logged action"}
    for cell, w in result["cells"].items():
        for key, label in names.items():
            m = w[key]
            more = "" if key == "published" else f"{m['more_power'][0]:+.3f} ± {m['more_power'][1]:.3f}"
            refused = "" if key == "published" else f"{100 * m['refused'][0]:.1f}%"
            lines.append(
                f"| {cell} ({w['logs']}) | {label} | {m['covers'][0]:.3f} ± {m['covers'][1]:.3f} | "
                f"{m['width'][0]:.3f} | {m['width'][0] / m['normal'][0]:.2f} | {m['power'][0]:.3f} | {more} | "
                f"{m['mse'][0]:.2e} | {refused} |"
            )
    return "\n".join(lines) + "\n"
