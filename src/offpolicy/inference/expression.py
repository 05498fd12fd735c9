"""What an estimate is made of: a score, or a multiple, sum, difference or lift of others over the same columns.

Scores stay paired unit by unit. A multiple c·e has c times the interval of e, whatever rule made it. Rules that look at
weights and rewards are about one reward and one policy and do not carry over to sums; of a difference of two policies
by the same reward, and of a lift, there is joint evidence (`joint_evidence`).
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.inference.score_table import Affine, EvidenceColumns, ScoreTable
from offpolicy.scores.control_variates import best_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

Term = tuple[float, "Estimate"]


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What tells the bias of an estimate that values a smoothed policy in place of the policy itself.

    Attributes
    ----------
    finer : Estimate
        The same with half the smoothing.
    extrapolation : float
        What the step from ``finer`` is multiplied by to be all of the bias.
    corner : float
        What a corner of the mean reward at the policy's number, where one was found, moves the estimate by.
    """

    finer: Estimate
    extrapolation: float = 1.0
    corner: float = 0.0


@dataclass(frozen=True, eq=False)
class Score:
    """The score of one policy; it has no parts."""

    parts: tuple[Estimate, ...] = ()

    def values(self, e: Estimate) -> Floats:
        """(R,) estimate of each repetition."""
        return np.array([e.units.mean(e.table.scores(row)) for row in e.rows])

    def score_error(self, e: Estimate) -> float:
        """Standard error of the mean of the scores."""
        return e.units.sample(e.table.scores(Affine.mean(e.rows))).std_error

    def possible(self, low: float, high: float) -> tuple[float, float]:
        """Where the estimated mean can lie, of rewards within these ends."""
        return low, high

    def terms(self, e: Estimate) -> list[Term]:
        """The estimate as multiples of others."""
        return [(1.0, e)]


class Lift(Score):
    """(a − b)/|b| of its two parts."""


class Difference(Score):
    """a − b of its two parts: two policies by the same reward."""

    def possible(self, low: float, high: float) -> tuple[float, float]:
        """From the lowest less the highest mean to the opposite."""
        return low - high, high - low

    def terms(self, e: Estimate) -> list[Term]:
        """Those of the first, and those of the second with the other sign."""
        return _times(1.0, self.parts[0]) + _times(-1.0, self.parts[1])


@dataclass(frozen=True, eq=False)
class Sum(Score):
    """Σ factor · part. Of a sum no evidence is known but what the rules of its terms say."""

    factors: tuple[float, ...] = ()

    def terms(self, e: Estimate) -> list[Term]:
        """Those of all parts."""
        return [term for c, part in zip(self.factors, self.parts, strict=True) for term in _times(c, part)]


class Multiple(Sum):
    """A sum of one term, whose figures are those of the term, multiplied to the last digit."""

    def values(self, e: Estimate) -> Floats:
        """(R,) estimate of each repetition."""
        return np.asarray(self.factors[0] * self.parts[0].values)

    def score_error(self, e: Estimate) -> float:
        """Standard error of the mean of the scores."""
        return abs(self.factors[0]) * self.parts[0].score_error


def _times(factor: float, e: Estimate) -> list[Term]:
    return [(factor * c, part) for c, part in e.of.terms(e)]


def stretched(interval: Interval, factor: float) -> Interval:
    """The interval of factor · quantity."""
    if factor == 0:
        return replace(interval, low=0.0, high=0.0, method="exact", note="0 times anything")
    low, high = (interval.low, interval.high) if factor > 0 else (interval.high, interval.low)
    return replace(interval, low=factor * low, high=factor * high)


def scaled(e: Estimate, factor: float) -> Estimate:
    """Factor · e.

    >>> from offpolicy.inference.estimate import Estimate
    >>> e = Estimate.from_scores([1.0, 2.0, 3.0, 2.0])
    >>> (2 * e).value, (-e).interval().low == -e.interval().high
    (4.0, True)
    """
    if not math.isfinite(factor):
        raise UsageError(f"an estimate cannot be multiplied by {factor}.")
    if isinstance(e.of, Multiple):
        return scaled(e.of.parts[0], factor * e.of.factors[0])
    if factor == 1:
        return e
    rows = tuple(row.scaled(factor) for row in e.rows)
    return _derived(Multiple((e,), (factor,)), [e], rows, _text([(factor, e)]), lambda f: scaled(f, factor), (factor,))


