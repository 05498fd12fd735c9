"""``--reward-model`` and ``--value-model``: words that `evaluate` takes as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse

REWARD_MODELS = ("auto", "linear", "lightgbm", "paper")
VALUE_MODELS = ("tabular", "fitted-q")


def asked_for(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """The model of rewards or values that was asked for, under the name `evaluate` gives it."""
    argument = "reward_model" if kind == "bandit" else "value_model"
    word = getattr(options, argument)
    if word is not None:
        return {argument: word}
    wrong = "value_model" if kind == "bandit" else "reward_model"
    if getattr(options, wrong) is not None:
        flag = wrong.replace("_", "-")
        raise UsageError(f"--{flag} is for {'trajectories' if kind == 'bandit' else 'bandit logs'}.")
    return {}
