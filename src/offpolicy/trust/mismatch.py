"""Were actions logged as often as their propensities say? Sample-ratio mismatch of a whole log.

If π_b(a|S) is the probability with which A was drawn, Σ_i (1{A_i = a} − π_b(a|S_i)) is noise. Where only
the probability p_i of the logged action is known, two consequences are left. Inside a batch whose
propensities are constant by action, the counts of actions are multinomial (Pearson's χ²). Otherwise
E[1{A = a} / p] is the probability that a was possible, at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy.policies.distribution import blocks
from offpolicy.trust.balance import TAIL, design_effects
from offpolicy.trust.check import CHECKS as ALL
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import deficit_z, first_largest, furthest
from offpolicy.trust.view import propensities

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.log import Log
    from offpolicy.trust.view import Draws

SMALLEST_CELL = 5.0
SURELY_SEEN = 8.0  # steps of an action to be expected in a state, of which none comes in 1 of 3,000
LARGEST_TABLE = 50_000_000
MATERIAL = 0.05
SHARES = 1e-4  # by which shares may sum to more than 1
MOSTLY = 0.5  # share of an action that is missing from which on it was not always possible
BINS = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
MISMATCH = "sample_ratio_mismatch"
AS_OFTEN = "actions were logged as often as their propensities say (p = {:.2g})."
TOO_FEW = "too few rows to compare shares of actions."


@dataclass(frozen=True)
class RatioTest:
    """Pearson's test of counts against expected shares."""

    statistic: float
    degrees: int
    p_value: float
    deviation: float


