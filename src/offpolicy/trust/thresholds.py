"""The one table of thresholds: what each check calls normal, worth a caution, or alarming.

``decides`` marks the checks whose alarm alone makes a verdict "insufficient evidence": without overlap, or
with a log that contradicts its own propensities, no estimator and no interval can repair the number. Any
other caution or alarm makes a verdict "caution". Several checks also ask that a deviation be large enough
to matter and not only significant; the function that computes the check says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "caution", "alarm"]


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
    """

    caution: float
    alarm: float
    side: Literal["above", "below"]
    remedy: str
    decides: bool = False
    about_products: bool = False

    def level(self, value: float) -> Level:
        """Judge a value; what is not defined is not judged."""
        if math.isnan(value):
            return "ok"
        sign = 1.0 if self.side == "above" else -1.0
        if sign * value > sign * self.alarm:
            return "alarm"
        return "caution" if sign * value > sign * self.caution else "ok"


PROPENSITIES = (
    "Check that the propensity column is the probability of the logged action at the moment it was "
    "logged, in (0, 1], not rounded and joined to the right rows."
)
BEHAVIOR = (
    "The fitted or logged π_b predicts the actions badly: try another behavior model, or check that the "
    "propensities belong to these rows."
)
DISAGREE = (
    "Estimators that should agree do not: check the propensities first, then the reward model's "
    "out-of-fold skill."
)
OVERLAP = "Log with more exploration, or evaluate a policy closer to the logging one (a mixture)."
MODEL = "Try another model, more features, or leave the choice to 'auto'."

THRESHOLDS: dict[str, Threshold] = {
    # Weights. Correct propensities and full support give a mean weight of 1 whatever the policy.
    "mean_weight": Threshold(0.02, 0.1, "above", PROPENSITIES, decides=True, about_products=True),
    "mean_weight_z": Threshold(3.0, 5.0, "above", PROPENSITIES, about_products=True),
    "mean_weight_by_action": Threshold(4.0, 6.0, "above", PROPENSITIES),
    "mean_weight_by_batch": Threshold(4.0, 6.0, "above", PROPENSITIES),
    "effective_sample_size": Threshold(100.0, 10.0, "below", OVERLAP, decides=True, about_products=True),
    "largest_weight": Threshold(math.inf, math.inf, "above", OVERLAP),
    "largest_weight_share": Threshold(0.05, 0.3, "above", OVERLAP, decides=True, about_products=True),
    "top_share": Threshold(0.2, 0.5, "above", OVERLAP, about_products=True),
    "top_unit_share": Threshold(0.2, 0.5, "above", OVERLAP, about_products=True),
    # Moments of order 1/k exist: above 0.5 the variance is in doubt, above 0.7 the mean in practice.
    "pareto_k": Threshold(0.5, 0.7, "above", OVERLAP, decides=True, about_products=True),
    "unsupported_mass": Threshold(
        0.001, 0.05, "above",
        "The data say nothing about these actions there: restrict the policy to actions that were "
        "logged, or collect data with them.",
        decides=True,
    ),
    # Nuisances.
    "reward_model_r2": Threshold(-0.01, -0.5, "below", MODEL),
    "reward_model_calibration": Threshold(4.0, 8.0, "above", MODEL),
    "behavior_log_loss": Threshold(4.0, 6.0, "above", BEHAVIOR),
    "floored": Threshold(
        0.0, 0.01, "above",
        "Pool rare actions, use fewer folds, or smooth: behavior_model=Shares(smoothing=1).",
    ),
    "efficiency_ratio": Threshold(2.0, 4.0, "above", MODEL, about_products=True),
    # Episodes, step by step: the share of the steps that weights support, of pairs, of variance.
    "horizon": Threshold(1.0, -math.inf, "below", OVERLAP),
    "beyond_log": Threshold(
        0.01, 0.1, "above",
        "Log longer episodes, or ask for a horizon that the log reaches: horizon=.",
        about_products=True,
    ),
    "unseen_pairs": Threshold(
        0.0, math.inf, "above",
        "Use more episodes or more folds, pool rare states, and read IPW beside DML.",
    ),
    "value_model_skill": Threshold(
        0.0, -math.inf, "below", "Try another value model: this one is worse than a constant."
    ),
    # The log against itself. Values are p-values, adjusted for the number of actions and batches.
    "sample_ratio_mismatch": Threshold(
        0.01, 0.001, "below",
        "Find out why actions were logged at other rates than their propensities: lost rows, filters "
        "after assignment, bots, redirects, or wrong propensities.",
        decides=True,
    ),
    "rounded_propensities": Threshold(0.05, 0.25, "above", "Log propensities with full precision."),
    "propensity_calibration": Threshold(4.0, 6.0, "above", PROPENSITIES, decides=True),
    "deterministic_logging": Threshold(
        0.05, 0.999, "above",
        "Where the logging policy leaves no choice, other actions are not identified: explore there, "
        "or evaluate a policy that agrees with it there.",
    ),
    "unlogged_actions": Threshold(
        0.0, math.inf, "above", "Remove them from the list of actions, or collect data with them."
    ),
    "rare_rewards": Threshold(
        30.0, 5.0, "below", "Wait for more data, or use a more frequent outcome as the reward."
    ),
    "duplicates": Threshold(
        0.001, 0.01, "above", "Remove repeated rows, or name the unit that repeats with cluster=."
    ),
    "reward_maturity": Threshold(
        0.8, 0.5, "below",
        "Leave out the latest batches, whose rewards may not all have arrived.",
    ),
    # Stability of the number.
    "reward_tail": Threshold(
        0.5, 0.7, "above",
        "A few extreme rewards decide: evaluate a capped or transformed reward as well, decided before "
        "looking at the result.",
        about_products=True,
    ),
    "batch_drift": Threshold(
        0.01, 0.0001, "below",
        "The value changes over time: report it by period, or evaluate on recent batches only.",
    ),
    "estimator_disagreement": Threshold(3.0, 5.0, "above", DISAGREE),
    "clipping_sensitivity": Threshold(1.0, 3.0, "above", OVERLAP, about_products=True),
    "confounding": Threshold(
        1.1, 1.0, "below",
        "Log true propensities, or add whatever else decided the action to the context.",
    ),
}  # fmt: skip
