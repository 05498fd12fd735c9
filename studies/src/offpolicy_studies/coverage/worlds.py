"""The worlds of the battery, by name; names have no commas, which the command line separates them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpolicy_studies.coverage.adaptive import Adaptive
from offpolicy_studies.coverage.bandits import Bandit, RareArm
from offpolicy_studies.coverage.episodes import Episodes

if TYPE_CHECKING:
    from offpolicy_studies.coverage.draw import World

WORLDS: dict[str, World] = {
    # Overlap and models, known propensities.
    "uniform / binary": Bandit(overlap="uniform", rewards="binary", easy=True),
    "uniform / continuous": Bandit(overlap="uniform", easy=True),
    "uniform / weak model": Bandit(overlap="uniform", model="weak", easy=True),
    "uniform / over-fitting model": Bandit(overlap="uniform", model="overfit", easy=True),
    "uniform / 20 actions / soft target": Bandit(
        n=2000, actions=20, overlap="uniform", rewards="binary", soft=True, easy=True
    ),
    "uniform / default models": Bandit(overlap="uniform", rewards="binary", model="auto", easy=True),
    "mild skew / continuous": Bandit(easy=True),
    "mild skew / binary / weak model": Bandit(rewards="binary", model="weak", easy=True),
    "mild skew / binary / over-fitting model": Bandit(rewards="binary", model="overfit", easy=True),
    "mild skew / negative rewards": Bandit(rewards="negative", easy=True),
    "mild skew / negative rewards / weak model": Bandit(rewards="negative", model="weak", easy=True),
    "strong skew / continuous": Bandit(overlap="strong"),
    "strong skew / binary": Bandit(overlap="strong", rewards="binary"),
    "strong skew / binary / distribution logged": Bandit(
        overlap="strong", rewards="binary", propensities="distribution"
    ),
    "strong skew / weak model": Bandit(overlap="strong", model="weak"),
    "poor overlap / continuous": Bandit(overlap="poor"),
    "poor overlap / binary": Bandit(overlap="poor", rewards="binary"),
    "poor overlap / over-fitting model": Bandit(overlap="poor", model="overfit"),
    "hardly any overlap / continuous": Bandit(overlap="none"),
    "hardly any overlap / binary": Bandit(overlap="none", rewards="binary"),
    # Rewards.
    "rare rewards / uniform": Bandit(n=2000, overlap="uniform", rewards="rare"),
    "rare rewards / strong skew": Bandit(n=2000, overlap="strong", rewards="rare"),
    "rare arm / 1000 rows": RareArm(1000),
    "rare arm / 5000 rows": RareArm(5000),
    "heavy-tailed rewards / uniform": Bandit(overlap="uniform", rewards="heavy"),
    "heavy-tailed rewards / strong skew / weak model": Bandit(overlap="strong", rewards="heavy", model="weak"),
    # Unknown propensities.
    "shares / good model": Bandit(propensities="shares", easy=True),
    "shares / weak model": Bandit(propensities="shares", model="weak", easy=True),
    "logistic π_b / good model": Bandit(overlap="logistic", propensities="classifier", easy=True),
    "logistic π_b / weak model": Bandit(overlap="logistic", propensities="classifier", model="weak", easy=True),
    "logistic π_b / over-fitting model": Bandit(
        overlap="logistic", propensities="classifier", rewards="binary", model="overfit", easy=True
    ),
    "mis-specified π_b / good model": Bandit(propensities="classifier"),
    # Clusters, small samples.
    "200 clusters": Bandit(n=2000, clusters=200, easy=True),
    "200 clusters / binary": Bandit(n=2000, clusters=200, rewards="binary", easy=True),
    "20 clusters": Bandit(n=1000, clusters=20),
    "60 rows / binary": Bandit(n=60, overlap="uniform", rewards="binary"),
    "60 rows / continuous": Bandit(n=60, overlap="uniform"),
    "200 rows / mild skew / over-fitting model": Bandit(n=200, model="overfit"),
    # Policies that learn from batch to batch.
    "adaptive / clear winner": Adaptive((0.0, 0.5)),
    "adaptive / target loses": Adaptive((0.5, 0.0)),
    "adaptive / no difference": Adaptive((0.0, 0.0)),
    "adaptive / Thompson / no difference": Adaptive((0.0, 0.0), thompson=True),
    "adaptive / binary / no difference": Adaptive((0.3, 0.3, 0.3), rewards="binary"),
    "adaptive / little exploration": Adaptive((0.0, 0.0), batch=50, batches=20, explored=0.02),
    # Episodes.
    "episodes / 3 steps": Episodes(easy=True),
    "episodes / 3 steps / unknown π_b": Episodes(known=False, easy=True),
    "episodes / 3 steps / no model": Episodes(model="weak", easy=True),
    "episodes / 11 steps / 20 states": Episodes(n=200, steps=11, states=20),
    "episodes / over-fitting model": Episodes(n=100, steps=8, states=10, model="overfit"),
    "episodes / over-fitting model / unknown π_b": Episodes(n=100, steps=5, states=10, model="overfit", known=False),
    "episodes / far target": Episodes(n=500, steps=5, distance=0.8),
    "episodes / far target / long": Episodes(n=500, steps=15, distance=0.8),
    "30 episodes": Episodes(n=30),
}
QUICK = (
    "uniform / binary",
    "mild skew / binary / weak model",
    "hardly any overlap / binary",
    "rare arm / 1000 rows",
    "200 clusters",
    "adaptive / no difference",
    "shares / weak model",
    "episodes / 3 steps",
)
