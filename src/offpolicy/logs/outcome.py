"""Rewards that are not seen in every row: what a log holds of them, and who makes them whole.

A log keeps one `Held` per metric that is seen in part. Once folds are drawn, `settle` asks each for *pseudo-rewards*:
numbers with the mean of the reward in every row, which take the reward's place from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs import checks
from offpolicy.logs.frame import Columns, Context, as_features, is_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log


class Outcome(Protocol):
    """What is earned, where it is not seen in every row: `op.Labeled`, `op.Delayed`, `op.LongTerm`, or your own."""

    def held(self, given: Given, reward: Floats, metric: str) -> Held:
        """What a log holds of this outcome; raises where rows contradict it."""
        ...


class Held(Protocol):
    """The columns of an outcome on the rows of one log."""

    @property
    def seen(self) -> Bools:
        """(n,) whether the reward itself is seen."""
        ...

    def take(self, rows: Ints) -> Held:
        """The same for some rows."""
        ...

    def settled(self, log: BanditLog, folds: Any, model: Any, seed: int) -> Settled:
        """Pseudo-rewards of all rows; models of a row are fitted outside its fold."""
        ...


class Settled(Protocol):
    """Pseudo-rewards."""

    @property
    def reward(self) -> Floats:
        """(n,) what takes the reward's place in scores."""
        ...

    def training(self, part: Any) -> Floats:
        """(n,) what the reward model of one part learns from: made of that part's training rows alone."""
        ...

    @property
    def about(self) -> dict[str, Any]:
        """What readers of a result should know: how many rewards were seen, what is assumed."""
        ...

    @property
    def doubts(self) -> list[str]:
        """Reasons that keep a verdict from "trust", whatever the checks say."""
        ...

    def findings(self) -> list[Any]:
        """Checks of the log."""
        ...

    def policy_findings(self, view: Any) -> list[Any]:
        """Checks of one policy."""
        ...

    def label_plan(self, weight: Floats, std_error: float, width_now: float, width: float | None, level: float) -> Any:
        """How many rewards a wanted width takes; None where they are not drawn."""
        ...

    @property
    def note(self) -> str:
        """What every estimate says of it; empty where all rewards are seen."""
        ...

    @property
    def cluster(self) -> Ints | None:
        """(n,) units of independence, where pseudo-rewards tie rows together; None where they do not."""
        ...


@dataclass(frozen=True, eq=False)
class Given:
    """Where an outcome finds its columns: in the frame of a log, or in the arguments themselves."""

    n: int
    columns: Columns | None = None
    context: tuple[str, ...] = ()
    action: str = "action"

    def values(self, given: Any, role: str) -> Array:
        """(n,) values of a column that is named, or given."""
        if isinstance(given, str):
            if self.columns is None:
                raise DataError(f"{role}={given!r} names a column; from_arrays takes an array.")
            return self.columns.values(self.columns.require(given, role))
        values = np.asarray(given)
        if values.ndim != 1:
            raise DataError(f"{role}= must hold one entry per row. Got shape {values.shape}.")
        checks.same_length(self.n, {role: len(values)})
        return values

    def numbers(self, given: Any, role: str) -> Floats:
        """(n,) numbers of a column that is named, or given, or one number for all rows."""
        if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
            return np.full(self.n, float(given))
        if isinstance(given, str) and self.columns is not None:
            return self.columns.numeric(self.columns.require(given, role), role)
        return checks.one_dimensional(self.values(given, role), role, role)

    def table(self, given: Any, role: str) -> Context | None:
        """Several columns as a table that learners read; None where there are none."""
        if given is None or (not isinstance(given, np.ndarray) and not is_frame(given) and not len(given)):
            return None
        if isinstance(given, str):
            given = [given]
        if self.columns is not None:
            if is_frame(given) or isinstance(given, np.ndarray):
                raise DataError(f"{role}= must name columns of the frame.")
            for name in given:
                self.columns.require(name, role)
                if name in self.context or name == self.action:
                    raise DataError(
                        f"{role}= and the context both hold {name!r}. The context is what was known before the "
                        f"action, {role} what is seen after it: leave it out of one of them."
                    )
            if len(set(given)) != len(given):
                raise DataError(f"{role}= lists a column twice: {list(given)}. List each once.")
            return Context.from_frame(self.columns.subset(list(given)))
        if is_frame(given):
            made = Context.from_frame(Columns(given).separate())
        else:
            array = np.asarray(given)
            if array.dtype.kind not in "biuf":
                raise DataError(f"{role}= must hold numbers. Got dtype {array.dtype}.")
            made = Context(as_features(array.astype(np.float64)))
        checks.same_length(self.n, {role: len(made)})
        return made


