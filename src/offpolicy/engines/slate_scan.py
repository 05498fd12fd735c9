"""A log of slates that stays where it is: read whole, or passed over in blocks of whole slates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._visible import printable
from offpolicy.engines.scan import MAX_ROWS, Limits, Progress, policy_columns
from offpolicy.engines.scanned import Scanned
from offpolicy.engines.slate_schema import SlateFacts, SlateRoles, SlateSchema, facts_of, ordered
from offpolicy.engines.slate_stream import SlateRows, StreamedSlates
from offpolicy.engines.sources import open_source
from offpolicy.errors import UsageError, check_choice
from offpolicy.logs.metrics import check_metric, reward_names
from offpolicy.splits.folds import check_enough

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpolicy.engines.engine import Engine
    from offpolicy.logs.actions import Label
    from offpolicy.logs.slates import Slates
    from offpolicy.splits.folds import Plan

SlateWay: TypeAlias = Literal["auto", "rows", "stream"]


@dataclass(frozen=True, eq=False)
class SlateScan(Scanned):
    """Slates behind a query engine. Build it with `offpolicy.scan_slates` and give it to `evaluate`.

    Nothing is read until it is evaluated. The engine puts the rows in the order of slate and position; every slate is
    checked once, as one in memory is.
    """

    engine: Engine
    table: Any
    roles: SlateRoles
    given_actions: tuple[Label, ...] | None
    way: SlateWay
    limits: Limits
    progress: Progress | None
    described: str

    kind: ClassVar[str] = "slates"
    in_memory: ClassVar[bool] = False
    is_continuous: ClassVar[bool] = False
    action_features: ClassVar[None] = None

    @printable
    def __repr__(self) -> str:
        roles = self.roles
        return (
            f"SlateScan({self.engine.name}: {self.described}, slate {roles.slate!r}, context {list(roles.context)}, "
            f"action {roles.action!r}, reward {', '.join(map(repr, roles.rewards))})"
        )

    @cached_property
    def facts(self) -> SlateFacts:
        """Numbers of slates and slots, and the items; by queries."""
        self.report("check", 0.0)
        found = facts_of(self.engine, self.table, self.roles, self.given_actions)
        self.report("check", 1.0)
        return found

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the shown item is known."""
        return self.roles.propensity is not None

    @property
    def n(self) -> int:
        """Slates."""
        return self.facts.n

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K items."""
        return self.facts.labels

    @property
    def nameable(self) -> tuple[str, ...]:
        """Columns that a policy may name."""
        return tuple(self.table.columns)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the rewards, the first of which is the log's."""
        return self.roles.rewards

    def with_reward(self, name: str) -> SlateScan:
        """The same log with another of its metrics as the reward."""
        check_metric(name, self.metrics)
        rest = tuple(other for other in self.metrics if other != name)
        return replace(self, roles=replace(self.roles, rewards=(name, *rest)))

    def up_to(self, steps: int) -> SlateScan:
        """Refused, as by slates in memory."""
        raise UsageError(
            f"horizon={steps!r} is for episodes. For the value of the first slots of a slate set the rewards of the "
            "others to 0."
        )

    def read(self, extra: tuple[str, ...] = ()) -> Slates:
        """All slates in memory."""
        rows = self.engine.table(ordered(self.table, self.roles, extra))
        log = self.schema.log(rows.to_pandas())
        return replace(log, about=self.about("rows", log.rows))

    def whole(self) -> Slates:
        """All of it in memory, on which the checks of a log run."""
        return self.read()

    @property
    def schema(self) -> SlateSchema:
        """How rows become slates."""
        return SlateSchema(self.roles, self.facts)

    def opened(
        self, plan: Plan, named: dict[str, Any], value_model: Any, behavior_model: Any
    ) -> Slates:
        """The slates in memory, or what is narrow of them with contexts that come in blocks."""
        for what, model in (("value_model", value_model), ("behavior_model", behavior_model)):
            if isinstance(model, np.ndarray | list | tuple | dict):
                raise UsageError(
                    f"{what}= as an array has one row per slot, which a scanned log does not hold. Give a model, or "
                    "load the log with Slates.from_frame."
                )
        if plan.labels is not None or plan.stratify is not None:
            raise UsageError(
                "folds= must be an int for a scanned log. Labels of your own come in a column: scan_slates(…, fold=…)."
            )
        extra = policy_columns({**named, "": behavior_model})
        if self.roles.fold is None and self.roles.cluster is None:
            check_enough(plan.k, self.n, "slates")
        few = self.facts.rows <= self.limits.rows
        if self.way == "rows" or (self.way == "auto" and few):
            return self.read(extra)
        return StreamedSlates.of(SlateRows(self, extra))

    def about(self, way: str, held: int) -> dict[str, Any]:
        """Who reads the log and how much is in memory at once, for the settings of a result."""
        return self.described_as(way, self.facts.rows, held)


