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

from offpolicy.errors import UsageError
from offpolicy.inference.confidence import widened
from offpolicy.inference.expression import Lift
from offpolicy.inference.intervals.evidence import effective_units
from offpolicy.inference.intervals.rules import MANY_UNITS, critical, of_few
from offpolicy.inference.intervals.sample import Floats
from offpolicy.inference.methods import fieller
from offpolicy.inference.registry import declared
from offpolicy.inference.score_table import Affine
from offpolicy.policies.target import LOGGING_POLICY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
    >>> from offpolicy.inference.score_table import Units
    >>> rng, units = np.random.default_rng(0), Units(5000)
    >>> three = [Estimate.from_scores(rng.normal(size=5000), units=units) for _ in range(3)]
    >>> [i.method for i in together(three).intervals], three[0].interval().method
    (['max-t', 'max-t', 'max-t'], 'normal')
    """
    number = len(estimates)
    own = [e.interval(adjusted(level, number)) for e in estimates]
    plentiful = [k for k, i in enumerate(own) if number > 1 and declared(i).shares]
    note = f"holds at once with {number - 1} others" if number > 1 else ""
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
    if isinstance(e.of, Lift):
        return tuple(widened(fieller(e, level, factor), e))  # type: ignore[return-value]
    half = factor * e.score_error + e.allowance
    return e.value - half, e.value + half


CURRENT = "the current policy"


@dataclass(frozen=True)
class BestPolicy:
    """Which policies can still be the best one.

    Attributes
    ----------
    names : tuple of str
        Policies that no other policy beats significantly; holds the best one with probability
        ``level``.
    leader : str
        Policy with the largest estimate.
    level : float
        1 − the rate at which the best policy is left out of ``names``.
    margin : float
        Simultaneous lower limit of the leader's advantage over the best of the others; negative, and not more
        exact than that, where another is within a standard error of it.
    unjudged : tuple of str
        Policies on which there is not enough evidence to say anything; they are not among ``names``.
    """

    names: tuple[str, ...]
    leader: str
    level: float
    margin: float
    unjudged: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether a single policy is left, and the log could judge all of them."""
        return len(self.names) == 1 and not self.unjudged

    @property
    def statement(self) -> str:
        """The finding as a sentence, with its error rate."""
        error = f"{100 * (1 - self.level):.3g}% error rate"
        if not self.names:
            return "There is not enough evidence about any of the policies."
        names = [_called(name) for name in self.names]
        unknown = ""
        if self.unjudged:
            unknown = f" There is not enough evidence about {', '.join(self.unjudged)}."
        if len(names) == 1:
            among = " of the policies with enough evidence" if unknown else " policy"
            who = names[0] if self.names[0] == self.leader else self.leader
            start = "The current policy" if who == CURRENT else who
            return f"{start} is the best{among} ({error}).{unknown}"
        if len(names) == 2:
            return f"Either {names[0]} or {names[1]} is best; the log cannot tell them apart ({error}).{unknown}"
        some = f"{', '.join(names[:-1])} or {names[-1]}"
        return f"The best policy is {some}; the log cannot tell them apart ({error}).{unknown}"


def _called(name: str) -> str:
    return CURRENT if name == LOGGING_POLICY else name


def gap_errors(sigma: Floats) -> Floats:
    """(P, P) standard errors of the differences of all pairs."""
    d = np.diag(sigma)
    return np.sqrt(np.maximum(d[:, None] + d - 2 * sigma, 0.0))


def largest_gap(sigma: Floats, *, degrees: float | None = None, draws: int = 20_000, seed: int = 0) -> Floats:
    """Draws of the largest t statistic of the differences of all ordered pairs.

    Drawn among the P estimates, so that no matrix of all pairs is needed.
    """
    errors = gap_errors(sigma)
    live = errors > 1e-12 * errors.max()
    scale = np.where(live, errors, np.inf)
    z = _draws(sigma, draws, seed)
    largest = np.zeros(draws)
    for k in range(len(sigma)):
        np.maximum(largest, ((z[:, [k]] - z) / scale[k]).max(axis=1), out=largest)
    return largest / _shrink(degrees, draws, seed)


def largest_t(sigma: Floats, *, degrees: float | None = None, draws: int = 20_000, seed: int = 0) -> Floats:
    """Draws of the largest |t| of several estimates; Student's with ``degrees`` of freedom.

    >>> bool(2.1 < np.quantile(largest_t(np.eye(2)), 0.95) < 2.4)
    True
    """
    largest = np.abs(_standard_draws(sigma, draws, seed)).max(axis=1)
    return np.asarray(largest / _shrink(degrees, draws, seed))


def _shrink(degrees: float | None, draws: int, seed: int) -> Floats:
    """√(χ²/ν): what the estimated variances of few units add to every t statistic at once."""
    if degrees is None:
        return np.ones(draws)
    rng = np.random.default_rng([seed, 1])
    return np.asarray(np.sqrt(rng.chisquare(degrees, draws) / degrees))


def _standard_draws(sigma: Floats, draws: int, seed: int) -> Floats:
    """Draws of the t statistics; a coordinate without variance is always 0."""
    errors = np.sqrt(np.maximum(np.diag(sigma), 0.0))
    live: NDArray[np.bool_] = errors > 1e-12 * errors.max()
    scale = np.where(live, errors, 1.0)
    return _draws(np.where(np.outer(live, live), sigma / np.outer(scale, scale), 0.0), draws, seed)


def _draws(sigma: Floats, draws: int, seed: int) -> Floats:
    """(draws, P) normal draws with covariance ``sigma``."""
    if draws < 1:
        raise UsageError(f"The 'draws' parameter must be at least 1. Got {draws}.")
    values, vectors = np.linalg.eigh(sigma)
    # Identical policies make the matrix singular, so its square root comes from eigenvectors.
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    rng = np.random.default_rng(seed)
    return np.asarray(rng.standard_normal((draws, len(sigma))) @ root.T, dtype=np.float64)
