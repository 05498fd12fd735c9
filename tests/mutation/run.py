"""How many small changes of the code do the tests notice? ``make mutation``.

First every test runs once and it is noted which lines it touches. Then each sampled change is made in a process of
its own (`trial`), and the tests that touch the changed line run until one fails: the quick ones first, up to a limit
of seconds; what they do not notice is put to the others as well, up to a longer limit. A change that no test notices
has survived.

``equivalent.json`` holds the changes that no test can tell from the code, which do not count; ``survivors.json`` the
reasons of others that survive, which count against the score.

    python tests/mutation/run.py --size 400 --seed 1        # what is in the file of results is not run again
    python tests/mutation/run.py --size 400 --seed 1 --show # the score and the survivors
    python tests/mutation/run.py --rooms scores,inference/intervals
    python tests/mutation/run.py --rooms readers            # the readers and the checks of roles, by tests of these
"""

from __future__ import annotations

import argparse
import compileall
import gc
import hashlib
import importlib
import itertools
import json
import math
import os
import random
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lines import Lines, every_file, note_lines
from mutants import READERS, ROOMS, ROOT, Mutant, every_mutant, sample
from trial import Collected, collected, imported, in_fork, is_inside

if TYPE_CHECKING:
    from collections.abc import Sequence

LOADED = ("numpy", "pandas", "polars", "pyarrow", "scipy.stats", "scipy.optimize", "sklearn.ensemble",
          "sklearn.linear_model", "lightgbm", "joblib", "hypothesis", "pytest", "doctest", "pdb", "duckdb",
          "ibis")  # fmt: skip


# -- one mutant --------------------------------------------------------------------------------------------


def attempt(mutant: Mutant, lines: Lines, limits: tuple[float, float], session: Collected | None = None) -> dict | None:
    """Put it to the quick tests, then to the others, and say what became of it; None where a session cannot tell."""
    code, began = mutant.code(), time.time()
    before, after = mutant.change(code)
    row = {"key": mutant.key, "of": digest(mutant.path), "before": before, "after": after}
    work = imported(mutant, code) if session is None else session.patched(mutant, code)
    if work is None:
        return None
    tests = lines.tests(mutant)
    asked, outcome, by = 0, "survived", ""
    for limit in limits:
        if limit and outcome == "survived" and asked < len(tests):
            some = tests[asked : asked + lines.up_to(tests[asked:], limit)]
            outcome, by = in_fork(work, some, lines)
            asked += len(some)
    if session is not None and by and not session.passes(by, lines):
        return None
    lines.kills[mutant.path, by] += 1
    ended = {"tests": asked, "of_tests": len(tests), "outcome": outcome, "by": by}
    return {**row, **ended, "seconds": round(time.time() - began, 2)}


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


def show(chosen: list[Mutant], results: dict[str, dict], total: int, rooms: Sequence[str]) -> None:
    """The score by room, and the survivors."""
    tried = itertools.takewhile(lambda m: m.key in results, chosen)
    rows = {m.key: results[m.key] for m in tried}
    same, why = reasons("equivalent.json"), reasons("survivors.json")
    print("| room | mutants | killed | no test can tell | survived | score |\n|---|---:|---:|---:|---:|---:|")
    survivors = []
    for room in (*rooms, "all"):
        mine = [r for k, r in rows.items() if room == "all" or k.startswith(f"src/offpolicy/{room}")]
        if not mine:
            continue
        dead = [r for r in mine if r["outcome"] in {"killed", "timeout"}]
        alike = [r for r in mine if r not in dead and name_of(r) in same]
        left = [r for r in mine if r not in dead and r not in alike]
        n = len(mine) - len(alike)
        share = len(dead) / max(n, 1)
        error = math.sqrt(max(share * (1 - share), 1 / (n + 4)) / max(n, 1))
        print(f"| {room} | {len(mine)} | {len(dead)} | {len(alike)} | {len(left)} | {share:.1%} ± {error:.1%} |")
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
    parser.add_argument("--rooms", default=",".join(ROOMS), help="folders or files of src/offpolicy; or readers")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of quick tests")
    parser.add_argument("--last-limit", type=float, default=200.0, help="seconds of other tests")
    parser.add_argument("--folder", type=Path, default=ROOT / "out/mutation")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--note", nargs="*", default=[], help="test files that are new since the lines were noted")
    parser.add_argument("--show", action="store_true", help="only the score")
    asked = parser.parse_args()
    of_readers = asked.rooms == "readers"
    rooms = READERS if of_readers else tuple(asked.rooms.split(","))
    asked.folder = asked.folder / "readers" if of_readers else asked.folder
    asked.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    results_file = asked.folder / "results.jsonl"
    mutants = every_mutant(rooms)
    chosen = sample(mutants, asked.size, asked.seed)
    random.Random(asked.seed).shuffle(chosen)  # so that a run that is stopped has tried a sample as well
    if not asked.show:
        if asked.note or not (asked.folder / "seconds.json").exists():
            child = os.fork()
            if child == 0:
                note_lines(asked.folder, asked.note or every_file(rooms), READERS if of_readers else ROOMS)
                os._exit(0)
            os.waitpid(child, 0)
        lines = Lines(asked.folder)
        for name in LOADED:
            importlib.import_module(name)
        compileall.compile_dir(ROOT / "src", quiet=1)
        gc.freeze()  # what is loaded stays: children need not look through it

        parent = os.getpid()

        def each(session: Collected | None) -> None:
            """Try what is not known yet, and write it down."""
            done = known(results_file)
            lines.kills.update((k.split(":")[0], row["by"]) for k, row in done.items() if row["by"])
            again = {"survived", "broken"} if asked.again else set()
            for mutant in chosen:
                if session is not None and os.getppid() != parent:
                    return  # who asked is gone
                right = is_inside(mutant) == (session is not None)
                if mutant.key in done and not (right and done[mutant.key]["outcome"] in again):
                    continue
                if right or session is None:  # what a session could not tell is imported anew
                    row = attempt(mutant, lines, (asked.limit, asked.last_limit), session)
                    if row is not None:
                        with results_file.open("a") as file:
                            file.write(json.dumps(row) + "\n")

        collected(sorted({t.split("::")[0] for t in lines.seconds}), rooms, each)
        each(None)
    show(chosen, known(results_file), len(mutants), rooms)


if __name__ == "__main__":
    main()
