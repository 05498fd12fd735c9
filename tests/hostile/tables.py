"""Tables with something wrong in them, and everyone who reads tables: a row of the catalogue for each pair."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import offpolicy as op
from offpolicy.logs.formats import read_dsjson, read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

N = 24
X = [round(0.1 * i, 1) for i in range(N)]
AD = ["a", "b"] * (N // 2)
CLICK = [float(i % 3 == 0) for i in range(N)]
P = [0.5, 0.25] * (N // 2)
ROLES = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}
TAKES = "b"  # the policy's action


def weighted(click: list[float], p: list[float], ad: list[Any], takes: Any) -> float:
    """IPW of a policy that always takes one action, by hand."""
    return float(np.mean([r / q if a == takes else 0.0 for r, q, a in zip(click, p, ad, strict=True)]))


@dataclass(frozen=True)
class Fault:
    """A change to a sound table, and what must come of it: a number, or an error with these words."""

    name: str
    change: dict[str, Any] = field(default_factory=dict)  # columns put in place of the sound ones
    roles: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    takes: Any = TAKES
    drop: tuple[str, ...] = ()
    expected: float | None = None
    not_for: frozenset[str] = frozenset()


def at(values: list[Any], value: Any, row: int = 5) -> list[Any]:
    """Values with one of them changed."""
    return [value if i == row else v for i, v in enumerate(values)]


TEXT = frozenset({"csv", "csv scan"})  # readers of text, in which some faults cannot be written
JSON = frozenset({"jsonl"})
ENGINES = frozenset({"csv scan", "parquet scan", "pandas scan"})

FAULTS = (
    Fault("none"),
    Fault("reward missing", {"click": at(CLICK, None)}, words="missing or infinite|is not a number|no usable",
          not_for=JSON),
    Fault("reward infinite", {"click": at(CLICK, float("inf"))}, words="infinite", not_for=JSON),
    Fault("reward is text", {"click": at([str(c) for c in CLICK], "oops")}, words="not numbers|not a number",
          not_for=JSON),
    Fault("reward of 1e200", {"click": at(CLICK, 1e200)}, words="larger than 1e30"),
    Fault("reward of -1e200", {"click": at(CLICK, -1e200)}, words="larger than 1e30"),
    Fault("rewards of 1e-200", {"click": [c * 1e-200 for c in CLICK]}, words="largest reward is 1e-200"),
    Fault("rewards beyond 2^53", {"click": [2**53 + 1 + i for i in range(N)]}, words="2.53|last digits",
          not_for=JSON | ENGINES | {"csv"}),
    Fault("rewards differ in rounding", {"click": [1e12 if c else float(np.nextafter(1e12, 2e12)) for c in CLICK]},
          words="last digits"),
    Fault("rewards are dates", {"click": [np.datetime64("2024-01-01") + i for i in range(N)]},
          words="dates|not numbers|holds|as the reward", not_for=JSON | TEXT | {"polars"}),
    Fault("propensity 0", {"p": at(P, 0.0)}, words="zero or negative"),
    Fault("propensity negative", {"p": at(P, -0.5)}, words="zero or negative"),
    Fault("propensity in percent", {"p": [100 * p for p in P]}, words="divide by 100"),
    Fault("propensity above 1 by rounding", {"p": at(P, 1.0000001)}, words="only by rounding"),
    Fault("propensity missing", {"p": at(P, None)}, words="propensity is missing|is not a number", not_for=JSON),
    Fault("propensity of 1e-160", {"p": at(P, 1e-160)}, words="below 1e-30"),
    Fault("action missing", {"ad": at(AD, None)}, words="action is missing", not_for=JSON),
    Fault("actions continuous", {"ad": [0.013 * i + 0.001 for i in range(3 * N)], "x": X * 3, "click": CLICK * 3,
                                 "p": P * 3}, words="continuous", takes=None, not_for=JSON | {"jsonl"}),
    Fault("no such column", {}, {"reward": "clik"}, words="Did you mean 'click'"),
    Fault("context holds the reward", {}, {"context": ["x", "click"]}, words="contains the reward"),
    Fault("context holds the action", {}, {"context": ["x", "ad"]}, words="contains the action"),
    Fault("context lists a column twice", {}, {"context": ["x", "x"]}, words="twice"),
    Fault("column name is no text", {}, {"action": 3}, words="column name", not_for=frozenset({"csv scan"})),
    Fault("action not listed", {}, {"actions": ["a", "c"]}, words="not in the list of actions"),
    Fault("action listed twice", {}, {"actions": ["a", "b", "b"]}, words="listed twice"),
    Fault("a list of no actions", {}, {"actions": []}, words="empty"),
    Fault("a billion actions", {}, {"actions": range(10**9)}, words="limit is 1,000,000", not_for=ENGINES),
    Fault("weight negative", {"w": at([1.0] * N, -1.0)}, {"weight": "w"}, words="negative"),
    Fault("weight missing", {"w": at([1.0] * N, None)}, {"weight": "w"}, words="missing or infinite"),
    Fault("weights all 0", {"w": [0.0] * N}, {"weight": "w"}, words="every weight is 0"),
    Fault("weight of 1e200", {"w": at([1.0] * N, 1e200)}, {"weight": "w"}, words="larger than 1e30"),
    Fault("weights of 1e-300", {"w": [1e-300] * N}, {"weight": "w"}, words="largest weight"),
    Fault("keep-probability 0", {"k": at([1.0] * N, 0.0)}, {"keep_probability": "k"}, words="zero or negative"),
    Fault("keep-probability 2", {"k": at([1.0] * N, 2.0)}, {"keep_probability": "k"}, words="above 1"),
    Fault("cluster missing", {"u": at(AD, None)}, {"cluster": "u"}, words="cluster is missing"),
    Fault("batch missing", {"u": at(AD, None)}, {"batch": "u"}, words="batch is missing"),
    Fault("id twice", {"u": [0, *range(N - 1)]}, {"id": "u"}, words="repeat the id"),
    Fault("id is a fraction", {"u": [i + 0.5 for i in range(N)]}, {"id": "u"}, words="integer or text"),
    # -- odd, and sound
    Fault("rewards are booleans", {"click": [bool(c) for c in CLICK]}),
    Fault("rewards are integers", {"click": [int(c) for c in CLICK]}),
    Fault("rewards are all .1", {"click": [0.1] * N}, expected=weighted([0.1] * N, P, AD, TAKES)),
    Fault("a constant of 1e12 on every reward", {"click": [c + 1e12 for c in CLICK]},
          expected=weighted([c + 1e12 for c in CLICK], P, AD, TAKES)),
    Fault("context missing in a row", {"x": at(X, None)}),
    Fault("context missing everywhere", {"x": [None] * N}, not_for=frozenset({"polars", "arrow", "parquet scan"})),
    Fault("labels in other scripts", {"ad": ["щ", "中文"] * (N // 2)}, takes="中文"),
    Fault("labels with separators", {"ad": ['say "a", b', "new\nline"] * (N // 2)}, takes="new\nline"),
    Fault("labels that are formulas", {"ad": ["=1+1", "@SUM(A1)"] * (N // 2)}, takes="@SUM(A1)"),
    Fault("labels with terminal escapes", {"ad": ["\x1b[31mred", "b"] * (N // 2)}),
    Fault("labels that look like numbers", {"ad": ["1e3", "1000"] * (N // 2)}, takes="1000"),
    Fault("labels with leading zeros", {"ad": ["007", "7"] * (N // 2)}, takes="7"),
    Fault("labels that look missing", {"ad": ["NA", "null"] * (N // 2)}, takes="null"),
    Fault("labels are whole numbers", {"ad": [0, 1] * (N // 2)}, takes=1),
    Fault("labels are large whole numbers", {"ad": [2**60, 2**60 + 1] * (N // 2)}, takes=2**60 + 1),
    Fault("labels are booleans", {"ad": [True, False] * (N // 2)}, takes=False),
    Fault("an action that was never logged", {}, {"actions": ["a", "b", "c"]}),
    Fault("text ids", {"u": [f"r{i:02d}" for i in range(N)]}, {"id": "u"}),
    Fault("clusters", {"u": [i // 2 for i in range(N)]}, {"cluster": "u"}),
    Fault("large cluster numbers", {"u": [2**61 + i // 2 for i in range(N)]}, {"cluster": "u"}),
)  # fmt: skip


def table_of(fault: Fault) -> dict[str, list[Any]]:
    """The columns with the fault in them."""
    return {"x": X, "ad": AD, "click": CLICK, "p": P} | fault.change


def expected_number(fault: Fault) -> float:
    """What IPW must be."""
    if fault.expected is not None:
        return fault.expected
    table = table_of(fault)
    return weighted([float(c) for c in table["click"]], table["p"], table["ad"], fault.takes)


def _frame(table: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(table)


def _pandas(table: dict[str, Any], roles: dict[str, Any], _: Path) -> Any:
    return op.BanditLog.from_frame(_frame(table), **roles)


def _polars(table: dict[str, Any], roles: dict[str, Any], _: Path) -> Any:
    return op.BanditLog.from_frame(pl.DataFrame(table, strict=False), **roles)


def _arrow(table: dict[str, Any], roles: dict[str, Any], _: Path) -> Any:
    return op.BanditLog.from_frame(pa.Table.from_pandas(_frame(table), preserve_index=False), **roles)


def _csv(table: dict[str, Any], roles: dict[str, Any], folder: Path) -> Any:
    from offpolicy.engines.csv import read_csv

    path = folder / "log.csv"
    _frame(table).to_csv(path, index=False)
    labels = [roles[r] for r in ("action", "cluster", "batch", "id") if isinstance(roles.get(r), str)]
    return op.BanditLog.from_frame(read_csv(str(path), labels), **roles)


def _csv_scan(table: dict[str, Any], roles: dict[str, Any], folder: Path) -> Any:
    path = folder / "log.csv"
    _frame(table).to_csv(path, index=False)
    return op.scan(str(path), **roles)


def _parquet_scan(table: dict[str, Any], roles: dict[str, Any], folder: Path) -> Any:
    path = folder / "log.parquet"
    _frame(table).to_parquet(path, index=False)
    return op.scan(str(path), way="rows", **roles)


def _pandas_scan(table: dict[str, Any], roles: dict[str, Any], _: Path) -> Any:
    return op.scan(_frame(table), way="stream", **roles)


def _jsonl(table: dict[str, Any], roles: dict[str, Any], folder: Path) -> Any:
    """A trace knows its own roles: faults of the arguments are tried on the log's."""
    path = folder / "log.jsonl"
    with path.open("w") as file:
        for x, a, r, p in zip(*(table[c] for c in ("x", "ad", "click", "p")), strict=True):
            file.write(json.dumps({"context": {"x": x}, "action": a, "reward": r, "act_prob": p}) + "\n")
    return read_jsonl(path).log()


