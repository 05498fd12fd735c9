"""Checkers for what you write yourself (a policy, a model, a score, a learner), and a simulation of estimators."""

from offpolicy.testing.checks import check_learner, check_policy, check_reward_model, check_score
from offpolicy.testing.simulate import Simulation, simulate

__all__ = ["Simulation", "check_learner", "check_policy", "check_reward_model", "check_score", "simulate"]