def sample_ratio(counts: Floats, shares: Floats) -> RatioTest:
    """Test of counts of actions against the shares they were drawn with.

    Shares that do not sum to 1 leave the rest to actions of which none was seen. Cells in which fewer than
    5 are expected are put together. ``deviation`` is the largest |observed / expected − 1| of a cell.

    Parameters
    ----------
    counts, shares : (K,) arrays
        How often each action was logged, and the probability of each.

    Examples
    --------
    >>> test = sample_ratio(np.array([520.0, 480.0]), np.array([0.5, 0.5]))
    >>> round(test.statistic, 3), test.degrees, round(test.p_value, 3)
    (1.6, 1, 0.206)
    """
    total, rest = float(counts.sum()), 1.0 - float(shares.sum())
    if rest < -SHARES:
        return RatioTest(math.inf, max(len(counts) - 1, 1), 0.0, -rest)
    seen = np.append(counts, 0.0) if rest > 1e-6 else counts
    expected = total * (np.append(shares, rest) if rest > 1e-6 else shares)
    small = expected < SMALLEST_CELL
    if small.any():
        seen = np.append(seen[~small], seen[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        if expected[-1] < SMALLEST_CELL and len(expected) > 1:
            seen[-2], expected[-2] = seen[-2] + seen[-1], expected[-2] + expected[-1]
            seen, expected = seen[:-1], expected[:-1]
    degrees = len(seen) - 1
    if degrees == 0:
        return RatioTest(0.0, 0, 1.0, 0.0)
    statistic = float(np.sum((seen - expected) ** 2 / expected))
    deviation = float(np.max(np.abs(seen / expected - 1)))
    p = float(special.chdtrc(degrees, statistic))
    return RatioTest(statistic, degrees, p, deviation)


def exact_p(counts: Floats, shares: Floats) -> float:
    """Adjusted p-value of the count that is least likely, by the binomial distribution of each.

    χ² is far too sure of itself in its tail where few are expected. Actions are tested that were seen, which is
    allowed for; two actions that leave no third are one test.

    >>> round(exact_p(np.array([520.0, 480.0]), np.array([0.5, 0.5])), 3)
    0.217
    """
    total = round(float(counts.sum()))
    seen, share = np.round(counts), np.clip(shares, 0.0, 1.0)
    none = (1 - share) ** total
    above = special.bdtrc(seen - 1, total, share)
    below = special.bdtr(seen, total, share) - none
    tail = np.minimum(np.minimum(above, below), 0.5) / np.maximum(1 - none, 1e-300)
    tests = 1 if len(counts) == 2 and shares.sum() > 1 - 1e-9 else len(counts)
    return float(min(1.0, 2 * tests * tail.min()))


@dataclass(frozen=True, eq=False)
class DistributionSums:
    """Sums over draws of the whole logged distribution; those of two blocks add up with ``+``.

    Attributes
    ----------
    expected, variance : (K,) arrays
        Σ m p(a) and Σ m² p(a)(1 − p(a)).
    levels : (3, bins) array
        Expected and its variance, and what was seen, by the size of p.
    """

    expected: Floats
    variance: Floats
    levels: Floats

    def __add__(self, other: DistributionSums) -> DistributionSums:
        """The sums over both blocks."""
        mine, theirs = vars(self), vars(other)
        return DistributionSums(**{name: mine[name] + theirs[name] for name in mine})


def distribution_sums(block: Any, mass: Floats, square: Floats) -> DistributionSums | None:
    """Sums over the decisions of a log, or of a block of it; None where only one probability was logged.

    Parameters
    ----------
    block : BanditLog or Trajectories
        Its ``distribution`` and ``action`` are looked at.
    mass, square : (S,) arrays
        Of the draws of the block's decisions (`draws_of`).
    """
    if block.distribution is None:
        return None
    k, size = len(block.actions), len(BINS) - 1
    expected, variance, levels = np.zeros(k), np.zeros(k), np.zeros((3, size))
    for rows in blocks(len(mass), k):
        p, m, s = block.distribution[rows], mass[rows], square[rows]
        expected += m @ p
        variance += s @ (p * (1 - p))
        place = np.clip(np.searchsorted(BINS, p, side="left") - 1, 0, size - 1)
        flat = place.ravel()
        levels[0] += np.bincount(flat, weights=(m[:, None] * p).ravel(), minlength=size)
        levels[1] += np.bincount(flat, weights=(s[:, None] * p * (1 - p)).ravel(), minlength=size)
        own = place[np.arange(len(rows)), block.action[rows]]
        levels[2] += np.bincount(own, weights=m, minlength=size)
    return DistributionSums(expected, variance, levels)


def mismatch(log: Log, draws: Draws, sums: DistributionSums | None) -> Finding:
    """Sample-ratio mismatch of the whole log: by batch and action, by action, or by intervals of numbers."""
    if not log.space.finite:
        log = log.space.binned(log)
        return _by_inverse(log, draws, effects_of(log, draws))
    effects = effects_of(log, draws)
    if sums is not None:
        return _by_distribution(log, draws, sums, effects)
    if log.is_discrete and log.eligible is None and (by_state := _complete_states(log, draws)) is not None:
        return _by_distribution(log, *by_state, effects)
    alone = not log.is_weighted and log.eligible is None and bool((effects == 1).all())
    if alone and (cells := _constant_cells(log, draws)) is not None:
        return _by_batch(log, *cells)
    return _by_inverse(log, draws, effects)


def effects_of(log: Log, draws: Draws) -> Floats:
    """(K,) design effects of clusters; 1 where a cluster is one draw already."""
    one_each = log.has_clusters and not draws.are_rows
    return np.ones(len(log.actions)) if one_each else design_effects(log)[0]


def _by_distribution(log: Log, draws: Draws, sums: DistributionSums, effects: Floats) -> Finding:
    k, mass = len(log.actions), draws.mass
    seen = np.bincount(log.action, weights=mass, minlength=k)
    gap, variance = seen - sums.expected, sums.variance * effects
    each = draws.mean_weight
    some = variance > 1e-12 * each * mass.sum()
    z = np.divide(gap, np.sqrt(variance), out=np.zeros(k), where=some)
    # Counts of very rare actions are not normal; they show in the calibration.
    usable = sums.expected >= 4 * SMALLEST_CELL * each
    if not usable.any():
        return not_applicable(MISMATCH, TOO_FEW)
    off = np.divide(np.abs(gap), sums.expected, out=np.zeros(k), where=sums.expected > 0)
    method = "counts compared with the sum of propensities"
    return _from_z(log, z, off, usable, method)


def _complete_states(log: Log, draws: Draws) -> tuple[Draws, DistributionSums] | None:
    """The draws of discrete states whose whole distribution shows, and what it leads to expect.

    Where the propensities of the actions logged in a state are constant and sum to 1, no other action is possible
    there. Only states count that hold each of these for as good as sure: those without their rarest action are not
    known to be complete, and to leave them out must not favor it. None where such states hold less than half of the
    draws.
    """
    k, state = len(log.actions), log.context.positions(np.arange(len(log.action)))
    cell, size = state * k + log.action, log.context.n_table * k
    if size > LARGEST_TABLE:
        return None
    most, least = np.zeros(size), np.full(size, np.inf)
    np.maximum.at(most, cell, log.propensity)
    np.minimum.at(least, cell, log.propensity)
    table, low = most.reshape(-1, k), least.reshape(-1, k)
    rarest = np.where(table > 0, table, 1.0).min(axis=1)
    visits = np.bincount(state, weights=draws.number, minlength=len(table))
    alike = (table - np.where(table > 0, low, 0.0)).max(axis=1) <= SHARES
    whole = alike & (np.abs(table.sum(axis=1) - 1) <= SHARES) & (visits * rarest >= SURELY_SEEN)
    kept = replace(draws, number=np.where(whole[state], draws.number, 0.0))
    if kept.number.sum() < draws.number.sum() / 2:
        return None
    mass, square = (np.bincount(state, weights=x, minlength=len(table)) for x in (kept.mass, kept.square))
    return kept, DistributionSums(mass @ table, square @ (table * (1 - table)), np.zeros((3, len(BINS) - 1)))


def _by_inverse(log: Log, draws: Draws, effects: Floats) -> Finding:
    """Each action, and all others together, against the probability of being possible."""
    k, mass, square = len(log.actions), draws.mass, draws.square
    least = TAIL / float(draws.number.sum())
    bounded = log.propensity >= least * (1 - 1e-9)
    action, inverse = log.action, np.where(bounded, 1.0 / log.propensity, 0.0)
    first = np.bincount(action, weights=mass * inverse, minlength=k).astype(np.float64)
    second = np.bincount(action, weights=square * inverse**2, minlength=k).astype(np.float64)
    able = np.ones((1, k)) if log.eligible is None else log.eligible
    possible = np.full(k, float(mass.sum())) if len(able) == 1 else mass @ able
    often = np.bincount(action, weights=draws.number * bounded, minlength=k) >= 2 * SMALLEST_CELL
    if not often.any():
        return not_applicable(MISMATCH, TOO_FEW)
    cubes = square * draws.weight * inverse**3
    third = np.bincount(action, weights=cubes, minlength=k).astype(np.float64)
    rest, rest_second, rest_third, rest_possible = (x.sum() - x for x in (first, second, third, possible))
    squares, most = float(square.sum()), float(effects.max())
    z = np.stack(
        [
            _inverse_z(first, second, third, possible, squares, effects),
            _inverse_z(rest, rest_second, rest_third, rest_possible, squares, most),
        ]
    )
    reference = np.stack([possible, rest_possible])
    off = np.stack([first, rest]) - reference
    share = np.divide(np.abs(off), reference, out=np.zeros((2, k)), where=reference > 0)
    usable = np.stack([often, (often.sum() > often) & (k > 2)])
    method = "mean of 1{A = a} / propensity, at most the share of rows in which a is possible"
    # An action that was not always possible comes less often than 1 / propensity says, and so does one whose least
    # likely rows have not come. Where a moderate part is missing that nothing of this explains, rows may be lost.
    tailless = np.bincount(action, weights=~bounded, minlength=k) == 0
    missing = np.stack([tailless, np.full(k, tailless.all())]) & (share < MOSTLY)
    known = log.eligible is not None
    return _from_z(log, z, share, usable, method, deficits=missing, sure=known)


def _inverse_z(
    first: Floats, second: Floats, third: Floats, expected: Floats, squares: float, effects: Floats | float
) -> Floats:
    """The z-score of Σ m 1{A = a}/p against its expectation."""
    size = len(first)
    mean = np.divide(first, expected, out=np.zeros(size), where=expected > 0)
    # Where large inverse propensities are still unseen so is their spread: under the right total it
    # would be the total times their mean.
    heavy = np.divide(second, first, out=np.zeros(size), where=first > 0)
    spread = np.maximum(second, expected * heavy) - squares * np.minimum(mean, 1.0) ** 2
    error = np.sqrt(np.maximum(spread, 0.0) * effects)
    gap, tiny = first - expected, 1e-9 * expected
    z = np.divide(gap, error, out=np.zeros(size), where=error > tiny)
    z[(error <= tiny) & (np.abs(gap) > tiny)] = math.inf
    # Too few are less of a surprise than the normal distribution has it: large terms are rare.
    return deficit_z(z, third, np.where(error > tiny, spread, 0.0))


def _from_z(
    log: Log,
    z: Floats,
    deviation: Floats,
    usable: Bools,
    method: str,
    *,
    deficits: Bools | bool = True,
    sure: bool = True,
) -> Finding:
    """The worst of the usable actions. An excess contradicts the propensities, too few do where ``deficits`` says so.

    A second row of ``z`` is about all other actions together. Where it is not ``sure`` that actions were always
    possible, too few are worth a caution.
    """
    z, deviation, usable = np.atleast_2d(z), np.atleast_2d(deviation), np.atleast_2d(usable)
    worst = furthest(z, usable, (z > 0) | deficits)
    row, a = divmod(worst.place, z.shape[1])
    top, p = worst.z, worst.p
    label, off = log.actions[a], float(deviation[row, a])
    who = f"action {label!r} was" if row == 0 else f"actions other than {label!r} were"
    calm = fine(MISMATCH, p)
    sentence = (
        AS_OFTEN.format(p)
        if calm
        else f"{who} logged {100 * off:.3g}% {'more' if top > 0 else 'less'} often than "
        f"{'its' if row == 0 else 'their'} propensities say (p = {p:.2g})."
    )
    if not calm and top < 0 and not sure:
        sentence += " If it was not always possible, name the rows where it was with eligible=."
    return judged(
        MISMATCH,
        p,
        sentence,
        {
            "method": method,
            "deviation": off,
            "actions": {log.actions[b]: float(z[0, b]) for b in np.flatnonzero(usable[0])},
        },
        at_most="alarm" if off > MATERIAL and (sure or top > 0) else "caution",
    )


def _constant_cells(log: Log, draws: Draws) -> tuple[Floats, Floats] | None:
    """(B, K) counts and propensities, where propensities are constant by batch and action."""
    part = draws.number > 0
    batch = np.maximum(log.batch, 0)[log.layout.unit]
    shape = (max(len(log.batch_labels), 1), len(log.actions))
    if math.prod(shape) > LARGEST_TABLE:
        return None
    cell, p = (batch[part], log.action[part]), log.propensity[part]
    counts, top, bottom = np.zeros(shape), np.zeros(shape), np.full(shape, np.inf)
    np.maximum.at(top, cell, p)
    np.minimum.at(bottom, cell, p)
    if not (top - bottom <= 1e-9 + 1e-6 * top).all():
        return None
    np.add.at(counts, cell, draws.number[part])
    context = log.context
    varies = bool(context.names) if context.names is not None else np.asarray(context.table).size > 0
    if varies and (top.sum(axis=1) > 1 + SHARES).any():
        return None  # what is possible depends on the context
    return counts, top


def _by_batch(log: Log, counts: Floats, shares: Floats) -> Finding:
    cells = [(c[s > 0], s[s > 0]) for c, s in zip(counts, shares, strict=True)]
    tests = [sample_ratio(*cell) for cell in cells]
    testable = np.array([t.degrees > 0 for t in tests])
    # A batch whose rows all belong to draws of earlier ones has no counts at all.
    p_values = np.array(
        [max(t.p_value, exact_p(*cell)) if t.degrees > 0 else 1.0 for t, cell in zip(tests, cells, strict=True)]
    )
    if not testable.any():
        return not_applicable(MISMATCH, TOO_FEW)
    number = int(testable.sum())
    worst = first_largest(-np.where(testable, p_values, 2.0))
    p = min(1.0, number * float(p_values[worst]))
    flagged = int((p_values[testable] < ALL[MISMATCH].limits.alarm).sum())
    names = tuple(log.batch_labels) or ("all",)
    where = "" if not log.has_batches else f" in batch {names[worst]!r}"
    sentence = (
        f"actions were not logged at the rates of their propensities{where}: off by up to "
        f"{100 * tests[worst].deviation:.3g}% (p = {p:.2g})"
    )
    sentence += "." if not log.has_batches else f"; {flagged} of {number} batches fail at 0.001."
    sentence = AS_OFTEN.format(p) if fine(MISMATCH, p) else sentence
    return judged(
        MISMATCH,
        p,
        sentence,
        {
            "method": "Pearson χ² by batch",
            "deviation": tests[worst].deviation,
            "batches": {names[b]: float(p_values[b]) for b in np.flatnonzero(testable)},
        },
        at_most="alarm" if tests[worst].deviation > MATERIAL else "caution",
    )


CHECKS = (
    Check(
        MISMATCH,
        Threshold(
            0.002, 0.0001, "below",
            "Find out why logged actions do not match their propensities: lost rows, filters "
            "after assignment, bots, redirects, or wrong propensities.",
            decides=True, false_alarms=0.002,
        ),
        log=lambda s: mismatch(s.log, s.draws, s.sums.distribution), applies=propensities,
        topic=Topic("Some actions were logged more or less often than their probabilities say."),
        value="p-value: logged actions compared with their propensities",
    ),
)  # fmt: skip
