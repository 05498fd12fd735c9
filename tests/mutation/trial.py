"""One change of the code, and the tests that touch it, in a process of its own.

A change inside a function is put into a session of pytest that has collected every test already: the function gets
another code in a fork of it. Changes of constants, defaults and class bodies are imported anew, which takes longer.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.util
import math
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from mutants import ROOT, Mutant, modules

if TYPE_CHECKING:
    from lines import Lines

SURVIVED, KILLED, BROKEN = 0, 1, 3
#: What a child does: runs tests, writes the name of one that fails to a pipe, and returns how it ended.
Work = Callable[[list[str], int], int]


class Failed:
    """A pytest plugin: writes the name of a test that fails to a pipe."""

    def __init__(self, pipe: int):
        self.pipe, self.any = pipe, False

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.any = True
            os.write(self.pipe, report.nodeid.encode())


def in_fork(work: Work, tests: list[str], lines: Lines) -> tuple[str, str]:
    """What became of a change, and the test that noticed."""
    began = time.time()
    # Seconds of computing, so that a busy machine does not make a change look like an endless loop.
    patience = math.ceil(30 + 6 * sum(lines.seconds[t] for t in tests))
    told, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 5))
        status = BROKEN
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            status = work(tests, pipe)
        finally:
            os._exit(status)
    os.close(pipe)
    outcome = None
    while outcome is None:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            exit_code = os.waitstatus_to_exitcode(status)
            ends = {SURVIVED: "survived", BROKEN: "broken", -signal.SIGXCPU: "timeout"}
            outcome = ends.get(exit_code, "killed")
        elif time.time() - began > 20 * patience:  # it waits for something
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            outcome = "timeout"
        else:
            time.sleep(0.02)
    with os.fdopen(told, "rb") as stream:
        by = stream.read().decode() if outcome == "killed" else ""
    return outcome, by


# -- imported anew -----------------------------------------------------------------------------------------


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another text."""

    def __init__(self, module: str, path: str, code: str):
        self.module, self.path, self.code = module, path, code

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        return importlib.util.spec_from_file_location(name, ROOT / self.path, loader=self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.code, str(ROOT / self.path), "exec"), module.__dict__)


def imported(mutant: Mutant, code: str) -> Work:
    """Import the change, then collect and run the tests."""

    def work(tests: list[str], pipe: int) -> int:
        sys.meta_path.insert(0, Changed(mutant.module, mutant.path, code))
        try:
            importlib.import_module(mutant.module)
        except Exception:  # noqa: BLE001
            return KILLED
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # hypothesis is loaded already
        options = ["-x", "-q", "-p", "pytest_timeout", "--no-header", "--tb=no"]
        done = int(pytest.main([*options, *tests], plugins=[Failed(pipe)]))
        return {0: SURVIVED, 1: KILLED, 2: KILLED}.get(done, BROKEN)

    return work


# -- in a session that has collected the tests -------------------------------------------------------------


@cache
def _functions(path: str) -> list[tuple[int, int]]:
    """First and last line of the bodies of the outermost functions and methods of a module."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    outer = [n for owner in (tree, *classes) for n in owner.body]
    outer = [n for n in outer if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(n.body[0].lineno, n.end_lineno or 0) for n in outer]


def is_inside(mutant: Mutant) -> bool:
    """Whether a change is in the body of a function."""
    return any(first <= mutant.line <= last for first, last in _functions(mutant.path))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Codes of the functions and methods of a module, those inside functions left out."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if inner.co_flags & 1:  # a function: it has fast locals
                yield inner
            else:
                yield from _codes(inner)


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class Collected:
    """A pytest plugin: tries changes in place of running the tests, in a session that has collected them."""

    def __init__(self, rooms: Sequence[str], each: Callable[[Collected], None]):
        self.rooms, self.each, self.sound = rooms, each, {}
        self.session: Any = None

    def pytest_runtestloop(self, session):
        for room in self.rooms:
            for file in modules(room):
                name = str(file.relative_to(ROOT / "src").with_suffix("")).replace("/", ".")
                importlib.import_module(name.removesuffix(".__init__"))
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.live: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType:  # an instance check would run code of others
                self.live.setdefault(_key(thing.__code__), []).append(thing)
        gc.freeze()  # what is loaded stays: children need not look through it
        self.each(self)
        return True

    def patched(self, mutant: Mutant, code: str) -> Work | None:
        """Give the changed function its other code, and run the tests; None where it cannot be found."""
        file = str(ROOT / mutant.path)
        old = compile((ROOT / mutant.path).read_text(encoding="utf-8"), file, "exec")
        pairs = zip(_codes(old), _codes(compile(code, file, "exec")), strict=True)
        found = [(f, new) for was, new in pairs if was != new for f in self.live.get(_key(was), ())]
        return self._work(found) if found else None

    def _work(self, found: list[tuple[types.FunctionType, types.CodeType]]) -> Work:
        def work(tests: list[str], pipe: int) -> int:
            for function, code in found:
                function.__code__ = code
            failed = Failed(pipe)
            self.session.config.pluginmanager.register(failed)
            chosen = [self.items[t] for t in tests if t in self.items]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if failed.any:
                    return KILLED
            return SURVIVED

        return work

    def passes(self, test: str, lines: Lines) -> bool:
        """Whether a test that noticed a change passes here without it."""
        if test not in self.sound:
            self.sound[test] = in_fork(self._work([]), [test], lines)[0] == "survived"
        return self.sound[test]


def collected(files: list[str], rooms: Sequence[str], each: Callable[[Collected], None]) -> None:
    """Try changes in a session of these test files, in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # hypothesis is loaded already
            options = ["-q", "-p", "pytest_timeout", "-m", "not verify", "--no-header"]
            pytest.main([*options, *files], plugins=[Collected(rooms, each)])
        finally:
            os._exit(0)
    os.waitpid(child, 0)
