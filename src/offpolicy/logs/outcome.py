"""Rewards that are not seen in every row: what a log holds of them, and who makes them whole.

A log keeps one `Held` per metric that is seen in part. Once folds are drawn, `settle` asks each for *pseudo-rewards*:
numbers with the mean of the reward in every row, which take the reward's place from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs import checks
from offpolicy.logs.frame import Columns, Context, as_features, is_frame
from offpolicy.logs.log import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import L, Log
    from offpolicy.logs.roles import Roles


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

    @property
    def observed(self) -> Floats:
        """(n,) rewards as they were seen, NaN where they were not: what checks of rewards look at."""
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
class Arrival:
    """When rewards that come late are known, on a clock that stands at 0 when the log was read.

    Attributes
    ----------
    decided : (n,) floats
        When the action was taken.
    known : (n,) floats
        When its reward became known; above 0 where it is not yet.
    final : (n,) floats
        When it is known whatever it is.
    """

    decided: Floats
    known: Floats
    final: Floats


def arrivals(log: Log, metric: str) -> Arrival | None:
    """When the rewards of one metric are known, where its outcome says so (``arrival``); None where it does not."""
    held = getattr(log, "outcomes", {}).get(metric)
    made: Arrival | None = getattr(held, "arrival", None)
    return made


@dataclass(frozen=True, eq=False)
class Given:
    """Where an outcome finds its columns: in the frame of a log, or in the arguments themselves."""

    n: int
    columns: Columns | None = None
    roles: Roles | None = None
    metric: str = ""

    @property
    def context(self) -> tuple[str, ...]:
        """Columns of the context."""
        return () if self.roles is None else self.roles.context

    def called(self, given: Any, role: str) -> str:
        """What the owner calls a column, for messages."""
        return given if isinstance(given, str) else role

    def values(self, given: Any, role: str) -> Array:
        """(n,) values of a column that is named, or given."""
        if isinstance(given, str):
            if self.columns is None:
                raise DataError(f"{role}={given!r} names a column; from_arrays takes an array.")
            return self.columns.values(self.columns.require(given, role))
        values = np.asarray(given)
        if values.ndim != 1:
            raise DataError(f"{role}= must have one entry per row. Got shape {values.shape}.")
        checks.same_length(self.n, {role: len(values)})
        return values

    def numbers(self, given: Any, role: str) -> Floats:
        """(n,) numbers of a column that is named, or given, or one number for all rows."""
        if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
            return np.full(self.n, float(given))
        if isinstance(given, str) and self.columns is not None:
            return self.columns.numeric(self.columns.require(given, role), role)
        return checks.one_dimensional(self.values(given, role), role, role)

    def _refuse_taken(self, name: str, role: str) -> None:
        """A column that plays another part is no proxy; a metric that every row shows may be one of another metric."""
        taken = {} if self.roles is None else self.roles.named
        for part, columns in taken.items():
            listed = columns.values() if isinstance(columns, Mapping) else columns
            if name not in ((listed,) if isinstance(listed, str) else tuple(listed)):
                continue
            if part == self.roles.word("context"):  # type: ignore[union-attr]
                raise DataError(
                    f"{role}= and the {part} both contain {name!r}. The {part} is known before the "
                    f"action, {role} only after it. Leave the column out of one of them."
                )
            if part == "reward" and name != self.metric:
                continue
            what = "the reward itself" if part == "reward" else f"the column of {part}="
            raise DataError(
                f"{role}= names {name!r}, which is {what}. Name outcomes that every row has after its action, such "
                "as a judge's score."
            )

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
                self._refuse_taken(name, role)
            if len(set(given)) != len(given):
                raise DataError(f"{role}= lists a column twice: {list(given)}. List each once.")
            return Context.from_frame(self.columns.subset(list(given)))
        if is_frame(given):
            made = Context.from_frame(Columns(given).separate())
        else:
            array = np.asarray(given)
            if array.dtype.kind not in "biuf":
                raise DataError(f"{role}= must be numbers. Got dtype {array.dtype}.")
            made = Context(as_features(array.astype(np.float64)))
        checks.same_length(self.n, {role: len(made)})
        return made


def check_outcomes(outcome: Any, metrics: Iterable[str]) -> dict[str, Any]:
    """{metric: outcome}, from one outcome for the only reward or from such a mapping; empty where there is none."""
    if outcome is None:
        return {}
    known = tuple(metrics)
    if not isinstance(outcome, Mapping):
        if len(known) > 1:
            raise UsageError(
                f"the log has {len(known)} metrics. Name the one that is partly observed: "
                f"outcome={{{known[0]!r}: {type(outcome).__name__}(…)}}."
            )
        outcome = dict.fromkeys(known, outcome)
    for name, each in outcome.items():
        if name not in known:
            raise UsageError(f"outcome=: no metric is called {name!r}.{did_you_mean(name, known)}")
        if isinstance(each, type) or not hasattr(each, "held"):
            raise UsageError(
                f"outcome= must be an outcome such as op.Labeled(…), or {{metric: outcome}}. Got {each!r} instead."
            )
    return dict(outcome)


def held_outcomes(outcome: Any, metrics: Mapping[str, Floats], given: Given) -> dict[str, Held]:
    """What a log holds of its outcomes: one for its only reward, or {metric: outcome}."""
    checked = check_outcomes(outcome, metrics)
    return {name: each.held(replace(given, metric=name), metrics[name], name) for name, each in checked.items()}


def columns_of(outcome: Any) -> tuple[str, ...] | None:
    """Columns that outcomes read, where each declares them (``reads``); else None, which stands for all."""
    each = outcome.values() if isinstance(outcome, Mapping) else (outcome,)
    reads: list[Any] = [getattr(one, "reads", None) for one in each]
    return None if None in reads else tuple(dict.fromkeys(name for own in reads for name in own))


def check_columns(outcome: Any, columns: Sequence[str]) -> None:
    """Every column that outcomes declare to read is there."""
    for name in () if outcome is None else columns_of(outcome) or ():
        if name not in columns:
            raise DataError(f"outcome= names {name!r}: the source has no such column.{did_you_mean(name, columns)}")


def named_columns(*given: Any) -> tuple[str, ...]:
    """Those arguments of an outcome that name columns.

    >>> named_columns(["judge", "early"], "p_label", 0.3, None)
    ('judge', 'early', 'p_label')
    """
    lists = [(each,) if isinstance(each, str) else each for each in given if isinstance(each, str | list | tuple)]
    return tuple(name for each in lists for name in each if isinstance(name, str))


def with_outcomes(log: L, outcome: Any, roles: Roles, columns: Columns) -> L:
    """A log with what it holds of its outcomes, whose columns are in a table of the same rows."""
    held = held_outcomes(outcome, log.metrics, Given(len(log.action), columns, roles))
    return changed(log, outcomes=held) if held else log


def settle(log: L, folds: Callable[[], Any], models: Mapping[str, Any], seed: int) -> L:
    """The log with pseudo-rewards in place of rewards that are seen in part."""
    if not log.outcomes:
        return log
    drawn = folds()
    settled = {
        name: held.settled(log.with_reward(name), drawn, models[name], seed) for name, held in log.outcomes.items()
    }
    ties = [s.cluster for s in settled.values() if s.cluster is not None]
    return changed(
        log.with_rewards({name: own.reward for name, own in settled.items()}),
        outcomes=settled,
        about={**log.about, "outcome": {name: s.about for name, s in settled.items()}},
        notes=(*log.notes, *(f"{name}: {s.note}" for name, s in settled.items() if s.note)),
        cluster=ties[0] if ties else log.cluster,
    )


def settled_of(log: Log, metrics: Iterable[str] | None = None) -> list[Settled]:
    """Pseudo-rewards of a log's reward, or of some of its metrics; empty where they are seen."""
    outcomes: Mapping[str, Settled] = getattr(log, "outcomes", {})
    return [outcomes[name] for name in metrics or (log.names.reward,) if name in outcomes]


def learned(log: L, part: Any) -> L:
    """The log whose rewards the reward model of one part learns from."""
    own = next(iter(settled_of(log)), None)
    if own is None:
        return log
    return changed(log.with_rewards({log.names.reward: own.training(part)}), outcomes={})


def need_seen(log: Log, what: str) -> None:
    """Refuse a log whose rewards are seen in part, where each is needed as it is."""
    held = getattr(log, "outcomes", {}).get(log.names.reward)
    if held is not None and not held.seen.all():
        raise UsageError(
            f"{what} needs every reward, but {log.names.reward!r} is observed in {int(held.seen.sum()):,} of "
            f"{len(held.seen):,} rows. Keep only those rows, or use another metric."
        )