def summed(a: Estimate, b: Estimate, sign: float = 1.0) -> Estimate:
    """A + sign · b, from the scores of both, unit by unit."""
    rows = tuple(x + y.scaled(sign) for x, y in paired(a, b))
    total: dict[int, Term] = {}
    for c, e in (*_times(1.0, a), *_times(sign, b)):
        total[id(e)] = (total.get(id(e), (0.0, e))[0] + c, e)
    terms = [(c, e) for c, e in total.values() if c]
    if len(terms) <= 1:
        factor, e = terms[0] if terms else (0.0, a)
        return scaled(e, factor)
    if len(terms) == 2 and terms[0][0] == -terms[1][0]:
        first, second = sorted(terms, key=lambda term: -term[0])
        if first[1].reward == second[1].reward and not (first[1].of.parts or second[1].of.parts):
            return scaled(first[1] - second[1], first[0])
    of = Sum(tuple(e for _, e in terms), tuple(c for c, _ in terms))
    reward = a.reward if a.reward == b.reward else None
    again = lambda x, y: summed(x, y, sign)  # noqa: E731
    return _derived(of, [a, b], rows, _text(terms), again, (1.0, sign), reward=reward)


def _text(terms: list[Term]) -> str:
    """Terms in words: "revenue of new (DML) − 0.3 · cost of new (DML)"."""
    text = ""
    for c, e in terms:
        size = "" if abs(c) == 1 else f"{abs(c):g} · "
        label = f"({e.label})" if isinstance(e.of, Difference) else e.label
        lead = (" − " if c < 0 else " + ") if text else ("−" if c < 0 else "")
        text += f"{lead}{size}{label}"
    return text


def _apart(a: Estimate, b: Estimate) -> str:
    """What a difference is called; the same estimate of two evaluations is told apart."""
    return f"{a.label} − {b.label}" + (" of the other evaluation" if a.label == b.label else "")


def difference(a: Estimate, b: Estimate) -> Estimate:
    """A − b; of two policies by the same reward with coefficients chosen for the pair, where there are models."""
    if a.reward != b.reward or any(isinstance(e.of, Sum | Difference) for e in (a, b)):
        return summed(a, b, -1.0)
    best = _best_rows(a, b)
    if best is None:
        return plain_difference(a, b)
    gap = plain_difference(a, b, best[0])
    return replace(gap, notes=(*gap.notes, *best[1]))


def plain_difference(a: Estimate, b: Estimate, rows: tuple[Affine, ...] = ()) -> Estimate:
    """The difference of the two scores as they are, whose value is the difference of the values."""
    rows = rows or tuple(x - y for x, y in paired(a, b))
    again = lambda x, y: x - y  # noqa: E731
    return _derived(Difference((a, b)), [a, b], rows, _apart(a, b), again, (1.0, -1.0), **_of_pair(a, b, again))


def _best_rows(a: Estimate, b: Estimate) -> tuple[tuple[Affine, ...], tuple[str, ...]] | None:
    """Scores of the difference by coefficients chosen for the pair, and notes; None where there are none."""
    one, two, table = a.evidence, b.evidence, a.table
    modeled = len(a.models) == len(b.models) > 0 and table is b.table
    if one is None or two is None or not modeled or is_same(a, b):
        return None
    mass, single = a.units.mass, a.units.mass / a.units.count
    weight = table.columns[one.weight] - table.columns[two.weight]
    rows, notes = [], []
    for mine, theirs in zip(a.models, b.models, strict=True):
        name = ("pair", mine, theirs)
        model = table.columns[mine] - table.columns[theirs]
        best = best_difference(weight, model, table.columns[one.reward], mass, single)
        if best is None:
            return None
        table.put(name, best[0])
        rows.append(Affine.column(name))
        notes.append(best[1])
    return tuple(rows), tuple(dict.fromkeys(notes))


