"""`offpolicy reproduce fitted`: propensities that were not logged, under logging rules that a model has to find out.

Ten rules draw one of two (or three) actions; rewards follow the same function of the context, so that a model of π_b
that misses it is biased, and so is a model of the reward that misses it in the same place. Logs carry no
propensities; `evaluate` has its defaults, and `randomized=True` truly declares that all columns the rule looks at are
there. Reported: how many logs are answered, how often the 95% interval of `auto` covers among these and among trusted
ones, and how many are refused although self-normalized weights by the true propensities cover and have an effective
size above 200.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import Z, mean, share, simulate

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

EFFECT, ENOUGH, LARGE = 0.4, 200, 1_000_000


@dataclass(frozen=True)
class Args:
    """Options of the study of fitted propensities."""

    replications: int = 100
    """Logs of each world."""
    rows: int = 2000
    """Rows of a log."""
    worlds: tuple[str, ...] = ()
    """Which logging rules; default: all."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Drawn:
    """Contexts with the logging distribution, the mean rewards and the target, one row per decision."""

    context: Any
    behavior: Floats
    reward: Floats
    target: Floats


def _logistic(z: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-z)))


def _two(context: Any, p: Floats, f: Floats) -> Drawn:
    """Two actions: the first earns f; the second, the target's, is taken with probability p and earns f + .4."""
    n = len(p)
    return Drawn(context, np.column_stack([1 - p, p]), np.column_stack([f, f + EFFECT]), np.tile([0.0, 1.0], (n, 1)))


def _logit(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 4))
    s = 0.8 * x[:, 0] - 0.6 * x[:, 1]
    return _two(x, _logistic(s), s + 0.3 * x[:, 2])


def _ring(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.uniform(-2, 2, (n, 2))
    g = np.cos(2.2 * np.hypot(x[:, 0], x[:, 1]))
    return _two(x, 0.1 + 0.8 * _logistic(3 * g), 1.5 * g)


def _xor(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.uniform(-1, 1, (n, 3))
    g = np.sign(x[:, 0] * x[:, 1])
    return _two(x, 0.5 + 0.35 * g, g + 0.3 * x[:, 2])


def _tree(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.uniform(-1, 1, (n, 4))
    left = np.where(x[:, 2] > 0.4, 0.5, np.where(x[:, 3] > 0, -0.7, 0.2))
    leaf = np.where(x[:, 0] > 0.2, np.where(x[:, 1] > -0.3, 1.0, -1.0), left)
    return _two(x, _logistic(1.8 * leaf), 1.2 * leaf)


def _interactions(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 5))
    s = 0.8 * x[:, 0] * x[:, 1] + 0.5 * x[:, 2] * x[:, 3]
    return _two(x, 0.05 + 0.9 * _logistic(s), s)


def _steep(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 3))
    s = 1.6 * x[:, 0] + 0.5 * x[:, 1]
    return _two(x, 0.03 + 0.94 * _logistic(1.3 * s), 0.7 * s)


def _cities(rng: np.random.Generator, n: int) -> Drawn:
    fixed = np.random.default_rng(5)
    of_city, of_device = 0.9 * fixed.normal(size=40), 0.5 * fixed.normal(size=5)
    city, device = rng.integers(40, size=n), rng.integers(5, size=n)
    s = of_city[city] + of_device[device]
    return _two({"city": city, "device": device}, 0.05 + 0.9 * _logistic(s), 0.8 * s)


def _irrelevant(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 31))
    return _two(x, 0.03 + 0.94 * _logistic(1.2 * x[:, 0]), x[:, 0])


def _stairs(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.uniform(0, 1, (n, 3))
    even = np.floor(6 * x[:, 0]) % 2 == 0
    return _two(x, np.where(even, 0.2, 0.75), np.where(even, -0.7, 0.7) + x[:, 1])


def _three(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 3))
    bent = x[:, 1] * (x[:, 2] > 0)
    z = np.exp(np.column_stack([np.zeros(n), 1.2 * np.abs(x[:, 0]) - 1, bent]))
    f = 1.2 * np.abs(x[:, 0]) + 0.8 * bent
    mu = np.column_stack([f, f + 0.3, f - 0.2])
    return Drawn(x, z / z.sum(axis=1, keepdims=True), mu, np.tile([0.1, 0.6, 0.3], (n, 1)))


