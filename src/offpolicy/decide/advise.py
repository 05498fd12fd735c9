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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.decide.advice import Advice, Curve, Forecast, Plan, PolicyAdvice
from offpolicy.decide.score_variance import randomness, scored, view_of
from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.inference.intervals.evidence import lumpiness
from offpolicy.inference.intervals.sample import check_level
from offpolicy.logs.outcome import settled_of
from offpolicy.logs.words import unit_word
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.decide.score_variance import View
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.log import Log

#: Shares of decisions drawn uniformly that a table shows.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ROUNDING = 1e-9


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
    if getattr(log, "is_continuous", False):
        raise UsageError(
            "advise speaks of decisions drawn evenly among actions that are labels, and the actions of this log are "
            "numbers. Give groups of them as the action (prices by range)."
        )
    ev = evaluate(log, policies, **settings)
    n = float(ev.logged.sample().total)
    is_single = ev.problem.log.decides_once
    # A table of predictions stays what it is, however many rows there are.
    model: Any = settings.get("reward_model")
    learns = np.ndim(model) != 2
    advice = tuple(
        _advice(ev, policy, width, level, (0.0, *shares) if is_single else (0.0,), learns=learns)
        for policy in ev.policies
    )
    random = randomness(ev) if is_single else None
    return Advice(n, _unit(ev.problem.log), random, advice, _labels(ev, width, level))


def _labels(ev: Evaluation, width: float | None, level: float) -> dict[str, Any]:
    """For each policy how many labels the width takes, where rewards are labels."""
    plans = {}
    for own in settled_of(ev.problem.log):
        for policy, target in ev.targets.items():
            e = ev[policy, scored(ev.estimators).name]
            interval = e.interval(level)
            if not e.is_defined or not interval.sufficient:
                continue
            weight = ev.problem.decisions(target, scored(ev.estimators)).ratio
            plan = own.label_plan(weight, e.std_error, interval.width, width, level)
            if plan is not None:
                plans[policy] = plan
    return plans


def _unit(log: Log) -> str:
    """What independent units are called here, in the plural."""
    if log.has_clusters:
        return "clusters"
    return "rows" if log.decides_once else unit_word(log.kind, plural=True)


def _advice(
    ev: Evaluation, policy: str, width: float | None, level: float, shares: Sequence[float], *, learns: bool
) -> PolicyAdvice:
    chosen = headline(ev.estimators)
    e, verdict = ev[policy, chosen.name], ev.verdict(policy, level=level)
    answered = e.is_defined and verdict.level != "insufficient evidence"
    interval = e.interval(level) if answered else None
    n = float(ev.logged.sample().total)
    view = None if not ev.problem.log.decides_once else view_of(ev, policy, whole=answered)
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
