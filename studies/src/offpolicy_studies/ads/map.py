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

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies.ads import map_picture
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.estimate import BEHAVIOR, ChoiceTable, counted_log
from offpolicy_studies.ads.reward import OverfittingBoosting, TunedBoosting
from offpolicy_studies.ads.simulate import AdCell, simulate_campaign
from offpolicy_studies.ads.world import World, make_world
from offpolicy_studies.folder import append_line, claim, read_lines, write_results
from offpolicy_studies.paired import compare, shift
from offpolicy_studies.progress import track
from offpolicy_studies.workers import finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offpolicy_studies.arrays import Floats

ESTIMATORS = ("IPW", "DR-full", "DR-half", "DML", "DM")
RATES = (1, 10)
EFFECTS = (0.2, 1.0)
OVERLAPS = ("good", "poor")
MODELS = {"tuned": TunedBoosting, "over-fitting": OverfittingBoosting}


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
    folds: int = 2
    """Folds of DML."""
    out: Path = Path("out/ads-map")
    """Folder for results.json, table.md, map.svg and the lines that make a run resumable."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    summarize: bool = False
    """Only summarize what is there."""


@dataclass(frozen=True)
class Place:
    """A world of the map without its seed."""

    rate: int
    effects: float
    overlap: str

    @property
    def name(self) -> str:
        """Name of the world in files.

        >>> Place(10, 0.2, "poor").name
        'x10-c0.2-poor'
        """
        return f"x{self.rate}-c{self.effects:g}-{self.overlap}"

    def config(self, scale: float) -> AdConfig:
        """Return the constants of this world; poor overlap is textbook Thompson sampling from Beta(1, 1)."""
        base = AdConfig().scaled(scale)
        poor = {"mab_flat_prior": True, "mab_memory": 1.0} if self.overlap == "poor" else {}
        rates = tuple(self.rate * r for r in base.click_rates)
        return replace(base, click_rates=rates, column_sd=self.effects, **poor)  # type: ignore[arg-type]


PLACES = tuple(Place(*levels) for levels in product(RATES, EFFECTS, OVERLAPS))


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
    }
    write_results(out, summary, markdown(summary))
    map_picture.draw(summary["cells"], out / "map.svg")
    return summary


def show(summary: dict[str, Any]) -> str:
    """Return the table for printing."""
    return markdown(summary)


def _run(options: Args, out: Path) -> None:
    worlds = list(product(PLACES, options.seeds, options.campaigns))
    last = max(options.batches)
    first = [Task(p, s, c, last, None, options) for p, s, c in worlds]
    first = [task for task in first if not task.path(last).exists()]
    known = {tuple(line["key"]) for line in read_lines(out / "cells.jsonl")}
    todo = [
        Task(p, s, c, batch, model, options)
        for batch in options.batches
        for p, s, c in worlds
        for model in MODELS
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


def summarize(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return errors, order and tests of each cell of the map, over seeds, campaigns and batches."""
    groups: dict[tuple[str, str], dict[Any, dict[str, Any]]] = defaultdict(dict)
    for line in lines:
        place, *where, model = line["key"]
        groups[place, model][tuple(where)] = line
    names = {p.name: p for p in PLACES}
    out = []
    for (place, model), found in sorted(groups.items()):
        for behavior in BEHAVIOR:
            records = [found[key] for key in sorted(found)]
            factors = {**names[place].__dict__, "model": model, "behavior": behavior}
            out.append({**factors, **_cell(records, behavior)})
    return out


def _cell(records: list[dict[str, Any]], behavior: str) -> dict[str, Any]:
    truth = np.array([r["true_value"] for r in records])
    pairs = np.array([[r["estimates"][behavior][e] for e in ESTIMATORS] for r in records])
    error = pairs[..., 0] / truth[:, None] - 1
    spread = pairs[..., 1] / truth[:, None]
    at = {name: k for k, name in enumerate(ESTIMATORS)}
    rmse = np.sqrt((error**2).mean(0))
    logged = np.array([r["logged"] for r in records]) / truth - 1
    return {
        "records": len(records),
        "rmse": dict(zip(ESTIMATORS, rmse.tolist(), strict=True)),
        "bias": dict(zip(ESTIMATORS, error.mean(0).tolist(), strict=True)),
        "median": dict(zip(ESTIMATORS, np.median(np.abs(error), 0).tolist(), strict=True)),
        "logged_mean": float(np.sqrt((logged**2).mean())),
        "paper_order": bool(rmse[at["IPW"]] > rmse[at["DR-full"]] > rmse[at["DML"]]),
        # Residual variance where the model was fitted over that where it was not: 1 without over-fitting.
        "in_sample_share": _median_ratio(spread[:, at["DR-full"]], spread[:, at["DML"]]),
        # What the model's predictions take off the variance of plain weighting, out of fold.
        "variance_left": _median_ratio(spread[:, at["DML"]], spread[:, at["IPW"]]),
        "over_fitting": shift(error[:, at["DR-full"]], error[:, at["DML"]]),
        "against_full": compare(error[:, at["DR-full"]], error[:, at["DML"]]),
        "against_ipw": compare(error[:, at["IPW"]], error[:, at["DML"]]),
    }


def _median_ratio(top: Floats, bottom: Floats) -> float:
    """Return the median ratio of variances, over batches in which the lower one is not 0."""
    some = bottom > 0
    return float(np.median(top[some] ** 2 / bottom[some] ** 2)) if some.any() else float("nan")


def markdown(summary: dict[str, Any]) -> str:
    """Return the map as a table: error relative to the true value, smallest of each row in bold."""
    head = (
        "| clicks | context effects | overlap | reward model | π_b | "
        + " | ".join(ESTIMATORS)
        + " | bias of DR-full | mean of DR-full − DML (s.e.) | squared errors, DR-full − DML, p, signed-rank p |"
        + " in-sample variance | variance left | IPW > DR-full > DML |"
    )
    lines = [head, "|---|---|---|---|---|" + "---:|" * (len(ESTIMATORS) + 5) + "---|"]
    lines += [_row(cell) for cell in summary["cells"]]
    return "\n".join(lines) + "\n"


def _row(cell: dict[str, Any]) -> str:
    best = min(cell["rmse"].values())
    values: Iterable[str] = (
        f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in cell["rmse"].values()
    )
    test, (gap, gap_error) = cell["against_full"], cell["over_fitting"]
    return (
        f"| ×{cell['rate']} | {cell['effects']:g} | {cell['overlap']} | {cell['model']} | "
        f"{cell['behavior']} | {' | '.join(values)} | {cell['bias']['DR-full']:+.3f} | "
        f"{gap:+.3f} ({gap_error:.3f}) | {test['difference']:+.4f}, {test['p_value']:.1g}, {test['signed_rank']:.1g} | "
        f"{cell['in_sample_share']:.2f} | {cell['variance_left']:.2f} | "
        f"{'yes' if cell['paper_order'] else 'no'} |"
    )
