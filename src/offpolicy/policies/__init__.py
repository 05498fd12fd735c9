"""Policies: what to choose in each context, as probabilities over the log's actions.

A policy is any object with ``probabilities(context) -> (n, K)`` in the order of the log's actions;
`offpolicy.testing.check_policy` tests one you wrote yourself. The adapters here make policies from functions,
fitted models, posteriors and tables.
"""

from offpolicy.policies.by_preference import EpsilonGreedy, Greedy, PlackettLuce, Softmax
from offpolicy.policies.densities import Normal, UniformRange
from offpolicy.policies.fitted import Classifier, CrossFitted, Predictor, TorchLogits
from offpolicy.policies.on_rows import ShownProbability
from offpolicy.policies.posterior import BetaThompson, GaussianThompson
from offpolicy.policies.protocol import Policy, n_rows
from offpolicy.policies.simple import Constant, Deterministic, Fixed, Mixture, Ranking, TimeDependent, Uniform
from offpolicy.policies.tables import ProbabilityColumns, StateTable, Table
from offpolicy.policies.thompson import beta_thompson_probabilities, gaussian_thompson_probabilities

__all__ = [
    "BetaThompson",
    "Classifier",
    "Constant",
    "CrossFitted",
    "Deterministic",
    "EpsilonGreedy",
    "Fixed",
    "GaussianThompson",
    "Greedy",
    "Mixture",
    "Normal",
    "PlackettLuce",
    "Policy",
    "Predictor",
    "ProbabilityColumns",
    "Ranking",
    "ShownProbability",
    "Softmax",
    "StateTable",
    "Table",
    "TimeDependent",
    "TorchLogits",
    "Uniform",
    "UniformRange",
    "beta_thompson_probabilities",
    "gaussian_thompson_probabilities",
    "n_rows",
]
