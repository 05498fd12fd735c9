"""How many small changes of the code do the tests notice? ``make mutation``.

First every test runs once and it is noted which lines it touches. Then each sampled change is made in a process of
its own, forked from one that has numpy and the like loaded, and the tests that touch the changed line run until
one fails: the quick ones first, up to a limit of seconds; what they do not notice is put to the others as well, up
to a longer limit. A change that no test notices has survived.

``equivalent.json`` holds the changes that no test can tell from the code, which do not count; ``survivors.json`` the
reasons of others that survive, which count against the score.

    python tests/mutation/run.py --size 400 --seed 1        # what is in the file of results is not run again
    python tests/mutation/run.py --size 400 --seed 1 --show # the score and the survivors
    python tests/mutation/run.py --rooms scores,inference/intervals
"""

from __future__ import annotations

import argparse
import compileall
import gc
import hashlib
import importlib
import importlib.abc
import importlib.util
import itertools
import json
import math
import os
import random
import resource
import signal
import sys
import time
from functools import cache
from pathlib import Path

from lines import Lines, note_lines
from mutants import ROOMS, ROOT, Mutant, every_mutant, sample

LOADED = ("numpy", "pandas", "polars", "pyarrow", "scipy.stats", "scipy.optimize", "sklearn.ensemble",
          "sklearn.linear_model", "lightgbm", "joblib", "hypothesis", "pytest", "doctest", "pdb", "duckdb",
          "ibis")  # fmt: skip


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


def attempt(mutant: Mutant, lines: Lines, limits: tuple[float, float]) -> dict:
    """Put it to the quick tests, then to the others, and say what became of it."""
    code, began = mutant.code(), time.time()
    before, after = mutant.change(code)
    row = {"key": mutant.key, "of": digest(mutant.path), "before": before, "after": after}
    tests = lines.tests(mutant)
    asked, outcome, by = 0, "survived", ""
    for limit in limits:
        if outcome == "survived" and asked < len(tests):
            some = tests[asked : asked + lines.up_to(tests[asked:], limit)]
            outcome, by = in_fork(mutant, code, some, lines)
            asked += len(some)
    lines.kills[by] += 1
    ended = {"tests": asked, "of_tests": len(tests), "outcome": outcome, "by": by}
    return {**row, **ended, "seconds": round(time.time() - began, 2)}


def in_fork(mutant: Mutant, code: str, tests: list[str], lines: Lines) -> tuple[str, str]:
    """What became of it, and the test that noticed."""
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
    return outcome, by


# -- all of them -------------------------------------------------------------------------------------------


def known(path: Path) -> dict[str, dict]:
    """Results so far of the modules as they are; a later line of a mutant counts."""
    if not path.exists():
        return {}
    rows = map(json.loads, path.read_text().splitlines())
    return {r["key"]: r for r in rows if r["of"] == digest(r["key"].split(":")[0])}


@cache
def digest(path: str) -> str:
    """Of a module's text: results of another text are those of other mutants."""
    file = ROOT / path
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.exists() else ""


def reasons(file: str) -> dict[str, str]:
    """Survivors with the reason: ``file: line before → line after``: why."""
    return json.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))


def show(chosen: list[Mutant], results: dict[str, dict], total: int) -> None:
    """The score by room, and the survivors."""
    tried = itertools.takewhile(lambda m: m.key in results, chosen)
    rows = {m.key: results[m.key] for m in tried}
    same, why = reasons("equivalent.json"), reasons("survivors.json")
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
    for row in sorted(survivors, key=lambda r: (name_of(r) in why, r["key"])):
        print(
            f"{row['key']}  [{row['outcome']}, {row['tests']} of {row['of_tests']} tests]\n"
            f"    - {row['before']}\n    + {row['after']}\n    {why.get(name_of(row), '(no reason is given)')}"
        )


def name_of(row: dict) -> str:
    """How a mutant is called in the files of reasons: by its file and the changed line, which outlive its number."""
    return f"{row['key'].split(':')[0].removeprefix('src/offpolicy/')}: {row['before']} → {row['after']}"


def main() -> None:
    """Run what is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rooms", default=",".join(ROOMS), help="folders or files of src/offpolicy"
    )
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of quick tests")
    parser.add_argument("--last-limit", type=float, default=200.0, help="seconds of other tests")
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
    rooms = tuple(f"src/offpolicy/{room}" for room in asked.rooms.split(","))
    mutants = [m for m in every_mutant() if m.path.startswith(rooms)]
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
            row = attempt(mutant, lines, (asked.limit, asked.last_limit))
            with results_file.open("a") as file:
                file.write(json.dumps(row) + "\n")
    show(chosen, known(results_file), len(mutants))


if __name__ == "__main__":
    main()
