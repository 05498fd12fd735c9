"""Slates: do rewards depend on the items of slots that the assumed interaction leaves out?

Which item slot j shows is drawn with known probabilities. If the reward of slot k does not depend on it,

    E (R_k − r_k(A_k)) (1{A_j = a} / p_j − 1{a could be shown}) = 0     for every item a,

whatever the policy of interest and whatever r_k, for which the mean reward of slot k with its own item is taken. The
same holds with any function f(X, a) of the context summed over the items; f is how attractive the item is by itself
(`attraction`), through which others act in most cases. For every slot j the rewards that leave it out are added up; the
means of these products over all slots, their frequent items and f are tested together (Hotelling's T²).

If the reward of slot k depends on the slots S_k alone, weights of more slots add noise to its estimate, no more:

    E Σ_k (ρ'_k − ρ_k) (R_k − q_k) = 0,     ρ'_k the product over the slots of a wider interaction,

whatever q_k is, as long as it looks at S_k only. A mean that is not 0 is the bias of the assumed interaction for this
policy, up to noise. A cascade is held against all slots, fewer slots against a cascade and against all, and the sum of
the pseudo-inverse against the product over the slate.

``interaction="auto"``: what rewards depend on, looked up in slates that no estimate uses, and confirmed in the rest.

A quarter of the slates chooses, by this test: where rewards depend on items below them, all
slots count ("full"); else where they depend on items above, "cascade"; else "independent". The test is lenient (one in
five is believed that is none), since a slot too many costs precision and a slot too few costs the truth. For the same
reason the slates that are left may widen what was chosen, and never narrow it: a quarter of a small log sees little.

Items that are drawn without replacement have probabilities given those above, and so have policies that rank them. A
cascade is then the narrowest that is chosen: "independent" needs the probability of an item at its position, whatever
else is shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import special

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.inference.score_table import Units
from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.rewards.auto import LinearReward
from offpolicy.models.rewards.reward import RewardData
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.splits.hashing import drawn
from offpolicy.trust.check import WIDER, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import adjusted_z, mean_z
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.slates import Slates
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.view import View


NAME = "left_out_slots"
ATTRACTIVE = -1  # in place of an item
MOST_ITEMS = 20
MOST_ROWS = 20_000  # that a model of attraction is fitted to, about
MOST_CELLS = 2_000_000  # that it predicts
FEWEST = 20  # slates that show an item in a slot
UNITS_PER_TERM = 10
BLOCK = 200_000
TINY = 1e-10


def why_not(log: Slates) -> str:
    """Why there is no slot to look at that rewards leave out; empty where there is."""
    if not several(log):
        return "slates have one slot."
    if log.propensity is None:
        return "propensities of the items were not logged."
    if log.reward_of == "slate":
        return "slates have one reward, which depends on all slots."
    return "rewards may depend on all slots, so none is left out." if bool(log.interaction.mask.all()) else ""


def finding(log: Slates) -> Finding:
    """Whether rewards depend on slots that they should not, and on which item most."""
    if why := why_not(log):
        return not_applicable(NAME, why)
    found = dependence(log, log.interaction.mask)
    if found is None:
        return not_applicable(NAME, "no slot that interaction= leaves out shows an item often enough.")
    where = log.positions[found.slot]
    item = "an attractive item" if found.item == ATTRACTIVE else repr(log.actions[found.item])
    sentence = (
        f"rewards depend on position {where} although they should not: they are {'higher' if found.z > 0 else 'lower'} "
        f"where it shows {item} (p = {found.p:.2g} over {found.terms} items and slots)."
        if not fine(NAME, found.p)
        else f"no sign that rewards depend on slots that interaction= leaves out (p = {found.p:.2g})."
    )
    return judged(NAME, found.p, sentence, {"position": where, "item": item, "z": found.z})


@dataclass(frozen=True)
class Dependence:
    """The test, and the slot and item that stand out most, with their own z-score."""

    p: float
    terms: int
    slot: int
    item: int
    z: float


def dependence(log: Slates, mask: Bools) -> Dependence | None:
    """Test whether rewards depend on slots that a mask leaves out; None where there is nothing to test."""
    named = list(_terms(log, mask))
    if not named:
        return None
    units = Units(log.n, weight=log.weight, cluster=log.cluster)
    columns = _Columns(log, mask)
    if columns.attraction is not None:
        named += [(j, ATTRACTIVE) for j in columns.left]
    table = _Moments.of(columns, units, named)
    mean, covariance, n = table.mean, table.covariance, table.n
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(spread > 0, spread, 1.0)
    correlation = covariance / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    kept = values > TINY * max(float(values.max(initial=0.0)), 1.0)
    rank = int(kept.sum())
    if rank == 0 or n <= rank + 1:
        return None
    along = vectors[:, kept].T @ (mean / scale)
    square = float(n * (along**2 / values[kept]).sum())
    # Hotelling's T² of rank r and n units is F-distributed.
    ratio = square * (n - rank) / (rank * (n - 1))
    p = float(special.fdtrc(rank, n - rank, ratio))
    z = math.sqrt(n) * mean / scale
    top = int(np.argmax(np.abs(z)))
    return Dependence(p, rank, *named[top], float(z[top]))


def _terms(log: Slates, mask: Bools) -> Iterator[tuple[int, int]]:
    """(slot j, item) to look at: slots that some reward leaves out, and the items they show most often."""
    layout = log.layout
    slots = [j for j in range(layout.horizon) if bool((~mask[: layout.horizon, j]).any())]
    most = min(MOST_ITEMS, log.n // (UNITS_PER_TERM * max(len(slots), 1)))
    for j in slots:
        count = np.bincount(log.action[layout.step == j], minlength=len(log.actions))
        for a in np.argsort(-count, kind="stable")[:most].tolist():
            if count[a] >= FEWEST:
                yield j, a


@dataclass(frozen=True, eq=False)
class _Moments:
    """Mean and covariance of the products over independent units."""

    mean: Floats
    covariance: Floats
    n: float

    @classmethod
    def of(cls, columns: _Columns, units: Units, terms: list[tuple[int, int]]) -> _Moments:
        n = units.n_rows
        if units.has_clusters:
            samples = [units.sample(columns.of(j, a, slice(None))) for j, a in terms]
            table = np.column_stack([s.numerator for s in samples])
            return cls._from(table.sum(axis=0), table.T @ table, float(len(table)))
        weight = units.weight / units.weight.mean()
        first, second = np.zeros(len(terms)), np.zeros((len(terms), len(terms)))
        for start in range(0, n, BLOCK):
            part = slice(start, start + BLOCK)
            table = np.column_stack([weight[part] * columns.of(j, a, part) for j, a in terms])
            first += table.sum(axis=0)
            second += table.T @ table
        return cls._from(first, second, float(n))

    @classmethod
    def _from(cls, first: Floats, second: Floats, n: float) -> _Moments:
        mean = first / n
        return cls(mean, (second - n * np.outer(mean, mean)) / max(n - 1, 1.0), n)


class _Columns:
    """The products of one log, slate by slate."""

    def __init__(self, log: Slates, mask: Bools) -> None:
        self.log, layout = log, log.layout
        self.attraction = attraction(log)
        residual, step = _residual(log), layout.step
        self.left: dict[int, Floats] = {}
        self.rows: dict[int, tuple[Ints, Ints]] = {}
        for j, units, rows in layout.by_step():
            leaves = ~mask[: layout.horizon, j]
            if leaves.any():
                self.left[j] = layout.sum(np.where(leaves[step], residual, 0.0))
                self.rows[j] = (units, rows)

    def of(self, j: int, a: int, part: slice) -> Floats:
        """(m,) rewards that leave slot j out × (1{A_j = a} / p_j − 1{a could be shown}), or summed with f."""
        log, (units, rows) = self.log, self.rows[j]
        assert log.propensity is not None
        action, p = log.action[rows], log.propensity[rows]
        ratio = np.zeros(log.n)
        if a == ATTRACTIVE:
            assert self.attraction is not None
            f = self.attraction[rows]
            able = np.ones(f.shape, dtype=bool) if log.eligible is None else log.eligible[rows]
            size = able.sum(axis=1)
            f = f - ((f * able).sum(axis=1) / size)[:, None]
            ratio[units] = f[np.arange(len(rows)), action] / (size * p)
        else:
            could = 1.0 if log.eligible is None else log.eligible[rows, a]
            ratio[units] = (action == a) / p - could
        return np.asarray((self.left[j] * ratio)[part])


def _residual(log: Slates) -> Floats:
    """(S,) rewards as logged, less their mean over slots of the same position and item."""
    assert log.slot_reward is not None
    cell = log.layout.step * len(log.actions) + log.action
    mass = log.weight[log.layout.unit]
    total, size = (np.bincount(cell, weights=w)[cell] for w in (mass * log.slot_reward, mass))
    # Where only slates of weight 0 show an item, nothing is taken off.
    mean = np.divide(total, size, out=np.zeros_like(total), where=size > 0)
    return np.asarray(log.slot_reward - mean)


def attraction(log: Slates) -> Floats | None:
    """(S, K) predicted reward of every item in every slot, each slate's by a model of the other half of the slates.

    None where there is no context to tell slots apart, or too much to predict.
    """
    context = log.bare
    assert context is not None
    assert log.slot_reward is not None
    if len(context.names or ()) < 2 or log.rows * len(log.actions) > MOST_CELLS:
        return None
    table = encode_table(context.learner_table)
    half = np.asarray(drawn(log.units, 0.5, 1))[log.layout.unit]
    some = np.asarray(drawn(log.units, min(1.0, 2 * MOST_ROWS / log.rows), 2))[log.layout.unit]
    out = np.zeros((log.rows, len(log.actions)))
    for side in (half, ~half):
        rows, others = np.flatnonzero(~side & some), np.flatnonzero(side)
        if len(rows) == 0 or len(others) == 0:
            return None
        weight = log.weight[log.layout.unit[rows]] if log.is_weighted else None
        data = RewardData(
            table.rows(rows), log.action[rows], log.slot_reward[rows], weight, log.actions, log.names.action
        )
        fit = LinearReward().fit_reward(data, 0)
        for a in range(len(log.actions)):
            out[others, a] = fit.predict(table.rows(others), np.full(len(others), a))
    return out


SLOTS = Topic("A slot's reward depends on slots that were assumed not to matter.")
BIAS = "interaction_bias"
FEWEST_EFFECTIVE = 100.0  # effective slates below which products over slots are no witness
WIDE = {"cascade": "all slots up to a reward", "full": "all slots of a slate"}
NARROW_FIRST = ("independent", "cascade", "full")
SHARE = 0.25
BELIEVED = 0.2
WIDENS = 0.1  # level at which the slates that are left object
FEWEST_SLATES = 40


def bias(view: View) -> Finding:
    """The distance between the assumed interaction and wider ones, in standard errors."""
    d, assumed = view.decisions, view.log.interaction
    if bool(assumed.mask.all()):
        return not_applicable(BIAS, "rewards may depend on all slots, so there is no wider assumption.")
    distances = {}
    for name, logs in wider(d).items():
        size = _size(view, logs)
        if size >= FEWEST_EFFECTIVE:
            apart = view.units.sample(difference(view, logs))
            distances[name] = (mean_z(apart, 0.0), apart.estimate)
    if not distances:
        return not_applicable(BIAS, "too few slates follow the policy over all slots to tell.")
    name = max(distances, key=lambda n: abs(distances[n][0]))
    z, gap = adjusted_z(distances[name][0], len(distances)), distances[name][1]
    sentence = f"weights of {WIDE[name]} move the estimate by {gap:+.3g}, {z:.2g} standard errors, which is " + (
        "more than chance." if not fine(BIAS, z) else "no more than chance."
    )
    details = {n: {"z": z, "difference": gap} for n, (z, gap) in distances.items()}
    return judged(BIAS, z, sentence, details)


def wider(d: Decisions) -> dict[str, Floats]:
    """(S,) log weights of each slot under wider interactions."""
    chain = replace(d, layout=replace(d.layout, link=None)).log_rho
    whole = np.asarray(d.log_product[d.layout.unit])
    link = d.layout.link
    if link is None or link.additive:
        return {"full": whole}
    # What a cascade leaves out of a mask that looks down would be the mask's, not the cascade's.
    down = bool(np.triu(link.table, 1).any())
    return {"full": whole} if down else {"cascade": chain, "full": whole}


def difference(view: View, logs: Floats) -> Floats:
    """(N,) Σ_k (ρ'_k − ρ_k) (R_k − q_k); without a model, of rewards less their mean at a slot."""
    d = view.decisions
    if d.layout.link is not None and d.layout.link.additive:
        own = 1.0 + d.sum(d.ratio - 1.0)
        centered = d.returns - view.units.mean(d.returns)
        return np.asarray((np.exp(d.log_product) - own) * centered)
    residual = d.reward - _slot_means(d) if not view.has_model else d.outcome - d.q
    return d.sum((np.exp(logs) - d.rho) * residual)


def _slot_means(d: Decisions) -> Floats:
    mass = d.mass[d.layout.unit]
    total, size = (np.bincount(d.layout.step, weights=w, minlength=d.layout.horizon) for w in (mass * d.reward, mass))
    return np.asarray((total / size)[d.layout.step])


def _size(view: View, logs: Floats) -> float:
    """Effective number of slates, by their weights at the last slot."""
    last = np.asarray(view.decisions.layout.last(logs))
    highest = float(last.max(initial=-np.inf))
    if not -np.inf < highest <= LARGEST_LOG_WEIGHT:
        return 0.0
    sample = view.units.sample(np.exp(last))
    return float(effective_size(sample.numerator, sample.count))


def settled(log: Slates, folds: Any, seed: int) -> Slates:
    """The slates that are left to evaluate, under the interaction that the others show."""
    if isinstance(folds, np.ndarray | list | tuple):
        raise UsageError(
            "interaction='auto' sets aside the slates it uses to choose, so folds= must be a number. Or name the "
            "interaction."
        )
    if log.propensity is None:
        raise UsageError("interaction='auto' needs logged propensities. Name the interaction.")
    apart = np.asarray(drawn(log.units, SHARE, seed))
    if min(int(apart.sum()), int((~apart).sum())) < FEWEST_SLATES:
        raise UsageError(
            f"interaction='auto' uses a quarter of the slates to choose, and {log.n:,} slates are too few. "
            "Name the interaction."
        )
    rest = log.take(~apart)
    first = choice(log.take(apart), BELIEVED)
    name = max(first, choice(rest, WIDENS), key=NARROW_FIRST.index)
    note = f"interaction '{first}' was chosen on {int(apart.sum()):,} slates, which are not used for estimates"
    if name != first:
        note += f", and widened to '{name}', because rewards of the other slates depend on it"
    kept = rest.assuming(name)
    return replace(kept, notes=(*kept.notes, note))


def choice(log: Slates, level: float) -> str:
    """The narrowest interaction that a log does not speak against, by tests of a level; of distinct items a cascade."""
    slots = log.layout.horizon
    above = np.tril(np.ones((slots, slots), dtype=bool))
    if depends(log, above, level):
        return "full"
    if log.distinct:
        return "cascade"
    return "cascade" if depends(log, above.T, level) else "independent"


def depends(log: Slates, mask: Bools, level: float) -> bool:
    """Whether rewards seem to depend on slots that a mask leaves out."""
    found = dependence(log, mask)
    return found is not None and found.p < level


CHECKS = (
    Check(
        NAME, Threshold(0.003, -math.inf, "below", WIDER, false_alarms=0.003),
        log=lambda s: finding(cast("Slates", s.log)), where=lambda s: s.log.unit_kind.shows_items, topic=SLOTS,
        value="p-value: rewards of slates do not depend on slots that `interaction=` leaves out",
        part_of="interaction",
    ),
    Check(
        BIAS, Threshold(3.3, 5.0, "above", WIDER, decides=True, false_alarms=0.01),
        policy=bias, where=lambda view: view.log.unit_kind.shows_items and several(view.log),
        topic=SLOTS, value="standard errors between weights of the assumed interaction and of a wider one",
        part_of="interaction",
    ),
)  # fmt: skip
