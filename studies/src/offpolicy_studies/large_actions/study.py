"""`offpolicy reproduce large-actions`: coarse ratios where there are many actions.

Four tables: mean squared errors of IPS and MIPS in the published world (`published`); coverage of intervals with
exact and coarse ratios in worlds where features say all (`worlds`); how often the check speaks where they do not; and,
for a deterministic target whose own weights carry no test, how often the check of the log does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import Any, Literal

import numpy as np

import offpolicy as op
from offpolicy.models import ConstantReward, LinearReward
from offpolicy_studies.folder import write_results
from offpolicy_studies.large_actions import published
from offpolicy_studies.large_actions.worlds import Policy, World
from offpolicy_studies.monte_carlo import mean, share, simulate
from offpolicy_studies.names import chosen

#: MSE(IPS) / MSE(MIPS) as published, at so many actions.
PUBLISHED = {10: 1.38, 5000: 12.38}
HEADER = (
    "world", "ratio", "target", "answered", "covered: value", "difference", "lift", "MSE", "bias", "width", "coarse",
    "check ran", "check cautions",
)  # fmt: skip
WHY = (
    "against the value of the log itself",
    "of MIPS's error: logs have another value than the one compared with",
    "largest weight, IPS / MIPS",
    "IPS: squares of one row among all",
)
LEANING = ("world", "logs", "`cell_leaning` speaks", "answered", "covered: value", "difference", "lift", "bias")
DIRECT = (0.0, 0.1, 0.3)
RATIOS = {"exact": "exact", "cells": op.CoarseRatio(), "auto": "auto"}


@dataclass(frozen=True)
class Args:
    """Options of the study of many actions."""

    actions: tuple[int, ...] = (10, 100, 1000, 5000)
    """Numbers of actions of the published world."""
    logs: int = 20
    """Logs of each number of actions and published world; half of them from 5,000 actions on."""
    replications: int = 100
    """Logs of each world of the tables of coverage and of the check."""
    rows: int = 3000
    """Rows of these logs."""
    worlds: tuple[str, ...] = ()
    """Beginnings of names: only these worlds of the table of coverage, and no other table; all when empty."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 1
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Mean:
    """The mean reward, whatever context and action: all is left to the weights."""

    def fit_reward(self, data: Any, seed: int) -> ConstantReward:
        """Fit."""
        return ConstantReward(data.mean())


@dataclass(frozen=True)
class Cell:
    """A world, what is known of its logging policy, and the reward model."""

    world: World
    rows: int
    known: bool = True
    modeled: bool = True
    ratios: tuple[str, ...] = ("exact", "cells", "auto")


def cells(options: Args) -> dict[str, Cell]:
    """Every world that is simulated."""
    n, cheap = options.rows, ("cells", "auto")
    every = {
        "features say all": Cell(World(), n),
        "features say all, π_b of cells fitted": Cell(World(), n, known=False, ratios=("cells",)),
        "direct effect 0, weights alone": Cell(World(), n, modeled=False, ratios=cheap),
        "direct effect 0.1, weights alone": Cell(World(direct=0.1), n, modeled=False, ratios=cheap),
        "direct effect 0.3, weights alone": Cell(World(direct=0.3), n, modeled=False, ratios=cheap),
        "direct effect 0.3, modeled": Cell(World(direct=0.3), n, ratios=cheap),
    }
    return {name: every[name] for name in chosen(options.worlds, every)}


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log under each ratio: {ratio: {target: what was found}}."""
    world = cell.world
    log = world.log(cell.rows, rng)
    found: dict[str, Any] = {}
    for name in cell.ratios:
        ev = op.evaluate(
            log,
            world.targets(),
            estimators=["DML"],
            ratio=RATIOS[name],
            reward_model=LinearReward() if cell.modeled else Mean(),
            behavior_model=Policy(world, 0.5) if cell.known else None,
            randomized=True,
        )
        found[name] = {target: _found(ev, target, world.values) for target in ev.policies}
    return found


def _found(ev: op.Evaluation, target: str, values: dict[str, float]) -> dict[str, Any]:
    e, logged = ev[target, "DML"], values["logged"]
    verdict = ev.verdict(target)
    asked = {
        "value": (e.interval(), values[target]),
        "difference": ((e - ev.logged).interval(), values[target] - logged),
        "lift": (e.lift(ev.logged).interval(), values[target] / logged - 1),
    }
    checks = ev.diagnostics[target]
    check = checks.get("coarse_ratio")
    return {
        "error": e.value - values[target],
        "width": e.interval().high - e.interval().low,
        "answered": verdict.level != "insufficient evidence",
        "covers": {k: bool(i.low <= v <= i.high) for k, (i, v) in asked.items()},
        "coarse": ev.settings["ratio"] != "exact",
        "p": float(check) if check is not None and check.ran else None,
        "level": None if check is None else check.level,
    }


def leaning(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log with a deterministic target alone, weighted by cells: the check of the log, verdict and coverage."""
    world = cell.world
    ev = op.evaluate(
        world.log(cell.rows, rng),
        {"mode": world.targets()["mode"]},
        estimators=["DML"],
        ratio=op.CoarseRatio(),
        reward_model=LinearReward() if cell.modeled else Mean(),
        behavior_model=Policy(world, 0.5),
    )
    found = _found(ev, "mode", world.values)
    return {**found, "leaning": ev.diagnostics["mode", "cell_leaning"].level}


