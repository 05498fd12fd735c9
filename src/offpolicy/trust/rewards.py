"""Rewards: rare ones, late ones, and those so large that no variance is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import levels
from offpolicy.inference.intervals.evidence import lumpiness
from offpolicy.inference.intervals.rules import SMOOTH
from offpolicy.inference.intervals.tails import tail_index
from offpolicy.logs.outcome import settled_of
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import exceedances, same_but_rounding, surely_above
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

LATE = 0.1
SIGNIFICANT = 3.3
USUAL = 0.5  # share of the units from which on a reward is the usual one


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
        return not_applicable(name, "the log has no batches, so rewards cannot be compared over time.")
    number = int(log.batch.max()) + 1
    if number < 4:
        return not_applicable(name, f"{number} batches are too few to compare rewards over time.")
    size = max(1, round(LATE * number))
    # Rows by batch once, so that a window is a run of them.
    order = np.argsort(log.batch, kind="stable")
    edges = np.searchsorted(log.batch, np.arange(number + 1), sorter=order)

    def mean(first: int, last: int) -> tuple[float, float]:
        return _mean(log, order[edges[first] : edges[last]])

    new, new_error = mean(number - size, number)
    # A season has had its low before: what counts is that rewards never were as low for as long.
    windows = [w for last in range(size, number - size + 1) if (w := mean(last - size, last))[1] > 0]
    old, _ = mean(0, number - size)
    if old <= 0 or not windows:
        return not_applicable(name, "the mean reward before the latest batches is not positive.")
    lowest, error = min(windows)
    ratio, gap = new / old, new - lowest
    z = gap / math.hypot(new_error, error) if new_error else math.copysign(math.inf, gap)
    value = ratio if z < -SIGNIFICANT else max(ratio, 1.0)
    sentence = (
        f"rewards of the latest batches average {new:.4g}, those of earlier batches {old:.4g} "
        f"({100 * (ratio - 1):+.3g}%), with a previous low of {lowest:.4g} (z = {z:.2g})."
    )
    return judged(name, value, sentence, {"ratio": ratio, "lowest": lowest, "z": z})


def _mean(log: Log, rows: Ints) -> tuple[float, float]:
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


def reward_tail(view: View) -> Finding:
    """Whether unbounded rewards have a variance that can be estimated: the Pareto index of their tail.

    What weights add to the tail of the scores is judged by ``pareto_k``. The tail is that around the reward model or
    around the mean, whichever is lighter: a model of wild columns has a tail of its own. Where one reward is the usual
    one (no purchase), the tail is that of the other units: between nothing and the smallest purchase there is a gap,
    which a Pareto distribution would take for a heavy tail. From an index of 0.25 on rewards have no fourth moment, and
    their variance is not known from a sample that shows skewness: no interval can be expected to cover. Of a sample
    so large that none is left in the mean this is said, and nothing else.
    """
    name = "reward_tail"
    d = view.decisions
    reward, at = _as_seen(view)
    if bool(((reward == 0) | (reward == 1)).all()):
        return not_applicable(name, "rewards are 0 or 1, which have no tail.")
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap, so there are no scores.")
    units = view.units if len(reward) == view.decisions.layout.n_units else view.units.part(at)
    centers: list[Floats | float] = [units.mean(reward)]
    if view.has_model and not several(view.log):
        centers.append(d.q[at])
    tails = [_tail_around(reward, units.count, center) for center in centers]
    k, size = min(tails, key=lambda t: t[0] if not math.isnan(t[0]) else math.inf)
    if math.isnan(k) or k == -math.inf:
        return not_applicable(name, "too few different rewards to judge their tail.")
    sure = surely_above(k, exceedances(size))
    sentence = f"the tail of the rewards has a Pareto index of {k:.2f}"
    if not fine(name, sure):
        sentence += " (their variance needs k < 0.5, and k < 0.25 to be known)"
    lumps = lumpiness(view.units.sample(view.score))
    at_most: Level = "alarm" if lumps > SMOOTH else "caution"
    details = {"surely_above": sure, "skewness": lumps}
    return replace(judged(name, sure, f"{sentence}.", details, at_most=at_most), value=k)


def _as_seen(view: View) -> tuple[Floats, Any]:
    """Rewards of the units, and which these are: where they are seen in part, as they were seen, and not made whole."""
    reward = view.decisions.returns
    own = next(iter(settled_of(view.problem.log)), None)
    if own is None or not view.decisions.layout.is_single:
        return reward, slice(None)
    observed = own.observed[view.rows]
    seen = np.flatnonzero(~np.isnan(observed))
    return observed[seen], seen


def _tail_around(reward: Floats, count: Floats, center: Floats | float) -> tuple[float, float]:
    """Tail index of the distances of rewards from a center, and of how many units; the usual reward is left out."""
    distance = same_but_rounding(np.abs(reward - center))
    _, place = levels(reward)
    times = np.bincount(place, weights=count)
    if times.max() > USUAL * times.sum():
        other = place != int(times.argmax())
        distance, count = distance[other], count[other]
    k = tail_index(distance, count) if len(distance) else math.nan
    return k, float(count.sum())


CHECKS = (
    Check(
        "rare_rewards",
        Threshold(
            30.0, -math.inf, "below", "Wait for more data, or use a more frequent outcome as the reward.", advice=True
        ),
        log=lambda s: rare_rewards(s.log), topic=Topic("Rewards are rare, so a few rows drive the estimate."),
        value="units whose reward differs from the most frequent one",
    ),
    Check(
        "reward_maturity",
        Threshold(
            0.8, 0.5, "below", "Leave out the latest batches, whose rewards may not all have arrived.",
            false_alarms=0.001,
        ),
        log=lambda s: maturity(s.log), topic=Topic("The most recent rewards may be incomplete."),
        value="mean reward of the latest tenth of the batches relative to earlier ones, if it was never as low",
    ),
    Check(
        "reward_tail",
        Threshold(
            0.15, 0.25, "above",
            "Also evaluate a capped or transformed reward, and decide how before looking at the "
            "results.",
            decides=True, about_products=True, false_alarms=0.01,
        ),
        policy=reward_tail, topic=Topic("A few extreme rewards drive the estimate."),
        value="Pareto index of the tail of rewards other than 0 and 1, around the model or the mean",
    ),
)  # fmt: skip
