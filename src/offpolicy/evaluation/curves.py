"""Curves: the value of every constant number, of each step, of each position of slates; rankings and known values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import place_of, quantiles
from offpolicy._doors import door
from offpolicy._visible import printable
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.figures import level_text
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        raise UsageError("value_curve() needs a log whose actions are numbers. Build it with action_kind='continuous'.")
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


FEWEST = 20.0


@dataclass(frozen=True, eq=False)
class StepCurves:
    """Curves over the steps of an episode, (T+1,) each.

    Attributes
    ----------
    logged : array
        Mean discounted reward of the log, episodes that have ended counted with 0.
    target : array
        The same for the target, by weights normalized at each step; NaN where no episode follows it.
    error : array
        Its standard error; NaN where the weights are worth fewer than 20 episodes, which do not show it.
    effective : array
        Effective number of episodes.
    """

    logged: Floats
    target: Floats
    error: Floats
    effective: Floats

    def plot(self, ax: Any = None) -> Any:
        """Draw both with matplotlib: value by step, and the effective number of episodes below it."""
        return door("plot of steps")(self, ax)


@checks_arguments
def step_curves(ev: Evaluation, policy: str | None = None) -> StepCurves:
    """Value and weights of each step, from the weights of steps.

    Parameters
    ----------
    policy : str, optional
        Which; may be left out when there is one.
    """
    from offpolicy.scores.catalog import named
    from offpolicy.trust.horizon import horizon_curve
    from offpolicy.trust.verdict import policy_name

    log = ev.problem.log
    if log.layout.is_single:
        raise UsageError("step_curves() is for episodes; a bandit log has one step.")
    if log.shows_items:
        raise UsageError("step_curves() is for episodes. Use position_values() for slates.")
    name = policy_name(ev, policy)
    d = ev.problem.decisions(ev.targets[name], named("SNIPW"))
    units, effective = ev.problem.units, horizon_curve(d, ev.problem.units).effective
    logged, target, error = (np.full(d.layout.horizon, np.nan) for _ in range(3))
    for t, present, rows, log_now in d.log_rho_by_step():
        reward = np.zeros(d.n)
        reward[present] = d.gamma[rows] * d.reward[rows]
        logged[t] = units.mean(reward)
        highest = float(log_now.max())
        if np.isneginf(highest):
            continue
        weight = np.exp(log_now - highest)
        weight /= units.mean(weight)
        target[t] = units.mean(weight * reward)
        if effective[t] >= FEWEST:
            error[t] = units.sample(weight * (reward - target[t])).std_error
    return StepCurves(logged, target, error, effective)


@checks_arguments
def position_values(ev: Evaluation, policy: str | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """Value of each position of slates, with intervals that hold together, and what the log earned there.

    Values are by self-normalized weights (SNIPW); ``ev.plot("positions")`` and the report draw them.

    Parameters
    ----------
    policy : str, optional
        Which; may be left out when there is one.
    level : float
        Probability with which all intervals hold.

    Examples
    --------
    >>> import numpy as np, pandas as pd, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"s": np.repeat(np.arange(500), 2), "k": np.tile([1, 2], 500),
    ...                       "item": rng.integers(2, size=1000), "p": 0.5})
    >>> frame["click"] = (rng.random(1000) < 0.2 + 0.3 * frame["item"]) * 1.0
    >>> log = op.Slates.from_frame(frame, slate="s", position="k", context=None, action="item", reward="click",
    ...                            propensity="p")
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    >>> [(row["position"], abs(row["value"] - 0.5) < 0.1) for row in ev.position_values()]
    [('1', True), ('2', True)]
    """
    from offpolicy._doors import door
    from offpolicy.trust.verdict import policy_name
    from offpolicy.trust.view import View

    name = policy_name(ev, policy)
    rows = door("positions")(View.of(ev.problem, ev.targets[name]), level)
    if not rows:
        raise UsageError("position_values() is for slates with a reward of each slot.")
    return [{"position": row.pop("group"), **row} for row in rows]


@dataclass(frozen=True)
class Ranking:
    """Estimated against true values of several policies.

    Attributes
    ----------
    estimator : str
    order : tuple of str
        Policies from the best estimate to the worst.
    rank_correlation : float
        Spearman's, between estimates and true values; NaN where either does not vary.
    regret : tuple of float
        ``regret[k − 1]``: the best true value less the best among the k policies of highest estimate.
    error : float
        Root mean squared error of the estimates.
    """

    estimator: str
    order: tuple[str, ...]
    rank_correlation: float
    regret: tuple[float, ...]
    error: float

    def regret_at(self, k: int) -> float:
        """Regret when the k policies of highest estimate are tried and the best of them is kept."""
        if isinstance(k, bool) or not 1 <= k <= len(self.regret):
            raise UsageError(f"k must be an int from 1 to {len(self.regret)}. Got {k!r} instead.")
        return self.regret[k - 1]


@checks_arguments
def against(ev: Evaluation, truth: Mapping[str, float], estimator: str | None = None) -> Ranking:
    """Judge the ranking of an evaluation by true values, for benchmarks of off-policy selection.

    Parameters
    ----------
    truth : {policy: value}
        True values (or those of an A/B test) of all policies.
    estimator : str, optional
        Whose estimates to rank by; default: the recommended one among those computed.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(3, size=900)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=900), np.full(900, 1 / 3))
    >>> ev = op.evaluate(log, {str(k): op.policies.Fixed(k) for k in range(3)}, estimators=["SNIPW"])
    >>> found = ev.against({"0": 0.0, "1": 1.0, "2": 2.0})
    >>> found.order, found.regret_at(1)
    (('2', '1', '0'), 0.0)
    """
    from scipy.stats import spearmanr

    from offpolicy.trust.verdict import speaker

    for name in ev.policies:
        if name not in truth:
            raise UsageError(f"truth has no value for policy {name!r}.{did_you_mean(name, truth)}")
    if len(ev.policies) < 2:
        raise UsageError("a ranking needs two policies or more.")
    chosen = speaker(ev, estimator).name
    made = np.array([ev[name, chosen].value for name in ev.policies])
    true = np.array([float(truth[name]) for name in ev.policies])
    sign = -1.0 if getattr(ev, "minimize", False) else 1.0
    order = np.argsort(-sign * np.where(np.isnan(made), -sign * np.inf, made), kind="stable")
    best = np.maximum.accumulate(sign * true[order])
    regret = float((sign * true).max()) - best
    varies = np.ptp(true) > 0 and np.ptp(made[np.isfinite(made)]) > 0
    correlation = float(spearmanr(made, true).statistic) if varies else float("nan")
    return Ranking(
        chosen,
        tuple(ev.policies[i] for i in order),
        correlation,
        tuple(float(r) for r in regret),
        float(np.sqrt(np.nanmean((made - true) ** 2))),
    )
