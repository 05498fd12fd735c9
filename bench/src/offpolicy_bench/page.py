"""The results page, in Markdown, and its pictures, in SVG: made from the summary and from nothing else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from offpolicy_bench.task import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Figures = dict[str, Any]
INK, FAINT, GOOD, BAD = "#37474f", "#b0bec5", "#00796b", "#c62828"
COLUMNS = ("entry", "error ÷ best", "RMSE", "coverage", "width ÷ narrowest", "refused", "CPU-s", "MB")


def write(summary: Figures, page: Path, pictures: Path) -> None:
    """Write the page and a picture for each task and one for all."""
    pictures.mkdir(parents=True, exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    (pictures / "overall.svg").write_text(matrix(summary), encoding="utf-8")
    for name, task in summary["tasks"].items():
        (pictures / f"{name}.svg").write_text(dots(task), encoding="utf-8")
    folder = pictures.relative_to(page.parent).as_posix()
    page.write_text("\n".join(_page(summary, folder)).rstrip() + "\n", encoding="utf-8")


INTRODUCTION = """\
Frozen tasks with exact truths; every entry answers the same logs in an environment of its own, by the recipe that its
own documentation gives. An entry may answer or refuse. [How to enter](bench_enter.md) says what an entry is."""
LEGEND = f"""\
*Error ÷ best* is the root mean squared error over that of the best entry of a task: the geometric mean over
tasks with an estimate; *worst* is the largest. *Coverage* counts intervals of answered logs. *Too short* counts
tasks whose coverage lies more than two binomial errors below {LEVEL:.0%}. *Width* is over the narrowest of the
intervals that are not too short. *Refused* is the share of logs with a truth that were refused, *fooled* the
share of logs without one that were answered: both are mistakes. CPU seconds per log are means over tasks of
medians over logs. Estimates given along with a refusal count in the errors."""


def _page(summary: Figures, folder: str) -> list[str]:
    made, tasks = summary["made"], summary["tasks"]
    answerable = {n: t for n, t in tasks.items() if not t["refuse"]}
    broken = {n: t for n, t in tasks.items() if t["refuse"]}
    run = f"**This run**: size {made['size']}, up to {made['logs']} logs per task, commit `{made['commit']}`"
    return [
        "# OPE-bench: the scoreboard",
        "",
        "<!-- Made by `offpolicy bench page` from bench/results/summary.json. Edit neither by hand. -->",
        "",
        INTRODUCTION,
        "",
        f"{run}, {made['date']}, {made['machine']}. {_noise(made['logs'])}",
        "",
        *_extent(summary),
        "## All tasks",
        "",
        f"![Errors of all entries on all tasks, relative to the best]({folder}/overall.svg)",
        "",
        *_overall_table(summary),
        "",
        LEGEND,
        "",
        "## Tasks with a truth",
        "",
        *(line for name, task in answerable.items() for line in _task(name, task, folder)),
        "## Tasks whose right answer is a refusal",
        "",
        *(line for name, task in broken.items() for line in _task(name, task, folder)),
        "## Entries",
        "",
        *_entries(summary),
        "",
        "## What this table is not",
        "",
        *(f"- {line}" for line in summary["limits"]),
        "",
        *_costs(summary),
    ]


def _extent(summary: Figures) -> list[str]:
    """How many tasks were run on how many logs, and which were not run."""
    logs = [r["logs"] for task in summary["tasks"].values() for r in task["entries"].values()]
    every = f"{min(logs)}" if min(logs) == max(logs) else f"{min(logs)} to {max(logs)}"
    text = f"Each of {len(summary['tasks'])} tasks was run on {every} logs by every entry that takes logs of its kind."
    if summary["left_out"]:
        text += f" Not run this time, and so without a row: {'; '.join(summary['left_out'])}."
    return [text, ""]


def _noise(logs: int) -> str:
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / logs)
    return (
        f"With {logs} logs a coverage has a binomial error of {error:.1f} points and a root mean squared error one of "
        f"about {100 / math.sqrt(2 * logs):.0f}%: neighbors in a table may change places."
    )


def _overall_table(summary: Figures) -> list[str]:
    head = (
        "entry", "tasks", "error ÷ best", "worst", "first", "coverage", "too short", "width ÷ narrowest", "refused",
        "fooled", "CPU-s per log", "MB",
    )  # fmt: skip
    rows = [
        (
            entry,
            f"{r['tasks']}",
            _ratio(r["relative"]),
            _ratio(r["worst"]),
            f"{r['first']} of {r['valued']}",
            _percent(r["coverage"]),
            f"{r['short']}" if r["intervals"] else "–",
            _ratio(r["width"]),
            _percent(r["refused"]),
            _percent(r["answered"]),
            _plain(r["seconds"]),
            _whole(r["peak_mb"]),
        )
        for entry, r in summary["overall"].items()
    ]
    return _table(head, rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _task(name: str, task: Figures, folder: str) -> list[str]:
    lines = [f"### {task['title']}", "", f"`{name}`, {task['rows']:,} {_units(task)}. {task['about']}", ""]
    if not task["refuse"]:
        lines += [f"![{task['title']}: errors and coverage]({folder}/{name}.svg)", ""]
        rows = [
            (
                entry,
                _ratio(r["relative"], r["relative_error"]),
                _plain(r["rmse"]),
                _coverage(r),
                _ratio(r["width"]),
                _share(r["refused"], r["logs"]),
                _plain(r["seconds"]),
                _whole(r["peak_mb"]),
            )
            for entry, r in task["entries"].items()
        ]
        return [*lines, *_table(COLUMNS, rows), ""]
    lines += [f"![{task['title']}: share of logs answered]({folder}/{name}.svg)", ""]
    mistakes = [
        (
            entry,
            _share(r["answered"], r["logs"]),
            _share(r["refused"], r["logs"]),
            _cell(r["reason"]),
            _plain(r["seconds"]),
        )
        for entry, r in task["entries"].items()
    ]
    return [*lines, *_table(("entry", "answered (mistakes)", "refused", "most frequent reason", "CPU-s"), mistakes), ""]


def _units(task: Figures) -> str:
    return {"episodes": "episodes", "slate": "slates"}.get(task["kind"], "rows")


def _coverage(r: Figures) -> str:
    if r["coverage"] is None:
        return "no interval"
    return f"{r['coverage']:.0%} ± {100 * r['coverage_error']:.0f} of {r['intervals']}"


def _ratio(value: float | None, error: float | None = None) -> str:
    """To two digits, with its error where there is one: the best over itself has none."""
    if value is None:
        return "–"
    digits = 2 if value < 10 else 0
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _share(value: float, of: int) -> str:
    return f"{round(value * of)} of {of}"


def _cell(text: str | None) -> str:
    return "" if text is None else text.replace("|", "/").replace("\n", " ").replace("<", "‹").replace("*", "∗")


def _entries(summary: Figures) -> list[str]:
    rows = [
        (name, ", ".join(e["kinds"]), _cell(", ".join(e["requires"]) or e["version"]), _cell(e["recipe"]))
        for name, e in summary["entries"].items()
    ]
    absent = [f"- **{name}**: {why}" for name, why in summary["absent"].items()]
    table = _table(("entry", "takes", "environment", "recipe"), rows)
    return [*table, "", *(["Not on the board:", "", *absent] if absent else [])]


def _costs(summary: Figures) -> list[str]:
    hours = {e: f["full_hours"] for e, f in summary["entries"].items() if f["full_hours"] is not None}
    lines = [
        "## What the full run costs",
        "",
        "CPU hours of 100 logs per task at the full size, projected from this run:",
        "",
    ]
    rows = [(entry, f"{h:.1f}") for entry, h in sorted(hours.items(), key=lambda item: -item[1])]
    return [*lines, *_table(("entry", "CPU hours"), [*rows, ("together", f"{sum(hours.values()):.1f}")])]


# Pictures ------------------------------------------------------------------------------------------------------------


def _svg(width: float, height: float, parts: list[str]) -> str:
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {style}>'
    back = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, back, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{safe}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str = FAINT, width: float = 1.0) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def _dot(x: float, y: float, color: str, title: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"><title>{title}</title></circle>'


def dots(task: Figures) -> str:
    """One task: errors relative to the best on the left, coverage with its binomial error on the right."""
    entries, top, step, left = task["entries"], 40, 22, 130
    height = top + step * len(entries) + 30
    if task["refuse"]:
        parts = [_text(left, 22, "share of logs answered (each a mistake)")]
        for i, (name, r) in enumerate(entries.items()):
            y = top + step * i + 10
            parts += [_text(left - 10, y + 4, name, "end"), _line(left, y, left + 300, y)]
            parts.append(_line(left, y, left + 300 * r["answered"], y, BAD, 8))
            parts.append(_text(left + 310, y + 4, f"{r['answered']:.0%}"))
        return _svg(520, height, parts)
    most = max([r["relative"] for r in entries.values() if r["relative"] is not None] or [1.0])
    span = math.log(max(2.0, min(most, 100.0)))
    parts = [_text(left, 22, "error ÷ best"), _text(470, 22, f"coverage (asked for: {LEVEL:.0%})")]
    right, level = 470, 470 + 200 * LEVEL
    for i, (name, r) in enumerate(entries.items()):
        y = top + step * i + 10
        parts += [_text(left - 10, y + 4, name, "end"), _line(left, y, left + 250, y), _line(right, y, right + 200, y)]
        if r["relative"] is not None:
            x = left + 250 * min(1.0, math.log(max(r["relative"], 1.0)) / span)
            parts.append(_dot(x, y, GOOD if r["relative"] == 1.0 else INK, f"{name}: {r['relative']:.2f}"))
            parts.append(_text(x + 9, y + 4, _ratio(r["relative"])))
        else:
            parts.append(_text(left + 5, y + 4, "no estimate", extra=f'fill="{FAINT}"'))
        if r["coverage"] is not None:
            x, e = right + 200 * r["coverage"], 400 * r["coverage_error"]
            short = r["coverage"] < LEVEL - 2 * r["coverage_error"]
            color = BAD if short else GOOD
            parts.append(_line(max(right, x - e), y, min(right + 200, x + e), y, color, 3))
            parts.append(_dot(x, y, color, f"{name}: {r['coverage']:.0%}"))
    parts.append(_line(level, top - 6, level, height - 24, INK))
    return _svg(700, height, parts)


def matrix(summary: Figures) -> str:
    """All tasks and entries: the figure is the error relative to the best, or the share answered that should not be."""
    names, tasks = list(summary["overall"]), summary["tasks"]
    left, top, wide, tall = 230, 110, 86, 24
    parts = []
    for j, name in enumerate(names):
        x = left + wide * j + wide / 2
        parts.append(_text(x, top - 10, name, extra=f'transform="rotate(-35 {x:.0f} {top - 10})"'))
    for i, task in enumerate(tasks.values()):
        y = top + tall * i
        parts.append(_text(left - 8, y + 16, task["title"], "end"))
        for j, name in enumerate(names):
            color, text = _shade(task, task["entries"].get(name))
            parts.append(
                f'<rect x="{left + wide * j + 1}" y="{y + 1}" width="{wide - 2}" height="{tall - 2}" fill="{color}"/>'
            )
            parts.append(_text(left + wide * j + wide / 2, y + 16, text, "middle"))
    foot = top + tall * len(tasks) + 20
    parts.append(_text(left, foot, "Error ÷ best (green 1, red 3 and more); ! coverage too low; (share) refused."))
    parts.append(_text(left, foot + 18, "Last rows: share of logs answered that should be refused."))
    return _svg(left + wide * len(names) + 60, foot + 30, parts)


def _shade(task: Figures, r: Figures | None) -> tuple[str, str]:
    if r is None:
        return "#eceff1", ""
    if task["refuse"]:
        return _mix(r["answered"]), f"{r['answered']:.0%}"
    if r["relative"] is None:
        return "#cfd8dc", f"({r['refused']:.0%})"
    short = r["coverage"] is not None and r["coverage"] < LEVEL - 2 * r["coverage_error"]
    text = _ratio(r["relative"]) + (" !" if short else "") + (f" ({r['refused']:.0%})" if r["refused"] >= 0.05 else "")
    return _mix(math.log(max(r["relative"], 1.0)) / math.log(3.0)), text


def _mix(share: float) -> str:
    """From green at 0 through white to red at 1."""
    share = min(1.0, max(0.0, share))
    low, mid, high = (165, 214, 167), (255, 255, 255), (239, 154, 154)
    a, b, t = (low, mid, 2 * share) if share < 0.5 else (mid, high, 2 * share - 1)
    return "#" + "".join(f"{round(x + (y - x) * t):02x}" for x, y in zip(a, b, strict=True))
