"""`offpolicy reproduce replay`: what algorithms that learn would have earned, in worlds where that is known.

*Progressive*: in each world a log of ten blocks is replayed by LinUCB and by an ε-greedy ridge learner. The truth is
Σ_t V(π_t) / T with V computed on 20,000 fresh contexts. Reported: error against IPW's, coverage of values and of the
difference between the learners, refusals. *Rejection*: the rewards of accepted rows, by step, against fresh online
runs of the same learner, and the doubly robust value against what those runs earned. *Router*: 14,042 prompts answered
by two language models; 20 blocks of 200 requests, routed at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

import offpolicy as op
from offpolicy_studies.decide.sets import router_folder
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, root_mean_square, share, simulate

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Array

FRESH = 20_000
BINS = 3
RUNS = 4  # fresh online runs beside each replayed log


@dataclass(frozen=True)
class Args:
    """Options of the study of replay."""

    data: Path | None = None
    """Folder with router/ inside; default: the variable OFFPOLICY_DATA; without either the router is left out."""
    replications: int = 200
    """Logs of each simulated world."""
    routed: int = 500
    """Logs of the router."""
    quick: bool = False
    """A tenth of the logs."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class World:
    """A simulated bandit and how it was logged."""

    name: str
    task: str = "progressive"
    arms: int = 3
    kind: str = "normal"  # rewards: normal, clicks, bent (not linear in the context)
    steep: float = 0.5  # how strongly logging follows the context
    drift: float = 0.0  # change of the rewards from the first block to the last
    turning: bool = False  # logging changes from block to block
    known: bool = True  # propensities are logged
    cost: bool = False  # rewards are costs, to be minimized
    users: int = 1  # rows of one cluster
    rows: int = 2000
    blocks: int = 10
    folder: Path | None = None

    def contexts(self, n: int, rng: np.random.Generator) -> Array:
        """(n, 3) numbers."""
        return rng.normal(size=(n, 3))

    def means(self, x: Array, moment: Any = 0.0) -> Array:
        """(n, K) expected rewards at a moment between 0 and 1."""
        angle = 2 * np.pi * np.arange(self.arms) / self.arms
        signal = np.cos(angle) * x[:, [0]] + np.sin(angle) * x[:, [1]]
        if self.kind == "bent":
            signal = np.abs(signal) - 0.8
        signal = signal + self.drift * np.reshape(moment, (-1, 1)) * np.cos(angle + 1)
        if self.kind == "clicks":
            return np.asarray(1 / (1 + np.exp(1.5 - signal)))
        return np.asarray(0.2 + 0.3 * signal)

    def logging(self, x: Array, moment: Any) -> Array:
        """(n, K) probabilities of the logging policy."""
        angle = 2 * np.pi * np.arange(self.arms) / self.arms
        turn = 2.0 * np.reshape(moment, (-1, 1)) if self.turning else 0.0
        z = self.steep * (np.cos(angle + turn) * x[:, [0]] + np.sin(angle) * x[:, [2]])
        p = np.exp(z)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def earn(self, q: Array, rng: np.random.Generator) -> Array:
        """Rewards with these means."""
        if self.kind == "clicks":
            return (rng.random(q.shape) < q) * 1.0
        return q + 0.4 * rng.normal(size=q.shape)

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """A log as arrays."""
        n = self.rows
        block = np.arange(n) // (n // self.blocks)
        x = self.contexts(n // self.users, rng).repeat(self.users, axis=0)
        moment = block / (self.blocks - 1)
        p = self.logging(x, moment)
        a = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=self.arms - 1)
        at = np.arange(n)
        r = self.earn(self.means(x, moment)[at, a], rng)
        return {"x": x, "a": a, "r": -r if self.cost else r, "p": p[at, a], "block": block}


