"""`offpolicy reproduce false-alarms`: how often each check finds fault with a log in which nothing is wrong.

Every world's propensities are right, its rows independent as declared, its overlap good. A caution or an alarm
is a false one, and so is a verdict other than "trust". Notes (advice that leaves the verdict alone) are counted
apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import Measured, share, simulate
from offpolicy_studies.names import chosen
from offpolicy_studies.trust.worlds import WORLDS

if TYPE_CHECKING:
    from collections.abc import Sequence

RAISED = ("caution", "alarm")


@dataclass(frozen=True)
class Args:
    """Options of the table of false alarms."""

    replications: int = 200
    """Logs drawn from each world."""
    worlds: tuple[str, ...] = ()
    """Names of worlds, or beginnings of names; all when empty."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


def replicate(world: str, rng: np.random.Generator) -> dict[str, Any]:
    """One log: the verdict, and the checks that raised a caution, an alarm or a note."""
    ev = WORLDS[world].draw(rng).evaluate(int(rng.integers(2**31)))
    verdict, statistics = ev.verdict(), [s for f in ev.diagnostics for s in f.statistics]
    return {
        "verdict": verdict.level,
        "raised": {f.name: f.level for f in statistics if f.level != "ok"},
        "checks": sorted({f.name for f in statistics if np.isfinite(f.value)}),
        "grounds": list(verdict.grounds),
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run the table.

    Returns
    -------
    dict
        ``options``; ``worlds``: for each world the share not trusted, with its error, and the checks that
        raised something; ``checks``: for each check the worlds it applies to and its worst share.
    """
    names = chosen(options.worlds, WORLDS)
    drawn = simulate(
        replicate,
        {name: name for name in names},
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={},
        title="false alarms",
    )
    answer = {
        "options": {"replications": options.replications, "seed": options.seed},
        "worlds": {name: of_world(found) for name, found in drawn.items()},
        "checks": by_check(drawn),
    }
    write_results(options.out, answer, show(answer))
    return answer


def of_world(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What one world's logs were told."""

    def times(levels: Sequence[str]) -> dict[str, float]:
        counted = Counter(n for f in found for n, level in f["raised"].items() if level in levels)
        return {name: number / len(found) for name, number in counted.most_common()}

    return {
        "not trusted": share(np.array([f["verdict"] != "trust" for f in found])),
        "refused": share(np.array([f["verdict"] == "insufficient evidence" for f in found])),
        "raised": times(RAISED),
        "notes": times(("note",)),
        "grounds": dict(Counter(g for f in found for g in f["grounds"]).most_common(3)),
    }


def by_check(drawn: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """For each check: worlds in which it applies, false alarms over all of them, and the worst world."""
    out = {}
    for name in sorted({n for found in drawn.values() for f in found for n in f["checks"]}):
        flags = {
            world: np.array([f["raised"].get(name) in RAISED for f in found if name in f["checks"]])
            for world, found in drawn.items()
        }
        flags = {world: x for world, x in flags.items() if len(x)}
        worst = max(flags, key=lambda w: flags[w].mean())
        out[name] = {
            "worlds": len(flags),
            "share": share(np.concatenate(list(flags.values()))),
            "worst": share(flags[worst]),
            "where": worst,
        }
    return out


def percent(measured: Measured | Sequence[float]) -> str:
    """A share with its Monte Carlo error.

    >>> percent((0.005, 0.0049))
    '0.5 ± 0.5%'
    """
    value, error = measured
    return f"{100 * value:.1f} ± {100 * error:.1f}%"


def show(result: dict[str, Any]) -> str:
    """The table of checks, then that of worlds, in Markdown."""
    lines = ["| check | worlds | false alarms | worst world | there |", "|---|---|---|---|---|"]
    for name, row in result["checks"].items():
        where = row["where"] if row["worst"][0] > 0 else "–"
        lines.append(
            f"| `{name}` | {row['worlds']} | {percent(row['share'])} | {where} | "
            f"{percent(row['worst']) if row['worst'][0] > 0 else '0%'} |"
        )
    lines += ["", "| clean world | not trusted | refused | by | notes |", "|---|---|---|---|---|"]
    for name, row in result["worlds"].items():
        lines.append(
            f"| {name} | {percent(row['not trusted'])} | {percent(row['refused'])} | "
            f"{_listed(row['raised'])} | {_listed(row['notes'])} |"
        )
    return "\n".join(lines)


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"`{name}` {100 * x:.3g}%" for name, x in shares.items()) or "–"
