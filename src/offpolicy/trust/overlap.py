"""Overlap: how much of the target policy's mass lies where the logging policy never goes.

With the whole logged distribution the unsupported mass E[Σ_a π_e(a|S) 1{π_b(a|S) = 0}] is exact. With the
probability of the logged action alone it is bounded below in two ways: by the target's mass on actions
that were never logged, and by 1 − E[w], because E[w] = 1 − unsupported mass. The second is an estimate and
counts only where noise explains it in one log of a thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.trust.finding import SHOWN, Finding, judged, not_applicable
from offpolicy.trust.moments import mean_z
from offpolicy.trust.thresholds import FITTED

if TYPE_CHECKING:
    from offpolicy.trust.view import View

NOISE = 3.3


def finding(view: View) -> Finding:
    """The unsupported mass, in words."""
    if view.target.shown is not None:
        return not_applicable("unsupported_mass", SHOWN)
    log, d, reach = view.log, view.decisions, view.reach
    never = 0.0
    if not log.is_continuous:
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
            "the target never takes an action that was logged: no overlap, its value is not identified.",
            details,
        )
    share = reach.forbidden_share
    if share is not None:
        details["forbidden"] = share
        sentence = (
            "the logging policy can take every action that the target takes."
            if share == 0
            else f"{100 * share:.3g}% of the target's actions have logged probability 0."
        )
        return judged("unsupported_mass", share, sentence, details)
    value = max(never, sure)
    if value == 0:
        sentence = "no sign that the target takes actions which the logging policy never takes."
    elif never >= sure:
        sentence = f"{100 * never:.3g}% of the target's actions were never logged."
    elif not view.behavior_is_known:
        sentence = (
            f"weights by the fitted π_b have mean {mean.value:.3g} instead of 1: the model of π_b is off, or "
            f"{100 * sure:.3g}% of the target's mass is not covered by the log."
        )
        return judged("unsupported_mass", value, sentence, details, remedy=FITTED)
    else:
        sentence = (
            f"about {100 * sure:.3g}% of the target's mass is not covered by the log (mean weight "
            f"{mean.value:.3g} instead of 1)."
        )
    return judged("unsupported_mass", value, sentence, details)
