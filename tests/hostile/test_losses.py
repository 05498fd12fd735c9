"""Nothing of the user's is destroyed, nobody else's code runs, and no small file fills the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from findings import FLAGS, FRAME, ROLES, scanned, told

import offpolicy as op
from offpolicy import _workspace
from offpolicy._visible import visible
from offpolicy._workspace import Workspace
from offpolicy.cli import main
from offpolicy.cli.convert import spreadsheet_safe
from offpolicy.engines import csv
from offpolicy.engines.csv import read_csv
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import read_jsonl, write_jsonl

SOURCES = os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("src", "studies/src"))


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    FRAME.to_csv(path, index=False)
    return path


def offpolicy(folder: Path, *words: str, **options) -> subprocess.CompletedProcess:
    """The command line in a process of its own."""
    code = "import sys; from offpolicy.cli import entry; sys.argv[0] = 'offpolicy'; entry()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, text=True, timeout=120,
        check=False, **options,
    )  # fmt: skip


# -- D1: temporary folders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["offpolicy-results", "offpolicy-main", ".offpolicy-ws-mine"])
@pytest.mark.parametrize("locked", [False, True])
def test_only_marked_folders_are_swept(tmp_path, name, locked):
    mine = tmp_path / name
    mine.mkdir()
    (mine / "results.csv").write_text("years of work")
    if locked:
        (mine / ".lock").write_text("")
        (mine / _workspace.MARK).write_text("not the library's words")
    os.utime(mine, (0, 0))
    _workspace._swept.clear()
    Workspace(tmp_path).close()
    assert (mine / "results.csv").read_text() == "years of work"


def test_a_workspace_says_whose_it_is(tmp_path):
    space = Workspace(tmp_path)
    assert space.folder.name.startswith(".offpolicy-ws-")
    assert str(os.getpid()) in (space.folder / _workspace.MARK).read_text()
    space.close()


# -- D2: modules beside the data -----------------------------------------------------------------------------------

RUN_FILE = """
log = "log.csv"
context = ["x"]
action = "ad"
reward = "click"
propensity = "p"
estimators = ["IPW"]
[policies]
new = "{}"
"""


def test_a_file_beside_the_run_file_is_not_imported_in_place_of_a_library(tmp_path, log):
    for name in ("pyarrow", "scipy", "lightgbm", "ibis", "duckdb", "pandas"):
        (tmp_path / f"{name}.py").write_text("open('it_ran', 'w').close()\nraise SystemExit(9)\n")
    (tmp_path / "run.toml").write_text(RUN_FILE.format("always:b"))
    done = offpolicy(tmp_path, "evaluate", "run.toml")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "it_ran").exists()


def test_a_module_that_a_policy_names_is_found_last(tmp_path, log):
    (tmp_path / "mine.py").write_text("def b(c):\n    return ['b'] * len(c)\n")
    (tmp_path / "pyarrow.py").write_text("open('it_ran', 'w').close()\nraise SystemExit(9)\n")
    (tmp_path / "run.toml").write_text(RUN_FILE.format("mine:b"))
    done = offpolicy(tmp_path, "evaluate", "run.toml")
    assert done.returncode == 0, done.stderr
    assert "0.6" in done.stdout
    assert not (tmp_path / "it_ran").exists()


def test_without_a_module_the_path_stays_as_it_was(tmp_path, log, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RUN_FILE.format("always:b"))
    before = list(sys.path)
    assert main(["evaluate", "run.toml"]) == 0
    assert sys.path == before


@pytest.mark.parametrize(
    ("spec", "words"),
    [("../evil:run", "plain names"), ("builtins:exit", "SystemExit"), ("ends:f", "SystemExit: 3"),
     ("breaks:f", "ZeroDivisionError")],
)  # fmt: skip
def test_modules_that_are_none_end_in_a_sentence(tmp_path, log, monkeypatch, capsys, spec, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ends.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    assert main(["evaluate", str(log), *FLAGS, "--policy", f"new={spec}"]) == 1
    assert words in capsys.readouterr().err
    for name in ("ends", "breaks"):
        sys.modules.pop(name, None)


# -- 6: outputs over inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "{log}", *FLAGS, "--policy", "n=always:b", "--json", "{log}"],
        ["evaluate", "{log}", *FLAGS, "--policy", "n=always:b", "--summary", "{link}"],
        ["evaluate", "{log}", *FLAGS, "--policy", "n={table}", "--json", "{table}"],
        ["evaluate", "{log}", *FLAGS, "--policy", "n=always:b", "--json", "{x}", "--report", "{x}"],
        ["evaluate", "{log}", *FLAGS, "--policy", "n=always:b", "--json", "{x}", "--summary", "{dot}"],
        ["evaluate", "{log}", "--config", "{run}", "--json", "{run}"],
        ["learn", "{log}", *FLAGS, "--json", "{log}"],
        ["check", "{log}", *FLAGS, "--json", "{log}"],
        ["convert", "{log}", "{log}", "--to", "jsonl", *FLAGS],
    ],
    ids=lambda words: " ".join(w for w in words if w not in FLAGS)[:50],
)  # fmt: skip
def test_an_output_is_no_input_and_no_other_output(tmp_path, log, capsys, words):
    names = {
        "log": log, "link": tmp_path / "link.csv", "table": tmp_path / "t.csv", "x": tmp_path / "x.html",
        "dot": tmp_path / "." / "x.html", "run": tmp_path / "run.toml",
    }  # fmt: skip
    os.link(log, names["link"])
    pd.DataFrame({"x": [0.0], "ad": ["b"], "probability": [1.0]}).to_csv(names["table"], index=False)
    names["run"].write_text(RUN_FILE.format("always:b"))
    before = {path: path.read_bytes() for path in names.values() if path.exists()}
    assert main([word.format(**names) for word in words]) == 1
    assert "would be overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    assert not names["x"].exists()


def test_an_output_is_not_the_file_of_standard_output(tmp_path, log):
    with (tmp_path / "out.txt").open("w") as out:
        words = [*FLAGS, "--policy", "n=always:b", "--json", str(tmp_path / "out.txt")]
        done = subprocess.run(
            [sys.executable, "-m", "offpolicy", "evaluate", str(log), *words],
            env={**os.environ, "PYTHONPATH": SOURCES}, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "standard output" in done.stderr


# -- 30: /dev/stdout, links, working folders -----------------------------------------------------------------------


def test_standard_output_takes_the_json_after_the_text(tmp_path, log):
    words = ["evaluate", str(log), *FLAGS, "--policy", "policy=always:b", "--estimator", "IPW"]
    piped = offpolicy(tmp_path, *words, "--json", "/dev/stdout")
    assert piped.returncode == 0, piped.stderr
    with (tmp_path / "all.txt").open("w") as out:
        code = "from offpolicy.cli import entry; entry()"
        subprocess.run(
            [sys.executable, "-c", code, *words, "--json", "/dev/stdout"],
            env={**os.environ, "PYTHONPATH": SOURCES}, stdout=out, check=True,
        )  # fmt: skip
    for text in (piped.stdout, (tmp_path / "all.txt").read_text()):
        start = text.index("{")
        end = text.rindex("}") + 1
        assert json.loads(text[start:end])["schema"]
        assert "(logging policy)  mean" in text[:start] + text[end:]


def test_a_link_to_itself_and_a_folder_that_is_gone_are_named(tmp_path, log, capsys):
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    words = ["evaluate", str(log), *FLAGS, "--policy", "policy=always:b"]
    assert main([*words, "--json", str(loop)]) == 1
    assert "leads back to itself" in capsys.readouterr().err
    with pytest.raises(OSError, match="loop"):
        write_jsonl(op.BanditLog.from_frame(FRAME, **ROLES), loop)
    code = textwrap.dedent(
        """
        import os, sys, tempfile
        from offpolicy.cli import main
        folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)
        sys.exit(main(sys.argv[1:]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": SOURCES}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "current folder no longer exists" in done.stderr
    assert "Traceback" not in done.stderr


# -- 21: Parquet bombs ---------------------------------------------------------------------------------------------


def bomb(path: Path, text: str, rows: int = 600) -> Path:
    """A text that is stored once and stands in every row."""
    label = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))
    numbers = np.arange(rows) * 0.1
    table = pa.table({"x": numbers, "ad": label, "click": numbers > 3, "p": np.full(rows, 0.5)})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    return path


