"""`reproduce`: the online-ads study from the world's constants to table and figure, resumable.

    offpolicy reproduce ads --scale 1 --seed 0 --out ads

Everything follows from (scale, seed, folds). Each finished cell is one line of ``cells.jsonl``; a
run that was interrupted takes up where it stopped.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy_studies.ads import figure, work
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.summary import markdown, summarize
from offpolicy_studies.folder import claim, read_lines, write_results

if TYPE_CHECKING:
    from collections.abc import Callable


QUICK = 0.005  # of the paper's impressions


@dataclass(frozen=True)
class Args:
    """Options of the online-ads study."""

    quick: bool = False
    """A two-hundredth of the impressions, without Figure 2: about a minute."""
    scale: float = 1.0
    """Share of the paper's 40,101,050 multi-armed impressions."""
    seed: int = 0
    """Seed of the world and of everything that happens in it."""
    folds: int = 2
    """Folds of DML; the paper tries 2, 3 and 4."""
    out: Path = Path("ads")
    """Folder for results.json, table.md, figure2.svg/png and the lines that make a run resumable."""
    rows: bool = False
    """Write all impressions as Parquet and read them by offpolicy.scan, not the generator's counts."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    draws: int = 100_000
    """Simulated tables of appendix C."""
    figure: bool = True
    """Whether to train the counterfactual policy and draw Figure 2."""
    keep_data: bool = False
    """Keep the simulated logs (about 300 MB at full size) after the run."""


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study and return what it wrote to ``results.json``.

    Parameters
    ----------
    options : Args
        Size, seed, folds and output folder.

    Returns
    -------
    dict
        ``options``, ``config``, ``summary`` (Table 2 and more), ``figure`` (one entry a campaign),
        ``seconds`` of each stage and ``cpu_seconds`` of each kind of task, added over workers.
    """
    _check(options)
    if options.quick:
        options = replace(options, scale=QUICK, figure=False)
    config = AdConfig() if options.scale == 1 else AdConfig().scaled(options.scale)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    job = work.Job(config, options.seed, options.folds, str(out / "data"), options.rows)
    asked = {k: getattr(options, k) for k in ("scale", "seed", "folds", "rows")}
    claim(out / "run.json", {**asked, "config": config.as_dict()})
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}

    def staged(name: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        seconds[name] = round(time.perf_counter() - start, 1)
        return result

    tasks = _missing(job, out, figure=options.figure)
    if tasks:
        for stage, title, todo in (("data", "simulation", _unsimulated(job)), ("estimates", "estimates", tasks)):
            cpu |= staged(stage, partial(work.run, title, todo, options.workers))
    cells = _records(out / "cells.jsonl", "campaign", "batch")
    records = [cells[key] for key in sorted(cells)]
    summary = staged("metrics", partial(summarize, records, draws=options.draws))
    drawn = _records(out / "figure2.jsonl", "campaign")
    panels_done = [drawn[key] for key in sorted(drawn)]
    if options.figure:
        staged("drawing", partial(figure.draw, panels_done, out))
    result = {
        "options": asked,
        "config": config.as_dict(),
        "summary": summary,
        "figure": panels_done,
        "seconds": seconds,
        "cpu_seconds": {name: round(value, 1) for name, value in cpu.items()},
    }
    write_results(out, result, markdown(summary))
    if not options.keep_data:
        shutil.rmtree(out / "data", ignore_errors=True)
    return result


def show(result: dict[str, Any]) -> str:
    """Return the study's table, Figure 2 in words, and the time each stage took, for printing."""
    lines = [markdown(result["summary"])]
    for panel in result["figure"]:
        new, logged = (f"{100 * panel[k]['value']:.3f}%" for k in ("new", "logged"))
        text = f"Campaign {panel['campaign'] + 1}, last batch: best design {new}, logging {logged}"
        if panel["lift"] is not None:
            low, high = panel["lift"]["normal"]
            text += f", lift {panel['lift']['value']:+.0%} [{low:+.0%}, {high:+.0%}]"
        lines.append(f"{text}; true lift {panel['true_lift']:+.0%}.")
    for title, key in (("Seconds", "seconds"), ("CPU-seconds of tasks", "cpu_seconds")):
        spent = ", ".join(f"{name} {value}" for name, value in result[key].items())
        lines.append(f"{title}: {spent or 'none, everything was there'}.")
    return "\n".join(lines)


def _unsimulated(job: work.Job) -> list[work.Task]:
    Path(job.data).mkdir(parents=True, exist_ok=True)
    campaigns = range(job.config.campaigns)
    missing = [c for c in campaigns if not all(p.exists() for p in job.paths(c))]
    return [work.Task("data", work.simulate, job, c) for c in missing]


def _missing(job: work.Job, out: Path, *, figure: bool) -> list[work.Task]:
    """Return what is left to do, panels of the figure first: they take longest."""
    cfg = job.config
    drawn = _records(out / "figure2.jsonl", "campaign")
    panels = [c for c in cfg.figure_campaigns if (c,) not in drawn] if figure else []
    known = _records(out / "cells.jsonl", "campaign", "batch")
    cells = [(c, b) for c in range(cfg.campaigns) for b in range(cfg.batches)]
    todo = [cell for cell in cells if cell not in known]
    return [
        *(work.Task("policy", work.improve, job, c, out / "figure2.jsonl") for c in panels),
        *(work.Task("estimates", work.estimate, job, c, out / "cells.jsonl") for c in todo),
    ]


def _check(options: Args) -> None:
    if options.folds < 2:
        raise UsageError(f"The 'folds' option must be at least 2. Got {options.folds!r} instead.")
    if options.workers < 0:
        raise UsageError(f"The 'workers' option must be at least 0. Got {options.workers!r}.")
    if options.seed < 0:
        raise UsageError(f"The 'seed' option must be at least 0. Got {options.seed!r} instead.")


def _records(path: Path, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Finished records by key: two runs in the same folder may both have added one."""
    return {tuple(record[k] for k in key): record for record in read_lines(path)}
