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
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy_studies.decide import sets as bandits
from offpolicy_studies.decide.published import BOUNDS
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import share, simulate

if TYPE_CHECKING:
    from offpolicy.decide.select import Method
    from offpolicy_studies.arrays import Floats

LOGGING, TARGETS, NOISES = (0.3, 0.25, 0.2), (0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.1, 0.2)
DELTA, FAULTY, NOISE = 0.05, (0, 1), 0.2
METHODS: tuple[Method, ...] = ("auto", "exploration", "bernstein", "interval")
ADOPTING: tuple[Method, ...] = ("auto", "interval")
AS_LOGGED = "as logged"
OURS, KNOWN = "op.select, auto", "op.select, bernstein"
PUBLISHED = {
    "logarithmic smoothing": 0.305,
    "implicit exploration": 0.366,
    "empirical Bernstein": 0.674,
}
NULLS = {"even": (0.25, 0.25, 0.25, 0.25), "skewed": (0.85, 0.09, 0.04, 0.02)}


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


@dataclass(frozen=True)
class Cell:
    """One data set."""

    folders: bandits.Folders
    name: str


def radii(cell: Cell, rng: np.random.Generator) -> list[dict[str, float]]:
    """Relative radius of each bound, for every noise, logging and target temperature."""
    _, y = bandits.read(cell.folders, cell.name)
    k, n = int(y.max()) + 1, len(y)
    targets = {f"{t}": bandits.knowing(y, k, t) for t in TARGETS}
    found = []
    for noise in NOISES:
        for temperature in LOGGING:
            pi_b = bandits.knowing(y, k, temperature, FAULTY)
            drawn = bandits.draw(pi_b, y, noise, n, rng)
            whole = op.BanditLog.from_arrays(
                None, drawn.action, drawn.reward, pi_b[drawn.rows], actions=range(k)
            )
            logs = {OURS: drawn.log(None, k), KNOWN: whole}
            for table in targets.values():
                truth = bandits.value(table, y, noise)
                pi = table[drawn.rows]
                pi_e = pi[np.arange(n), drawn.action]
                bounds = {
                    b: f(pi_e, drawn.propensity, drawn.reward, DELTA) for b, f in BOUNDS.items()
                }
                used: dict[str, Method] = {OURS: "auto", KNOWN: "bernstein"}
                for ours, method in used.items():
                    ev = op.evaluate(logs[ours], {"policy": pi}, estimators=["IPW"])
                    low = op.select(ev, rate=DELTA, method=method).candidates[0].value_bound
                    bounds[ours] = max(low, 0.0)
                found.append({b: max(truth - low, 0.0) / truth for b, low in bounds.items()}
                             | {f"{b}, above": float(low > truth) for b, low in bounds.items()})  # fmt: skip
    return found


