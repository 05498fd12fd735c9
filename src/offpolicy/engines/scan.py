"""`scan`: a log that stays where it is, and the choice of how much of it to bring over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._visible import printable
from offpolicy.engines.codes import codes_of
from offpolicy.engines.compress import TooManyCellsError, compress
from offpolicy.engines.outcome_rows import read_rows
from offpolicy.engines.reading import MAX_CELLS, MAX_ROWS, Progress, Reading, signature
from offpolicy.engines.roles import Roles, normalized
from offpolicy.engines.rows import Schema
from offpolicy.engines.scanned import Scanned
from offpolicy.engines.stream import StreamedLog
from offpolicy.engines.validate import Facts, facts
from offpolicy.errors import UsageError
from offpolicy.logs.action_features import check_feature_columns, column_names, of_columns, of_table
from offpolicy.logs.frame import Columns
from offpolicy.logs.kinds import space_of
from offpolicy.logs.metrics import reward_names
from offpolicy.splits.folds import Plan, check_enough

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.actions import Label
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.continuous import ActionKind
    from offpolicy.logs.kinds import ActionSpace

Way: TypeAlias = Literal["auto", "rows", "cells", "stream"]
WAYS = ("auto", "rows", "cells", "stream")
COARSE = 0.1  # share of distinct values up to which a column is worth compressing
MAX_LEVELS = 1_000_000


@dataclass(frozen=True)
class Limits:
    """How much may be held in memory at once, and how many rows a chunk has."""

    rows: int = MAX_ROWS
    cells: int = MAX_CELLS
    chunk: int = 250_000
    fit_rows: int = 2_000_000


@dataclass(frozen=True, eq=False)
class LogScan(Scanned):
    """A log behind a query engine. Build it with `offpolicy.scan` and give it to `evaluate`.

    Nothing is read until it is checked or evaluated. Use it as a context manager, or call `close`, to
    remove temporary files at once instead of when it goes out of use.
    """

    engine: Engine
    table: Any
    roles: Roles
    way: Way
    limits: Limits
    progress: Progress | None
    described: str
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
    given_features: Any = field(default=None, repr=False)

    kind: ClassVar[str] = "bandit"
    in_memory: ClassVar[bool] = False

    @printable
    def __repr__(self) -> str:
        roles = self.roles
        return (
            f"LogScan({self.engine.name}: {self.described}, context {list(roles.context)}, "
            f"action {roles.action!r}, reward {', '.join(map(repr, roles.rewards))})"
        )

    @cached_property
    def facts(self) -> Facts:
        """Number of rows, actions and distinct values; made by checking every row once."""
        self.report("check", 0.0)
        found = facts(self.engine, self.table, self.roles)
        self.report("check", 1.0)
        return found

    def check(self) -> LogScan:
        """Check every row now, by queries; raises `DataError` with counts and examples of bad rows."""
        _ = self.facts
        return self

    def up_to(self, steps: int) -> LogScan:
        """Refused: a unit is one decision."""
        raise UsageError("horizon= is for trajectories; a bandit log has one decision per unit.")

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.roles.propensity is not None

    @property
    def n(self) -> int:
        """Rows."""
        return self.facts.n

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions."""
        return self.facts.labels

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

    @property
    def space(self) -> ActionSpace:
        """What an action is; its facts are known once every row has been checked."""
        return self.facts.space

    def with_actions(self, labels: tuple[Label, ...]) -> LogScan:
        """The same log with its actions listed."""
        return replace(self, roles=replace(self.roles, space=space_of(labels)))

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

    def with_reward(self, name: str) -> LogScan:
        """The same log with another of its metrics as the reward."""
        return self if name == self.roles.reward else replace(self, roles=self.roles.with_reward(name))

    def compress(self, folds: int = 2, *, seed: int = 0) -> BanditLog:
        """The log as weighted cells in memory: a `BanditLog` with counts and fold labels."""
        if not self.roles.space.finite:
            raise UsageError("actions that are numbers seldom repeat: there are no cells to count.")
        return self._cells(Plan.of(folds, 1, seed), ())

    def whole(self) -> BanditLog:
        """All of it in memory, as weighted cells, on which the checks of a log run."""
        return self.compress()

    def read(self) -> BanditLog:
        """All rows in memory, for what needs them there; refused where they are too many."""
        if self.n > self.limits.rows:
            raise UsageError(
                f"the log has {self.n:,} rows, more than are read into memory (max_rows={self.limits.rows:,}). "
                "Scan a sample of it."
            )
        return self._rows(StreamedLog(self, self._schema(())))

    def opened(
        self, plan: Plan, named: dict[str, Any], reward_model: Any, behavior_model: Any
    ) -> BanditLog | StreamedLog:
        """The log in the smallest exact form that fits: rows, weighted cells, or blocks of rows."""
        rewards = reward_model.values() if isinstance(reward_model, Mapping) else [reward_model]
        given = [*(("reward_model", model) for model in rewards), ("behavior_model", behavior_model)]
        for what, model in given:
            if isinstance(model, np.ndarray | list | tuple):
                raise UsageError(
                    f"{what}= as an array has one row per logged row, which a scanned log does not hold. "
                    "Give a model, or load the log with BanditLog.from_frame."
                )
        if plan.labels is not None or plan.stratify is not None:
            raise UsageError(
                "folds= must be an int for a scanned log. Labels of your own come in a column: "
                "scan(…, fold=…); stratify= is for logs in memory."
            )
        extra = policy_columns({**named, "": behavior_model})
        if self.roles.fold is None:
            check_enough(plan.k, self._units(), "units" if self.roles.cluster is None else "clusters")
        else:
            plan = replace(plan, repeats=1)
        way, limits = self.way, self.limits
        if way == "auto" and (not self.roles.space.finite or self._widest > COARSE * self.n):
            way = "rows" if self.n <= limits.rows else "stream"
        if way in {"auto", "cells"}:
            try:
                return self._cells(plan, extra)
            except TooManyCellsError as error:
                if way == "cells":
                    raise UsageError(
                        f"the log has {error}. Use way='stream', or raise max_cells={limits.cells:,}."
                    ) from None
            way = "rows" if self.n <= limits.rows else "stream"
        streamed = StreamedLog(self, self._schema(extra))
        return self._rows(streamed) if way == "rows" else streamed

    def _units(self) -> int:
        """Rows, or clusters where rows come in clusters."""
        if self.roles.cluster is None:
            return self.n
        clusters = self.table[self.roles.cluster].nunique()
        return int(self.engine.table(self.table.aggregate(n=clusters))["n"][0].as_py())

    @property
    def _widest(self) -> int:
        """Distinct values of the column that has most of them."""
        names = (*self.roles.context, "reward")
        return max(self.facts.distinct[name] for name in names)

    def _cells(self, plan: Plan, extra: tuple[str, ...]) -> BanditLog:
        self.report("compress", 0.0)
        cells = compress(
            self.engine, self.table, self.roles, self.facts, plan, extra=extra, max_cells=self.limits.cells
        )
        self.engine.rest()
        self.report("compress", 1.0)
        return replace(cells, about=self.about("cells", cells.rows), action_features=self.action_features)

    def _rows(self, streamed: StreamedLog) -> BanditLog:
        log = streamed.schema.log(self.engine.table(streamed.table()))
        cluster = np.unique(log.cluster, return_inverse=True)[1] if log.has_clusters else log.cluster
        return replace(log, cluster=cluster, about=self.about("rows", log.rows))

    def _schema(self, extra: tuple[str, ...]) -> Schema:
        """What rows share, learned from the engine."""
        roles = self.roles
        rows = normalized(self.table, roles, self.facts.labels, extra)
        levels = {}
        for j, name in enumerate(roles.context):
            if rows[f"x{j}"].type().is_string():
                present = self.engine.table(rows.select(f"x{j}").distinct().limit(MAX_LEVELS))
                levels[name] = sorted(v for v in present[f"x{j}"].to_pylist() if v is not None)

        def labels(role: str) -> tuple[Any, ...] | None:
            if role not in rows.columns:
                return None
            return codes_of(self.engine.table(rows.select(role).distinct()), role)[0]

        return Schema(
            roles, self.facts.space, extra, labels("batch"), labels("fold"), levels, features=self.action_features
        )

    def about(self, way: str, held: int) -> dict[str, Any]:
        """Who reads the log and how much is in memory at once, for the settings of a result."""
        return self.described_as(way, self.n, held)


