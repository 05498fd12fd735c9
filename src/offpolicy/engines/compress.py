"""A log as weighted cells: GROUP BY (context, action, reward, propensity, batch, fold, …) → count.

The cells are a `BanditLog` whose rows carry counts, so the same nuisances, scores and inference run on
them and give what they would give on the rows. Where rewards are continuous, sums suffice for every score
that is affine in the reward: a cell with n rewards of mean r̄ and variance s² is two rows with rewards
r̄ ± s that count n/2 each, which has the same n, Σr and Σr².

Cells come back in no particular order, so they are sorted: the same log gives the same arrays, and hence
the same fits, on every engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import places
from offpolicy.engines.engine import ibis_module
from offpolicy.engines.packing import KEY, find_packing
from offpolicy.engines.roles import fold_column, normalized
from offpolicy.errors import DataError, OffPolicyError
from offpolicy.logs.actions import encode
from offpolicy.logs.bandit import BanditLog, Names
from offpolicy.logs.frame import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.engines.engine import Engine
    from offpolicy.engines.packing import Packing
    from offpolicy.engines.roles import Roles
    from offpolicy.engines.validate import Facts


class TooManyCellsError(OffPolicyError):
    """Compression does not pay: more cells than may be held."""


@dataclass(frozen=True)
class FoldPlan:
    """K folds, drawn R times from one seed."""

    k: int = 2
    repeats: int = 1
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Cells:
    """A compressed log and the (R, cells) fold labels of its rows."""

    log: BanditLog
    folds: Ints


def compress(
    engine: Engine,
    table: Any,
    roles: Roles,
    facts: Facts,
    plan: FoldPlan,
    *,
    extra: Sequence[str] = (),
    sums: bool = False,
    max_cells: int,
) -> Cells:
    """Compress a checked log.

    Parameters
    ----------
    extra : column names
        Columns that policies name, kept apart in the cells.
    sums : bool
        Group without the reward and keep its sums, for scores affine in it.
    max_cells : int
        `TooManyCellsError` beyond it.
    """
    rows = normalized(table, roles, facts.labels, extra)
    contexts = _contexts(engine, rows, roles, max_cells)
    joined = _coded(engine, rows, roles, facts, contexts)
    keys = ["ctx", "code", *([] if sums else ["reward"])]
    keys += [c for c in ("propensity", "weight", "batch", "cluster") if c in rows.columns]
    keys += [f"extra{j}" for j in range(len(extra))]
    folds = [f"fold{r}" for r in range(plan.repeats)] if "id" in rows.columns else []
    sizes = {"ctx": 1 if contexts is None else contexts.num_rows, "code": len(facts.labels)}
    sizes |= dict.fromkeys(folds, plan.k)
    if roles.fold is not None:
        folds = ["fold"]
    else:
        joined = joined.mutate(
            **{name: fold_column(joined, plan.k, plan.seed, r) for r, name in enumerate(folds)}
        )
    packing = None
    if engine.name == "duckdb":
        packing = find_packing(engine, rows, {key: sizes.get(key) for key in [*keys, *folds]})
    cells = _grouped(engine, joined, [*keys, *folds], packing, sums=sums, max_cells=max_cells)
    if int(np.asarray(cells["n"]).sum()) != facts.n:
        raise DataError(
            f"the log changed while it was read, or its contexts do not compare equal to themselves: "
            f"{facts.n:,} rows were checked and {int(np.asarray(cells['n']).sum()):,} compressed."
        )
    count = _numbers(cells, "n")
    labels = np.stack([codes_of(cells, f)[1] for f in folds]) if folds else None
    if labels is None:
        at, count, labels = split_at_random(count, plan)
        cells = cells.take(at)
    reward = _numbers(cells, "mean" if sums else "reward")
    if sums:
        spread = np.sqrt(np.maximum(_numbers(cells, "spread"), 0.0))
        at, reward, count = two_points(reward, spread, count)
        cells, labels = cells.take(at), labels[:, at]
    log = _log(cells, contexts, roles, facts, extra, reward, count)
    del cells
    release_memory()
    return Cells(log, labels)


def _grouped(
    engine: Engine,
    rows: Any,
    keys: list[str],
    packing: Packing | None,
    *,
    sums: bool,
    max_cells: int,
) -> Any:
    """Cells with their counts (and sums of rewards), in the order of their keys."""
    by = keys
    if packing is not None:
        rows, by = packing.pack(engine, rows), [KEY]
    made = {"n": rows.count()}
    if sums:
        made |= {"mean": rows.reward.mean(), "spread": rows.reward.var(how="pop")}
    cells = _collect(engine, rows.group_by(by).aggregate(**made), max_cells)
    if packing is not None:
        return packing.unpack(cells)
    return cells.take(_canonical_order(cells, keys))


def release_memory() -> None:
    """Give memory that Arrow holds for later back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def split_at_random(count: Floats, plan: FoldPlan) -> tuple[Ints, Floats, Ints]:
    """Split cells over folds as if every row had drawn its own: multinomial counts.

    Returns the cell of each part, its count, and the (R, parts) fold labels.
    """
    at = np.arange(len(count), dtype=np.int64)
    labels = np.empty((0, len(count)), dtype=np.int64)
    for repeat in range(plan.repeats):
        rng = np.random.default_rng(np.random.SeedSequence([plan.seed, repeat, 0xF01D, 1]))
        left = count.astype(np.int64)
        shares = []
        for fold in range(plan.k):
            drawn = left if fold == plan.k - 1 else rng.binomial(left, 1 / (plan.k - fold))
            shares.append(drawn)
            left = left - drawn
        part, fold_of = np.nonzero(np.column_stack(shares))
        count = np.column_stack(shares)[part, fold_of].astype(np.float64)
        labels = np.vstack([labels[:, part], fold_of])
        at = at[part]
    return at, count, labels


