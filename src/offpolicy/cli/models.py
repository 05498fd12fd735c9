"""``--reward-model`` and ``--value-model``: from a word to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse

REWARD_MODELS = ("auto", "linear", "lightgbm", "paper")
VALUE_MODELS = ("tabular", "fitted-q")


def model_of(name: str) -> Any:
    """The model of this name."""
    if name == "linear":
        from offpolicy.models.rewards.auto import LinearReward

        return LinearReward()
    if name == "fitted-q":
        from lightgbm import LGBMRegressor

        from offpolicy.models.values.fitted_q import FittedQ

        return FittedQ(LGBMRegressor(n_estimators=100, verbosity=-1))
    if name == "tabular":
        from offpolicy.models.values.tabular import Tabular

        return Tabular()
    if name in {"lightgbm", "paper"}:
        from offpolicy.models.rewards.boosted import BoostedReward, paper_reward

        return BoostedReward() if name == "lightgbm" else paper_reward()
    return name


def asked_for(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """The model of rewards or values that was asked for, under the name `evaluate` gives it."""
    argument = "reward_model" if kind == "bandit" else "value_model"
    word = getattr(options, argument)
    if word is not None:
        return {argument: model_of(word)}
    wrong = "value_model" if kind == "bandit" else "reward_model"
    if getattr(options, wrong) is not None:
        flag = wrong.replace("_", "-")
        raise UsageError(
            f"--{flag} is for {'trajectories' if kind == 'bandit' else 'bandit logs'}."
        )
    return {}
