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
from offpolicy.trust.check import MODEL, OVERLAP, Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import ROUNDING, furthest, same_but_rounding, z_score
from offpolicy.trust.view import NO_MODEL, batches, labels, model, several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

EPISODES = "judged step by step for episodes."
BINS = 10
FEW_IN_BATCH = 50  # units from which on the slope inside a batch is looked at
LOST = 0.5  # share of the usual slope below which rewards may be lost
SURE = 4.0
TOO_GOOD = 0.5
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


def explained(view: View) -> Finding:
    """Out-of-fold R² of the reward model."""
    r2 = skill(view.decisions.reward, view.decisions.q, view.mass)
    if math.isnan(r2):
        return not_applicable("reward_model_r2", "rewards do not vary.")
    less = " (worse than predicting the mean)." if r2 < 0 else "."
    return judged(
        "reward_model_r2", r2, f"the reward model explains {100 * r2:.3g}% of the variance {_where(view)}{less}"
    )


def calibration(view: View) -> Finding:
    """Whether rewards are as predicted on average."""
    name, d = "reward_model_calibration", view.decisions
    if math.isnan(skill(d.reward, d.q, view.mass)):
        return not_applicable(name, "rewards do not vary.")
    residual = view.estimate(d.reward - d.q)
    z = abs(z_score(residual.value, residual.std_error, 0.0))
    material = abs(residual.value) > 0.05 * float(np.sqrt(view.estimate(d.reward).variance))
    # With known propensities a poor model costs precision, never bias.
    at_most: Level = "note" if view.behavior_is_known else "alarm"
    return judged(
        name,
        z if material else 0.0,
        f"rewards exceed predictions by {residual.value:.3g} on average (z = {z:.2g}) {_where(view)}.",
        {"mean_residual": residual.value, "z": z, "bins": reliability(d.reward, d.q, view.mass)},
        at_most=at_most,
    )


def _where(view: View) -> str:
    return "on the rows it was fitted on" if view.split == "full" else "out of fold"


def step_by_step(view: View) -> str:
    """Why a check of a reward model cannot be made: there is none, or it is one of episodes."""
    return model(view) or (EPISODES if several(view.log) else "")


def reward_by_batch(view: View) -> Finding:
    """Whether rewards follow their predictions in every batch: in one whose rewards are in the wrong rows they do not.

    The slope of rewards on predictions inside a batch is compared with that inside the others. A season changes the
    level, which drops out.
    """
    name, batch = "reward_model_by_batch", view.units.batch
    if view.problem.specs.is_given:
        return not_applicable(name, "predictions were given and may differ from batch to batch.")
    d, m = view.decisions, view.mass
    size, number = int(batch.max()) + 1, np.bincount(batch, view.units.count)

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
    found = furthest(z, usable, lost & (z <= 0))
    worst, value = found.place, found.value
    label = view.log.batch_labels[worst]
    sentence = (
        f"rewards of batch {label!r} follow their predictions less than in other batches "
        f"(z = {z[worst]:.3g}); they may be in the wrong rows."
        if not fine(name, value)
        else "rewards follow their predictions equally well in all batches."
    )
    return judged(name, value, sentence, {"batch": label if value else None, "z": float(z[worst])})


def efficiency(view: View) -> Finding:
    """σ̂² of the doubly robust score over the estimated bound."""
    name = "efficiency_ratio"
    if view.scale != 1 or not view.weight.any():
        return not_applicable(name, "there is no overlap to compare variances on.")
    if view.log.unit_kind.shows_items and several(view.log):
        return not_applicable(name, "rewards of one slate may be correlated, which the bound ignores.")
    # Both are about single units and weigh them alike, whatever clusters and weights do to the error of
    # the mean.
    variance, bound = _variances(view)
    if not bound > 1e-12 * variance:
        return not_applicable(name, "the estimated bound is 0 because the model predicts without error.")
    ratio = variance / bound
    sentence = f"the variance of the doubly robust score is {ratio:.3g} times the estimated efficiency bound."
    details = {"variance": variance, "bound": bound}
    if ratio < TOO_GOOD and _surely_less_noise(view):
        # No score can beat the bound: the rewards that the large weights will meet are still unseen.
        sentence += " No score can be below 1, so the standard error is too small."
        return Finding(name, ratio, "caution", sentence, OVERLAP, details)
    return judged(name, ratio, sentence, details)


