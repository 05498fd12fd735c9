"""`offpolicy reproduce corruptions`: what the verdict says of logs with a known defect.

Each defect is put into logs of a clean world. A defect that a check can see should be refused, or at least lead
to caution; one that none can see is shown all the same, with the coverage of the intervals that were trusted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import share, simulate
from offpolicy_studies.names import chosen
from offpolicy_studies.trust.defects import DEFECTS
from offpolicy_studies.trust.false_alarms import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = {"insufficient evidence": "refused", "caution": "cautioned", "trust": "trusted"}


@dataclass(frozen=True)
class Args:
    """Options of the matrix of corruptions."""

    replications: int = 100
    """Logs drawn with each defect."""
    defects: tuple[str, ...] = ()
    """Names of defects, or beginnings of names; all when empty."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


def replicate(defect: str, rng: np.random.Generator) -> dict[str, Any]:
    """One log: the verdict, and the checks that led to it."""
    ev = DEFECTS[defect].draw(rng).evaluate(int(rng.integers(2**31)))
    verdict = ev.verdict()
    return {
        "verdict": verdict.level,
        "by": [f.name for f in verdict.findings if f.decides or verdict.level == "caution"],
        "assumed": bool(ev.assumption),
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run the matrix.

    Returns
    -------
    dict
        ``options``; ``defects``: for each the shares refused, cautioned and trusted, with their errors, the checks
        that spoke most often, and whether one could.
    """
    names = chosen(options.defects, DEFECTS)
    drawn = simulate(
        replicate,
        {name: name for name in names},
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={},
        title="corruptions",
    )
    answer = {
        "options": {"replications": options.replications, "seed": options.seed},
        "defects": {name: {"seen": DEFECTS[name].seen, **of_defect(found)} for name, found in drawn.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def of_defect(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What was said of the logs with one defect."""
    spoken = Counter(name for f in found for name in f["by"])
    return {
        **{word: share(np.array([f["verdict"] == level for f in found])) for level, word in LEVELS.items()},
        "by": {name: number / len(found) for name, number in spoken.most_common(3)},
    }


def show(result: dict[str, Any]) -> str:
    """The matrix in Markdown."""
    lines = ["| defect | can be seen | refused | cautioned | trusted | by |", "|---|---|---|---|---|---|"]
    for name, row in result["defects"].items():
        by = ", ".join(f"`{check}` {100 * x:.3g}%" for check, x in row["by"].items()) or "–"
        cells = " | ".join(percent(row[word]) for word in LEVELS.values())
        lines.append(f"| {name} | {'yes' if row['seen'] else 'no'} | {cells} | {by} |")
    return "\n".join(lines)
