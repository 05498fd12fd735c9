"""`offpolicy reproduce episodes`: episodes as an RL researcher meets them, in worlds whose values are known.

FrozenLake 4×4 and 8×8, Taxi, CliffWalking and the cliff of Kallus and Uehara (2020), a sepsis-like clinic with near and
far targets, a linear-Gaussian chain and CartPole from its physical state; with logged propensities and with an
estimated logging policy. Everything by the defaults, beside importance sampling and fitted Q in plain numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies.episodes.baselines import fitted_q, importance_sampling
from offpolicy_studies.episodes.worlds import EVERY, WORLDS, problem
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, root_mean_square, share, simulate
from offpolicy_studies.names import chosen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy_studies.arrays import Array, Floats

PARTS = ("DML", "DRL", "WDR", "SNIPW")
LIBRARY = ("auto", *PARTS, "MAGIC", "DM")
PLAIN = ("IS", "WIS", "PDIS", "PDWIS", "fitted Q")
TRUE = "DRL, true ratios"
REFUSED = "insufficient evidence"
# Published root mean squared errors on the cliff with 1,000 episodes (Kallus and Uehara 2020).
PUBLISHED = {"IS": 6.14, "DM": 2.70, "DR": 0.820, "DRL": 0.754}


@dataclass(frozen=True)
class Args:
    """Options of the episode study."""

    replications: int = 200
    """Logs drawn from each world."""
    worlds: tuple[str, ...] = ()
    """Names of worlds (commas left out), or beginnings of names; when empty all but those beside the battery."""
    behavior: str = "both"
    """Whether propensities are known: known, estimated or both."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """A world by name, and whether its propensities are logged."""

    world: str
    known: bool


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log: what each estimator says of it, and whether the answer is given."""
    p = problem(cell.world)
    log = p.draw(EVERY[cell.world][1], rng, propensities=cell.known)
    # A value model of continuous states alone costs a third of a log; fitted Q in plain numpy stands for it.
    asked = [e for e in LIBRARY if e != "DM" or log.is_discrete]
    ev = op.evaluate(log, p.target, estimators=asked, seed=int(rng.integers(2**31)))
    out: dict[str, Any] = {name: [ev[name].value] for name in asked}
    for name in ("auto", "DRL"):
        e = ev[name]
        ends = e.interval(0.95)
        level = ev.verdict(estimator=name).level
        out[name] = [e.value, e.std_error, ends.low, ends.high, level]
    # Would a blend that may choose MAGIC be honest? Its normal interval says what its own standard error is worth.
    out["MAGIC"] = _normal(ev["MAGIC"])
    if p.ratios is not None:
        out[TRUE] = _with_true_ratios(ev, p.ratios(log))
    plain = {"fitted Q": fitted_q(log, p.target)}
    if cell.known:
        at = ev.problem.columns["pi_e", "policy"]
        plain |= importance_sampling(log, np.asarray(at))
    return out | {name: [value] for name, value in plain.items()}


def _with_true_ratios(ev: op.Evaluation, ratios: Floats) -> list[Any]:
    """The score of DRL with ratios that only the world knows, and its normal interval: is the question answerable?"""
    return _normal(ev.ask(ratio=ratios, estimators=["DRL"])["DRL"])


def _normal(e: op.Estimate) -> list[Any]:
    """An estimate with its normal interval, taken at its word."""
    ends = e.interval(0.95, method="normal")
    return [e.value, e.std_error, ends.low, ends.high, "trust"]


def cells(options: Args) -> dict[str, Cell]:
    """The cells asked for, by name."""
    if options.behavior not in {"known", "estimated", "both"}:
        raise UsageError(f"--behavior must be known, estimated or both. Got {options.behavior!r}.")
    kinds = {"known": [True], "estimated": [False], "both": [True, False]}[options.behavior]
    worlds = chosen(options.worlds, EVERY if options.worlds else WORLDS)
    return {f"{w}, π_b {'known' if known else 'estimated'}": Cell(w, known) for w in worlds for known in kinds}


def reproduce(options: Args) -> dict[str, Any]:
    """Run the worlds: {"options", "cells": {name: {"truth", "n", "estimators", …}}}."""
    asked = cells(options)
    runs = simulate(
        replicate,
        asked,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"study": "episodes"},
        title="episodes",
    )
    results = {
        "options": {"replications": options.replications, "seed": options.seed},
        "cells": {
            name: summarize(runs[name], problem(cell.world).truth, EVERY[cell.world][1]) for name, cell in asked.items()
        },
    }
    write_results(options.out, results, show(results))
    return results


