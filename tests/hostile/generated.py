"""Crossings: readers × ways × kinds of logs × roles × faults, from declared tables, with the answer known for each.

A *kind* of log declares its columns, its roles and, by a plain loop, what the policy earns. A *reader* writes a table
somewhere and opens it again, in one or several ways. A *fault* changes what a role's column holds, what a column is
called, or where a file lies, and says what must come of it: the number of the loop, an error, or either of the two.
``python tests/hostile/generated.py`` runs all of them and prints the counts; with a page it writes them there, and with
a number every so manyth case runs (``docs/reliability.md 8``). A new kind or reader joins by an entry of its table.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import math
import random
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import offpolicy as op
from offpolicy.cli import main
from offpolicy.errors import OffPolicyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Table = dict[str, list[Any]]
Must = Literal["number", "error", "either"]
N = 24
FEW = 400  # of them in every run of the tests
RIGHT, CLEAR, OBSCURE, WRONG, UNWRITTEN = (
    "right number",
    "clear error",
    "obscure error",
    "silent wrong",
    "not writable",
)


# -- kinds of logs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of log: its sound table, the columns by role, and what the policy earns in it."""

    name: str
    table: Table
    roles: dict[str, str]  # what every log of this kind has
    optional: dict[str, str]  # roles that a fault may ask for besides
    numbers: tuple[str, ...]  # roles that are computed with
    labels: tuple[str, ...]  # roles that tell things apart
    truth: Callable[[Table, dict[str, str], Any], float]
    open_frame: Callable[..., Any]
    open_scan: Callable[..., Any] | None
    ways: tuple[str, ...] = ()
    takes: Any = "b"
    settings: dict[str, Any] | None = None  # of a run file besides the roles; None: the command line cannot say it


def _bandit_truth(table: Table, roles: dict[str, str], takes: Any) -> float:
    total = mass = 0.0
    for i in range(len(table[roles["reward"]])):
        weight = float(table[roles["weight"]][i]) if "weight" in roles else 1.0
        weight /= float(table[roles["keep_probability"]][i]) if "keep_probability" in roles else 1.0
        same = _same(table[roles["action"]][i], takes)
        total += weight * float(table[roles["reward"]][i]) / float(table[roles["propensity"]][i]) * same
        mass += weight
    return total / mass


def _same(one: Any, other: Any) -> bool:
    """Whether two labels are one: 1, True and "1" are three."""
    alike = all(isinstance(one, kind) == isinstance(other, kind) for kind in (str, bool))
    return alike and bool(one == other)


def _unit_truth(table: Table, unit: str, order: str, roles: dict[str, str], takes: Any) -> float:
    """Mean over units of Σ_t (Π_{s ≤ t} ρ_s) r_t, whichever order the rows are in."""
    rows: dict[Any, list[int]] = {}
    for i, each in enumerate(table[roles[unit]]):
        rows.setdefault((isinstance(each, bool), each), []).append(i)
    total = mass = 0.0
    for members in rows.values():
        ratio, earned = 1.0, 0.0
        for i in sorted(members, key=lambda i: table[roles[order]][i]):
            ratio *= _same(table[roles["action"]][i], takes) / float(table[roles["propensity"]][i])
            earned += ratio * float(table[roles["reward"]][i])
        weight = float(table[roles["weight"]][members[0]]) if "weight" in roles else 1.0
        total, mass = total + weight * earned, mass + weight
    return total / mass


def _numbers_truth(table: Table, roles: dict[str, str], takes: Any) -> float:
    """A kernel of width 1 around the policy's number: 0.75 (1 − u²), divided where the range cuts it."""
    low, high = 0.0, 4.0

    def mass(end: float) -> float:
        u = max(-1.0, min(1.0, end - takes))
        return 0.75 * (u - u**3 / 3) + 0.5

    inside = mass(high) - mass(low)
    total = weights = 0.0
    for i, price in enumerate(table[roles["action"]]):
        u = float(price) - takes
        weight = float(table[roles["weight"]][i]) if "weight" in roles else 1.0
        density = 0.75 * (1 - u * u) / inside if abs(u) < 1 else 0.0
        total += weight * density / float(table[roles["propensity"]][i]) * float(table[roles["reward"]][i])
        weights += weight
    return total / weights


