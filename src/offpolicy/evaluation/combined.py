"""A weighted sum of metrics as the reward: its models are the weighted sums of theirs, so that nothing is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.evaluation.source import RowView, keeps_without_reward
from offpolicy.logs.metrics import check_metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.evaluation.source import Source
    from offpolicy.inference.columns import Columns
    from offpolicy.inference.reach import Reach
    from offpolicy.inference.units import Units
    from offpolicy.logs.log import Log
    from offpolicy.policies.coarse import Cells
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Split
    from offpolicy.trust.copies import Sampled
    from offpolicy.trust.sums import LogSums


@dataclass(eq=False)
class Combined:
    """The sources of several metrics as one.

    Attributes
    ----------
    parts : tuple of (factor, Source)
        What does not depend on the reward comes from the first.
    name : str
        Of the combination.
    """

    parts: tuple[tuple[float, Source], ...]
    name: str
    columns: Columns = field(init=False)
    said: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = self.base.columns.only(keeps_without_reward, shared=True)
        self.said = {}
        for block in range(max(self.base.n_blocks, 1)):
            rewards = [factor * part.view(block).reward for factor, part in self.parts]
            self.columns.put("reward", block, np.sum(rewards, axis=0))
        self._take()

    @property
    def base(self) -> Source:
        """The source of the first metric."""
        return self.parts[0][1]

    @property
    def n_blocks(self) -> int:
        """Blocks that the columns are in."""
        return self.base.n_blocks

    @cached_property
    def log(self) -> Any:
        """The log with the combination as its reward."""
        return self._rewarded(self.base.log)

    @cached_property
    def ratio_log(self) -> Any:
        """The log whose actions the ratios are of, likewise."""
        same = self.base.ratio_log is self.base.log
        return self.log if same else self._rewarded(self.base.ratio_log)

    def _rewarded(self, log: Log) -> Any:
        names = replace(log.names, reward=self.name)
        held: Any = log
        return replace(held, reward=self.columns["reward"], further={}, names=names)

    @property
    def log_is_continuous(self) -> bool:
        """Whether actions are numbers."""
        return self.base.log_is_continuous

    @property
    def action_range(self) -> Any:
        """Range of actions that are numbers."""
        return self.base.action_range

    @property
    def ratio(self) -> Any:
        """What `as_ratio` made of ratio=."""
        return self.base.ratio

    def adapted(self, named: dict[str, Any]) -> dict[str, Any]:
        """Policies, each adapted from the form it came in."""
        return self.base.adapted(named)

    def adopt(self, renamed: Mapping[str, str], policies: Sequence[str]) -> None:
        """Keep what was predicted for some trials under {new: old} names."""
        for _, part in self.parts:
            part.adopt(renamed, policies)

    @property
    def cells(self) -> Cells | None:
        """Cells of actions that the ratios are of; None where they are of actions."""
        return self.base.cells

    @property
    def folds(self) -> Folds:
        """Folds of all units."""
        return self.base.folds

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any estimate should know."""
        return tuple(dict.fromkeys(note for _, part in self.parts for note in part.notes))

    def fit_notes(self, kind: int) -> list[str]:
        """What fitted models of a kind have to say about themselves."""
        return list(dict.fromkeys(note for _, part in self.parts for note in part.fit_notes(kind)))

    @property
    def weights_known(self) -> bool:
        """Whether the logged propensities are used as they are."""
        return self.base.weights_known

    @property
    def behavior_given(self) -> bool:
        """Whether no behavior model is fitted."""
        return self.base.behavior_given

    @property
    def regresses_ratios(self) -> bool:
        """Whether ratios of marginals are a regression on a continuous state: neither counted nor given."""
        return self.base.regresses_ratios

    def units(self) -> Units:
        """The independent units."""
        return self.base.units()

    def view(self, block: int | None) -> RowView:
        """Rows of one block, or all of them."""
        column: Floats = self.log.reward if block is None else self.columns.block("reward", block)
        return replace(self.base.view(block), reward=column)

    def resolve(self, named: dict[str, Any]) -> dict[str, Target]:
        """Policies, in whichever form, against this log."""
        return self.base.resolve(named)

    def prepare(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> None:
        """Fit and predict ahead what is better done together."""
        for _, part in self.parts:
            part.prepare(targets, estimators)
        self._take()

    def predict(
        self, target: Target, estimator: Estimator, repeat: int, together: Sequence[Target]
    ) -> None:
        """See to it that the columns are there which a score looks at."""
        for _, part in self.parts:
            part.predict(target, estimator, repeat, together)
        self._take()

    def _take(self) -> None:
        """Columns that the metrics have got: q and v are weighted sums, the others the same for all."""
        for name in list(self.base.columns):
            if name in self.columns:
                continue
            if keeps_without_reward(name):
                self.columns.share(name, self.base.columns)
            elif name != "reward" and all(name in part.columns for _, part in self.parts):
                for block in range(self.n_blocks):
                    values = [c * part.columns.block(name, block) for c, part in self.parts]
                    self.columns.put(name, block, np.sum(values, axis=0))
                said = dict.fromkeys(part.said.get(name, "") for _, part in self.parts)
                self.said[name] = "; ".join(filter(None, said))
        self.said = {**self.base.said, **self.said}

    def unfitted(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> int:
        """How many models are still to be fitted for these estimates, as far as can be told."""
        return sum(part.unfitted(targets, estimators) for _, part in self.parts)

    def predict_behavior(self, split: Split, repeat: int) -> None:
        """See to it that π_b of one split is there."""
        self.base.predict_behavior(split, repeat)
        self._take()

    def largest_weight(self, target: Target) -> float | None:
        """Largest weight that can occur, where logged propensities tell."""
        return self.base.largest_weight(target)

    def reach(self, target: Target, *, half: bool) -> Reach:
        """Where a target puts its mass: over all units, or the scored half."""
        return self.base.reach(target, half=half)

    def sampled(self, target: Target) -> Sampled:
        """What a target does in some of the contexts."""
        return self.base.sampled(target)

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Rows with π_b of all their actions, where it is known or fitted."""
        yield from self.base.distributions(split)

    def log_sums(self) -> LogSums:
        """What checks need of contexts and whole distributions: of the first metric's rows."""
        return self.base.log_sums()

    def with_behavior(self, behavior_model: Any) -> Combined:
        """The same log and value models with another π_b."""
        return Combined(
            tuple((factor, part.with_behavior(behavior_model)) for factor, part in self.parts),
            self.name,
        )

    def with_reward(self, name: str, model: Any) -> Source:
        """One of the metrics of the log."""
        return self.base.with_reward(name, model)

    def with_exact_ratio(self) -> Combined:
        """The same log and value models with ratios of actions."""
        return Combined(
            tuple((factor, part.with_exact_ratio()) for factor, part in self.parts), self.name
        )

    def close(self) -> None:
        """Give up fits that have not begun."""
        for _, part in self.parts:
            part.close()


def checked_weights(weights: Any, known: Sequence[str], name: str) -> dict[str, float]:
    """Weights of metrics by name, or an error that says what is wrong with them.

    >>> checked_weights({"revenue": 1, "cost": -0.3}, ["revenue", "cost"], "margin")
    {'revenue': 1.0, 'cost': -0.3}
    """
    if not isinstance(weights, Mapping) or not weights:
        raise UsageError(
            f"combine() takes weights of metrics such as {{'revenue': 1, 'cost': -0.3}}. Got {weights!r}."
        )
    if name in known:
        raise UsageError(f"a metric is called {name!r} already. Choose another name=.")
    for metric, weight in weights.items():
        check_metric(metric, known)
        number = isinstance(weight, int | float | np.integer | np.floating)
        if isinstance(weight, bool) or not number or not np.isfinite(weight):
            raise UsageError(f"the weight of {metric!r} must be a finite number. Got {weight!r}.")
    return {str(metric): float(weight) for metric, weight in weights.items()}
