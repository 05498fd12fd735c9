"""The estimators, which are the library's own: arrays of nuisances in, `offpolicy.evaluate` out.

Networks trained elsewhere enter through one door, ``value_model=`` and ``behavior_model=`` as arrays
over the logged steps. DM, IPW, SNIPW and DR-full get the fit on the full sample; DR-half, DML and WDR
get, for each episode, the networks that did not see its fold. MRDR is the cross-fitted doubly
robust score with a value network trained on MRDR's own objective. Where the hidden physical state
was kept (the second policy), DRL is added with the ratio of marginals regressed on it: the pictures
alone are no Markov state, so DRL cannot be had from them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.cartpole import store
from offpolicy_studies.cartpole.marginal import marginal_ratio
from offpolicy_studies.folder import append_line, read_lines
from offpolicy_studies.progress import track

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy_studies.cartpole.blocks import Cell

#: How π_b is known: exactly, by a network on the state, by one that also sees π_e.
BEHAVIORS = ("true", "state", "state+target")
FULL = ("DM", "IPW", "SNIPW", "DR-full")
CROSS = ("DR-half", "DML", "WDR")
ROWS = ("DM", "IPW", "DR-full", "DR-half", "DML", "SNIPW", "WDR", "MRDR")
LEVEL = 0.95
FEW = 20


def probabilities(log_odds: np.ndarray) -> np.ndarray:
    """Return (steps, 2) probabilities from the log-odds of action 1.

    >>> probabilities(np.array([0.0, np.log(3.0)])).tolist()
    [[0.5, 0.5], [0.25, 0.75]]
    >>> float(probabilities(np.array([45.0]))[0, 0])
    2.86...e-20
    """
    odds = log_odds.astype(float)
    # The rarer action by its own formula: 1 − p is 0 where p rounds to 1, and a logged action has p > 0.
    rest = np.exp(-np.abs(odds))
    likely, rare = 1 / (1 + rest), rest / (1 + rest)
    return np.where((odds > 0)[:, None], np.stack([rare, likely], 1), np.stack([likely, rare], 1))


def behavior(arrays: dict[str, np.ndarray], kind: str, fit: str, epsilon: float) -> np.ndarray:
    """Return π_b (steps, 2) as ``kind`` of analyst sees it, from the ``fit`` 'full' or 'cross'."""
    if kind == "true":
        greedy = np.eye(2)[arrays["greedy"].astype(int)]
        out: np.ndarray = (1 - epsilon) * greedy + epsilon / 2
        return out
    name = {"state": "behavior", "state+target": "behavior_pi"}[kind]
    return probabilities(arrays[f"{name}_{fit}"])


def as_log(arrays: dict[str, np.ndarray]) -> op.Trajectories:
    """Return one data set as a log; a state is the number of its step, by which arrays answer."""
    steps = len(arrays["actions"])
    return op.Trajectories.from_arrays(
        np.arange(steps), arrays["actions"].astype(int), np.ones(steps), lengths=arrays["lengths"].astype(int)
    )


def estimate(arrays: dict[str, np.ndarray], epsilon: float) -> dict[str, dict[str, dict[str, float]]]:
    """Compute every estimator for one data set: behavior → estimator → value, error, interval."""
    log, target = as_log(arrays), np.eye(2)[arrays["greedy"].astype(int)]
    labels = arrays["folds"].astype(int)
    out: dict[str, dict[str, dict[str, float]]] = {}
    for kind in BEHAVIORS:
        found: dict[str, dict[str, float]] = {}
        for fit, value, names, suffix in (
            ("full", "q_full", FULL, None),
            ("cross", "q_cross", CROSS, None),
            ("cross", "q_mrdr_cross", ("DML",), "MRDR"),
            # With more than two folds DR-half has a fit of its own, on the half that it does not score.
            *([("half", "q_half", ("DR-half",), None)] if "halves" in arrays else []),
        ):
            ev = op.evaluate(
                log,
                target,
                estimators=list(names),
                value_model=arrays[value].astype(float),
                behavior_model=behavior(arrays, kind, fit, epsilon),
                folds=arrays["halves"].astype(int) if fit == "half" else labels,
                discount=1.0,
            )
            for name in names:
                found[suffix or name] = _plain(ev["policy", name])
        out[kind] = found
    if "physics" in arrays:
        out["true"]["DRL"] = drl(arrays, epsilon)
    return out


def drl(arrays: dict[str, np.ndarray], epsilon: float) -> dict[str, float]:
    """Compute DRL with π_b known, the marginal ratio being a function of the hidden state."""
    rows = np.arange(len(arrays["greedy"]))
    actions, lengths = arrays["actions"].astype(int), arrays["lengths"].astype(int)
    target = np.eye(2)[arrays["greedy"].astype(int)]
    known = behavior(arrays, "true", "cross", epsilon)
    labels = arrays["folds"].astype(int)
    ratio = target[rows, actions] / known[rows, actions]
    ev = op.evaluate(
        as_log(arrays),
        target,
        estimators=["DRL"],
        value_model=arrays["q_cross"].astype(float),
        behavior_model=known,
        ratio=marginal_ratio(arrays["physics"].astype(float), lengths, ratio, labels),
        folds=labels,
        discount=1.0,
    )
    return _plain(ev["policy", "DRL"])


def _plain(estimated: Any) -> dict[str, float]:
    """Keep the value with two intervals: Proposition 1's normal one and the library's default."""
    low, high = estimated.interval(LEVEL, method="normal")
    auto_low, auto_high = estimated.interval(LEVEL)
    return {
        "value": float(estimated.value),
        "std_error": float(estimated.std_error),
        "low": float(low),
        "high": float(high),
        "auto_low": float(auto_low),
        "auto_high": float(auto_high),
    }


def diagnose(arrays: dict[str, np.ndarray], epsilon: float) -> dict[str, Any]:
    """Say how good the nuisances are where they were not trained, and what the weights look like."""
    action, greedy = arrays["actions"].astype(int), arrays["greedy"].astype(int)
    lengths = arrays["lengths"].astype(int)
    rows = np.arange(len(action))
    last = np.cumsum(lengths) - 1
    out: dict[str, Any] = {}
    for kind in BEHAVIORS:
        p = behavior(arrays, kind, "cross", epsilon)
        follow = np.where(action == greedy, -np.log(p[rows, action]), -np.inf)
        total = np.add.reduceat(follow, last - lengths + 1)
        weight = np.exp(total)
        out[kind] = {
            "log_loss": float(-np.log(p[rows, action]).mean()),
            "agreement": float((p.argmax(1) == greedy).mean()),
            "mean_weight": float(weight.mean()),
            "largest_weight": float(weight.max()),
            "effective": float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0,
        }
    check, truth = arrays["check_rows"], arrays["check_values"].astype(float)
    for name in ("q_full", "q_cross", "q_mrdr_cross"):
        error = arrays[name].astype(float)[rows, greedy][check] - truth
        out[name] = {"bias": float(error.mean()), "rmse": float(np.sqrt((error**2).mean()))}
    out["q_spread"] = float(truth.std())
    out["logged_value"] = float(lengths.mean())
    out["clean_episodes"] = float(np.mean(np.logical_and.reduceat(action == greedy, last - lengths + 1)))
    return out


def estimate_cells(out: Path, cells: list[Cell], replications: int, jobs: int | None = None) -> int:
    """Compute every estimate that is not there yet, one line per data set; return how many.

    Parameters
    ----------
    out : Path
        Folder of the run.
    cells : list of Cell
        What to compute.
    replications : int
        Data sets per cell.
    jobs : int, optional
        Processes; unless given one per core up to 8, and one when there is little to do.
    """
    from offpolicy_studies.workers import finished

    work: list[tuple[str, float, Path, int]] = []
    for cell in cells:
        name = store.cell_name(cell.policy, cell.epsilon, cell.folds)
        done = {line["replication"] for line in read_lines(store.estimates_path(out, name))}
        work += [(name, cell.epsilon, out, r) for r in range(replications) if r not in done]
    if jobs is None:
        jobs = min(8, os.cpu_count() or 1) if len(work) > FEW else 1
    with track("estimates", len(work)) as advance:
        for (name, *_), line in finished(_one, work, jobs):
            append_line(store.estimates_path(out, name), line)
            advance(note=name)
    return len(work)


def _one(task: tuple[str, float, Path, int]) -> dict[str, Any]:
    name, epsilon, out, r = task
    arrays = store.load_arrays(store.arrays_path(out, name, r))
    return {"replication": r, "estimates": estimate(arrays, epsilon), "diagnostics": diagnose(arrays, epsilon)}
