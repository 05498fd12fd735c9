"""`offpolicy reproduce coverage`: does the default number with its interval and verdict keep its word?

In every world, many logs are drawn and evaluated. For each estimator and interval method: bias, root mean
squared error, width, coverage, and coverage among the results that the verdict does not refuse
("insufficient evidence", or no value at all), each with its Monte Carlo error. The default is the ``auto``
estimator with the ``auto`` interval and its verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import offpolicy as op
from offpolicy_studies.coverage.summary import DEFAULT, markdown, summarize
from offpolicy_studies.coverage.worlds import QUICK, WORLDS
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import simulate
from offpolicy_studies.names import chosen

if TYPE_CHECKING:
    import numpy as np

BANDIT = ("auto", "DML", "SNDR", "MinVar", "SNIPW", "IPW", "DR-full", "DM")
EPISODES = ("auto", "DML", "WDR", "MinVar", "SNIPW", "IPW", "DR-full", "DM")
# Methods tried beside the default and the normal one, on the estimators that a report would lead with.
MORE = {"auto": ("t", "empirical-likelihood"), "DML": ("t", "empirical-likelihood", "bca")}
BATCHED = ("batch-pooled", "adaptive")
LEVEL = 0.95


@dataclass(frozen=True)
class Args:
    """Options of the coverage battery."""

    replications: int = 400
    """Logs drawn from each world."""
    worlds: tuple[str, ...] = ()
    """Names of worlds, or beginnings of names; all when empty."""
    folds: int = 2
    """Folds of the cross-fitted estimators."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    quick: bool = False
    """Eight worlds with the default and the normal interval only, for a first look."""
    default_only: bool = False
    """The default estimator alone, with the default and the normal interval: for many replications."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """A world by name, and how to evaluate it."""

    world: str
    folds: int
    quick: bool = False
    default_only: bool = False


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log: {estimator: {"error", "se", "level", "intervals": {method: [covered, width]}}}."""
    drawn = WORLDS[cell.world].draw(rng)
    episodes = drawn.log.kind == "trajectories"
    names: tuple[str, ...] = EPISODES if episodes else BANDIT
    if cell.default_only:
        names = (DEFAULT,)
    ev = op.evaluate(
        drawn.log, drawn.policy, estimators=names, folds=cell.folds, seed=int(rng.integers(2**31)), **drawn.models
    )
    batched = not episodes and drawn.log.has_batches
    found = {}
    for name in names:
        e = ev[name]
        methods = ["auto", "normal"]
        if name in MORE and not cell.default_only:
            methods += [] if cell.quick else MORE[name]
            methods += BATCHED if batched and not e.looks_at_others else []
        level = ev.verdict(estimator=name).level if e.is_defined else "insufficient evidence"
        found[name] = {
            "error": e.value - drawn.truth,
            "se": e.std_error,
            "level": level,
            "intervals": {m: _judged(e, m, drawn.truth) for m in methods} if e.is_defined else {},
            "chosen": e.interval(LEVEL).method if e.is_defined else "",
        }
    return found


def _judged(estimate: op.Estimate, method: str, truth: float) -> list[float]:
    """Covered or not, and the width."""
    i = estimate.interval(LEVEL, method)
    return [float(i.covers(truth)), i.width if math.isfinite(i.width) else math.nan]


def reproduce(options: Args) -> dict[str, Any]:
    """Run the battery.

    Returns
    -------
    dict
        ``options``; ``worlds``: for each world whether it is easy, and one entry for each estimator with its
        numbers by interval method.
    """
    names = _chosen(options)
    settings = {k: getattr(options, k) for k in ("folds", "quick", "default_only")}
    cells = {name: Cell(name, **settings) for name in names}
    drawn = simulate(
        replicate,
        cells,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings=settings,
        title="coverage",
    )
    answer = {
        "options": {**settings, "replications": options.replications, "seed": options.seed},
        "worlds": {name: {"easy": WORLDS[name].easy, "estimators": summarize(found)} for name, found in drawn.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _chosen(options: Args) -> list[str]:
    if options.quick and not options.worlds:
        return list(QUICK)
    return chosen(options.worlds, WORLDS)


def show(result: dict[str, Any]) -> str:
    """The default in every world, then every cell, in Markdown."""
    return markdown(result["worlds"])
