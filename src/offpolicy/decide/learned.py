"""What `learn_policy` gives: the policy, its honest value, and the value on its own rows beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scipy import special

from offpolicy._doors import door
from offpolicy._visible import printable
from offpolicy.decide.policies import TreePolicy
from offpolicy.evaluation.shown import Tracked
from offpolicy.inference.figures import plain, signed

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy._arrays import Bools, Floats
    from offpolicy._document import Section
    from offpolicy.decide.learners import OwnPolicy
    from offpolicy.decide.policies import BoostedPolicy
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

LEARNED, NAIVE = "learned", "learned, on its own rows"
SCORE = "DML"


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy learned from a log, with its honest value.

    Attributes
    ----------
    policy : TreePolicy, BoostedPolicy or OwnPolicy
        Learned from all rows. `Learned` itself can be given to `evaluate` as well.
    evaluation : Evaluation
        Of the policies learned without each fold, on the rows of that fold; report, verdict and gate work.
    naive : Estimate
        Value of the policy on the rows it was learned from: too high.
    """

    policy: TreePolicy | BoostedPolicy | OwnPolicy
    evaluation: Evaluation
    naive: Estimate

    @property
    def value(self) -> Estimate:
        """The honest value."""
        return self.evaluation[LEARNED, SCORE]

    def interval(self, level: float = 0.95) -> Interval:
        """Of the true value of the policy returned.

        The honest value is that of policies that were learned without a fold, and the one returned takes other
        actions than they in some rows. Which action is better there the log could not tell, or they would have
        agreed; so the two values may lie apart by the standard error of the difference of their scores, and the
        interval of the honest value is widened by it. What is learned follows the chance of the same rows that it is
        valued on, so that both errors may go together: they are added, not their squares.
        """
        return self._allowing(self.value, level)

    @property
    def gain(self) -> Estimate:
        """The honest value less that of the logging policy."""
        return self.value - self.evaluation.logged

    def gain_interval(self, level: float = 0.95) -> Interval:
        """Of what the policy returned truly gains over the logging policy; wider than `gain`'s as `interval` is."""
        return self._allowing(self.gain, level)

    def _allowing(self, e: Estimate, level: float) -> Interval:
        own = e.interval(level)
        if not own.sufficient:
            return own
        apart = (self.naive - self.value).std_error
        spread = float(special.ndtri(0.5 + level / 2)) * (apart if math.isfinite(apart) else 0.0)
        return replace(own, low=own.low - spread, high=own.high + spread)

    @property
    def optimism(self) -> float:
        """By how much the value on its own rows flatters the policy; of a cost, by how much it is too low."""
        more = self.naive.value - self.value.value
        return -more if self.evaluation.minimize else more

    def bind(self, actions: Any) -> Any:
        """Return the policy for these actions, in this order."""
        return self.policy.bind(actions)

    def probabilities(self, context: Any, *, eligible: Bools | None = None) -> Floats:
        """(n, K) probabilities of the policy learned from all rows."""
        return self.policy.probabilities(context, eligible=eligible)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write the report of the evaluation with the tree drawn in it; see `Evaluation.report`."""
        return self.evaluation.report(path, decision=self, **options)

    def log_mlflow(self, **options: Any) -> str:
        """Log the policy and its evaluation to MLflow; see `Evaluation.log_mlflow`."""
        return self.evaluation.log_mlflow(decision=self, **options)

    def sections(self) -> list[Section]:
        """The learned policy in a report."""
        return [door("learned")(self)]

    def tracked(self) -> Tracked:
        """What a tracker is told of the policy."""
        numbers = {
            "learned/naive": self.naive.value,
            "learned/optimism": self.optimism,
            "learned/gain": self.gain.value,
        }
        files = {"policy.txt": str(self)}
        if isinstance(self.policy, TreePolicy):
            files |= {"policy.json": self.policy.to_json(), "policy.sql": self.policy.to_sql()}
        return Tracked(numbers, {"offpolicy.policy": type(self.policy).__name__}, files)

    @printable
    def __str__(self) -> str:
        i, g, v = self.interval(), self.gain_interval(), self.value.value
        value = (
            f"honest value {plain(v, 4)} (95% {plain(i.low, 4)} to {plain(i.high, 4)}); on the rows it was learned "
            f"from {plain(self.naive.value, 4)}, which flatters it by {plain(self.optimism, 2)}"
        )
        ends = f"95% {signed(g.low, v)} to {signed(g.high, v)}"
        word, hint = ("change against", "; less is better") if self.evaluation.minimize else ("gain over", "")
        gain = f"{word} the logging policy {signed(self.gain.value, v)} ({ends}){hint}"
        return "\n".join([str(self.policy), value, gain])

    @printable
    def __repr__(self) -> str:
        return str(self)
