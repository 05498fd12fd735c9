"""Seven ways of knowing π_b, and the estimators with each of them.

π_e is deterministic, so a weight needs only p = π̂_b(π_e(s) | s): it is ∏ 1/p while the log follows π_e and
0 from the first deviation on. From the network that sees the state alone come three more ways: p no lower than
.5 or than .9, and p = 1, which an over-confident network tends to ("saturated").

The networks come as arrays, the estimators are the library's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import offpolicy as op
from offpolicy_studies.cartpole.estimates import as_log, probabilities

TRUE, SHARES, TARGET, STATE, HALF, NINE, SATURATED = WAYS = (
    "true", "shares", "network that sees π_e", "network on the state", "floor .5", "floor .9",
    "saturated",
)  # fmt: skip
TITLES = {
    TRUE: "π_b known",
    SHARES: "π_b by one number: how often the log follows π_e",
    TARGET: "π_b by a network that also sees π_e(·|s)",
    STATE: "π_b by a network on the state, as it is (the paper's text)",
    HALF: "the same, π̂_b of the followed action at least .5",
    NINE: "the same, π̂_b of the followed action at least .9",
    SATURATED: "saturated: weight 1 while the log follows π_e",
}
FLOORS = {HALF: 0.5, NINE: 0.9}
FULL = ("DM", "IPW", "SNIPW", "DR-full")
CROSS = ("DR-half", "DML", "WDR")
ROWS = ("DM", "IPW", "DR-full", "DR-half", "DML", "SNIPW", "WDR")
#: The paper's five.
FIVE = ROWS[:5]
LOGGED = "logged mean"
#: A probability must not be 1 where the other action was logged; weights are 0 there anyway.
ALMOST = 1e-9


def followed(arrays: dict[str, np.ndarray], way: str, fit: str, epsilon: float) -> np.ndarray:
    """Return π̂_b(π_e(s)|s) at every step (steps,), from the ``fit`` 'full' or 'cross'."""
    steps = len(arrays["greedy"])
    if way == TRUE:
        return np.full(steps, 1 - epsilon / 2)
    if way == SATURATED:
        return np.full(steps, 1 - ALMOST)
    if way == SHARES:
        return _shares(arrays, fit)
    name = "behavior_pi" if way == TARGET else "behavior"
    table = probabilities(arrays[f"{name}_{fit}"])
    p = table[np.arange(steps), arrays["greedy"].astype(int)]
    floored: np.ndarray = np.clip(p, FLOORS.get(way, ALMOST), 1 - ALMOST)
    return floored


def _shares(arrays: dict[str, np.ndarray], fit: str) -> np.ndarray:
    """Return how often the log follows π_e: overall, or for each fold in the others."""
    same = arrays["actions"] == arrays["greedy"]
    if fit == "full":
        return np.full(len(same), np.clip(same.mean(), ALMOST, 1 - ALMOST))
    fold = np.repeat(arrays["folds"].astype(int), arrays["lengths"].astype(int))
    out = np.empty(len(same))
    for k in np.unique(fold):
        out[fold == k] = np.clip(same[fold != k].mean(), ALMOST, 1 - ALMOST)
    return out


def behavior(arrays: dict[str, np.ndarray], way: str, fit: str, epsilon: float) -> np.ndarray:
    """Return π̂_b (steps, 2)."""
    p = followed(arrays, way, fit, epsilon)
    greedy = np.eye(2)[arrays["greedy"].astype(int)]
    out: np.ndarray = np.where(greedy == 1, p[:, None], 1 - p[:, None])
    return out


def estimate(
    arrays: dict[str, np.ndarray], epsilon: float, values: tuple[str, ...],
    known: tuple[str, ...] = WAYS, rows: tuple[str, ...] = ROWS,
) -> dict[str, dict[str, dict[str, list[float]]]]:  # fmt: skip
    """Compute the estimators of one data set: q̂ → way → estimator → [value, standard error]."""
    log, target = as_log(arrays), np.eye(2)[arrays["greedy"].astype(int)]
    labels = arrays["folds"].astype(int)
    out: dict[str, dict[str, dict[str, list[float]]]] = {}
    for value in values:
        out[value] = {}
        for way in known:
            each: dict[str, list[float]] = {}
            for fit, every in (("full", FULL), ("cross", CROSS)):
                names = [name for name in every if name in rows]
                ev = op.evaluate(
                    log, target, estimators=names, folds=labels, discount=1.0,
                    value_model=arrays[f"{value}_{fit}"].astype(float),
                    behavior_model=behavior(arrays, way, fit, epsilon),
                )  # fmt: skip
                for name in names:
                    found = ev["policy", name]
                    each[name] = [float(found.value), float(found.std_error)]
            out[value][way] = each
    return out


def diagnose(
    arrays: dict[str, np.ndarray], epsilon: float, values: tuple[str, ...],
    known: tuple[str, ...] = WAYS,
) -> dict[str, Any]:  # fmt: skip
    """Say how good the networks are in and out of their sample, and what the weights look like."""
    action, greedy = arrays["actions"].astype(int), arrays["greedy"].astype(int)
    lengths = arrays["lengths"].astype(int)
    rows, first = np.arange(len(action)), np.cumsum(lengths) - lengths
    same = action == greedy
    out: dict[str, Any] = {
        "logged": float(lengths.mean()),
        "clean_episodes": float(np.mean(np.logical_and.reduceat(same, first))),
        "ways": {},
        "q": {},
    }
    for way in known:
        p = {fit: followed(arrays, way, fit, epsilon) for fit in ("full", "cross")}
        loss = {fit: float(-np.log(np.where(same, q, 1 - q)).mean()) for fit, q in p.items()}
        log_weight = np.add.reduceat(np.where(same, -np.log(p["cross"]), -np.inf), first)
        weight = np.exp(log_weight - log_weight.max()) if np.isfinite(log_weight.max()) else 0.0
        square = float(np.sum(weight**2))
        out["ways"][way] = {
            "log_loss_in": loss["full"],
            "log_loss_out": loss["cross"],
            "mean_weight": float(np.exp(log_weight).mean()),
            "effective": float(np.sum(weight)) ** 2 / square if square else 0.0,
        }
    last = np.zeros(len(rows), dtype=bool)
    last[first + lengths - 1] = True
    check, truth = arrays["check_rows"], arrays["check_values"].astype(float)
    for value in values:
        found: dict[str, float] = {}
        for fit in ("full", "cross"):
            q = arrays[f"{value}_{fit}"].astype(float)
            v = q[rows, greedy]
            later = np.where(last, 0.0, np.append(v[1:], 0.0))
            found[f"residual_{fit}"] = float(np.mean((1 + later - q[rows, action]) ** 2))
            found[f"bias_{fit}"] = float((v[check] - truth).mean())
        out["q"][value] = found
    return out
