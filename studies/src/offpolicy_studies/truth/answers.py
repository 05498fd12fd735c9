"""Ask an evaluation for everything it prints, at every level, and note what held.

For each quantity: true or false where it was answered, None where it was refused, not defined or not printed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scipy import special

from offpolicy.errors import OffPolicyError
from offpolicy_studies.monte_carlo import Z

if TYPE_CHECKING:
    import offpolicy as op
    from offpolicy_studies.truth.question import Question

LEVELS = (0.8, 0.95, 0.99)
REFUSED = "insufficient evidence"
SPEAKER = "auto"
Held = bool | None


def answers(ev: op.Evaluation, q: Question) -> dict[str, Any]:
    """{"verdict", "held": {quantity: [held at each level]}, "power": of the A/B test that is printed}."""
    name, truth = next(iter(q.truths.items()))
    e = ev[name, SPEAKER]
    verdict = ev.verdict(name).level if e.is_defined else REFUSED
    held: dict[str, list[Held]] = {}
    for level in LEVELS:
        found = {
            "value": _inside(e, truth, level),
            **_changes(ev, e, q, level),
            **_family(ev, q, level),
            **_others(ev, name, truth, level),
            "segments": _segments(ev, name, q, level),
            "gate": _gates(ev, name, truth, level),
            "Γ": _hidden(ev, name, q, level),
        }
        for quantity, is_held in found.items():
            held.setdefault(quantity, []).append(is_held)
    return {"verdict": verdict, "held": held, "power": _trial(ev, name, q), "value": e.value}


def _inside(e: Any, truth: float, level: float) -> Held:
    if not e.is_defined or not math.isfinite(truth):
        return None
    interval = e.interval(level)
    if not interval.sufficient or math.isnan(interval.low):
        return None
    return bool(_at_most(interval.low, truth) and _at_most(truth, interval.high))


def _at_most(a: float, b: float) -> bool:
    """Whether a ≤ b but for rounding."""
    return a <= b + 1e-9 * (1 + abs(b))


def _changes(ev: op.Evaluation, e: Any, q: Question, level: float) -> dict[str, Held]:
    if not math.isfinite(q.logged) or not e.is_defined:
        return {"difference": None, "lift": None, "p-value": None}
    truth = next(iter(q.truths.values()))
    difference = e - ev.logged
    try:
        lift: Held = _inside(e.lift(ev.logged), (truth - q.logged) / abs(q.logged), level)
    except (OffPolicyError, ZeroDivisionError):
        lift = None
    sufficient = difference.interval(level).sufficient
    p = difference.p_value(truth - q.logged) if sufficient else math.nan
    return {
        "difference": _inside(difference, truth - q.logged, level),
        "lift": lift,
        "p-value": None if math.isnan(p) else bool(p >= 1 - level),
    }


def _family(ev: op.Evaluation, q: Question, level: float) -> dict[str, Held]:
    if len(q.policies) < 2:
        return {}
    c = ev.compare(level)
    values = [_covers(c.values[n], t) for n, t in q.truths.items()]
    gaps = [_covers(c.differences[n], t - q.logged) for n, t in q.truths.items()]
    lifts = [
        _covers(i, (q.truths[n] - q.logged) / abs(q.logged)) for n, i in c.lifts.items() if math.isfinite(q.logged)
    ]
    everyone = {**q.truths, "logging policy": q.logged}
    top = max(everyone.values())
    # Equal policies: any of them is a best one.
    best = [n for n, t in everyone.items() if t >= top - 1e-12]
    leader = max(q.truths, key=lambda n: ev[n, SPEAKER].value if ev[n, SPEAKER].is_defined else -math.inf)
    return {
        "family of values": _all(values),
        "family of differences": _all(gaps),
        "family of lifts": _all(lifts),
        "leader": _covers(c.values[leader], q.truths[leader]),
        "best": any(n in c.best.names for n in best),
    }


def _covers(interval: Any, truth: float) -> Held:
    if not interval.sufficient or math.isnan(interval.low) or math.isnan(truth):
        return None
    return bool(_at_most(interval.low, truth) and _at_most(truth, interval.high))


def _all(flags: list[Held]) -> Held:
    """Whether all that were answered held; None where none was."""
    answered = [f for f in flags if f is not None]
    return all(answered) if answered else None


def _others(ev: op.Evaluation, name: str, truth: float, level: float) -> dict[str, Held]:
    """The table's other estimators, where an interval is printed for them."""
    return {
        f"{each.name} in the table": _inside(ev[name, each.name], truth, level)
        for each in ev.estimators
        if each.name != SPEAKER
    }


def _segments(ev: op.Evaluation, name: str, q: Question, level: float) -> Held:
    if not q.segments:
        return None
    flags: list[Held] = []
    for row in ev.segments([0], policy=name, backend="pandas", level=level).to_dict("records"):
        low, high = float(row["low"]), float(row["high"])
        if math.isnan(low) or math.isnan(high):
            continue
        truth = q.segments[str(row["segment"])]
        flags.append(_at_most(low, truth) and _at_most(truth, high))
    return _all(flags)


def _gates(ev: op.Evaluation, name: str, truth: float, level: float) -> Held:
    """No gate that is false passes: neither "above the truth" nor "below the truth"."""
    if not ev[name, SPEAKER].is_defined:
        return None
    codes = [ev.gate(f"'{name}' value {sign} {truth!r}", level=level).exit_code for sign in "><"]
    return 0 not in codes


def _hidden(ev: op.Evaluation, name: str, q: Question, level: float) -> Held:
    """Whether the bounds at the true Γ hold the value that hidden causes have made, or the worst they could have."""
    if q.gamma == 1:
        return None
    ends = ev.bounds(q.gamma, name, level=level)
    if ends is None:
        return None
    low, high = ends
    return _at_most(low, q.worst) and _at_most(q.worst, high)


def _trial(ev: op.Evaluation, name: str, q: Question) -> float | None:
    """True power of the A/B test that is printed: the chance that it finds the difference, with the right sign."""
    test = ev.verdict(name).test
    if test is None or test.assumed or q.spread is None:
        return None
    gap = q.truths[name] - q.logged
    spread = q.spread(name) + q.spread(None)
    if abs(gap) <= 1e-9 * (1 + abs(q.logged)) or not math.isfinite(spread):
        return None  # there is nothing to find, or no normal limit to find it by
    return float(special.ndtr(abs(gap) / math.sqrt(spread / test.per_arm) - Z))
