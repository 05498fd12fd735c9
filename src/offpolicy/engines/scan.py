"""Scans: a log of any layout that stays where it is, and the doors to it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from offpolicy._arguments import checked_as, checks_arguments, takes
from offpolicy._visible import printable
from offpolicy.engines.layouts import LAYOUTS, Single
from offpolicy.engines.reading import Reading
from offpolicy.engines.rows import codes_of
from offpolicy.errors import UsageError, check_choice
from offpolicy.logs.action_features import check_feature_columns, column_names, of_columns, of_table
from offpolicy.logs.frame import Columns
from offpolicy.logs.kinds import HasKinds, space_of
from offpolicy.logs.outcome import check_columns, check_outcomes
from offpolicy.logs.roles import ROLES, SINGLE, Roles, RowRoles
from offpolicy.splits.folds import Plan, check_enough

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.engines.engine import Engine
    from offpolicy.engines.facts import Facts
    from offpolicy.engines.layouts import Scanned
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.actions import Label
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.kinds import ActionKind, ActionSpace, UnitKind

Way: TypeAlias = Literal["auto", "rows", "cells", "stream"]


@dataclass(frozen=True, eq=False)
class LogScan(HasKinds):
    """A log behind a query engine. Build it with `offpolicy.scan`, `Trajectories.scan` or `Slates.scan`.

    Nothing is read until it is checked or evaluated. Use it as a context manager, or call `close`, to
    remove temporary files at once instead of when it goes out of use.
    """

    layout: Scanned
    engine: Engine
    table: Any
    roles: Roles
    way: str
    reading: Reading
    described: str
    given_features: Any = field(default=None, repr=False)

    in_memory: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """What a unit is."""
        return self.roles.layout

    @property
    def unit_kind(self) -> UnitKind:
        """What a unit is, and what follows from it."""
        return super().unit_kind if self.roles.own_kind is None else self.roles.own_kind

    @printable
    def __repr__(self) -> str:
        roles = self.roles
        unit = "" if roles.unit is None else f"{roles.word('unit')} {roles.unit!r}, "
        return (
            f"{self.layout.title}Scan({self.engine.name}: {self.described}, {unit}{roles.word('context')} "
            f"{list(roles.context)}, action {roles.action!r}, reward {', '.join(map(repr, roles.rewards))})"
        )

    @cached_property
    def facts(self) -> Facts:
        """Numbers of rows and units, and the actions; rows of single decisions are all checked for it."""
        self.report("check", 0.0)
        found = self.layout.facts(self)
        self.report("check", 1.0)
        return found

    def check(self) -> Self:
        """Check the log now, by queries; raises `DataError` with counts and examples of bad rows."""
        _ = self.facts
        return self

    def up_to(self, steps: int) -> LogScan:
        """The same log for the value of up to ``steps`` steps; where a unit has no steps it is refused."""
        return replace(self, layout=self.layout.up_to(steps))

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.roles.propensity is not None

    @property
    def n(self) -> int:
        """Units."""
        return self.facts.n

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions."""
        return self.facts.labels

    @property
    def space(self) -> ActionSpace:
        """What an action is; its facts are known once the log has been looked at."""
        return self.facts.space

    def with_actions(self, labels: tuple[Label, ...]) -> LogScan:
        """The same log with its actions listed."""
        return replace(self, roles=replace(self.roles, space=space_of(labels)))

    @cached_property
    def action_features(self) -> ActionFeatures | None:
        """What is known of each action: from a table, or from columns of the log, by a query."""
        given = self.given_features
        names = column_names(given)
        if names is None:
            return of_table(given, self.actions, self.roles.action)
        pairs = self.table.select(self.roles.action, *names).distinct()
        # Every action has one row, but for those that show what is wrong.
        rows = self.engine.table(pairs.limit(2 * len(self.actions)))
        labels, code = codes_of(rows, self.roles.action)
        place = {label: i for i, label in enumerate(self.actions)}
        codes = np.array([place[label] for label in labels], dtype=np.int64)[code]
        columns = {name: Columns(rows).values(name) for name in names}
        return of_columns(columns, self.actions, codes, self.roles.action, numbered=False)

    def action_at(self, place: int) -> float:
        """The logged action, a number, that ``place`` others come before in order; found by the engine."""
        name = self.roles.action
        ordered = self.table.select(name).order_by(name).limit(1, offset=place)
        return float(Columns(self.engine.table(ordered)).values(name)[0])

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name."""
        return tuple(self.table.columns)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the rewards, the first of which is the log's."""
        return self.roles.rewards

    @property
    def has_outcomes(self) -> bool:
        """Whether rewards are seen in part."""
        return self.layout.outcome is not None

    def with_reward(self, name: str) -> LogScan:
        """The same log with another of its metrics as the reward."""
        return self if name == self.roles.reward else replace(self, roles=self.roles.with_reward(name))

    def compress(self, folds: int = 2, *, seed: int = 0) -> BanditLog:
        """The log as weighted cells in memory: a `BanditLog` with counts and fold labels."""
        return self.layout.cells(self, Plan.of(folds, 1, seed), ())

    def whole(self) -> Any:
        """All of it in memory, as weighted cells or rows, on which the checks of a log run."""
        return self.layout.whole(self)

    def read(self) -> Any:
        """All rows in memory, for what needs them there; refused where they are too many."""
        if self.facts.rows > self.reading.max_rows:
            raise UsageError(
                f"the log has {self.facts.rows:,} rows, more than the limit for reading into memory "
                f"(max_rows={self.reading.max_rows:,}). Scan a sample of it."
            )
        return self.layout.rows(self, ())

    def opened(self, plan: Plan, named: dict[str, Any], model: Any, behavior_model: Any, /) -> Any:
        """The log in the smallest exact form that fits: rows, weighted cells, or blocks of whole units."""
        models = model.values() if isinstance(model, Mapping) else [model]
        given = [*((self.unit_kind.argument, each) for each in models), ("behavior_model", behavior_model)]
        for what, each in given:
            if isinstance(each, np.ndarray | list | tuple):
                raise UsageError(
                    f"{what}= as an array needs one row per {self.layout.row}, but a scanned log is not in memory. "
                    f"Pass a model, or load the log with {self.layout.constructor}.from_frame."
                )
        if plan.labels is not None or plan.stratify is not None:
            raise UsageError(
                "folds= must be an int for a scanned log. Put your own fold labels in a column: "
                f"{self.layout.door}(…, fold=…); stratify= is for logs in memory."
            )
        columns = (name for policy in (*named.values(), behavior_model) for name in getattr(policy, "reads", ()))
        extra = tuple(dict.fromkeys(columns))
        if self.roles.fold is not None:
            plan = replace(plan, repeats=1)
        elif self.roles.cluster is None:
            check_enough(plan.k, self.n, self.layout.units)
        else:
            clusters = self.table.aggregate(n=self.table[self.roles.cluster].nunique())
            check_enough(plan.k, int(self.engine.table(clusters)["n"][0].as_py()), "clusters")
        return self.layout.opened(self, plan, extra)

    def about(self, way: str, held: int) -> dict[str, Any]:
        """Who reads the log and how much is in memory at once, for the settings of a result."""
        about = {"engine": self.engine.name, "way": way, "rows": self.facts.rows, "held": held}
        fingerprint = self.engine.fingerprint
        return {"engine": about if fingerprint is None else {**about, "digest": fingerprint.digest}}

    def report(self, stage: str, done: float) -> None:
        """Tell whoever watches how far a stage ("check", "compress", "fit", "score") is, from 0 to 1."""
        if self.reading.progress is not None:
            self.reading.progress(stage, done)

    def close(self) -> None:
        """Remove temporary files and close connections that the scan opened."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(layout: Scanned, source: Any, roles: Roles, way: str, reading: Reading, features: Any = None) -> LogScan:
    """A scan whose columns are there."""
    engine, rows = reading.open(source, roles.labels)
    try:
        roles.check(rows.columns)
        check_columns(layout.outcome, rows.columns)
        check_feature_columns(features, rows.columns, roles.context)
    except BaseException:
        engine.close()
        raise
    described = str(source) if isinstance(source, str) else type(source).__name__
    return LogScan(layout, engine, rows, roles, way, reading, described, features)


@checks_arguments
@takes(RowRoles, Reading)
def scan(
    source: Any,
    *,
    context: Sequence[str] | str | None,
    action: str,
    reward: str | Sequence[str],
    propensity: str | Sequence[str] | Mapping[Label, str] | None = None,
    actions: Sequence[Label] | ActionSpace | None = None,
    action_features: Any = None,
    action_kind: ActionKind = "discrete",
    outcome: Any = None,
    way: Way = "auto",
    **given: Any,
) -> LogScan:
    """Open a log that is larger than memory, or that lives in an engine.

    Parameters
    ----------
    source : path or pattern, DuckDB relation or connection, Arrow dataset, Ibis table, Spark DataFrame
        Parquet or CSV files ("logs/*.parquet"), a folder of Parquet, a DuckDB file (with ``table=``), or
        anything an Ibis backend reads.
    context, action, reward, propensity, batch, cluster, weight, actions, keep_probability, fold, action_features,
    action_kind
        As in `BanditLog.from_frame`.
    outcome : `Labeled`, `Delayed`, `LongTerm` or {metric: outcome}, optional
        As in `BanditLog.from_frame`. Rows whose rewards are seen in part are made whole in memory, as cells where
        ``way="cells"`` asks for them (proxies are part of what tells cells apart), else as rows, in any other way.
    eligible : column name, optional
        As in `BanditLog.from_frame`; such a log is read into memory.
    id : column name, optional
        Integer or text that tells rows apart. Folds are a hash of it (of ``cluster`` where given), so
        they are the same on every engine. Without it folds are a hash of the row's number, where rows have
        an order (files and DuckDB).
    way : {"auto", "rows", "cells", "stream"}
        What comes over: all rows, weighted cells, or blocks of rows one after another. It is a matter of
        speed: the answer is the same. "auto" chooses by the number of rows and distinct values.
    **given
        Further columns by their roles, as above, and the options of `offpolicy.engines.reading.Reading`: ``table=``,
        ``engine=``, ``memory_limit=``, ``threads=``, ``temp_directory=``, ``network=``, ``max_rows=``, ``max_cells=``,
        ``chunk_rows=``, ``fit_rows=``, ``progress=``.

    Returns
    -------
    LogScan

    Examples
    --------
    >>> import pandas as pd, offpolicy as op
    >>> frame = pd.DataFrame({"age": [20, 31] * 5, "ad": ["a", "b"] * 5, "click": [0, 1] * 5})
    >>> log = op.scan(frame, context=["age"], action="ad", reward="click")
    >>> log.n, log.actions
    (10, ('a', 'b'))
    """
    check_choice("way", way, "auto", "rows", "cells", "stream")
    space = space_of(actions, action_kind)
    columns = {name: given.pop(name) for name in RowRoles.__annotations__ if name in given}
    space.check_given({"action_features": action_features, "eligible": columns.get("eligible")})
    if not space.finite and not isinstance(propensity, str | None):
        space.whole_columns(propensity)
    if not space.finite and way == "cells":
        raise UsageError(
            "way='cells' counts equal rows, and actions that are numbers seldom repeat. Use way='rows' or 'stream'."
        )
    named = {"context": context, "action": action, "reward": reward, "propensity": propensity, **columns}
    roles = Roles.of(SINGLE, named, space)
    check_outcomes(outcome, roles.rewards)
    return _opened(Single(outcome), source, roles, way, Reading.of(given), action_features)


def scan_units(constructor: Any, source: Any, way: str, given: dict[str, Any]) -> LogScan:
    """What `Trajectories.scan` and `Slates.scan` do: the roles are those of ``from_frame``."""
    made: LogScan = checked_as(
        constructor.from_frame, "scan", given, lambda: _scan_units(constructor, source, way, given)
    )
    return made


def _scan_units(constructor: Any, source: Any, way: str, given: dict[str, Any]) -> LogScan:
    door = f"{constructor.__name__}.scan()"
    kind = LAYOUTS[constructor.kind]
    check_choice("way", way, "auto", "rows", "stream")
    own = [name for name in inspect.signature(constructor.from_frame).parameters if name != "frame"]
    reading = Reading.of({k: v for k, v in given.items() if k not in own}, door, own)
    for name in kind.needed:
        if given.get(name) is None:
            raise UsageError(f"{door} needs {name}=, the name of its column.")
    settings = {k: v for k, v in given.items() if k in own and k != "actions"}
    layout, settings = kind.of(settings)
    roles = {role.name for role in ROLES if constructor.kind in role.layouts}
    named = {k: v for k, v in settings.items() if k in roles}
    return _opened(layout, source, Roles.of(constructor.kind, named, space_of(given.get("actions"))), way, reading)
