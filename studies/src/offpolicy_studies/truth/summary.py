"""What held, by quantity, level and world: among all that was answered, and among what was trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from offpolicy_studies.monte_carlo import Measured, share
from offpolicy_studies.truth.answers import LEVELS, REFUSED

#: Printed by default, so held to its level; the rest of the table has reasons of its own where it is refused.
PROMISED = (
    "value",
    "difference",
    "lift",
    "p-value",
    "gate",
    "segments",
    "family of values",
    "family of differences",
    "leader",
    "best",
)
SLACK = 0.01
AT = LEVELS.index(0.95)


def summarize(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of one world."""
    verdicts = np.array([r["verdict"] for r in found])
    answered, trusted = verdicts != REFUSED, verdicts == "trust"
    quantities = list(dict.fromkeys(q for r in found for q in r["held"]))
    trials = [r["trial"][0] for r in found if r["trial"] is not None]
    return {
        "refused": share(~answered),
        "trusted": share(trusted),
        "held": {
            q: {
                f"{level:g}": {
                    "answered": _share(found, q, i, answered),
                    "trusted": _share(found, q, i, trusted),
                }
                for i, level in enumerate(LEVELS)
            }
            for q in quantities
        },
        "trials": share(np.array(trials)),
    }


def _share(
    found: list[dict[str, Any]], quantity: str, i: int, rows: Any
) -> tuple[float, float, int]:
    flags = [
        r["held"][quantity][i]
        for r, keep in zip(found, rows, strict=True)
        if keep and quantity in r["held"] and r["held"][quantity][i] is not None
    ]
    return (*share(np.array(flags)), len(flags))


def missed(row: tuple[float, float, int], level: float) -> bool:
    """Below the level, less one point, by more than two Monte Carlo errors."""
    value, error, count = row
    return count > 0 and value < level - SLACK - 2 * error


def misses(worlds: dict[str, Any]) -> list[tuple[str, str, str, str, Measured, int]]:
    """(world, quantity, level, among, share, count) of every promised quantity that did not hold."""
    return [
        (name, q, level, among, Measured(row[0], row[1]), row[2])
        for name, world in worlds.items()
        for q, levels in world["held"].items()
        if q in PROMISED
        for level, groups in levels.items()
        for among, row in groups.items()
        if missed(row, float(level))
    ]


def markdown(worlds: dict[str, Any]) -> str:
    """Coverage at 95% of every promised quantity in every world, the trials, and every miss."""
    return "\n".join(
        [*_promised(worlds), "", *_table(worlds), "", *_trials(worlds), "", *_misses(worlds)]
    )


def _promised(worlds: dict[str, Any]) -> list[str]:
    lines = [
        "Share of 95% statements that held among those answered.",
        "",
        f"| world | refused | trusted | {' | '.join(PROMISED)} |",
        "|---" * (len(PROMISED) + 3) + "|",
    ]
    for name, world in worlds.items():
        cells = [_cell(world["held"].get(q)) for q in PROMISED]
        lines.append(
            f"| {name} | {world['refused'][0]:.0%} | {world['trusted'][0]:.0%} | {' | '.join(cells)} |"
        )
    return lines


def _cell(levels: dict[str, Any] | None) -> str:
    if levels is None:
        return ""
    value, _, count = levels[f"{LEVELS[AT]:g}"]["answered"]
    return "–" if count == 0 else f"{value:.1%}"


def _table(worlds: dict[str, Any]) -> list[str]:
    """The table's other estimators: the smallest share over worlds, where at least 30 were printed."""
    names = dict.fromkeys(
        q for w in worlds.values() for q in w["held"] if q.endswith("in the table")
    )
    lines = [
        "Other estimators of the default table: worlds in which their printed 95% interval misses.",
        "",
        "| estimator | worlds with an interval | lowest share | misses |",
        "|---|---|---|---|",
    ]
    for q in names:
        rows = [w["held"][q]["0.95"]["answered"] for w in worlds.values() if q in w["held"]]
        rows = [r for r in rows if r[2] >= 30]
        low = min((r[0] for r in rows), default=math.nan)
        bad = sum(missed(r, 0.95) for r in rows)
        shown = "–" if math.isnan(low) else f"{low:.1%}"
        lines.append(f"| {q.removesuffix(' in the table')} | {len(rows)} | {shown} | {bad} |")
    return lines


def _trials(worlds: dict[str, Any]) -> list[str]:
    lines = [
        "Power of the A/B tests that were printed (80% is promised), each run once.",
        "",
        "| world | power | error |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {w['trials'][0]:.1%} | {w['trials'][1]:.1%} |"
        for name, w in worlds.items()
        if not math.isnan(w["trials"][0])
    ]
    return lines


def _misses(worlds: dict[str, Any]) -> list[str]:
    rows = misses(worlds)
    if not rows:
        return [
            "No statement is below its level by more than one point and two Monte Carlo errors."
        ]
    lines = [
        "Below the level by more than one point and two Monte Carlo errors:",
        "",
        "| world | quantity | level | among | held | error | answers |",
        "|---|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {w} | {q} | {level} | {among} | {m.value:.1%} | {m.error:.1%} | {n} |"
        for w, q, level, among, m, n in rows
    ]
