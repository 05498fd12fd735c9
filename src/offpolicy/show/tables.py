"""What a report says about the estimates: plain rows for tables and charts, one dictionary each.

Nothing here is fitted again and no row of the log is carried over: every number is a mean, a standard error
or an interval of a score that an estimate already has.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.confidence import no_base
from offpolicy.inference.family import adjusted
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpolicy._arrays import Ints
    from offpolicy._document import Row
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate

MOST_BATCHES = 60


def estimate_rows(ev: Evaluation, level: float = 0.95, *, verdicts: bool = True) -> list[Row]:
    """What `Evaluation.frame` holds: the current policy, then every estimate with its change and its verdict."""
    logged = ev.logged
    interval = logged.interval(level)
    low, high = interval.shown
    first: Row = {
        "policy": LOGGING_POLICY,
        "estimator": "mean",
        "value": logged.value,
        "std_error": logged.std_error,
        "low": low,
        "high": high,
        "method": interval.method,
        "refused": interval.reason or None,
        "n": logged.n,
        "difference": 0.0,
        "difference_std_error": 0.0,
        "notes": "",
        "lift": None,
        "lift_low": None,
        "lift_high": None,
        "verdict": "",
    }
    rows = [first]
    for row in ev.rows(level):
        e = ev[row["policy"], row["estimator"]]
        lifts = lift_of(e, logged, level)
        judged = ev.verdict(row["policy"], row["estimator"], level=level).level if verdicts else None
        rows.append({**row, **{key: lifts[key] for key in ("lift", "lift_low", "lift_high")}, "verdict": judged})
    head = ("policy", "estimator", "verdict")
    order = [*head, *(key for key in first if key not in head)]
    return [{key: row[key] for key in order if verdicts or key != "verdict"} for row in rows]


def forest(evaluation: Evaluation, level: float = 0.95) -> list[Row]:
    """Every policy by every estimator, with its interval."""
    lead = headline(evaluation.estimators).name
    return [
        {
            "policy": policy,
            "estimator": name,
            "headline": name == lead,
            **summary(evaluation[policy, name], level),
            "note": "; ".join(evaluation[policy, name].notes),
        }
        for policy in evaluation.policies
        for name in (e.name for e in evaluation.estimators)
    ]


def differences(
    evaluation: Evaluation, level: float = 0.95, pairs: Iterable[tuple[str, str]] | None = None
) -> list[Row]:
    """Paired differences: each policy and the log by every estimator, and ``pairs`` of policies (all when None)."""
    logged = evaluation.logged
    lead = headline(evaluation.estimators).name
    rows: list[Row] = []
    for policy in evaluation.policies:
        for name in (e.name for e in evaluation.estimators):
            e = evaluation[policy, name]
            row = {
                "policy": policy,
                "versus": "log",
                "estimator": name,
                "headline": name == lead,
                **summary(e - logged, level),
            }
            rows.append(row | lift_of(e, logged, level))
    for b, a in combinations(evaluation.policies, 2) if pairs is None else pairs:
        row = {"policy": a, "versus": b, "estimator": lead, "headline": True}
        one, other = evaluation[a, lead], evaluation[b, lead]
        rows.append(row | summary(one - other, level) | lift_of(one, other, level))
    return rows


def summary(e: Estimate, level: float) -> Row:
    """An estimate with its interval; without ends, and with the reason, where that is refused."""
    interval = e.interval(level)
    low, high = interval.shown
    return {
        "value": e.value,
        "low": low,
        "high": high,
        "refused": interval.reason or None,
        "std_error": e.std_error,
        "n": e.n,
    }


def lift_of(e: Estimate, base: Estimate, level: float) -> Row:
    """Relative change (value − base)/|base|; None where the base may be 0, and why."""
    nothing = {"lift": None, "lift_low": None, "lift_high": None, "lift_unbounded": None}
    if not e.is_defined:
        return {**nothing, "lift_refused": "no estimate"}
    if (why := no_base(base, level)) is not None:
        return {**nothing, "lift_refused": why}
    relative = e.lift(base)
    interval = relative.interval(level)
    if not interval.sufficient:
        return {**nothing, "lift": relative.value, "lift_refused": interval.reason}
    low, high = (x if math.isfinite(x) else None for x in interval)
    return {
        "lift": relative.value,
        "lift_low": low,
        "lift_high": high,
        "lift_unbounded": interval.unbounded or None,
        "lift_refused": None,
    }


def number_of_clusters(evaluation: Evaluation) -> int | None:
    """Different clusters, None where units are independent."""
    units = evaluation.problem.units
    return units.clusters[0] if units.has_clusters else None


def by_group(
    evaluation: Evaluation,
    policy: str,
    codes: Ints,
    labels: list[str],
    level: float = 0.95,
    *,
    among: int | None = None,
) -> list[Row]:
    """Estimate, logged value and their difference inside groups of units, in the order of ``labels``.

    The intervals of the values of all groups hold together, with those of other columns where there are ``among`` in
    all, and so do those of the differences.
    Repeated half-sample splits score different units each time and have no subgroup mean: no rows.
    """
    lead = headline(evaluation.estimators)
    e, logged = evaluation[policy, lead.name], evaluation.logged
    if not e.is_defined or (lead.split == "half" and len(e.rows) > 1):
        return []
    total = float(_mass(logged).sum())
    each = adjusted(level, len(labels) if among is None else among)
    # A half-sample estimate fills the units it does not score, which are then no units of a group.
    gap = e - logged if e.scored is None else None
    rows: list[Row] = []
    for label, members in zip(labels, _positions(codes, len(labels)), strict=True):
        part, base = e.within(members), logged.within(members)
        if part is None or base is None or part.n < 2:
            continue
        share = float(_mass(base).sum()) / total
        own = {"logged": base.value, "n": base.n, "share": share}
        change = None if gap is None else gap.within(members)
        rows.append({"group": label, **summary(part, each), **own, **against_log(change, each)})
    return rows


def _positions(codes: Ints, groups: int) -> list[Ints]:
    """Of the units of each group, in order; units of no group are left out.

    >>> [at.tolist() for at in _positions(np.array([1, 0, -1, 1]), 2)]
    [[1], [0, 3]]
    """
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes, np.arange(groups + 1), sorter=order)
    return [order[a:b] for a, b in pairwise(edges)]


def against_log(gap: Estimate | None, level: float) -> Row:
    """A difference to the log, as further keys of a row; NaN where there is none."""
    if gap is None:
        return {"gap": math.nan, "gap_low": math.nan, "gap_high": math.nan, "gap_error": math.nan}
    low, high = gap.interval(level).shown
    return {"gap": gap.value, "gap_low": low, "gap_high": high, "gap_error": gap.std_error}


def _mass(e: Estimate) -> Any:
    return e.units.mass


def batches(evaluation: Evaluation, policy: str, level: float = 0.95) -> list[Row]:
    """The estimate inside each batch, in the order of time; neighbors are merged beyond 60 batches."""
    log = evaluation.problem.log
    if not log.has_batches:
        return []
    names = [str(label) for label in log.batch_labels]
    codes, labels = merged(log.batch, names)
    return by_group(evaluation, policy, codes, labels, level)


def merged(batch: Ints, names: list[str], most: int = MOST_BATCHES) -> tuple[Ints, list[str]]:
    """Consecutive batches pooled until at most ``most`` are left.

    >>> merged(np.array([0, 1, 2, 3]), ["a", "b", "c", "d"], most=2)
    (array([0, 0, 1, 1]), ['a – b', 'c – d'])
    """
    if len(names) <= most:
        return batch, names
    edges = np.linspace(0, len(names), most + 1).round().astype(np.int64)
    group = np.searchsorted(edges, np.arange(len(names)), side="right") - 1
    labels = [names[a] if b - a == 1 else f"{names[a]} – {names[b - 1]}" for a, b in pairwise(edges)]
    return group[batch], labels