@pytest.mark.parametrize(
    ("length", "rows", "words"), [(4_000_000, 600, "4,000,000 bytes"), (900_000, 600, "400 times that in memory")]
)
def test_texts_that_a_small_file_repeats_are_refused(tmp_path, capsys, length, rows, words):
    path = bomb(tmp_path / "log.parquet", "a" * length, rows)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=words):
        op.scan(str(path), **ROLES)
    assert main(["evaluate", str(path), *FLAGS, "--policy", "new=uniform"]) == 1
    assert words in capsys.readouterr().err
    nested = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"x": pa.array([["a" * 200_000]] * 600)}), nested, compression="zstd")
    with pytest.raises(DataError, match="400 times"):
        op.scan(str(nested), **ROLES)


def test_rows_choose_the_reader_of_parquet_and_not_bytes(tmp_path):
    import argparse

    from offpolicy.cli import logs

    path = tmp_path / "log.parquet"
    rows = 17_000_000
    ones = pa.chunked_array([pa.array(np.ones(1_000_000))] * 17)
    pq.write_table(pa.table({"a": ones, "b": ones, "c": ones, "d": ones}), path)
    assert path.stat().st_size < 2_000_000
    flags = ("engine", "eligible", "separator", "decimal", "candidates", *logs.IN_PART)
    options = argparse.Namespace(log=str(path), **dict.fromkeys(flags))
    assert logs._wants_engine(options)
    assert pq.read_metadata(path).num_rows == rows


