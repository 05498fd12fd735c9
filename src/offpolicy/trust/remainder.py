"""Beside a fitted π_b: is what the two models miss together too much for the standard error?

A doubly robust score with π̂_b and q̂ is off by E[Σ_a π_e(a|S)(1 − π_b/π̂_b)(q − q̂)]. Neither error is known, but their
product along functions of the context is estimable (`remainder`), to a fraction of the standard error of the value. A
test of intervals from learned nuisances by this product: Liu, Mukherjee and Robins (2020).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.rewards.corrected import MOST_ACTIONS, remainder
from offpolicy.models.rewards.reward import RewardData
from offpolicy.trust.check import FITTED, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.view import labels, model

if TYPE_CHECKING:
    from offpolicy.trust.view import View

NAME = "model_remainder"
SURE = 2.6  # standard errors of the product that are taken off it
FEWEST = 200  # decisions from which on it is estimated
MOST = 200_000


def fitted(view: View) -> bool:
    """Whether π_b of single decisions is fitted."""
    given = view.behavior_is_known or view.problem.behavior_given
    return not given and view.decisions.layout.is_single


def why_not(view: View) -> str:
    """Why such a product cannot be estimated; empty where it can."""
    if view.split != "crossfit" or view.value_split != "crossfit":
        return "this check needs both models to be cross-fitted."
    if view.problem.cells is not None:
        return "this check needs ratios of actions, not of cells."
    if len(view.log.actions) > MOST_ACTIONS or not FEWEST <= view.units.count.sum() <= MOST:
        return "there are too many actions, or too few or too many decisions."
    return labels(view) or model(view)


def finding(view: View) -> Finding:
    """The product in standard errors of the doubly robust score, less what may be chance."""
    d, log, sample = view.decisions, view.log, view.problem.sums("sampled", view.target.name)
    table = encode_table(sample.table)
    if table.matrix.shape[1] == 0:
        return not_applicable(NAME, "the context has no columns.")
    at = np.full(log.rows, -1, dtype=np.int64)
    at[sample.rows] = np.searchsorted(sample.hashes, sample.context)
    at, action, fold = at[view.rows], log.action[view.rows], view.problem.folds.labels[0][view.rows]
    # Rows, cells and blocks of the same log are the same table: sorted, equal ones together.
    # Weights and predictions may differ where these do not, by batch or by a column outside the context.
    told = (at, action, fold, d.reward, d.ratio, d.q)
    order = np.lexsort(told[::-1])
    order = order[at[order] >= 0]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([np.diff(column[order]) != 0 for column in told], axis=0)
    starts = np.flatnonzero(new)
    rows = order[starts]
    mass, count = (np.add.reduceat(column[order], starts) for column in (view.row_mass, view.units.count))
    weight = mass / mass.mean()
    data = RewardData(table.rows(at[rows]), action[rows], d.reward[rows], weight, log.actions, log.names.action)
    wanted = (sample.shares / sample.mass[:, None])[at[rows]]
    off, error = remainder(data, fold[rows], wanted, d.ratio[rows], (d.reward - d.q)[rows], mass, count)
    unit = view.estimate(view.score).std_error
    size, noise = abs(off) / unit, error / unit
    value = max(0.0, size - SURE * noise)
    sentence = (
        f"the errors that the models of π_b and of rewards share move the estimate by {size:.2g} ± {noise:.2g} "
        "standard errors."
    )
    return judged(NAME, value, sentence, {"off": off, "error": error})


CHECKS = (
    Check(
        NAME, Threshold(0.1, 0.75, "above", FITTED, decides=True, false_alarms=0.01),
        policy=finding, where=fitted, applies=why_not,
        topic=Topic("The models of actions and of rewards are wrong in the same places."),
        value="bias from both models' errors, in standard errors, beyond chance",
    ),
)  # fmt: skip
