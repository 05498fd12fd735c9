"""How many small changes of the code do the tests notice? ``make mutation``.

First every test runs once and it is noted which lines it touches. Then each sampled change is made in a process of
its own, forked from one that has numpy and the like loaded, and the tests that touch the changed line run until
one fails: the quick ones first, up to a limit of seconds. A change that no test notices has survived.

    python tests/mutation/run.py --size 400 --seed 1        # what is in the file of results is not run again
    python tests/mutation/run.py --size 400 --seed 1 --show # the score and the survivors
"""

from __future__ import annotations

import argparse
import ast
import compileall
import gc
import importlib
import importlib.abc
import importlib.util
import itertools
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path

from mutants import ROOMS, ROOT, Mutant, every_mutant, sample

TESTS = ["tests/unit", "tests/reference", "tests/property", "tests/hostile", *(
    f"src/offpolicy/{room}" for room in ROOMS
)]  # fmt: skip
#: Processes, engines, learners, pages: slow, and about other rooms.
LEFT_OUT = (
    "test_advise", "test_catalogue", "test_cli", "test_docs", "test_ecosystem", "test_engine", "test_episode_study",
    "test_faults", "test_first", "test_formats", "test_import_cost", "test_layers", "test_learn", "test_names",
    "test_progress", "test_qa", "test_router", "test_spark", "test_sql", "test_threads",
)  # fmt: skip
LOADED = ("numpy", "pandas", "polars", "pyarrow", "scipy.stats", "scipy.optimize", "sklearn.ensemble",
          "sklearn.linear_model", "lightgbm", "joblib", "hypothesis", "pytest", "doctest", "pdb", "duckdb",
          "ibis")  # fmt: skip


# -- which tests touch which lines -------------------------------------------------------------------------


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


def note_lines(folder: Path, files: list[str]) -> None:
    """Run every test of some files (default: all) once, and add what it touches to what is known."""
    import pytest
    from coverage import Coverage

    paths = [str(ROOT / "src/offpolicy" / room) for room in ROOMS]
    coverage = Coverage(data_file=str(folder / "lines"), source=paths, config_file=False)
    seconds = folder / "seconds.json"
    known = json.loads(seconds.read_text()) if seconds.exists() else {}
    if known:
        coverage.load()
    noted = Noted(coverage)
    coverage.start()
    pytest.main(
        ["-q", "-p", "no:xdist", "-m", "not verify", "--timeout", "120", *(files or every_file())],
        plugins=[noted],
    )
    coverage.stop()
    coverage.save()
    passed = {k: round(s, 3) for k, s in noted.seconds.items() if s < math.inf}
    seconds.write_text(json.dumps({**known, **passed}, indent=0))


def every_file() -> list[str]:
    """Test files that are about numbers, and the modules themselves, whose examples run."""
    files = [p for t in TESTS for p in sorted((ROOT / t).rglob("*.py"))]
    files = [p for p in files if p.name.startswith("test_") or "src" in p.parts]
    return [str(p.relative_to(ROOT)) for p in files if not p.name.startswith(LEFT_OUT)]


class Lines:
    """Tests by the lines they touch."""

    def __init__(self, folder: Path):
        from coverage import CoverageData

        self.kills: Counter[str] = Counter()
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
        data = CoverageData(str(folder / "lines"))
        data.read()
        self.by_file: dict[str, dict[int, set[str]]] = {}
        for path in data.measured_files():
            lines = data.contexts_by_lineno(path)
            name = "src/offpolicy/" + path.split("/src/offpolicy/")[-1]
            self.by_file[name] = {
                n: {t for t in tests if t in self.seconds} for n, tests in lines.items()
            }

    def tests(self, mutant: Mutant, limit: float) -> list[str]:
        """Those that touch the mutant, up to ``limit`` seconds: those that killed others first, then the quick ones."""
        found = self._touching(mutant)
        chosen, total = [], 0.0
        for test in sorted(found, key=lambda t: (-self.kills[t], self.seconds[t], t)):
            total += self.seconds[test]
            if total > limit and chosen:
                break
            chosen.append(test)
        return chosen

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
            return found
        found = set().union(*(lines.get(n, set()) for n in range(first, last + 1)))
        return found or set().union(*lines.values(), set())


