"""`offpolicy reproduce uci`: five classification sets turned into bandits, every estimator, exact values.

Three logging policies (uniform; skewed towards what another model likes; adverse, towards what it does not)
and two targets (a model's best label; its probabilities) on each set. For every estimator: root mean squared
error and bias; coverage of the plain normal interval and of the default one among results that the verdict
does not refuse; the share refused. An estimator is tied with the best of a set when the paired difference of
their squared errors, each cell relative to its smallest mean squared error, is within 1.96 of its standard
errors.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import Any

import numpy as np

import offpolicy as op
from offpolicy.models import LinearReward
from offpolicy_studies import uci_bandits as bandits
from offpolicy_studies.folder import locate, write_results
from offpolicy_studies.monte_carlo import Z, mean, root_mean_square, share, simulate

ESTIMATORS = (
    "DM", "IPW", "SNIPW", "DR-full", "DML", "SNDR", "MinVar", "auto", "SWITCH", "DRos",
)  # fmt: skip
RECOMMENDED = "auto"
LEADING = ("DML", RECOMMENDED)


@dataclass(frozen=True)
class Args:
    """Options of the study of classification sets."""

    data: Path | None = None
    """Folder with ecoli.data, … (or with uci/ inside); default: the variable OFFPOLICY_DATA."""
    sets: tuple[str, ...] = bandits.SETS
    """Data sets."""
    replications: int = 200
    """Logs drawn for each set and logging policy."""
    rows: int = 2000
    """Most rows in a log; a smaller set gives logs of the size of its pool."""
    reward_model: str = "linear"
    """linear (logistic, with interactions) or auto (chosen in each fold)."""
    folds: int = 5
    """Folds of the cross-fitted estimators."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """One data set under one logging policy."""

    folder: Path
    name: str
    logging: str
    rows: int
    reward_model: str
    folds: int
    seed: int

    def made_from(self) -> tuple[Any, ...]:
        """What its numbers depend on."""
        return bandits.files(self.folder, self.name), *astuple(self)[1:]


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, dict[str, list[float]]]:
    """One log: {target: {estimator: [error, standard error, covered, covered by default, refused]}}."""
    pool = bandits.make_pool(cell.folder, cell.name, cell.seed)
    log, targets = pool.draw(cell.logging, min(cell.rows, len(pool.label)), rng)
    ev = op.evaluate(
        log,
        targets,
        estimators=ESTIMATORS,
        reward_model=LinearReward() if cell.reward_model == "linear" else cell.reward_model,
        folds=cell.folds,
        seed=int(rng.integers(2**31)),
    )
    return {t: {e: _numbers(ev, t, e, pool.value(t)) for e in ESTIMATORS} for t in targets}


def _numbers(ev: op.Evaluation, target: str, estimator: str, truth: float) -> list[float]:
    found = ev[target, estimator]
    refused = float(ev.verdict(target, estimator).level == "insufficient evidence")
    if not found.is_defined:
        return [math.nan, math.nan, 0.0, 0.0, refused]
    error = found.value - truth
    covered = abs(error) <= Z * found.std_error
    return [error, found.std_error, float(covered), float(found.interval().covers(truth)), refused]


def reproduce(options: Args) -> dict[str, Any]:
    """Run every set and logging policy, and compare the estimators.

    Returns
    -------
    dict
        ``options``; ``cells``: a list with the numbers of each set, logging policy, target and estimator;
        ``sets``: for each set, whether the recommended default is tied with the best.
    """
    first = bandits.FILES.get(options.sets[0], ("ecoli.data",))
    folder = locate(options.data, ["uci"], first, "archive.ics.uci.edu")
    make = partial(Cell, folder, rows=options.rows, reward_model=options.reward_model,
                   folds=options.folds, seed=options.seed)  # fmt: skip
    cells = {f"{s}/{b}": make(name=s, logging=b) for s in options.sets for b in bandits.LOGGING}
    settings = {k: getattr(options, k) for k in ("rows", "reward_model", "folds")}
    out = None if options.out is None else options.out / "replications.jsonl"
    drawn = simulate(
        replicate,
        cells,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=out,
        settings=settings,
        title="classification sets",
    )
    results = {(name, t): _table(found, t) for name, found in drawn.items() for t in bandits.TARGETS}
    answer = {
        "options": {**settings, "replications": options.replications, "seed": options.seed},
        "cells": [_summary(name, t, numbers) for (name, t), numbers in results.items()],
        "sets": {s: _ranking(s, results) for s in options.sets},
        "coverage": {s: {e: coverage(s, e, results) for e in LEADING} for s in options.sets},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _table(found: list[Any], target: str) -> np.ndarray[Any, Any]:
    """(R, E, 5) numbers of one cell."""
    return np.array([[r[target][e] for e in ESTIMATORS] for r in found], dtype=np.float64)


def _summary(name: str, target: str, x: np.ndarray[Any, Any]) -> dict[str, Any]:
    data, logging = name.split("/")
    rows = {}
    for j, estimator in enumerate(ESTIMATORS):
        error, kept = x[:, j, 0], x[:, j, 4] == 0
        rows[estimator] = {
            "rmse": root_mean_square(error[np.isfinite(error)]),
            "bias": mean(error[np.isfinite(error)]),
            "coverage": share(x[:, j, 2]),
            "default_coverage": share(x[kept, j, 3]),
            "refused": share(x[:, j, 4]),
        }
    return {"set": data, "logging": logging, "target": target, "estimators": rows}


def paired(losses: list[np.ndarray[Any, Any]], one: int, other: int) -> float:
    """z-score of the difference of two estimators' squared errors over several cells.

    Each cell is an (R, E) array of squared errors, already relative to a scale of its own.

    Examples
    --------
    >>> a = np.array([[1.0, 3.0], [2.0, 4.0], [3.0, 5.5]])
    >>> round(paired([a], 1, 0), 1)
    13.0
    """
    gaps = [mean(x[:, one] - x[:, other]) for x in losses]
    error = math.sqrt(sum(g.error**2 for g in gaps))
    total = sum(g.value for g in gaps)
    return total / error if error > 0 else 0.0


def _ranking(name: str, results: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """The best estimator of a set and the z-score of each against it; by logging policy as well."""
    squares = {key: x[:, :, 0] ** 2 for key, x in results.items() if key[0].split("/")[0] == name}
    scaled = {key: x / np.nanmin(np.nanmean(x, axis=0)) for key, x in squares.items()}
    parts = {"all": list(scaled.values())}
    for b in bandits.LOGGING:
        parts[b] = [x for (cell, _), x in scaled.items() if cell.endswith(f"/{b}")]
    return {part: _against_best(losses) for part, losses in parts.items()}


def coverage(name: str, estimator: str, results: dict[tuple[str, str], Any]) -> dict[str, Any]:
    """Coverage on a set over logging policies and targets: the normal interval, and the default if answered.

    Both targets of a replication share its log, so they are averaged before the Monte Carlo error is taken.
    """
    j = ESTIMATORS.index(estimator)
    logs = {b: np.stack([results[f"{name}/{b}", t][:, j] for t in bandits.TARGETS], axis=1) for b in bandits.LOGGING}
    normal = {b: x[:, :, 2].mean(axis=1) for b, x in logs.items()}
    kept = [np.where(x[:, :, 4] == 0, x[:, :, 3], np.nan) for x in logs.values()]
    answered = np.concatenate(kept)
    answered = answered[np.isfinite(answered).any(axis=1)]
    return {
        "normal": {b: mean(x) for b, x in normal.items()},
        "normal_without_adverse": mean(np.concatenate([normal["uniform"], normal["skewed"]])),
        "default": mean(np.nanmean(answered, axis=1)),
        "refused": float(np.mean([x[:, :, 4].mean() for x in logs.values()])),
    }


def _against_best(losses: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    total = np.sum([np.nan_to_num(x.mean(axis=0), nan=np.inf) for x in losses], axis=0)
    best = int(np.argmin(total))
    z = {e: paired(losses, j, best) if np.isfinite(total[j]) else math.inf
         for j, e in enumerate(ESTIMATORS)}  # fmt: skip
    relative = {e: float(np.sqrt(total[j] / len(losses))) for j, e in enumerate(ESTIMATORS)}
    tied = z[RECOMMENDED] <= Z
    return {"best": ESTIMATORS[best], "relative_rmse": relative, "z": z, "default_tied": tied}


def show(result: dict[str, Any]) -> str:
    """All cells, then the ranking by set, in Markdown."""
    lines = [
        "| set | logging | target | estimator | RMSE | s.e. | bias | normal | default | refused |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in result["cells"]:
        lines += [_line(cell, e, row) for e, row in cell["estimators"].items()]
    heading = (
        "Ranking by set: RMSE relative to the best of each cell, averaged over cells; z of "
        f"{RECOMMENDED} against the best."
    )
    lines += [
        "",
        heading,
        "",
        f"| set | cells | best | {' | '.join(ESTIMATORS)} | z | tied |",
        "|---|---|---|" + "---|" * (len(ESTIMATORS) + 2),
    ]
    for name, parts in result["sets"].items():
        for part, r in parts.items():
            ratios = " | ".join(f"{r['relative_rmse'][e]:.2f}" for e in ESTIMATORS)
            z = r["z"][RECOMMENDED]
            tied = "yes" if r["default_tied"] else "no"
            lines.append(f"| {name} | {part} | {r['best']} | {ratios} | {z:.1f} | {tied} |")
    by_set = (
        "Coverage by set, with Monte Carlo errors: the normal interval by logging policy, and the default "
        "interval where the verdict does not refuse, over all logging policies."
    )
    lines += [
        "",
        by_set,
        "",
        "| set | estimator | uniform | skewed | adverse | uniform and skewed | default, answered | refused |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in result["coverage"].items():
        for estimator, r in rows.items():
            cells = [*r["normal"].values(), r["normal_without_adverse"], r["default"]]
            shown = " | ".join(f"{value:.1%} ± {error:.1%}" for value, error in cells)
            lines.append(f"| {name} | {estimator} | {shown} | {r['refused']:.1%} |")
    won = sum(parts["all"]["default_tied"] for parts in result["sets"].values())
    lines += ["", f"{RECOMMENDED} is best or tied on {won} of {len(result['sets'])} sets."]
    return "\n".join(lines)


def _line(cell: dict[str, Any], estimator: str, row: dict[str, Any]) -> str:
    kept = row["default_coverage"][0]
    default = "–" if math.isnan(kept) else f"{kept:.1%}"
    return (
        f"| {cell['set']} | {cell['logging']} | {cell['target']} | {estimator} | {row['rmse'][0]:.4f} | "
        f"{row['rmse'][1]:.4f} | {row['bias'][0]:+.4f} | {row['coverage'][0]:.1%} | {default} | "
        f"{row['refused'][0]:.1%} |"
    )
