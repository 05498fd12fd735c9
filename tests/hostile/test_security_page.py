"""SECURITY.md to the letter: every sentence of what is done, and every "cannot", has tests, by their names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from findings import FRAME, ROLES, scanned

import offpolicy as op
from offpolicy._workspace import Workspace
from offpolicy.engines.csv import MOST_COLUMNS, header
from offpolicy.errors import DataError
from offpolicy.logs.actions import MOST_ACTIONS

ROOT = Path(__file__).parents[2]
PAGE = re.sub(r"\s+", " ", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
HERE = "tests/hostile/test_security_page.py::"
LOSSES, STRICT, FAULTS = (f"tests/hostile/test_{name}.py::test_" for name in ("losses", "strict_logs", "faults"))
EDGES, NAMES = (f"tests/hostile/test_{name}.py::test_" for name in ("reader_edges", "names"))
REPORT = "tests/unit/test_report_html.py::test_"

#: What the page says, in its own words, and the tests of it.
SAID = {
    "run code, be unpickled": [f"{HERE}test_nothing_is_unpickled_or_run"],
    "read or write other files, reach the network": [f"{STRICT}the_connection_reads_its_files_and_nothing_else"],
    "name SQL": [
        f"{STRICT}a_memory_limit_is_a_size_and_nothing_else", "tests/hostile/test_generated.py::test_a_sample",
    ],
    "end the process without a clear error": ["tests/hostile/test_catalogue.py::test_"],
    "fill the memory by a small file": [
        f"{LOSSES}texts_that_a_small_file_repeats_are_refused",
        f"{LOSSES}rows_choose_the_reader_of_parquet_and_not_bytes",
        f"{EDGES}a_gzip_file_that_is_damaged_or_much_too_large",
    ],
    "run as script in the report": [
        f"{REPORT}the_security_policy_allows_exactly_the_scripts_of_the_file", f"{NAMES}the_report",
    ],
    "move the terminal's cursor": [f"{NAMES}a_result"],
    "run as formulas in exported CSV": [
        f"{FAULTS}exported_tables_hold_no_formulas", f"{LOSSES}an_exported_table_keeps_labels_apart_and_quotes_them",
    ],
    "begin a line that a CI system obeys": [f"{LOSSES}a_name_is_no_command_to_the_ci_that_shows_it"],
    "settings of DuckDB are checked and passed as values": [f"{STRICT}a_memory_limit_is_a_size_and_nothing_else"],
    "write over the log, a policy's table or itself": [f"{LOSSES}an_output_is_no_input_and_no_other_output"],
    "are then the **last** places where modules are looked for": [
        f"{LOSSES}a_module_that_a_policy_names_is_found_last",
    ],
    "be imported in place of an installed module, or at all where no policy names a module": [
        f"{LOSSES}a_file_beside_the_run_file_is_not_imported_in_place_of_a_library",
        f"{LOSSES}without_a_module_the_path_stays_as_it_was",
    ],
    "change the log: arrays are read-only, frames are handed out as copies": [
        f"{STRICT}arrays_of_a_log_cannot_be_written",
        f"{STRICT}a_policy_that_writes_into_its_context_does_not_change_the_log",
    ],
    "`offpolicy` reads no pickle": [f"{HERE}test_nothing_is_unpickled_or_run"],
    "may read the files of its scan and its own temporary folder and nothing else": [
        f"{STRICT}the_connection_reads_its_files_and_nothing_else",
    ],
    "installs and loads no extensions, and is locked before the first query": [
        f"{HERE}test_a_connection_is_locked_and_loads_nothing",
    ],
    "Databases are opened read-only": [f"{HERE}test_a_database_is_opened_read_only"],
    "is read only with `network=True`": [f"{STRICT}network_sources_must_be_asked_for"],
    "Connections, relations and Ibis backends that you pass in keep your settings": [
        f"{HERE}test_a_connection_of_yours_keeps_its_settings",
    ],
    "No file is unpickled; on Spark, executors send what they computed": [f"{HERE}test_nothing_is_unpickled_or_run"],
    "Line length, nesting, number of fields, columns and actions": [
        f"{EDGES}fields_are_as_deep_and_as_many_as_is_said", f"{HERE}test_lines_columns_and_actions_are_bounded",
    ],
    "the ratio by which a gzip file may unpack": [f"{EDGES}a_gzip_file_that_is_damaged_or_much_too_large"],
    "may hold texts of at most 1 MB each, and of at most 400 times its size together": [
        f"{EDGES}texts_of_a_small_parquet_file_at_their_bounds",
    ],
    "which reader it gets follows from the number of its rows": [
        f"{LOSSES}rows_choose_the_reader_of_parquet_and_not_bytes",
    ],
    "Files are read as UTF-8; what is not is refused": [f"{EDGES}the_line_that_is_not_utf8_is_named"],
    "Named pipes and devices are refused": [f"{LOSSES}a_named_pipe_is_refused"],
    "The name of a folder never replaces a column": [
        f"{LOSSES}a_folder_called_column_is_value_says_nothing_about_a_file",
    ],
    "are written beside their target and moved into place when complete": [
        f"{FAULTS}a_kill_at_every_write_leaves_the_whole_old_or_the_whole_new",
    ],
    "An output that is an input, or another output, is refused": [f"{LOSSES}an_output_is_no_input_and_no_other_output"],
    "readable by their owner only (0700)": [f"{HERE}test_temporary_folders_are_their_owners"],
    "and removed at the end, on signals that end a process": [f"{FAULTS}signals_clean_up"],
    "by the next run where a process was killed": [
        f"{FAULTS}a_killed_process_is_swept_up_after_and_a_living_one_is_not",
    ],
    "which carry the library's own mark and which nobody has locked, and nothing else": [
        f"{LOSSES}only_marked_folders_are_swept",
    ],
    "one HTML file without requests to anywhere": [f"{REPORT}one_small_file_without_links_to_anywhere"],
}  # fmt: skip


@pytest.mark.parametrize("words", SAID)
def test_every_sentence_has_its_tests(words):
    assert words in PAGE, "the page says it in other words: change the table with it"
    for name in SAID[words]:
        file, _, test = name.partition("::")
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), name


def test_no_sentence_is_left_out():
    """Of what is done about it, sentence by sentence; and of what an input cannot do, cell by cell."""
    done = PAGE.split("What is done about it:")[1].split("Not defended against")[0]
    sentences = [s for s in re.split(r"(?<=[a-z)`])\. (?=[A-Z*`-])", done) if s.strip(" -")]
    assert len(sentences) >= 14
    for sentence in sentences:
        assert any(words in sentence for words in SAID), sentence


def test_nothing_is_unpickled_or_run():
    """No module loads what could run code: only policies of a run file, and pickles of the library's own making."""
    loads = re.compile(
        r"\bpickle\.loads?\(|\bjoblib\.load\(|torch\.load\(|allow_pickle|\bmarshal\.|\bexec\(|__import__"
    )
    evaluated = {}
    for path in sorted((ROOT / "src/offpolicy").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert path.name in {"spark.py", "store.py"} or not loads.search(text), path
        found = len(re.findall(r"(?<![\w.])eval\(", text))
        if found:
            evaluated[path.name] = found
    assert evaluated == {"_arguments.py": 1}  # an annotation of the library's own


def test_a_connection_is_locked_and_loads_nothing(tmp_path):
    FRAME.to_parquet(tmp_path / "log.parquet")
    with op.scan(str(tmp_path / "log.parquet"), **ROLES) as log:
        connection = log.engine.connection
        asked = "SELECT value FROM duckdb_settings() WHERE name = ?"
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
            assert connection.execute(asked, [setting]).fetchone() == ("false",), setting
        assert connection.execute(asked, ["lock_configuration"]).fetchone() == ("true",)
        for query in ("SET threads = 1", "LOAD httpfs", "INSTALL httpfs", "COPY (SELECT 1) TO 'x.csv'"):
            with pytest.raises(duckdb.Error):
                connection.execute(query)


def test_a_database_is_opened_read_only(tmp_path):
    path = str(tmp_path / "log.duckdb")
    with duckdb.connect(path) as made:
        made.register("given", FRAME)
        made.execute("CREATE TABLE rows AS SELECT * FROM given")
    before = Path(path).read_bytes()
    with op.scan(path, table="rows", **ROLES) as log:
        assert log.n == 300
        with pytest.raises(duckdb.Error, match=r"read-only"):
            log.engine.connection.execute("DELETE FROM rows")
    assert Path(path).read_bytes() == before


def test_a_connection_of_yours_keeps_its_settings():
    connection = duckdb.connect()
    connection.register("given", FRAME)
    connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    before = connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    assert scanned(connection.table("rows")) == pytest.approx(0.6)
    with op.scan(connection, table="rows", **ROLES) as log:
        assert log.n == 300
    assert connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall() == before
    assert connection.execute("SELECT count(*) FROM rows").fetchone() == (300,)


def test_lines_columns_and_actions_are_bounded(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(",".join(f"c{i}" for i in range(MOST_COLUMNS)) + "\n")
    assert len(header(str(path))) == MOST_COLUMNS == 10_000
    path.write_text(",".join(f"c{i}" for i in range(MOST_COLUMNS + 1)) + "\n")
    with pytest.raises(DataError, match=r"has 10,001 columns; .* 10,000"):
        header(str(path))
    with pytest.raises(DataError, match=rf"{MOST_ACTIONS:,}"):
        op.BanditLog.from_arrays(None, [0], [1.0], actions=range(MOST_ACTIONS + 1))
    long = tmp_path / "log.jsonl"
    long.write_bytes(b'{"action": "a", "reward": 1, "context": {}}\n{"x": "' + b"y" * 10_000_000 + b'"}\n')
    reading = op.formats.read_jsonl(long)
    assert [bad.line for bad in reading.bad] == [2]
    assert "longer than 10,000,000 bytes" in reading.bad[0].reason


def test_temporary_folders_are_their_owners(tmp_path):
    space = Workspace(tmp_path)
    folder = Path(space.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    space.close()
    assert not folder.exists()


def test_metadata_of_parquet_is_not_run(tmp_path):
    """A pickle in the metadata that pandas and Arrow write beside a schema stays bytes."""
    evil = b"cos\nsystem\n(S'touch ran'\ntR."
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    schema = table.schema.with_metadata({b"ARROW:extension:metadata": evil, b"pickle": evil, **table.schema.metadata})
    pq.write_table(table.cast(schema), tmp_path / "log.parquet")
    code = f"import offpolicy as op; print(op.scan('log.parquet', **{ROLES!r}).n)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    assert done.stdout.strip() == "300", done.stderr
    assert not (tmp_path / "ran").exists()
