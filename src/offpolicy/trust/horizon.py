"""The curse of the horizon as a curve: what is left of the importance weights after each step.

At step t, with weights ρ_t (an episode that has ended keeps its last one) and masses m,

    effective size  (Σ m ρ_t)² / Σ m ρ_t²,     mean weight  Σ m ρ_t / Σ m  (1 in expectation).

Weights enter as logarithms, so the curve exists where the weights themselves would overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.policies.target import Target
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.finding import Finding
    from offpolicy.trust.view import View

ENOUGH_UNITS = 100.0
ENOUGH_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class HorizonCurve:
    """Weights by step, (T+1,) each.

    Attributes
    ----------
    effective : array
        Effective number of episodes at t.
    surviving : array
        Share of episodes whose weight is still positive.
    largest : array
        Share of all weight held by one episode.
    mean : array
        Mean weight; far from 1 at some t means wrong propensities, or too few episodes to see the tail.
    active : array
        Episodes that have a step t.
    n : float
        Episodes.
    """

    effective: Floats
    surviving: Floats
    largest: Floats
    mean: Floats
    active: Floats
    n: float

    @property
    def share(self) -> Floats:
        """Effective size as a share of all episodes: the surviving weight."""
        return self.effective / self.n

    @property
    def supported(self) -> int:
        """Steps up to which the weights keep 100 effective episodes, or a tenth of all."""
        enough = (self.effective >= ENOUGH_UNITS) | (self.share >= ENOUGH_SHARE)
        return int(np.argmin(enough)) if not enough.all() else len(enough)


def horizon_curve(d: Decisions) -> HorizonCurve:
    """What the weights look like at each step.

    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> one, half = np.ones(4), np.full(4, 0.5)
    >>> d = Decisions(Layout.ragged([2, 2]), one, np.array([1.0, 1, 1, 0]), half, one, one)
    >>> horizon_curve(d).effective.tolist()
    [2.0, 1.0]
    """
    mass, size = d.mass, d.size
    log_now = np.zeros(d.n)
    rows_of: list[tuple[float, ...]] = []
    for _, units, rows in d.layout.by_step():
        log_now[units] = d.log_rho[rows]
        rows_of.append((*_moments(log_now, mass, size), float(len(units))))
    effective, surviving, largest, mean, active = np.array(rows_of).T
    return HorizonCurve(effective, surviving, largest, mean, active, size)


def _moments(log_rho: Floats, mass: Floats, size: float) -> tuple[float, float, float, float]:
    highest = float(log_rho.max())
    if np.isneginf(highest):
        return 0.0, 0.0, 0.0, 0.0
    rho = np.exp(log_rho - highest)
    total = float(mass @ rho)
    scale = size / float(mass.sum())
    effective = scale * total**2 / float(mass @ rho**2)
    alive = float(mass @ (rho > 0)) / float(mass.sum())
    with np.errstate(over="ignore"):
        mean = float(np.exp(highest) * total / mass.sum())
    return effective, alive, float((mass * rho).max()) / total, mean


def suggestion(curve: HorizonCurve, *, discrete: bool) -> str:
    """One sentence on which estimators these data can support."""
    steps = len(curve.effective)
    last = float(curve.effective[-1])
    if curve.supported == steps:
        held = f"{last:,.0f} effective episodes"
        return f"weights hold to the last of {steps} steps ({held}): DML is supported."
    reached = (
        f"after step {curve.supported} of {steps} the weights are worth fewer than "
        f"{min(ENOUGH_UNITS, ENOUGH_SHARE * curve.n):.0f} episodes ({last:,.1f} at the end)"
    )
    remedy = (
        "use DRL, whose ratios do not multiply over steps"
        if discrete
        else "use DRL with a ratio model, or trust the value model (DM) as far as you trust it"
    )
    return (
        f"{reached}: products of ratios cannot support the whole horizon. {remedy[0].upper()}{remedy[1:]}, "
        f"or evaluate a shorter one with log.first({max(curve.supported, 1)})."
    )


def unseen_share(log: Any, target: Target, labels: Ints) -> float:
    """Mean probability the target gives to (state, action) pairs that other folds never logged.

    Over the steps of a log with discrete states; ``labels`` are the folds of its episodes. Where it is
    positive a value model guesses, and the spread of the scores need not show it.
    """
    context, k = log.context, len(log.actions)
    n_states, folds = context.n_table, int(labels.max()) + 1
    state, fold = context.positions(np.arange(log.rows)), labels[log.layout.unit]
    cell = (fold * n_states + state) * k + log.action
    count = np.bincount(cell, minlength=folds * n_states * k).reshape(folds, n_states, k)
    unseen = count.sum(axis=0) - count == 0
    if not unseen.any():
        return 0.0
    rows = np.flatnonzero(unseen[fold, state].any(axis=1))
    if len(rows) == 0:
        return 0.0
    at = context.positions(rows) if target.shares_context else rows
    lost = (target.probabilities(at) * unseen[fold[rows], state[rows]]).sum()
    return float(lost / log.rows)


def step_skill(d: Decisions) -> Floats:
    """(T+1,) share of the variance of R_t + γ v_{t+1} that q_t explains; NaN where that is constant."""
    following = np.zeros(d.layout.n_steps)
    later = np.flatnonzero(d.layout.step > 0)
    following[later - 1] = d.v[later]
    y = d.reward + d.discount * following
    out = np.full(d.layout.horizon, np.nan)
    for t, units, rows in d.layout.by_step():
        mass = d.mass[units]
        spread = np.average((y[rows] - np.average(y[rows], weights=mass)) ** 2, weights=mass)
        if spread > 0:
            out[t] = 1 - np.average((y[rows] - d.q[rows]) ** 2, weights=mass) / spread
    return out


def findings(view: View) -> list[Finding]:
    """What the diagnostics of an evaluation say about episodes, step by step."""
    from offpolicy.trust.finding import Finding

    d, log = view.decisions, view.log
    curve = horizon_curve(d)
    steps = len(curve.effective)
    supported = curve.supported == steps
    by_step = {
        name: getattr(curve, name).tolist()
        for name in ("effective", "surviving", "largest", "mean", "active")
    }
    said = suggestion(curve, discrete=log.is_discrete)
    sentence, _, remedy = said.partition(". ")
    out = [
        Finding(
            "horizon",
            float(curve.supported),
            "ok" if supported else "caution",
            sentence if supported else f"{sentence}.",
            "" if supported else remedy,
            by_step,
        )
    ]
    if log.is_discrete:
        share = unseen_share(log, view.target, view.problem.folds.labels[0])
        out.append(
            Finding(
                "unseen_pairs",
                share,
                "caution" if share > 0 else "ok",
                f"{share:.2%} of the target's probability falls on state-action pairs that the training "
                "folds never saw; the value model guesses there, and intervals may be too short."
                if share
                else "every state-action pair of the target was seen in the training folds.",
                "Use more episodes or more folds, pool rare states, and read IPW beside DML."
                if share
                else "",
            )
        )
    if view.value_split is not None:
        skill = step_skill(d)
        overall = float(np.nanmean(skill)) if np.isfinite(skill).any() else float("nan")
        out.append(
            Finding(
                "value_model_skill",
                overall,
                "caution" if overall < 0 else "ok",
                f"q explains {overall:.0%} of the one-step targets on average over the steps.",
                "Try another value model: this one is worse than a constant."
                if overall < 0
                else "",
                {"by_step": skill.tolist()},
            )
        )
    return out
