"""Files, arrays, episodes, gates and run files with something wrong in them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import offpolicy as op
from offpolicy.engines.csv import read_csv
from offpolicy.logs.formats import read_jsonl

Row = tuple[str, str | float, Callable[[Path], Any]]
ROLES = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}
HEAD = b"x,ad,click,p\n"
LINES = b"1,a,0,.5\n2,b,1,.5\n"
N = 20
X, A = np.linspace(0, 1, N), np.arange(N) % 2
R, P = X + A, np.full(N, 0.5)


def _bomb(folder: Path) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return packer.compress(HEAD) + b"".join(packer.compress(zeros) for _ in range(80)) + packer.flush()


BYTES: list[tuple[str, bytes | Callable[[Path], bytes], str, str]] = [
    ("empty", b"", "log.csv", "is empty"),
    ("blank lines only", b"\n\n  \n", "log.csv", "is empty|no columns|has no such column"),
    ("UTF-16", (HEAD + LINES).decode().encode("utf-16"), "log.csv", "UTF-16"),
    ("UTF-32", (HEAD + LINES).decode().encode("utf-32"), "log.csv", "UTF-16"),
    ("Latin-1", "x,ad,click,p\n1,é,0,.5\n".encode("latin-1"), "log.csv", "not UTF-8"),
    ("null bytes", HEAD + b"\x00\x01" + LINES, "log.csv", "not UTF-8|binary"),
    ("a PNG", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "log.csv", "not UTF-8|binary"),
    ("a column twice", b"x,ad,ad,click,p\n1,a,a,0,.5\n", "log.csv", "two columns 'ad'"),
    ("semicolons", (HEAD + LINES).replace(b",", b";"), "log.csv", "semicolons"),
    ("tabs", (HEAD + LINES).replace(b",", b"\t"), "log.csv", "tabs"),
    ("bars", (HEAD + LINES).replace(b",", b"|"), "log.csv", "bars"),
    ("a short line", HEAD + LINES + b"3,a\n", "log.csv", "Line: 4"),
    ("a long line", HEAD + LINES + b"3,a,0,.5,9,9\n", "log.csv", "Line: 4|Expected"),
    ("a quote that does not end", HEAD + b'1,"a,0,.5\n2,b,1,.5\n', "log.csv", "quote"),
    ("text after a quote", HEAD + b'1,"a"b,0,.5\n', "log.csv", "quote"),
    ("a header that does not end", b'x,"ad\n' + LINES, "log.csv", "column names"),
    ("20,000 columns", b",".join(b"c%d" % i for i in range(20_000)) + b"\n", "log.csv", "columns; the limit is 10,000"),
    ("a line of 5 MB", b"x" * 5_000_000, "log.csv", "longer than"),
    ("a cell of 5 MB", HEAD + b"1," + b"a" * 5_000_000 + b",0,.5\n", "log.csv", "[Ll]ine"),
    ("gzip cut off", gzip.compress(HEAD + LINES * 200)[:-30], "log.csv.gz", "cannot be read|end-of-stream"),
    ("gzip that is none", HEAD + LINES, "log.csv.gz", "cannot be read|gzip"),
    ("a gzip bomb", _bomb, "log.csv.gz", "times its size"),
    ("header only", HEAD, "log.csv", "empty"),
]


def _csv_bytes(read: Callable[[str], Any]) -> Iterator[Row]:
    for name, content, file, words in BYTES:

        def run(folder: Path, content: Any = content, file: str = file) -> Any:
            path = folder / file
            path.write_bytes(content(folder) if callable(content) else content)
            return read(str(path))

        yield name, words, run


def _whole(path: str) -> Any:
    return op.BanditLog.from_frame(read_csv(path, ["ad"]), **ROLES)


def _scanned(path: str) -> Any:
    with op.scan(path, **ROLES) as log:
        return log.check()


def _parquet() -> Iterator[Row]:
    table = {"x": X, "ad": A, "click": R, "p": P}

    def file(change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
        def run(folder: Path) -> Any:
            path = folder / "log.parquet"
            pq.write_table(pa.table(table), path)
            path.write_bytes(change(path.read_bytes()))
            return _scanned(str(path))

        return run

    yield "empty", "not a Parquet file", file(lambda b: b"")
    yield "cut off", "not a Parquet file", file(lambda b: b[:-10])
    yield "half of it", "not a Parquet file", file(lambda b: b[: len(b) // 2])
    yield "a CSV by another name", "not a Parquet file", file(lambda b: HEAD + LINES)
    yield "no magic number", "not a Parquet file", file(lambda b: b"XXXX" + b[4:-4] + b"XXXX")
    yield "footer of zeros", "not a Parquet file", file(lambda b: b[:-200] + bytes(196) + b"PAR1")
    yield "pages of zeros", "cannot read the log", file(lambda b: b[:4] + bytes(400) + b[404:])

    def pair(one: dict[str, Any], two: dict[str, Any]) -> Callable[[Path], Any]:
        def run(folder: Path) -> Any:
            for name, part in (("1", one), ("2", two)):
                pq.write_table(pa.table({**table, **part}), folder / f"{name}.parquet")
            with op.scan(str(folder / "*.parquet"), **ROLES) as log:
                return float(op.evaluate(log, lambda x: np.ones(len(x), dtype=int), estimators=["IPW"])
                             ["policy", "IPW"].value)  # fmt: skip

        return run

    click = np.concatenate([A, R])
    expected = float(np.mean(np.where(np.tile(A, 2) == 1, click / 0.5, 0)))
    yield "integers, then fractions", expected, pair({"click": A}, {"click": R})
    yield "fractions, then integers", expected, pair({"click": R}, {"click": A})
    yield "numbers, then text", "holds", pair({}, {"click": R.astype(str)})
    yield "large integers, then fractions", "beyond 2.53", pair({"click": A + 2**60}, {"click": R})
    yield "another column", "column 'new' is in", pair({}, {"new": A})
    yield "no file", "no file", lambda folder: _scanned(str(folder / "none.parquet"))
    yield "no file matches", "no file matches", lambda folder: _scanned(str(folder / "n*.parquet"))
    yield "an unknown kind", "kind of file", lambda folder: _scanned(str(folder / "log.xlsx"))
    yield "an address", "network=True", lambda _: _scanned("https://example.org/log.parquet")
    yield "a bucket", "network=True", lambda _: _scanned("s3://bucket/log.parquet")
    for limit in ("lots", "1GB'; COPY t TO 'x", "", "10", "-1GB", "1 GB; SELECT 1"):
        yield (
            f"memory_limit {limit!r}",
            "must be a size",
            lambda f, m=limit: op.scan(pd.DataFrame(table), memory_limit=m, **ROLES),
        )
    for threads in (0, -1, "2", 1.5, True):
        yield (
            f"threads {threads!r}",
            "threads= must be",
            lambda f, t=threads: op.scan(pd.DataFrame(table), threads=t, **ROLES),
        )


def _jsonl_bytes() -> Iterator[Row]:
    good = b'{"context": {"x": 1}, "action": "a", "reward": 1, "act_prob": 0.5}\n'
    for name, content, words in [
        ("empty", b"", "no usable line"),
        ("one bad line", b"{", "no usable line"),
        ("an array", b"[1]\n", "not a JSON object"),
        ("reward is text", good.replace(b": 1,", b': "1",').replace(b'"x": 1', b'"x": 2'), "no usable line"),
        ("reward is NaN", good.replace(b'"reward": 1', b'"reward": NaN'), "not a finite number"),
        ("action is a list", good.replace(b'"a"', b'["a"]'), "is not a label"),
        ("action is null", good.replace(b'"a"', b"null"), "is not a label"),
        ("act_prob is text", good.replace(b"0.5", b'"x"'), "is not a number"),
        ("UTF-16", good.decode().encode("utf-16"), "not UTF-8|not valid JSON"),
        ("nested 100,000 deep", b'{"a":' * 100_000, "nested too deeply|not valid JSON"),
        ("a line of 11 MB", b'{"a": "' + b"x" * 11_000_000 + b'"}', "longer than"),
    ]:

        def run(folder: Path, content: bytes = content) -> Any:
            path = folder / "log.jsonl"
            path.write_bytes(content)
            return read_jsonl(path)

        yield name, words, run

    def cut(folder: Path) -> Any:
        path = folder / "log.jsonl.gz"
        path.write_bytes(gzip.compress(good * 500)[:-20])
        return read_jsonl(path)

    def bomb(folder: Path) -> Any:
        path = folder / "log.jsonl.gz"
        path.write_bytes(_bomb(folder))
        return read_jsonl(path)

    yield "gzip cut off", "cut off or damaged", cut
    yield "a gzip bomb", "times its size", bomb


def _arrays() -> Iterator[Row]:
    sound = {"context": X, "action": A, "reward": R, "propensity": P}

    def build(**parts: Any) -> Callable[[Path], Any]:
        return lambda _: op.BanditLog.from_arrays(**{**sound, **parts})

    def hidden(values: Any) -> Any:
        return np.ma.array(values, mask=np.arange(N) == 3)

    for name in ("context", "action", "reward", "propensity"):
        yield f"{name} masked", "row 3. are masked", build(**{name: hidden(sound[name])})
        yield f"{name} too short", "rows|has", build(**{name: sound[name][:-1]})
        yield (
            f"{name} of another index",
            "different indexes",
            build(
                **{
                    "action": pd.Series(A) if name != "action" else pd.Series(A, index=range(5, 5 + N)),
                    "weight": pd.Series(P),
                    **({} if name == "action" else {name: pd.Series(sound[name], index=range(5, 5 + N))}),
                }
            ),
        )
    yield "reward of two columns", "one number per row", build(reward=np.ones((N, 2)))
    yield "reward complex", "not numbers|must be numeric", build(reward=R + 1j)
    yield ("reward of lists", "not numbers|must be|inhomogeneous|one number", build(reward=[[1.0]] * N))
    yield "action of two columns", "one label per row", build(action=np.ones((N, 2)))
    yield "action of lists", "cannot be a label", build(action=[["a"]] * N)
    yield "action of sets", "cannot be a label", build(action=[{"a"}] * N)
    yield "action a number", "one label per row", build(action=3)
    yield ("booleans and numbers", "both booleans and numbers", build(action=np.array([True, 1] * (N // 2), object)))
    yield "context of objects", "dtype", build(context=np.array([object()] * N))
    yield "context a number", "one row per action", build(context=3.0)
    yield "context of dates", "dtype", build(context=np.arange(N).astype("datetime64[D]"))
    yield "propensity of 3 columns", "must have shape", build(propensity=np.ones((N, 3)) / 3)
    yield "propensities that sum to 1.1", "do not sum to 1", build(propensity=np.full((N, 2), 0.55))
    yield ("propensities of 0 where taken", "zero or negative", build(propensity=np.tile([1.0, 0.0], (N, 1))))
    yield "nothing", "empty", lambda _: op.BanditLog.from_arrays([], [], [])
    yield "counts of half", "not counts", build(count=np.full(N, 0.5))
    yield ("eligible leaves out what was taken", "not among the eligible", build(eligible=[[1 - a] for a in A]))
    yield ("eligible names an unknown action", "not among the log's actions", build(eligible=[[7]] * N))
    yield "fold missing", "fold is missing", build(fold=np.where(A == 1, np.nan, 1.0))
    for name in ("action", "reward", "propensity"):

        def write(_: Path, name: str = name) -> Any:
            getattr(op.BanditLog.from_arrays(**sound), name)[0] = 1

        yield f"writing into {name}", "read-only", write


def _episodes() -> Iterator[Row]:
    table = {"e": [0, 0, 1, 1, 2], "t": [0, 1, 0, 1, 0], "s": [0, 1, 0, 1, 0], "a": [0, 1, 1, 0, 1],
             "r": [1.0, 0, 0, 1, 1], "p": [0.5] * 5}  # fmt: skip
    roles = {"episode": "e", "step": "t", "state": ["s"], "action": "a", "reward": "r", "propensity": "p"}

    def build(make: Callable[[Any], Any], roles: dict[str, Any], **parts: Any) -> Callable[[Path], Any]:
        return lambda _: op.Trajectories.from_frame(make({**table, **parts}), **roles)

    import polars as pl

    for kind, make in (("pandas", pd.DataFrame), ("polars", lambda t: pl.DataFrame(t, strict=False))):
        for name, parts, words in [
            ("a step twice", {"t": [0, 0, 0, 1, 0]}, "appears twice"),
            ("a step missing", {"t": [0, 2, 0, 1, 0]}, "gap"),
            ("a late beginning", {"t": [0, 1, 1, 2, 0]}, "starts at step 1"),
            ("half steps", {"t": [0, 0.5, 0, 1, 0]}, "not whole numbers"),
            ("episode missing", {"e": [0, 0, 1, 1, None]}, "episode is missing"),
            ("reward missing", {"r": [1.0, None, 0, 1, 1]}, "missing or infinite"),
            ("reward of 1e200", {"r": [1.0, 1e200, 0, 1, 1]}, "larger than 1e30"),
            ("propensity 0", {"p": [0.5, 0, 0.5, 0.5, 0.5]}, "zero or negative"),
            ("propensity of 1e-160", {"p": [0.5, 1e-160, 0.5, 0.5, 0.5]}, "below 1e-30"),
            ("action missing", {"a": [0, 1, None, 0, 1]}, "action is missing"),
            ("nothing", {k: [] for k in table}, "empty"),
        ]:
            yield f"{name} ({kind})", words, build(make, roles, **parts)
        yield f"no such column ({kind})", "no such column", build(make, {**roles, "reward": "x"})
        yield (f"state holds the reward ({kind})", "contains the reward", build(make, {**roles, "state": ["s", "r"]}))
        yield (
            f"weight changes in an episode ({kind})",
            "changes within",
            build(make, {**roles, "weight": "w"}, w=[1.0, 2, 1, 1, 1]),
        )
    arrays = {"states": [[0, 1], [1]], "actions": [[0, 1], [1]], "rewards": [[1.0, 0.0], [2.0]]}
    for name, parts, words in [
        ("rewards of another length", {"rewards": [[1.0], [2.0]]}, "episode 0 has 1 steps"),
        ("an episode too few", {"rewards": [[1.0, 0.0]]}, "lists 1 episodes"),
        ("an empty episode", {"actions": [[0, 1], []], "states": [[0, 1], []], "rewards": [[1.0, 0.0], []]}, "below 1"),
        ("rewards masked", {"rewards": [np.ma.array([1.0, 2.0], mask=[0, 1]), np.ones(1)]}, "episode 0.* masked"),
        ("propensities above 1", {"propensities": [[2.0, 1.0], [1.0]]}, "above 1"),
        ("states of objects", {"states": [[None, 1], [1]]}, "objects"),
        ("lengths beside a list", {"lengths": [2, 1]}, "lengths= is for arrays"),
    ]:
        yield name, words, lambda _, parts=parts: op.Trajectories.from_arrays(**{**arrays, **parts})


AREAS: dict[str, Callable[[], Iterator[Row]]] = {
    "CSV bytes, read whole": lambda: _csv_bytes(_whole),
    "CSV bytes, scanned": lambda: _csv_bytes(_scanned),
    "Parquet and DuckDB": _parquet,
    "JSON lines, bytes": _jsonl_bytes,
    "arrays": _arrays,
    "episodes": _episodes,
}
