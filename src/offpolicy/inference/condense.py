"""A sample of very many units as few counted rows, from which every interval comes out the same.

What an interval looks at one by one is kept as it is: the units with the most extreme scores (or weights,
rewards, weighted rewards), more than the 3√N that `tail_index` fits or the bootstrap draws. The others stand
as the counted points of their cell, which have its moments (`intervals.cells`).
Intervals of the condensed sample differ from those of the whole one by less than 10⁻⁶ of their width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import or_ones
from offpolicy.inference.intervals.cells import Scale, Table, pointed
from offpolicy.inference.intervals.resample import ONE_BY_ONE, TAIL
from offpolicy.inference.intervals.sample import Sample, frequencies
from offpolicy.inference.intervals.tails import median

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.intervals.evidence import Evidence

LIMIT = 1 << 16
MARGIN = 64  # extreme rows beyond those that are looked at
SOME = 1 << 16  # rows that tell where the extreme ones begin


def condense(sample: Sample, limit: int = LIMIT) -> Sample:
    """Sample of few counted rows with the same intervals.

    Parameters
    ----------
    sample : Sample
        Units of any number, counted or not.
    limit : int
        Samples of at most so many rows are returned as they are.

    Returns
    -------
    Sample
        The extreme units and up to four points per cell of the others, with counts that need not be whole.

    Examples
    --------
    >>> psi = np.random.default_rng(0).exponential(size=200_000)
    >>> whole, few = Sample.of_mean(psi), condense(Sample.of_mean(psi))
    >>> len(few.numerator) < 20_000, math.isclose(few.std_error, whole.std_error)
    (True, True)
    """
    if len(sample.numerator) <= max(limit, ONE_BY_ONE):
        return sample
    size, e, c = sample.denominator, sample.residual, sample.counts
    extreme = _extremes([e, -e], sample.total)
    extreme[np.argmax(size)] = True
    score = np.divide(sample.numerator, size, out=sample.numerator.copy(), where=size != 0)
    deviation = math.sqrt(float(c @ (e * e)) / float(c @ (size * size)))
    rows = _condensed(Table(size, score, c), extreme, Scale(sample.estimate, deviation))
    return Sample(np.where(rows.a == 0, rows.x, rows.a * rows.x), rows.a, rows.count)


def condense_evidence(evidence: Evidence, limit: int = LIMIT) -> Evidence:
    """Evidence of few counted rows, from which the same intervals and choices follow.

    Kept as they are: the largest weights, the extreme weighted rewards, the rewards farthest from their
    median, and that median itself.

    Parameters
    ----------
    evidence : Evidence
        Weights and rewards of units of any number, counted or not.
    limit : int
        Evidence of at most so many rows is returned as it is.

    Examples
    --------
    >>> from offpolicy.inference.intervals import Evidence
    >>> rng = np.random.default_rng(0)
    >>> few = condense_evidence(Evidence(rng.exponential(size=100_000), rng.random(100_000)))
    >>> len(few.weights) < 60_000, round(few.units)
    (True, 100000)
    """
    w, r = evidence.weights, evidence.rewards
    rows = max(0 if values is None else len(values) for values in (w, r))
    if rows <= max(limit, ONE_BY_ONE):
        return evidence
    a, x = or_ones(w, rows), np.zeros(rows) if r is None else r
    c = frequencies(evidence.count, rows)
    middle = median(x, evidence.count)
    product = a * x
    extreme = _extremes([-a, product, -product, -np.abs(x - middle)], evidence.units)
    extreme[[np.argmin(x), np.argmax(x)]] = True
    # Rewards matter by the square of their weight.
    mass = c * a * a if a.any() else c
    center = float(mass @ x) / float(mass.sum())
    deviation = math.sqrt(float(mass @ (x - center) ** 2) / float(mass.sum()))
    table = _condensed(Table(a, x, c), extreme, Scale(center, deviation, middle))
    return replace(
        evidence, weights=None if w is None else table.a, rewards=None if r is None else table.x, count=table.count
    )


def _condensed(table: Table, extreme: Bools, scale: Scale) -> Table:
    ends = table.at(extreme).merged()
    return ends if extreme.all() else ends.joined(pointed(table.at(~extreme), scale))


def _extremes(keys: list[Floats], total: float) -> Bools:
    """Rows among the smallest of any key, enough of them for every tail that is looked at."""
    number = max(math.ceil(3 * math.sqrt(total)), TAIL) + MARGIN
    extreme = np.zeros(len(keys[0]), dtype=bool)
    for key in keys:
        extreme[_smallest(key, number)] = True
    return extreme


def _smallest(key: Floats, number: int) -> Ints:
    """Rows with the ``number`` smallest keys; of equal keys the first."""
    if number >= len(key):
        return np.arange(len(key))
    # A few rows tell about where to look, so that the others are compared with one value and not sorted.
    some = key[:: max(1, len(key) // SOME)]
    place = min(2 * number * len(some) // len(key) + 2, len(some) - 1)
    bound = np.partition(some, place)[place]
    below, equal = np.flatnonzero(key < bound), np.flatnonzero(key == bound)
    if len(below) + len(equal) < number:
        return np.asarray(np.argpartition(key, number)[:number])
    if len(below) <= number:
        return np.concatenate([below, equal[: number - len(below)]])
    return np.asarray(below[np.argpartition(key[below], number - 1)[:number]])