def lift(a: Estimate, b: Estimate) -> Estimate:
    """(a − b)/|b| by the delta method."""
    if isinstance(a.of, Multiple) and isinstance(b.of, Multiple) and a.of.factors == b.of.factors:
        sign = 1.0 if a.of.factors[0] > 0 else -1.0  # c·a is to |c·b| as ±a to |b|
        return scaled(a.of.parts[0].lift(b.of.parts[0]), sign)
    pairs = paired(a, b)
    tops, bottoms = (e.values.tolist() * (len(pairs) // len(e.rows)) for e in (a, b))
    if 0 in bottoms:
        raise UsageError(f"the lift over {b.label} is undefined: its value is 0.")
    # The linearized score (a − ratio·b)/|b| has mean 0; the lift itself is its constant.
    rows = tuple(
        (x - y.scaled(top / bottom)).scaled(1 / abs(bottom), (top - bottom) / abs(bottom))
        for (x, y), top, bottom in zip(pairs, tops, bottoms, strict=True)
    )
    scale, ratio = abs(b.value), a.value / b.value
    again = lambda x, y: x.lift(y)  # noqa: E731
    more = _of_pair(a, b, again, scale, ratio)
    label = f"lift of {a.label} over {b.label}"
    return _derived(Lift((a, b)), [a, b], rows, label, again, (1 / scale, -ratio / scale), **more)


def once(a: Estimate, b: Estimate, make: Callable[[Estimate, Estimate], Estimate]) -> Estimate:
    """One derived estimate for as long as somebody has it, with the intervals that were made of it before.

    The intervals are kept and not the estimate: it refers to both it was made from, and would keep them for ever.
    """
    pairs: Any = a.kept.setdefault("pairs", WeakKeyDictionary())
    known, intervals = pairs.setdefault(b, {}).get(make, (None, {}))
    made: Estimate | None = None if known is None else known()
    if made is None:
        made = make(a, b)
        vars(made)["kept"] = intervals
        pairs[b][make] = (weakref.ref(made), intervals)
    return made


def _derived(
    of: Score,
    operands: Sequence[Estimate],
    rows: tuple[Affine, ...],
    label: str,
    again: Callable[..., Estimate],
    slopes: tuple[float, ...],
    **more: Any,
) -> Estimate:
    """An estimate made of others.

    ``again`` makes the same of others in their place, ``slopes`` say how it moves with each of them.
    """
    notes = tuple(dict.fromkeys(note for e in operands for note in e.notes))
    smooth = [e.smoothed for e in operands if e.smoothed is not None]
    smoothed = None
    if smooth:
        finer = again(*(e if e.smoothed is None else e.smoothed.finer for e in operands))
        moved = (s * e.smoothed.corner for s, e in zip(slopes, operands, strict=True) if e.smoothed is not None)
        smoothed = Smoothed(finer, max(s.extrapolation for s in smooth), sum(moved))
    plain = {"scored": common_split(operands), "evidence": None, "bias": "", "reference": None, "models": ()}
    changes = {**plain, "of": of, "rows": rows, "label": label, "notes": notes, "smoothed": smoothed, **more}
    return replace(operands[0], **changes)


def common_split(operands: Sequence[Estimate]) -> Any:
    """Halves of the same split pair; a half and the whole are both scores of all units."""
    return operands[0].scored if len({e.scored for e in operands}) == 1 else None


def _of_pair(
    a: Estimate, b: Estimate, again: Callable[..., Estimate], scale: float = 1.0, ratio: float = 1.0
) -> dict[str, Any]:
    """Evidence on (a − ratio · b)/scale, and what it refers to where one of the two has a bias."""
    evidence = joint_evidence(a, b, scale, ratio) if common_split([a, b]) is None else None
    bias, sound = a.bias or b.bias, [e.reference if e.bias else e for e in (a, b)]
    reference = again(*sound) if bias and None not in sound else None
    return {"evidence": evidence, "bias": bias, "reference": reference}


def joint_evidence(a: Estimate, b: Estimate, scale: float = 1.0, ratio: float = 1.0) -> EvidenceColumns | None:
    """Evidence on (a − ratio · b)/scale: the heavier weights of the two, rewards in units of the scale."""
    known = [e.evidence for e in (a, b) if e.evidence is not None and e.evidence.scored is None]
    if not known or scale == 0:
        return None
    worse = min(known, key=lambda e: a.table.effective_size(e.weight))
    bounds = [e.weight_high for e in known]
    # Where both put mass beyond the weights seen, what one leaves out the other mostly does as well.
    beyond = [e for e in known if e.weight_high != 1.0]
    sizes = [e.sizes for e in beyond if e.sizes is not None]
    carried, residual = worse.carried, worse.residual
    if len(known) == 2:
        # What a model leaves of a reward enters both: one's residual stands for the other's as well.
        carried = (known[0].carries - known[1].carries.scaled(ratio)).scaled(1 / scale)
        residual = next((e.residual for e in known if e.residual is not None), None)
    return replace(
        worse,
        weight_high=None if None in bounds else max(w for w in bounds if w is not None),
        scale=scale,
        is_value=False,
        is_product=False,
        carried=carried,
        residual=residual,
        sizes=np.max(sizes, axis=0) if sizes and len(sizes) == len(beyond) else None,
        largest=max(float(a.table.columns[e.weight].max()) for e in known),
    )


def is_same(a: Estimate, b: Estimate) -> bool:
    """Whether two estimates agree in every weight and score, so that nothing is left to estimate.

    Equal scores alone do not show it: where nobody clicked, every weight gives the score 0.
    """
    if a is b:
        return True
    if a.table is not b.table or a.evidence is None or b.evidence is None:
        return False
    mine, theirs = (a.table.columns[e.evidence.weight] for e in (a, b))  # type: ignore[union-attr]
    alike = len(a.rows) == len(b.rows) and np.array_equal(mine, theirs)
    return alike and not any(a.table.scores(x - y).any() for x, y in paired(a, b))


def paired(a: Estimate, b: Estimate) -> list[tuple[Affine, Affine]]:
    """The expressions of both, repetition by repetition, over the table of the first."""
    theirs = b.rows
    if a.table is not b.table:
        if a.units.n_rows != b.units.n_rows:
            raise UsageError(
                f"{a.label} and {b.label} come from different units, so their scores cannot be "
                "paired. Evaluate both policies in one call."
            )
        if not (a.table.anonymous and b.table.anonymous):
            raise UsageError(
                f"{a.label} and {b.label} come from different logs or evaluations, so "
                "their scores cannot be paired. Evaluate both in one call, or use ev.add(…)."
            )
        theirs = tuple(a.table.adopt(row, b.table) for row in theirs)
    number = max(len(a.rows), len(b.rows))
    for e in (a, b):
        if len(e.rows) not in {1, number}:
            raise UsageError(f"{e.label} has {len(e.rows)} repetitions, but {number} are needed.")
    both = (rows * (number // len(rows)) for rows in (a.rows, theirs))
    return list(zip(*both, strict=True))


def within(e: Estimate, members: Ints) -> Estimate | None:
    """The mean of the same score over the units at some positions alone; see `Estimate.within`."""
    stretch, scored = 1.0, None
    if e.scored is not None:
        scored, mass = e.table.columns[e.scored], e.units.mass
        stretch = float(mass.sum() / mass[scored].sum())
        members = members[scored[members]]
    if len(members) == 0:
        return None
    table = ScoreTable(e.units.part(members))

    def kept(name: Any, values: Floats) -> Affine:
        table.put(name, values[members])
        return Affine.column(name)

    def rows_of(each: Estimate, word: str) -> tuple[Affine, ...]:
        return tuple(kept((word, r), each.table.scores(row)) for r, row in enumerate(each.rows))

    evidence, smoothed = e.evidence, e.smoothed
    if evidence is not None:
        kept("weight", e.table.columns[evidence.weight])
        kept("reward", e.table.columns[evidence.reward])
        carried = None if evidence.carried is None else kept("carried", e.table.scores(evidence.carried))
        # What the whole log shows, a few of its units may have missed.
        levels = e.table.levels(evidence)
        evidence = replace(
            evidence, weight="weight", reward="reward", scored=None, carried=carried, levels=levels, has_levels=True
        )
    if smoothed is not None:
        rows = rows_of(smoothed.finer, "finer")
        smoothed = replace(smoothed, finer=replace(smoothed.finer, table=table, rows=rows, scored=None, evidence=None))
    rows = rows_of(e, "psi")
    if scored is not None:
        rows = tuple(row.scaled(1 / stretch, e.value * (1 - 1 / stretch)) for row in rows)
    return replace(
        e,
        table=table,
        rows=rows,
        scored=None,
        evidence=evidence,
        of=Score(),
        reference=None if e.reference is None else within(e.reference, members),
        smoothed=smoothed,
        models=(),
    )
