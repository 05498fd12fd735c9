"""Intervals of several estimates that hold together, by the same rules as single ones.

Of m estimates each is first asked for its own interval at level 1 − α/m: exact, likelihood-based, bracketed or
refused, as its evidence commands; these hold together by Bonferroni's inequality. Where the own rule says *normal*,
*t* or *fieller* at that level, evidence is plentiful, and p such estimates share the critical value of their largest
|t| at level 1 − α p/m, which knows how they move together (max-t, drawn from their joint covariance; with few
independent units from the corresponding t). The smaller of the two critical values is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.arithmetic import widened
from offpolicy.inference.confidence import fieller
from offpolicy.inference.intervals.evidence import effective_units
from offpolicy.inference.intervals.multiple import largest_t
from offpolicy.inference.intervals.rules import MANY_UNITS, critical, of_few
from offpolicy.inference.registry import may_share
from offpolicy.inference.score_table import Affine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

MOST_CELLS = 40_000_000  # scores held at once for a covariance


@dataclass(frozen=True, eq=False)
class Family:
    """Intervals that hold together, and p-values of values of 0 that agree with them.

    Attributes
    ----------
    intervals : tuple of Interval
        At the level of the family; refused ones as single ones are.
    p_values : tuple of float
        Two-sided and adjusted for the number of estimates; NaN where the interval is refused, or where none were
        asked for.
    """

    intervals: tuple[Interval, ...]
    p_values: tuple[float, ...]


def together(estimates: Sequence[Estimate], level: float = 0.95, *, tested: bool = False) -> Family:
    """Intervals of estimates on the same units that all hold with probability ``level``.

    ``tested`` asks for p-values of 0 as well.

    >>> from offpolicy.inference.estimate import Estimate
    >>> from offpolicy.inference.units import Units
    >>> rng, units = np.random.default_rng(0), Units(5000)
    >>> three = [Estimate.from_scores(rng.normal(size=5000), units=units) for _ in range(3)]
    >>> [i.method for i in together(three).intervals], three[0].interval().method
    (['max-t', 'max-t', 'max-t'], 'normal')
    """
    number = len(estimates)
    own = [e.interval(adjusted(level, number)) for e in estimates]
    plentiful = [k for k, i in enumerate(own) if number > 1 and may_share(i)]
    note = f"holds together with {number - 1} others" if number > 1 else ""
    intervals = [replace(i, level=level, note="; ".join(filter(None, (note, i.note)))) for i in own]
    p = [_p_value(e, number) if tested and i.sufficient else np.nan for e, i in zip(estimates, own, strict=True)]
    if len(plentiful) > 1:
        chosen = [estimates[k] for k in plentiful]
        share = len(plentiful) / number
        size, maxima = joint(chosen, covariance(chosen))
        maxima = maxima * of_few(size)
        largest = float(np.quantile(maxima, 1 - (1 - level) * share))
        factor = min(critical(adjusted(level, number), size), largest)
        for k, e in zip(plentiful, chosen, strict=True):
            low, high = _around(e, level, factor)
            intervals[k] = replace(intervals[k], low=low, high=high, method="max-t")
            if tested:
                beyond = max(abs(e.value) - e.allowance, 0.0)
                larger = float((maxima >= beyond / e.score_error).sum())
                p[k] = min(p[k], (1 + larger) / (1 + len(maxima)) / share)
    return Family(tuple(intervals), tuple(float(x) for x in p))


def _p_value(e: Estimate, number: int) -> float:
    """Bonferroni's p-value, not looked for where it is 1."""
    if number > 1 and (abs(e.value) <= e.std_error or e.interval(1 - 1 / number).covers(0.0)):
        return 1.0
    return min(1.0, number * e.p_value())


def adjusted(level: float, number: int) -> float:
    """Level of each of several intervals that hold together by Bonferroni's inequality.

    >>> adjusted(0.95, 5)
    0.99
    """
    return round(1 - (1 - level) / max(number, 1), 15)


def joint(estimates: Sequence[Estimate], cov: Floats) -> tuple[float, Floats]:
    """Independent units of the smallest estimate, and draws of the largest |t| of all."""
    size = units(estimates)
    return size, largest_t(cov, degrees=size - 1 if size < MANY_UNITS else None)


def units(estimates: Sequence[Estimate]) -> float:
    """Fewest independent units, discounted for unequal sizes, that an estimate rests on."""
    return min(effective_units(e.sample()) for e in estimates)


def covariance(estimates: Sequence[Estimate]) -> Floats:
    """(P, P) joint covariance of estimates on the same units; clusters and counts as in their standard errors."""
    number = len(estimates)
    out = np.zeros((number, number))
    rows = estimates[0].units.n_rows
    step = max(1, MOST_CELLS // max(rows, 1) // 2)
    for first in range(0, number, step):
        left, count = _influence(estimates[first : first + step])
        weighted = left if count is None else left * count
        for second in range(0, first + 1, step):
            right = left if second == first else _influence(estimates[second : second + step])[0]
            block = weighted @ right.T
            out[first : first + step, second : second + step] = block
            out[second : second + step, first : first + step] = block.T
    return out


def _influence(estimates: Sequence[Estimate]) -> tuple[Floats, Floats | None]:
    """(P, G) influence of each independent unit on each estimate, and how many units a row stands for."""
    rows, count = [], None
    for e in estimates:
        sample = e.units.sample(e.table.scores(Affine.mean(e.rows)))
        count = sample.count
        rows.append(sample.residual / float(sample.counts @ sample.denominator))
    return np.stack(rows), count


def _around(e: Estimate, level: float, factor: float) -> tuple[float, float]:
    """Ends at ``factor`` standard errors: of a lift those of the linear combination that it makes 0 (Fieller)."""
    if e.relation == "lift":
        return tuple(widened(fieller(e, level, factor), e))  # type: ignore[return-value]
    half = factor * e.score_error + e.allowance
    return e.value - half, e.value + half
