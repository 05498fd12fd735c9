"""How many labels an interval of a wanted width takes, drawn evenly.

With e the probability that a row is labeled, the squared standard error of the nested score is that of all labels plus
Σ (mass · w)² (1/e − 1)(R − m)², which the labels at hand estimate.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scipy import special

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.kinds.seen_in_part import PseudoRewards

STEPS = 60


@dataclass(frozen=True)
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
    labels : int or None
        Rows to draw evenly for the wanted width; None where even all labels do not do.
    """

    width: float
    now: int
    width_now: float
    least_width: float
    labels: int | None

    def summary(self) -> dict[str, Any]:
        """Its numbers."""
        return asdict(self)

    def __str__(self) -> str:
        now = f"{self.now:,} labels give an interval of width {self.width_now:.3g}."
        if self.labels is None:
            all_rows = f"With every row labeled it would be {self.least_width:.3g}"
            return f"{now} {all_rows}: for {self.width:.3g}, log more rows."
        return f"{now} For {self.width:.3g}, draw {self.labels:,} rows to label."


def label_plan(
    settled: PseudoRewards, weight: Floats, std_error: float, width_now: float, width: float | None, level: float
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
    m, e, seen = settled.prediction, settled.out_of_fold[0].chance, settled.seen
    scale = (settled.mass / settled.mass.sum() * weight) ** 2
    square = (settled.held.reward - m) ** 2
    total = float((scale * square / e)[seen].sum())
    fixed = max(std_error**2 - float((scale * square / e * (1 / e - 1))[seen].sum()), 0.0)
    z = float(special.ndtri(0.5 + level / 2))
    excess = max(width_now / (2 * z * std_error) - 1, 0.0) if std_error > 0 else 0.0
    wanted = 0.75 * width_now if width is None else width
    n = len(weight)

    def width_of(share: float) -> float:
        error = fixed + (1 / share - 1) * total
        # Intervals of few labels are wider than normal ones, by an excess that falls as information grows.
        return 2 * z * math.sqrt(error) * (1 + excess * min(error / std_error**2, 1.0) ** 2)

    labels = None
    if width_of(1.0) <= wanted:
        low, high = 1 / n, 1.0
        for _ in range(STEPS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if width_of(middle) > wanted else (low, middle)
        labels = math.ceil(n * high)
    return LabelPlan(wanted, int(seen.sum()), width_now, width_of(1.0), labels)
