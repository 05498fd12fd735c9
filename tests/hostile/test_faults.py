"""Disks that fill up, processes that are killed, forks, locks: what was there stays, and nothing is left behind.

``make faults`` runs all of it, the slow parts included.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy import _output, _workspace
from offpolicy._output import lock_folder, write_text, written_whole
from offpolicy._workspace import Workspace
from offpolicy.errors import DataError, UsageError
from offpolicy.logs.formats import read_jsonl

SOURCES = os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("src", "studies/src"))


STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def _end_processes():
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate()


def python(code: str, *arguments: str, **options) -> subprocess.Popen:
    """Another process that runs ``code``."""
    environment = {**os.environ, "PYTHONPATH": SOURCES, **options.pop("env", {})}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    STARTED.append(process)
    return process


def names_in(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir()]


def small_evaluation() -> op.Evaluation:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    log = op.BanditLog.from_arrays(x, np.arange(200) % 2, (x > 0).astype(float), np.full(200, 0.5))
    return op.evaluate(log, lambda c: (c > 0).astype(int), estimators=["IPW"])


# -- whole or not at all -----------------------------------------------------------------------------------


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")

    def cut_short() -> None:
        with written_whole(path) as part:
            part.write_text("half of the new")
            raise OSError(errno.ENOSPC, "the disk is full")

    with pytest.raises(OSError, match="full"):
        cut_short()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["report.html"]


def test_rights_links_and_streams_are_kept(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640
    write_text("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()


def limited(task: str, tmp_path: Path, size: int) -> subprocess.Popen:
    """Run a task whose files may not grow beyond ``size`` bytes: a full disk, as far as writing goes."""
    return python(
        f"""
        import resource, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_faults import small_evaluation
        ev, folder = small_evaluation(), sys.argv[1]
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
        {task}
        """,
        str(tmp_path),
    )


@pytest.mark.parametrize(
    ("name", "task"),
    [("report.html", "ev.report(folder + '/report.html')"), ("result.json", "ev.to_json(folder + '/result.json')")],
)
def test_a_full_disk_leaves_the_good_report(tmp_path, name, task):
    (tmp_path / name).write_text("good")
    process = limited(task, tmp_path, 500)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "File too large" in said
    assert (tmp_path / name).read_text() == "good"
    assert names_in(tmp_path) == [name]


@pytest.fixture
def full_disk(tmp_path):
    """A disk of 64 kB with nothing left on it but a good report and a good result."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.strip()}")
    try:
        for name in ("out.html", "out.json", "out.csv", "out.parquet"):
            (place / name).write_text("good")
        with suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


KEPT = ["filler", "out.csv", "out.html", "out.json", "out.parquet"]


def disk_is_as_it_was(place: Path) -> bool:
    good = all((place / name).read_text() == "good" for name in KEPT[1:])
    return good and sorted(names_in(place)) == KEPT


@pytest.mark.parametrize("write", ["report", "to_json"])
def test_a_disk_that_is_full_keeps_the_good_outputs(full_disk, write):
    path = full_disk / ("out.html" if write == "report" else "out.json")
    with pytest.raises(OSError, match=f"No space left.*nothing was written.*{path.name}"):
        getattr(small_evaluation(), write)(path)
    assert disk_is_as_it_was(full_disk)