PROGRESSIVE = (
    World("linear"),
    World("clicks", kind="clicks"),
    World("bent", kind="bent"),
    World("ten arms", arms=10, rows=4000),
    World("steep logging", steep=1.5),
    World("drift", drift=1.5),
    World("logging that turns", turning=True),
    World("costs", cost=True),
    World("users of four rows", users=4),
    World("small", rows=600, blocks=6),
    World("π_b estimated", known=False),
    World("π_b estimated, clicks", known=False, kind="clicks"),
)
REJECTION = tuple(
    World(f"{w.name}, rejection", "rejection", w.arms, w.kind, w.steep, rows=w.rows)
    for w in (
        World("linear"), World("clicks", kind="clicks"), World("bent", kind="bent"), World("steep", steep=1.0),
        World("five arms", arms=5), World("two arms", arms=2), World("uniform logging", steep=0.0),
        World("longer", rows=4000),
    )
)  # fmt: skip


def learners() -> dict[str, Any]:
    """The algorithms that are compared."""
    return {"LinUCB": op.learners.LinUCB(), "ε-greedy": op.learners.EpsilonGreedy()}


def log_of(world: World, w: dict[str, Array]) -> Any:
    """The log that replay reads."""
    users = np.arange(len(w["a"])) // world.users if world.users > 1 else None
    known = w["p"] if world.known else None
    return op.BanditLog.from_arrays(
        w["x"], w["a"], w["r"], known, batch=w["block"], cluster=users, actions=range(world.arms)
    )


def progressive(world: World, rng: np.random.Generator) -> dict[str, Any]:
    """Errors, whether intervals hold, refusals; of each learner and of their difference."""
    w = world.draw(rng)
    ev = op.replay(
        log_of(world, w), learners(), estimators=["auto", "IPW"], minimize=world.cost,
        randomized=not world.known, seed=int(rng.integers(2**31)),
    )  # fmt: skip
    fresh = world.contexts(FRESH, rng)
    sign = -1.0 if world.cost else 1.0
    truth: dict[str, float] = {}
    for name, learner in learners().items():
        own = learner.bind(tuple(range(world.arms)))
        values, sizes = [], []
        for t in range(world.blocks):
            now = w["block"] == t
            if t > 0:
                q = sign * world.means(fresh, np.full(FRESH, t / (world.blocks - 1)))
                values.append(float((own.probabilities(fresh) * q).sum(axis=1).mean()))
                sizes.append(int(now.sum()))
            own.update(w["x"][now], w["a"][now], sign * w["r"][now], w["p"][now])
        truth[name] = float(np.average(values, weights=sizes))
    out = {}
    rows = ev.replayed.rows
    q = sign * world.means(w["x"][rows], w["block"][rows] / (world.blocks - 1))
    taken = q[np.arange(len(rows)), w["a"][rows]]
    for name, known in truth.items():
        # The doubly robust mean with the true rewards and propensities: no estimate can do much better.
        p = ev.targets[name].probabilities(np.arange(len(rows)))
        weight = p[np.arange(len(rows)), w["a"][rows]] / w["p"][rows]
        best = float(((p * q).sum(axis=1) + weight * (w["r"][rows] - taken)).mean())
        out[f"{name} oracle"] = [best - known, 1.0, 0.0, 0.0]
        for estimator in ("auto", "IPW"):
            e = ev[name, estimator]
            i = e.interval()
            refused = ev.verdict(name, estimator).level == "insufficient evidence"
            out[f"{name} {estimator}"] = [
                e.value - known, float(i.covers(known)), float(refused), i.width,
            ]  # fmt: skip
    a, b = truth
    between, gap = (ev[a, "auto"] - ev[b, "auto"]), truth[a] - truth[b]
    i = between.interval()
    out["difference"] = [between.value - gap, float(i.covers(gap)), 0.0, i.width]
    return out


