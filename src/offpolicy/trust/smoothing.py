"""Smoothing: whether the window around a policy's number is too wide for what it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy.scores.catalog import headline
from offpolicy.trust.finding import Finding, judged, not_applicable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import Estimator

NAME = "smoothing_bias"
SURE = 3.3


def finding(estimates: Mapping[str, Estimate], estimators: Sequence[Estimator]) -> Finding | None:
    """The bias of the smoothing in standard errors of the estimate that speaks; None where nothing is smoothed."""
    smooth = [
        e
        for e in estimators
        if e.name in estimates
        and estimates[e.name].finer is not None
        and estimates[e.name].is_defined
    ]
    if not smooth:
        return None
    chosen = headline(smooth)
    estimate = estimates[chosen.name]
    bias, error = estimate.smoothing
    if not estimate.std_error > 0 or not error > 0:
        return not_applicable(NAME, "the scores do not vary with the bandwidth.")
    z, size = bias / error, abs(bias) / estimate.std_error
    sure = abs(z) > SURE
    sentence = (
        f"halving the bandwidth moves {chosen.name} by {abs(z):.2g} standard errors of the difference: a bias of "
        f"{bias:+.3g}, {size:.2g} standard errors of the estimate, for which its intervals allow."
        if sure
        else f"halving the bandwidth moves {chosen.name} by no more than noise (z = {z:.2g})."
    )
    return judged(NAME, size if sure else 0.0, sentence, {"z": z, "bias": bias, "error": error})
