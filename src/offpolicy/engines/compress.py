"""A log as weighted cells: GROUP BY (context, action, rewards, propensity, batch, fold, …) → count.

The cells are a `BanditLog` whose rows carry counts, so the same models, scores and inference run on
them and give what they would give on the rows.

Cells come back in no particular order, so they are sorted: the same log gives the same arrays, and hence
the same fits, on every engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.engine import ibis_module
from offpolicy.engines.rows import codes_of, distribution_of, further_of, numbers
from offpolicy.engines.table import fold_columns, normalized, numbered
from offpolicy.errors import DataError, OffPolicyError
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.frame import Context
from offpolicy.logs.given import unit_numbers
from offpolicy.logs.reader import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats, Ints
    from offpolicy.engines.engine import Engine
    from offpolicy.engines.facts import Facts
    from offpolicy.logs.roles import Roles
    from offpolicy.splits.folds import Plan


MOST_PROBABILITIES = 50_000_000  # of whole distributions, held in memory


class TooManyCellsError(OffPolicyError):
    """Compression does not pay: more cells than may be held."""


def compress(
    engine: Engine, table: Any, roles: Roles, facts: Facts, plan: Plan, *, extra: Sequence[str] = (), max_cells: int
) -> BanditLog:
    """Compress a checked log.

    Parameters
    ----------
    extra : column names
        Columns that policies name, kept apart in the cells.
    max_cells : int
        `TooManyCellsError` beyond it.
    """
    # A cell of a log with the whole distribution holds a number for each action.
    max_cells = min(max_cells, MOST_PROBABILITIES // max(1, len(roles.distribution)))
    rows = normalized(table, roles, facts.labels, extra)
    rows = rows if roles.fold is not None else numbered(rows, engine)
    contexts = _contexts(engine, rows, roles, max_cells)
    joined = _coded(engine, rows, roles, facts, contexts)
    # Rows that share all their metrics share a cell: metrics of many values make many cells.
    keys = ["ctx", "code", "reward", *(f"metric{j}" for j in range(len(roles.further)))]
    keys += [c for c in ("propensity", "weight", "batch", "cluster") if c in rows.columns]
    keys += [f"p{j}" for j in range(len(roles.distribution))]
    keys += [f"extra{j}" for j in range(len(extra))]
    sizes = {"ctx": 1 if contexts is None else contexts.num_rows, "code": len(facts.labels)}
    folds = ["fold"]
    if roles.fold is None:
        drawn = fold_columns(joined, plan)
        folds = list(drawn)
        sizes |= {name: plan.k if name.startswith("fold") else 2 for name in folds}
        joined = joined.mutate(**drawn)
    packing = None
    if engine.packs_keys:
        packing = find_packing(engine, rows, {key: sizes.get(key) for key in [*keys, *folds]})
    cells = _grouped(engine, joined, [*keys, *folds], packing, max_cells=max_cells)
    count = numbers(cells, "n")
    if int(count.sum()) != facts.n:
        raise DataError(
            f"the log changed while it was read, or its contexts do not equal themselves: "
            f"{facts.n:,} rows were checked but {int(count.sum()):,} were compressed."
        )
    log = _log(cells, contexts, roles, facts, extra, folds, count)
    del cells
    release_memory()
    return log


def _grouped(engine: Engine, rows: Any, keys: list[str], packing: Packing | None, *, max_cells: int) -> Any:
    """Cells with their counts, in the order of their keys."""
    by = keys
    if packing is not None:
        rows, by = packing.pack(engine, rows), [KEY]
    cells = _collect(engine, rows.group_by(by).aggregate(n=rows.count()), max_cells)
    if packing is not None:
        return packing.unpack(cells)
    return cells.take(_canonical_order(cells, keys))


def release_memory() -> None:
    """Give memory that Arrow holds for later back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


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
        raise DataError(f"a context column cannot be sorted: {error}. Use plain columns.") from error
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
    if not engine.keeps_order:  # its results may come whole, however large
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
    cells: Any, contexts: Any, roles: Roles, facts: Facts, extra: Sequence[str], folds: list[str], count: Floats
) -> BanditLog:
    def optional(name: str) -> Any:
        return numbers(cells, name) if name in cells.column_names else None

    def group(name: str) -> tuple[Any, Any]:
        return codes_of(cells, name) if name in cells.column_names else (None, None)

    def stacked(start: str) -> Any:
        chosen = [codes_of(cells, name)[1] for name in folds if name.startswith(start)]
        return np.stack(chosen) if chosen else None

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
    clusters, cluster = group("cluster")
    half = stacked("half")
    return BanditLog(
        context=context,
        space=facts.space,
        action=np.asarray(cells["code"].to_numpy(), dtype=np.int64),
        reward=numbers(cells, "reward"),
        further=further_of(roles, partial(numbers, cells)),
        propensity=optional("propensity"),
        distribution=distribution_of(roles, optional),
        batch=batch,
        batch_labels=batch_labels or (),
        cluster=cluster,
        unit=None if clusters is None else unit_numbers(np.array(clusters))[cluster],
        weight=optional("weight"),
        count=count,
        fold=stacked("fold"),
        half=None if half is None else half == 1,
        source=source,
        names=names_of(roles),
    )


