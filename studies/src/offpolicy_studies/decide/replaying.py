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

FRESH = 4096  # contexts on which policies are valued, evenly spread (Sobol), so that few are enough
BINS = 3
RUNS = 8  # fresh online runs beside each replayed log


@dataclass(frozen=True)
class Args:
    """Options of the study of replay."""

    data: Path | None = None
    """Folder with router/ inside; default: the variable OFFPOLICY_DATA; without either the router is left out."""
    replications: int = 200
    """Logs of each simulated world."""
    routed: int = 500
    """Logs of the router."""
    part: str = ""
    """progressive, rejection or router: only this part; default: all."""
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

    @property
    def model(self) -> str:
        """The reward model: lines, but where rewards are none; there the default."""
        return "auto" if self.kind == "bent" else "linear"

    def contexts(self, n: int, rng: np.random.Generator) -> Array:
        """(n, 3) numbers."""
        return rng.normal(size=(n, 3))

    def spread(self) -> Array:
        """Contexts that stand for all: means over them are exact to about 1e-4."""
        points = stats.qmc.Sobol(3, seed=0).random(FRESH)
        return np.asarray(stats.norm.ppf(points.clip(1e-9, 1 - 1e-9)))

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
        reward_model=world.model, randomized=not world.known, seed=int(rng.integers(2**31)),
    )  # fmt: skip
    fresh = world.spread()
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
        out[f"{name} IPW"] = [ev[name, "IPW"].value - known, 1.0, 0.0, 0.0]
        i = ev[name, "auto"].interval()
        refused = ev.verdict(name, "auto").level == "insufficient evidence"
        out[f"{name} auto"] = [ev[name, "auto"].value - known, float(i.covers(known)), float(refused), i.width]
    a, b = truth
    between, gap = (ev[a, "auto"] - ev[b, "auto"]), truth[a] - truth[b]
    i = between.interval()
    either = max(out[f"{name} auto"][2] for name in truth)
    out["difference"] = [between.value - gap, float(i.covers(gap)), either, i.width]
    return out


