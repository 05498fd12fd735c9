"""`advise`: how much exploration, and how many rows, an answer of a wanted width takes.

The width of an interval shrinks like 1/√n, and grows with the variance of the doubly robust score. Had a share λ
of the decisions been drawn uniformly among the eligible actions, the others as they were, that variance would be

    σ²(λ) = Var v(S) + E[ w · π_e / π_b' · (R − q)² ],      π_b' = (1 − λ) π_b + λ / K,

an average over the log as it is. What the target does where the log has nothing (mean weight below 1) adds
(1 − mean weight) · K / λ · Var R, which is not finite for λ = 0: such a log is refused whatever its length.

With σ²(λ)/n the estimate's own squared standard error times σ²(λ)/σ²(0), a log of n' rows has an interval of width
2 z √(σ²(λ)/n') (1 + c (σ²(λ) n / (σ²(0) n'))²): intervals of few informative rows are wider than normal ones by c, the
excess of this log's own interval, which falls fast as information grows (how fast was seen in the study of routing).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special
from scipy.optimize import brentq

from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.inference.intervals.sample import check_level
from offpolicy.report.schema import write
from offpolicy.report.text import align
from offpolicy.scores.catalog import headline
from offpolicy.trust.trial import rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.scores.catalog import Estimator

#: Shares of decisions drawn uniformly that a table shows.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: Standard errors by which the mean weight must fall short of 1 to count as mass that the log does not cover.
SHORT = 4.0
NO_EXPLORATION = (
    "Every decision was taken with probability 1: the log holds no exploration, and no number of rows tells what "
    "another action would have earned. Draw some decisions uniformly, and log the propensity."
)


@dataclass(frozen=True)
class Curve:
    """Width by rows: scale / √n · (1 + (excess / n)²)."""

    scale: float
    excess: float = 0.0

    def width(self, n: float) -> float:
        """Of the interval of a log of n rows."""
        return self.scale / math.sqrt(n) * (1 + (self.excess / n) ** 2)

    def rows(self, width: float) -> float:
        """Rows for a width; ∞ where none are enough.

        >>> Curve(2.0).rows(0.1), Curve(math.inf).rows(0.1)
        (400, inf)
        """
        if not math.isfinite(self.scale) or not width > 0:
            return math.inf
        if self.scale == 0:
            return 1
        first = (self.scale / width) ** 2
        last = max(4 * first, 4 * self.excess, 1.0)
        n = brentq(
            lambda t: math.log(self.width(math.exp(t)) / width), math.log(first) - 1, math.log(last)
        )
        return rounded_up(math.exp(n))


@dataclass(frozen=True)
class Plan:
    """What one amount of exploration would give.

    Attributes
    ----------
    exploration : float
        Share of decisions drawn uniformly among the eligible actions, the others as they are now.
    width : float
        Of the interval of a log as long as this one; ∞ where no log of any length would answer.
    rows : float
        Rows (episodes) for the wanted width.
    curve : Curve
        Width by rows: ``plan.curve.width(10_000)``.
    """

    exploration: float
    width: float
    rows: float
    curve: Curve


@dataclass(frozen=True)
class PolicyAdvice:
    """Advice on one policy.

    Attributes
    ----------
    policy : str
    answered : bool
        Whether this log answers for the policy as it is.
    reason : str
        Why not.
    value, width : float or None
        Estimate and width of its interval, where it does.
    uncovered : float
        Share of the policy's decisions that the log holds nothing about.
    wanted : float
        Width that rows are counted for.
    plans : tuple of Plan
        As it is now first, then with more exploration.
    """

    policy: str
    answered: bool
    reason: str
    value: float | None
    width: float | None
    uncovered: float
    wanted: float
    plans: tuple[Plan, ...]

    def plan(self, exploration: float) -> Plan:
        """The plan with so much more exploration."""
        for plan in self.plans:
            if math.isclose(plan.exploration, exploration):
                return plan
        known = [p.exploration for p in self.plans]
        raise UsageError(
            f"no plan with exploration {exploration!r} was asked for. There are {known}."
        )

    def lines(self, unit: str, n: float) -> list[str]:
        """In words, and a table."""
        if self.answered:
            said = f"{self.policy}: {self.value:.4g}, interval {self.width:.3g} wide."
        else:
            said = f"{self.policy}: this log does not answer. {self.reason}"
        if self.uncovered > 0:
            said += (
                f" It holds nothing about {100 * self.uncovered:.3g}% of the policy's decisions."
            )
        headings = (
            "exploration",
            f"width with {n:,.0f} {unit}",
            f"{unit} for a width of {self.wanted:.3g}",
        )
        rows = [
            (
                "as it is" if p.exploration == 0 else f"{100 * p.exploration:.3g}% more",
                f"{p.width:.3g}" if math.isfinite(p.width) else "no answer",
                f"{p.rows:,.0f}" if math.isfinite(p.rows) else "no number is enough",
            )
            for p in self.plans
        ]
        return [said, "", align(headings, rows)]


@dataclass(frozen=True)
class Advice:
    """How much exploration and how many rows a log needs; print it.

    Attributes
    ----------
    n : float
        Rows (episodes) of the log.
    unit : str
        "rows" or "episodes".
    randomness : float or None
        Probability that a second draw would have taken another action; None for episodes.
    policies : tuple of PolicyAdvice
    """

    n: float
    unit: str
    randomness: float | None
    policies: tuple[PolicyAdvice, ...]

    def __getitem__(self, policy: str) -> PolicyAdvice:
        """Advice on one policy, by its name."""
        named = {p.policy: p for p in self.policies}
        if policy not in named:
            raise KeyError(f"no policy is called {policy!r}. Policies: {list(named)}.")
        return named[policy]

    @property
    def explores(self) -> bool:
        """Whether decisions could have gone another way at all."""
        return self.randomness is None or self.randomness > 0

    @property
    def answered(self) -> bool:
        """Whether the log answers for every policy as it is."""
        return all(p.answered for p in self.policies)

    def to_json(self) -> str:
        """All of it; what is not finite is null."""
        return write({**asdict(self), "explores": self.explores, "answered": self.answered})

    def __str__(self) -> str:
        said = []
        if self.randomness is not None and self.explores:
            said = [
                f"A second draw would have taken another action in {100 * self.randomness:.3g}% of {self.unit}."
            ]
        elif not self.explores:
            said = [NO_EXPLORATION]
        parts = [line for p in self.policies for line in ["", *p.lines(self.unit, self.n)]]
        return "\n".join([*said, *parts]).strip()

    def __repr__(self) -> str:
        return str(self)


def advise(
    log: Any,
    policies: Any,
    *,
    width: float | None = None,
    level: float = 0.95,
    exploration: Sequence[float] = SHARES,
    **settings: Any,
) -> Advice:
    """Say how much exploration, and how many rows, an interval of a wanted width takes.

    Parameters
    ----------
    log, policies
        As in `evaluate`.
    width : float, optional
        Of the interval; default: half of what the log gives now.
    level : float
        Of the interval.
    exploration : sequence of float
        Shares of decisions that might be drawn uniformly, in (0, 1]; bandit logs only.
    **settings
        Further arguments of `evaluate`: models, folds, seed.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = (rng.random(2000) < 0.1).astype(int)
    >>> r = (rng.random(2000) < 0.3 + 0.2 * a).astype(float)
    >>> log = op.BanditLog.from_arrays(None, a, r, np.where(a == 1, 0.1, 0.9))
    >>> advice = op.advise(log, {"one": op.policies.Fixed(1)}, width=0.05)
    >>> advice.answered, advice["one"].plan(0.2).rows < advice["one"].plan(0).rows
    (True, True)
    >>> every = op.BanditLog.from_arrays(None, [0] * 50, [0.0, 1.0] * 25, [1.0] * 50, actions=[0, 1])
    >>> advice = op.advise(every, {"one": op.policies.Fixed(1)}, width=0.05)
    >>> advice.explores, advice.answered
    (False, False)
    """
    check_level(level)
    if width is not None and not (isinstance(width, int | float) and 0 < width < math.inf):
        raise UsageError(f"width= must be a positive number. Got {width!r} instead.")
    try:
        shares = tuple(float(x) for x in exploration)
    except (TypeError, ValueError):
        shares = (math.nan,)
    if not all(0 < x <= 1 for x in shares):
        raise UsageError(
            f"exploration= must be a list of shares in (0, 1]. Got {exploration!r} instead."
        )
    ev = evaluate(log, policies, **settings)
    n = float(ev.logged.sample().total)
    is_single = ev.problem.log.kind == "bandit"
    advice = tuple(
        _advice(ev, policy, width, level, (0.0, *shares) if is_single else (0.0,))
        for policy in ev.policies
    )
    randomness = _randomness(ev) if is_single else None
    return Advice(n, "rows" if is_single else "episodes", randomness, advice)


def _advice(
    ev: Evaluation, policy: str, width: float | None, level: float, shares: Sequence[float]
) -> PolicyAdvice:
    chosen = headline(ev.estimators)
    e, verdict = ev[policy, chosen.name], ev.verdict(policy, level=level)
    answered = e.is_defined and verdict.level != "insufficient evidence"
    interval = e.interval(level) if answered else None
    n = float(ev.logged.sample().total)
    view = None if ev.problem.log.kind != "bandit" else _view(ev, policy, whole=answered)
    z = float(special.ndtri(0.5 + level / 2))
    curves = [
        _curve(None if interval is None else (interval.width, e.std_error), z, n, view, x)
        for x in shares
    ]
    widths = [c.width(n) for c in curves]
    now = widths[0]
    wanted = width if width is not None else (now if math.isfinite(now) else min(widths)) / 2
    plans = tuple(
        Plan(x, w, c.rows(wanted), c) for x, w, c in zip(shares, widths, curves, strict=True)
    )
    return PolicyAdvice(
        policy,
        answered,
        "" if answered else verdict.reasons[0],
        e.value if answered else None,
        now if answered else None,
        0.0 if view is None else view.uncovered,
        wanted,
        plans,
    )


def _curve(
    own: tuple[float, float] | None, z: float, n: float, view: View | None, share: float
) -> Curve:
    """From the width and standard error of the log's own interval, or from the variance alone."""
    if own is None:
        finite = view is not None and (share > 0 or view.uncovered == 0)
        return Curve(
            2 * z * math.sqrt(view.variance(share)) if view is not None and finite else math.inf
        )
    width, error = own
    ratio = 1.0 if view is None else view.variance(share) / view.variance(0)
    if not error > 0:
        return Curve(width * math.sqrt(n * ratio))
    excess = max(0.0, width / (2 * z * error) - 1)
    return Curve(2 * z * error * math.sqrt(n * ratio), math.sqrt(excess) * n * ratio)