def held_outcomes(outcome: Any, metrics: Mapping[str, Floats], given: Given) -> dict[str, Held]:
    """What a log holds of its outcomes: one for its only reward, or {metric: outcome}."""
    if outcome is None:
        return {}
    if not isinstance(outcome, Mapping):
        if len(metrics) > 1:
            first = next(iter(metrics))
            raise UsageError(
                f"the log has {len(metrics)} metrics. Say which of them is seen in part: "
                f"outcome={{{first!r}: {type(outcome).__name__}(…)}}."
            )
        outcome = dict.fromkeys(metrics, outcome)
    for name, each in outcome.items():
        if name not in metrics:
            raise UsageError(f"outcome=: no metric is called {name!r}.{did_you_mean(name, metrics)}")
        if not hasattr(each, "held"):
            raise UsageError(
                f"outcome= must be an outcome such as op.Labeled(…), or {{metric: outcome}}. Got {each!r} instead."
            )
    return {name: each.held(given, metrics[name], name) for name, each in outcome.items()}


def settle(given: Log, folds: Callable[[], Any], models: Mapping[str, Any], seed: int) -> Any:
    """The log with pseudo-rewards in place of rewards that are seen in part."""
    log = cast("BanditLog", given)
    if not getattr(log, "outcomes", None):
        return log
    drawn = folds()
    settled = {
        name: held.settled(log.with_reward(name), drawn, models[name], seed) for name, held in log.outcomes.items()
    }
    metrics = {name: settled[name].reward if name in settled else r for name, r in log.metrics.items()}
    first = log.names.reward
    ties = [s.cluster for s in settled.values() if s.cluster is not None]
    return replace(
        log,
        reward=metrics.pop(first),
        further=metrics,
        outcomes=settled,
        about={**log.about, "outcome": {name: s.about for name, s in settled.items()}},
        notes=(*log.notes, *(f"{name}: {s.note}" for name, s in settled.items() if s.note)),
        cluster=ties[0] if ties else log.cluster,
    )


def settled_of(log: Log, metrics: Iterable[str] | None = None) -> list[Settled]:
    """Pseudo-rewards of a log's reward, or of some of its metrics; empty where they are seen."""
    outcomes: Mapping[str, Settled] = getattr(log, "outcomes", {})
    return [outcomes[name] for name in metrics or (log.names.reward,) if name in outcomes]


def learned(given: Log, part: Any) -> Any:
    """The log whose rewards the reward model of one part learns from."""
    log = cast("BanditLog", given)
    own = next(iter(settled_of(log)), None)
    return log if own is None else replace(log, reward=own.training(part), outcomes={})


def need_seen(log: Log, what: str) -> None:
    """Refuse a log whose rewards are seen in part, where each is needed as it is."""
    held = getattr(log, "outcomes", {}).get(log.names.reward)
    if held is not None and not held.seen.all():
        raise UsageError(
            f"{what} needs every reward, and {log.names.reward!r} is seen in {int(held.seen.sum()):,} of "
            f"{len(held.seen):,} rows. Keep the rows that have it, or use another metric."
        )
