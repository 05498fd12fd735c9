"""Table 1 by the letter: the paper's text and nothing more, with seven ways of knowing π_b.

    python -m offpolicy_studies cartpole-letter --out out/letter

A policy whose value differs from the log's; plain networks (`plain`), all episodes of a split, the last
weights. Everything is kept in ``--out`` and taken up again after a kill. ``--stage arrays`` is the part for a
GPU and needs no more than torch and numpy; ``--stage estimates`` makes the table of what it has left.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offpolicy.errors import UsageError
from offpolicy_studies.cartpole import blocks, plain_store
from offpolicy_studies.cartpole.settings import EPSILONS, SMALL, Plain, Settings
from offpolicy_studies.cartpole.study import best_device
from offpolicy_studies.folder import claim, read_lines, write_results

STAGES = ("all", "arrays", "estimates")


@dataclass(frozen=True)
class Args:
    """What to reproduce."""

    #: Exploration rates of the behavior policy, one column of the table each.
    epsilons: tuple[float, ...] = EPSILONS
    #: Data sets per ε.
    replications: int = 100
    #: Episodes per data set.
    trajectories: int = 100
    #: Folds of the cross-fit.
    folds: int = 2
    #: "cuda", "cpu", or None for what is there.
    device: str | None = None
    #: Seed of everything.
    seed: int = 0
    #: Folder of the run.
    out: Path = Path("out/letter")
    #: Data sets trained at once; None takes 50 on CUDA and 1 on the CPU.
    block: int | None = None
    #: "arrays" stops before the estimators, "estimates" needs arrays from an earlier run.
    stage: str = "all"
    #: Begin no block of networks that is likely to end after so many minutes.
    minutes: float | None = None
    #: Processes for the estimators; None takes up to 8.
    jobs: int | None = None
    #: Choices shared with the careful table; None takes the table's on CUDA and smaller ones on a CPU.
    settings: Settings | None = None
    #: Training by the letter.
    letter: Plain = field(default_factory=Plain)


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study, or what is left of it, and write ``results.json`` and ``table.md``.

    Parameters
    ----------
    options : Args
        What to run and where to keep it.

    Returns
    -------
    dict
        Empty when only the arrays were asked for.
    """
    if options.stage not in STAGES:
        raise UsageError(f"stage must be one of {', '.join(STAGES)}. Got {options.stage!r} instead.")
    out = Path(options.out)
    wanted = requests(options)
    if options.stage != "estimates":
        device = options.device or best_device()
        settings = options.settings or (Settings() if device.startswith("cuda") else SMALL)
        asked = {"seed": options.seed, "trajectories": options.trajectories}
        claim(out / "manifest.json", {**asked, "settings": settings.as_dict(), "letter": asdict(options.letter)})
        plain_store.make_policies(out, options.seed, settings, device)
        block = options.block or (plain_store.BLOCK if device.startswith("cuda") else 1)
        whole = plain_store.make_arrays(out, wanted, settings, device, block, options.minutes)
        if options.stage == "arrays" or not whole:
            return {}
    from offpolicy_studies.cartpole import letter_table, ways

    plain_store.make_estimates(out, wanted, ways.WAYS, ways.ROWS, options.jobs)
    truth = json.loads((out / "truth-middle.json").read_text(encoding="utf-8"))
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    summary = letter_table.summarize([(r, plain_store.read_estimates(out, r)) for r in wanted], truth)
    summary |= {
        "manifest": manifest,
        "timing": read_lines(out / "timing.jsonl"),
        "runs": read_lines(out / "runs.jsonl"),
    }
    write_results(out, summary, letter_table.markdown(summary))
    return summary


def show(summary: dict[str, Any]) -> str:
    """Return what the command line prints."""
    if not summary:
        return "The networks are there, or time was up; run again to continue."
    from offpolicy_studies.cartpole import letter_table

    return letter_table.markdown(summary)


def requests(options: Args) -> list[plain_store.Request]:
    """Return one request for each column."""
    bad = [e for e in options.epsilons if not 0 < e < 1]
    if bad:
        raise UsageError(f"epsilons must lie strictly between 0 and 1. Got {bad[0]!r} instead.")
    return [
        plain_store.Request(
            blocks.Cell("middle", e, options.folds, options.trajectories, options.seed),
            options.replications,
            options.letter,
        )
        for e in options.epsilons
    ]