def rejection(world: World, rng: np.random.Generator) -> dict[str, Any]:
    """Mean rewards of accepted rows by a third of the steps, and of a fresh online run; the doubly robust value."""
    w = world.draw(rng)
    n = world.rows
    ev = op.replay(
        log_of(world, w), {"LinUCB": op.learners.LinUCB()}, method="rejection", time=np.arange(n),
        estimators=["auto"], seed=int(rng.integers(2**31)),
    )  # fmt: skip
    made = ev.replayed
    taken = w["r"][made.rows[made.accepted["LinUCB"]]]
    steps = len(taken)
    runs = np.stack([_online(world, steps, rng) for _ in range(RUNS)])
    earned = runs[0]
    by_step = [[float(part.mean()) for part in np.array_split(r, BINS)] for r in (taken, earned)]
    expected = made.accept * len(made.rows)
    i = ev["LinUCB", "auto"].interval()
    return {
        "replayed": by_step[0], "online": by_step[1], "steps": steps, "expected": expected,
        "value": ev["LinUCB", "auto"].value, "earned": float(runs.sum() / RUNS), "width": i.width,
    }  # fmt: skip


def _online(world: World, steps: int, rng: np.random.Generator) -> Array:
    """Rewards of a fresh run of LinUCB that acts by itself."""
    learner = op.learners.LinUCB().bind(tuple(range(world.arms)))
    earned = np.empty(steps)
    for step in range(steps):
        x = world.contexts(1, rng)
        action = int(rng.choice(world.arms, p=learner.probabilities(x)[0]))
        earned[step] = world.earn(world.means(x)[0, [action]], rng)[0]
        learner.update(x, [action], earned[step : step + 1], None)
    return earned


def routed(world: World, rng: np.random.Generator) -> dict[str, Any]:
    """20 blocks of 200 requests to one of two language models."""
    import pandas as pd

    assert world.folder is not None
    table = pd.read_csv(world.folder / "router_mmlu.csv.gz")
    answers = table.iloc[:, -2:].to_numpy(dtype=np.float64)
    x = np.column_stack([np.log(table["characters"]), table["digits"] > 0, table["question_marks"]])
    some = rng.integers(len(table), size=4000)
    a = rng.integers(2, size=4000)
    r, block = answers[some, a], np.arange(4000) // 200
    log = op.BanditLog.from_arrays(x[some], a, r, np.full(4000, 0.5), batch=block)
    name = "ε-greedy"
    ev = op.replay(log, {name: op.learners.EpsilonGreedy()}, estimators=["auto", "IPW"], seed=int(rng.integers(2**31)))
    own, values = op.learners.EpsilonGreedy().bind((0, 1)), []
    for t in range(20):
        now = block == t
        if t > 0:
            values.append(float((own.probabilities(x) * answers).sum(axis=1).mean()))
        own.update(x[some][now], a[now], r[now], None)
    truth = float(np.mean(values))
    found = {}
    for e in ("auto", "IPW"):
        i = ev[name, e].interval()
        refused = ev.verdict(name, e).level == "insufficient evidence"
        found[e] = [ev[name, e].value - truth, float(i.covers(truth)), float(refused), i.width]
    return found


TASKS = {"progressive": progressive, "rejection": rejection, "router": routed}


def replicate(world: World, rng: np.random.Generator) -> Any:
    """One log."""
    return TASKS[world.task](world, rng)


