"""Overlap: how many units the weights leave, on how few they rest, and what of the target the log never does.

With the whole logged distribution the unsupported mass E[Σ_a π_e(a|S) 1{π_b(a|S) = 0}] is exact. With the
probability of the logged action alone it is bounded below in two ways: by the target's mass on actions
that were never logged, and by 1 − E[w], because E[w] = 1 − unsupported mass. The second is an estimate and
counts only where noise explains it in one log of a thousand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.intervals.evidence import two_values
from offpolicy.inference.intervals.tails import effective_size, tail_index, tail_is_visible
from offpolicy.trust.check import FITTED, OVERLAP, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import exceedances, mean_z, same_but_rounding, surely_above
from offpolicy.trust.view import SHOWN

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

TOP = 0.01
NOISE = 3.3


def size(view: View) -> Finding:
    """Kish's effective number of units."""
    sample = view.weight_sample
    left = effective_size(sample.numerator, sample.count)
    what = "clusters" if view.units.has_clusters else "units"
    sentence = f"after weighting, the log is worth about {_amount(left)} of its {sample.total:,.0f} {what}."
    return judged("effective_sample_size", left, sentence, {"share": left / sample.total, "units": sample.total})


def largest(view: View) -> Finding:
    """The largest weight: a figure, which no limit judges."""
    top, possible = float(view.weight.max()) * view.scale, view.reach.largest
    details = {} if possible is None else {"largest_possible": possible}
    return judged("largest_weight", top, f"the largest importance weight is {top:,.4g}.", details)


def largest_share(view: View) -> Finding:
    """Share of the total weight on one unit."""
    carried = unit_share(view, view.weight)
    return judged("largest_weight_share", carried, f"a single unit carries {_percent(carried)} of the total weight.")


def top_share(weight: Floats, mass: Floats, share: float = TOP) -> float:
    """Share of the total weight that the heaviest ``share`` of the units with positive weight carry.

    >>> top_share(np.array([1.0] * 99 + [99.0]), np.ones(100))
    0.5
    """
    positive = weight > 0
    if not positive.any():
        return math.nan
    w, m = weight[positive], mass[positive]
    total, room = float(m @ w), share * float(m.sum())
    heavy = w >= np.partition(w, int(0.9 * (len(w) - 1)))[int(0.9 * (len(w) - 1))]
    if float(m[heavy].sum()) >= room:  # no need to sort the others
        w, m = w[heavy], m[heavy]
    order = np.argsort(-w, kind="stable")
    w, m = w[order], m[order]
    before = np.cumsum(m) - m
    taken = np.clip(room - before, 0.0, m)
    return float(taken @ w / total)


def heaviest(view: View) -> Finding:
    """Share of the total weight on the heaviest units."""
    top = top_share(view.weight, view.mass)
    sentence = f"the heaviest 1% of the units with a positive weight carry {_percent(top)} of the total."
    return judged("top_share", top, sentence)


def unit_share(view: View, values: Floats) -> float:
    """Largest share of a total that a single unit carries, NaN where the total is 0.

    A row that stands for several units carries as much as one of them.
    """
    total = float(view.mass @ values)
    return float((view.mass / view.units.count * values).max()) / total if total > 0 else math.nan


def top_unit(view: View) -> Finding:
    """Share of the weighted rewards on one unit."""
    one, how = _rewards_on_one(view)
    return judged("top_unit_share", one, f"{how} {_percent(one)} of the weighted rewards.")


def _rewards_on_one(view: View) -> tuple[float, str]:
    """Share of the weighted rewards that one unit carries, and in words of which rewards that is.

    Of rewards of two values it is the share Σ(w r)²/(Σ w r)² that one unit would have if the rewards of the whole log
    had fallen to its weights at random. The rewards that the policy's own units happen to show are no ground for trust
    there: a policy that was lucky has more of them, and where they were counted its logs would be trusted more often
    than others.
    """
    reward = view.decisions.returns
    if two_values(reward) is None:
        return unit_share(view, np.abs(view.weight * reward)), "a single unit carries"
    each = view.mass / view.units.count * np.abs(reward)
    left = effective_size(view.weight, view.units.count) * effective_size(each, view.units.count)
    share = min(float(view.units.count.sum()) / left, 1.0) if left > 0 else math.nan
    return share, "with rewards as in the whole log, a single unit would carry"


def _tail(view: View) -> Finding:
    sample = view.weight_sample
    k = tail_index(same_but_rounding(sample.numerator), sample.count)
    if math.isnan(k):
        return not_applicable("pareto_k", "too few different weights to judge their tail.")
    if k == -math.inf:
        return judged("pareto_k", k, "the weights have few different values, so they have no tail.")
    possible = view.reach.largest
    bounded = possible is not None and math.isfinite(possible)
    visible = tail_is_visible(sample.numerator, sample.count)
    sentence = f"the tail of the weights has a Pareto index of {k:.2f}"
    if bounded:
        sentence += f", and no weight can exceed {possible:,.4g}."
    elif visible:
        sentence += " (their mean needs k < 0.7)."
    else:
        sentence += ", but no unit has as much weight as such a tail would give it."
    # A known bound rules out the unseen weights that a heavy tail warns of; so does, in part, a largest
    # weight too small for such a tail. A fitted index has an error of its own.
    sure = surely_above(k, exceedances(sample.total))
    at_most: Level = "alarm" if visible and not bounded else "note"
    bound = judged("pareto_k", sure, sentence, at_most=at_most)
    return replace(bound, value=k, details={"surely_above": sure})


