"""The study's tasks, and the processes that run them.

A task is a function of a `Job` and a key; it depends on nothing else, so results are the same on
any number of workers and in any order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy_studies.ads.estimate import counted_log, estimate_cell, scanned_log
from offpolicy_studies.ads.improve import improvement
from offpolicy_studies.ads.simulate import AdCell, rows_path, simulate_campaign, write_rows
from offpolicy_studies.ads.world import World, make_world
from offpolicy_studies.folder import append_line
from offpolicy_studies.progress import track
from offpolicy_studies.workers import finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy import BanditLog
    from offpolicy_studies.ads.config import AdConfig


@dataclass(frozen=True)
class Job:
    """What a task needs to know: the world, the folds, and where simulated logs are kept.

    With ``rows`` every impression is written to Parquet, and logs come from the engine of large logs
    instead of from the generator's counts.
    """

    config: AdConfig
    seed: int
    folds: int
    data: str
    rows: bool = False

    def path(self, campaign: int, batch: int) -> Path:
        """Return the file of a cell."""
        return Path(self.data) / f"cell-{campaign}-{batch:02d}.npz"

    def paths(self, campaign: int) -> list[Path]:
        """Return the files of a campaign, in order."""
        return [self.path(campaign, b) for b in range(self.config.batches)]


def simulate(job: Job, campaign: int) -> None:
    """Run a campaign's A/B test and keep its logs."""
    world = _world(job.config, job.seed)
    for cell in simulate_campaign(world, campaign):
        if job.rows:
            write_rows(world, cell, Path(job.data))
        cell.save(job.path(campaign, cell.batch))


def estimate(job: Job, cell: tuple[int, int]) -> dict[str, Any]:
    """Return the estimates of one cell."""
    world, loaded = _world(job.config, job.seed), AdCell.load(job.path(*cell))
    return estimate_cell(world, loaded, _log(job, loaded))


def improve(job: Job, campaign: int) -> dict[str, Any]:
    """Return one panel of Figure 2."""
    *earlier, last = job.paths(campaign)
    world = _world(job.config, job.seed)
    cells = (AdCell.load(p) for p in earlier)
    final = AdCell.load(last)
    return improvement(world, cells, final, _log(job, final))


def _log(job: Job, cell: AdCell) -> BanditLog:
    world = _world(job.config, job.seed)
    if job.rows:
        return scanned_log(world, rows_path(cell, Path(job.data)), job.folds)
    return counted_log(world, cell, job.folds)


@lru_cache(maxsize=1)
def _world(config: AdConfig, seed: int) -> World:
    return make_world(config, seed)


@dataclass(frozen=True)
class Task:
    """A function of a job and a key, and the file that its result is added to."""

    name: str
    function: Callable[[Job, Any], Any]
    job: Job
    key: Any
    out: Path | None = None


def _timed(task: Task) -> tuple[Any, float]:
    start = time.process_time()
    result = task.function(task.job, task.key)
    return result, time.process_time() - start


def run(title: str, tasks: Sequence[Task], workers: int) -> dict[str, float]:
    """Run tasks, the first ones first; write each result as a line when it is there.

    Returns the seconds spent in tasks of each name, added over workers.
    """
    spent: dict[str, float] = {}
    with track(title, len(tasks)) as advance:
        for task, (result, seconds) in finished(_timed, tasks, workers):
            if task.out is not None:
                append_line(task.out, result)
            spent[task.name] = spent.get(task.name, 0.0) + seconds
            advance()
    return spent