@cache
def _around(path: str, line: int) -> tuple[int, int, bool, tuple[str, ...]]:
    """First and last line of the innermost statement (of the function, for defaults), if it is in a body, names."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = [f for f in functions if f.body[0].lineno <= line <= f.end_lineno]
    if inside:
        statements = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno
        ]
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


# -- one mutant --------------------------------------------------------------------------------------------


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


SURVIVED, KILLED, BROKEN = 0, 1, 3


class Failed:
    """A pytest plugin: writes the name of a test that fails to a pipe."""

    def __init__(self, pipe: int):
        self.pipe = pipe

    def pytest_runtest_logreport(self, report):
        if report.failed:
            os.write(self.pipe, report.nodeid.encode())


def in_child(mutant: Mutant, code: str, tests: list[str], pipe: int) -> int:
    """Import the change and run the tests; what they print is lost."""
    import pytest

    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    sys.meta_path.insert(0, Changed(mutant.module, mutant.path, code))
    try:
        importlib.import_module(mutant.module)
    except Exception:  # noqa: BLE001
        return KILLED
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # hypothesis is loaded already
    done = int(
        pytest.main(
            ["-x", "-q", "-p", "pytest_timeout", "--no-header", "--tb=no", *tests],
            plugins=[Failed(pipe)],
        )
    )
    return {0: SURVIVED, 1: KILLED, 2: KILLED}.get(done, BROKEN)


def attempt(mutant: Mutant, lines: Lines, limit: float) -> dict:
    """Fork, wait, and say what became of it."""
    code, began = mutant.code(), time.time()
    before, after = mutant.change(code)
    tests = lines.tests(mutant, limit)
    row = {"key": mutant.key, "before": before, "after": after, "tests": len(tests)}
    if not tests:
        return {**row, "outcome": "survived", "seconds": 0.0}
    # Seconds of computing, so that a busy machine does not make a change look like an endless loop.
    patience = math.ceil(30 + 6 * sum(lines.seconds[t] for t in tests))
    told, pipe = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 5))
        status = BROKEN
        try:
            status = in_child(mutant, code, tests, pipe)
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
    lines.kills[by] += 1
    return {**row, "outcome": outcome, "by": by, "seconds": round(time.time() - began, 2)}


# -- all of them -------------------------------------------------------------------------------------------


def known(path: Path) -> dict[str, dict]:
    """Results so far; a later line of a mutant counts."""
    if not path.exists():
        return {}
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}


def reasons() -> dict[str, str]:
    """Survivors that no test can tell from the code, with the reason: ``line after the change``: why."""
    return json.loads((Path(__file__).parent / "equivalent.json").read_text())


def show(chosen: list[Mutant], results: dict[str, dict], total: int) -> None:
    """The score by room, and the survivors."""
    tried = itertools.takewhile(lambda m: m.key in results, chosen)
    rows = {m.key: results[m.key] for m in tried}
    same = reasons()
    print(
        "| room | mutants | killed | no test can tell | survived | score |\n|---|---:|---:|---:|---:|---:|"
    )
    survivors = []
    for room in (*ROOMS, "all"):
        mine = [
            r for k, r in rows.items() if room == "all" or k.startswith(f"src/offpolicy/{room}/")
        ]
        if not mine:
            continue
        dead = [r for r in mine if r["outcome"] in {"killed", "timeout"}]
        alike = [r for r in mine if r not in dead and name_of(r) in same]
        left = [r for r in mine if r not in dead and r not in alike]
        n = len(mine) - len(alike)
        share = len(dead) / max(n, 1)
        error = math.sqrt(max(share * (1 - share), 1 / (n + 4)) / max(n, 1))
        print(
            f"| {room} | {len(mine)} | {len(dead)} | {len(alike)} | {len(left)} | {share:.1%} ± {error:.1%} |"
        )
        survivors = left
    print(f"\n{len(rows)} of {total:,} mutants tried.\n")
    for row in survivors:
        print(
            f"{row['key']}  [{row['outcome']}, {row['tests']} tests]\n    - {row['before']}\n    + {row['after']}"
        )


def name_of(row: dict) -> str:
    """How a mutant is called in equivalent.json: by its file and the changed line, which outlive its number."""
    return f"{row['key'].split(':')[0].removeprefix('src/offpolicy/')}: {row['before']} → {row['after']}"


def main() -> None:
    """Run what is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of tests for one mutant")
    parser.add_argument("--folder", type=Path, default=ROOT / "out/mutation")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument(
        "--note", nargs="*", default=[], help="test files that are new since the lines were noted"
    )
    parser.add_argument("--show", action="store_true", help="only the score")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    results_file = asked.folder / "results.jsonl"
    mutants = every_mutant()
    chosen = sample(mutants, asked.size, asked.seed)
    random.Random(asked.seed).shuffle(
        chosen
    )  # so that a run that is stopped has tried a sample as well
    if not asked.show:
        if asked.note or not (asked.folder / "seconds.json").exists():
            child = os.fork()
            if child == 0:
                note_lines(asked.folder, asked.note)
                os._exit(0)
            os.waitpid(child, 0)
        lines = Lines(asked.folder)
        for name in LOADED:
            importlib.import_module(name)
        compileall.compile_dir(ROOT / "src", quiet=1)
        gc.freeze()  # what is loaded stays: children need not look through it
        done = known(results_file)
        lines.kills.update(row["by"] for row in done.values() if row.get("by"))
        gone = {"killed", "timeout"}
        for mutant in chosen:
            if mutant.key in done and (not asked.again or done[mutant.key]["outcome"] in gone):
                continue
            row = attempt(mutant, lines, asked.limit)
            with results_file.open("a") as file:
                file.write(json.dumps(row) + "\n")
    show(chosen, known(results_file), len(mutants))


if __name__ == "__main__":
    main()
