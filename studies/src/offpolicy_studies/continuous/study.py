"""`offpolicy reproduce continuous`: actions that are numbers, with bandwidths chosen and given.

First, with ``bandwidth="auto"``: errors, and how often intervals hold the value of the policy itself (not of the
smoothed one), its difference to another policy and to the log, and its lift. Second, over given bandwidths in the
synthetic world: bias, error and coverage of kernel IPS, of kernel DR as the Open Bandit Pipeline computes it, and of
this library's DML, and how often the check of the window speaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.continuous.world import WORLDS, logged, truths
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, root_mean_square, share, simulate
from offpolicy_studies.names import chosen

if TYPE_CHECKING:
    from offpolicy_studies.continuous.world import Logged

ESTIMATORS = ("auto", "DML", "SNIPW", "IPW")
BANDWIDTHS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
SINGLE = "synthetic"
SPEAK = ("`smoothing_bias` speaks", "`break_at_policy`", "checks of the log")
OF_LOG = ("balance", "sample_ratio_mismatch", "duplicates")


@dataclass(frozen=True)
class Args:
    """Options of the study of continuous actions."""

    worlds: tuple[str, ...] = ()
    """Worlds, by name or the beginning of one; default: all."""
    sizes: tuple[int, ...] = (500, 2000)
    """Rows of each log."""
    replications: int = 200
    """Logs of each world and size."""
    curves: int = 100
    """Logs of the synthetic world over the grid of bandwidths; 0 leaves it out."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """A world, a size, and whether densities are known."""

    world: str
    n: int
    known: bool = True


truth_of = cache(truths)


def as_log(data: Logged, world: str, *, known: bool = True) -> op.BanditLog:
    """What was drawn, as a log."""
    return op.BanditLog.from_arrays(
        data.context,
        data.action,
        data.reward,
        data.density if known else None,
        action_kind="continuous",
        actions=WORLDS[world].span,
    )


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log by every estimator: errors, and what the intervals hold."""
    data, world, truth = logged(cell.world, cell.n, rng), WORLDS[cell.world], truth_of(cell.world)
    ev = op.evaluate(
        as_log(data, cell.world, known=cell.known),
        dict(world.policies),
        estimators=ESTIMATORS,
        reward_model=op.models.SplineReward(),
        seed=int(rng.integers(2**31)),
        randomized=not cell.known,
    )
    first, second = world.policies
    found: dict[str, Any] = {"estimates": {}}
    for name in ESTIMATORS:
        e = ev[first, name]
        sizes = {
            "value": (e, truth[first]),
            "difference": (e - ev[second, name], truth[first] - truth[second]),
            "to the log": (e - ev.logged, truth[first] - truth["logged"]),
        }
        if abs(truth["logged"]) > 0.05:
            sizes["lift"] = (e.lift(ev.logged), (truth[first] - truth["logged"]) / abs(truth["logged"]))
        found["estimates"][name] = {
            "error": e.value - truth[first],
            "allowance": e.allowance / e.std_error,
            **{what: _held(estimate, value) for what, (estimate, value) in sizes.items()},
        }
    found["bandwidth"] = ev.settings["bandwidths"][first]
    found["alone"] = ev.settings["bandwidths_without_model"][first]
    found["verdict"] = ev.verdict(first).level
    found["said"] = ev.diagnostics[first, "smoothing_bias"].level in {"caution", "alarm"}
    found["break"] = ev.diagnostics[first, "break_at_policy"].level in {"caution", "alarm"}
    found["log"] = any(f.level in {"caution", "alarm"} for f in (ev.diagnostics[n] for n in OF_LOG))
    found["weight"] = ev.diagnostics[first, "mean_weight"].level in {"caution", "alarm"}
    return found