class Valued(op.learners.LinUCB):
    """LinUCB that knows the value of each of its policies, in a world where that is known."""

    def start(self, contexts: Array, means: Array) -> Valued:
        """Contexts to value policies on, and what actions earn there."""
        self.contexts, self.means = contexts, means
        self.values = [float(means.mean())]  # it begins with all actions alike
        return self

    def __deepcopy__(self, _: Any) -> Valued:
        return self

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Learn, and value the policy that this leads to."""
        super().update(context, action, reward, propensity)
        self.values.append(float((self.probabilities(self.contexts) * self.means).sum(axis=1).mean()))


def rejection(world: World, rng: np.random.Generator) -> dict[str, Any]:
    """Mean rewards of accepted rows by a third of the steps, and of fresh online runs; the value against the truth."""
    w = world.draw(rng)
    n = world.rows
    fresh = world.spread()
    learner = Valued().start(fresh, world.means(fresh))
    ev = op.replay(
        log_of(world, w), {"LinUCB": learner}, method="rejection", time=np.arange(n),
        estimators=["auto"], reward_model=world.model, seed=int(rng.integers(2**31)),
    )  # fmt: skip
    made = ev.replayed
    accepted = made.accepted["LinUCB"]
    taken = w["r"][made.rows[accepted]]
    steps = len(taken)
    # Every row was scored by the policy of the rows accepted before it.
    moment = np.concatenate([[0], np.cumsum(accepted)[:-1]])
    truth = float(np.array(learner.values)[moment].mean())
    runs = np.stack([_online(world, steps, rng) for _ in range(RUNS)])
    by_step = [[float(part.mean()) for part in np.array_split(r, BINS)] for r in (taken, runs[0])]
    i = ev["LinUCB", "auto"].interval()
    refused = ev.verdict("LinUCB", "auto").level == "insufficient evidence"
    return {
        "replayed": by_step[0], "online": by_step[1], "steps": steps, "expected": made.accept * len(made.rows),
        "value": ev["LinUCB", "auto"].value, "truth": truth, "earned": float(runs.sum() / RUNS),
        "held": float(i.covers(truth)), "refused": float(refused),
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
    ev = op.replay(
        log, {name: op.learners.EpsilonGreedy()}, reward_model="linear", estimators=["auto", "IPW"],
        seed=int(rng.integers(2**31)),
    )  # fmt: skip
    own, values = op.learners.EpsilonGreedy().bind((0, 1)), []
    for t in range(20):
        now = block == t
        if t > 0:
            values.append(float((own.probabilities(x) * answers).sum(axis=1).mean()))
        own.update(x[some][now], a[now], r[now], None)
    truth = float(np.mean(values))
    found = {}
    i = ev[name, "auto"].interval()
    refused = ev.verdict(name, "auto").level == "insufficient evidence"
    found["auto"] = [ev[name, "auto"].value - truth, float(i.covers(truth)), float(refused), i.width]
    found["IPW"] = [ev[name, "IPW"].value - truth, 1.0, 0.0, 0.0]
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

    wanted = (options.part,) if options.part else tuple(TASKS)
    if not set(wanted) <= set(TASKS):
        raise op.errors.UsageError(f"--part {options.part}: choose among {', '.join(TASKS)}.")
    answer: dict[str, Any] = {
        "options": {k: getattr(options, k) for k in ("replications", "routed", "part", "quick", "seed")}
    }
    if "progressive" in wanted:
        made = run(PROGRESSIVE, options.replications, "progressive")
        answer["progressive"] = {
            name: {key: _summary([r[key] for r in rows]) for key in rows[0]} for name, rows in made.items()
        }
    if "rejection" in wanted:
        replayed = run(REJECTION, options.replications, "rejection")
        answer["rejection"] = {name: _against(rows) for name, rows in replayed.items()}
    folder = None
    if "router" in wanted:
        try:
            folder = router_folder(options.data)
        except op.errors.OffPolicyError:
            if options.part:
                raise
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
    value, truth, earned, steps = (np.array([r[key] for r in rows]) for key in ("value", "truth", "earned", "steps"))
    # A row is accepted with probability c whatever the policy, so a log of n rows values the expected sum of rewards
    # over the steps it takes, divided by c · n. Each log has its own c, and a learner earns more where c is larger:
    # sums over all logs would weigh those more than `value` does. E[steps] = c · n in each log, which lowers the noise.
    supported = np.array([r["expected"] for r in rows])
    per_step = earned.sum() / steps.sum()
    gap = value - (earned - per_step * (steps - supported)) / supported
    answered = [r["held"] for r in rows if not r["refused"]]
    return {
        "p": p, "bias": mean(value - truth), "online": mean(gap), "steps": mean(steps),
        "expected": float(np.mean([r["expected"] for r in rows])), "coverage": share(np.array(answered)),
        "refused": share(np.array([r["refused"] for r in rows])), "logs": len(rows),
    }  # fmt: skip


def show(result: dict[str, Any]) -> str:
    """Tables in Markdown."""
    parts = {"progressive": _progressive, "rejection": _rejection, "router": _router}
    return "\n\n".join("\n".join(make(result[part])) for part, make in parts.items() if part in result)


def _progressive(found: dict[str, Any]) -> list[str]:
    lines = [
        "| world | RMSE ÷ IPW's | with the true q | coverage LinUCB | ε-greedy | difference | refused | logs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every: dict[str, list[Any]] = {"value": [], "difference": [], "ratio": [], "least": []}
    for name, rows in found.items():
        u, e, d, i = (rows[key] for key in ("LinUCB auto", "ε-greedy auto", "difference", "LinUCB IPW"))
        ratio, least = u["rmse"][0] / i["rmse"][0], rows["LinUCB oracle"]["rmse"][0] / i["rmse"][0]
        every["value"] += [u, e]
        every["difference"].append(d)
        every["ratio"].append(ratio)
        every["least"].append(least)
        lines.append(
            f"| {name} | {ratio:.2f} | {least:.2f} | {_percent(u['coverage'])} | {_percent(e['coverage'])} | "
            f"{_percent(d['coverage'])} | {u['refused'][0]:.0%} | {u['logs']} |"
        )
    pooled = {key: _pooled(every[key]) for key in ("value", "difference")}
    means = {key: float(np.exp(np.mean(np.log(every[key])))) for key in ("ratio", "least")}
    held = f"values {_percent(pooled['value'])}, differences {_percent(pooled['difference'])}"
    errors = f"geometric mean of the errors {means['ratio']:.2f} of IPW's, with the true q {means['least']:.2f}"
    return [*lines, "", f"All worlds together: {held}; {errors}."]


def _rejection(found: dict[str, Any]) -> list[str]:
    lines = [
        "| world | steps | expected | value − truth ± s.e. | value − online ± s.e. | coverage | least p of 3 | logs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, r in found.items():
        gaps = " | ".join(f"{r[key][0]:+.4f} ± {r[key][1]:.4f}" for key in ("bias", "online"))
        lines.append(
            f"| {name} | {r['steps'][0]:.0f} | {r['expected']:.0f} | {gaps} | {_percent(r['coverage'])} | "
            f"{min(r['p']):.3f} | {r['logs']} |"
        )
    tests = [p for r in found.values() for p in r["p"]]
    least = min(1.0, min(tests) * len(tests))
    return [*lines, "", f"Holm: the smallest of {len(tests)} p-values times their number is {least:.2f}."]


def _router(found: dict[str, Any]) -> list[str]:
    errors = f"RMSE {found['auto']['rmse'][0]:.4f} (IPW {found['IPW']['rmse'][0]:.4f})"
    bias, held = found["auto"]["bias"][0], _percent(found["auto"]["coverage"])
    return [f"Router, {found['auto']['logs']} logs: {errors}, bias {bias:+.4f}, coverage {held}."]


def _pooled(rows: list[Any]) -> tuple[float, float]:
    """Share over all worlds, each weighing by the logs that were answered."""
    n = np.array([r["logs"] * (1 - r["refused"][0]) for r in rows])
    held = float(np.average([r["coverage"][0] for r in rows], weights=n))
    return held, float(np.sqrt(held * (1 - held) / n.sum()))


def _percent(measured: Any) -> str:
    return f"{measured[0]:.1%} ± {measured[1]:.1%}"
