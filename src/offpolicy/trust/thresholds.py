"""The one table of thresholds: what each check calls normal, worth a note, worth a caution, or alarming.

``decides`` marks the checks whose alarm alone makes a verdict "insufficient evidence": without overlap, or
with a log that contradicts its own propensities, no estimator and no interval can repair the number. Any
other caution or alarm makes a verdict "caution". A note is advice (a model that costs precision, a value that
changes with the season): it says nothing against the number and leaves the verdict alone. Several checks also
ask that a deviation be large enough to matter and not only significant; the function that computes the check
says so. ``false_alarms`` is the chance that a test cautions about a clean log; None marks a limit, whose value
is a fact about the log and not a test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "note", "caution", "alarm"]


@dataclass(frozen=True)
class Threshold:
    """Where a check turns from ok to caution to alarm.

    Attributes
    ----------
    caution, alarm : float
        Limits; the value itself may still be reached.
    side : {"above", "below"}
        On which side of the limits trouble lies.
    decides : bool
        Whether an alarm alone means insufficient evidence.
    remedy : str
        What to do about it.
    about_products : bool
        Whether the check is about products of ratios over an episode, which says nothing of an estimator
        that uses a ratio of marginals in their place.
    advice : bool
        Whether the check gives advice: between its limits it makes a note.
    false_alarms : float or None
        Chance of a caution where nothing is wrong; None for a limit, which is no test.
    about_marginals : bool
        Whether it is about ratios of marginals, which says nothing of an estimator that multiplies ratios.
    about_reach : bool
        Whether it is about how little of the target the log holds, which makes a lower bound that holds at any
        sample size lower, and not wrong.
    """

    caution: float
    alarm: float
    side: Literal["above", "below"]
    remedy: str
    decides: bool = False
    about_products: bool = False
    advice: bool = False
    false_alarms: float | None = None
    about_marginals: bool = False
    about_reach: bool = False

    def level(self, value: float) -> Level:
        """Judge a value; what is not defined is not judged."""
        if math.isnan(value):
            return "ok"
        sign = 1.0 if self.side == "above" else -1.0
        if sign * value > sign * self.alarm:
            return "alarm"
        beyond: Level = "note" if self.advice else "caution"
        return beyond if sign * value > sign * self.caution else "ok"


PROPENSITIES = (
    "Check that the propensity column is the probability of the logged action at the moment it was "
    "logged, in (0, 1], not rounded and joined to the right rows."
)
FITTED = (
    "The fitted π_b is off: try another behavior_model=, or give it the columns that the logging policy looked at; "
    "propensities that are logged need no model."
)
BEHAVIOR = (
    "The fitted or logged π_b predicts the actions badly: try another behavior model, or check that the "
    "propensities belong to these rows."
)
DISAGREE = (
    "Estimators that should agree do not: check the propensities first, then the reward model's out-of-fold skill."
)
OVERLAP = "Log with more exploration, or evaluate a policy closer to the logging one (a mixture)."
WIDER = "Rewards depend on slots that interaction= leaves out: assume a wider one ('cascade' or 'full')."
MODEL = "Try another model, more features, or leave the choice to 'auto'."

THRESHOLDS: dict[str, Threshold] = {
    # Weights. Correct propensities and full support give a mean weight of 1 whatever the policy.
    "mean_weight": Threshold(
        0.02, 0.1, "above", PROPENSITIES, decides=True, about_products=True, false_alarms=0.001,
        about_reach=True,
    ),
    "mean_weight_z": Threshold(
        3.3, 5.0, "above", PROPENSITIES, about_products=True, false_alarms=0.001
    ),
    "mean_weight_by_action": Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
    "mean_weight_by_batch": Threshold(4.0, 6.0, "above", PROPENSITIES, false_alarms=0.001),
    "effective_sample_size": Threshold(
        100.0, 10.0, "below", OVERLAP, decides=True, about_products=True, about_reach=True
    ),
    "largest_weight": Threshold(math.inf, math.inf, "above", OVERLAP),
    "largest_weight_share": Threshold(
        0.05, 0.3, "above", OVERLAP, decides=True, about_products=True, about_reach=True
    ),
    "top_share": Threshold(0.2, math.inf, "above", OVERLAP, about_products=True, advice=True),
    "top_unit_share": Threshold(0.2, 0.5, "above", OVERLAP, about_products=True),
    # Moments of order below 1/k exist: above 0.5 there is no variance. What is judged is a lower 99% bound.
    "pareto_k": Threshold(
        0.5, 0.7, "above", OVERLAP, decides=True, about_products=True, false_alarms=0.01,
        about_reach=True,
    ),
    "unsupported_mass": Threshold(
        0.001, 0.05, "above",
        "The data say nothing about these actions there: restrict the policy to actions that were "
        "logged, or collect data with them.",
        decides=True, false_alarms=0.001, about_reach=True,
    ),
    # Nuisances.
    "reward_model_r2": Threshold(-0.01, -math.inf, "below", MODEL, advice=True),
    "reward_model_calibration": Threshold(4.0, 8.0, "above", MODEL, false_alarms=0.0001),
    "reward_model_by_batch": Threshold(
        4.0, math.inf, "above",
        "Check how rewards were joined to the rows of this batch, or leave it out.",
        false_alarms=0.0001,
    ),
    "behavior_log_loss": Threshold(4.0, 6.0, "above", BEHAVIOR, false_alarms=0.0001),
    "floored": Threshold(
        0.0, 0.01, "above",
        "Pool rare actions, use fewer folds, or smooth: behavior_model=Shares(smoothing=1).",
    ),
    "efficiency_ratio": Threshold(
        2.0, math.inf, "above", MODEL, about_products=True, advice=True, false_alarms=0.001
    ),
    # Episodes, step by step: the share of the steps that weights support, of pairs, of variance.
    "horizon": Threshold(1.0, -math.inf, "below", OVERLAP),
    "unseen_pairs": Threshold(
        0.02, math.inf, "above",
        "Use more episodes or more folds, pool rare states, and read IPW beside DML.",
        decides=True,
    ),
    "value_model_skill": Threshold(
        0.0, -math.inf, "below", "Try another value model: this one is worse than a constant.",
        advice=True,
    ),
    # The log against itself. Values are p-values, adjusted for the number of actions and batches.
    "sample_ratio_mismatch": Threshold(
        0.002, 0.0001, "below",
        "Find out why actions were logged at other rates than their propensities: lost rows, filters "
        "after assignment, bots, redirects, or wrong propensities.",
        decides=True, false_alarms=0.002,
    ),
    "balance": Threshold(
        0.001, 0.0001, "below",
        "Logged propensities are not those that the actions were drawn with, or a context column was "
        "written after the action: check both, column by column.",
        decides=True, false_alarms=0.001,
    ),
    "leaks": Threshold(
        0.5, 0.5, "above",
        "Remove the column from the context: it was written after the reward, or it is the reward.",
        decides=True, false_alarms=0.001,
    ),
    "identifying_columns": Threshold(
        0.02, math.inf, "above",
        "A model learns noise from it: leave it out of the context=, group it (a date by weekday, an id by what "
        "it stands for), or name it as the cluster= it identifies.",
        advice=True,
    ),
    "rounded_propensities": Threshold(0.05, 0.25, "above", "Log propensities with full precision."),
    "propensity_calibration": Threshold(
        4.0, 6.0, "above", PROPENSITIES, decides=True, false_alarms=0.0001
    ),
    "deterministic_logging": Threshold(
        0.05, 0.999, "above",
        "Where the logging policy leaves no choice, other actions are not identified: explore there, "
        "or evaluate a policy that agrees with it there.",
        advice=True,
    ),
    "unlogged_actions": Threshold(
        0.0, math.inf, "above", "Remove them from the list of actions, or collect data with them.",
        advice=True,
    ),
    "rare_rewards": Threshold(
        30.0, -math.inf, "below", "Wait for more data, or use a more frequent outcome as the reward.",
        advice=True,
    ),
    "duplicates": Threshold(
        0.001, 0.01, "above", "Remove repeated rows, or name the unit that repeats with cluster=.",
        false_alarms=0.0001,
    ),
    "near_duplicates": Threshold(
        0.001, 0.01, "above",
        "Find out why rows agree in all but one column, and remove the copies or name their unit with "
        "cluster=.",
        false_alarms=0.0001,
    ),
    "reward_maturity": Threshold(
        0.8, 0.5, "below",
        "Leave out the latest batches, whose rewards may not all have arrived.",
        false_alarms=0.001,
    ),
    # Policies over numbers: the bias of the window around them, in standard errors, where it is more than noise.
    "smoothing_bias": Threshold(
        1.0, 4.0, "above",
        "The window around the policy's number is too wide: give a smaller bandwidth=, or leave it to 'auto'.",
        false_alarms=0.001,
    ),
    # The same policies: a corner or a jump of the mean reward where the policy sits, in standard errors.
    "break_at_policy": Threshold(
        4.0, math.inf, "above",
        "Give the policy's number a distance from the break, evaluate both sides of it apart, or log more actions next "
        "to it and give a small bandwidth=.",
        decides=True, false_alarms=0.01,
    ),
    # The policy against the log: how much better it does than a copy that has not seen the rewards, in standard errors.
    "learned_from_log": Threshold(
        4.5, 4.5, "above",
        "If so, evaluate the learner with op.policies.CrossFitted(learner), or on rows that it has not seen. If it was "
        "learned elsewhere, or knows columns outside the context, say so with learned_elsewhere=.",
        decides=True, false_alarms=0.001,
    ),
    # Rewards seen in part: who has one (a p-value), how many count, what proxies add.
    "label_balance": Threshold(
        0.002, 0.0001, "below",
        "Check that the probability of a label is the one with which rows were drawn, and add what decided who was "
        "labeled to the context or to proxies=. Labels that depend on the reward itself cannot be corrected for.",
        decides=True, false_alarms=0.002,
    ),
    "effective_labels": Threshold(
        30.0, 5.0, "below",
        "Label more rows, first of all those whose action the policy would take (op.advise says how many).",
        decides=True,
    ),
    "proxy_skill": Threshold(
        0.0, -math.inf, "below", "The proxies say little about the reward: labels alone would do as well.",
        advice=True,
    ),
    "proxy_preference": Threshold(
        4.0, math.inf, "above", "Never take these proxies for the reward: they prefer an action.",
        advice=True, false_alarms=0.001,
    ),
    # Rewards of an older log: rows unlike any of its own, and predictions where rewards are seen (a p-value).
    "history_overlap": Threshold(
        0.01, 0.1, "above", "Use an older log of rows like these, or fewer proxies.", decides=True,
    ),
    "surrogacy": Threshold(
        0.002, 0.0001, "below",
        "The proxies miss part of what the action does to the reward: add proxies, or wait for the reward.",
        decides=True, false_alarms=0.002,
    ),
    # Stability of the number.
    "reward_tail": Threshold(
        0.15, 0.25, "above",
        "A few extreme rewards decide: evaluate a capped or transformed reward as well, decided before "
        "looking at the result.",
        decides=True, about_products=True, false_alarms=0.01,
    ),
    "batch_drift": Threshold(
        0.001, -math.inf, "below",
        "The value changes over time: report it by period, or evaluate on recent batches only.",
        advice=True, false_alarms=0.001,
    ),
    "estimator_disagreement": Threshold(
        0.001, 0.0001, "below", DISAGREE, decides=True, false_alarms=0.001
    ),
    "coarse_ratio": Threshold(
        0.01, 0.001, "below",
        "Actions of one cell earn differently, or π_b of cells is off: use more features or finer cells, a reward "
        "model that tells these actions apart, or ratio='exact'.",
        decides=True, false_alarms=0.01,
    ),
    "cell_leaning": Threshold(
        0.003, 0.001, "below",
        "Use more features or finer cells, a reward model that tells these actions apart, or evaluate a softened "
        "version of the policy, whose own weights carry a test.",
        decides=True, false_alarms=0.003,
    ),
    "clipping_sensitivity": Threshold(
        1.0, math.inf, "above", OVERLAP, about_products=True, advice=True
    ),
    "confounding": Threshold(
        1.5, -math.inf, "below",
        "Log true propensities, or add whatever else decided the action to the context.",
        advice=True,
    ),
    "beyond_log": Threshold(
        0.01, 0.1, "above",
        "Log longer episodes, or ask for a horizon that the log reaches: horizon=.",
        about_products=True,
    ),
    "left_out_slots": Threshold(0.003, -math.inf, "below", WIDER, false_alarms=0.003),
    "interaction_bias": Threshold(3.3, 5.0, "above", WIDER, decides=True, false_alarms=0.01),
    "marginal_ratios": Threshold(
        3.0, 5.0, "above",
        "Give better ratios (ratio=), or states that say all that matters for what follows.",
        decides=True, about_marginals=True,
    ),
}  # fmt: skip
