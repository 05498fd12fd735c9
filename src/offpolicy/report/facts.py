"""What a report says about the estimates: plain rows for tables and charts, one dictionary each.

Nothing here is fitted again and no row of the log is carried over: every fact is a mean, a standard error
or an interval of a score that an estimate already holds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy.inference.estimate import Estimate, Units
from offpolicy.trust.verdict import headline

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Ints
    from offpolicy.evaluation.result import Evaluation

Row: TypeAlias = dict[str, Any]

MOST_BATCHES = 60


def forest(evaluation: Evaluation, level: float = 0.95) -> list[Row]:
    """Every policy by every estimator, with its interval."""
    lead = {p: headline(evaluation, p) for p in evaluation.policies}
    return [
        {
            "policy": policy,
            "estimator": name,
            "headline": name == lead[policy],
            **_shown(evaluation[policy, name], level),
            "note": "; ".join(evaluation[policy, name].notes),
        }
        for policy in evaluation.policies
        for name in (e.name for e in evaluation.estimators)
    ]


def differences(evaluation: Evaluation, level: float = 0.95) -> list[Row]:
    """Paired differences: each policy and the log by every estimator, and the policies among themselves."""
    logged = evaluation.logged
    lead = {p: headline(evaluation, p) for p in evaluation.policies}
    rows: list[Row] = []
    for policy in evaluation.policies:
        for name in (e.name for e in evaluation.estimators):
            e = evaluation[policy, name]
            row = {
                "policy": policy,
                "versus": "log",
                "estimator": name,
                "headline": name == lead[policy],
                **_shown(e - logged, level),
            }
            rows.append(row | _lift(e, logged, level))
    first = [evaluation[p, lead[p]] for p in evaluation.policies]
    for j, i in combinations(range(len(first)), 2):
        a, b = evaluation.policies[i], evaluation.policies[j]
        if lead[a] != lead[b]:
            continue
        row = {"policy": a, "versus": b, "estimator": lead[a], "headline": True}
        rows.append(row | _shown(first[i] - first[j], level) | _lift(first[i], first[j], level))
    return rows


def _shown(e: Estimate, level: float) -> Row:
    low, high = e.interval(level)
    return {"value": e.value, "low": low, "high": high, "std_error": e.std_error, "n": e.n}


def _lift(e: Estimate, other: Estimate, level: float) -> Row:
    """Relative change, where the base is clearly positive and so a ratio means something."""
    if not (e.is_defined and other.is_defined and other.interval(level)[0] > 0):
        return {"lift": None, "lift_low": None, "lift_high": None}
    lift = e.lift(other)
    low, high = lift.interval(level)
    return {"lift": lift.value, "lift_low": low, "lift_high": high}


def restricted(e: Estimate, members: Bools) -> Estimate | None:
    """The mean of a score over some units alone; None where the split leaves nothing to average.

    Units that a half-sample split does not score hold its value, and those it scores are stretched around
    it; both are undone here, so that a subgroup's mean is that of its own scores.
    """
    psi = e.psi
    if e.scored is not None:
        mass = np.ones(e.units.n_rows) if e.units.mass is None else e.units.mass
        stretch = mass.sum() / mass[e.scored].sum()
        psi = e.value + (psi - e.value) / stretch
        members = members & e.scored
    if not members.any():
        return None

    def pick(values: Any) -> Any:
        return None if values is None else values[members]

    u = e.units
    units = Units(int(members.sum()), pick(u.count), pick(u.weight), pick(u.cluster), pick(u.batch))
    return replace(e, psi=psi[:, members], units=units, scored=None, facts=_facts(e, members))


def _facts(e: Estimate, members: Bools) -> Any:
    """Weights and rewards of the members, where the estimate has one of each for every scored unit."""
    at = members if e.scored is None else members[e.scored]
    if e.facts is None or e.facts.weights is None or np.shape(e.facts.weights) != at.shape:
        return None
    rewards = None if e.facts.rewards is None else e.facts.rewards[at]
    return replace(e.facts, weights=e.facts.weights[at], rewards=rewards)


def by_group(
    evaluation: Evaluation, policy: str, codes: Ints, labels: list[str], level: float = 0.95
) -> list[Row]:
    """Estimate and logged value inside groups of units, in the order of ``labels``.

    Repeated half-sample splits score different units each time and have no subgroup mean, and a streamed
    log keeps no scores: no rows.
    """
    e, logged = evaluation[policy, headline(evaluation, policy)], evaluation.logged
    split = next(x.split for x in evaluation.estimators if x.name == headline(evaluation, policy))
    if not e.is_defined or e.psi.shape[1] == 0 or (split == "half" and len(e.psi) > 1):
        return []
    total = float(_mass(logged).sum())
    rows: list[Row] = []
    for code, label in enumerate(labels):
        members = codes == code
        part, base = restricted(e, members), restricted(logged, members)
        if part is None or base is None or part.n < 2:
            continue
        low, high = part.interval(level)
        rows.append(
            {
                "group": label,
                "value": part.value,
                "low": low,
                "high": high,
                "logged": base.value,
                "n": base.n,
                "share": float(_mass(base).sum()) / total,
            }
        )
    return rows


def _mass(e: Estimate) -> Any:
    return np.ones(e.units.n_rows) if e.units.mass is None else e.units.mass


def batches(evaluation: Evaluation, policy: str, level: float = 0.95) -> list[Row]:
    """The estimate inside each batch, in the order of time; neighbors are merged beyond 60 batches."""
    log = evaluation.problem.log
    if log.batch is None:
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
    labels = [
        names[a] if b - a == 1 else f"{names[a]} – {names[b - 1]}" for a, b in pairwise(edges)
    ]
    return group[batch], labels