def two_points(mean: Floats, spread: Floats, count: Floats) -> tuple[Ints, Floats, Floats]:
    """Rows r̄ ± s of half the count each, or r̄ alone where s = 0: same n, Σr and Σr²."""
    wide = np.flatnonzero(spread > 0)
    at = np.concatenate([np.arange(len(mean)), wide])
    order = np.argsort(at, kind="stable")
    reward = np.concatenate([mean + spread, mean[wide] - spread[wide]])
    half = np.where(spread > 0, count / 2, count)
    return at[order], reward[order], half[at[order]]


def _contexts(engine: Engine, rows: Any, roles: Roles, limit: int) -> Any:
    """Arrow table of the distinct contexts, sorted; None when there are no context columns."""
    import pyarrow as pa

    if not roles.context:
        return None
    names = [f"x{j}" for j in range(len(roles.context))]
    found = _collect(engine, rows.select(*names).distinct(), limit)
    try:
        found = found.sort_by([(name, "ascending") for name in names])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(
            f"a context column cannot be sorted: {error}. Use plain columns."
        ) from error
    return found.combine_chunks()


def _coded(engine: Engine, rows: Any, roles: Roles, facts: Facts, contexts: Any) -> Any:
    """Rows with the numbers of their context and action instead of their values."""
    import pyarrow as pa

    ibis = ibis_module()
    keep = [c for c in rows.columns if not (c.startswith("x") and c[1:].isdigit())]
    kind = rows.action.type().to_pyarrow()
    position = {label: i for i, label in enumerate(facts.labels)}
    codes = pa.array([position[label] for label in facts.logged], pa.int32())
    actions = engine.upload(pa.table({"label": pa.array(facts.logged, kind), "code": codes}))
    joined = rows.join(actions, [rows.action == actions.label])
    if contexts is None:
        coded = joined.mutate(ctx=ibis.literal(0, type="int32"))
    else:
        numbered = contexts.rename_columns([f"y{j}" for j in range(len(roles.context))])
        numbered = numbered.append_column("ctx", pa.array(np.arange(contexts.num_rows), pa.int32()))
        known = engine.upload(numbered)
        # Plain equality lets every engine hash the join; it is right where nothing is missing.
        conditions = [
            joined[f"x{j}"] == known[f"y{j}"]
            if facts.nulls[name] == 0
            else joined[f"x{j}"].identical_to(known[f"y{j}"])
            for j, name in enumerate(roles.context)
        ]
        coded = joined.join(known, conditions)
    return coded.select("ctx", "code", *(c for c in keep if c != "action"))