def reproduce(options: Args) -> dict[str, Any]:
    """Run all worlds."""
    scale = 10 if options.quick else 1

    def run(worlds: tuple[World, ...], times: int, title: str) -> dict[str, list[Any]]:
        return simulate(
            replicate,
            {w.name: w for w in worlds},
            max(times // scale, 2),
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / f"{title}.jsonl",
            title=title,
        )

    made = run(PROGRESSIVE, options.replications, "progressive")
    replayed = run(REJECTION, options.replications, "rejection")
    answer: dict[str, Any] = {
        "options": {k: getattr(options, k) for k in ("replications", "routed", "quick", "seed")},
        "progressive": {
            name: {key: _summary([r[key] for r in rows]) for key in rows[0]} for name, rows in made.items()
        },
        "rejection": {name: _against(rows) for name, rows in replayed.items()},
    }
    try:
        folder = router_folder(options.data)
    except op.errors.OffPolicyError:
        folder = None
    if folder is not None:
        found = run((World("router", "router", folder=folder),), options.routed, "router")["router"]
        answer["router"] = {key: _summary([r[key] for r in found]) for key in found[0]}
    write_results(options.out, answer, show(answer))
    return answer


def _summary(rows: list[list[float]]) -> dict[str, Any]:
    x = np.array(rows, dtype=np.float64)
    return {
        "rmse": root_mean_square(x[:, 0]), "bias": mean(x[:, 0]), "coverage": share(x[x[:, 2] == 0, 1]),
        "refused": share(x[:, 2]), "width": mean(x[:, 3]), "logs": len(x),
    }  # fmt: skip


def _against(rows: list[Any]) -> dict[str, Any]:
    """Accepted rewards against online ones: p-values by thirds of the steps, and the bias of the value."""
    a, b = (np.array([r[key] for r in rows]) for key in ("replayed", "online"))
    p = [float(stats.ks_2samp(a[:, j], b[:, j]).pvalue) for j in range(BINS)]
    value, earned, steps = (np.array([r[key] for r in rows]) for key in ("value", "earned", "steps"))
    # A row of the log stands for the same share of a step whatever the policy: the value is that of the expected sum
    # of rewards over the expected number of steps, a ratio, whose error the delta method gives.
    online = earned.sum() / steps.sum()
    gap = value - online - (earned - online * steps) / steps.mean()
    return {
        "p": p, "bias": mean(gap), "steps": mean(steps),
        "expected": float(np.mean([r["expected"] for r in rows])), "logs": len(rows),
    }  # fmt: skip


def show(result: dict[str, Any]) -> str:
    """Tables in Markdown."""
    lines = [
        "| world | RMSE auto ÷ IPW, LinUCB | true q ÷ IPW | coverage LinUCB | ε-greedy | difference | refused | logs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in result["progressive"].items():
        u, e, d = rows["LinUCB auto"], rows["ε-greedy auto"], rows["difference"]
        least = rows["LinUCB oracle"]["rmse"][0]
        lines.append(
            f"| {name} | {u['rmse'][0] / rows['LinUCB IPW']['rmse'][0]:.2f} | "
            f"{least / rows['LinUCB IPW']['rmse'][0]:.2f} | {_percent(u['coverage'])} | "
            f"{_percent(e['coverage'])} | {_percent(d['coverage'])} | {u['refused'][0]:.0%} | {u['logs']} |"
        )
    tests = sorted(p for r in result["rejection"].values() for p in r["p"])
    lines += [
        "",
        "| world | steps | expected | bias of the value ± s.e. | smallest p of three |",
        "|---|---|---|---|---|",
    ]
    for name, r in result["rejection"].items():
        lines.append(
            f"| {name} | {r['steps'][0]:.0f} | {r['expected']:.0f} | {r['bias'][0]:+.4f} ± {r['bias'][1]:.4f} | "
            f"{min(r['p']):.3f} |"
        )
    least = min(1.0, tests[0] * len(tests))
    lines += ["", f"Holm: the smallest of {len(tests)} p-values times their number is {least:.2f}."]
    if "router" in result:
        r = result["router"]
        errors = f"RMSE {r['auto']['rmse'][0]:.4f} (IPW {r['IPW']['rmse'][0]:.4f})"
        bias, held = r["auto"]["bias"][0], _percent(r["auto"]["coverage"])
        lines += ["", f"Router, {r['auto']['logs']} logs: {errors}, bias {bias:+.4f}, coverage {held}."]
    return "\n".join(lines)


def _percent(measured: Any) -> str:
    return f"{measured[0]:.1%} ± {measured[1]:.1%}"
