"""Checkers for what you write yourself: a policy, a reward model, a score, a learner."""

from offpolicy.testing.checks import check_learner, check_policy, check_reward_model, check_score

__all__ = ["check_learner", "check_policy", "check_reward_model", "check_score"]
