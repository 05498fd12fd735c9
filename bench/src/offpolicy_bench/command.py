"""``offpolicy bench``: list, run, score, page.

offpolicy bench list
offpolicy bench run --entry offpolicy --entry my_entry.py --data DIR --quick --logs 20
offpolicy bench score            # results in .bench/ → bench/results/summary.json
offpolicy bench page             # summary.json → docs/bench.md and its pictures
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offpolicy_bench import entry as entries
from offpolicy_bench import page, runner
from offpolicy_bench.scorer import overall, score
from offpolicy_bench.task import LOGS, SIZES
from offpolicy_bench.tasks import TASKS

ABSENT = entries.HERE / "absent.json"
LIMITS = entries.HERE / "limits.json"


@dataclass(frozen=True)
class Bench:
    """The command as the library's command line finds it: an entry point of the group ``offpolicy.commands``."""

    name: str = "bench"
    help: str = "a scoreboard for off-policy evaluation: run entries on frozen tasks, score them, write the page"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verbs and their flags."""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="list | run | score | page")
        verbs.add_parser("list", help="tasks and entries")
        run = verbs.add_parser("run", help="put logs to entries; results are kept, and a run goes on from them")
        run.add_argument("--entry", action="append", required=True, help="name of an entry, or a .py or .toml file")
        run.add_argument("--task", action="append", choices=list(TASKS), metavar="TASK", help="default: all")
        run.add_argument("--data", type=Path, default=os.environ.get("OFFPOLICY_DATA"), help="folder with public data")
        run.add_argument("--logs", type=int, help=f"logs per task; default: {LOGS['quick']} or {LOGS['full']}")
        run.add_argument("--limit", type=float, default=600.0, help="seconds an entry may take for one log")
        score_it = verbs.add_parser("score", help="results to a summary")
        show = verbs.add_parser("page", help="a summary to a page with pictures")
        for verb in (run, score_it):
            verb.add_argument("--folder", type=Path, default=Path(".bench"), help="environments and results")
            verb.add_argument("--quick", action="store_true", help="the small size")
        for verb in (score_it, show):
            verb.add_argument("--summary", type=Path, default=Path("bench/results/summary.json"))
        show.add_argument("--page", type=Path, default=Path("docs/bench.md"))
        show.add_argument("--pictures", type=Path, default=Path("docs/pictures/bench"))

    def run(self, arguments: argparse.Namespace) -> str:
        """Run a verb and return what to print."""
        verbs = {"list": _list, "run": _run, "score": _score, "page": _page}
        return verbs[arguments.verb](arguments)


BENCH = Bench()


def main(words: list[str] | None = None) -> int:
    """``offpolicy-bench``."""
    parser = argparse.ArgumentParser(prog="offpolicy-bench", description=BENCH.help)
    BENCH.add_arguments(parser)
    try:
        print(BENCH.run(parser.parse_args(words)))
    except (ValueError, RuntimeError, OSError) as error:
        print(f"offpolicy-bench: {error}", file=sys.stderr)
        return 1
    return 0


def _list(arguments: argparse.Namespace) -> str:  # noqa: ARG001
    tasks = [f"  {t.name:28}{t.kind:12}{'refuse' if t.refuse else ''}" for t in TASKS.values()]
    known = [entries.read(name) for name in entries.shipped()]
    return "\n".join(["tasks:", *tasks, "", "entries:", *(f"  {e.name:28}{', '.join(e.kinds)}" for e in known)])


def _run(arguments: argparse.Namespace) -> str:
    size = SIZES[0] if arguments.quick else SIZES[1]
    said = []
    for name in arguments.entry:
        entry = entries.read(name)
        results = runner.run(
            entry,
            [TASKS[t] for t in arguments.task or TASKS],
            size=size,
            logs=arguments.logs or LOGS[size],
            folder=arguments.folder.resolve(),
            data=None if arguments.data is None else Path(arguments.data),
            limit=arguments.limit,
        )
        place = runner.results_file(arguments.folder, entry.name, size)
        said.append(f"{entry.name}: {len(results)} results in {place}")
    return "\n".join(said)


def _score(arguments: argparse.Namespace) -> str:
    size = SIZES[0] if arguments.quick else SIZES[1]
    summary = summarize(arguments.folder, size)
    arguments.summary.parent.mkdir(parents=True, exist_ok=True)
    arguments.summary.write_text(json.dumps(_rounded(summary), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = [
        f"{e:16} {r['tasks']:3} tasks, error {r['relative'] or float('nan'):.2f} of the best"
        for e, r in summary["overall"].items()
    ]
    return "\n".join([*lines, f"written: {arguments.summary}"])


def _page(arguments: argparse.Namespace) -> str:
    page.write(json.loads(arguments.summary.read_text(encoding="utf-8")), arguments.page, arguments.pictures)
    return f"written: {arguments.page}"


def summarize(folder: Path, size: str) -> dict[str, Any]:
    """All that the page shows, from the result lines of a folder."""
    lines = [line for path in sorted((folder / "results" / size).glob("*.jsonl")) for line in runner.lines(path)]
    if not lines:
        raise ValueError(f"{folder / 'results' / size} has no results: run an entry first")
    newest = {(r["entry"], r["task"], r["log"]): r for r in lines}
    lines = list(newest.values())
    table = score(lines)
    refusals = {name for name, task in TASKS.items() if task.refuse}
    known = {e.name: e for e in (entries.read(name) for name in entries.shipped())}
    return {
        "made": _made(size, lines),
        "overall": overall(table, refusals),
        "tasks": {
            name: {
                "title": task.title,
                "kind": task.kind,
                "about": task.about,
                "refuse": task.refuse,
                "rows": task.rows[size],
                "entries": table[name],
            }
            for name, task in TASKS.items()
            if name in table
        },
        "left_out": [task.title for name, task in TASKS.items() if name not in table],
        "entries": {
            name: {
                "kinds": list(known[name].kinds) if name in known else [],
                "requires": list(known[name].requires) if name in known else [],
                "recipe": known[name].recipe if name in known else "",
                "version": "this checkout",
                "full_hours": _full_hours([r for r in lines if r["entry"] == name], size),
            }
            for name in sorted({r["entry"] for r in lines})
        },
        "absent": json.loads(ABSENT.read_text(encoding="utf-8")),
        "limits": json.loads(LIMITS.read_text(encoding="utf-8")),
    }


def _full_hours(lines: list[dict[str, Any]], size: str) -> float | None:
    """CPU hours of all its tasks at the full size, taking time as proportional to rows."""
    total, many = 0.0, False
    for name, task in TASKS.items():
        spent = sorted(r["seconds"] for r in lines if r["task"] == name and r["seconds"] is not None)
        if spent:
            many = True
            total += spent[len(spent) // 2] * task.rows["full"] / task.rows[size] * LOGS["full"]
    return total / 3_600 if many else None


def _made(size: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True)  # noqa: S607
    return {
        "size": size,
        "logs": max(r["log"] for r in lines) + 1,
        "results": len(lines),
        "commit": git.stdout.strip() or "unknown",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"Python {platform.python_version()}, one thread per entry",
    }


def _rounded(value: Any) -> Any:
    """Six significant digits are plenty for a page, and keep differences readable."""
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
