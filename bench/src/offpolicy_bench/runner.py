"""Puts logs to entries, one at a time, in processes of their own, and writes down what comes back.

CPU time and memory are read from outside, for entries in any language: user and system time of the process and of
children it waited for, and its largest resident memory, which is reset before each log (Linux; elsewhere null).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, cast

import numpy as np

from offpolicy_bench.entry import HERE, Entry, interpreter
from offpolicy_bench.schema import VERSION, check, settle
from offpolicy_bench.task import FIELDS, LEVEL, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
START_SECONDS = 300.0


class StoppedError(RuntimeError):
    """The process of an entry ended, or took too long."""


class Process:
    """The running process of an entry."""

    def __init__(self, entry: Entry, folder: Path, errors: IO[bytes]) -> None:
        words = list(entry.command) or [
            interpreter(entry, folder),
            "-W",
            "ignore",
            str(HERE / "worker.py"),
            str(entry.path),
        ]
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
        self._process = subprocess.Popen(  # noqa: S603
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **one},
            cwd=entry.path.parent,
        )
        self._buffer = b""
        if not entry.command:
            try:
                self._line(START_SECONDS)
            except StoppedError:
                self.close()
                raise

    def ask(self, asked: dict[str, Any], limit: float) -> tuple[dict[str, Any], float | None, float | None]:
        """The answer, CPU seconds and peak memory in MB."""
        _reset_peak(self._process.pid)
        before = _cpu(self._process.pid)
        stdin = cast("IO[bytes]", self._process.stdin)
        try:
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise StoppedError(f"the process ended with code {self._process.wait()}") from error
        answer = json.loads(self._line(limit))
        after = _cpu(self._process.pid)
        spent = None if before is None or after is None else after - before
        return answer, spent, _peak(self._process.pid)

    def _line(self, limit: float) -> bytes:
        """One line of output, or `StoppedError`."""
        stdout = cast("IO[bytes]", self._process.stdout)
        until = time.monotonic() + limit
        with selectors.DefaultSelector() as waiting:
            waiting.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not waiting.select(max(0.0, until - time.monotonic())):
                    self.close()
                    raise StoppedError(f"no answer within {limit:.0f} s")
                got = os.read(stdout.fileno(), 65_536)
                if not got:
                    raise StoppedError(f"the process ended with code {self._process.wait()}")
                self._buffer += got
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _cpu(pid: int) -> float | None:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return sum(int(t) for t in after_name[11:15]) / TICKS


def _reset_peak(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return


def _peak(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def results_file(folder: Path, entry: str, size: str) -> Path:
    """Where the lines of an entry stand."""
    return folder / "results" / size / f"{entry}.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    """The results of a file; a last line that was cut short is dropped from it."""
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    return [json.loads(line) for line in whole.decode("utf-8").splitlines()]


class Session:
    """An entry under test: one process for all its tasks, started again where it dies."""

    def __init__(self, entry: Entry, folder: Path) -> None:
        self.entry, self.folder = entry, folder
        self._process: Process | None = None
        path = folder / "errors" / f"{entry.name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._errors = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process = None

    def ask(self, asked: dict[str, Any], limit: float) -> tuple[dict[str, Any], float | None, float | None]:
        """As `Process.ask`; a process that ends or takes too long has refused."""
        try:
            if self._process is None:
                self._process = Process(self.entry, self.folder, self._errors)
            return self._process.ask(asked, limit)
        except StoppedError as stopped:
            self._end()
            return {"refused": str(stopped), "raised": True}, None, None


def run(
    entry: Entry,
    tasks: Iterable[Task],
    *,
    size: str,
    logs: int,
    folder: Path,
    data: Path | None = None,
    limit: float = 600.0,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
) -> list[dict[str, Any]]:
    """Put the first ``logs`` logs of every task to an entry; those already answered by the same adapter are kept.

    Returns all results of the entry at this size.
    """
    path = results_file(folder, entry.name, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {(r["task"], r["log"]): r for r in lines(path) if r["code"] == entry.code}
    with Session(entry, folder) as session, tempfile.TemporaryDirectory() as place:
        for task in tasks:
            todo = [i for i in range(logs) if (task.name, i) not in known]
            reason = f"not for {task.kind}" if task.kind not in entry.kinds else task.missing(data)
            if reason is not None or not todo:
                say(f"{entry.name:16} {task.name:26} {reason or 'done before'}")
                continue
            began, spent = time.monotonic(), 0.0
            for done, index in enumerate(todo, start=1):
                line = _result(session, task, size, index, data, Path(place) / "log.npz", limit)
                check(line)
                known[task.name, index] = line
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line, allow_nan=False) + "\n")
                spent += line["seconds"] or 0.0
                if done == len(todo) or done % 10 == 0:
                    wall = time.monotonic() - began
                    say(
                        f"{entry.name:16} {task.name:26} {done}/{len(todo)}  "
                        f"{spent / done:.2f} CPU-s per log, {wall:.0f} s"
                    )
    return list(known.values())


def _result(
    session: Session, task: Task, size: str, index: int, data: Path | None, path: Path, limit: float
) -> dict[str, Any]:
    """Draw one log, put it to the entry, and write down what it says."""
    drawn = task.log(size, index, data)
    np.savez(path, allow_pickle=False, **drawn.arrays)
    asked = {"log": str(path), "kind": task.kind, "level": LEVEL, "seed": index, "fields": list(FIELDS[task.kind])}
    answer, seconds, peak = session.ask(asked, limit)
    return {
        "schema": VERSION,
        "entry": session.entry.name,
        "task": task.name,
        "size": size,
        "log": index,
        "code": session.entry.code,
        "truth": None if task.refuse else drawn.truth,
        **settle(answer),
        "seconds": seconds,
        "peak_mb": peak,
    }
