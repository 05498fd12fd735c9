"""`advise`: how much exploration, and how many rows, an answer of a wanted width takes.

The width of an interval shrinks like 1/√n, and grows with the variance of the doubly robust score. Had a share λ
of the decisions been drawn uniformly among the eligible actions, the others as they were, that variance would be

    σ²(λ) = Var v(S) + E[ w · π_e / π_b' · (R − q)² ],      π_b' = (1 − λ) π_b + λ / K,

an average over the log as it is. What the target does where the log has nothing (mean weight below 1) adds
(1 − mean weight) · K / λ · Var R, which is not finite for λ = 0: such a log is refused whatever its length.

With σ²(λ)/n the squared standard error of the doubly robust estimate times σ²(λ)/σ²(0), where squared residuals of
rewards of two values are those that the model expects (`score_variance`), a log of n' rows has an interval of width
2 z √(σ²(λ)/n') (1 + c (σ²(λ) n / (σ²(0) n'))²), or a little less, since models learn. Intervals of few informative rows
are wider than normal ones by c, the excess of this log's own interval, which falls fast as information grows (how fast
was seen in the study of routing).

This log is a sample, and so is the one that is planned; both are in the range that goes with a width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.decide.advice import Advice, Curve, Forecast, Plan, PolicyAdvice
from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.inference.intervals.evidence import lumpiness, two_values
from offpolicy.inference.intervals.sample import check_level
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.logs.kinds import unit_word
from offpolicy.logs.outcome import settled_of
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.log import Log
    from offpolicy.scores.catalog import Estimator
    from offpolicy.scores.decisions import Decisions


#: Shares of decisions drawn uniformly that a table shows.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ROUNDING = 1e-9
FEW = 30.0  # units by whose weights a spread is told


@checks_arguments
def advise(
    log: Log,
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
        raise UsageError(f"exploration= must be a list of shares in (0, 1]. Got {exploration!r} instead.")
    if not log.space.finite:
        raise UsageError(
            "advise plans uniform draws among actions that are labels, but the actions of this log are "
            "numbers. Group them into ranges (such as price bands) and use the group as the action."
        )
    ev = evaluate(log, policies, **settings)
    n = float(ev.logged.sample().total)
    once = ev.problem.log.unit_kind.decides_once
    # A table of predictions stays what it is, however many rows there are.
    model: Any = settings.get("reward_model")
    learns = np.ndim(model) != 2
    advice = tuple(
        _advice(ev, policy, width, level, (0.0, *shares) if once else (0.0,), learns=learns) for policy in ev.policies
    )
    random = randomness(ev) if once else None
    unit = "rows" if once else unit_word(ev.problem.log, plural=True)
    unit = "clusters" if ev.problem.log.has_clusters else unit
    return Advice(n, unit, random, advice, _labels(ev, width, level))


def _labels(ev: Evaluation, width: float | None, level: float) -> dict[str, Any]:
    """For each policy how many labels the width takes, where rewards are labels."""
    plans = {}
    for own in settled_of(ev.problem.log):
        for policy, target in ev.targets.items():
            e = ev[policy, scored(ev.estimators).name]
            interval = e.interval(level)
            if not e.is_defined or not interval.sufficient:
                continue
            weight = ev.problem.decisions(target, scored(ev.estimators)).rho
            plan = own.label_plan(weight, e.std_error, interval.width, width, level)
            if plan is not None:
                plans[policy] = plan
    return plans


def _advice(
    ev: Evaluation, policy: str, width: float | None, level: float, shares: Sequence[float], *, learns: bool
) -> PolicyAdvice:
    chosen = headline(ev.estimators)
    e, verdict = ev[policy, chosen.name], ev.verdict(policy, level=level)
    answered = e.is_defined and verdict.level != "insufficient evidence"
    interval = e.interval(level) if answered else None
    n = float(ev.logged.sample().total)
    view = view_of(ev, policy, whole=answered) if ev.problem.log.unit_kind.decides_once else None
    z = float(special.ndtri(0.5 + level / 2))
    # A choice among estimators, or a mean of them, has a share of the doubly robust one that grows with the log.
    base = e if view is None else ev[policy, scored(ev.estimators).name]
    error = base.std_error if base.is_defined else e.std_error
    own = None if interval is None else (interval.width, error)
    forecasts = [_forecast(own, z, n, view, x, learns=learns) for x in shares]
    if interval is not None:
        forecasts = [_with_noise(f, e) for f in forecasts]
    widths = [f.width(n) for f in forecasts]
    now = widths[0] if interval is None else interval.width
    wanted = width if width is not None else (now if math.isfinite(now) else min(widths)) / 2
    plans = tuple(
        Plan(x, w, f.curve.rows(wanted), *f.between(n), f) for x, w, f in zip(shares, widths, forecasts, strict=True)
    )
    own_units = view is None and math.isfinite(wanted) and not ev.problem.log.has_clusters
    return PolicyAdvice(
        policy,
        answered,
        "" if answered else verdict.reasons[0],
        e.value if answered else None,
        now if answered else None,
        0.0 if view is None else view.uncovered,
        wanted,
        plans,
        run_itself(ev, policy, 2 * z / wanted, now / (2 * z) if answered else None) if own_units else None,
    )


def run_itself(ev: Evaluation, policy: str, precision: float, error: float | None) -> float:
    """How many units of the policy itself, beside the log's estimate, have a standard error of 1 / precision.

    Their returns have the spread that the logged ones have by the policy's weights, or, where these are worth fewer
    than `FEW` units, as they are. Both estimates together have the sum of their precisions, 1/σ² each.
    """
    d = ev.problem.decisions(ev.targets[policy], scored(ev.estimators))
    earned = d.sum(d.gamma * d.reward)
    last = np.cumsum(np.asarray(d.layout.lengths)) - 1
    weight = d.mass * np.exp(d.log_rho[last] - d.log_rho[last].max())
    if not effective_size(weight, None) >= FEW:
        weight = d.mass
    mean = float(np.average(earned, weights=weight))
    variance = float(np.average((earned - mean) ** 2, weights=weight))
    known = 0.0 if error is None else 1 / error**2
    return float(np.ceil(variance * max(precision**2 - known, 0.0)))


def _with_noise(forecast: Forecast, e: Estimate) -> Forecast:
    """The forecast with what rewards of unknown range add; for episodes, whose units say it, with its noise."""
    sample, evidence = e.sample(), e.known()
    known = evidence is not None and evidence.completed().bounded_rewards
    tail = 0.0 if known else lumpiness(sample, evidence) * math.sqrt(sample.total)
    if not math.isnan(forecast.luck):
        return replace(forecast, tail=tail)
    c, square = sample.counts, sample.residual**2
    # The relative error of a standard deviation is half that of the variance.
    luck = 0.5 * math.sqrt(max(sample.total * float(c @ square**2) / float(c @ square) ** 2 - 1, 0.0))
    return replace(forecast, uncertainty=luck / math.sqrt(sample.total), luck=luck, tail=tail)


def _forecast(
    own: tuple[float, float] | None, z: float, n: float, view: View | None, share: float, *, learns: bool
) -> Forecast:
    """From the width and standard error of the log's own interval, or from the variance alone."""
    if own is None:
        finite = view is not None and (share > 0 or view.uncovered == 0)
        return Forecast(
            Curve(2 * z * math.sqrt(view.variance(share, smooth=True)) if view is not None and finite else math.inf)
        )
    width, error = own
    ratio = informed = 1.0
    if view is not None:
        later = view.variance(share, smooth=True)
        ratio, informed = later / view.variance(0), later / view.variance(0, smooth=True)
    if not error > 0:
        return Forecast(Curve(width * math.sqrt(n * ratio)))
    usual = error * math.sqrt(ratio / informed)
    excess = width / (2 * z * usual) - 1
    excess = excess if excess > ROUNDING else 0.0
    scale, bent = 2 * z * error * math.sqrt(n * ratio), math.sqrt(excess) * n * informed
    if view is None:
        return Forecast(Curve(scale, bent))
    curve = Curve(scale, bent, n * informed if learns else None)
    return Forecast(curve, view.uncertainty(share), view.luck(share))


