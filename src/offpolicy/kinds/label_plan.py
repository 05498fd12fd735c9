"""How many labels an interval of a wanted width takes, and on which rows.

With e the probability that a row is labeled, the variance of the nested score is that of all labels plus

    E[ w² (1/e − 1) (R − m)² ],

which labels at hand estimate. For a given number of labels it is smallest for e ∝ |w| √E[(R − m)² | S, A, J], at most 1
(Neyman's allocation): rows whose action the policy takes, where the judge is least sure. Rows with w = 0 need none;
they get a share of the others' labels, so that later policies can be asked about too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats
    from offpolicy.kinds.seen_in_part import PseudoRewards

FLOOR = 0.2  # of the mean probability: every row may be labeled
NEAREST = 0.02  # chances nearer to 0 or 1 than this are taken for it
STEPS = 60


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """Labels that an interval of a wanted width takes.

    Attributes
    ----------
    width : float
        Wanted.
    now, width_now : int and float
        Labels at hand, and the width of their interval.
    least_width : float
        With every row labeled.
    evenly, best : int or None
        Labels drawn evenly, and drawn with ``probability``; None where even all labels do not do.
    probability : (n,) array
        With which to draw each row of the log for the best plan: give it to `Labeled` afterwards.
    """

    width: float
    now: int
    width_now: float
    least_width: float
    evenly: int | None
    best: int | None
    probability: Floats

    def summary(self) -> dict[str, float | int | None]:
        """Its numbers, without the probabilities of single rows."""
        names = ("width", "now", "width_now", "least_width", "evenly", "best")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        now = f"{self.now:,} labels give an interval of width {self.width_now:.3g}."
        if self.evenly is None or self.best is None:
            all_rows = f"With every row labeled it would be {self.least_width:.3g}"
            return f"{now} {all_rows}: for {self.width:.3g}, log more rows."
        return (
            f"{now} For {self.width:.3g}, draw {self.evenly:,} rows to label evenly, or {self.best:,} with the "
            "probabilities of this plan: more rows whose action the policy takes and whose label is hard to predict."
        )


@dataclass(frozen=True, eq=False)
class LabelVariance:
    """The squared standard error of one policy's estimate as a function of who is labeled."""

    fixed: float  # with every row labeled
    terms: Floats  # (n,) what 1/e − 1 of a row is multiplied by

    @classmethod
    def of(cls, settled: PseudoRewards, weight: Floats, std_error: float) -> LabelVariance:
        """From the labels at hand and the standard error that they give."""
        fit = settled.out_of_fold[0]
        m, e, seen = settled.prediction, fit.chance, settled.seen
        square = expected_squares(settled, m)
        mass = settled.mass / settled.mass.sum()
        scale = (mass * weight) ** 2
        measured = float((scale * (settled.held.reward - m) ** 2 / e)[seen].sum())
        expected = float((scale * square / e)[seen].sum())
        terms = scale * square * (measured / expected if expected > 0 else 1.0)
        return cls(max(std_error**2 - float(terms @ (1 / e - 1)), 0.0), terms)

    def at(self, e: Floats) -> float:
        """Squared standard error, had rows been labeled with these probabilities."""
        return self.fixed + float(self.terms @ (1 / e - 1))

    def best(self, share: float) -> Floats:
        """(n,) probabilities with a given mean that make the standard error smallest."""
        wanted = np.sqrt(self.terms)
        wanted = np.maximum(wanted / max(wanted.mean(), 1e-300), FLOOR)
        low, high = 0.0, 1 / float(wanted.min())
        for _ in range(STEPS):
            middle = (low + high) / 2
            if float(np.minimum(middle * wanted, 1).mean()) < share:
                low = middle
            else:
                high = middle
        return np.asarray(np.minimum(high * wanted, 1.0))


def expected_squares(settled: PseudoRewards, m: Floats) -> Floats:
    """(n,) E[(R − m)²] of each row: of rewards of two values by m, of others their mean by action."""
    held, seen = settled.held, settled.seen
    low, high = float(held.reward[seen].min()), float(held.reward[seen].max())
    if high > low and bool(np.isin(held.reward[seen], (low, high)).all()):
        p = np.clip((m - low) / (high - low), NEAREST, 1 - NEAREST)
        return np.asarray((high - low) ** 2 * p * (1 - p))
    square = (held.reward - m) ** 2
    overall = float(square[seen].mean())
    if settled.log.is_continuous:
        return np.full(len(m), overall)
    k = len(settled.log.actions)
    count = np.bincount(settled.log.action[seen], minlength=k)
    total = np.bincount(settled.log.action[seen], weights=square[seen], minlength=k)
    return np.asarray(((total + 5 * overall) / (count + 5))[settled.log.action])


def label_plan(
    settled: PseudoRewards,
    weight: Floats,
    std_error: float,
    width_now: float,
    width: float | None,
    level: float,
) -> LabelPlan:
    """The plan for one policy.

    Parameters
    ----------
    weight : (n,) array
        Importance weights of the policy.
    std_error, width_now : float
        Of its estimate as it is.
    width : float or None
        Wanted; None: three quarters of what there is.
    """
    variance = LabelVariance.of(settled, weight, std_error)
    z = float(special.ndtri(0.5 + level / 2))
    excess = max(width_now / (2 * z * std_error) - 1, 0.0) if std_error > 0 else 0.0
    wanted = 0.75 * width_now if width is None else width
    n = len(weight)

    def width_of(e: Floats) -> float:
        square = variance.at(e)
        # Intervals of few labels are wider than normal ones, by an excess that falls as information grows.
        return 2 * z * math.sqrt(square) * (1 + excess * min(square / std_error**2, 1.0) ** 2)

    def evenly(share: float) -> Floats:
        return np.full(n, share)

    def fewest(make: Callable[[float], Floats]) -> int | None:
        if width_of(np.ones(n)) > wanted:
            return None
        low, high = 1 / n, 1.0
        for _ in range(STEPS):
            middle = math.sqrt(low * high)
            if width_of(make(middle)) > wanted:
                low = middle
            else:
                high = middle
        return math.ceil(n * high)

    best = fewest(variance.best)
    probability = variance.best((best or n) / n)
    return LabelPlan(
        wanted,
        int(settled.seen.sum()),
        width_now,
        width_of(np.ones(n)),
        fewest(evenly),
        best,
        probability,
    )