def test_the_command_line_on_a_full_disk(full_disk, tmp_path, capsys):
    from offpolicy.cli import main

    frame = pd.DataFrame({"x": [0.0, 1.0] * 50, "a": [0, 1] * 50, "r": [0, 1, 1, 0] * 25, "p": 0.5})
    frame.to_csv(tmp_path / "log.csv", index=False)
    lines = '{"action": "a", "reward": 1, "act_prob": 0.5, "context": {"x": "y"}}\n' * 3000
    (tmp_path / "log.jsonl").write_text(lines)
    evaluate = [
        "evaluate", str(tmp_path / "log.csv"), "--context", "x", "--action", "a", "--reward", "r",
        "--propensity", "p", "--policy", "new=always:1",
    ]  # fmt: skip
    convert = ["convert", str(tmp_path / "log.jsonl")]
    for arguments in (
        [*evaluate, "--report", str(full_disk / "out.html")],
        [*evaluate, "--json", str(full_disk / "out.json")],
        [*convert, str(full_disk / "out.csv"), "--from", "jsonl"],
        [*convert, str(full_disk / "out.parquet"), "--from", "jsonl"],
    ):
        assert main(arguments) == 1
        said = capsys.readouterr().err
        assert "No space left on device" in said
        assert "out." in said
        assert "Traceback" not in said
        assert disk_is_as_it_was(full_disk)


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_no_room_for_temporary_files(full_disk, tmp_path, way):
    """What does not fit raises and leaves nothing behind; what needs no room is answered."""
    n = 60_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.integers(50, size=n), "a": rng.integers(2, size=n)})
    frame = frame.assign(r=1.0 * frame.a, p=0.5, u=[f"user {i}" for i in rng.permutation(n)])
    frame.to_parquet(tmp_path / "log.parquet")
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "id": "u"}
    source = str(tmp_path / "log.parquet")
    try:
        with op.scan(source, **roles, way=way, temp_directory=full_disk, chunk_rows=10_000) as log:
            value = op.evaluate(log, "uniform", estimators=["IPW"])["policy", "IPW"].value
    except (DataError, OSError) as error:
        assert "space" in str(error)  # noqa: PT017
    else:
        assert value == pytest.approx(frame.r.mean(), rel=1e-9)
    assert disk_is_as_it_was(full_disk)


def test_a_study_on_a_full_disk_goes_on_when_there_is_room(full_disk):
    from offpolicy_studies.monte_carlo import simulate

    def toss(_, rng):
        return [int(v) for v in rng.integers(0, 2**40, size=100)]

    store = full_disk / "study" / "replications.jsonl"
    with pytest.raises(OSError, match="No space left"):
        simulate(toss, {"a": 1}, 50, workers=1, out=store)
    (full_disk / "filler").unlink()
    with pytest.raises(OSError, match="No space left"):
        simulate(toss, {"a": 1}, 200, workers=1, out=store)
    whole = simulate(toss, {"a": 1}, 30, workers=1)
    assert simulate(toss, {"a": 1}, 30, workers=1, out=store) == whole
    _output._HELD.pop(str(store.parent.resolve()))[1].close()


def test_a_device_that_takes_nothing_is_named():
    with pytest.raises(OSError, match=r"No space left.*/dev/full"):
        small_evaluation().to_json("/dev/full")


@pytest.mark.verify
def test_a_kill_at_every_write_leaves_the_whole_old_or_the_whole_new(tmp_path):
    """The process kills itself at the n-th write, fsync, chmod or rename, for every n."""
    path = tmp_path / "result.json"
    code = """
        import os, pathlib, signal, sys, tempfile
        from offpolicy._output import write_text
        left = int(sys.argv[2])
        def counting(function):
            def wrapped(*a, **k):
                global left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*a, **k)
            return wrapped
        for owner, names in ((os, ["fsync", "close", "replace", "rename", "open", "chmod"]),
                             (pathlib.Path, ["write_text", "chmod", "open", "replace"]), (tempfile, ["mkstemp"])):
            for name in names:
                setattr(owner, name, counting(getattr(owner, name)))
        write_text(sys.argv[1], '{"schema": "' + "x" * 300_000 + '"}')
        """
    whole = None
    for n in range(1, 40):
        path.write_text("old")
        process = python(code, str(path), str(n))
        process.communicate(timeout=120)
        text = path.read_text()
        if process.returncode == 0:
            whole = json.loads(text)
            break
        assert text == "old" or json.loads(text)["schema"]
    assert whole is not None
    assert n > 5  # it was killed at several places


# -- temporary folders -------------------------------------------------------------------------------------

MAKES_ONE = """
    import sys, time
    from offpolicy._workspace import Workspace
    space = Workspace(sys.argv[1])
    (space.folder / "spilled").write_text("x")
    print(space.folder, flush=True)
    time.sleep(60)
    """


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGXCPU]
)
def test_signals_clean_up(tmp_path, number):
    # What runs under nohup ignores SIGHUP, and so would a process that it starts.
    before = signal.signal(number, signal.default_int_handler)
    try:
        process = python(MAKES_ONE, str(tmp_path))
    finally:
        signal.signal(number, before)
    folder = Path(process.stdout.readline().strip())
    assert folder.is_dir()
    process.send_signal(number)
    process.wait(timeout=30)
    assert process.returncode != 0
    assert not folder.exists()


