"""What the study fixes before any table is run; docs/replications/cartpole.md says why.

`Settings` holds what the paper leaves open. The same values serve every ε, every estimator and every
replication; they were chosen on pilot seeds and are written into the results.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from offpolicy_studies.cartpole.policy import Rule

POLICIES = ("short", "middle", "long")
KINDS = ("q", "behavior", "behavior_pi", "q_mrdr")
EPSILONS = (0.05, 0.06, 0.07, 0.08, 0.09, 0.10)


@dataclass(frozen=True)
class Settings:
    """Choices that hold for the whole study."""

    #: Steps after which an episode is cut off (CartPole-v0's own).
    cap: int = 200
    #: Steps between two moves of the blacked-out pixels by one column.
    noise_period: int = 10
    #: The evaluation policy: first checkpoint of the learner with a greedy value in this range.
    policy: Rule = field(default_factory=lambda: Rule(23.0, 32.0))
    #: The policy of the table by the letter: its value differs from the log's.
    middle_policy: Rule = field(default_factory=lambda: Rule(36.0, 44.0, every=10, apart=2.0))
    #: The longest policy.
    long_policy: Rule = field(default_factory=lambda: Rule(60.0, 110.0))
    #: Minibatch of every network (the paper's).
    batch: int = 128
    #: Training steps of every network; the best validation loss decides which are kept.
    steps: int = 500
    #: Steps between two looks at the validation part, and between two refreshes of q's targets.
    check_every: int = 25
    #: At most this many validation steps are looked at.
    validation_rows: int = 384
    #: Adam's learning rates (the paper's 1e-4 for q and 2e-4 for the behavior policy).
    q_rate: float = 1e-4
    behavior_rate: float = 2e-4
    #: Factor on the two numbers that enter the dense layer beside 512 picture features.
    extra_scale: float = 32.0
    #: Roll-outs of the evaluation policy behind the true value.
    truth_rollouts: int = 20_000
    #: Logged steps per data set whose q is compared with a roll-out.
    q_checks: int = 100

    def rule(self, policy: str) -> Rule:
        """Return the rule by which one of `POLICIES` is chosen."""
        named = {"short": self.policy, "middle": self.middle_policy, "long": self.long_policy}
        return named[policy]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Plain:
    """Training by the letter: what the paper says, and the least that it leaves open.

    Networks of the paper's structure on the picture alone, its batch and learning rates (`Settings`); all
    episodes of a split train; nothing is held back, stopped early or calibrated. q is fitted to one-step
    targets 1 + q⁻(S', π_e(S')), q⁻ a copy of the network.
    """

    #: Training steps after which q is read off; the longest is where training ends.
    marks: tuple[int, ...] = (1000,)
    #: Training steps of the two behavior networks.
    behavior_steps: int = 1000
    #: Steps between two copies of q for its targets: 100 of them in 1,000 steps, more than most episodes are long.
    refresh: int = 10


#: What a CPU gets unless told otherwise: the same study with fewer updates, steps and roll-outs.
SMALL = Settings(
    policy=Rule(23.0, 32.0, every=50, episodes=100, environments=16),
    middle_policy=Rule(36.0, 44.0, every=50, episodes=100, environments=16),
    long_policy=Rule(60.0, 110.0, every=50, episodes=100, environments=16),
    steps=150,
    truth_rollouts=1000,
    q_checks=20,
)