def _collect(engine: Engine, expression: Any, limit: int) -> Any:
    """Result as one Arrow table, given up when it has more than ``limit`` rows."""
    import pyarrow as pa

    batches = []
    total = 0
    schema = None
    if engine.name != "duckdb":
        expression = expression.limit(limit + 1)
    for batch in engine.batches(expression):
        schema = batch.schema
        total += batch.num_rows
        if total > limit:
            raise TooManyCellsError(f"more than {limit:,} cells")
        batches.append(batch)
    if schema is None:
        return engine.table(expression)
    return pa.Table.from_batches(batches, schema)


def _numbers(cells: Any, name: str) -> Floats:
    return np.asarray(cells[name].to_numpy(), dtype=np.float64)


def codes_of(cells: Any, name: str) -> tuple[tuple[Any, ...], Ints]:
    """Sorted labels of a column and the position of each entry among them; missing ones come last."""
    column = cells[name].combine_chunks()
    if (small := _small_integers(column)) is not None:
        return small
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    labels: tuple[Any, ...]
    if distinct.type in _number_types():
        values = distinct.to_numpy(zero_copy_only=False)
        order = np.argsort(values)
        rank = np.empty(len(values), dtype=np.int64)
        rank[order] = np.arange(len(values))
        labels = tuple(values[order].tolist())
    else:
        objects = np.empty(len(distinct), dtype=object)
        objects[:] = distinct.to_pylist()
        labels, rank = encode(objects, None, name)
    if column.null_count:
        labels, rank = (*labels, None), np.append(rank, len(labels))
    indices = encoded.indices.fill_null(len(distinct)) if column.null_count else encoded.indices
    index = indices.to_numpy(zero_copy_only=False)
    return labels, rank[index]


def _small_integers(column: Any) -> tuple[tuple[Any, ...], Ints] | None:
    """The same for integers of a narrow range, by marking those that occur."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count or len(column) == 0:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    if high - low >= len(values) or high >= 2**62:
        return None
    present, place = places(values.astype(np.int64) - low, high - low + 1)
    return tuple((present + low).tolist()), place


def _number_types() -> set[Any]:
    import pyarrow as pa

    return {pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8()}


def _canonical_order(cells: Any, keys: Sequence[str]) -> Ints:
    """Positions that sort the cells by their keys, whatever order the engine gave them in."""
    coded = [
        (np.asarray(cells[k].to_numpy(), dtype=np.int64), cells[k].to_numpy().max(initial=0) + 1)
        if k in {"ctx", "code"}
        else ((c := codes_of(cells, k))[1], len(c[0]))
        for k in keys
    ]
    room = 1
    for _, size in coded:
        room *= int(size)
    if room < 2**62:
        packed = np.zeros(cells.num_rows, dtype=np.int64)
        for codes, size in coded:
            packed = packed * int(size) + codes
        return np.argsort(packed)
    return np.lexsort([codes for codes, _ in reversed(coded)])


def _log(
    cells: Any,
    contexts: Any,
    roles: Roles,
    facts: Facts,
    extra: Sequence[str],
    reward: Floats,
    count: Floats,
) -> BanditLog:
    def optional(name: str) -> Floats | None:
        return _numbers(cells, name) if name in cells.column_names else None

    def group(name: str) -> tuple[tuple[Any, ...] | None, Ints | None]:
        return codes_of(cells, name) if name in cells.column_names else (None, None)

    index = np.asarray(cells["ctx"].to_numpy(), dtype=np.int64)
    if contexts is None:
        context = Context(np.empty((1, 0)), index)
    else:
        frame = contexts.rename_columns(list(roles.context)).to_pandas()
        context = Context.from_frame(frame, index)
    source = None
    if extra:
        columns = cells.select([f"extra{j}" for j in range(len(extra))])
        source = columns.rename_columns(list(extra)).to_pandas()
    batch_labels, batch = group("batch")
    return BanditLog(
        context=context,
        actions=facts.labels,
        action=np.asarray(cells["code"].to_numpy(), dtype=np.int64),
        reward=reward,
        propensity=optional("propensity"),
        batch=batch,
        batch_labels=batch_labels,
        cluster=group("cluster")[1],
        weight=optional("weight"),
        count=count,
        source=source,
        names=names_of(roles),
    )


def names_of(roles: Roles) -> Names:
    """What the owner calls the parts of the log."""
    propensity = roles.propensity if isinstance(roles.propensity, str) else "propensity"
    return Names(
        roles.action, roles.reward, propensity, roles.batch or "batch", roles.cluster or "cluster"
    )