def _columns() -> Table:
    return {
        "x": [round(0.1 * i, 1) for i in range(N)],
        "g": ["nl", "de", "fr"] * (N // 3),
        "ad": ["a", "b"] * (N // 2),
        "click": [float(i % 3 == 0) for i in range(N)],
        "p": [0.5, 0.25] * (N // 2),
        "u": [i // 2 for i in range(N)],
        "h": ["mon", "tue"] * (N // 2),
        "w": [1.0, 2.0, 0.5] * (N // 3),
        "k": [0.5, 1.0] * (N // 2),
        "i": [7 * j for j in range(N)],
    }


def _prices() -> Table:
    return {**_columns(), "price": [round(4 * i / (N - 1), 3) for i in range(N)], "d": [0.25] * N}


def _sequence(unit: str, order: str, first: int) -> Table:
    rows = _columns()
    return {**rows, unit: [i // 2 for i in range(N)], order: [first + i % 2 for i in range(N)],
            "ad": ["a", "b", "b"] * (N // 3), "w": [1.0 + (i // 2) % 3 for i in range(N)]}  # fmt: skip


def _scan_prices(source: Any, **roles: Any) -> Any:
    return op.scan(source, action_kind="continuous", actions=(0.0, 4.0), **roles)


KINDS = (
    Kind(
        "single decisions", _columns(), {"action": "ad", "reward": "click", "propensity": "p"},
        {"cluster": "u", "batch": "h", "weight": "w", "keep_probability": "k", "id": "i"},
        ("reward", "propensity", "weight", "keep_probability"), ("action", "cluster", "batch", "id"),
        _bandit_truth, lambda frame, **roles: op.BanditLog.from_frame(frame, context=["x", "g"], **roles),
        lambda source, **roles: op.scan(source, context=["x", "g"], **roles), ("rows", "cells", "stream"),
        settings={"context": ["x", "g"]},
    ),
    Kind(
        "numbers as actions", _prices(), {"action": "price", "reward": "click", "propensity": "d"}, {"weight": "w"},
        ("action", "reward", "propensity", "weight"), (),
        _numbers_truth,
        lambda frame, **roles: op.BanditLog.from_frame(
            frame, context=["x"], action_kind="continuous", actions=(0.0, 4.0), **roles
        ),
        lambda source, **roles: _scan_prices(source, context=["x"], **roles), ("rows", "stream"), takes=2.0,
    ),
    Kind(
        "episodes", _sequence("e", "t", 0),
        {"episode": "e", "step": "t", "action": "ad", "reward": "click", "propensity": "p"}, {"weight": "w"},
        ("reward", "propensity", "weight"), ("action", "episode"),
        lambda table, roles, takes: _unit_truth(table, "episode", "step", roles, takes),
        lambda frame, **roles: op.Trajectories.from_frame(frame, state=["x"], **roles),
        lambda source, **roles: op.Trajectories.scan(source, state=["x"], **roles), ("rows", "stream"),
        settings={"state": ["x"]},
    ),
    Kind(
        "slates", _sequence("q", "pos", 1),
        {"slate": "q", "position": "pos", "action": "ad", "reward": "click", "propensity": "p"}, {"weight": "w"},
        ("reward", "propensity", "weight"), ("action", "slate"),
        lambda table, roles, takes: _unit_truth(table, "slate", "position", roles, takes),
        lambda frame, **roles: op.Slates.from_frame(frame, context=["x"], distinct=False, **roles),
        lambda source, **roles: op.Slates.scan(source, context=["x"], distinct=False, **roles), ("rows", "stream"),
    ),
)  # fmt: skip


# -- readers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Writes a table and opens it again; a file's name and folder are up to a fault."""

    name: str
    write: Callable[[Table, Path], Any]
    read: Callable[[Any, Kind, dict[str, str]], Any]  # a frame, or what a scan takes
    scans: bool = False
    told: bool = False  # by a run file, to the command line
    suffix: str = ""  # of a file
    text: bool = False  # cells have no types
    types: tuple[type, ...] = field(default=())  # that cannot be told from others in it


def _labels(kind: Kind, roles: dict[str, str]) -> list[str]:
    return [column for role, column in roles.items() if role in kind.labels]


def _read_csv(path: Path, kind: Kind, roles: dict[str, str]) -> Any:
    from offpolicy.engines.csv import read_csv

    return read_csv(str(path), _labels(kind, roles))


def _write_json(table: Table, path: Path) -> Path:
    names = list(table)
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*table.values(), strict=True):
            file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False) + "\n")
    return path


def _read_json(path: Path, _: Kind, __: dict[str, str]) -> Any:
    from offpolicy.cli.files import read_table

    return read_table(str(path)).frame


def _csv(table: Table, path: Path) -> Path:
    pd.DataFrame(table).to_csv(path, index=False, encoding="utf-8")
    return path


def _parquet(table: Table, path: Path) -> Path:
    pd.DataFrame(table).to_parquet(path, index=False)
    return path


def _read_parquet(path: Path, _: Kind, __: dict[str, str]) -> Any:
    from offpolicy.cli.files import read_table

    return read_table(str(path)).frame


def _connection(table: Table) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.register("given", pa.Table.from_pandas(pd.DataFrame(table), preserve_index=False))
    connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return connection


def _polars(table: Table) -> Any:
    """A polars frame; a column of several types would be made one type by polars itself."""
    for values in table.values():
        kinds = {float if type(v) is int else type(v) for v in values if v is not None}
        if len(kinds) > 1:
            raise TypeError(f"polars holds no column of {kinds}")
    return pl.DataFrame(table, strict=False)


def _as_is(value: Any, _: Kind, __: dict[str, str]) -> Any:
    return value


def _path(value: Any, _: Kind, __: dict[str, str]) -> Any:
    return str(value)


def _frame_of(backend: str) -> Callable[[Table, Path], Any]:
    return lambda table, _: pd.DataFrame(table).convert_dtypes(dtype_backend=backend)


def _arrow(table: Table, _: Path) -> Any:
    return pa.Table.from_pandas(pd.DataFrame(table), preserve_index=False)


READERS = (
    Reader("pandas", lambda table, _: pd.DataFrame(table), _as_is),
    Reader("polars", lambda table, _: _polars(table), _as_is),
    Reader("arrow", _arrow, _as_is),
    Reader("pandas, nullable", _frame_of("numpy_nullable"), _as_is),
    Reader("pandas, Arrow types", _frame_of("pyarrow"), _as_is),
    Reader("CSV", _csv, _read_csv, suffix=".csv", text=True),
    Reader("CSV, gzipped", _csv, _read_csv, suffix=".csv.gz", text=True),
    Reader("JSON lines", _write_json, _read_json, suffix=".jsonl"),
    Reader("Parquet", _parquet, _read_parquet, suffix=".parquet"),
    Reader("pandas, scanned", lambda table, _: pd.DataFrame(table), _as_is, scans=True),
    Reader("CSV, scanned", _csv, _path, scans=True, suffix=".csv", text=True),
    Reader("Parquet, scanned", _parquet, _path, scans=True, suffix=".parquet"),
    Reader("polars, scanned", lambda table, _: _polars(table), _as_is, scans=True),
    Reader("arrow, scanned", _arrow, _as_is, scans=True),
    Reader("CSV, run file", _csv, _path, told=True, suffix=".csv", text=True),
    Reader("Parquet, run file", _parquet, _path, told=True, suffix=".parquet"),
    Reader("JSON lines, run file", _write_json, _path, told=True, suffix=".jsonl"),
    Reader("DuckDB relation", lambda table, _: _connection(table), lambda c, _, __: c.table("rows"), scans=True),
)  # fmt: skip


# -- faults --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A change of one role's column, and what must come of it; ``takes`` is the policy's label from then on."""

    name: str
    change: Callable[[list[Any]], list[Any]]
    must: Must
    takes: Any = None
    not_text: bool = False  # cannot be said in a file without types


def at(value: Any, row: int = 5) -> Callable[[list[Any]], list[Any]]:
    """One entry changed."""
    return lambda values: [value if i == row else v for i, v in enumerate(values)]


def every(change: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Every entry changed."""
    return lambda values: [change(v) for v in values]


def named(*names: Any) -> Callable[[list[Any]], list[Any]]:
    """Labels called otherwise, in the order of their first row."""

    def change(values: list[Any]) -> list[Any]:
        place = {value: i for i, value in enumerate(dict.fromkeys(values))}
        return [names[place[v]] if place[v] < len(names) else f"other {place[v]}" for v in values]

    return change


DAY = dt.date(2024, 1, 1)
ANY_NUMBER = (
    Fault("missing in a row", at(None), "error"),
    Fault("NaN in a row", at(math.nan), "error"),
    Fault("infinite in a row", at(math.inf), "error"),
    Fault("minus infinity in a row", at(-math.inf), "error"),
    Fault("a word in a row", at("oops"), "error"),
    Fault("missing everywhere", every(lambda _: None), "error"),
    Fault("1e200 in a row", at(1e200), "error"),
    Fault("all of 1e-200", every(lambda v: 1e-200 * v), "error"),
    Fault("dates", every(lambda _: DAY), "error"),
    Fault("durations", every(lambda v: dt.timedelta(days=v)), "error"),
    Fault("complex", every(lambda v: complex(v, 1)), "error"),
    Fault("lists", every(lambda v: [v]), "error"),
    Fault("objects", every(lambda v: {"v": v}), "error"),
    Fault("written as text", every(str), "either"),
    Fault("with percent signs", every(lambda v: f"{v}%"), "error"),
    Fault("with a currency", every(lambda v: f"€{v}"), "error"),
    Fault("with decimal commas", every(lambda v: str(v).replace(".", ",")), "error"),
    Fault("with a point of thousands", every(lambda v: f"1.{int(1000 * v):03d},5"), "error"),
    Fault("in hexadecimal", every(lambda v: float(v).hex()), "error"),
    Fault("as decimals", every(lambda v: decimal.Decimal(str(v))), "either"),
    Fault("numbers and one text of a number", at("1"), "either"),
    Fault("in single precision", every(lambda v: np.float32(v).item()), "either"),
)  # fmt: skip
OF_ROLE: dict[str, tuple[Fault, ...]] = {
    "reward": (
        Fault("booleans", every(bool), "number"), Fault("whole numbers", every(int), "number"),
        Fault("negative", every(lambda v: -v), "number"), Fault("all 0", every(lambda _: 0.0), "number"),
        Fault("beyond 2^53", every(lambda v: 2**53 + 1 + int(v)), "either"),
        Fault("plus 1e6", every(lambda v: v + 1e6), "number"),
    ),
    "propensity": (
        Fault("0 in a row", at(0.0), "error"), Fault("negative in a row", at(-0.25), "error"),
        Fault("tiny in a row", at(1e-160), "error"),
    ),
    "weight": (
        Fault("negative in a row", at(-1.0), "error"), Fault("0 in a row", at(0.0), "either"),
        Fault("all 0", every(lambda _: 0.0), "error"), Fault("in another unit", every(lambda v: v / 1024), "number"),
        Fault("whole numbers", every(lambda v: 1 + int(v)), "number"),
    ),
    "keep_probability": (
        Fault("0 in a row", at(0.0), "error"), Fault("2 in a row", at(2.0), "error"),
        Fault("all 1", every(lambda _: 1.0), "number"),
    ),
    "id": (Fault("twice", lambda v: [v[0], *v[:-1]], "error"), Fault("fractions", every(lambda v: v + 0.5), "error")),
}  # fmt: skip
PAIRS: dict[str, tuple[Any, Any]] = {
    "with leading zeros": ("007", "7"), "written as numbers": ("1e3", "1000"), "that look missing": ("NA", "null"),
    "None in words": ("None", "nan"), "with blanks": ("ad", "ad "), "with blanks before": (" ad", "ad"),
    "of other scripts": ("щ", "中文"), "with quotes": ('say "a"', "it's"),
    "with line ends": ("new\nline", "new\r\nline"),
    "with separators": ("a,b", "a;b\t|"), "that are formulas": ("=1+1", "'=1+1"), "true and True": ("true", "True"),
    "dates in words": ("2024-01-02", "2024-1-2"), "of combining marks": ("é", "e\u0301"),
    "with escapes": ("\x1b[31m", "b"),
    "in other case": ("Ad", "ad"), "of 20 digits": ("12345678901234567890", "12345678901234567891"),
    "in infinity": ("inf", "Infinity"), "with a sign": ("+1", "1"), "minus zero": ("-0", "0"),
    "with underscores": ("1_000", "1000"),
    "whole numbers": (0, 1), "negative numbers": (-1, 1), "of 61 bits": (2**60, 2**60 + 1),
    "of 64 bits": (2**63, 2**63 + 1),
    "booleans": (True, False), "fractions": (0.5, 0.25), "numbers and text": (1, "1"), "true and 1": (True, 1),
    "beyond 2^53 as floats": (2.0**53, 2.0**53 + 2),
}  # fmt: skip
UNTYPED = {"numbers and text", "true and 1", "beyond 2^53 as floats"}
ANY_LABEL = (
    Fault("missing in a row", at(None), "error"),
    Fault("NaN in a row", at(math.nan), "either", not_text=True),  # polars makes a text of it
    Fault("missing everywhere", every(lambda _: None), "error"),
    Fault("lists", every(lambda v: [v]), "error", not_text=True),
    Fault("objects", every(lambda v: {"v": v}), "error", not_text=True),
    *(
        Fault(f"labels {name}", named(*pair), "either", pair[1], name in UNTYPED)
        for name, pair in PAIRS.items()
    ),
)  # fmt: skip
NAMES = (
    "a b", 'quo"te', "it's", "SELECT", "x; DROP TABLE rows; --", "naïve", "数", "a=b", "p[0]", "%s", "{x}", "$1",
    "rowid", "index", "unit", "fold", "name", "x0", "cell", "offpolicy_file", "a.b", "a\tb", "*", "\\",
)  # fmt: skip
PLACES = (
    "p=1/log",
    "P=1/log",
    "click=1/log",
    "ad=b/log",
    "click=0/ad=b/log",
    "day=3/log",
    "log[1]",
    "lo*",
    "a b/log",
    "it's",
    "#1%20",
)


@dataclass(frozen=True)
class Case:
    """One crossing."""

    kind: Kind
    reader: Reader
    way: str
    role: str
    fault: str
    must: Must
    table: Table
    roles: dict[str, str]
    takes: Any
    place: str = "log"

    def __str__(self) -> str:
        way = f" ({self.way})" if self.way else ""
        return f"{self.kind.name}, {self.reader.name}{way}: {self.role}: {self.fault}"


def cases() -> Iterator[Case]:
    """Every crossing."""
    for kind in KINDS:
        for reader in READERS:
            if (reader.scans and kind.open_scan is None) or (reader.told and kind.settings is None):
                continue
            for way in kind.ways if reader.scans else ("",):
                yield from _crossings(kind, reader, way)


def _crossings(kind: Kind, reader: Reader, way: str) -> Iterator[Case]:
    for role, column in {**kind.roles, **kind.optional}.items():
        roles = kind.roles | {role: column}
        known = (ANY_NUMBER if role in kind.numbers else ()) + (ANY_LABEL if role in kind.labels else ())
        for fault in (*known, *(OF_ROLE.get(role, ()) if known else ())):
            if fault.not_text and reader.text:
                continue
            takes = fault.takes if role == "action" and fault.takes is not None else kind.takes
            changed = {**kind.table, column: fault.change(kind.table[column])}
            yield Case(kind, reader, way, role, fault.name, fault.must, changed, roles, takes)
        for name in NAMES:
            table = {(name if c == column else c): values for c, values in kind.table.items()}
            yield Case(kind, reader, way, role, f"called {name!r}", "either", table, roles | {role: name}, kind.takes)
    yield from _whole_tables(kind, reader, way)
    for place in PLACES if reader.suffix else ():
        yield Case(kind, reader, way, "file", f"at {place}", "number", kind.table, kind.roles, kind.takes, place)


def _whole_tables(kind: Kind, reader: Reader, way: str) -> Iterator[Case]:
    table, roles = kind.table, kind.roles

    def case(fault: str, must: Must, changed: Table) -> Case:
        return Case(kind, reader, way, "table", fault, must, changed, roles, kind.takes)

    yield case("sound", "number", table)
    yield case("columns in another order", "number", dict(reversed(table.items())))
    yield case("a column more", "number", {**table, "more": list(range(N))})
    yield case("a column of lists more", "either", {**table, "more": [[i] for i in range(N)]})
    yield case("a column that differs by case", "either", {"CLICK": [9.0] * N, **table})
    yield case("no rows", "error", {name: values[:0] for name, values in table.items()})
    if kind.name == "single decisions":
        yield case("rows twice", "number", {name: values * 2 for name, values in table.items()})
        yield case("in another order", "number", {name: values[::-1] for name, values in table.items()})
    for column in dict.fromkeys(roles.values()):
        yield case(f"without {column!r}", "error", {c: v for c, v in table.items() if c != column})


# -- running -------------------------------------------------------------------------------------------------------


def outcome(case: Case, folder: Path) -> tuple[str, str]:
    """The class of what came of a case, and what was said."""
    suffix = case.reader.suffix
    path = folder / f"{case.place}{suffix or '.none'}"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        written = case.reader.write(case.table, path)
    except Exception as error:  # noqa: BLE001 — the table cannot be held so
        return UNWRITTEN, str(error)
    try:
        expected = case.kind.truth(case.table, case.roles, case.takes)
    except (TypeError, ValueError, KeyError, ZeroDivisionError, OverflowError):
        expected = math.nan  # no number is right
    return _judged(case, written, expected)


def _judged(case: Case, written: Any, expected: float) -> tuple[str, str]:
    try:
        value = _value(case, written)
    except OffPolicyError as error:
        return (CLEAR if case.must != "number" else OBSCURE), str(error)
    except Exception as error:  # noqa: BLE001 — this is what is looked for
        return OBSCURE, f"{type(error).__name__}: {error}"
    if math.isnan(value):
        return CLEAR, "nothing is claimed"
    if case.must != "error" and math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-9):
        return RIGHT, ""
    return WRONG, f"{value}, not {expected}"


def _told(case: Case, log: Path) -> float:
    """What the command line says, told by a run file."""
    assert case.kind.settings is not None
    folder = Path(tempfile.mkdtemp(dir=log.parent))
    settings = {"log": str(log), **case.roles, **case.kind.settings, "estimators": ["IPW"]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    lines += ["[policies]", f"policy = {json.dumps(f'always:{case.takes}')}"]
    (folder / "run.toml").write_text("\n".join(lines), encoding="utf-8")
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code = main(["evaluate", "--config", str(folder / "run.toml"), "--json", str(folder / "told.json")])
    if code:
        assert "Traceback" not in said.getvalue()
        raise UsageError(said.getvalue())
    rows = json.loads((folder / "told.json").read_text(encoding="utf-8"))["estimates"]
    (value,) = [r["value"] for r in rows if (r["policy"], r["estimator"]) == ("policy", "IPW")]
    return math.nan if value is None else float(value)


def _value(case: Case, written: Any) -> float:
    if case.reader.told:
        return _told(case, written)
    kind, takes = case.kind, case.takes

    def policy(context: Any) -> Any:
        if kind.name == "numbers as actions":
            return np.full(len(context), takes)
        labels = np.empty(len(context), dtype=object)
        labels[:] = [takes] * len(context)
        return labels

    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = case.reader.read(written, kind, case.roles)
        if case.reader.scans:
            assert kind.open_scan is not None
            log = stack.enter_context(kind.open_scan(source, way=case.way, **case.roles))
        else:
            log = kind.open_frame(source, **case.roles)
        ratio = {"ratio": op.KernelRatio(1.0)} if kind.name == "numbers as actions" else {}
        return float(op.evaluate(log, policy, estimators=["IPW"], **ratio)["policy", "IPW"].value)


@cache
def sample() -> list[Case]:
    """A fixed part of the crossings, for every run of the tests."""
    everything = list(cases())
    return random.Random(30).sample(everything, FEW)


def run(chosen: list[Case]) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Counts by kind of log and class, and every case that is silent or obscure."""
    counts: Counter[tuple[str, str]] = Counter()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(chosen):
            place = Path(folder) / str(i)
            place.mkdir()
            result, said = outcome(case, place)
            counts[case.kind.name, result] += 1
            if result in {WRONG, OBSCURE}:
                bad.append(f"{result}: {case}: {said}"[:300])
    return counts, bad


def page(counts: Counter[tuple[str, str]]) -> str:
    """Markdown: cases by kind of log and class."""
    classes = (RIGHT, CLEAR, OBSCURE, WRONG)
    lines = [f"| kind of log | {' | '.join(classes)} | cases |", "|---|" + "---:|" * 5]
    for kind in KINDS:
        row = [counts[kind.name, each] for each in classes]
        lines.append(f"| {kind.name} | {' | '.join(map(str, row))} | {sum(row)} |")
    total = [sum(counts[kind.name, each] for kind in KINDS) for each in classes]
    lines.append(f"| **all** | {' | '.join(f'**{n}**' for n in total)} | **{sum(total)}** |")
    return "\n".join(lines)


BEGIN, END = "<!-- crossings: begin -->", "<!-- crossings: end -->"


def write_page(target: Path, counts: Counter[tuple[str, str]]) -> None:
    """Put the counts between the marks of a page."""
    before, rest = target.read_text(encoding="utf-8").split(BEGIN)
    target.write_text(f"{before}{BEGIN}\n{page(counts)}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    every_case, step = list(cases()), int(sys.argv[2]) if sys.argv[2:] else 1
    found, bad_ones = run(every_case[step - 1 :: step])
    print(page(found))
    print(*bad_ones, sep="\n")
    if sys.argv[1:]:
        write_page(Path(sys.argv[1]), found)
    sys.exit(bool(bad_ones))
