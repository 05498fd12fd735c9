"""The three parts of the study `selection`: radii of bounds, choices, and adoptions where nothing is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.decide import sets as bandits
from offpolicy_studies.decide.published import BOUNDS

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats

LOGGING_POLICY = "(logging policy)"  # what comparisons and choices call it
LOGGING, TARGETS, NOISES = (0.3, 0.25, 0.2), (0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.1, 0.2)
DELTA, FAULTY, NOISE = 0.05, (0, 1), 0.2
METHODS: tuple[str, ...] = ("auto", "exploration", "bernstein", "interval")
ADOPTING: tuple[str, ...] = METHODS
OURS, TAKEN = "op.select", "op.select, only the taken action's propensity logged"
RATES = (0.05, 0.2, 0.5)
NULLS = {"even": (0.25, 0.25, 0.25, 0.25), "skewed": (0.85, 0.09, 0.04, 0.02)}


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
            whole = op.BanditLog.from_arrays(None, drawn.action, drawn.reward, pi_b[drawn.rows], actions=range(k))
            logs = {OURS: whole, TAKEN: drawn.log(None, k)}
            for table in targets.values():
                truth = bandits.value(table, y, noise)
                pi = table[drawn.rows]
                pi_e = pi[np.arange(n), drawn.action]
                bounds = {b: f(pi_e, drawn.propensity, drawn.reward, DELTA) for b, f in BOUNDS.items()}
                for ours, log in logs.items():
                    ev = op.evaluate(log, {"policy": pi}, estimators=["SNIPW"])
                    low = op.select(ev, rate=DELTA).candidates[0].value_bound
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
        op.BanditLog.from_arrays(None, log.action, log.reward, pi_b[pool][log.rows], actions=range(k)),
        at,
        estimators=["SNIPW"],
    )
    adopted = {f"{OURS}, {m}": op.select(ev, method=m).chosen for m in METHODS[1:]}
    adopted |= {f"{OURS}, rate {r:g}": op.select(ev, rate=r).chosen for r in RATES}
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


def ceiling(cell: Cell, rng: np.random.Generator) -> float:
    """Share of logs in which any rule that is wrong in at most 5% of them can adopt the policy that knows.

    The power of Neyman and Pearson's test, which is told the true rewards beforehand, against the nearest null: rewards
    of the same actions, as close as can be to the true ones in relative entropy, under which the policy earns no more
    than the logging policy. A rule that does not know the rewards, or has three candidates to choose from, has less.
    """
    from scipy.optimize import brentq

    _, y = bandits.read(cell.folders, cell.name)
    k, n = int(y.max()) + 1, len(y)
    pi_b, right = bandits.knowing(y, k, 0.2, FAULTY), np.eye(k)[y]
    excess = bandits.knowing(y, k, 0.1) / pi_b - 1
    p = NOISE + (1 - 2 * NOISE) * right

    def nearest(tilt: float) -> Floats:
        t = np.where(np.abs(tilt * excess) < 1e-12, 1e-12, tilt * excess)
        return np.asarray((1 + t - np.sqrt((1 + t) ** 2 - 4 * t * p)) / (2 * t))

    def gain(log_tilt: float) -> float:
        return float((pi_b * excess * nearest(np.exp(log_tilt))).sum() / n)

    q = nearest(float(np.exp(brentq(gain, -20.0, 20.0))))

    def evidence(rewards: Floats) -> float:
        drawn = bandits.draw(pi_b, y, 0.0, n // 2, rng)
        at = drawn.rows, drawn.action
        won = rng.random(n // 2) < rewards[at]
        return float(np.where(won, np.log(p[at] / q[at]), np.log((1 - p[at]) / (1 - q[at]))).sum())

    times = 400 if n < 2000 else 50
    critical = np.quantile([evidence(q) for _ in range(times)], 1 - DELTA)
    return float(np.mean([evidence(p) > critical for _ in range(times)]))


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
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x).reshape(-1, k)


def null(p: tuple[float, ...], rng: np.random.Generator) -> dict[str, float]:
    """Whether each method adopts one of ten candidates that earn no more than the logging policy."""
    n, k = 600, len(p)
    x, action = rng.normal(size=(n, 2)), rng.choice(k, p=p, size=n)
    reward = (rng.random(n) < 0.1).astype(np.float64)
    log = op.BanditLog.from_arrays(x, action, reward, np.tile(p, (n, 1)))
    policies = {f"p{i}": softmax(x @ (2 * rng.normal(size=(2, k)))) for i in range(10)}
    ev = op.evaluate(log, policies, estimators=["SNIPW"])
    found: dict[str, Any] = {}
    found |= {m: op.select(ev, method=m) for m in ADOPTING}
    fitted = op.evaluate(log, policies, estimators=["SNIPW"], behavior_model="shares", randomized=True)
    found["interval, propensities estimated"] = op.select(fitted)
    return {m: float(not s.keeps_logging) for m, s in found.items()}
