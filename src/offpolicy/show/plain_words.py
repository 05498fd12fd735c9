"""What checks mean in plain words: what the report's first screen says before any statistic.

Checks that ask the same question share a sentence, which is then said once with all their findings behind it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """One question that checks ask: what to say where it raises something, and where all is well ("": nothing)."""

    raised: str
    well: str = ""


PROPENSITIES = Topic(
    "The probabilities of the logged actions do not fit the actions that were logged.",
    "The probabilities of the logged actions fit the actions that were logged.",
)
FEW = Topic(
    "Few rows resemble what the policy would do, and these few decide the number.",
    "Enough of the log resembles what the policy would do.",
)
UNSEEN = Topic(
    "The policy does things that the log never shows.",
    "Everything that the policy does has been tried in the log.",
)
SLOTS = Topic("What a slot earns depends on slots that were taken not to matter.")
REWARD_MODEL = Topic("The model that predicts rewards is off, which costs precision.")
BEHAVIOR_MODEL = Topic("The model of how actions were chosen fits them badly.")
LARGE_REWARDS = Topic("A few extreme rewards decide the number.")

TOPICS: dict[str, Topic] = {
    "effective_sample_size": FEW,
    "largest_weight_share": FEW,
    "top_share": FEW,
    "top_unit_share": FEW,
    "largest_weight": FEW,
    "pareto_k": FEW,
    "clipping_sensitivity": Topic("The answer moves when the largest weights are cut."),
    "mean_weight": PROPENSITIES,
    "mean_weight_z": PROPENSITIES,
    "mean_weight_by_action": PROPENSITIES,
    "mean_weight_by_batch": PROPENSITIES,
    "propensity_calibration": PROPENSITIES,
    "sample_ratio_mismatch": Topic(
        "Some actions were logged more or less often than their probabilities say."
    ),
    "rounded_propensities": Topic("The logged probabilities look rounded."),
    "unsupported_mass": UNSEEN,
    "smoothing_bias": Topic("The window around the policy's number is wide enough to bias it."),
    "break_at_policy": Topic("Rewards have a corner or a jump exactly where the policy sits."),
    "learned_from_log": Topic(
        "The policy seems to have been learned from the rewards it is judged by."
    ),
    "cell_leaning": Topic("Among actions taken for alike, preferred ones do not earn alike."),
    "coarse_ratio": Topic("Actions that were taken for alike do not earn alike."),
    "unlogged_actions": Topic("Some actions on the list were never logged."),
    "deterministic_logging": Topic(
        "In part of the log there was no choice: one action was certain there."
    ),
    "reward_model_r2": REWARD_MODEL,
    "reward_model_calibration": REWARD_MODEL,
    "reward_model_by_batch": Topic("Rewards of one batch do not fit the rows they stand in."),
    "efficiency_ratio": REWARD_MODEL,
    "value_model_skill": REWARD_MODEL,
    "behavior_log_loss": BEHAVIOR_MODEL,
    "floored": BEHAVIOR_MODEL,
    "horizon": Topic("Late steps of the episodes say little about this policy."),
    "beyond_log": Topic("The question reaches further than the logged episodes do."),
    "left_out_slots": SLOTS,
    "interaction_bias": SLOTS,
    "marginal_ratios": Topic(
        "How often the policy visits each situation cannot be told well enough."
    ),
    "unseen_pairs": Topic("The policy reaches situations that the log hardly shows."),
    "label_balance": Topic("Rows with a reward differ from those without one."),
    "effective_labels": Topic("Few labels speak for what the policy would do."),
    "proxy_skill": Topic("The proxies say little about the reward."),
    "proxy_preference": Topic("The proxies prefer an action."),
    "history_overlap": Topic("Some rows are unlike any row of the older log."),
    "surrogacy": Topic("The reward is not what the older log foretells."),
    "rare_rewards": Topic("Rewards are rare: few rows carry the answer."),
    "duplicates": Topic("Some rows appear more than once."),
    "near_duplicates": Topic("Some rows are nearly copies of others."),
    "leaks": Topic("A context column seems to know the reward or the action beforehand."),
    "balance": Topic("Rows are not alike across actions in a way that the propensities explain."),
    "identifying_columns": Topic("A context column looks like an id: it names rows."),
    "reward_maturity": Topic("The latest rewards may not all have arrived."),
    "reward_tail": LARGE_REWARDS,
    "batch_drift": Topic("The value changes over time."),
    "estimator_disagreement": Topic(
        "Methods that should agree do not.", "Different methods give the same answer."
    ),
    "confounding": Topic(
        "Something unrecorded that decided the actions could overturn the answer."
    ),
}
# What speaks for a number that no check speaks against, in this order.
SUPPORT = (
    "effective_sample_size",
    "mean_weight",
    "unsupported_mass",
    "estimator_disagreement",
)
