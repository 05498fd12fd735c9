"""The ads map: in which worlds does DML win, in which not?

Five factors, each at two levels: the click rate, how well contexts predict clicks, the overlap of the two
bandits, the reward model (tuned, or over-fitting on purpose) and whether π_b is known. Every world is
simulated with several seeds at a tenth of the paper's size; estimates are compared with the world's
true values, free of the online arm's own noise.

    python -m offpolicy_studies ads-map --out out/ads-map

A run that was interrupted takes up where it stopped. Batches are looked at in an order that leaves, after
any number of them, the same batches for every cell of the map.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies.ads import map_picture, map_table
from offpolicy_studies.ads.estimate import BEHAVIOR, ChoiceTable, counted_log
from offpolicy_studies.ads.map_summary import pooled, summarize
from offpolicy_studies.ads.map_worlds import ESTIMATORS, MODELS, NAMES, Place
from offpolicy_studies.ads.simulate import AdCell, simulate_campaign
from offpolicy_studies.ads.world import World, make_world
from offpolicy_studies.folder import append_line, claim, read_lines, write_results
from offpolicy_studies.progress import track
from offpolicy_studies.workers import finished


@dataclass(frozen=True)
class Args:
    """Options of the ads map."""

    scale: float = 0.1
    """Share of the paper's 40,101,050 multi-armed impressions."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Worlds per cell of the map."""
    batches: tuple[int, ...] = (27, 12, 22, 7, 17, 2)
    """Batches that are evaluated, in this order; all batches before them are simulated."""
    campaigns: tuple[int, ...] = (0, 1, 2, 3)
    """Campaigns that are simulated and evaluated."""
    places: tuple[str, ...] = tuple(NAMES)
    """Worlds of the map, such as x10-c1-good: clicks, context effects, overlap."""
    models: tuple[str, ...] = tuple(MODELS)
    """Reward models."""
    folds: int = 2
    """Folds of DML."""
    out: Path = Path("out/ads-map")
    """Folder for results.json, table.md, map.svg and the lines that make a run resumable."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    summarize: bool = False
    """Only summarize what is there."""


@dataclass(frozen=True)
class Task:
    """One campaign and batch of one world with one reward model; ``model`` None simulates the campaign."""

    place: Place
    seed: int
    campaign: int
    batch: int
    model: str | None
    options: Args

    @property
    def key(self) -> tuple[Any, ...]:
        """What a finished line is known by."""
        return (self.place.name, self.seed, self.campaign, self.batch, self.model)

    def path(self, batch: int) -> Path:
        """Return the file of a simulated batch."""
        folder = Path(self.options.out) / "data" / f"{self.place.name}-s{self.seed}"
        return folder / f"cell-{self.campaign}-{batch:02d}.npz"

    def world(self) -> World:
        """Make the world anew; it takes a tenth of a second."""
        return make_world(self.place.config(self.options.scale), self.seed)


def reproduce(options: Args) -> dict[str, Any]:
    """Run what is left of the map and summarize it.

    Parameters
    ----------
    options : Args
        Size, seeds, batches and output folder.

    Returns
    -------
    dict
        ``options``, ``cells`` (one entry for each combination of the factors) and ``batches_done``.
    """
    if not options.seeds or not options.batches:
        raise UsageError("seeds and batches must each name at least one number.")
    for name, asked_for, known in (("places", options.places, NAMES), ("models", options.models, MODELS)):
        unknown = [value for value in asked_for if value not in known]
        if unknown or not asked_for:
            raise UsageError(f"{name} must be among {', '.join(known)}. Got {unknown} instead.")
    out = Path(options.out)
    asked = {"scale": options.scale, "folds": options.folds, "seeds": options.seeds}
    claim(out / "run.json", asked)
    if not options.summarize:
        _run(options, out)
    lines = read_lines(out / "cells.jsonl")
    summary: dict[str, Any] = {
        "options": asked,
        "records": len(lines),
        "cells": summarize(lines),
        "pooled": pooled(lines),
    }
    write_results(out, summary, map_table.markdown(summary))
    map_picture.draw(summary["cells"], out / "map.svg")
    return summary


def show(summary: dict[str, Any]) -> str:
    """Return the table for printing."""
    return map_table.markdown(summary)


def _run(options: Args, out: Path) -> None:
    worlds = list(product((NAMES[name] for name in options.places), options.seeds, options.campaigns))
    last = max(options.batches)
    first = [Task(p, s, c, last, None, options) for p, s, c in worlds]
    first = [task for task in first if not task.path(last).exists()]
    known = {tuple(line["key"]) for line in read_lines(out / "cells.jsonl")}
    todo = [
        Task(p, s, c, batch, model, options)
        for batch in options.batches
        for p, s, c in worlds
        for model in options.models
    ]
    todo = [task for task in todo if task.key not in known]
    for title, tasks in (("worlds", first), ("cells", todo)):
        with track(title, len(tasks)) as advance:
            for _, line in finished(work, tasks, options.workers):
                if line is not None:
                    append_line(out / "cells.jsonl", line)
                advance()


def work(task: Task) -> dict[str, Any] | None:
    """Simulate a campaign up to the task's batch, or estimate one batch of it."""
    world = task.world()
    if task.model is None:
        task.path(0).parent.mkdir(parents=True, exist_ok=True)
        for cell in simulate_campaign(world, task.campaign):
            # The last wanted batch is written last: where it lies, all lie.
            if cell.batch in task.options.batches:
                cell.save(task.path(cell.batch))
            if cell.batch == task.batch:
                return None
    return {"key": list(task.key), **estimate(world, task)}


def estimate(world: World, task: Task) -> dict[str, Any]:
    """Return every estimate of one batch with both ways of knowing π_b."""
    cell = AdCell.load(task.path(task.batch))
    log = counted_log(world, cell, task.options.folds)
    sizes = tuple(levels for _, levels in world.config.columns)
    policy = ChoiceTable(world.contexts[cell.present], sizes, cell.choice, cell.draws)
    model = MODELS[str(task.model)]()
    estimates = {}
    for name, behavior in BEHAVIOR.items():
        ev = op.evaluate(
            log, {"cb": policy}, estimators=list(ESTIMATORS), reward_model=model,
            behavior_model=behavior, seed=world.seed,
        )  # fmt: skip
        each = {e: ev["cb", e] for e in ESTIMATORS}
        estimates[name] = {e: [v.value, v.std_error] for e, v in each.items()}
    return {
        "true_value": cell.true_value,
        "true_logged": cell.true_logged,
        "logged": float(cell.clicks.sum() / cell.shown.sum()),
        "smallest_propensity": float(cell.propensity[cell.choice.any(0)].min()),
        "estimates": estimates,
    }