def unsupported(view: View) -> Finding:
    """The unsupported mass, in words."""
    log, d, reach = view.log, view.decisions, view.reach
    never = 0.0
    if log.space.finite:
        logged = np.bincount(log.action, minlength=len(log.actions)) > 0
        never = float(reach.share[~logged].sum())
    # Step by step for episodes: the one-step ratio has mean 1 under the logged states.
    mean = view.over_decisions(d.ratio)
    short = max(0.0, 1.0 - mean.value)
    sure = short if mean_z(mean.sample(), 1.0) < -NOISE else 0.0
    details: dict[str, Any] = {"never_logged": never, "shortfall": short, "shortfall_error": mean.std_error}
    if not d.pi_e.any():
        return judged(
            "unsupported_mass",
            1.0,
            "no overlap: the policy never takes a logged action, so its value cannot be estimated.",
            details,
        )
    share = reach.forbidden_share
    if share is not None:
        details["forbidden"] = share
        sentence = (
            "the logging policy can take every action of this policy."
            if share == 0
            else f"{100 * share:.3g}% of the policy's actions have logged probability 0."
        )
        return judged("unsupported_mass", share, sentence, details)
    value = max(never, sure)
    if value == 0:
        sentence = "no sign that the policy takes actions that the logging policy never takes."
    elif never >= sure:
        sentence = f"{100 * never:.3g}% of the policy's actions were never logged."
    elif not view.behavior_is_known:
        sentence = (
            f"weights with the fitted π_b have mean {mean.value:.3g} instead of 1. Either the model of π_b is wrong, "
            f"or {100 * sure:.3g}% of the policy's decisions are not covered by the log."
        )
        return judged("unsupported_mass", value, sentence, details, remedy=FITTED)
    else:
        sentence = (
            f"about {100 * sure:.3g}% of the policy's decisions are not covered by the log (mean weight "
            f"{mean.value:.3g} instead of 1)."
        )
    return judged("unsupported_mass", value, sentence, details)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(share: float) -> str:
    return "none" if math.isnan(share) else f"{100 * share:.3g}%"


FEW = Topic(
    "Few logged decisions match the new policy, and those few drive the estimate.",
    "The log has enough decisions that match the new policy.",
)
UNSEEN = Topic(
    "The policy takes actions that never appear in the log.", "Every action the policy takes appears in the log."
)
CHECKS = (
    Check(
        "effective_sample_size",
        Threshold(100.0, 10.0, "below", OVERLAP, decides=True, about_products=True, about_reach=True),
        policy=size, topic=FEW, value="Kish's effective number of units", part_of="weights",
    ),
    Check(
        "largest_weight", Threshold(math.inf, math.inf, "above", OVERLAP),
        policy=largest, topic=FEW, value="largest weight (no limit of its own)", part_of="weights",
    ),
    Check(
        "largest_weight_share",
        Threshold(0.05, 0.3, "above", OVERLAP, decides=True, about_products=True, about_reach=True),
        policy=largest_share, topic=FEW, value="share of all weight on one unit", part_of="weights",
    ),
    Check(
        "top_share", Threshold(0.2, math.inf, "above", OVERLAP, about_products=True, advice=True),
        policy=heaviest, topic=FEW, value="share of the weight on the heaviest 1% of the weighted units",
        part_of="weights",
    ),
    Check(
        "top_unit_share", Threshold(0.2, 0.5, "above", OVERLAP, about_products=True),
        policy=top_unit, topic=FEW,
        value="share of the weighted rewards on one unit; two-valued rewards as in the whole log",
        part_of="weights",
    ),
    Check(
        # Moments of order below 1/k exist: above 0.5 there is no variance. What is judged is a lower 99% bound.
        "pareto_k",
        Threshold(0.5, 0.7, "above", OVERLAP, decides=True, about_products=True, false_alarms=0.01, about_reach=True),
        policy=_tail, topic=FEW, value="Pareto index of the weights' tail", part_of="weights",
    ),
    Check(
        "unsupported_mass",
        Threshold(
            0.001, 0.05, "above",
            "The log has no data on these actions there. Restrict the policy to logged actions, or "
            "collect data on the others.",
            decides=True, false_alarms=0.001, about_reach=True,
        ),
        policy=unsupported, applies=lambda view: SHOWN if view.shown else "",
        topic=UNSEEN, value="share of the policy's choices that never appear in the log",
    ),
)  # fmt: skip
