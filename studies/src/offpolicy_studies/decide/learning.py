"""`offpolicy reproduce learning`: what learned policies are worth, and what the library says they are worth.

A policy tree is learned from a log (`op.learn_policy`), and its true value is exact: on ten classification sets made
into bandits, in two simulated worlds whose best tree is known, and in three campaigns of the simulated ad platform,
where clicks are rare (the paper's Figure 2). Reported: how often the honest interval covers the true value,
and the interval of the value on its own rows beside it; what the policy gains over the logging policy; regret against
the best tree. On small cases the search is compared with every tree there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.decide import sets as bandits
from offpolicy_studies.decide import worlds
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, share, simulate

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

MODELS = ("means", "auto")
DEPTHS = (2, 3)


@dataclass(frozen=True)
class Args:
    """Options of the study of learning."""

    data: Path | None = None
    """Folder with uci/ and router/ inside; default: the variable OFFPOLICY_DATA."""
    sets: tuple[str, ...] = bandits.SETS
    """Classification sets."""
    replications: int = 100
    """Logs of each simulated world, each set and each campaign."""
    rows: int = 1000
    """Rows of a log; campaigns have twenty times as many."""
    small: int = 200
    """Small cases on which every tree is tried."""
    depth: int = 2
    """Questions in a row."""
    reward_model: str = "means"
    """means (of each action) or auto."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """One world and what is learned in it."""

    kind: str
    name: str
    folders: bandits.Folders
    rows: int
    depth: int
    reward_model: str


def world_of(cell: Cell) -> worlds.World:
    """The world of a cell."""
    if cell.kind == "simulated":
        return worlds.simulated(cell.name)
    if cell.kind == "set":
        return worlds.classified(cell.folders, cell.name)
    return worlds.campaign(worlds.CAMPAIGNS.index(cell.name))


def replicate(cell: Cell, rng: np.random.Generator) -> list[float]:
    """[covered, covered by the naive interval, true value, honest, naive, logging, logging's true value if known]."""
    world = world_of(cell)
    log = world.log(cell.rows, rng)
    found = op.learn_policy(
        log, max_depth=cell.depth, reward_model=_model(cell.reward_model), seed=int(rng.integers(2**31))
    )
    chosen = found.policy.bind(tuple(world.actions)).choices(world.context)
    truth = world.value(chosen)
    logged = found.evaluation.logged.value
    if world.logging is not None:
        logged = float(world.share @ (world.logging * world.means).sum(axis=1))
    return [
        float(found.interval().covers(truth)),
        float(found.naive.interval().covers(truth)),
        truth,
        found.value.value,
        found.naive.value,
        found.evaluation.logged.value,
        logged,
    ]


def _model(name: str) -> Any:
    if name == "auto":
        return None
    from sklearn.dummy import DummyRegressor

    return op.models.PerAction(DummyRegressor())


def small_case(depth: int, rng: np.random.Generator) -> list[float]:
    """[what the found tree earns per row, what the best tree there is earns] on 120 rows of three columns."""
    n, k = 120, 3
    X = rng.integers(5, size=(n, 3)).astype(float)
    effects = rng.normal(size=(5, 5, k))
    rewards = effects[X[:, 0].astype(int), X[:, 1].astype(int)] + rng.normal(size=(n, k))
    action = rng.integers(k, size=n)
    log = op.BanditLog.from_arrays(X, action, rewards[np.arange(n), action], np.full(n, 1 / k), actions=range(k))
    seen: dict[int, Floats] = {}

    def keep(_: Any, scores: Floats, labels: Any) -> Any:
        seen[len(scores)] = scores
        return op.policies.Fixed(labels[0])

    # What a learner of one's own is given are the scores that the tree is searched by.
    asked = {"reward_model": _model("means"), "folds": 2}
    op.learn_policy(log, keep, **asked)
    tree = op.learn_policy(log, max_depth=depth, min_rows=5, **asked).policy
    earned = seen[n][np.arange(n), tree.bind(tuple(range(k))).choices(X)].mean()
    return [float(earned), exhaustive([*X.T.astype(int)], [5, 5, 5], seen[n], 5, depth) / n]


def exhaustive(codes: list[Ints], bins: list[int], scores: Floats, smallest: int, depth: int) -> float:
    """The most that any tree of this depth over the bins earns, by trying all."""

    def earn(rows: Ints, left: int) -> float:
        plain = float(scores[rows].sum(axis=0).max())
        if left == 0 or len(rows) < 2 * smallest:
            return plain
        best = plain
        for j, code in enumerate(codes):
            for at in range(bins[j] - 1):
                side = code[rows] <= at
                inside = int(side.sum())
                if smallest <= inside <= len(rows) - smallest:
                    best = max(best, earn(rows[side], left - 1) + earn(rows[~side], left - 1))
        return best

    return earn(np.arange(len(scores)), depth)


def reproduce(options: Args) -> dict[str, Any]:
    """Run all worlds and the small cases."""
    folders = bandits.Folders.of(options.data, options.sets)
    kinds = [
        *(("simulated", name) for name in worlds.SIMULATED),
        *(("set", name) for name in options.sets),
        *(("campaign", name) for name in worlds.CAMPAIGNS),
    ]
    cells = {
        name: Cell(
            kind, name, folders, options.rows * (20 if kind == "campaign" else 1), options.depth, options.reward_model
        )
        for kind, name in kinds
    }

    def run(part: Any, cells: dict[str, Any], times: int, title: str) -> dict[str, list[Any]]:
        return simulate(
            part,
            cells,
            times,
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / f"{title.replace(' ', '-')}.jsonl",
            settings={k: getattr(options, k) for k in ("rows", "depth", "reward_model")},
            title=title,
        )

    made = run(replicate, cells, options.replications, "learned policies")
    small = run(small_case, {f"depth {d}": d for d in DEPTHS}, options.small, "small cases")
    settings = ("replications", "rows", "small", "depth", "reward_model", "seed")
    answer = {
        "options": {k: getattr(options, k) for k in settings},
        "worlds": {name: _summary(cells[name], np.array(rows)) for name, rows in made.items()},
        "small": {name: _regret(np.array(rows)) for name, rows in small.items()},
    }
    answer["coverage"] = {
        kind: {
            which: share(np.concatenate([np.array(made[n])[:, j] for k, n in kinds if k == kind]))
            for j, which in enumerate(("honest", "naive"))
        }
        for kind in dict.fromkeys(k for k, _ in kinds)
    }
    write_results(options.out, answer, show(answer))
    return answer


def _summary(cell: Cell, x: Floats) -> dict[str, Any]:
    best = world_of(cell).best
    return {
        "kind": cell.kind,
        "honest": share(x[:, 0]),
        "naive": share(x[:, 1]),
        "true": mean(x[:, 2]),
        "honest_value": mean(x[:, 3]),
        "naive_value": mean(x[:, 4]),
        "logging": float(x[:, 6].mean()),
        "better": share(x[:, 2] > x[:, 6]),
        "regret": None if best is None else mean(best - x[:, 2]),
    }


def _regret(x: Floats) -> dict[str, Any]:
    gap = x[:, 1] - x[:, 0]
    return {"same": share(gap < 1e-9), "regret": mean(gap), "best": mean(x[:, 1])}


def show(result: dict[str, Any]) -> str:
    """Worlds, then coverage by kind, then the small cases, in Markdown."""
    headings = (
        "world", "logging policy", "learned, true value", "honest value", "naive value", "honest interval covers",
        "naive interval covers", "better than logging", "regret",
    )  # fmt: skip
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for name, r in result["worlds"].items():
        regret = "–" if r["regret"] is None else f"{r['regret'][0]:.4f}"
        values = " | ".join(f"{r[k][0]:.4f}" for k in ("true", "honest_value", "naive_value"))
        shares = " | ".join(f"{r[k][0]:.1%}" for k in ("honest", "naive", "better"))
        lines.append(f"| {name} | {r['logging']:.4f} | {values} | {shares} | {regret} |")
    lines += ["", "| worlds | honest interval covers | naive interval covers |", "|---|---|---|"]
    for kind, r in result["coverage"].items():
        cells = " | ".join(f"{r[k][0]:.1%} ± {r[k][1]:.1%}" for k in ("honest", "naive"))
        lines.append(f"| {kind} | {cells} |")
    lines += ["", "| small cases | the best tree there is | regret per row | of a best value of |", "|---|---|---|---|"]
    for name, r in result["small"].items():
        lines.append(f"| {name} | {r['same'][0]:.1%} | {r['regret'][0]:.5f} | {r['best'][0]:.3f} |")
    return "\n".join(lines)