#: Standard errors by which the mean weight must fall short of 1 to count as mass that the log does not cover.
SHORT = 4.0
#: Chances nearer to 0 or 1 than this are taken for it, where the spread of a reward of two values is read off them.
NEAREST = 0.01


@dataclass(frozen=True, eq=False)
class Terms:
    """What squared residuals add to the variance: Σ share · π_e/π_b · square.

    Attributes
    ----------
    row : (m,) array
        Row of the log that a term belongs to.
    share : (m,) array
        Mass of the row times the chance that the policy takes the action; of a taken action, times its weight.
    pi_e, pi_b, square : (m,) arrays
        Of the action.
    """

    row: Ints
    share: Floats
    pi_e: Floats
    pi_b: Floats
    square: Floats


@dataclass(frozen=True, eq=False)
class View:
    """What the variance of a policy's score depends on, row by row of a bandit log.

    Attributes
    ----------
    seen : Terms
        Of the actions that were taken, with their own residuals.
    meant : Terms
        With the residuals that the model expects, where it says, and of both actions of a row that has two.
    calibration : float
        Standard error of the mean of the expected ones, as a share of it.
    mass, count, open_actions : (n,) arrays
        Mass of each row in means (sum 1), rows that it stands for, and actions that were open.
    spread_of_values, spread_of_rewards : float
    uncovered : float
        Share of the policy's decisions that the log holds nothing about.
    """

    seen: Terms
    meant: Terms
    calibration: float
    mass: Floats
    count: Floats
    open_actions: Floats
    spread_of_values: float
    spread_of_rewards: float
    uncovered: float

    def variance(self, exploration: float, *, smooth: bool = False) -> float:
        """σ² of the score of one row; ``smooth`` takes squared residuals for what the model expects of them."""
        if exploration == 0 and self.uncovered > 0:
            return math.inf
        covered = float(self._parts(self.meant if smooth else self.seen, exploration).sum())
        missing = 0.0
        if self.uncovered > 0:
            missing = self.uncovered * float(self.mass @ self.open_actions) / exploration
        return self.spread_of_values + covered + missing * self.spread_of_rewards

    def uncertainty(self, exploration: float) -> float:
        """Standard error of the root of the variance, as a share of it; NaN where part of it is no measurement."""
        total = self.variance(exploration, smooth=True)
        if not 0 < total < math.inf or self.uncovered > 0:
            return math.nan
        parts = np.bincount(self.meant.row, self._parts(self.meant, exploration), minlength=len(self.mass))
        covered = float(parts.sum())
        error = math.sqrt(float(((parts - self.mass * covered) ** 2 / self.count).sum()))
        return 0.5 * math.hypot(error, self.calibration * covered) / total

    def luck(self, exploration: float) -> float:
        """√n times the standard deviation of the root of the variance that a log of n rows shows, as a share of it."""
        total = self.variance(exploration, smooth=True)
        if not 0 < total < math.inf or self.uncovered > 0:
            return math.nan
        ratio = self._ratio(self.seen, exploration)
        fourth = float((self.seen.share * ratio**3 * self.seen.square**2).sum())
        second = float((self.seen.share * ratio * self.seen.square).sum())
        return 0.5 * math.sqrt(max(fourth - second**2, 0.0)) / total

    def _parts(self, terms: Terms, exploration: float) -> Floats:
        return np.asarray(terms.share * self._ratio(terms, exploration) * terms.square)

    def _ratio(self, terms: Terms, exploration: float) -> Floats:
        """π_e/π_b', had a share of the decisions been drawn uniformly."""
        even = exploration / self.open_actions[terms.row]
        return np.asarray(terms.pi_e / ((1 - exploration) * terms.pi_b + even))


