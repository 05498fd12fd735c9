"""An engine of one's own: tables of Arrow in a list, which nothing but this file knows how to query."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.engines import Here, register
from offpolicy.engines.reading import OPENERS

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Shards:
    """Our source: the hours of a day, each an Arrow table."""

    tables: list[pa.Table]


class ShardEngine(Here):
    """Queries over the shards, as SQL; rows come shard after shard."""

    name = "shards"
    keeps_order = True

    def __init__(self, shards: Shards) -> None:
        super().__init__()
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.connection.register("shards", pa.concat_tables(shards.tables))
        self.asked = 0

    def table(self, expression: Any) -> pa.Table:
        self.asked += 1
        return self.connection.sql(ibis.to_sql(expression, dialect="duckdb")).to_arrow_table()

    def batches(self, expression: Any, rows: int = 100_000) -> Iterator[pa.RecordBatch]:
        yield from self.table(expression).to_batches(max_chunksize=rows)

    def upload(self, table: pa.Table) -> Any:
        name = f"t{uuid.uuid4().hex}"
        self.connection.register(name, table)
        return ibis.table(ibis.Schema.from_pyarrow(table.schema), name=name)

    def close(self) -> None:
        super().close()
        self.connection.close()


def open_shards(source: Shards, _reading: Any, _labels: Any) -> tuple[ShardEngine, Any]:
    """The engine, and its rows as an Ibis table."""
    return ShardEngine(source), ibis.table(ibis.Schema.from_pyarrow(source.tables[0].schema), name="shards")


@pytest.fixture(autouse=True)
def shards() -> Iterator[None]:
    known = list(OPENERS)
    register(lambda source, _: isinstance(source, Shards), open_shards)
    yield
    OPENERS[:] = known


def world(n: int = 1_200) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"age": rng.integers(20, 60, n), "spend": rng.gamma(2.0, 1.0, n).round(2)})
    frame["ad"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    frame["p"] = frame["ad"].map({"a": 0.5, "b": 0.3, "c": 0.2})
    frame["click"] = (rng.random(n) < 0.1 + 0.1 * (frame["ad"] == "b") + 0.02 * frame["spend"]) * 1
    frame["user"] = [f"user {i}" for i in rng.integers(0, n // 3, n)]
    return frame


ROLES = {"context": ["age", "spend"], "action": "ad", "reward": "click", "propensity": "p"}


@pytest.mark.parametrize("cluster", [None, "user"])
@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_the_answer_is_that_of_a_frame(way: str, cluster: str | None) -> None:
    frame = world()
    hours = Shards([pa.Table.from_pandas(frame[i : i + 400]) for i in range(0, len(frame), 400)])
    settings = {"reward_model": LinearRegression(), "estimators": ["DML", "SNIPW", "DM"]}
    policy = {"soft": lambda rows: np.column_stack([rows["age"] / 90, rows["age"] / 180, 1 - rows["age"] / 60])}
    here = op.evaluate(op.BanditLog.from_frame(frame, **ROLES, cluster=cluster), policy, **settings)
    with op.scan(hours, **ROLES, cluster=cluster, way=way, chunk_rows=500) as log:
        there = op.evaluate(log, policy, **settings)
        assert log.engine.asked > 0
        for name in settings["estimators"]:
            assert there["soft", name].value == pytest.approx(here["soft", name].value, rel=1e-9)
            assert there["soft", name].interval() == pytest.approx(here["soft", name].interval(), rel=1e-6)
        assert there.settings["engine"]["engine"] == "shards"
        assert [f.name for f in there.diagnostics] == [f.name for f in here.diagnostics]


def test_bad_rows_are_named_as_everywhere() -> None:
    frame = world().assign(p=lambda f: f["p"] * 100)
    log = op.scan(Shards([pa.Table.from_pandas(frame)]), **ROLES)
    with log, pytest.raises(op.errors.DataError, match="They look like percentages: divide by 100"):
        log.check()
