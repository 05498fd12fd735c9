"""Where the predictions of a log come from: the contract between the pipeline and logs of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.models.fitting.store import BEHAVIOR, MRDR, REWARD
from offpolicy.policies.coarse import Cells
from offpolicy.splits.folds import part_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.inference.columns import Columns
    from offpolicy.inference.reach import Reach
    from offpolicy.inference.units import Units
    from offpolicy.logs.layout import Layout
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Folds, Split
    from offpolicy.trust.copies import Sampled
    from offpolicy.trust.sums import LogSums


@dataclass(frozen=True)
class Specs:
    """The models that a user asked for."""

    reward_model: Any = None
    value_model: Any = None
    behavior_model: Any = None
    ratio_model: Any = None
    seed: int = 0
    n_jobs: int | None = None
    discount: float = 1.0
    ratio: Any = None  # what `as_ratio` made of ratio=; None: of the logged action itself

    @property
    def cells(self) -> Cells | None:
        """Cells of actions that the ratios are of; None where they are of actions."""
        return self.ratio if isinstance(self.ratio, Cells) else None


@dataclass(frozen=True, eq=False)
class RowView:
    """What scores know of some units besides predictions."""

    layout: Layout
    reward: Floats
    mass: Floats
    count: Floats
    folds: Folds

    def fold(self, repeat: int) -> Ints:
        """Fold of each unit."""
        return np.asarray(self.folds.labels[repeat])

    def half(self, repeat: int) -> Bools:
        """Which units the half-sample split scores."""
        return np.asarray(self.folds.half[repeat])


def count_unfitted(
    fits: Mapping[Any, Any],
    folds: tuple[int, int],
    estimators: Sequence[Estimator],
    names: Sequence[str],
    *,
    of_values: bool,
    of_behavior: bool,
    by_policy: bool,
) -> int:
    """How many models of values and of π_b are still to be fitted, for progress.

    Parameters
    ----------
    folds : (k, repeats)
    names : sequence of str
        Of the policies; ``by_policy`` says that each has value models of its own.
    of_values, of_behavior : bool
        Whether these are fitted at all.
    """
    k, repeats = folds
    keys: set[Any] = set()
    for e in estimators:
        parts = [
            key
            for repeat in range(1 if e.split == "full" else repeats)
            for key in part_keys(e.split, repeat, k)
        ]
        if of_values and "value" in e.needs:
            emphasized = e.emphasis is not None
            stems = [(MRDR if emphasized else REWARD, name) for name in names]
            if not by_policy and not emphasized:
                stems = [(REWARD, "")]
            keys |= {(*stem, *part) for stem in stems for part in parts}
        if of_behavior and "behavior" in e.needs:
            keys |= {(BEHAVIOR, *part) for part in parts}
    return len(keys - fits.keys())


def keeps_without_reward(name: Any) -> bool:
    """Whether a column does not depend on the reward: all but q, v and the reward itself."""
    return name != "reward" and not (isinstance(name, tuple) and name[0] in {"q", "v"})


class Source(Protocol):
    """A log with its folds and models, and the columns that were predicted from it."""

    columns: Columns
    said: dict[Any, Any]

    @property
    def log(self) -> Any:
        """What is known of all rows."""
        ...

    @property
    def ratio_log(self) -> Any:
        """The log whose actions the ratios are of: cells of actions, where ratios are coarse."""
        ...

    @property
    def cells(self) -> Cells | None:
        """Cells of actions that the ratios are of; None where they are of actions."""
        ...

    @property
    def folds(self) -> Folds:
        """Folds of all units."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any estimate should know."""
        ...

    def fit_notes(self, kind: int) -> list[str]:
        """What fitted models of a kind have to say about themselves."""
        ...

    @property
    def n_blocks(self) -> int:
        """Blocks that the columns are in."""
        ...

    @property
    def log_is_continuous(self) -> bool:
        """Whether actions are numbers."""
        ...

    @property
    def action_range(self) -> Any:
        """Range of actions that are numbers."""
        ...

    @property
    def ratio(self) -> Any:
        """What `as_ratio` made of ratio=."""
        ...

    def adapted(self, named: dict[str, Any]) -> dict[str, Any]:
        """Policies, each adapted from the form it came in."""
        ...

    def adopt(self, renamed: Mapping[str, str], policies: Sequence[str]) -> None:
        """Keep what was predicted for some trials under {new: old} names, and drop all trials of these policies."""
        ...

    @property
    def weights_known(self) -> bool:
        """Whether the logged propensities are used as they are."""
        ...

    @property
    def behavior_given(self) -> bool:
        """Whether no behavior model is fitted."""
        ...

    @property
    def regresses_ratios(self) -> bool:
        """Whether ratios of marginals are a regression on a continuous state: neither counted nor given."""
        ...

    def units(self) -> Units:
        """The independent units."""
        ...

    def view(self, block: int | None) -> RowView:
        """Rows of one block, or all of them."""
        ...

    def resolve(self, named: dict[str, Any]) -> dict[str, Target]:
        """Policies, in whichever form, against this log."""
        ...

    def prepare(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> None:
        """Fit and predict ahead what is better done together."""
        ...

    def predict(
        self, target: Target, estimator: Estimator, repeat: int, together: Sequence[Target]
    ) -> None:
        """See to it that the columns are there which a score looks at."""
        ...

    def unfitted(self, targets: Sequence[Target], estimators: Sequence[Estimator]) -> int:
        """How many models are still to be fitted for these estimates, as far as can be told."""
        ...

    def predict_behavior(self, split: Split, repeat: int) -> None:
        """See to it that π_b of one split is there."""
        ...

    def largest_weight(self, target: Target) -> float | None:
        """Largest weight that can occur, where logged propensities tell."""
        ...

    def reach(self, target: Target, *, half: bool) -> Reach:
        """Where a target puts its mass: over all units, or the scored half."""
        ...

    def sampled(self, target: Target) -> Sampled:
        """What a target does in some of the contexts."""
        ...

    def distributions(self, split: Split) -> Iterator[tuple[Ints, Floats]]:
        """Rows with π_b of all their actions, where it is known or fitted."""
        ...

    def log_sums(self) -> LogSums:
        """What checks need of contexts and whole distributions."""
        ...

    def with_behavior(self, behavior_model: Any) -> Source:
        """The same log and value models with another π_b."""
        ...

    def with_reward(self, name: str, model: Any) -> Source:
        """The same log and π_b with another metric as the reward, whose models follow ``model``."""
        ...

    def with_exact_ratio(self) -> Source:
        """The same log and value models with ratios of actions."""
        ...

    def close(self) -> None:
        """Give up fits that have not begun."""
        ...