def _held(estimate: op.Estimate, truth: float) -> list[Any]:
    """Whether there is an interval, whether it holds the truth, its length, and whether it would without allowance."""
    interval = estimate.interval()
    room = estimate.allowance
    bare = interval.low + room <= truth <= interval.high - room
    return [interval.sufficient, interval.covers(truth), interval.width, bool(bare)]


def by_bandwidth(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log at every bandwidth of the grid."""
    data, world, truth = logged(cell.world, cell.n, rng), WORLDS[cell.world], truth_of(cell.world)
    first = next(iter(world.policies))
    log, seed = as_log(data, cell.world), int(rng.integers(2**31))
    out: dict[str, Any] = {}
    for h in BANDWIDTHS:
        ev = op.evaluate(
            log,
            {first: world.policies[first]},
            estimators=["IPW", "DML"],
            reward_model=op.models.SplineReward(),
            ratio=op.KernelRatio(h),
            seed=seed,
        )
        direct = ev.problem.decisions(ev.targets[first], ev.estimators[1])
        # The Open Bandit Pipeline's array of predictions, at the policy's number, serves both places.
        peer = float((direct.v + direct.ratio * (data.reward - direct.v)).mean())
        out[f"{h:g}"] = {
            "IPW": [ev[first, "IPW"].value - truth[first], *_held(ev[first, "IPW"], truth[first])],
            "DML": [ev[first, "DML"].value - truth[first], *_held(ev[first, "DML"], truth[first])],
            "OBP DR": [peer - truth[first]],
            "said": ev.diagnostics[first, "smoothing_bias"].level in {"caution", "alarm"},
            "said of IPW": _said_of_ipw(log, world.policies[first], h),
        }
    return out


def _said_of_ipw(log: op.BanditLog, policy: Any, h: float) -> bool:
    ev = op.evaluate(log, {"p": policy}, estimators=["IPW"], ratio=op.KernelRatio(h))
    return ev.diagnostics["p", "smoothing_bias"].level in {"caution", "alarm"}


def reproduce(options: Args) -> dict[str, Any]:
    """Run all worlds and the grid of bandwidths."""
    cells = {f"{name}, n = {n:,}": Cell(name, n) for name in chosen(options.worlds, WORLDS) for n in options.sizes}
    cells |= {f"{SINGLE}, n = {n:,}, densities fitted": Cell(SINGLE, n, known=False) for n in options.sizes}
    out = None if options.out is None else options.out
    drawn = simulate(
        replicate,
        cells,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if out is None else out / "replications.jsonl",
        title="continuous actions",
    )
    result: dict[str, Any] = {
        "options": {"replications": options.replications, "curves": options.curves, "seed": options.seed},
        "cells": {name: summary(found) for name, found in drawn.items()},
    }
    if options.curves:
        curves = simulate(
            by_bandwidth,
            {SINGLE: Cell(SINGLE, 2000)},
            options.curves,
            seed=options.seed,
            workers=options.workers,
            out=None if out is None else out / "bandwidths.jsonl",
            title="bandwidths",
        )[SINGLE]
        result["bandwidths"] = {f"{h:g}": _curve([c[f"{h:g}"] for c in curves]) for h in BANDWIDTHS}
    write_results(options.out, result, show(result))
    return result


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Averages over the logs of one cell."""
    table = {}
    for name in ESTIMATORS:
        rows = [f["estimates"][name] for f in found]
        table[name] = {
            "bias": mean(np.array([r["error"] for r in rows])),
            "rmse": root_mean_square(np.array([r["error"] for r in rows])),
            "allowance": float(np.mean([r["allowance"] for r in rows])),
            **{
                what: coverage([r[what] for r in rows])
                for what in ("value", "difference", "to the log", "lift")
                if what in rows[0]
            },
        }
    return {
        "estimates": table,
        "bandwidth": float(np.median([f["bandwidth"] for f in found])),
        "alone": float(np.median([f["alone"] for f in found])),
        "verdicts": {
            level: float(np.mean([f["verdict"] == level for f in found]))
            for level in ("trust", "caution", "insufficient evidence")
        },
        "smoothing_bias": share(np.array([f["said"] for f in found])),
        "mean_weight": share(np.array([f["weight"] for f in found])),
        "break": share(np.array([f["break"] for f in found])),
        "log": share(np.array([f["log"] for f in found])),
    }


def coverage(rows: list[list[Any]]) -> dict[str, Any]:
    """Answered, covered among answered, median length, and covered if nothing were allowed for."""
    answered = [r for r in rows if r[0]]
    return {
        "answered": len(answered) / len(rows),
        "covered": share(np.array([r[1] for r in answered])),
        "length": float(np.median([r[2] for r in answered])) if answered else None,
        "without": share(np.array([r[3] for r in answered])),
    }


def _curve(rows: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("IPW", "OBP DR", "DML"):
        errors = np.array([r[name][0] for r in rows])
        out[name] = {"bias": mean(errors), "rmse": root_mean_square(errors)}
        if len(rows[0][name]) > 1:
            out[name] |= coverage([r[name][1:] for r in rows])
    out["smoothing_bias"] = {
        "DML": share(np.array([r["said"] for r in rows])),
        "IPW": share(np.array([r["said of IPW"] for r in rows])),
    }
    return out


def show(result: dict[str, Any]) -> str:
    """Both tables in Markdown."""
    lines = [
        "| world | estimator | bias | RMSE | value | difference | to the log | lift | allowance | without it |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, cell in result["cells"].items():
        for estimator, row in cell["estimates"].items():
            held = [_percent(row.get(what)) for what in ("value", "difference", "to the log", "lift")]
            lines.append(
                f"| {name} | {estimator} | {row['bias'][0]:+.3f} | {row['rmse'][0]:.3f} | {' | '.join(held)} | "
                f"{row['allowance']:.2f} | {100 * row['value']['without'][0]:.0f}% |"
            )
    lines += ["", *_verdicts(result)]
    if "bandwidths" in result:
        lines += ["", *_bandwidths(result["bandwidths"])]
    return "\n".join(lines) + "\n"


def _percent(held: dict[str, Any] | None) -> str:
    if held is None:
        return "–"
    text = f"{100 * held['covered'][0]:.1f}%"
    return text if held["answered"] > 0.995 else f"{text} of {100 * held['answered']:.0f}%"


def _verdicts(result: dict[str, Any]) -> list[str]:
    lines = [
        f"| world | bandwidth with a model | without | trust | caution | insufficient | {' | '.join(SPEAK)} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, cell in result["cells"].items():
        shares = " | ".join(f"{100 * s:.0f}%" for s in cell["verdicts"].values())
        lines.append(
            f"| {name} | {cell['bandwidth']:.2g} | {cell['alone']:.2g} | {shares} | "
            f"{100 * cell['smoothing_bias'][0]:.0f}% | {100 * cell['break'][0]:.0f}% | "
            f"{100 * cell['log'][0]:.0f}% |"
        )
    return lines


def _bandwidths(curves: dict[str, Any]) -> list[str]:
    lines = [
        "| h | IPW bias | RMSE | covered | OBP's DR bias | RMSE | DML bias | RMSE | covered | bare | said: IPW, DML |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for h, row in curves.items():
        ipw, peer, dml = row["IPW"], row["OBP DR"], row["DML"]
        said = row["smoothing_bias"]
        lines.append(
            f"| {h} | {ipw['bias'][0]:+.3f} | {ipw['rmse'][0]:.3f} | {_percent(ipw)} | {peer['bias'][0]:+.3f} | "
            f"{peer['rmse'][0]:.3f} | {dml['bias'][0]:+.3f} | {dml['rmse'][0]:.3f} | {_percent(dml)} | "
            f"{100 * dml['without'][0]:.0f}% | {100 * said['IPW'][0]:.0f}%, {100 * said['DML'][0]:.0f}% |"
        )
    return lines