def choices(cell: Cell, rng: np.random.Generator) -> dict[str, str]:
    """What each rule adopts: best, better or worse."""
    X, y = bandits.read(cell.folders, cell.name)
    k, n = int(y.max()) + 1, len(y)
    order = rng.permutation(n)
    train, pool = order[: n // 5], order[n // 5 :]
    pi_b = bandits.knowing(y, k, 0.2, FAULTY)
    first = bandits.draw(pi_b[train], y[train], NOISE, len(train), rng)
    tables = {"knows": bandits.knowing(y[pool], k, 0.1)}
    for name, normalized in (("weighted", False), ("self-normalized", True)):
        weights = softmax_by_weights(X[train][first.rows], first, k, normalized=normalized)
        tables[name] = softmax(X[pool] @ weights / 0.1)
    log = bandits.draw(pi_b[pool], y[pool], NOISE, n // 2, rng)
    values = {name: bandits.value(t, y[pool], NOISE) for name, t in tables.items()}
    values[LOGGING_POLICY] = bandits.value(pi_b[pool], y[pool], NOISE)
    at = {name: t[log.rows] for name, t in tables.items()}
    ev = op.evaluate(
        op.BanditLog.from_arrays(
            None, log.action, log.reward, pi_b[pool][log.rows], actions=range(k)
        ),
        at,
        estimators=["IPW"],
    )
    adopted = {f"op.select, {m}": op.select(ev, method=m).chosen for m in METHODS}
    logged = pi_b[pool][log.rows]
    both = op.evaluate(
        op.BanditLog.from_arrays(None, log.action, log.reward, logged, actions=range(k)),
        {AS_LOGGED: logged, **at},
        estimators=["IPW"],
    )
    lows = {c.policy: c.value_bound for c in op.select(both).candidates}
    highest = max((AS_LOGGED, *at), key=lambda name: lows[name])
    adopted["highest bound by op.select"] = LOGGING_POLICY if highest == AS_LOGGED else highest
    rows = np.arange(len(log.rows))
    # Ties, such as of bounds of 0, go to the logging policy, as published.
    chances = {LOGGING_POLICY: log.propensity}
    chances |= {name: t[rows, log.action] for name, t in at.items()}
    for bound, f in BOUNDS.items():
        low = {name: f(p, log.propensity, log.reward, DELTA / 4) for name, p in chances.items()}
        adopted[bound] = max(low, key=lambda name: low[name])
    ratio = {name: p / log.propensity for name, p in chances.items()}
    plain = {name: float((w * log.reward).mean()) for name, w in ratio.items()}
    normal = {name: float((w * log.reward).sum() / w.sum()) for name, w in ratio.items()}
    adopted["largest IPS"] = max(plain, key=lambda name: plain[name])
    adopted["largest SNIPS"] = max(normal, key=lambda name: normal[name])
    return {rule: _kind(name, values) for rule, name in adopted.items()}


def _kind(name: str, values: dict[str, float]) -> str:
    if name == "knows":
        return "best"
    return "better" if values[name] >= values[LOGGING_POLICY] else "worse"


def softmax(z: Floats) -> Floats:
    """Row-wise softmax."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def softmax_by_weights(X: Floats, log: bandits.Drawn, k: int, *, normalized: bool) -> Floats:
    """(d, K) weights of the linear softmax policy with the largest (self-normalized) importance-weighted value."""
    from scipy.optimize import minimize

    inverse = 1 / log.propensity
    gains = [log.reward * inverse, inverse] if normalized else [log.reward * inverse]
    rows, chosen = np.arange(len(X)), np.eye(k)[log.action]

    def loss(flat: Floats) -> tuple[float, Floats]:
        pi = softmax(X @ flat.reshape(-1, k))
        total, slope = 0.0, np.zeros((X.shape[1], k))
        for sign, gain in zip((1.0, -1.0), gains, strict=False):
            parts = gain * pi[rows, log.action]
            whole = max(float(parts.sum()), 1e-12)
            total += sign * np.log(whole)
            slope += sign * X.T @ ((parts / whole)[:, None] * (chosen - pi))
        return -total, -slope.ravel()

    start = np.zeros(X.shape[1] * k)
    return np.asarray(
        minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    ).reshape(-1, k)


def null(p: tuple[float, ...], rng: np.random.Generator) -> dict[str, float]:
    """Whether each method adopts one of ten candidates that earn no more than the logging policy."""
    n, k = 600, len(p)
    x, action = rng.normal(size=(n, 2)), rng.choice(k, p=p, size=n)
    reward = (rng.random(n) < 0.1).astype(np.float64)
    log = op.BanditLog.from_arrays(x, action, reward, np.tile(p, (n, 1)))
    policies = {f"p{i}": softmax(x @ (2 * rng.normal(size=(2, k)))) for i in range(10)}
    ev = op.evaluate(log, policies, estimators=["IPW"])
    found: dict[str, Any] = {}
    found |= {m: op.select(ev, method=m) for m in ADOPTING}
    fitted = op.evaluate(
        log, policies, estimators=["SNIPW"], behavior_model="shares", randomized=True
    )
    found["interval, propensities estimated"] = op.select(fitted)
    return {m: float(not s.keeps_logging) for m, s in found.items()}


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
    made = run(choices, cells, options.trials, "choices")
    nulls = run(null, NULLS, options.nulls, "nulls")
    rules = next(iter(made.values()))[0]
    answer = {
        "options": {"trials": options.trials, "nulls": options.nulls, "seed": options.seed},
        "radius": {
            b: {name: float(np.mean([r[b] for r in rows])) for name, rows in bounds.items()}
            for b in (*BOUNDS, OURS, KNOWN)
        },
        "above": {
            b: share(np.array([r[f"{b}, above"] for rows in bounds.values() for r in rows]))
            for b in (*BOUNDS, OURS, KNOWN)
        },
        "tighter": float(
            np.mean(
                [r[OURS] <= r["logarithmic smoothing"] for rows in bounds.values() for r in rows]
            )
        ),
        "choices": {
            rule: {
                kind: sum(trial[rule] == kind for trials in made.values() for trial in trials)
                for kind in ("best", "better", "worse")
            }
            for rule in rules
        },
        "nulls": {
            world: {m: share(np.array([r[m] for r in found])) for m in found[0]}
            for world, found in nulls.items()
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
        f"{OURS} is at least as tight as logarithmic smoothing in {result['tighter']:.1%} of cells.",
        "",
        f"{trials} choices.",
        "",
        "| rule | best | better | worse than logging |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {rule} | {c['best']} | {c['better']} | {c['worse']} |"
        for rule, c in result["choices"].items()
    ]
    lines += [
        "",
        "Ten candidates, none better than the logging policy: how often one is adopted.",
        "",
        "| logging | method | adopted |",
        "|---|---|---|",
    ]
    for world, rows in result["nulls"].items():
        lines += [
            f"| {world} | {m} | {value:.1%} ± {error:.1%} |" for m, (value, error) in rows.items()
        ]
    return "\n".join(lines)