def test_a_killed_process_is_swept_up_after_and_a_living_one_is_not(tmp_path):
    killed, living = python(MAKES_ONE, str(tmp_path)), python(MAKES_ONE, str(tmp_path))
    left, used = (Path(p.stdout.readline().strip()) for p in (killed, living))
    killed.kill()
    killed.wait(timeout=30)
    assert left.is_dir()
    strange = [tmp_path / "offpolicy-results", tmp_path / f"{_workspace.PREFIX}mine"]
    for folder in strange:
        folder.mkdir()
        (folder / ".lock").write_text("")
        os.utime(folder, (0, 0))
    _workspace._swept.clear()
    mine = Workspace(tmp_path)
    assert not left.exists()
    assert used.is_dir()
    assert all(folder.is_dir() for folder in strange)  # old, and without the library's mark
    mine.close()
    living.kill()
    living.wait(timeout=30)


def test_a_handler_of_the_users_is_left_alone(tmp_path):
    process = python(
        """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        from offpolicy._workspace import Workspace
        space = Workspace(sys.argv[1])
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        str(tmp_path),
    )
    process.communicate(timeout=60)
    assert process.returncode == 7
    assert names_in(tmp_path) == []  # the interpreter ended in order


def test_the_end_of_a_fork_leaves_the_parents_folder(tmp_path):
    process = python(
        """
        import os, sys
        from offpolicy._workspace import Workspace
        space = Workspace(sys.argv[1])
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(space.folder.exists())
        """,
        str(tmp_path),
    )
    assert process.communicate(timeout=60)[0].strip() == "True"


# -- forks and locks ---------------------------------------------------------------------------------------


@pytest.mark.verify
def test_a_fork_after_use_ends(tmp_path):
    """Two OpenMP threads in the parent; the child fits again."""
    process = python(
        """
        import os, sys
        import numpy as np, offpolicy as op
        from sklearn.ensemble import HistGradientBoostingRegressor
        rng = np.random.default_rng(0)
        x, a = rng.normal(size=(60_000, 3)), rng.integers(2, size=60_000)
        log = op.BanditLog.from_arrays(x, a, x[:, 0] + a, np.full(60_000, .5))
        def run():
            model = HistGradientBoostingRegressor(max_iter=5)
            ev = op.evaluate(log, lambda c: np.ones(len(c), dtype=int), estimators=["DML"], reward_model=model)
            return ev["policy", "DML"].value
        one = run()
        child = os.fork()
        if child == 0:
            os._exit(0 if abs(run() - one) < 1e-9 else 1)
        print(os.waitpid(child, 0)[1])
        """,
        env={"OMP_NUM_THREADS": "2"},
    )
    try:
        out, said = process.communicate(timeout=240)
    finally:
        process.kill()
    assert out.strip() == "0", said


def test_a_scan_does_not_cross_a_fork(tmp_path):
    process = python(
        """
        import os, sys
        import pandas as pd, offpolicy as op
        frame = pd.DataFrame({"x": [1.0, 2.0] * 5, "a": [0, 1] * 5, "r": [0, 1] * 5})
        log = op.scan(frame, context=["x"], action="a", reward="r").check()
        child = os.fork()
        if child == 0:
            try:
                log.engine.query("SELECT 1")
            except op.errors.UsageError as error:
                os._exit(0 if "another process" in str(error) else 2)
            os._exit(1)
        print(os.waitpid(child, 0)[1])
        """
    )
    out, said = process.communicate(timeout=120)
    assert out.strip() == "0", said


def test_one_run_at_a_time_writes_to_a_folder(tmp_path):
    holder = python(
        """
        import sys, time, pathlib
        from offpolicy._output import lock_folder
        lock_folder(pathlib.Path(sys.argv[1]))
        print("held", flush=True)
        time.sleep(60)
        """,
        str(tmp_path),
    )
    assert holder.stdout.readline().strip() == "held"
    with pytest.raises(UsageError, match="another run is writing"):
        lock_folder(tmp_path)
    holder.kill()
    holder.wait(timeout=30)
    lock_folder(tmp_path)
    lock_folder(tmp_path)  # again in the same process
    _output._HELD.pop(str(tmp_path.resolve()))[1].close()


def test_a_study_is_not_continued_by_another_version(tmp_path):
    from offpolicy_studies import folder

    path = tmp_path / "manifest.json"
    folder.claim(path, {"seed": 1})
    assert folder.claim(path, {"seed": 1})["seed"] == 1
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, folder.VERSION: "0.0.1"}))
    with pytest.raises(UsageError, match=r"version 0\.0\.1"):
        folder.claim(path, {"seed": 1})


# -- bounded readers ---------------------------------------------------------------------------------------


def test_many_fields_take_linear_time(tmp_path):
    path = tmp_path / "log.jsonl"
    line = {"action": "a", "reward": 1, "context": {"n": {str(i): i for i in range(9_000)}}}
    path.write_text((json.dumps(line) + "\n") * 3)
    assert len(read_jsonl(path).context) == 9_000
    line["context"]["n"] = {str(i): i for i in range(200_000)}
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match="context fields"):
        read_jsonl(path)


def test_ten_thousand_bad_lines_are_counted_and_a_thousand_kept(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    good = b'{"action": "a", "reward": 1}\n'
    path.write_bytes(gzip.compress(b"nonsense\n" * 10_000 + good))
    reading = read_jsonl(path)
    assert (reading.n_bad, len(reading.bad), len(reading.frame)) == (10_000, 1_000, 1)


def test_exported_tables_hold_no_formulas(tmp_path):
    from offpolicy.cli import main

    line = '{"action": "=HYPERLINK(1)", "reward": 1, "act_prob": 0.5, "context": {"@x": "+cmd", "y": "-3"}}\n'
    (tmp_path / "log.jsonl").write_text(line)
    assert main(["convert", str(tmp_path / "log.jsonl"), str(tmp_path / "out.csv"), "--from", "jsonl"]) == 0
    table = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert table["action"].tolist() == ["'=HYPERLINK(1)"]
    assert table["'@x"].tolist() == ["'+cmd"]
    assert table["y"].tolist() == ["-3"]


# -- hostile surroundings ----------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize(
    "surroundings",
    [
        {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb"},
        {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "MPLCONFIGDIR": "/nonexistent"},
        {"PYTHONHASHSEED": "17", "TZ": "Pacific/Chatham"},
    ],
    ids=["ASCII terminal", "no home", "other hash seed and clock"],
)
def test_the_demo_runs_in_odd_surroundings(tmp_path, surroundings):
    done = subprocess.run(
        [sys.executable, "-m", "offpolicy", "demo"],
        env={**os.environ, "PYTHONPATH": SOURCES, **surroundings}, cwd=tmp_path, capture_output=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode in {0, 3, 4}, done.stderr[-2000:]
    assert b"Traceback" not in done.stderr


@pytest.mark.verify
def test_too_little_memory_is_an_error_and_not_a_hang(tmp_path):
    path = tmp_path / "log.parquet"
    n = 400_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n), "u": [f"u{i}" for i in range(n)], "a": rng.integers(2, size=n)})
    frame.assign(r=1.0 * frame.a, p=0.5).to_parquet(path)
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "id": "u"}
    with op.scan(str(path), memory_limit="1MB", **roles) as log, pytest.raises(DataError, match="memory"):
        op.evaluate(log, lambda c: np.ones(len(c), dtype=int), estimators=["IPW"])


@pytest.mark.verify
def test_a_thousand_evaluations_leave_nothing_behind(tmp_path, monkeypatch):
    """The soak: memory, threads and open files after 100 and after 1,000 small evaluations."""

    def state() -> tuple[int, int, int]:
        import gc
        import threading

        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return (pages * resource.getpagesize(), threading.active_count(), len(names_in(Path("/proc/self/fd"))))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = None
    for i in range(1_000):
        small_evaluation()
        if i % 20 == 0:
            frame = pd.DataFrame({"x": [1.0, 2.0] * 20, "a": [0, 1] * 20, "r": [0, 1, 1, 0] * 10, "p": 0.5})
            with op.scan(frame, context=["x"], action="a", reward="r", propensity="p", way="stream") as log:
                op.evaluate(log, lambda c: np.ones(len(c), dtype=int), estimators=["IPW"])
        if i == 100:
            before = state()
    after = state()
    print(f"soak: {before} -> {after} (bytes, threads, files)")
    assert after[0] < before[0] + 60_000_000
    assert after[1] <= before[1]
    assert after[2] <= before[2]
    assert names_in(tmp_path) == []