def view_of(ev: Evaluation, policy: str, *, whole: bool) -> View:
    """What the log shows of a policy; ``whole`` where it answers for it, so that nothing is uncovered."""
    target = ev.targets[policy]
    d = ev.problem.decisions(target, scored(ev.estimators))
    mass, count = d.mass / d.mass.sum(), d.count
    log = ev.problem.log
    k = float(len(log.actions))
    opened = np.full(d.n, k) if log.eligible is None else log.eligible.sum(axis=1).astype(float)
    weight = float(mass @ d.ratio)
    error = math.sqrt(float((mass**2 / count) @ (d.ratio - weight) ** 2))
    short = 1 - weight
    known = 0.0 if whole else ev.problem.reach(target).forbidden_share
    if known is None:
        known = short if short > SHORT * error or weight == 0 or _never_random(d.pi_b) else 0.0
    mean_v, mean_r = float(mass @ d.v), float(mass @ d.reward)
    seen = Terms(np.arange(d.n), mass * d.ratio, d.pi_e, d.pi_b, (d.reward - d.q) ** 2)
    meant, calibration = _expected(d, seen, mass, count, opened)
    return View(
        seen,
        meant,
        calibration,
        mass,
        count,
        opened,
        float(mass @ (d.v - mean_v) ** 2),
        float(mass @ (d.reward - mean_r) ** 2),
        max(0.0, float(known)),
    )


