"""The nuisances: how well each predicts rows it has not seen, and whether it is right on average.

Skill of the reward model is 1 − Σ (R − q)² / Σ (R − mean)² on rows out of fold. The efficiency bound of
Corollary 1 is estimated by its plug-in

    Var(v(S)) + E[ρ² σ²(S, A)],

the conditional variance σ² being q(1 − q) for 0/1 rewards and (R − q)² otherwise; for episodes the second
term is Σ_t γ^{2t} E[ρ_t² (R_t + γ v_{t+1} − q_t)²].
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.scores import formulas as scores
from offpolicy.trust.finding import Finding, about_arms, judged, not_applicable
from offpolicy.trust.significance import ROUNDING, adjusted_z, first_largest, same_but_rounding, z_score
from offpolicy.trust.thresholds import OVERLAP, THRESHOLDS

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.thresholds import Level
    from offpolicy.trust.view import View

NO_MODEL = "no estimate needed a reward model."
BINS = 10
FEW_IN_BATCH = 50  # units from which on the slope inside a batch is looked at
LOST = 0.5  # share of the usual slope below which rewards may be lost
SURE = 4.0
TOO_GOOD = 0.5
SURE_SHARE = 0.99
LITTLE, MUCH = 0.01, 0.05  # log-loss that π_b may lose to plain shares: logged, fitted


def skill(reward: Floats, predicted: Floats, mass: Floats) -> float:
    """1 − Σ ω (r − q)² / Σ ω (r − r̄)²; NaN when rewards do not vary.

    >>> skill(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.ones(2))
    1.0
    """
    center = float(mass @ reward) / float(mass.sum())
    spread = float(mass @ (reward - center) ** 2)
    # Equal rewards differ from their mean by rounding.
    varies = spread > ROUNDING**2 * float(mass @ reward**2)
    return 1.0 - float(mass @ (reward - predicted) ** 2) / spread if varies else math.nan


def reliability(reward: Floats, predicted: Floats, mass: Floats, bins: int = BINS) -> list[dict[str, float]]:
    """Mean prediction and mean reward in bins of about equal mass of the prediction.

    Equal predictions stay together, in the bin of their middle: bins depend on neither the order of the
    rows nor on how many of them a counted row stands for.
    """
    _, place = np.unique(same_but_rounding(predicted), return_inverse=True)
    size = np.bincount(place, weights=mass)
    middle = (np.cumsum(size) - size / 2) / size.sum()
    group = np.minimum((middle * bins + 1e-9).astype(np.int64), bins - 1)[place]
    total = np.bincount(group, weights=mass, minlength=bins)
    mean_q = np.bincount(group, weights=mass * predicted, minlength=bins)
    mean_r = np.bincount(group, weights=mass * reward, minlength=bins)
    return [
        {"mass": float(total[b]), "predicted": float(mean_q[b] / total[b]), "observed": float(mean_r[b] / total[b])}
        for b in np.flatnonzero(total > 0)
    ]


def efficiency_bound(d: Decisions) -> float:
    """Plug-in estimate of the smallest variance a score can have (Corollary 1)."""
    start = scores.direct(d)
    spread = d.mean((start - d.mean(start)) ** 2)
    if d.layout.is_single:
        noise, _ = _noise(d)
        return spread + d.mean(d.ratio**2 * noise)
    return spread + d.mean(d.sum((d.gamma * d.rho * (d.outcome - d.q)) ** 2))


def _noise(d: Decisions) -> tuple[Floats, bool]:
    """Conditional variance of each reward: q(1 − q) where rewards are 0 or 1, else (R − q)²."""
    binary = bool(((d.reward == 0) | (d.reward == 1)).all())
    q = np.clip(d.q, 0.0, 1.0)
    return (q * (1 - q) if binary else (d.reward - d.q) ** 2), binary


def findings(view: View) -> list[Finding]:
    """Quality of the reward model and of π_b."""
    findings = [*_reward(view), reward_by_batch(view), efficiency(view), behavior(view), floored(view)]
    return findings if view.behavior_is_known else [*findings, certain(view)]


@about_arms("deterministic_logging")
def certain(view: View) -> Finding:
    """Share of the log in which the fitted π_b leaves no choice."""
    share = float(view.row_mass @ (view.decisions.pi_b > SURE_SHARE) / view.row_mass.sum())
    return judged(
        "deterministic_logging",
        share,
        f"the behavior model is over {100 * SURE_SHARE:g}% sure of the action in {100 * share:.3g}% of the rows.",
    )


def _reward(view: View) -> list[Finding]:
    names = ("reward_model_r2", "reward_model_calibration")
    if view.value_split is None:
        return [not_applicable(n, NO_MODEL) for n in names]
    d = view.decisions
    if not d.layout.is_single:
        return [not_applicable(n, "judged step by step for episodes.") for n in names]
    r2 = skill(d.reward, d.q, view.mass)
    where = "out of fold" if view.out_of_fold else "on the rows it was fitted on"
    # With known propensities a poor model costs precision, never bias.
    at_most: Level = "note" if view.behavior_is_known else "alarm"
    residual = view.estimate(d.reward - d.q)
    z = abs(z_score(residual.value, residual.std_error, 0.0))
    usual = float(np.sqrt(view.estimate(d.reward).variance))
    material = abs(residual.value) > 0.05 * usual
    if math.isnan(r2):
        return [not_applicable(names[0], "rewards do not vary."), not_applicable(names[1], "rewards do not vary.")]
    return [
        judged(
            names[0],
            r2,
            f"the reward model explains {100 * r2:.3g}% of the variance {where}"
            + (" (less than the mean does)." if r2 < 0 else "."),
        ),
        judged(
            names[1],
            z if material else 0.0,
            f"rewards exceed predictions by {residual.value:.3g} on average (z = {z:.2g}) {where}.",
            {"mean_residual": residual.value, "z": z, "bins": reliability(d.reward, d.q, view.mass)},
            at_most=at_most,
        ),
    ]


def reward_by_batch(view: View) -> Finding:
    """Whether rewards follow their predictions in every batch: in one whose rewards are in the wrong rows they do not.

    The slope of rewards on predictions inside a batch is compared with that inside the others. A season changes the
    level, which drops out.
    """
    name, batch = "reward_model_by_batch", view.units.batch
    if view.value_split is None or not view.decisions.layout.is_single:
        return not_applicable(name, NO_MODEL)
    if not view.units.has_batches:
        return not_applicable(name, "the log has no batches.")
    if isinstance(view.problem.specs.model, np.ndarray):
        return not_applicable(name, "predictions were given, and may be made differently in each batch.")
    d, m = view.decisions, view.mass
    size, number = int(batch.max()) + 1, np.bincount(batch, view.count)

    def inside(values: Floats) -> Floats:
        total = np.bincount(batch, m, size)
        mean = np.bincount(batch, m * values, size) / np.where(total > 0, total, 1.0)
        return values - mean[batch]

    q, r = inside(d.q), inside(d.reward)
    spread, together = (np.bincount(batch, m * q * x, size) for x in (q, r))
    usable = (number >= FEW_IN_BATCH) & (spread > 0)
    if usable.sum() < 3:
        return not_applicable(name, "fewer than three batches are large enough.")
    others = (together.sum() - together) / np.where(usable, spread.sum() - spread, 1.0)
    error = np.sqrt(np.bincount(batch, view.square * (q * (r - others[batch] * q)) ** 2, size))
    z = np.divide(together - others * spread, error, out=np.zeros(size), where=usable & (error > 0))
    # What is half as steep or steeper has not lost its rewards.
    lost = usable & (together < LOST * others * spread)
    worst = first_largest(np.where(lost, -z, 0.0))
    value = adjusted_z(float(z[worst]), int(usable.sum())) if lost[worst] else 0.0
    label = view.log.batch_labels[worst]
    sentence = (
        f"rewards of batch {label!r} do not follow their predictions as those of other batches do "
        f"(z = {z[worst]:.3g}): they may stand in the wrong rows."
        if THRESHOLDS[name].level(value) != "ok"
        else "rewards follow their predictions alike in all batches."
    )
    return judged(name, value, sentence, {"batch": label if value else None, "z": float(z[worst])})


def efficiency(view: View) -> Finding:
    """σ̂² of the doubly robust score over the estimated bound."""
    name = "efficiency_ratio"
    if view.value_split is None:
        return not_applicable(name, NO_MODEL)
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap to compare variances on.")
    if view.log.kind == "slates" and not view.decisions.layout.is_single:
        return not_applicable(name, "rewards of one slate may go together, of which the bound knows nothing.")
    # Both are about single units and weigh them alike, whatever clusters and weights do to the error of
    # the mean.
    variance, bound = _variances(view)
    if not bound > 1e-12 * variance:
        return not_applicable(name, "the estimated bound is 0: the model predicts without error.")
    ratio = variance / bound
    sentence = f"the variance of the doubly robust score is {ratio:.3g} times the estimated efficiency bound."
    details = {"variance": variance, "bound": bound}
    if ratio < TOO_GOOD and _surely_less_noise(view):
        # No score can beat the bound: the rewards that the large weights will meet are still unseen.
        sentence += " No score can do better than 1: the standard error is too small."
        return Finding(name, ratio, "caution", sentence, OVERLAP, details)
    return judged(name, ratio, sentence, details)


def _variances(view: View) -> tuple[float, float]:
    """Variance of the doubly robust score of a unit, and its bound."""
    d, square = view.decisions, view.square
    if not d.layout.is_single:
        return float(np.average((view.score - view.units.mean(view.score)) ** 2, weights=square)), (efficiency_bound(d))
    start, score = scores.direct(d), view.score
    spread = (start - view.units.mean(start)) ** 2 + d.ratio**2 * _noise(d)[0]
    variance = np.average((score - view.units.mean(score)) ** 2, weights=square)
    return float(variance), float(np.average(spread, weights=square))


def _surely_less_noise(view: View) -> bool:
    """Whether 0/1 rewards that meet weights vary less than q says, beyond chance.

    If q is right, (R − q)² − q(1 − q) has mean 0 and variance q(1 − q)(1 − 2q)².
    """
    d = view.decisions
    if not d.layout.is_single:
        return True
    noise, binary = _noise(d)
    if not binary:
        return False
    q = np.clip(d.q, 0.0, 1.0)
    weight = d.ratio**2
    gap = float(view.square @ (weight * ((d.reward - q) ** 2 - noise)))
    variance = float(view.square**2 / view.count @ (weight**2 * noise * (1 - 2 * q) ** 2))
    return gap < -SURE * math.sqrt(variance) if variance > 0 else False


@about_arms("behavior_log_loss")
def behavior(view: View) -> Finding:
    """Log-loss of π_b of the logged actions, against that of the plain shares of actions."""
    log, rows, m = view.log, view.rows, view.row_mass
    k = len(log.actions)
    action = log.action[rows]
    group = np.maximum(log.batch, 0)[log.layout.unit[rows]]
    cells = np.bincount(group * k + action, weights=m, minlength=(int(group.max()) + 1) * k)
    table = cells.reshape(-1, k)
    shares = table[group, action] / table.sum(axis=1)[group]
    pi_b = view.decisions.pi_b
    loss = float(m @ -np.log(pi_b) / m.sum())
    plain = float(m @ -np.log(shares) / m.sum())
    # E[log(shares / π_b)] ≤ 0 for true propensities: the plain shares cannot predict better.
    gap = np.log(shares) - np.log(pi_b)
    excess = view.over_decisions(gap)
    z = z_score(excess.value, excess.std_error, 0.0) if loss > plain + 1e-9 else 0.0
    # Shares are fitted to the same rows, which are as many as there are independent units.
    used = (k - 1) * len(table) / excess.n_independent
    worse = loss - plain > (LITTLE if view.behavior_is_known else MUCH) + used
    sentence = f"π_b predicts the logged actions with log-loss {loss:.4g}; plain shares of actions have {plain:.4g}"
    sentence += f", which contradicts these propensities (z = {z:.2g})." if worse and z > SURE else "."
    value = judged("behavior_log_loss", z if worse else 0.0, sentence)
    return Finding(value.name, loss, value.level, value.sentence, value.remedy, {"shares": plain, "z": z})


def floored(view: View) -> Finding:
    """Share of the rows with a weight whose fitted π_b was 0, and was replaced."""
    if view.behavior_is_known:
        return judged("floored", 0.0, "logged propensities are used as they are.")
    raised = view.problem.behavior(view.split, 0).raised
    count = view.per_decision(view.count) * (view.decisions.pi_e > 0)
    number = 0.0 if raised is None else float(count @ raised[view.rows])
    share = number / max(float(count.sum()), 1.0)
    sentence = (
        "no action that the target takes had a fitted probability of 0."
        if number == 0
        else f"{number:,.0f} rows ({100 * share:.2g}%) have an action that the model of their training fold gives "
        "probability 0: 1 / (n + K) takes its place."
    )
    return judged("floored", share, sentence, {"rows": number})
