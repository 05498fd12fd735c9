"""`offpolicy reproduce truth`: does everything that is printed hold as often as it says?

In every world many logs are drawn and evaluated as a user would, with the default estimators. Every printed
quantity — value, difference, lift, p-value, the families and the leader of several policies, segments, gates,
the other estimators of the table, the size of the A/B test — is compared with the truth, at three levels,
among what is not refused and among what is trusted. Some of the logs are written to a file as well and streamed
from there: what is printed must come out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import offpolicy as op
from offpolicy_studies import names
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import simulate
from offpolicy_studies.truth.answers import answers
from offpolicy_studies.truth.streams import compared
from offpolicy_studies.truth.summary import markdown, streams_of, summarize
from offpolicy_studies.truth.worlds import QUICK, WORLDS

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Args:
    """Options of the truth battery."""

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
    """Five worlds only, for a first look."""
    streams: int = 2
    """Logs of each world that are evaluated from a streamed file too; 0 for none."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """A world by name, and the folds."""

    world: str
    folds: int


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log and what held of everything said about it."""
    q = WORLDS[cell.world].ask(rng)
    seed = int(rng.integers(2**31))
    ev = op.evaluate(q.log, q.policies, folds=cell.folds, seed=seed, **q.models)
    return answers(ev, q)


def replicate_stream(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log, read whole and streamed."""
    q = WORLDS[cell.world].ask(rng)
    return compared(q, cell.folds, int(rng.integers(2**31)))


def reproduce(options: Args) -> dict[str, Any]:
    """Run the battery: {"options", "worlds": {name: numbers}}."""
    settings = {"folds": options.folds}
    cells = {name: Cell(name, options.folds) for name in chosen(options)}

    def drawn(work: Any, number: int, file: str, title: str) -> dict[str, list[dict[str, Any]]]:
        if number == 0:
            return {}
        return simulate(
            work,
            cells,
            number,
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / file,
            settings=settings,
            title=title,
        )

    streamed = drawn(replicate_stream, options.streams, "streams.jsonl", "streams")
    found = drawn(replicate, options.replications, "replications.jsonl", "truth")
    answer = {
        "options": {**settings, "replications": options.replications, "seed": options.seed},
        "worlds": {
            name: summarize(rows) | {"streams": streams_of(streamed.get(name, []))} for name, rows in found.items()
        },
    }
    write_results(options.out, answer, show(answer))
    return answer


def chosen(options: Args) -> list[str]:
    """The worlds asked for."""
    if options.quick and not options.worlds:
        return list(QUICK)
    return names.chosen(options.worlds, WORLDS)


def show(result: dict[str, Any]) -> str:
    """What held where, in Markdown."""
    return markdown(result["worlds"])
