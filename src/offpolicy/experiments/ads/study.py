"""`reproduce`: the online-ads study from the world's constants to table and figure, resumable.

    offpolicy reproduce ads --scale 1 --seed 0 --out ads

Everything follows from (scale, seed, folds). Each finished cell is one line of ``cells.jsonl``; a
run that was interrupted takes up where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy.experiments.ads import figure, work
from offpolicy.experiments.ads.config import AdConfig
from offpolicy.experiments.ads.summary import markdown, summarize

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Args:
    """Options of the online-ads study."""

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
    config = AdConfig() if options.scale == 1 else AdConfig().scaled(options.scale)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    job = work.Job(config, options.seed, options.folds, str(out / "data"), options.rows)
    _claim(
        out,
        {
            "config": config.as_dict(),
            "seed": options.seed,
            "folds": options.folds,
            "rows": options.rows,
        },
    )
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}

    def staged(name: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        seconds[name] = round(time.perf_counter() - start, 1)
        return result

    tasks = _missing(job, out, figure=options.figure)
    if tasks:
        with work.Crew(options.workers or os.cpu_count() or 1) as crew:
            cpu |= staged("data", partial(crew.run, "simulation", _unsimulated(job)))
            cpu |= staged("estimates", partial(crew.run, "estimates", tasks))
    records = sorted(_lines(out / "cells.jsonl"), key=lambda r: (r["campaign"], r["batch"]))
    summary = staged("metrics", partial(summarize, records, draws=options.draws))
    panels_done = sorted(_lines(out / "figure2.jsonl"), key=lambda r: int(r["campaign"]))
    if options.figure:
        staged("drawing", partial(figure.draw, panels_done, out))
    result = {
        "options": {
            "scale": options.scale,
            "seed": options.seed,
            "folds": options.folds,
            "rows": options.rows,
        },
        "config": config.as_dict(),
        "summary": summary,
        "figure": panels_done,
        "seconds": seconds,
        "cpu_seconds": {name: round(value, 1) for name, value in cpu.items()},
    }
    (out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "table.md").write_text(markdown(summary))
    if not options.keep_data:
        shutil.rmtree(out / "data", ignore_errors=True)
    return result


def show(result: dict[str, Any]) -> str:
    """Return the study's table, Figure 2 in words, and the time each stage took, for printing."""
    lines = [markdown(result["summary"])]
    for panel in result["figure"]:
        new, logged = (f"{100 * panel[k][0]:.3f}%" for k in ("new", "logged"))
        text = f"Campaign {panel['campaign'] + 1}, last batch: best design {new}, logging {logged}"
        if panel["lift"] is not None:
            lift, low, high = panel["lift"]
            text += f", lift {lift:+.0%} [{low:+.0%}, {high:+.0%}]"
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
    drawn = {r["campaign"] for r in _lines(out / "figure2.jsonl")}
    panels = [c for c in cfg.figure_campaigns if c not in drawn] if figure else []
    known = {(r["campaign"], r["batch"]) for r in _lines(out / "cells.jsonl")}
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


def _claim(out: Path, run: dict[str, Any]) -> None:
    """Refuse to mix two runs in one folder."""
    path, text = out / "run.json", json.dumps(run, indent=1, sort_keys=True) + "\n"
    if path.exists() and path.read_text() != text:
        raise UsageError(
            f"{out} holds a run with another scale, seed, number of folds or kind of log. "
            "Give another folder with --out, or delete this one."
        )
    path.write_text(text)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read finished records; a last line cut short by an interrupt is not one."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]
