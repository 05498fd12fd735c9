"""Checks of the log itself: repeated rows, rewards that are rare or have not all arrived."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from offpolicy._arrays import levels
from offpolicy.logs.outcome import settle, settled_of
from offpolicy.splits.folds import Plan
from offpolicy.trust import balance, identifying, leaks, propensities, slots
from offpolicy.trust.draws import counts_and_weights, draws_of
from offpolicy.trust.finding import Diagnostics, Finding, Findings, about_arms, judged, not_applicable
from offpolicy.trust.significance import adjusted_z
from offpolicy.trust.sums import IDENTIFYING, log_sums

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.log import Log
    from offpolicy.logs.slates import Slates
    from offpolicy.trust.sums import LogSums

LATE = 0.1
COPIES = 4.0
COMMON = 0.01  # share from which on a reward is one that many rows have
SIGNIFICANT = 3.3


def check_log(log: Log) -> Diagnostics:
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
    plan = Plan()
    log = cast("Log", settle(log, lambda: plan.block(log.units), dict.fromkeys(log.metrics), plan.seed))
    return Diagnostics(Findings(log_findings(log, log_sums(log))), {})


def log_findings(log: Log, sums: LogSums) -> list[Finding]:
    """The findings of `check_log` as a list, from the columns of a log and the sums over its blocks."""
    draws = draws_of(log)
    return [
        propensities.mismatch(log, draws, sums.distribution),
        propensities.calibration(log, draws, sums.distribution),
        propensities.rounded(log),
        propensities.deterministic(log),
        unlogged(log),
        balance.finding(log, sums.balance, whole=sums.distribution is not None),
        leaks.finding(log, sums.leaks),
        identifying.finding(log, sums.levels),
        *duplicates(log, sums),
        rare_rewards(log),
        maturity(log),
        *([slots.finding(cast("Slates", log))] if log.kind == "slates" else ()),
        *(f for own in settled_of(log) for f in own.findings()),
    ]


@about_arms("unlogged_actions")
def unlogged(log: Log) -> Finding:
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


def duplicates(log: Log, sums: LogSums) -> list[Finding]:
    """Copies of rows, exact or with one column changed: more agreement than chance has it (`Twins`)."""
    names = ("duplicates", "near_duplicates")
    if not log.layout.is_single:
        return [_repeated_episodes(log, sums), not_applicable(names[1], "looked for in rows only.")]
    if log.is_continuous:
        return [_repeated_rows(log, sums), not_applicable(names[1], "looked for among labels only.")]
    if log.has_clusters:
        why = "rows of a cluster may be alike; the standard error allows for it."
        return [not_applicable(name, why) for name in names]
    agreement = None if log.propensity is not None else _agreement(log)
    whole, *without = [(name, *twins.excess(agreement)) for name, twins in sums.twins]
    return [_copies(names[0], [whole]), _copies(names[1], without)]


def _copies(name: str, found: list[tuple[str | None, float, float]]) -> Finding:
    """The finding about the column whose leaving out shows most copies."""
    if not found:
        return not_applicable(name, "there are no context columns to leave out one by one.")
    column, z, share = max(found, key=lambda each: each[1])
    sure = adjusted_z(z, len(found)) > COPIES if z > 0 else False
    but = "" if column is None else f" but for column {column!r}"
    sentence = (
        f"{100 * share:.3g}% of the rows are copies of another one{but}: rows that agree in all else took the same "
        f"action far more often than their propensities make likely (z = {z:.3g})."
        if sure
        else "rows that are alike took the same action no more often than chance makes likely."
    )
    return judged(name, share if sure else 0.0, sentence, {"z": z, "column": column})


def _agreement(log: Log) -> float:
    """Chance that two rows of one context agree in action and reward: half way from chance to always."""
    count = log.count
    chance = 1.0
    for place in (log.action, levels(log.reward)[1]):
        share = np.bincount(place, weights=count) / count.sum()
        often = share[share >= COMMON]
        chance *= float(often @ (1 + often)) / 2
    return chance


def _repeated_rows(log: Log, sums: LogSums) -> Finding:
    """Share of rows with a number for an action that repeat an earlier one in all they hold."""
    name = "duplicates"
    seldom = IDENTIFYING * float(counts_and_weights(log)[0].sum())
    if max(sums.contexts.distinct, len(np.unique(log.action))) < seldom:
        return not_applicable(name, "contexts and actions repeat, so equal rows are to be expected.")
    share = sums.units.repeated_share
    return judged(name, share, f"{100 * share:.3g}% of the rows repeat an earlier one.")


def _repeated_episodes(log: Log, sums: LogSums) -> Finding:
    """Share of episodes that repeat an earlier one step by step."""
    name = "duplicates"
    if sums.contexts.distinct < IDENTIFYING * float(counts_and_weights(log)[0].sum()):
        return not_applicable(name, "states repeat by nature, so equal episodes are to be expected.")
    share = sums.units.repeated_share
    return judged(name, share, f"{100 * share:.3g}% of the episodes repeat an earlier one step by step.")


def rare_rewards(log: Log) -> Finding:
    """How many units have a reward other than the usual reward."""
    reward = log.layout.sum(log.reward)
    count = log.count
    values, place = levels(reward)
    usual = np.bincount(place, weights=count)
    number = float(count.sum() - usual.max())
    return judged(
        "rare_rewards",
        number,
        f"{number:,.0f} of {count.sum():,.0f} units have a reward other than {values[int(usual.argmax())]:g}.",
    )


def maturity(log: Log) -> Finding:
    """Mean reward of the latest tenth of the batches against the lowest for as long before."""
    name = "reward_maturity"
    if not log.has_batches:
        return not_applicable(name, "the log has no batches, so rewards cannot be looked at by time.")
    number = int(log.batch.max()) + 1
    if number < 4:
        return not_applicable(name, f"{number} batches are too few to look at rewards by time.")
    size = max(1, round(LATE * number))
    new, new_error = _mean(log, log.batch >= number - size)
    # A season has had its low before: what counts is that rewards never were as low for as long.
    windows = [_mean(log, _window(log, last, size)) for last in range(size, number - size + 1)]
    windows = [w for w in windows if w[1] > 0]
    old, _ = _mean(log, log.batch < number - size)
    if old <= 0 or not windows:
        return not_applicable(name, "the mean reward before the latest batches is not positive.")
    lowest, error = min(windows)
    ratio, gap = new / old, new - lowest
    z = gap / math.hypot(new_error, error) if new_error else math.copysign(math.inf, gap)
    value = ratio if z < -SIGNIFICANT else max(ratio, 1.0)
    sentence = (
        f"rewards of the latest batches average {new:.4g}, of those before {old:.4g} "
        f"({100 * (ratio - 1):+.3g}%), and at their lowest before {lowest:.4g} (z = {z:.2g})."
    )
    return judged(name, value, sentence, {"ratio": ratio, "lowest": lowest, "z": z})


def _window(log: Log, last: int, size: int) -> Bools:
    """Rows of the batches up to (not including) ``last``, as many as the latest ones are."""
    return np.asarray((log.batch < last) & (log.batch >= last - size))


def _mean(log: Log, rows: Bools) -> tuple[float, float]:
    count, weight = log.count[rows], log.weight[rows]
    reward: Floats = log.reward[rows]
    total = float(count @ weight)
    if total == 0:
        return 0.0, 0.0
    mean = float((count * weight) @ reward) / total
    spread = weight * (reward - mean)
    if not log.has_clusters:
        return mean, math.sqrt(float(count @ spread**2)) / total
    _, group = np.unique(log.cluster[rows], return_inverse=True)
    return mean, math.sqrt(float(np.sum(np.bincount(group, weights=count * spread) ** 2))) / total
