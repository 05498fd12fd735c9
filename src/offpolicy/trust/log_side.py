"""Checks of the log itself: repeated rows, rewards that are rare or have not all arrived."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.fitting.encode import encode_table
from offpolicy.trust import propensities
from offpolicy.trust.finding import Diagnostics, Finding, Findings, judged, not_applicable

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats

LATE = 0.1
IDENTIFYING = 1 / 3  # share of distinct contexts from which an equal row is suspicious
SIGNIFICANT = 3.0


def check_log(log: Any) -> Diagnostics:
    """Every check that needs no policy.

    Parameters
    ----------
    log : BanditLog or Trajectories

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 500, [0.0, 1.0] * 500, [0.9, 0.1] * 500)
    >>> check_log(log)["sample_ratio_mismatch"].level
    'alarm'
    """
    return Diagnostics(Findings(log_findings(log)), {})


def log_findings(log: Any) -> list[Finding]:
    """The findings of `check_log` as a list."""
    return [
        propensities.mismatch(log),
        propensities.calibration(log),
        propensities.rounded(log),
        propensities.deterministic(log),
        unlogged(log),
        duplicates(log),
        rare_rewards(log),
        maturity(log),
    ]


def unlogged(log: Any) -> Finding:
    """Actions of the list that never occur."""
    absent = np.flatnonzero(np.bincount(log.action, minlength=len(log.actions)) == 0)
    some = ", ".join(repr(log.actions[a]) for a in absent[:3])
    sentence = (
        f"all {len(log.actions)} actions were logged."
        if len(absent) == 0
        else f"{len(absent)} of {len(log.actions)} actions were never logged ({some}"
        f"{', …' if len(absent) > 3 else ''})."
    )
    labels = [log.actions[a] for a in absent]
    return judged("unlogged_actions", float(len(absent)), sentence, {"actions": labels})


def hashed(columns: list[Array]) -> Array:
    """One 64-bit hash a row: equal rows are equal, others differ but for chance of 2⁻⁶⁴ a pair."""
    out = np.full(len(columns[0]), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column, dtype=np.float64) + 0.0  # −0 equals 0
        out ^= bits.view(np.uint64)
        # The finalizer of splitmix64: every input bit reaches every output bit.
        out ^= out >> np.uint64(30)
        out *= np.uint64(0xBF58476D1CE4E5B9)
        out ^= out >> np.uint64(27)
        out *= np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(31)
    return out


def duplicates(log: Any) -> Finding:
    """Share of rows that repeat an earlier row in every column."""
    name = "duplicates"
    if log.count is not None:
        return not_applicable(
            name, "rows carry counts, so repeated rows cannot be told from real ones."
        )
    if not log.layout.is_single:
        return _repeated_episodes(log)
    table = encode_table(log.context.learner_table).matrix
    table = table[log.context.positions(np.arange(len(log.action)))]
    columns = [*table.T, log.action, log.reward]
    columns += [c for c in (log.propensity, log.batch, log.cluster) if c is not None]
    different = len(np.unique(hashed([*table.T]))) if table.shape[1] else 1
    if different < IDENTIFYING * len(log.action):
        return not_applicable(name, "contexts repeat by nature, so equal rows are to be expected.")
    return _repeats(name, hashed(columns), "rows repeat an earlier row in every column")


def _repeated_episodes(log: Any) -> Finding:
    """Episodes are compared whole: the hash of an episode mixes those of its steps in order."""
    table = encode_table(log.context.learner_table).matrix
    positions = log.context.positions(np.arange(len(log.action)))
    if log.context.index is not None or len(np.unique(positions)) < len(positions):
        return not_applicable("duplicates", "states repeat, so equal episodes are to be expected.")
    step = hashed([*table[positions].T, log.action, log.reward, log.layout.step])
    whole = np.zeros(log.layout.n_units, dtype=np.uint64)
    np.add.at(whole, log.layout.unit, step)
    return _repeats("duplicates", whole, "episodes repeat an earlier one step by step")


def _repeats(name: str, key: Array, what: str) -> Finding:
    _, first = np.unique(key, return_index=True)
    repeated = np.ones(len(key), dtype=bool)
    repeated[first] = False
    share = float(repeated.mean())
    rows = np.flatnonzero(repeated)[:10].tolist()
    return judged(name, share, f"{100 * share:.3g}% of the {what}.", {"first_rows": rows})


def rare_rewards(log: Any) -> Finding:
    """How many units earned something else than the usual reward."""
    reward = log.layout.sum(log.reward)
    count = np.ones(len(reward)) if log.count is None else log.count
    values, place = np.unique(reward, return_inverse=True)
    usual = np.bincount(place, weights=count)
    number = float(count.sum() - usual.max())
    return judged(
        "rare_rewards",
        number,
        f"{number:,.0f} of {count.sum():,.0f} units earned something else than "
        f"{values[int(usual.argmax())]:g}.",
    )


def maturity(log: Any) -> Finding:
    """Mean reward of the latest tenth of the batches against that of all before."""
    name = "reward_maturity"
    if log.batch is None:
        return not_applicable(
            name, "the log has no batches, so rewards cannot be looked at by time."
        )
    number = int(log.batch.max()) + 1
    if number < 4:
        return not_applicable(name, f"{number} batches are too few to look at rewards by time.")
    late = log.batch >= number - max(1, round(LATE * number))
    old, old_error = _mean(log, ~late)
    new, new_error = _mean(log, late)
    error = math.hypot(old_error, new_error)
    if old <= 0 or error == 0:
        return not_applicable(name, "the mean reward before the latest batches is not positive.")
    ratio, z = new / old, (new - old) / error
    value = ratio if z < -SIGNIFICANT else max(ratio, 1.0) if ratio >= 1 else 1.0
    sentence = (
        f"rewards of the latest batches average {new:.4g}, of those before {old:.4g} "
        f"({100 * (ratio - 1):+.3g}%, z = {z:.2g})."
    )
    return judged(name, value, sentence, {"ratio": ratio, "z": z})


def _mean(log: Any, rows: Array) -> tuple[float, float]:
    count = np.ones(int(rows.sum())) if log.count is None else log.count[rows]
    weight = np.ones(len(count)) if log.weight is None else log.weight[rows]
    reward: Floats = log.reward[rows]
    total = float(count @ weight)
    if total == 0:
        return 0.0, 0.0
    mean = float((count * weight) @ reward) / total
    spread = weight * (reward - mean)
    if log.cluster is None:
        return mean, math.sqrt(float(count @ spread**2)) / total
    _, group = np.unique(log.cluster[rows], return_inverse=True)
    return mean, math.sqrt(float(np.sum(np.bincount(group, weights=count * spread) ** 2))) / total
