"""The CartPole map: for which policy, q̂, length of training and π̂_b is DML best, DR-full, DM?

    python -m offpolicy_studies cartpole-map --out out/cartpole-map

Policies of three values, plain and careful q̂ after several numbers of training steps, five ways of knowing π_b;
the ways share the networks, and a shorter training is the beginning of the longer one. Stages and resuming
are those of `letter`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy_studies.cartpole import blocks, plain_store
from offpolicy_studies.cartpole.letter import STAGES
from offpolicy_studies.cartpole.settings import POLICIES, SMALL, Plain, Settings
from offpolicy_studies.cartpole.study import best_device
from offpolicy_studies.folder import claim, read_lines, write_results

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Most wanted first: a run that is cut short has the middle policy.
ORDER = ("middle", "short", "long")


@dataclass(frozen=True)
class Args:
    """What to reproduce."""

    #: Exploration rates of the behavior policy.
    epsilons: tuple[float, ...] = (0.05, 0.10)
    #: Evaluation policies: short (value 24), middle (42), long (66).
    policies: tuple[str, ...] = ORDER
    #: Data sets per cell.
    replications: int = 50
    #: Episodes per data set.
    trajectories: int = 100
    #: Training steps after which plain q̂ is read off.
    marks: tuple[int, ...] = (500, 2000)
    #: More such steps for the middle policy.
    middle_marks: tuple[int, ...] = (5000,)
    #: Training steps after which careful q̂ is read off; it keeps the best network so far.
    careful: tuple[int, ...] = (500, 2000)
    #: Training steps of the behavior networks, as in the table by the letter.
    behavior_steps: int = 1000
    #: "cuda", "cpu", or None for what is there.
    device: str | None = None
    #: Seed of everything.
    seed: int = 0
    #: Folder of the run.
    out: Path = Path("out/cartpole-map")
    #: Data sets trained at once; None takes 50 on CUDA and 1 on the CPU.
    block: int | None = None
    #: "arrays" stops before the estimators, "estimates" needs arrays from an earlier run.
    stage: str = "all"
    #: Begin no block of networks that is likely to end after so many minutes.
    minutes: float | None = None
    #: Processes for the estimators; None takes up to 8.
    jobs: int | None = None
    #: Choices shared with the tables; None takes the table's on CUDA and smaller ones on a CPU.
    settings: Settings | None = None


def reproduce(options: Args) -> dict[str, Any]:
    """Run the map, or what is left of it, and write ``results.json``, ``table.md`` and ``map.svg``.

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
    wanted = list(requests(options))
    if options.stage != "estimates":
        device = options.device or best_device()
        settings = options.settings or (Settings() if device.startswith("cuda") else SMALL)
        asked = {"seed": options.seed, "trajectories": options.trajectories}
        marks = {k: getattr(options, k) for k in ("marks", "middle_marks", "careful", "behavior_steps")}
        claim(out / "manifest.json", {**asked, **marks, "settings": settings.as_dict()})
        plain_store.make_policies(out, options.seed, settings, device)
        block = options.block or (plain_store.BLOCK if device.startswith("cuda") else 1)
        plain_store.make_arrays(out, wanted, settings, device, block, options.minutes)
        if options.stage == "arrays":
            return {}
    from offpolicy_studies.cartpole import map_picture, map_table, ways

    plain_store.make_estimates(out, wanted, map_table.WAYS, ways.FIVE, options.jobs)
    truths = {name: json.loads((out / f"truth-{name}.json").read_text(encoding="utf-8")) for name in POLICIES}
    summary = map_table.summarize([(r, plain_store.read_estimates(out, r)) for r in wanted], truths)
    summary |= {
        "manifest": json.loads((out / "manifest.json").read_text(encoding="utf-8")),
        "timing": read_lines(out / "timing.jsonl"),
        "runs": read_lines(out / "runs.jsonl"),
    }
    write_results(out, summary, map_table.markdown(summary))
    map_picture.draw(summary, out / "map.svg")
    return summary


def show(summary: dict[str, Any]) -> str:
    """Return what the command line prints."""
    if not summary:
        return "The networks are there, or time was up; run again to continue."
    from offpolicy_studies.cartpole import map_table

    return map_table.markdown(summary)


def requests(options: Args) -> Iterator[plain_store.Request]:
    """Yield one request for each policy and ε, the middle policy's first."""
    unknown = set(options.policies) - set(POLICIES)
    if unknown:
        raise UsageError(f"policies must be among {', '.join(POLICIES)}. Got {sorted(unknown)}.")
    for name in [p for p in ORDER if p in options.policies]:
        marks = options.marks + (options.middle_marks if name == "middle" else ())
        for epsilon in options.epsilons:
            yield plain_store.Request(
                blocks.Cell(name, epsilon, 2, options.trajectories, options.seed),
                options.replications,
                Plain(marks=marks, behavior_steps=options.behavior_steps),
                options.careful,
            )