@checks_arguments
def scan(
    source: Any,
    *,
    context: Sequence[str] | str | None,
    action: str,
    reward: str | Sequence[str],
    propensity: str | Sequence[str] | Mapping[Label, str] | None = None,
    batch: str | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    actions: Sequence[Label] | ActionSpace | None = None,
    id: str | None = None,  # noqa: A002
    keep_probability: str | None = None,
    fold: str | None = None,
    action_features: Any = None,
    action_kind: ActionKind = "discrete",
    outcome: Any = None,
    way: Way = "auto",
    **reading: Any,
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
        As in `BanditLog.from_frame`. Its rows are read into memory at once, up to ``max_rows``.
    id : column name, optional
        Integer or text that tells rows apart. Folds are a hash of it (of ``cluster`` where given), so
        they are the same on every engine. Without it folds are a hash of the row's number, where rows have
        an order (files and DuckDB).
    way : {"auto", "rows", "cells", "stream"}
        What comes over: all rows, weighted cells, or blocks of rows one after another. It is a matter of
        speed: the answer is the same. "auto" chooses by the number of rows and distinct values.
    **reading
        The options of `offpolicy.engines.reading.Reading`: ``table=``, ``engine=``, ``memory_limit=``, ``threads=``,
        ``temp_directory=``, ``network=``, ``max_rows=``, ``max_cells=``, ``chunk_rows=``, ``fit_rows=``, ``progress=``.

    Returns
    -------
    LogScan
        Or, where ``outcome`` is given, a `BanditLog`.

    Examples
    --------
    >>> import pandas as pd, offpolicy as op
    >>> frame = pd.DataFrame({"age": [20, 31] * 5, "ad": ["a", "b"] * 5, "click": [0, 1] * 5})
    >>> log = op.scan(frame, context=["age"], action="ad", reward="click")
    >>> log.n, log.actions
    (10, ('a', 'b'))
    """
    names = (context,) if isinstance(context, str) else tuple(() if context is None else context)
    if way not in WAYS:
        raise UsageError(f"way= must be one of {', '.join(WAYS)}. Got {way!r} instead.")
    if propensity is not None and not isinstance(propensity, str | Mapping):
        propensity = tuple(propensity)
    space = space_of(actions, action_kind)
    space.check_given({"action_features": action_features})
    if not space.finite and not isinstance(propensity, str | None):
        space.whole_columns(propensity)
    if not space.finite and way == "cells":
        raise UsageError(
            "way='cells' counts equal rows, and actions that are numbers seldom repeat. Use way='rows' or 'stream'."
        )
    read = Reading.of(reading)
    rewards = reward_names(reward)
    labels = (None if space.numeric else action, batch, cluster, id, fold)
    runner, rows = read.open(source, [name for name in labels if name is not None])
    roles = Roles(
        names,
        action,
        rewards[0],
        propensity,
        batch,
        cluster,
        weight,
        keep_probability,
        id,
        fold,
        space=space,
        further=rewards[1:],
    )
    try:
        roles.check(rows.columns)
        check_feature_columns(action_features, rows.columns, names)
    except BaseException:
        runner.close()
        raise
    described = str(source) if isinstance(source, str) else type(source).__name__
    made = LogScan(
        runner,
        rows,
        roles,
        way,
        Limits(read.max_rows, read.max_cells, read.chunk_rows, read.fit_rows),
        read.progress,
        described,
        given_features=action_features,
    )
    if outcome is None:
        return made
    columns = {
        "context": names, "action": action, "reward": list(rewards), "propensity": propensity, "batch": batch,
        "cluster": cluster, "weight": weight, "actions": actions, "id": id, "keep_probability": keep_probability,
        "fold": fold, "action_features": action_features, "action_kind": action_kind,
    }  # fmt: skip
    # A log of rows answers all that a scan is asked by `evaluate`, `check` and the command line.
    return cast("LogScan", read_rows(made, outcome, **columns))


# Help, editors and checks see every option by its name; each is declared once, in `Reading`.
scan.__signature__ = signature(scan)  # type: ignore[attr-defined]


def policy_columns(named: dict[str, Any]) -> tuple[str, ...]:
    """Columns of the source that policies name besides the context."""
    columns = (name for policy in named.values() for name in getattr(policy, "reads", ()))
    return tuple(dict.fromkeys(columns))
