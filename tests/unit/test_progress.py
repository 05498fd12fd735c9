"""Progress: seen where somebody looks and only on long work, in stages, gone afterwards."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

import offpolicy as op
from offpolicy import _progress

SLOW = """
import signal, time, numpy as np, offpolicy as op
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from offpolicy import _progress
_progress.DELAY = 0.05
_progress.PLAIN_EVERY = 0.0
from sklearn.base import BaseEstimator, RegressorMixin
class Slow(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        time.sleep(0.6)
        self.mean_ = float(np.mean(y))
        return self
    def predict(self, X):
        return np.full(len(X), self.mean_)
rng = np.random.default_rng(0)
log = op.BanditLog.from_arrays(rng.normal(size=(200, 2)), rng.integers(2, size=200), rng.random(200), np.full(200, .5))
print("ready", flush=True)
ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"], reward_model=Slow())
print("done", ev["DML"].n)
"""


@pytest.fixture
def lines(monkeypatch, capsys):
    """What a process prints that is told to show its progress, without the wait."""
    monkeypatch.setenv("OFFPOLICY_PROGRESS", "1")
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    monkeypatch.setattr(_progress, "REDRAWN_EVERY", 0.001)
    monkeypatch.setattr(_progress, "PLAIN_EVERY", 0.0)
    return capsys


def seen(capsys, text):
    """Wait until the thread that draws has drawn it."""
    for _ in range(2000):
        if text in capsys.readouterr().err:
            return True
        time.sleep(0.002)
    return False


def test_nothing_is_shown_and_no_thread_runs_when_piped(monkeypatch, capsys):
    monkeypatch.delenv("OFFPOLICY_PROGRESS", raising=False)
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    before = threading.active_count()
    with _progress.track("work", 2) as advance:
        advance()
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_stages_inside_stages_with_the_time_left(lines):
    with _progress.track("outer", 3) as outer:
        outer(note="first")
        assert seen(lines, "outer: 1/3, about 0 s left first")
        with _progress.track("inner", 10):
            assert seen(lines, "inner: 0/10, 0 s so far")
            _progress.tick("inner")
            assert seen(lines, "inner: 1/10")
    assert _progress.BOARD._stages == []
    assert _progress.BOARD._thread is None


def test_a_stage_left_by_an_exception_takes_those_inside_with_it(lines):
    def counting():
        with _progress.track("inner", 2):
            yield 1
            yield 2

    def interrupted():
        with _progress.track("outer", 1):
            for _ in counting():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert _progress.BOARD._stages == []
    assert _progress.BOARD._thread is None


def test_a_stage_counts_no_further_than_its_end():
    stage = _progress.Stage("fitting", 2)
    for _ in range(5):
        stage.advance()
    assert stage.done == 2
    assert stage.left == 0


@pytest.mark.parametrize("seed", range(20))
def test_what_is_shown_as_left_never_grows_by_more_than_a_fifth(monkeypatch, seed):
    """Parts of very different lengths, seen four times a second of a simulated clock."""
    rng, now = np.random.default_rng(seed), [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    parts = rng.lognormal(1.0, 1.5, 30)
    stage, numbers = _progress.Stage("fitting", len(parts), started=0.0), []
    for seconds in parts:
        end = now[0] + seconds
        while now[0] < end:
            numbers.append(stage.shown)
            now[0] = min(end, now[0] + _progress.REDRAWN_EVERY)
        stage.advance()
    told = [left for left in numbers if left is not None]
    assert told
    assert all(left <= 1.2 * min(told[: i + 1]) for i, left in enumerate(told))


def test_at_a_steady_pace_the_time_left_is_right_and_always_shown(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    stage = _progress.Stage("fitting", 10, started=0.0)
    for tick in range(1, 101):
        now[0] = tick / 2
        if tick % 10 == 0:
            stage.advance()
        if tick >= 10:
            assert stage.shown == pytest.approx(50.0 - now[0])


@pytest.mark.parametrize("kind", ["rows", "stream", "episodes"])
def test_every_path_tells_its_stages(lines, kind, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(_progress.BOARD, "open", opened.append)
    monkeypatch.setattr(_progress.BOARD, "close", lambda _: None)
    monkeypatch.setattr(
        _progress.BOARD, "tick", lambda name, note: [s.advance() for s in opened if s.description == name][-1:]
    )
    rng = np.random.default_rng(0)
    if kind == "episodes":
        log = op.Trajectories.from_arrays(
            rng.integers(3, size=(40, 3)),
            rng.integers(2, size=(40, 3)),
            rng.random((40, 3)),
            propensities=np.full((40, 3), 0.5),
        )
        policy = op.policies.Fixed(1)
    else:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame({"x": rng.normal(size=400), "a": rng.integers(2, size=400)})
        frame["r"], frame["p"] = rng.random(400), 0.5
        names = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
        log = op.BanditLog.from_frame(frame, **names)
        if kind == "stream":
            frame.to_parquet(tmp_path / "log.parquet")
            log = op.scan(str(tmp_path / "log.parquet"), way="stream", **names)
        policy = op.policies.Fixed(1)
    ev = op.evaluate(log, policy, estimators=["DML", "IPW"])
    ev.frame()
    assert ev.diagnostics
    stages = {s.description: s for s in opened}
    expected = {"fitting models", "estimates", "intervals", "checks"}
    assert expected <= set(stages)
    if kind == "stream":
        assert {"reading", "reading and predicting"} <= set(stages)
    for name, stage in stages.items():
        assert stage.done == stage.total, name


def test_a_terminal_sees_bars_that_are_wiped_away():
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    env.pop("OFFPOLICY_PROGRESS", None)
    process = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=child, env=env)
    os.close(child)
    drawn = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    out, _ = process.communicate()
    os.close(parent)
    assert process.returncode == 0, drawn.decode(errors="replace")
    assert b"done 200" in out
    assert b"fitting models" in drawn
    assert b"left" in drawn
    assert drawn.rstrip().endswith((b"\x1b[2K", b"\x1b[?25h")), drawn[-80:]


def test_work_can_be_interrupted():
    env = {**os.environ, "OFFPOLICY_PROGRESS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.replace("0.6", "30")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    for line in process.stderr:
        if "fitting models" in line:
            break
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in error


def test_a_notebook_gets_html_that_is_escaped_and_updated_in_place(monkeypatch):
    updates = []
    handle = types.SimpleNamespace(update=updates.append)
    display = types.SimpleNamespace(HTML=str, display=lambda _, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(display=display))
    screen = _progress.Notebook()
    screen.draw([_progress.Stage("checks", 4, done=1, note="<b>")])
    assert '<progress value="1" max="4">' in updates[0]
    assert "&lt;b&gt;" in updates[0]
    screen.close()
    assert updates[-1] == ""
