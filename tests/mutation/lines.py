"""Which tests touch which lines: noted once by running every test, then asked for each change of the code."""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
import time
from collections import Counter, defaultdict
from functools import cache, cached_property
from typing import TYPE_CHECKING

from mutants import READERS, ROOT, Mutant, modules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TESTS = ["tests/unit", "tests/reference", "tests/property", "tests/hostile"]
#: Processes, engines, learners, pages: slow, and about other rooms.
LEFT_OUT = (
    "test_advise", "test_catalogue", "test_cli", "test_docs", "test_ecosystem", "test_engine", "test_episode_study",
    "test_faults", "test_first", "test_formats", "test_import_cost", "test_layers", "test_learn", "test_names",
    "test_progress", "test_qa", "test_router", "test_spark", "test_sql", "test_threads",
)  # fmt: skip


#: Tests that are about readers and roles.
OF_READERS = (
    "tests/fuzz/test_corpus.py",
    *(f"tests/hostile/test_{name}.py" for name in (
        "calls", "catalogue", "contracts", "generated", "losses", "names", "numeric_edges", "reader_edges", "readers",
        "strict_logs",
    )),
    *(f"tests/unit/test_{name}.py" for name in (
        "actions", "bandit_log", "cli", "cli_init", "cli_output", "ecosystem", "engine_scan", "engine_stream",
        "episodes_streamed", "formats", "frame", "metrics", "outcomes", "qa_cli", "qa_episodes", "qa_users", "roles",
        "router_log", "slates", "slates_streamed", "trajectories",
    )),
)  # fmt: skip


class Noted:
    """A pytest plugin: the tests that pass, their seconds of computing, and the lines they touch."""

    def __init__(self, coverage):
        self.coverage, self.seconds, self.began = coverage, {}, 0.0

    def pytest_runtest_logstart(self, nodeid):
        self.coverage.switch_context(nodeid)
        self.began = time.process_time()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.seconds[report.nodeid] = math.inf
        elif report.passed and self.seconds.get(report.nodeid) != math.inf:
            self.seconds[report.nodeid] = time.process_time() - self.began


def note_lines(folder: Path, files: list[str], rooms: Sequence[str]) -> None:
    """Run every test of some files once, and add what it touches of some rooms to what is known."""
    import pytest
    from coverage import Coverage

    places = [f"{ROOT}/src/offpolicy/{room}" + ("" if room.endswith(".py") else "/*") for room in rooms]
    coverage = Coverage(data_file=str(folder / "lines"), include=places, config_file=False)
    seconds = folder / "seconds.json"
    known = json.loads(seconds.read_text()) if seconds.exists() else {}
    if known:
        coverage.load()
    noted = Noted(coverage)
    coverage.start()
    pytest.main(["-q", "-p", "no:xdist", "-m", "not verify", "--timeout", "120", *files], plugins=[noted])
    coverage.stop()
    coverage.save()
    passed = {k: round(s, 3) for k, s in noted.seconds.items() if s < math.inf}
    seconds.write_text(json.dumps({**known, **passed}, indent=0))


def every_file(rooms: Sequence[str]) -> list[str]:
    """Test files that are about these rooms, and the modules themselves, whose examples run."""
    examples = [str(p.relative_to(ROOT)) for room in rooms for p in modules(room)]
    if set(rooms) <= set(READERS):
        return [*OF_READERS, *examples]
    files = [p for t in TESTS for p in sorted((ROOT / t).rglob("test_*.py")) if not p.name.startswith(LEFT_OUT)]
    return [*(str(p.relative_to(ROOT)) for p in files), *examples]


class Lines:
    """Tests by the lines they touch."""

    def __init__(self, folder: Path):
        from coverage import CoverageData

        self.kills: Counter[tuple[str, str]] = Counter()  # by file and test
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
        data = CoverageData(str(folder / "lines"))
        data.read()
        self.by_file: dict[str, dict[int, set[str]]] = {}
        for path in data.measured_files():
            lines = data.contexts_by_lineno(path)
            name = "src/offpolicy/" + path.split("/src/offpolicy/")[-1]
            mine = self.by_file.setdefault(name, {})  # two checkouts of one file are added up
            for n, tests in lines.items():
                mine.setdefault(n, set()).update(t for t in tests if t in self.seconds)

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that touch the mutant: first those that killed others of its file, then those that are most about it.

        A test is about a file by the share of the lines it touches that are in it.
        """
        path, found = mutant.path, self._touching(mutant)

        def place(test: str) -> tuple[float, ...]:
            about = self._touched[path][test] / max(1, self._touched[""][test])
            return -self.kills[path, test], -round(about, 1), self.seconds[test]

        return sorted(found, key=lambda t: (*place(t), t))

    @cached_property
    def _touched(self) -> defaultdict[str, Counter[str]]:
        """How many lines of each file a test touches; of all files by no name."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for path, by_line in self.by_file.items():
            for tests in by_line.values():
                found[path].update(tests)
                found[""].update(tests)
        return found

    def up_to(self, tests: list[str], limit: float) -> int:
        """How many of the tests fit into so many seconds; the first always does."""
        total = itertools.accumulate(self.seconds[t] for t in tests)
        return max(1, sum(1 for seconds in total if seconds <= limit))

    def _touching(self, mutant: Mutant) -> set[str]:
        lines = self.by_file.get(mutant.path, {})
        first, last, is_body, names = _around(mutant.path, mutant.line)
        if is_body:  # a statement may go over several lines, of which one counts as touched
            return set().union(*(lines.get(n, set()) for n in range(first, last + 1)))
        if names:  # a constant: whoever touches a line that mentions it
            word = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
            found = set()
            for path, by_line in self.by_file.items():
                text = (ROOT / path).read_text(encoding="utf-8").splitlines()
                for n, tests in by_line.items():
                    if n <= len(text) and word.search(text[n - 1]):
                        found |= tests
            # A test that looks at the constant itself touches no such line, but names it.
            return found | {t for t in self.seconds if word.search(_text_of(t.split("::")[0]))}
        found = set().union(*(lines.get(n, set()) for n in range(first, last + 1)))
        return found or set().union(*lines.values(), set())


@cache
def _text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def _around(path: str, line: int) -> tuple[int, int, bool, tuple[str, ...]]:
    """First and last line of the innermost statement (of the function, for defaults), if it is in a body, names."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = [f for f in functions if f.body[0].lineno <= line <= f.end_lineno]
    if inside:
        statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
        inner = max(statements, key=lambda n: n.lineno)
        last = inner.body[0].lineno - 1 if hasattr(inner, "body") else inner.end_lineno
        return inner.lineno, max(last, inner.lineno), True, ()
    heads = [f for f in functions if f.lineno <= line < f.body[0].lineno]
    if heads:
        return heads[-1].body[0].lineno, heads[-1].end_lineno, False, ()
    names: list[str] = []
    for n in ast.walk(tree):
        if isinstance(n, ast.Assign | ast.AnnAssign) and n.lineno <= line <= n.end_lineno:
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]
            names += [t.id for t in targets if isinstance(t, ast.Name)]
    return 1, 0, False, tuple(names)