def summarize(runs: list[Mapping[str, Any]], truth: float, n: int) -> dict[str, Any]:
    """Bias, error, coverage among answered and share refused, of each estimator."""
    estimators: dict[str, dict[str, float]] = {}
    for name in runs[0]:
        entries = [run[name] for run in runs]
        value = np.array([np.nan if e[0] is None else e[0] for e in entries], dtype=np.float64)
        error = value[np.isfinite(value)] - truth
        made: dict[str, float] = {
            "bias": mean(error).value,
            "rmse": root_mean_square(error).value,
            "median_error": float(np.median(np.abs(error))) if len(error) else np.nan,
            "undefined": int(len(value) - len(error)),
        }
        if all(len(e) > 1 for e in entries):
            made |= _honesty(entries, truth)
        estimators[name] = made
    made_of_all = {"truth": truth, "n": n, "logs": len(runs), "estimators": estimators}
    if TRUE in runs[0]:
        able = _covers([run[TRUE] for run in runs], truth)
        answered = np.array([run["auto"][4] != REFUSED for run in runs], dtype=bool)
        made_of_all["answerable"] = int(able.sum())
        made_of_all["answered_of_answerable"] = share(answered[able]).value
    return made_of_all


def _covers(entries: list[Any], truth: float) -> Array:
    tiny = 1e-9 * max(1.0, abs(truth))
    return np.array([e[2] - tiny <= truth <= e[3] + tiny for e in entries], dtype=bool)


def _honesty(entries: list[Any], truth: float) -> dict[str, float]:
    answered = [e for e in entries if e[4] != REFUSED and e[2] is not None]
    tiny = 1e-9 * max(1.0, abs(truth))
    covers = _covers(answered, truth)
    far = np.array([abs(e[0] - truth) > 4 * e[1] + tiny for e in answered], dtype=bool)
    return {
        "refused": 1 - len(answered) / len(entries),
        "coverage": share(covers).value,
        "coverage_error": share(covers).error,
        "beyond_four": float(far.sum()),
        "std_error": float(np.median([e[1] for e in answered])) if answered else np.nan,
        "width": float(np.median([e[3] - e[2] for e in answered])) if answered else np.nan,
    }


def show(results: Mapping[str, Any]) -> str:
    """Two tables as Markdown, with logged propensities and without: one row for each world."""
    lines: list[str] = []
    for kind in ("known", "estimated"):
        mark = f", π_b {kind}"
        rows = {name.removesuffix(mark): cell for name, cell in results["cells"].items() if name.endswith(mark)}
        if rows:
            present = {e for cell in rows.values() for e in cell["estimators"]}
            others = [e for e in (*PARTS, "MAGIC", "DM", *PLAIN) if e in present]
            lines += [f"π_b {kind}", "", *_table(rows, others), "", *_magic(rows, kind)]
    return "\n".join(lines)


def _magic(rows: Mapping[str, Any], kind: str) -> list[str]:
    """What the standard error of MAGIC is worth, where it was kept."""
    lines = []
    for world, cell in rows.items():
        made = cell["estimators"]["MAGIC"]
        if "std_error" in made:
            lines.append(
                f"| {world} | {cell['logs']} | {made['rmse']:.3g} | {made['std_error']:.3g} | "
                f"{made['coverage']:.3f} | {made['beyond_four']:.0f} |"
            )
    if not lines:
        return []
    head = ["| world | logs | RMSE | its standard error | coverage | > 4 s.e. |", "|---" * 6 + "|"]
    return [f"MAGIC, π_b {kind}", "", *head, *lines, ""]


def _table(rows: Mapping[str, Any], others: list[str]) -> list[str]:
    head = (
        "world", "n", "logs", "truth", "bias", "RMSE", "of best part", "refused", "answered of answerable",
        "coverage", "half-width", "> 4 s.e.", *others,
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for world, cell in rows.items():
        e = cell["estimators"]
        auto, best = e["auto"], min(e[name]["rmse"] for name in PARTS)
        able = cell.get("answered_of_answerable")
        line = [
            world,
            f"{cell['n']:,}",
            str(cell["logs"]),
            f"{cell['truth']:.4g}",
            f"{auto['bias']:+.2g}",
            f"{auto['rmse']:.3g}",
            f"{auto['rmse'] / best:.2f}",
            f"{auto['refused']:.1%}",
            "–" if able is None else f"{able:.1%}",
            f"{auto['coverage']:.3f} ± {auto['coverage_error']:.3f}",
            f"{auto['width'] / 2:.2g}",
            f"{auto['beyond_four']:.0f}",
            *(f"{e[name]['rmse']:.3g}" if name in e else "–" for name in others),
        ]
        lines.append(f"| {' | '.join(line)} |")
    return lines