MOST_VALUES = 20_000
MOST_BITS = 62
KEY = "packed"


@dataclass(frozen=True, eq=False)
class Packing:
    """How a row's keys become one integer, first key highest.

    Attributes
    ----------
    names : tuple of str
        The key columns.
    bits : tuple of int
        Bits that each takes.
    values : dict
        Sorted distinct values of the columns that are looked up; the others are small numbers already.
    """

    names: tuple[str, ...]
    bits: tuple[int, ...]
    values: dict[str, Any]

    def pack(self, engine: Engine, rows: Any) -> Any:
        """Rows with the packed key beside their columns."""
        import pyarrow as pa

        for name, values in self.values.items():
            codes = pa.array(np.arange(len(values)), pa.int64())
            known = engine.upload(pa.table({f"{name}_value": values, f"{name}_code": codes}))
            rows = rows.join(known, [rows[name] == known[f"{name}_value"]])
        key: Any = None
        for name, bits in zip(self.names, self.bits, strict=True):
            code = rows[f"{name}_code" if name in self.values else name].cast("int64")
            key = code if key is None else key * (1 << bits) + code
        return rows.mutate(**{KEY: key})

    def unpack(self, cells: Any) -> Any:
        """Cells in the order of their keys, with a column for each key instead of the packed one."""
        import pyarrow as pa

        key, others = self._sorted(cells)
        columns: dict[str, Any] = {}
        shift = sum(self.bits)
        for name, bits in zip(self.names, self.bits, strict=True):
            shift -= bits
            column = pa.array(((key >> shift) & ((1 << bits) - 1)).astype(np.int32))
            columns[name] = self.values[name].take(column) if name in self.values else column
        return pa.table({**columns, **others})

    def _sorted(self, cells: Any) -> tuple[Ints, dict[str, Any]]:
        """Sorted keys, and the other columns in their order."""
        import pyarrow as pa

        key = np.asarray(cells[KEY].to_numpy(), dtype=np.int64)
        names = [name for name in cells.column_names if name != KEY]
        free = MOST_BITS - sum(self.bits)
        if names == ["n"]:
            count = np.asarray(cells["n"].to_numpy(), dtype=np.int64)
            if int(count.max(initial=0)) < 1 << free:
                # Counts travel in the free bits: numbers sort faster than their order is found.
                both = np.sort((key << free) | count)
                return both >> free, {"n": pa.array(both & ((1 << free) - 1))}
        order = np.argsort(key)
        return key[order], {name: cells[name].take(pa.array(order)) for name in names}


def find_packing(engine: Engine, rows: Any, sizes: dict[str, int | None]) -> Packing | None:
    """A packing of the keys, or None where they do not fit or values are missing.

    ``sizes`` gives the number of values of each key that is a number from 0 on, and None for the others.
    """
    import pyarrow.compute as pc

    values: dict[str, Any] = {}
    for name, size in sizes.items():
        if size is None:
            found = engine.table(rows.select(name).distinct().limit(MOST_VALUES + 1))[name]
            found = found.combine_chunks()
            if len(found) > MOST_VALUES or found.null_count:
                return None
            values[name] = found.take(pc.sort_indices(found))
    bits = [_bits(len(values[name]) if size is None else size) for name, size in sizes.items()]
    if sum(bits) > MOST_BITS:
        return None
    return Packing(tuple(sizes), tuple(bits), values)


def _bits(size: int) -> int:
    return max(1, (size - 1).bit_length())
