"""From result lines to a summary: by task and entry, and over all tasks.

On a task that has a truth, over its logs:

* ``rmse``: root mean squared error of all estimates that were given, those of refused logs included, so that nobody
  gains by refusing hard logs; ``relative``: over that of the best entry, on the logs on which both have an estimate;
* ``coverage``: share of intervals that hold the truth among answered logs, with its binomial error at the level;
* ``width``: mean width over that of the narrowest entry whose coverage is not significantly below the level, on the
  answered logs of both;
* ``refused``: share of logs refused, which here is a mistake.

On a task whose right answer is a refusal ``answered`` is the mistake. ``seconds`` is the median over logs, ``peak_mb``
the largest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_bench.task import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Line = dict[str, Any]
#: A coverage is "below the level" from this many binomial errors on.
ERRORS = 2.0
#: Two entries are compared on no fewer logs than this.
FEWEST = 5


def score(lines: Iterable[Line]) -> dict[str, dict[str, dict[str, Any]]]:
    """{task: {entry: figures}}, the best first."""
    by_task: dict[str, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        by_task[line["task"]][line["entry"]].append(line)
    return {task: _score_task(entries) for task, entries in by_task.items()}


def _score_task(entries: dict[str, list[Line]]) -> dict[str, dict[str, Any]]:
    table = {name: _own(rows) for name, rows in entries.items()}
    if all(row["truth"] is None for rows in entries.values() for row in rows):
        return dict(sorted(table.items(), key=lambda item: item[1]["answered"]))
    _relate(entries, table, "rmse", "relative", _squared_error, lambda name: table[name]["rmse"] is not None, 0.5)
    _relate(entries, table, "mean_width", "width", _width, lambda name: _holds(table[name]), 1.0)
    return dict(sorted(table.items(), key=lambda item: _or_last(item[1]["relative"])))


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value


def _own(rows: list[Line]) -> dict[str, Any]:
    """Figures of one entry on one task by itself."""
    squares = [e for e in map(_squared_error, rows) if e is not None]
    widths = [w for w in map(_width, rows) if w is not None]
    held = [r["low"] <= r["truth"] <= r["high"] for r in rows if _width(r) is not None and r["truth"] is not None]
    refused = float(np.mean([r["refused"] is not None for r in rows]))
    seconds = [r["seconds"] for r in rows if r.get("seconds") is not None]
    peaks = [r["peak_mb"] for r in rows if r.get("peak_mb") is not None]
    return {
        "logs": len(rows),
        "estimates": len(squares),
        "rmse": float(np.sqrt(np.mean(squares))) if squares else None,
        "intervals": len(held),
        "coverage": float(np.mean(held)) if held else None,
        "coverage_error": math.sqrt(LEVEL * (1 - LEVEL) / len(held)) if held else None,
        "mean_width": float(np.mean(widths)) if widths else None,
        "refused": refused,
        "answered": 1 - refused,
        "reason": _usual([r["refused"] for r in rows if r["refused"] is not None]),
        "seconds": float(np.median(seconds)) if seconds else None,
        "peak_mb": max(peaks) if peaks else None,
        "relative": None,
        "relative_error": None,
        "width": None,
        "width_error": None,
    }


def _usual(reasons: list[str]) -> str | None:
    return max(sorted(set(reasons)), key=reasons.count)[:160] if reasons else None


def _squared_error(row: Line) -> float | None:
    if row["estimate"] is None or row["truth"] is None:
        return None
    return float((row["estimate"] - row["truth"]) ** 2)


def _width(row: Line) -> float | None:
    """Width of an interval that the entry stands by."""
    return None if row["low"] is None or row["refused"] is not None else float(row["high"] - row["low"])


def _holds(figures: dict[str, Any]) -> bool:
    """Whether the coverage is not significantly below the level, on enough intervals to say so."""
    if figures["coverage"] is None or figures["intervals"] < FEWEST:
        return False
    return bool(figures["coverage"] >= LEVEL - ERRORS * figures["coverage_error"])


def _relate(
    entries: dict[str, list[Line]],
    table: dict[str, dict[str, Any]],
    own: str,
    name: str,
    figure: Callable[[Line], float | None],
    may_lead: Callable[[str], bool],
    power: float,
) -> None:
    """Fill ``name``: the mean of a figure over the leader's, to a power, on the logs on which both have it.

    ``name``_error is its standard error: that of a ratio of means over the same logs, the leader taken as known.
    """
    found = {
        entry: {row["log"]: value for row in rows if (value := figure(row)) is not None}
        for entry, rows in entries.items()
    }
    most = max((len(values) for values in found.values()), default=0)
    leaders = [e for e, values in found.items() if may_lead(e) and len(values) >= max(1, most // 2)]
    if not leaders:
        return
    leader = min(leaders, key=lambda e: table[e][own])
    for entry, values in found.items():
        common = sorted(set(values) & set(found[leader]))
        mine = np.array([values[i] for i in common])
        best = np.array([found[leader][i] for i in common])
        if len(common) >= min(FEWEST, most) and best.mean() > 0:
            ratio = float(mine.mean() / best.mean())
            noise = float((mine - ratio * best).std() / best.mean() / math.sqrt(len(common)))
            table[entry][name] = ratio**power
            table[entry][f"{name}_error"] = power * ratio ** (power - 1) * noise if ratio > 0 else 0.0


def overall(table: dict[str, dict[str, dict[str, Any]]], refusals: set[str]) -> dict[str, dict[str, Any]]:
    """{entry: figures over all tasks it took part in}, the smallest relative error first."""
    entries = sorted({entry for rows in table.values() for entry in rows})
    out = {}
    for entry in entries:
        answerable = [rows[entry] for task, rows in table.items() if task not in refusals and entry in rows]
        broken = [rows[entry] for task, rows in table.items() if task in refusals and entry in rows]
        relative = [r["relative"] for r in answerable if r["relative"] is not None]
        intervals = sum(r["intervals"] for r in answerable)
        held = sum(r["coverage"] * r["intervals"] for r in answerable if r["coverage"] is not None)
        widths = [r["width"] for r in answerable if r["width"] is not None]
        seconds = [r["seconds"] for r in (*answerable, *broken) if r["seconds"] is not None]
        out[entry] = {
            "tasks": len(answerable) + len(broken),
            "valued": len(relative),
            "relative": float(np.exp(np.mean(np.log(relative)))) if relative else None,
            "worst": max(relative) if relative else None,
            "first": sum(r == 1.0 for r in relative),
            "coverage": held / intervals if intervals else None,
            "intervals": intervals,
            "short": sum(r["coverage"] is not None and not _holds(r) for r in answerable if r["intervals"] >= FEWEST),
            "width": float(np.exp(np.mean(np.log(widths)))) if widths else None,
            "refused": float(np.mean([r["refused"] for r in answerable])) if answerable else None,
            "answered": float(np.mean([r["answered"] for r in broken])) if broken else None,
            "seconds": float(np.mean(seconds)) if seconds else None,
            "peak_mb": max((r["peak_mb"] for r in (*answerable, *broken) if r["peak_mb"] is not None), default=None),
        }
    return dict(sorted(out.items(), key=lambda item: _or_last(item[1]["relative"])))