WORLDS = {
    "logit": _logit,
    "ring": _ring,
    "xor": _xor,
    "tree": _tree,
    "interactions": _interactions,
    "steep": _steep,
    "40 cities": _cities,
    "30 irrelevant columns": _irrelevant,
    "stairs": _stairs,
    "three actions": _three,
}


@lru_cache
def truth(world: str) -> float:
    """The target's value, from a million contexts."""
    drawn = WORLDS[world](np.random.default_rng(987_654), LARGE)
    return float((drawn.reward * drawn.target).sum(axis=1).mean())


def _log(drawn: Drawn, action: Ints, reward: Floats) -> op.BanditLog:
    import pandas as pd

    frame = pd.DataFrame(drawn.context)
    if isinstance(drawn.context, dict):
        frame = frame.astype(str)
    frame.columns = [f"x{name}" for name in frame.columns]
    names = list(frame.columns)
    frame["action"], frame["reward"] = action, reward
    return op.BanditLog.from_frame(frame, context=names, action="action", reward="reward")


def replicate(cell: tuple[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """One log: what `auto` says, the verdict, and what self-normalized weights by the true propensities say."""
    world, n = cell
    drawn, rows = WORLDS[world](rng, n), np.arange(n)
    action = (drawn.behavior.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    reward = drawn.reward[rows, action] + rng.normal(size=n)
    ev = op.evaluate(_log(drawn, action, reward), drawn.target, randomized=True)
    estimate, verdict = ev["auto"], ev.verdict()
    interval = estimate.interval()
    weight = drawn.target[rows, action] / drawn.behavior[rows, action]
    known = float(weight @ reward / weight.sum())
    error = float(np.sqrt(np.mean((weight * (reward - known)) ** 2) / n))
    return {
        "off": (estimate.value - truth(world)) / estimate.std_error,
        "covers": bool(interval.low <= truth(world) <= interval.high),
        "level": verdict.level,
        "answerable": bool(abs(known - truth(world)) <= Z * error and weight.sum() ** 2 / (weight @ weight) > ENOUGH),
        "raised": [finding.name for finding in verdict.findings],
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study: {"options", "worlds": {name: numbers}}."""
    names = options.worlds or tuple(WORLDS)
    found = simulate(
        replicate,
        {name: (name, options.rows) for name in names},
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"rows": options.rows},
        title="fitted propensities",
    )
    answer = {
        "options": {"rows": options.rows, "replications": options.replications, "seed": options.seed},
        "worlds": {name: _numbers(rows) for name, rows in found.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    refused = np.array([r["level"] == "insufficient evidence" for r in rows])
    trusted = np.array([r["level"] == "trust" for r in rows])
    covers, can = (np.array([r[k] for r in rows]) for k in ("covers", "answerable"))
    return {
        "logs": len(rows),
        "answered": int((~refused).sum()),
        "covers": share(covers[~refused]),
        "trusted": int(trusted.sum()),
        "covers_trusted": share(covers[trusted]),
        "refused_needlessly": share(refused[can]),
        "off": mean(np.array([r["off"] for r in rows])),
    }


def show(result: dict[str, Any]) -> str:
    """The table, in Markdown."""
    lines = [
        f"Logs of {result['options']['rows']:,} rows without propensities; 95% intervals of `auto`, default models.",
        "",
        (
            "| logging rule | answered | hold among answered | trusted | hold among trusted | refused needlessly | "
            "mean error / s.e. |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for name, w in result["worlds"].items():
        kept, sure, lost = (100 * np.array(w[k]) for k in ("covers", "covers_trusted", "refused_needlessly"))
        off, error = w["off"]
        lines.append(
            f"| {name} | {w['answered']} of {w['logs']} | {kept[0]:.1f} ± {kept[1]:.1f}% | {w['trusted']} | "
            f"{sure[0]:.1f} ± {sure[1]:.1f}% | {lost[0]:.1f} ± {lost[1]:.1f}% | {off:+.2f} ± {error:.2f} |"
        )
    return "\n".join(lines) + "\n"
