"""Checkers for what you write yourself: a policy, a reward model, a score."""

from offpolicy.testing.checks import check_policy, check_reward_model, check_score

__all__ = ["check_policy", "check_reward_model", "check_score"]
