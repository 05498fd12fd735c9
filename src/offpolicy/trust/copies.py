"""Was the policy learned from the rows it is judged by? A copy of it, made without looking at them, earns less then.

A policy that was fitted to the rewards of a log prefers, in each row, the action whose reward happened to be large. Its
value on these rows is too high, by any estimator, and no interval tells. A copy c of it, predicted out of fold from the
context, has not seen the row. For a policy learned elsewhere

    E[(π_e(A|S) − c(A|S)) / π_b(A|S) · (R − q(S, A))] = 0

where the copy is good or q is: this is the paired difference of the corrections in the doubly robust scores of policy
and copy. A policy that knows more than the context shows the same sign: the finding asks, and a declaration answers it.

Fitting copies is the last resort: where π_e / π_b · (R − q) is noise, nothing was gained from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.behavior.copier import copied, expected
from offpolicy.models.fitting.encode import Encoded, encode_table
from offpolicy.policies.distribution import blocks
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged
from offpolicy.trust.hashes import joined, mixed, table_columns
from offpolicy.trust.moments import mean_z
from offpolicy.trust.view import counts_and_weights, labels

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.policies.target import Target
    from offpolicy.trust.hashes import Hashes
    from offpolicy.trust.view import View

NAME = "learned_from_log"
MOST = 50_000  # different contexts that a copy is fitted to
FEWEST = 20  # contexts; below, what is learned in each is the mean of many rows
SUSPICIOUS = 2.5  # z of the doubly robust correction from which on a copy is fitted
MATERIAL = 2.0  # standard errors of the policy's own correction
SAME = 1e-9  # probabilities that differ by less are equal
GROUPS = 20  # values of a column from which on they may be users, say, whose rows stay together


@dataclass(frozen=True, eq=False)
class Sampled:
    """What a policy does in some contexts of a log, or of a block of it; blocks in a row add up with ``+``.

    The contexts with the smallest hashes are kept, so that every way through a log keeps the same.

    Attributes
    ----------
    size : int
        Decisions of the log or block.
    hashes : (m,) array
        Of the contexts, in order.
    table : frame or array
        The contexts.
    mass : (m,) array
        Of their decisions.
    shares : (m, K) array
        Mass with which the policy takes each action there.
    rows, context : (r,) arrays
        Decisions in these contexts, and which context each has, by its hash.
    """

    size: int
    hashes: Hashes
    table: Any
    mass: Floats
    shares: Floats
    rows: Ints
    context: Hashes

    def __add__(self, other: Sampled) -> Sampled:
        """The sample of both blocks, one after the other."""
        hashes, first, place = np.unique(
            np.concatenate([self.hashes, other.hashes]), return_index=True, return_inverse=True
        )
        size, top = min(len(hashes), MOST), hashes[:MOST][-1]
        kept = place < size

        def summed(mine: Floats, theirs: Floats) -> Floats:
            out = np.zeros((size, *mine.shape[1:]))
            np.add.at(out, place[kept], np.concatenate([mine, theirs])[kept])
            return out

        rows = np.concatenate([self.rows, other.rows + self.size])
        context = np.concatenate([self.context, other.context])
        return Sampled(
            self.size + other.size,
            hashes[:size],
            _taken(_stacked(self.table, other.table), first[:size]),
            summed(self.mass, other.mass),
            summed(self.shares, other.shares),
            rows[context <= top],
            context[context <= top],
        )


def _stacked(first: Any, second: Any) -> Any:
    if not hasattr(first, "iloc"):
        return np.concatenate([first, second])
    import pandas as pd

    return pd.concat([first, second], ignore_index=True)


def _taken(table: Any, rows: Ints) -> Any:
    if not hasattr(table, "iloc"):
        return np.asarray(table)[rows]
    return table.iloc[rows].reset_index(drop=True)


def sampled(block: Any, target: Target) -> Sampled:
    """What a target does on the rows of a log, or of a block of it."""
    context = block.context
    each = joined([hashes for _, _, hashes in table_columns(block)], context.n_table)
    used = np.arange(len(each)) if context.index is None else np.unique(context.index)
    hashes, first = np.unique(each[used], return_index=True)
    hashes, first = hashes[:MOST], used[first[:MOST]]
    of_rows = each if context.index is None else each[context.index]
    rows = np.flatnonzero(of_rows <= hashes[-1])
    place = np.searchsorted(hashes, of_rows[rows])
    count, weight = counts_and_weights(block)
    mass = (count * weight)[rows]
    total = np.bincount(place, mass, len(hashes)).astype(np.float64)
    if target.shares_context:
        shares = total[:, None] * target.probabilities(first)
    else:
        shares = np.zeros((len(hashes), target.n_actions))
        for some in blocks(len(rows), target.width):
            np.add.at(shares, place[some], mass[some, None] * target.probabilities(rows[some]))
    return Sampled(len(of_rows), hashes, _taken(context.learner_table, first), total, shares, rows, of_rows[rows])


def why_not(view: View) -> str:
    """Why a policy cannot have been learned from these rows, or cannot be asked; empty where it can."""
    if view.declared:
        return "the policy was declared to be learned elsewhere."
    if view.target.unseen:
        return "the policy was refitted without the rows it is judged by."
    if view.problem.cells is not None:
        return "looked for where ratios are of actions, not of cells."
    return "" if view.decisions.ratio.any() else "the policy and the log have no action in common."


def finding(view: View) -> Finding:
    """How much better the policy does on these rows than its copy, in standard errors."""
    d = view.decisions
    if view.has_model:
        gained = mean_z(view.estimate(d.ratio * (d.reward - d.q)).sample(), 0.0)
        if abs(gained) < SUSPICIOUS:
            return _said(0.0, f"it earns what the reward model expects (z = {gained:.2g})")
    if np.ptp(d.ratio) < SAME:
        return _said(0.0, "it does what the logging policy did")
    sample = view.problem.sums("sampled", view.target.name)
    shares = sample.shares / sample.mass[:, None]
    if len(shares) < FEWEST or np.ptp(shares, axis=0).max() < SAME:
        return _said(0.0, "it does the same in every context, or contexts are few")
    z = _copied_z(view, sample, shares)
    return _said(z, f"a copy of it that was predicted without them does as well (z = {z:.2g})")


def _said(z: float, why: str) -> Finding:
    sentence = (
        f"no sign that the policy was learned from these rows: {why}."
        if fine(NAME, abs(z))
        else "the policy does better on these rows than a copy of it that was predicted without them "
        f"(z = {z:.3g}): was it learned from these rows? Its value here is too high then, and no interval tells."
    )
    return judged(NAME, abs(z), sentence, {"z": z})


def _copied_z(view: View, sample: Sampled, shares: Floats) -> float:
    """The z-score of the difference between the corrections of policy and copy; 0 where it is too small to matter."""
    table = encode_table(sample.table)
    copy = copied(_numbers(table), shares, sample.mass, _folds(table, sample.hashes))
    d, log = view.decisions, view.log
    at = np.full(log.rows, -1, dtype=np.int64)
    at[sample.rows] = np.searchsorted(sample.hashes, sample.context)
    place = at[view.rows]
    members = place >= 0
    at, action, reward = place[members], log.action[view.rows][members], d.reward[members]
    if not view.has_model:
        fold, mass = _folds(table, mixed(sample.hashes)), view.row_mass[members]
        q = expected(table, at, action, reward, mass, fold, log.actions)
    else:
        q = d.q[members]
    rest = np.zeros(len(place))
    rest[members] = reward - q
    known = np.zeros(len(place))
    known[members] = copy[at, action] / d.pi_b[members]
    gap = view.over_decisions((d.ratio - known) * rest, members)
    # A copy of a rule is a little less sure of itself, which large logs show: that gap matters to no interval.
    error = view.over_decisions(d.ratio * rest, members).std_error
    return mean_z(gap.sample(), 0.0) if abs(gap.value) > MATERIAL * error else 0.0


def _numbers(table: Encoded) -> Encoded:
    """Codes of categories as numbers: by category a copy would learn by heart what was learned for each user."""
    return Encoded(table.matrix, ())


def _folds(table: Encoded, hashes: Hashes) -> Ints:
    """Halves of the contexts; those that agree in the column with most values, if these repeat, stay together."""
    best, most = hashes, GROUPS - 1
    for j, column in enumerate(table.matrix.T):
        whole = j in table.categorical or bool((column[np.isfinite(column)] % 1 == 0).all())
        levels = len(np.unique(column)) if whole else 0
        if most < levels <= len(column) / 2:
            best, most = np.ascontiguousarray(column + 0.0).view(np.uint64), levels
    return (mixed(mixed(best)) >> np.uint64(60)).astype(np.int64) % 2


CHECKS = (
    Check(
        NAME,
        Threshold(
            4.5, 4.5, "above",
            "If so, evaluate the learner with op.policies.CrossFitted(learner), or on rows that it has not seen. If it "
            "was learned elsewhere, or knows columns outside the context, say so with learned_elsewhere=.",
            decides=True, false_alarms=0.001,
        ),
        policy=finding, applies=lambda view: labels(view) or why_not(view),
        singly="looked for in single decisions only.",
        topic=Topic("The policy seems to have been learned from the rewards it is judged by."),
        value="standard errors by which the policy does better here than a copy predicted without these rows",
    ),
)  # fmt: skip