READERS: dict[str, Callable[[dict[str, Any], dict[str, Any], Path], Any]] = {
    "pandas": _pandas,
    "polars": _polars,
    "arrow": _arrow,
    "csv": _csv,
    "csv scan": _csv_scan,
    "parquet scan": _parquet_scan,
    "pandas scan": _pandas_scan,
    "jsonl": _jsonl,
}


def applies(reader: str, fault: Fault) -> bool:
    """Whether a fault can be written in what a reader reads."""
    if reader in fault.not_for:
        return False
    # A trace has its roles in its own fields.
    return reader != "jsonl" or (not fault.roles and set(fault.change) <= {"x", "ad", "click", "p"})


def number(reader: str, fault: Fault, folder: Path) -> float:
    """IPW of the policy, by one reader."""
    log = READERS[reader](table_of(fault), {**ROLES, **fault.roles}, folder)
    takes = fault.takes

    def policy(context: Any) -> Any:
        return np.array([takes] * len(context), dtype=object)

    ev = op.evaluate(log, policy, estimators=["IPW"])
    value = float(ev["policy", "IPW"].value)
    if hasattr(log, "close"):
        log.close()
    return value


def dsjson_lines() -> list[tuple[str, bytes, str]]:
    """Bad lines of dsjson: name, line, words of the reason."""
    good: dict[str, Any] = {
        "_label_cost": -1.0, "_label_probability": 0.5, "_labelIndex": 1,
        "c": {"hour": 9, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]},
    }  # fmt: skip

    def line(**changes: Any) -> bytes:
        return json.dumps(good | changes).encode()

    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    return [
        ("cut off", line()[:-9], "not valid JSON"),
        ("a list", b"[1, 2]", "not a JSON object"),
        ("a number", b"7", "not a JSON object"),
        ("latin-1", '{"é": 1}'.encode("latin-1"), "not UTF-8"),
        ("a null byte", b"\x00\x01\x02", "not valid JSON"),
        ("no label", line(_label_cost=None), "is not a number"),
        ("no candidates", line(c={"hour": 1}), "no field '_multi'"),
        ("candidates are numbers", line(c={"_multi": [1, 2]}), "not in the expected form"),
        ("candidates are text", line(c={"_multi": "ab"}), "not in the expected form"),
        ("context is a list", line(c=[1]), "not in the expected form"),
        ("candidates with one name", line(c={"_multi": [{"_tag": "a"}, {"_tag": "a"}]}), "same label"),
        ("a name that is a list", line(c={"_multi": [{"_tag": [1]}, {}]}), "not text or a number"),
        ("chosen beyond the candidates", line(_labelIndex=9), "not among the 2 candidates"),
        ("chosen 10^9", line(_labelIndex=None, _label_Action=10**9), "not among the 2 candidates"),
        ("chosen 0.5", line(_labelIndex=0.5), "not a whole number"),
        ("chosen is text", line(_labelIndex="x"), "is not a number"),
        ("cost is text", line(_label_cost="1"), "is not a number"),
        ("cost is NaN", line(_label_cost=float("nan")), "not a finite number"),
        ("cost of 400 digits", line().replace(b"-1.0", b"1" + b"0" * 400), "not a finite number"),
        ("cost of 9,000 digits", line().replace(b"-1.0", b"1" + b"0" * 9_000), "not in the expected form|not a finite"),
        ("probability 0", line(_label_probability=0), "not in .0, 1."),
        ("probability 2", line(_label_probability=2.0), "not in .0, 1."),
        ("probability is NaN", line(_label_probability=float("nan")), "not a finite number"),
        ("pdrop 1", line(pdrop=1.0), "not in .0, 1."),
        ("pdrop is text", line(pdrop="x"), "is not a number"),
        ("nested 200 deep", line(c={"x": deep, "_multi": [{}, {}]}), "levels deep"),
        ("brackets 100,000 deep", b'{"c":' + b"[" * 100_000, "nested too deeply|not valid JSON"),
        ("20,000 fields", line(c={**{f"f{i}": i for i in range(20_000)}, "_multi": [{}, {}]}), "context fields"),
        ("a continuous action", line(_label_ca={"action": 1}), "continuous action"),
        ("no outcomes", line(_outcomes=[]), "not in the expected form"),
    ]


def dsjson_reason(line: bytes, folder: Path) -> str:
    """Why a line was left out; the good line beside it must be read."""
    good = b'{"_label_cost": 1, "_label_probability": 0.5, "_labelIndex": 0, "c": {"_multi": [{"id": 0}, {"id": 1}]}}'
    path = folder / "log.json"
    path.write_bytes(line + b"\n" + good + b"\n")
    reading = read_dsjson(path)
    assert reading.frame["action"].tolist() == ["0"]  # an id of 0 is a name
    assert reading.n_bad == 1
    return reading.bad[0].reason