@checks_arguments
def scan_slates(
    source: Any,
    *,
    slate: str,
    position: str,
    context: Sequence[str] | str | None,
    action: str,
    reward: str | Sequence[str],
    propensity: str | Sequence[str] | None = None,
    interaction: Any = "cascade",
    reward_of: str | None = None,
    distinct: bool | None = None,
    cluster: str | None = None,
    weight: str | None = None,
    fold: str | None = None,
    actions: Sequence[Label] | None = None,
    table: str | None = None,
    engine: str | None = None,
    way: SlateWay = "auto",
    memory_limit: str | None = None,
    threads: int | None = None,
    temp_directory: str | Path | None = None,
    network: bool = False,
    max_rows: int = MAX_ROWS,
    chunk_rows: int = 250_000,
    fit_rows: int = 2_000_000,
    progress: Progress | None = None,
) -> SlateScan:
    """Open a log of slates that is larger than memory, or that lives in an engine.

    Parameters
    ----------
    source : path or pattern, DuckDB relation or connection, Arrow dataset, Ibis table, Spark DataFrame
        One row per slot, in any order: the engine sorts by slate and position.
    slate, position, context, action, reward, propensity, interaction, reward_of, distinct, cluster, weight, fold,
    actions
        As in `Slates.from_frame`. Lists of candidates are for slates in memory.
    way : {"auto", "rows", "stream"}
        All slates in memory, or blocks of whole slates one after another, of which only items, rewards, propensities
        and predictions stay. It is a matter of speed: the answer is the same. "auto" streams beyond ``max_rows`` slots.
    table, engine, memory_limit, threads, temp_directory, network, progress
        As in `scan`.
    max_rows : int
        Most slots to hold in memory with their contexts.
    chunk_rows : int
        Slots of a block when streaming.
    fit_rows : int
        When streaming, most slots that models are fitted to; beyond, slates are drawn by a hash and estimates say so.

    Returns
    -------
    SlateScan

    Examples
    --------
    >>> import pandas as pd, offpolicy as op
    >>> frame = pd.DataFrame({"request": [1, 1, 2, 2], "pos": [1, 2, 1, 2], "item": ["a", "b", "b", "a"],
    ...                       "click": [0, 1, 1, 0], "p": [0.5, 1.0, 0.5, 1.0]})
    >>> log = op.scan_slates(frame, slate="request", position="pos", context=None, action="item", reward="click",
    ...                      propensity="p")
    >>> log.n, log.actions
    (2, ('a', 'b'))
    """
    check_choice("way", way, "auto", "rows", "stream")
    if engine not in {None, "duckdb"} and memory_limit is not None:
        raise UsageError("memory_limit= is DuckDB's. Spark takes spark.executor.memory.")
    roles = SlateRoles(
        slate,
        position,
        (context,) if isinstance(context, str) else tuple(() if context is None else context),
        action,
        reward_names(reward),
        propensity if isinstance(propensity, str | None) else tuple(propensity),
        cluster,
        weight,
        fold,
        interaction,
        reward_of,
        distinct,
    )
    runner, rows = open_source(
        source,
        table=table,
        engine=engine,
        memory_limit=memory_limit,
        threads=threads,
        temp_directory=temp_directory,
        network=network,
        labels=[name for name in (slate, action, cluster, fold) if name is not None],
    )
    try:
        roles.check(rows.columns)
    except BaseException:
        runner.close()
        raise
    limits = Limits(rows=max_rows, chunk=chunk_rows, fit_rows=fit_rows)
    described = str(source) if isinstance(source, str) else type(source).__name__
    given = None if actions is None else tuple(actions)
    return SlateScan(runner, rows, roles, given, way, limits, progress, described)