def _expected(d: Decisions, seen: Terms, mass: Floats, count: Floats, opened: Floats) -> tuple[Terms, float]:
    """Terms with squared residuals that the model expects: of few rows with large weights the seen ones say little.

    A reward of two values that has chance p of the higher one has variance p (1 − p) times their distance squared. This
    is scaled so that its mean over the rows whose action the policy might take is that of the squared residuals. Other
    rewards stay as seen. Which of two actions was taken is chance as well, with known odds: such rows have a term for
    both.
    """
    ends = two_values(d.reward)
    if ends is None or ends[0] == ends[1]:
        return seen, 0.0
    might = np.where(d.pi_e > 0, mass, 0.0)
    spread = _spread(d.q, ends)
    meant = float(might @ spread)
    if meant <= 0:
        return seen, 0.0
    scale = float(might @ seen.square) / meant
    off = might * (seen.square - scale * spread)
    error = math.sqrt(float((off**2 / count).sum())) / (scale * meant) if scale > 0 else 0.0
    single = seen.share * (opened != 2)
    both = np.flatnonzero((opened == 2) & (d.pi_b < 1))
    other_e = 1 - d.pi_e[both]
    # v = π_e q + (1 − π_e) q', where q' is the model's answer for the action that was not taken.
    other_q = (d.v - d.pi_e * d.q)[both] / np.where(other_e > 0, other_e, 1.0)
    rows = np.concatenate([np.arange(d.n), both])
    share = np.concatenate([np.where(opened == 2, mass * d.pi_e, single), mass[both] * other_e])
    pi_e = np.concatenate([d.pi_e, other_e])
    pi_b = np.concatenate([d.pi_b, 1 - d.pi_b[both]])
    squares = scale * np.concatenate([spread, _spread(other_q, ends)])
    return Terms(rows, share, pi_e, pi_b, squares), error


def _spread(q: Floats, ends: tuple[float, float]) -> Floats:
    """The variance p (1 − p) of a chance p of the higher value."""
    chance = np.clip((q - ends[0]) / (ends[1] - ends[0]), NEAREST, 1 - NEAREST)
    return np.asarray(chance * (1 - chance))


def _never_random(pi_b: Floats) -> bool:
    return bool((pi_b >= 1).all())


def scored(estimators: Sequence[Estimator]) -> Estimator:
    """The estimator whose q and v stand for those of the headline: cross-fitted with a model; DML where it is there."""
    able = [e for e in estimators if {"value", "behavior"} <= set(e.needs) and e.split == "crossfit"]
    if not able:
        raise UsageError("advise needs a cross-fitted doubly robust estimator, such as DML.")
    plain = [e for e in able if e.emphasis is None]
    return next((e for e in plain if e.linear_in_reward), (plain or able)[0])


def randomness(ev: Evaluation) -> float:
    """E[1 − π_b(A|S)]: how often a second draw differs."""
    d = ev.problem.decisions(next(iter(ev.targets.values())), scored(ev.estimators))
    return float(d.mass @ (1 - d.pi_b) / d.mass.sum())
