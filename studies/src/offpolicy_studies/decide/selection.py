"""`offpolicy reproduce selection`: lower bounds and choices of a published comparison, and wrong adoptions.

Settings of Sakhi, Aouali, Alquier and Chopin, "Logarithmic Smoothing for Pessimistic Off-Policy Evaluation, Selection
and Learning" (NeurIPS 2024), on ten sets instead of their eleven:

* radius: a policy that knows the labels (temperatures .1 to .5) is bounded from the log of one that errs on two labels
  (temperatures .2, .25, .3), rewards flipped with probability 0, .1, .2; (value − bound)/value at δ = .05;
* choice: the same with temperatures .1 and .2 and noise .2, beside two softmax policies learned from a fifth of the
  rows by importance weighting and its self-normalized kin; eleven logs of half of the rows per set; "best" is the
  policy that knows, "worse" anything below the logging policy;
* nulls: ten candidates that earn what the logging policy earns.

Rows are drawn with replacement, so that values are exact and rows independent; the two learned policies are at the
optimum of their objective (L-BFGS), not after 50,000 steps towards it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import Any

import numpy as np

from offpolicy_studies.decide import sets as bandits
from offpolicy_studies.decide.published import BOUNDS
from offpolicy_studies.decide.selection_trials import DELTA, NULLS, OURS, TAKEN, Cell, ceiling, choices, null, radii
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import share, simulate

SMOOTHING = "logarithmic smoothing"
PUBLISHED = {SMOOTHING: 0.305, "implicit exploration": 0.366, "empirical Bernstein": 0.674}


@dataclass(frozen=True)
class Args:
    """Options of the study of selection."""

    data: Path | None = None
    """Folder with uci/ and router/ inside; default: the variable OFFPOLICY_DATA."""
    sets: tuple[str, ...] = bandits.SETS
    """Data sets."""
    trials: int = 11
    """Logs of each set on which a choice is made."""
    nulls: int = 200
    """Logs of each kind in which no candidate is better."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


def reproduce(options: Args) -> dict[str, Any]:
    """Run the three parts."""
    folders = bandits.Folders.of(options.data, options.sets)
    cells = {name: Cell(folders, name) for name in options.sets}

    def run(part: Any, cells: dict[str, Any], times: int, title: str) -> dict[str, list[Any]]:
        return simulate(
            part,
            cells,
            times,
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / f"{title}.jsonl",
            title=title,
        )

    bounds = {name: found[0] for name, found in run(radii, cells, 1, "radii").items()}
    most = run(ceiling, cells, 1, "ceilings")
    made = run(choices, cells, options.trials, "choices")
    nulls = run(null, NULLS, options.nulls, "nulls")
    rules = next(iter(made.values()))[0]
    answer = {
        "options": {"trials": options.trials, "nulls": options.nulls, "seed": options.seed},
        "radius": {
            b: {name: float(np.mean([r[b] for r in rows])) for name, rows in bounds.items()}
            for b in (*BOUNDS, OURS, TAKEN)
        },
        "above": {
            b: share(np.array([r[f"{b}, above"] for rows in bounds.values() for r in rows]))
            for b in (*BOUNDS, OURS, TAKEN)
        },
        "tighter": {
            ours: float(np.mean([r[ours] <= r[SMOOTHING] for rows in bounds.values() for r in rows]))
            for ours in (OURS, TAKEN)
        },
        "ceiling": {name: found[0] for name, found in most.items()},
        "choices": {
            rule: {
                kind: sum(trial[rule] == kind for trials in made.values() for trial in trials)
                for kind in ("best", "better", "worse")
            }
            for rule in rules
        },
        "nulls": {
            world: {m: share(np.array([r[m] for r in found])) for m in found[0]} for world, found in nulls.items()
        },
    }
    write_results(options.out, answer, show(answer))
    return answer


def show(result: dict[str, Any]) -> str:
    """Three tables in Markdown."""
    sets = list(next(iter(result["radius"].values())))
    lines = [
        "Relative radius of the lower bound, averaged over noises and temperatures; how often it lies above the value.",
        "",
        f"| bound | {' | '.join(sets)} | all | published | above |",
        "|---" * (len(sets) + 4) + "|",
    ]
    for bound, row in result["radius"].items():
        cells = " | ".join(f"{row[s]:.3f}" for s in sets)
        published = f"{PUBLISHED[bound]:.3f}" if bound in PUBLISHED else "–"
        all_of = float(np.mean(list(row.values())))
        above = result["above"][bound][0]
        lines.append(f"| {bound} | {cells} | {all_of:.3f} | {published} | {above:.1%} |")
    trials = sum(next(iter(result["choices"].values())).values())
    lines += [
        "",
        *(
            f"{ours} is at least as tight as logarithmic smoothing in {at_least:.1%} of cells."
            for ours, at_least in result["tighter"].items()
        ),
        "",
        f"{trials} choices.",
        "",
        "| rule | best | better | worse than logging |",
        "|---|---|---|---|",
    ]
    lines += [f"| {rule} | {c['best']} | {c['better']} | {c['worse']} |" for rule, c in result["choices"].items()]
    lines += [
        "",
        f"No rule that is wrong in at most {DELTA:.0%} of logs can be expected to choose the best in more than "
        f"{trials * float(np.mean(list(result['ceiling'].values()))):.0f}: "
        + ", ".join(f"{name} {power:.0%}" for name, power in result["ceiling"].items())
        + ".",
        "",
        "Ten candidates, none better than the logging policy: how often one is adopted.",
        "",
        "| logging | method | adopted |",
        "|---|---|---|",
    ]
    for world, rows in result["nulls"].items():
        lines += [f"| {world} | {m} | {value:.1%} ± {error:.1%} |" for m, (value, error) in rows.items()]
    return "\n".join(lines)
