"""`value_curve`: what a log of numbers says of every constant action, with a band that holds for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import place_of, quantiles
from offpolicy._doors import door
from offpolicy._visible import printable
from offpolicy.errors import UsageError
from offpolicy.inference.figures import level_text
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation

POINTS = 15
SHARE = 0.9  # of the logged actions that a grid of its own spans


@dataclass(frozen=True, eq=False)
class ValueCurve:
    """Values of constant actions; ``frame()`` is the table, ``plot()`` the picture.

    Attributes
    ----------
    action, value, std_error, low, high : (m,) arrays
        One entry per action of the grid. ``low`` and ``high`` hold for all of them together, and allow for the bias of
        smoothing; they are NaN where there is too little evidence.
    evaluation : Evaluation
        With one policy per action, named after it.
    """

    action: Floats
    value: Floats
    std_error: Floats
    low: Floats
    high: Floats
    level: float
    estimator: str
    evaluation: Evaluation

    @property
    def best(self) -> list[float]:
        """Actions of the grid that the one with the best estimate does not beat, at the level of the band."""
        unbeaten = self.evaluation.compare(self.level, self.estimator).best.names
        names = dict(zip(self.evaluation.policies, self.action.tolist(), strict=True))
        return [names[name] for name in self.evaluation.policies if name in unbeaten]

    def frame(self) -> Any:
        """The curve as a pandas table."""
        import pandas as pd

        columns = ("action", "value", "std_error", "low", "high")
        return pd.DataFrame({name: getattr(self, name) for name in columns})

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve and its band with matplotlib; returns the axes."""
        return door("plot of a value curve")(self, ax)

    @printable
    def __repr__(self) -> str:
        n = len(self.action)
        place = int(np.argmin(self.value) if self.evaluation.minimize else np.argmax(self.value))
        return (
            f"ValueCurve({n} actions from {self.action[0]:g} to {self.action[-1]:g}, best estimate "
            f"{self.value[place]:.4g} at {self.action[place]:g}, {level_text(self.level)} band)"
        )


@checks_arguments
def value_curve(ev: Evaluation, grid: Any = None, *, level: float = 0.95, estimator: str | None = None) -> ValueCurve:
    """What the same action for everyone would earn, over a grid of actions: a price, a bid, a dose.

    Models are those already fitted; the log must have been built with ``action_kind="continuous"``.

    Parameters
    ----------
    grid : sequence of numbers, optional
        Actions; default: 15 of them over the middle 90% of the logged ones.
    level : float
        Probability with which the band holds everywhere on the grid.
    estimator : str, optional
        Default: the recommended one among those computed.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> price = rng.uniform(0, 10, size=2000)
    >>> sold = (rng.uniform(size=2000) < 1 - price / 10) * 1.0
    >>> log = op.BanditLog.from_arrays(None, price, price * sold, np.full(2000, 0.1), action_kind="continuous")
    >>> ev = op.evaluate(log, {"5 for all": 5.0}, estimators=["auto"], reward_model=op.models.SplineReward())
    >>> curve = ev.value_curve([2, 5, 8])
    >>> curve.frame()["action"].tolist(), bool(curve.value[1] > curve.value[0])
    ([2.0, 5.0, 8.0], True)
    """
    problem = ev.problem
    if problem.log.space.span is None:
        raise UsageError(
            "value_curve() is for a log whose actions are numbers: build it with action_kind='continuous'."
        )
    points = _grid(problem.log) if grid is None else np.asarray(grid, dtype=np.float64)
    if points.ndim != 1 or len(points) == 0 or not np.isfinite(points).all():
        raise UsageError(f"grid= must be a list of numbers. Got {grid!r:.60} instead.")
    if len(np.unique(points)) < len(points):
        raise UsageError("grid= lists an action twice. List each once.")
    points = np.sort(points)
    curve = ev.instead({f"{a:.10g}": float(a) for a in points})
    name = headline(ev.estimators).name if estimator is None else estimator
    ends = curve.compare(level, name).values
    estimates = [curve[policy, name] for policy in curve.policies]
    low, high = np.array([ends[policy].shown for policy in curve.policies]).T
    return ValueCurve(
        points,
        np.array([e.value for e in estimates]),
        np.array([e.std_error for e in estimates]),
        low,
        high,
        level,
        name,
        curve,
    )


def _grid(logged: Any) -> Floats:
    """Actions over the middle of the logged ones, the same on every path."""
    shares = ((1 - SHARE) / 2, (1 + SHARE) / 2)
    ends = [
        float(quantiles(logged.action, [share])[0]) if logged.in_memory else logged.action_at(place_of(share, logged.n))
        for share in shares
    ]
    return np.linspace(ends[0], ends[1], POINTS)
