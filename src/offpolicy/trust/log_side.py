"""Checks of the log itself: repeated rows, rewards that are rare or have not all arrived."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import levels
from offpolicy.trust import propensities
from offpolicy.trust.draws import draws_of
from offpolicy.trust.finding import Diagnostics, Finding, Findings, judged, not_applicable
from offpolicy.trust.sums import IDENTIFYING, log_sums

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.trust.sums import LogSums

LATE = 0.1
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
    return Diagnostics(Findings(log_findings(log, log_sums(log))), {})


def log_findings(log: Any, sums: LogSums) -> list[Finding]:
    """The findings of `check_log` as a list, from the columns of a log and the sums over its blocks."""
    draws = draws_of(log)
    return [
        propensities.mismatch(log, draws, sums.distribution),
        propensities.calibration(log, draws, sums.distribution),
        propensities.rounded(log),
        propensities.deterministic(log),
        unlogged(log),
        duplicates(log, sums),
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


def duplicates(log: Any, sums: LogSums) -> Finding:
    """Share of units that repeat an earlier one in every column: rows, or whole episodes step by step."""
    name = "duplicates"
    decisions = len(log.action) if log.count is None else log.count.sum()
    if sums.contexts.distinct < IDENTIFYING * decisions:
        return not_applicable(name, "contexts repeat by nature, so equal rows are to be expected.")
    share = sums.units.repeated_share
    what = (
        "rows repeat an earlier row in every column"
        if log.layout.is_single
        else "episodes repeat an earlier one step by step"
    )
    return judged(name, share, f"{100 * share:.3g}% of the {what}.")


def rare_rewards(log: Any) -> Finding:
    """How many units earned something else than the usual reward."""
    reward = log.layout.sum(log.reward)
    count = np.ones(len(reward)) if log.count is None else log.count
    values, place = levels(reward)
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


def _mean(log: Any, rows: Bools) -> tuple[float, float]:
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