def published_errors(options: Args) -> dict[str, Any]:
    """Mean squared errors in three published worlds of each number of actions."""
    rows = {}
    for k in options.actions:
        number = max(2, options.logs // 2) if k >= 5000 else options.logs
        rows[str(k)] = {"logs": number, "worlds": [_errors(k, number, seed, options.seed) for seed in range(3)]}
    return rows


def _errors(k: int, number: int, world_seed: int, seed: int) -> dict[str, dict[str, float]]:
    """In one world: {value compared with: {estimator: mean squared error}}."""
    world, rng = published.World(k, world_seed), np.random.default_rng([seed, k, world_seed])
    shared = published.weights_of_dimensions(rng)
    truth = published.draw(world, 2_000 if k >= 5000 else 10_000, shared, rng).value
    logs = [published.draw(world, 10_000, published.weights_of_dimensions(rng), rng) for _ in range(number)]

    def mse(ratio: Literal["exact", "marginal"], value: float | None) -> float:
        errors = [published.squared_error(log, ratio, log.value if value is None else value) for log in logs]
        return float(np.mean(errors))

    return {
        **{
            against: {"IPS": mse("exact", value), "MIPS": mse("marginal", value)}
            for against, value in (("published", truth), ("own", None))
        },
        "why": _why(logs, truth),
    }


def _why(logs: list[published.Log], truth: float) -> dict[str, float]:
    """What the ratio of the errors comes from: a value that is another log's, and single rows of large weight."""

    def one_row(log: published.Log) -> float:
        square = (log.exact * log.reward) ** 2
        return float(square.max() / square.sum())

    return {
        "apart": float(np.mean([(log.value - truth) ** 2 for log in logs])),
        "largest": float(np.median([log.exact.max() for log in logs])),
        "largest marginal": float(np.median([log.marginal.max() for log in logs])),
        "one row": float(np.median([one_row(log) for log in logs])),
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run everything."""
    drawn = simulate(
        replicate,
        cells(options),
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"rows": options.rows},
        title="many actions",
    )
    told = {True: "modeled", False: "weights alone"}
    leaned = simulate(
        leaning,
        {
            f"direct effect {d:g}, {told[m]}": Cell(World(direct=d), options.rows, modeled=m)
            for d in ([] if options.worlds else DIRECT)
            for m in (True, False)
        },
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "leaning.jsonl",
        settings={"rows": options.rows},
        title="a deterministic target",
    )
    answer = {
        "options": {"rows": options.rows, "replications": options.replications},
        "published": {} if options.worlds else published_errors(options),
        "worlds": {name: summary(found) for name, found in drawn.items()},
        "leaning": {name: leaning_summary(found) for name, found in leaned.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def summary(found: list[Any]) -> list[dict[str, Any]]:
    """One row per ratio and target."""
    rows = []
    for ratio in found[0]:
        for target in found[0][ratio]:
            each = [f[ratio][target] for f in found]
            answered = [f for f in each if f["answered"]]
            tested = [f for f in each if f["p"] is not None]
            rows.append(
                {
                    "ratio": ratio,
                    "target": target,
                    "answered": share(np.array([f["answered"] for f in each]))[0],
                    "mse": mean(np.array([f["error"] ** 2 for f in each]))[0],
                    "bias": mean(np.array([f["error"] for f in each]))[0],
                    "width": mean(np.array([f["width"] for f in answered]))[0] if answered else None,
                    "cover": {
                        k: share(np.array([f["covers"][k] for f in answered])) for k in ("value", "difference", "lift")
                    },
                    "coarse": share(np.array([f["coarse"] for f in each]))[0],
                    "tested": len(tested) / len(each),
                    "cautions": (
                        sum(f["level"] in {"caution", "alarm"} for f in tested) / len(tested) if tested else None
                    ),
                }
            )
    return rows


def leaning_summary(found: list[Any]) -> dict[str, Any]:
    """How often the check of the log speaks, how often that decides, and coverage of what is answered."""
    answered = [f for f in found if f["answered"]]
    return {
        "logs": len(found),
        "speaks": share(np.array([f["leaning"] in {"caution", "alarm"} for f in found]))[0],
        "answered": len(answered) / len(found),
        "cover": [share(np.array([f["covers"][k] for f in answered]))[0] for k in ("value", "difference", "lift")],
        "bias": mean(np.array([f["error"] for f in found]))[0],
    }


def show(result: dict[str, Any]) -> str:
    """The tables in Markdown."""
    lines = [
        f"| actions | logs | MSE(IPS) / MSE(MIPS), three worlds | {' | '.join(WHY)} | published |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for k, row in result["published"].items():
        found = [", ".join(f"{w[a]['IPS'] / w[a]['MIPS']:.3g}" for w in row["worlds"]) for a in ("published", "own")]
        known, why = PUBLISHED.get(int(k)), [w["why"] for w in row["worlds"]]
        apart = [w["why"]["apart"] / w["published"]["MIPS"] for w in row["worlds"]]
        cells = [
            ", ".join(f"{100 * share:.0f}%" for share in apart),
            ", ".join(f"{w['largest']:,.0f} / {w['largest marginal']:,.0f}" for w in why),
            ", ".join(f"{100 * w['one row']:.0f}%" for w in why),
        ]
        lines.append(
            f"| {int(k):,} | 3 × {row['logs']} | {found[0]} | {found[1]} | {' | '.join(cells)} | "
            f"{'' if known is None else known} |"
        )
    lines += ["", f"| {' | '.join(HEADER)} |", "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, rows in result["worlds"].items():
        lines += [f"| {name} | {_row(row)} |" for row in rows]
    lines += ["", f"| {' | '.join(LEANING)} |", "|---|---|---|---|---|---|---|---|"]
    for name, row in result["leaning"].items():
        cells = [percent(row["speaks"]), percent(row["answered"]), *map(percent, row["cover"])]
        lines.append(f"| {name} | {row['logs']} | {' | '.join(cells)} | {row['bias']:+.2g} |")
    return "\n".join(lines) + "\n"


def percent(value: float | None) -> str:
    """A share in a table."""
    return "–" if value is None or np.isnan(value) else f"{100 * value:.0f}%"


def _row(row: dict[str, Any]) -> str:
    covered = [percent(row["cover"][k][0]) for k in ("value", "difference", "lift")]
    width = "–" if row["width"] is None else f"{row['width']:.2f}"
    return " | ".join(
        [
            row["ratio"],
            row["target"],
            percent(row["answered"]),
            *covered,
            f"{row['mse']:.2g}",
            f"{row['bias']:+.2g}",
            width,
            percent(row["coarse"]),
            percent(row["tested"]),
            percent(row["cautions"]),
        ]
    )
