"""Sums and multiples of estimates: expressions over the same columns, so that scores stay paired.

A multiple c·e has c times the interval of e, whatever rule made it. Rules that look at weights and rewards are about
one reward and one policy and do not carry over to sums: where the interval of every term is a normal or Student one,
so is that of the sum, from its own paired scores; elsewhere the terms' own intervals at level 1 − α/m are added up,
which holds by Bonferroni's inequality however the terms move together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from offpolicy.errors import UsageError
from offpolicy.inference.intervals.rules import automatic
from offpolicy.inference.intervals.sample import Interval
from offpolicy.inference.registry import is_balanced

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate

Term = tuple[float, "Estimate"]


def scaled(e: Estimate, factor: float) -> Estimate:
    """Factor · e.

    >>> from offpolicy.inference.estimate import Estimate
    >>> e = Estimate.from_scores([1.0, 2.0, 3.0, 2.0])
    >>> (2 * e).value, (-e).interval().low == -e.interval().high
    (4.0, True)
    """
    if not math.isfinite(factor):
        raise UsageError(f"an estimate cannot be multiplied by {factor}.")
    if e.relation == "scaled":
        assert e.parts is not None
        return scaled(e.parts[0], factor * e.factors[0])
    if factor == 1:
        return e
    return replace(
        e,
        rows=tuple(row.scaled(factor) for row in e.rows),
        label=_text([(factor, e)]),
        evidence=None,
        relation="scaled",
        parts=(e,),
        factors=(factor,),
        bias="",
        reference=None,
        finer=None if e.finer is None else scaled(e.finer, factor),
        corner=factor * e.corner,
        models=(),
    )


def stretched(interval: Interval, factor: float) -> Interval:
    """The interval of factor · quantity."""
    if factor == 0:
        return replace(interval, low=0.0, high=0.0, method="exact", note="0 times anything")
    low, high = (interval.low, interval.high) if factor > 0 else (interval.high, interval.low)
    return replace(interval, low=factor * low, high=factor * high)


def widened(interval: Interval, estimate: Estimate) -> Interval:
    """An interval that allows for the bias of smoothing, where the estimate has some."""
    room = estimate.allowance
    if room == 0:
        return interval
    note = f"widened by {room:.3g} on both sides for the bias of smoothing"
    return replace(
        interval,
        low=interval.low - room,
        high=interval.high + room,
        note="; ".join(filter(None, (interval.note, note))),
    )


def summed(a: Estimate, b: Estimate, sign: float = 1.0) -> Estimate:
    """A + sign · b, from the scores of both, unit by unit."""
    rows = tuple(x + y.scaled(sign) for x, y in a.paired(b))
    terms = _merged([*_terms(a), *((sign * c, e) for c, e in _terms(b))])
    if len(terms) <= 1:
        factor, e = terms[0] if terms else (0.0, a)
        return scaled(e, factor)
    if len(terms) == 2 and terms[0][0] == -terms[1][0] and _alike(terms[0][1], terms[1][1]):
        first, second = sorted(terms, key=lambda term: -term[0])
        return scaled(first[1] - second[1], first[0])
    return replace(
        a,
        rows=rows,
        label=_text(terms),
        notes=tuple(dict.fromkeys((*a.notes, *b.notes))),
        scored=a.scored if a.scored == b.scored else None,
        evidence=None,
        relation="sum",
        parts=tuple(e for _, e in terms),
        factors=tuple(c for c, _ in terms),
        bias="",
        reference=None,
        reward=a.reward if a.reward == b.reward else None,
        finer=None if a.finer is None and b.finer is None else summed(_finer(a), _finer(b), sign),
        extrapolation=max(a.extrapolation, b.extrapolation),
        corner=a.corner + sign * b.corner,
        models=(),
    )


def _finer(e: Estimate) -> Estimate:
    """The same with half the smoothing; itself where nothing is smoothed."""
    return e if e.finer is None else e.finer


def _alike(a: Estimate, b: Estimate) -> bool:
    """Whether a difference is one of two policies by the same reward, for which there are rules."""
    return a.reward == b.reward and all(e.relation is None for e in (a, b))


def is_difference(a: Estimate, b: Estimate) -> bool:
    """Whether a − b is of two estimates of the same reward, for which evidence on both has its rules."""
    plain = (None, "lift")
    return a.reward == b.reward and a.relation in plain and b.relation in plain


def _terms(e: Estimate) -> list[Term]:
    """An estimate as multiples of plain ones."""
    if e.relation not in {"scaled", "sum", "difference"} or e.parts is None:
        return [(1.0, e)]
    factors = (1.0, -1.0) if e.relation == "difference" else e.factors
    return [(f * c, p) for f, part in zip(factors, e.parts, strict=True) for c, p in _terms(part)]


def _merged(terms: list[Term]) -> list[Term]:
    """Terms with each estimate once, and none that cancels."""
    total: dict[int, Term] = {}
    for c, e in terms:
        total[id(e)] = (total.get(id(e), (0.0, e))[0] + c, e)
    return [(c, e) for c, e in total.values() if c]


def _text(terms: list[Term]) -> str:
    """Terms in words: "revenue of new (DML) − 0.3 · cost of new (DML)"."""
    text = ""
    for c, e in terms:
        size = "" if abs(c) == 1 else f"{abs(c):g} · "
        label = f"({e.label})" if e.relation == "difference" else e.label
        lead = (" − " if c < 0 else " + ") if text else ("−" if c < 0 else "")
        text += f"{lead}{size}{label}"
    return text


def combined(e: Estimate, level: float) -> Interval:
    """Interval of a sum of estimates."""
    assert e.parts is not None
    if all(is_plentiful(part, level) for part in e.parts):
        interval = automatic(e.sample(), None, level)
        if interval.sufficient:
            return widened(interval, e)
    number = len(e.parts)
    each = round(1 - (1 - level) / number, 15)
    ends = [part.interval(each) for part in e.parts]
    for part, interval in zip(e.parts, ends, strict=True):
        if not interval.sufficient:
            why = f"{part.label} has no interval: {interval.reason}"
            return Interval(-math.inf, math.inf, level, "none", why, sufficient=False)
    moved = [stretched(i, c) for i, c in zip(ends, e.factors, strict=True)]
    methods = ", ".join(dict.fromkeys(i.method for i in ends))
    note = f"few large scores carry a term; from the intervals of all {number} terms ({methods})"
    low, high = math.fsum(i.low for i in moved), math.fsum(i.high for i in moved)
    return Interval(low, high, level, "bonferroni", note)


def is_plentiful(e: Estimate, level: float) -> bool:
    """Whether an estimate's own rules say that its scores are balanced and its units many."""
    return is_balanced(e.interval(level))