def _variances(view: View) -> tuple[float, float]:
    """Variance of the doubly robust score of a unit, and its bound."""
    d, square = view.decisions, view.square
    if several(view.log):
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
    if several(view.log):
        return True
    noise, binary = _noise(d)
    if not binary:
        return False
    q = np.clip(d.q, 0.0, 1.0)
    weight = d.ratio**2
    gap = float(view.square @ (weight * ((d.reward - q) ** 2 - noise)))
    variance = float(view.square**2 / view.units.count @ (weight**2 * noise * (1 - 2 * q) ** 2))
    return gap < -SURE * math.sqrt(variance) if variance > 0 else False


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
        return judged("floored", 0.0, "logged propensities are used unchanged.")
    raised = view.problem.behavior(view.split, 0).raised
    count = view.units.count[view.decisions.layout.unit] * (view.decisions.pi_e > 0)
    number = 0.0 if raised is None else float(count @ raised[view.rows])
    share = number / max(float(count.sum()), 1.0)
    sentence = (
        "no action of the policy has a fitted probability of 0."
        if number == 0
        else f"{number:,.0f} rows ({100 * share:.2g}%) have an action with fitted probability 0, which was replaced "
        "by 1 / (n + K)."
    )
    return judged("floored", share, sentence, {"rows": number})


REWARD_MODEL = Topic("The reward model predicts poorly, which costs precision.")
BEHAVIOR_MODEL = Topic("The model of how actions were chosen fits poorly.")
CHECKS = (
    Check(
        "reward_model_r2", Threshold(-0.01, -math.inf, "below", MODEL, advice=True),
        policy=explained, applies=step_by_step, topic=REWARD_MODEL, value="out-of-fold R² of the reward model",
        part_of="reward_model",
    ),
    Check(
        "reward_model_calibration", Threshold(4.0, 8.0, "above", MODEL, false_alarms=0.0001),
        policy=calibration, applies=step_by_step, topic=REWARD_MODEL, value="z of its calibration",
        part_of="reward_model",
    ),
    Check(
        "reward_model_by_batch",
        Threshold(
            4.0, math.inf, "above", "Check how rewards were joined to the rows of this batch, or leave it out.",
            false_alarms=0.0001,
        ),
        policy=reward_by_batch, applies=lambda v: (NO_MODEL if step_by_step(v) else "") or batches(v),
        topic=Topic("The rewards of one batch do not match their rows."),
        value="largest z of a batch whose rewards follow their predictions less than in other batches",
        part_of="reward_model",
    ),
    Check(
        "efficiency_ratio",
        Threshold(2.0, math.inf, "above", MODEL, about_products=True, advice=True, false_alarms=0.001),
        policy=efficiency, applies=model, topic=REWARD_MODEL,
        value="variance of the doubly robust score over the estimated efficiency bound", part_of="reward_model",
    ),
    Check(
        "behavior_log_loss",
        Threshold(
            4.0, 6.0, "above",
            "The fitted or logged π_b predicts the actions badly. Try another behavior model, or check that the "
            "propensities belong to these rows.",
            false_alarms=0.0001,
        ),
        policy=behavior, applies=labels, topic=BEHAVIOR_MODEL,
        value="z of the log-loss of π_b above that of plain shares", part_of="behavior_model",
    ),
    Check(
        "floored",
        Threshold(
            0.0, 0.01, "above", "Pool rare actions, use fewer folds, or smooth: behavior_model=Shares(smoothing=1)."
        ),
        policy=floored, topic=BEHAVIOR_MODEL,
        value="share of the weighted rows whose fitted propensity was 0 and was replaced by 1/(n + K)",
        part_of="behavior_model",
    ),
)  # fmt: skip
