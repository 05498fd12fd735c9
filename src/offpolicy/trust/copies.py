"""Was the policy learned from the rows it is judged by? Two signs.

*A copy of it earns less.* A policy that was fitted to the rewards of a log prefers, in each row, the action whose
reward happened to be large. Its value on these rows is too high, by any estimator, and no interval tells. A copy of
it, predicted out of fold from the context, has not seen the row. What a policy earns beyond the reward model,
G = E[π_e / π_b (R − q)], is what it knows and the model does not, or chance that it was fitted to. Of the first its
copy has nearly all, of the second nothing: C, the same of the copy, is compared with three quarters of G. This is
asked only where G is not noise.

*It is a fit of these rows.* Linear policies are copied exactly, and gain little in each row. But fits of these rows can
be made again, and a policy that does not know them is at least as far from them as the truth is
(`offpolicy.models.behavior.refits`).

A policy that knows more than the context shows the first sign: the finding asks, and a declaration answers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.behavior.copier import copied, expected
from offpolicy.models.behavior.refits import Rows, nearest
from offpolicy.models.fitting.encode import encode_table
from offpolicy.policies.distribution import blocks
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged
from offpolicy.trust.hashes import mixed, table_hashes
from offpolicy.trust.moments import mean_z
from offpolicy.trust.view import counts_and_weights, labels

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.models.fitting.encode import Encoded
    from offpolicy.policies.target import Target
    from offpolicy.trust.hashes import Hashes
    from offpolicy.trust.view import View

NAME = "learned_from_log"
MOST = 50_000  # different contexts that a copy is fitted to
FEWEST = 20  # contexts; below, what is learned in each is the mean of many rows
SUSPICIOUS = 3.0  # z of the doubly robust correction from which on a copy is fitted
KNOWN = 0.75  # share of what an honest policy earns beyond the reward model that its copy earns at least
SAME = 1e-9  # probabilities that differ by less are equal


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

    @cached_property
    def encoded(self) -> Encoded:
        """The contexts as numbers."""
        return encode_table(self.table)

    @cached_property
    def copy(self) -> Floats:
        """(m, K) what a copy of the policy does in the contexts: it looks at no π_b, and serves every question."""
        return copied(self.encoded, self.shares / self.mass[:, None], self.mass, _halves(mixed(self.hashes)))

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


def sampled(block: Any, target: Target, each: Hashes | None = None) -> Sampled:
    """What a target does on the rows of a log, or of a block of it.

    ``each`` are the hashes of its table of contexts, where they are known already.
    """
    context = block.context
    each = table_hashes(block) if each is None else each
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
        return "you stated that the policy was learned elsewhere."
    if view.target.unseen:
        return "the policy was refitted without the rows it is evaluated on."
    if view.problem.cells is not None:
        return "this check needs ratios of actions, not of cells."
    return "" if view.decisions.ratio.any() else "the policy and the log have no action in common."


@dataclass(frozen=True, eq=False)
class _Rows:
    """A policy's decisions in the contexts that were sampled.

    Attributes
    ----------
    sample : Sampled
    table : Encoded
        Its contexts.
    shares : (m, K) array
        What the policy does in them.
    members : (S,) array
        Which decisions are in them.
    at, action, reward : (r,) arrays
        Context, action and reward of these decisions.
    """

    sample: Sampled
    table: Encoded
    shares: Floats
    members: Bools
    at: Ints
    action: Ints
    reward: Floats

    @classmethod
    def of(cls, view: View, sample: Sampled, shares: Floats) -> _Rows:
        """The decisions that a view looks at."""
        d, log = view.decisions, view.log
        place = np.full(log.rows, -1, dtype=np.int64)
        place[sample.rows] = np.searchsorted(sample.hashes, sample.context)
        place = place[view.rows]
        members = place >= 0
        action = log.action[view.rows][members]
        return cls(sample, sample.encoded, shares, members, place[members], action, d.reward[members])


def finding(view: View) -> Finding:
    """How sure it is that the policy was learned from these rows, in standard errors."""
    d = view.decisions
    gained = mean_z(view.estimate(d.ratio * (d.reward - d.q)).sample(), 0.0) if view.has_model else np.inf
    expected_of_it = (
        f"it earns as much as the reward model predicts (z = {gained:.2g})" if abs(gained) < SUSPICIOUS else ""
    )
    many = float(view.log.count.sum()) > MOST  # what a linear fit of so many rows gains by chance is small
    if np.ptp(d.ratio) < SAME or (many and expected_of_it):
        return _fine(expected_of_it or "it acts like the logging policy")
    sample = view.problem.sums("sampled", view.target.name)
    shares = sample.shares / sample.mass[:, None]
    if len(shares) < FEWEST or np.ptp(shares, axis=0).max() < SAME:
        return _fine("it takes the same action in every context, or there are few contexts")
    rows = _Rows.of(view, sample, shares)
    near = nearest(rows.table, _lessons(view, rows), shares.argmax(axis=1), shares.shape[1])
    if not fine(NAME, near.z):
        return _learned(
            near.z,
            f"the policy agrees with a {near.form} of these rows in all but {100 * near.apart:.2g}% of the "
            f"contexts, where {100 * near.usual:.2g}% would be usual",
        )
    if expected_of_it:
        return _fine(expected_of_it)
    z = _copied_z(view, rows)
    if fine(NAME, z):
        return _fine(f"a copy of it made without these rows does as well (z = {z:.2g})", z)
    return _learned(z, "the policy does better on these rows than a copy of it made without them")


def _learned(z: float, why: str) -> Finding:
    sentence = (
        f"{why} (z = {z:.3g}). Was it learned from these rows? Then its value here is too high, "
        "and no interval shows it."
    )
    return judged(NAME, z, sentence, {"z": z})


def _fine(why: str, z: float = 0.0) -> Finding:
    return judged(NAME, z, f"no sign that the policy was learned from these rows: {why}.", {"z": z})


def _lessons(view: View, rows: _Rows) -> Rows:
    """What a learner could have seen of these decisions."""
    mass = view.row_mass[rows.members]
    return Rows(rows.at, rows.action, rows.reward, mass / mass.mean(), 1.0 / view.decisions.pi_b[rows.members])


def _copied_z(view: View, rows: _Rows) -> float:
    """By how many standard errors the copy earns less than three quarters of what the policy does beyond the model."""
    d, sample = view.decisions, rows.sample
    q = (
        d.q[rows.members]
        if view.has_model
        else expected(
            rows.table, rows.at, rows.action, rows.reward, view.row_mass[rows.members], _halves(sample.hashes),
            view.log.actions,
        )
    )  # fmt: skip
    rest, known = np.zeros(len(rows.members)), np.zeros(len(rows.members))
    rest[rows.members] = rows.reward - q
    known[rows.members] = sample.copy[rows.at, rows.action] / d.pi_b[rows.members]
    gain = view.over_decisions(d.ratio * rest, rows.members).value
    missing = view.over_decisions((KNOWN * d.ratio - known) * rest, rows.members)
    # Of a cost a learner takes what is low: both signs are signs.
    return float(np.sign(gain)) * mean_z(missing.sample(), 0.0)


def _halves(hashes: Hashes) -> Ints:
    """Halves of the contexts."""
    return (mixed(mixed(hashes)) >> np.uint64(60)).astype(np.int64) % 2


CHECKS = (
    Check(
        NAME,
        Threshold(
            3.0, 3.0, "above",
            "If so, evaluate the learner with op.policies.CrossFitted(learner), or on rows that it has not seen. If it "
            "was learned elsewhere, or uses columns outside the context, pass learned_elsewhere=.",
            decides=True, false_alarms=0.001,
        ),
        policy=finding, applies=lambda view: labels(view) or why_not(view),
        singly="this check is for single decisions.",
        topic=Topic("The policy seems to have been learned from the rewards it is evaluated on."),
        value="standard errors by which the policy does better here than its copy, or is closer to a fit of these rows",
    ),
)  # fmt: skip