@dataclass(frozen=True, eq=False)
class View:
    """What the variance of a policy's score depends on, row by row of a bandit log."""

    ratio: Floats
    pi_e: Floats
    pi_b: Floats
    square: Floats
    mass: Floats
    open_actions: Floats
    spread_of_values: float
    spread_of_rewards: float
    uncovered: float

    def variance(self, exploration: float) -> float:
        """σ² of the score of one row."""
        if exploration == 0 and self.uncovered > 0:
            return math.inf
        uniform = 1 / self.open_actions
        mixed = (1 - exploration) * self.pi_b + exploration * uniform
        covered = float(self.mass @ (self.ratio * self.pi_e / mixed * self.square))
        missing = 0.0
        if self.uncovered > 0:
            missing = self.uncovered * float(self.mass @ self.open_actions) / exploration
        return self.spread_of_values + covered + missing * self.spread_of_rewards


def _view(ev: Evaluation, policy: str, *, whole: bool) -> View:
    target = ev.targets[policy]
    d = ev.problem.decisions(target, _scored(ev.estimators))
    mass = np.ones(d.n) if d.weight is None else d.weight
    mass = mass / mass.sum()
    log = ev.problem.log
    k = float(len(log.actions))
    opened = np.full(d.n, k) if log.eligible is None else log.eligible.sum(axis=1).astype(float)
    weight = float(mass @ d.ratio)
    error = math.sqrt(float(mass**2 @ (d.ratio - weight) ** 2))
    short = 1 - weight
    known = 0.0 if whole else ev.problem.reach(target).forbidden_share
    if known is None:
        known = short if short > SHORT * error or weight == 0 or _never_random(d.pi_b) else 0.0
    mean_v, mean_r = float(mass @ d.v), float(mass @ d.reward)
    return View(
        d.ratio,
        d.pi_e,
        d.pi_b,
        (d.reward - d.q) ** 2,
        mass,
        opened,
        float(mass @ (d.v - mean_v) ** 2),
        float(mass @ (d.reward - mean_r) ** 2),
        max(0.0, float(known)),
    )


def _never_random(pi_b: Floats) -> bool:
    return bool((pi_b >= 1).all())


def _scored(estimators: Sequence[Estimator]) -> Estimator:
    """The estimator whose predictions of q and v stand for those of the headline: cross-fitted, with a model."""
    able = [
        e for e in estimators if {"value", "behavior"} <= set(e.needs) and e.split == "crossfit"
    ]
    if not able:
        raise UsageError("advise needs a cross-fitted doubly robust estimator, such as DML.")
    return next((e for e in able if e.emphasis is None), able[0])


def _randomness(ev: Evaluation) -> float:
    """E[1 − π_b(A|S)]: how often a second draw differs."""
    d = ev.problem.decisions(next(iter(ev.targets.values())), _scored(ev.estimators))
    mass = np.ones(d.n) if d.weight is None else d.weight
    return float(mass @ (1 - d.pi_b) / mass.sum())
