"""`offpolicy reproduce seeds`: does it pay to look for a seed that passes a gate?

Logs in which the target is no better than the logging policy are evaluated with many seeds, and each is gated. The
learners include trees that are never pruned, whose estimate moves by most of a standard error from one draw of the
folds to the next, in small logs and in large ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, share, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

GATE = "policy - logged > 0"


@dataclass(frozen=True)
class Args:
    """Options of the study of seeds."""

    replications: int = 200
    """Logs drawn from each world."""
    seeds: int = 20
    """Seeds that are tried on each log."""
    seed: int = 0
    """Seed of the logs."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class World:
    """Logs of ``n`` rows with no effect, a learner and an estimator.

    ``large`` judges them by one draw of the folds, as gates judge logs of more than 50,000 units, which would take
    long to draw folds for.
    """

    n: int
    learner: str
    estimator: str
    large: bool = False
    seeds: int = 20


WORLDS = {
    "200 rows / cubic / DML": World(200, "cubic", "DML"),
    "200 rows / cubic / DML / judged as a large log": World(200, "cubic", "DML", large=True),
    "1,000 rows / unpruned tree / DML": World(1000, "tree", "DML"),
    "1,000 rows / unpruned tree / DML / judged as a large log": World(1000, "tree", "DML", large=True),
    "1,000 rows / unpruned tree / auto": World(1000, "tree", "auto"),
    "1,000 rows / default models": World(1000, "default", "auto"),
}
#: How far folds move an estimate of a large log, from one log each.
LARGE = {
    "60,000 rows / unpruned tree / DML": World(60_000, "tree", "DML", seeds=5),
    "60,000 rows / default models": World(60_000, "default", "auto", seeds=5),
}


def learner(name: str) -> Any:
    """A reward model that is bad at this, or the default."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures
    from sklearn.tree import DecisionTreeRegressor

    made: dict[str, Callable[[], Any]] = {
        "cubic": lambda: make_pipeline(PolynomialFeatures(3), LinearRegression()),
        "tree": lambda: DecisionTreeRegressor(random_state=0),
        "default": lambda: None,
    }
    return made[name]()


def replicate(world: World, rng: np.random.Generator) -> dict[str, Any]:
    """One log: {"single": whether the first other seed passes, "best": whether any does, "moves": spread / s.e.}.

    ``bare`` is what passing would be without the folds that no seed moves.
    """
    x, a = rng.normal(size=(world.n, 4)), rng.integers(2, size=world.n)
    r = x[:, 0] + rng.normal(size=world.n)
    log = op.BanditLog.from_arrays(x, a, r, np.full(world.n, 0.5))
    values, passed, bare, error = [], [], [], math.nan
    for seed in range(1, world.seeds + 1):
        ev = op.evaluate(
            log, op.policies.Fixed(1), estimators=[world.estimator], reward_model=learner(world.learner), seed=seed
        )
        gap = ev[world.estimator] - ev.logged
        error = gap.std_error
        values.append(gap.value)
        bare.append(bool(gap.interval().low > 0))
        # A gate that does not pass as it is is not asked again.
        draws = 1 if world.large else None
        passed.append(bare[-1] and ev.gate(GATE, draws=draws).exit_code == 0)
    return {"single": passed[0], "best": any(passed), "bare": any(bare), "moves": float(np.std(values, ddof=1)) / error}


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study: {"options", "worlds": {name: numbers}}."""

    def drawn(worlds: dict[str, World], number: int, file: str) -> dict[str, list[dict[str, Any]]]:
        return simulate(
            replicate,
            worlds,
            number,
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / file,
            settings={"seeds": options.seeds},
            title="seeds",
        )

    large = drawn(LARGE, 1, "large.jsonl")
    asked = {name: replace(world, seeds=options.seeds) for name, world in WORLDS.items()}
    found = drawn(asked, options.replications, "replications.jsonl")
    answer = {
        "options": {"seeds": options.seeds, "replications": options.replications},
        "worlds": {name: _numbers(rows) for name, rows in found.items()},
        "large": {name: rows[0]["moves"] for name, rows in large.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _numbers(found: list[dict[str, Any]]) -> dict[str, Any]:
    flags = {k: share(np.array([r[k] for r in found])) for k in ("single", "best", "bare")}
    return {**flags, "moves": mean(np.array([r["moves"] for r in found])), "logs": len(found)}


def show(result: dict[str, Any]) -> str:
    """How often a gate passes that should not, in Markdown."""
    seeds = result["options"]["seeds"]
    lines = [
        f"Gates `{GATE}` that pass although there is no difference (2.5% are allowed for one look).",
        "",
        (
            "| world | logs | folds move it by | one seed "
            f"| best of {seeds} seeds | best of {seeds} if nothing were asked again |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for name, w in result["worlds"].items():
        shares = [f"{100 * w[k][0]:.1f} ± {100 * w[k][1]:.1f}%" for k in ("single", "best", "bare")]
        lines.append(f"| {name} | {w['logs']} | {w['moves'][0]:.2f} s.e. | {' | '.join(shares)} |")
    for name, moves in result["large"].items():
        lines.append(f"| {name} | 1 | {moves:.2f} s.e. | – | – | – |")
    return "\n".join(lines)
