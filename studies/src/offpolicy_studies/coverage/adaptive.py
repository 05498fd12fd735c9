"""Logs whose policy learns from batch to batch: ε-greedy and Thompson sampling on two or more arms.

With arms of equal means the policy never settles, and the batch variances depend on early luck for ever:
the case in which a pooled mean is not asymptotically normal (Hadad et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy_studies.coverage.bandits import noisy, reward_model
from offpolicy_studies.coverage.draw import Draw
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats
    from offpolicy_studies.coverage.bandits import Rewards


@dataclass(frozen=True)
class Adaptive:
    """Batches of a learning bandit.

    Attributes
    ----------
    means : tuple of float
        Mean reward of each arm; the target always plays the last.
    batch, batches : int
        Rows of a batch, and batches.
    explored : float
        Share of uniform exploration that remains.
    thompson : bool
        Thompson sampling on normal posteriors instead of ε-greedy.
    """

    means: tuple[float, ...] = (0.0, 0.0)
    batch: int = 100
    batches: int = 10
    explored: float = 0.1
    thompson: bool = False
    rewards: Rewards = "continuous"
    easy: bool = False

    def draw(self, rng: np.random.Generator) -> Draw:
        """Draw one log."""
        mean = np.array(self.means)
        k = len(mean)
        count, total = np.zeros(k), np.zeros(k)
        actions, rewards, chances = [], [], []
        for _ in range(self.batches):
            p = self._policy(count, total, rng)
            action = sample(np.broadcast_to(p, (self.batch, k)), rng)
            reward = noisy(self.rewards, mean[action], np.zeros(self.batch), rng)
            count += np.bincount(action, minlength=k)
            total += np.bincount(action, weights=reward, minlength=k)
            actions.append(action)
            rewards.append(reward)
            chances.append(p[action])
        log = op.BanditLog.from_arrays(
            None,
            np.concatenate(actions),
            np.concatenate(rewards),
            np.concatenate(chances),
            batch=np.repeat(np.arange(self.batches), self.batch),
            actions=range(k),
        )
        models = {"reward_model": op.models.PerAction(reward_model("weak"))}
        return Draw(log, op.policies.Fixed(k - 1), float(mean[-1]), models)

    def _policy(self, count: Floats, total: Floats, rng: np.random.Generator) -> Floats:
        k = len(count)
        if not count.all():
            return np.full(k, 1 / k)
        center = total / count
        if self.thompson:
            draws = center + rng.standard_normal((500, k)) / np.sqrt(count)
            best = np.bincount(draws.argmax(axis=1), minlength=k) / 500
        else:
            best = np.eye(k)[center.argmax()]
        return np.asarray((1 - self.explored) * best + self.explored / k)
