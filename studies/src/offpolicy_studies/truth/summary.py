"""What held, by quantity, level and world: among all that was answered, and among what was trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from offpolicy_studies.monte_carlo import Measured, mean, share
from offpolicy_studies.truth.answers import LEVELS, REFUSED
from offpolicy_studies.truth.worlds import HIDDEN

#: Printed by default, so held to its level; the rest of the table has reasons of its own where it is refused.
PROMISED = (
    "value",
    "difference",
    "lift",
    "p-value",
    "gate",
    "segments",
    "Γ",
    "family of values",
    "family of differences",
    "family of lifts",
    "leader",
    "best",
)
SLACK = 0.01
FEWEST_TRIALS = 5
SAME = 1e-9  # relative difference up to which two numbers are the same
AT = LEVELS.index(0.95)


def summarize(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers of one world."""
    verdicts = np.array([r["verdict"] for r in found])
    answered, trusted = verdicts != REFUSED, verdicts == "trust"
    quantities = list(dict.fromkeys(q for r in found for q in r["held"]))
    powers = [r["power"] for r in found if r["power"] is not None]
    return {
        "refused": share(~answered),
        "trusted": share(trusted),
        "held": {
            q: {
                f"{level:g}": {"answered": _share(found, q, i, answered), "trusted": _share(found, q, i, trusted)}
                for i, level in enumerate(LEVELS)
            }
            for q in quantities
        },
        "trials": (*mean(np.array(powers)), len(powers)),
    }


def streams_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Logs that were streamed as well, numbers that were compared, the largest difference, and why some were not."""
    done = [r for r in found if "difference" in r]
    worst = max(done, key=lambda r: r["difference"], default=None)
    return {
        "logs": len(done),
        "numbers": sum(r["numbers"] for r in done),
        "difference": None if worst is None else worst["difference"],
        "at": None if worst is None else worst["at"],
        "refused": sorted({r["refused"] for r in found if "refused" in r}),
    }


def _share(found: list[dict[str, Any]], quantity: str, i: int, rows: Any) -> tuple[float, float, int]:
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
        [
            *_overall(worlds),
            "",
            *_promised(worlds),
            "",
            *_table(worlds),
            "",
            *_trials(worlds),
            "",
            *_streams(worlds),
            "",
            *_misses(worlds),
        ]
    )


def pooled(worlds: dict[str, Any], quantity: str, level: str, among: str) -> tuple[float, int]:
    """Share of all statements of a kind that held, and how many there were; without worlds of a hidden cause."""
    rows = [
        w["held"][quantity][level][among]
        for name, w in worlds.items()
        if quantity in w["held"] and (name not in HIDDEN or quantity == "Γ")
    ]
    count = sum(n for _, _, n in rows)
    held = sum(value * n for value, _, n in rows if n)
    return (held / count if count else math.nan), count


def _overall(worlds: dict[str, Any]) -> list[str]:
    levels = [f"{level:g}" for level in LEVELS]
    heads = [
        text
        for among in ("answered", "trusted")
        for text in (*(f"{float(level):.0%} {among}" for level in levels), among)
    ]
    lines = [
        "Share of statements that held over all worlds but those with a hidden cause, and at 95% how many there were.",
        "",
        f"| quantity | {' | '.join(heads)} |",
        "|---" * (2 * len(levels) + 3) + "|",
    ]
    for q in PROMISED:
        cells = []
        for among in ("answered", "trusted"):
            found = [pooled(worlds, q, level, among) for level in levels]
            cells += ["–" if n == 0 else f"{value:.1%}" for value, n in found]
            cells.append(f"{found[AT][1]:,}")
        lines.append(f"| {q} | {' | '.join(cells)} |")
    return lines


def _promised(worlds: dict[str, Any]) -> list[str]:
    lines = [
        "Share of 95% statements that held among those answered.",
        "",
        f"| world | refused | trusted | {' | '.join(PROMISED)} |",
        "|---" * (len(PROMISED) + 3) + "|",
    ]
    for name, world in worlds.items():
        cells = [_cell(world["held"].get(q)) for q in PROMISED]
        lines.append(f"| {name} | {world['refused'][0]:.0%} | {world['trusted'][0]:.0%} | {' | '.join(cells)} |")
    return lines


def _cell(levels: dict[str, Any] | None) -> str:
    if levels is None:
        return ""
    value, _, count = levels[f"{LEVELS[AT]:g}"]["answered"]
    return "–" if count == 0 else f"{value:.1%}"


def _table(worlds: dict[str, Any]) -> list[str]:
    """The table's other estimators: the smallest share over worlds, where at least 30 were printed."""
    names = dict.fromkeys(q for w in worlds.values() for q in w["held"] if q.endswith("in the table"))
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
    """True power of the printed A/B tests; of worlds in which at least 5 were printed."""
    rows = {name: w["trials"] for name, w in worlds.items() if w["trials"][2] >= FEWEST_TRIALS}
    lines = [
        "True power of the A/B tests that were printed (80% is promised), averaged over the logs that print one.",
        "",
        "| world | power | error | tests |",
        "|---|---|---|---|",
    ]
    return lines + [f"| {n} | {p:.1%} | {error:.1%} | {k} |" for n, (p, error, k) in rows.items()]


def _streams(worlds: dict[str, Any]) -> list[str]:
    """Memory against stream: one line for all worlds that agree, one for each that does not, one for each reason."""
    found = {n: w["streams"] for n, w in worlds.items() if w.get("streams")}
    done = {n: s for n, s in found.items() if s["logs"]}
    lines = ["Streamed from a Parquet file in four blocks against read whole, every number of the JSON result.", ""]
    if done:
        same = {n: s for n, s in done.items() if s["difference"] <= SAME}
        lines.append(
            f"* {len(same)} of {len(done)} worlds agree to {SAME:g}: {sum(s['logs'] for s in same.values())} logs, "
            f"{sum(s['numbers'] for s in same.values()):,} numbers, largest relative difference "
            f"{max((s['difference'] for s in same.values()), default=0.0):.1e}."
        )
        lines += [f"* {n} differs by {s['difference']:.1e} (`{s['at']}`)." for n, s in done.items() if n not in same]
    for why in sorted({r for s in found.values() for r in s["refused"]}):
        number = sum(why in s["refused"] for s in found.values())
        lines.append(f"* {number} worlds are not streamed: {why}.")
    return lines


def _misses(worlds: dict[str, Any]) -> list[str]:
    rows = misses(worlds)
    if not rows:
        return ["No statement is below its level by more than one point and two Monte Carlo errors."]
    lines = [
        "Below the level by more than one point and two Monte Carlo errors:",
        "",
        "| world | quantity | level | among | held | error | answers |",
        "|---|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {w} | {q} | {level} | {among} | {m.value:.1%} | {m.error:.1%} | {n} |" for w, q, level, among, m, n in rows
    ]