def test_too_little_memory_is_said_in_a_sentence(log, capsys, monkeypatch):
    from offpolicy.cli import logs

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(logs, "open_log", full)
    assert main(["evaluate", str(log), *FLAGS, "--policy", "new=always:b"]) == 1
    assert "not enough memory" in capsys.readouterr().err


# -- 22: exports and terminals -------------------------------------------------------------------------------------

LABELS = ["=a", "'=a", "''=a", "-1x", "'-1x", "-1", "'-1", "\r=1+1", "＝1+1", "＠x", "a,b", 'say "x"', "x\ny", " x", ""]


def test_an_exported_table_keeps_labels_apart_and_quotes_them(tmp_path):
    n = len(LABELS) * 4
    frame = pd.DataFrame({"x": range(n), "ad": LABELS * 4, "click": [0, 1] * (n // 2), "p": [1 / len(LABELS)] * n})
    trace, table = tmp_path / "trace.jsonl", tmp_path / "table.csv"
    write_jsonl(op.BanditLog.from_frame(frame, **ROLES), trace)
    assert main(["convert", str(trace), str(table), "--from", "jsonl"]) == 0
    raw = table.read_bytes().decode()
    for text in LABELS:
        marked = spreadsheet_safe(pd.DataFrame({"a": [text]}))[0]["a"][0]
        assert '"' + marked.replace('"', '""') + '"' in raw
    again = read_csv(str(table), ["action"])
    assert again["action"].nunique(dropna=False) == len(LABELS)
    assert not any(str(v).startswith(("=", "＝", "＠", "\r", "-1x")) for v in again["action"])
    assert again["reward"].tolist() == [float(v) for v in frame["click"]]


def test_a_number_and_its_text_are_not_one_label_of_an_exported_table(tmp_path, capsys):
    trace = tmp_path / "trace.jsonl"
    lines = [{"context": {"x": i}, "action": "1" if i % 2 else 1, "reward": 1} for i in range(8)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["convert", str(trace), str(tmp_path / "t.csv"), "--from", "jsonl"]) == 1
    assert "look the same in a CSV" in capsys.readouterr().err
    assert not (tmp_path / "t.csv").exists()


@pytest.mark.parametrize("name", ["::error::x", "::stop-commands::x", "##[error]x", "##vso[task]x"])
def test_a_name_is_no_command_to_the_ci_that_shows_it(log, capsys, name):
    words = [*FLAGS, "--policy", f"{name}=always:b", "--estimator", "IPW"]
    assert main(["evaluate", str(log), *words]) == 0
    said = capsys.readouterr().out
    assert name[3:] in said
    for line in said.splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line
    assert visible("time 12:30 :: x", lines=True) == "time 12:30 :: x"


# -- 29: threads, pipes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [10**9, 0, -1, 1.5, "2", True])
def test_threads_are_a_sensible_number(threads):
    with pytest.raises(UsageError, match="threads="):
        op.scan(FRAME, threads=threads, **ROLES)


def test_a_named_pipe_is_refused(tmp_path, capsys):
    done = []

    def ask() -> None:
        for name in ("log.csv", "log.parquet", "log.jsonl", "run.toml", "p.json"):
            os.mkfifo(tmp_path / name)
        for name in ("log.csv", "log.parquet"):
            with pytest.raises(DataError, match="is a pipe"):
                op.scan(str(tmp_path / name), **ROLES)
        with pytest.raises(DataError, match="is a pipe"):
            read_jsonl(tmp_path / "log.jsonl")
        for name in ("log.csv", "log.jsonl", "run.toml"):
            done.append(main(["evaluate", str(tmp_path / name), "--policy", "new=uniform"]))
        FRAME.to_csv(tmp_path / "real.csv", index=False)
        pipe = f"new={tmp_path / 'p.json'}"
        done.append(main(["evaluate", str(tmp_path / "real.csv"), *FLAGS, "--policy", pipe]))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert done == [1, 1, 1, 1]
    assert capsys.readouterr().err.count("pipe") >= 3


# -- D3: wide files ------------------------------------------------------------------------------------------------


def test_a_wide_csv_takes_as_many_queries_as_a_narrow_one(tmp_path, monkeypatch):
    asked = []
    count = csv._counted

    def counted(engine, table, names, kinds):
        asked.append(len(names))
        return count(engine, table, names, kinds)

    monkeypatch.setattr(csv, "_counted", counted)
    wide = pd.DataFrame({f"c{j}": [0.5, 1.5, j] if j % 2 else ["a", "b", "c"] for j in range(600)})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    frame = read_csv(str(tmp_path / "wide.csv"))
    assert frame.shape == (3, 600)
    assert frame["c1"].tolist() == [0.5, 1.5, 1]
    assert frame["c2"].tolist() == ["a", "b", "c"]
    assert len(asked) == 3


# -- 1 and 25: names of folders and files --------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["p=1", "click=1", "ad=b", "click=0/ad=b", "P=1", "day=3"])
def test_a_folder_called_column_is_value_says_nothing_about_a_file(tmp_path, folder):
    place = tmp_path / folder
    place.mkdir(parents=True)
    FRAME.to_parquet(place / "log.parquet", index=False)
    FRAME.to_csv(place / "log.csv", index=False)
    for name in ("log.parquet", "log.csv"):
        assert scanned(str(place / name)) == pytest.approx(0.6)
        assert scanned(str(place / f"*.{name[4:]}")) == pytest.approx(0.6)
        assert told(tmp_path, place / name) == pytest.approx(0.6)
        assert told(tmp_path, place / name, "--engine", "duckdb") == pytest.approx(0.6)


def test_keys_of_folders_are_text_and_never_replace_a_column(tmp_path, capsys):
    parts = tmp_path / "a=1" / "logs"
    for day in ("01", "1", "x y", "a%2Fb", "__HIVE_DEFAULT_PARTITION__"):
        (parts / f"day={day}").mkdir(parents=True)
        FRAME.to_parquet(parts / f"day={day}" / "part.parquet", index=False)
    for source in (str(parts), f"{parts}/*/*.parquet"):
        with op.scan(source, **ROLES) as log:
            days = log.engine.table(log.table.select("day").distinct())["day"].to_pylist()
            assert sorted(map(str, days)) == ["01", "1", "None", "a/b", "x y"]
            assert "a" not in log.table.columns
    (tmp_path / "b" / "p=1").mkdir(parents=True)
    FRAME.to_parquet(tmp_path / "b" / "p=1" / "x.parquet", index=False)
    with pytest.raises(DataError, match="has a column 'p' and is also in a folder named p="):
        op.scan(str(tmp_path / "b"), **ROLES)
    assert main(["evaluate", str(tmp_path / "b"), *FLAGS, "--policy", "new=always:b"]) == 1
    assert "is also in a folder named p=" in capsys.readouterr().err
    FRAME.drop(columns="p").to_parquet(tmp_path / "b" / "x.parquet", index=False)
    with pytest.raises(DataError, match=r"different key=value|but not in"):
        op.scan(str(tmp_path / "b"), **ROLES)


def test_a_file_that_exists_is_that_file(tmp_path):
    FRAME.assign(click=0).to_csv(tmp_path / "log1.csv", index=False)
    FRAME.assign(click=0).to_parquet(tmp_path / "log1.parquet", index=False)
    for name in ("log[1].csv", "log[1].parquet", "lo*.csv"):
        path = tmp_path / name
        write = FRAME.to_csv if name.endswith("csv") else FRAME.to_parquet
        write(path, index=False)
        assert scanned(str(path)) == pytest.approx(0.6)
        assert told(tmp_path, path) == pytest.approx(0.6)
