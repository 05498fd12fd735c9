"""Checks of rewards seen in part: who has one, how many count, and what the proxies are worth."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse, special

from offpolicy.inference.intervals.tails import effective_size
from offpolicy.models.fitting.encode import LinearDesign, encode_table
from offpolicy.trust.check import Check, Threshold, Topic, declare
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import adjusted_z, z_score

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.kinds.seen_in_part import PseudoRewards


FEWEST = 10.0  # expected labels among the rows of a column from which on it is compared
WHOLE = "every reward is seen."
NO_PROXIES = "the outcome names no proxies."

declare(
    Check(
        "label_balance",
        Threshold(
            0.002, 0.0001, "below",
            "Check that the probability of a label is the one with which rows were drawn, and add what decided who was "
            "labeled to the context or to proxies=. Labels that depend on the reward itself cannot be corrected for.",
            decides=True, false_alarms=0.002,
        ),
        topic=Topic("Rows with a reward differ from rows without one."),
        value="p-value of the largest difference between rows with and without a reward",
    ),
    Check(
        "effective_labels",
        Threshold(
            30.0, 5.0, "below",
            "Label more rows, first of all those whose action the policy would take (op.advise says how many).",
            decides=True,
        ),
        topic=Topic("Few labeled rows match the new policy."),
        value="labels that count, discounted for unequal weights",
    ),
    Check(
        "proxy_skill",
        Threshold(
            0.0, -math.inf, "below", "The proxies say little about the reward: labels alone would do as well.",
            advice=True,
        ),
        topic=Topic("The proxies predict the reward poorly."),
        value="share of the labels' variance that the proxies explain besides context and action",
    ),
    Check(
        "proxy_preference",
        Threshold(
            4.0, math.inf, "above", "Never take these proxies for the reward: they prefer an action.",
            advice=True, false_alarms=0.001,
        ),
        topic=Topic("The proxies favor some actions."),
        value="z-score of the largest difference between actions at the same proxies",
    ),
)  # fmt: skip


def findings(settled: PseudoRewards) -> list[Finding]:
    """What a log with this outcome shows about it, whatever the policy."""
    if settled.seen.all():
        return [not_applicable(name, WHOLE) for name in ("label_balance", "proxy_skill", "proxy_preference")]
    return [balance(settled), skill(settled), preference(settled)]


def effective_labels(settled: PseudoRewards, weight: Floats) -> Finding:
    """How many labels an estimate rests on, discounted for unequal weights."""
    name = "effective_labels"
    if settled.seen.all():
        return not_applicable(name, WHOLE)
    used = np.where(settled.seen, settled.mass * weight / settled.out_of_fold[0].chance, 0.0)
    size = effective_size(used) if used.any() else 0.0
    total = int(settled.seen.sum())
    return judged(
        name, size, f"{settled.held.noun} leave as much information about this policy as {size:.3g} of {total:,}."
    )


def balance(settled: PseudoRewards) -> Finding:
    """Rows with a reward against all rows, in context, action and proxies, at the probabilities e."""
    off = np.where(settled.seen, 1 / settled.out_of_fold[0].chance, 0.0) - 1
    columns, names = _columns(settled)
    scale = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
    top = np.asarray(abs(columns).max(axis=0).todense()).ravel()
    expected = float(np.mean(settled.seen)) * (scale / np.where(top > 0, top, 1.0)) ** 2
    compared = np.flatnonzero((expected >= FEWEST) & (top > 0))
    g = columns[:, compared].multiply((off * settled.mass)[:, None]).tocsc()
    n = len(off)
    mean = np.asarray(g.sum(axis=0)).ravel() / n
    square = np.asarray(g.multiply(g).sum(axis=0)).ravel() / n
    z = np.array([z_score(m, math.sqrt(max(s - m * m, 0.0) / n), 0.0) for m, s in zip(mean, square, strict=True)])
    worst = int(np.argmax(np.abs(z)))
    p = min(1.0, len(z) * float(special.erfc(abs(z[worst]) / math.sqrt(2))))
    if names[compared[worst]] == ALL:
        what = (
            "are there more often than their probabilities say"
            if z[worst] > 0
            else "are there less often than their probabilities say"
        )
        sentence = f"{settled.held.noun} {what} (p = {p:.2g} of {len(z)} comparisons)."
    else:
        sentence = (
            f"rows with and without a reward differ most in {names[compared[worst]]!r} "
            f"(p = {p:.2g} of {len(z)} comparisons)."
        )
    return judged("label_balance", p, sentence)


ALL = ""  # the column of ones: how often rewards are seen at all


def _columns(settled: PseudoRewards) -> tuple[Any, list[str]]:
    """Ones, context, action and proxies as columns of about the same scale, and their names."""
    log = settled.log
    rows = np.arange(len(settled.seen))
    parts: list[Any] = [sparse.csr_array(np.ones((len(rows), 1)))]
    names = [ALL]
    for context, role in ((log.context, "context"), (settled.held.proxies, "proxies")):
        if context is None:
            continue
        encoded = encode_table(context.coded_table)
        if encoded.matrix.shape[1] == 0:
            continue
        design = LinearDesign.learn(encoded)
        table = design.transform(encoded.rows(context.positions(rows)))
        parts.append(sparse.csr_array(table))
        names += [_named(context, design, role, j) for j in range(table.shape[1])]
    if log.space.finite:
        k = len(log.actions)
        parts.append(sparse.csr_array((np.ones(len(rows)), (rows, log.action)), shape=(len(rows), k)))
        names += [f"{log.names.action} = {label}" for label in log.actions]
    return sparse.hstack(parts, format="csc"), names


def _named(context: Any, design: LinearDesign, role: str, j: int) -> str:
    """Name of the column that a column of the design comes from."""
    own = list(design.numeric) + [design.numeric[i] for i in design.flagged]
    for column, places in design.levels:
        own += [column] * (len(set(places.tolist()) - {-1}))
    if context.names is None or j >= len(own):
        return f"{role} column {own[j] if j < len(own) else j}"
    return str(context.names[own[j]])


def skill(settled: PseudoRewards) -> Finding:
    """How much of the variance of the labels m leaves, out of fold, beside a prediction without proxies."""
    name = "proxy_skill"
    if settled.held.proxies is None:
        return not_applicable(name, NO_PROXIES)
    fit, at = settled.out_of_fold[0], np.flatnonzero(settled.seen)
    c = settled.mass[at] / fit.chance[at]
    shares = settled.shares(np.arange(len(settled.seen)))
    r, m, plain = settled.held.reward[at], (shares @ fit.parts)[at], fit.parts[0][at]
    left, without = float(c @ (r - m) ** 2), float(c @ (r - plain) ** 2)
    gain = 1 - left / without if without > 0 else 0.0
    e = c * (r - m)
    z = z_score(float(e.mean()), float(e.std()) / math.sqrt(len(e)), 0.0)
    return judged(
        name,
        gain,
        f"with the proxies, {gain:.0%} less of the variance of {settled.held.noun} is left out of fold than without; "
        f"predictions are off by {float(e.sum() / c.sum()):.3g} on average (z = {z:.2g}).",
    )


def preference(settled: PseudoRewards) -> Finding:
    """Whether proxies rate the rewards of one action too high beside the others."""
    name = "proxy_preference"
    log, proxies = settled.log, settled.held.proxies
    if proxies is None:
        return not_applicable(name, NO_PROXIES)
    if not log.space.finite:
        return not_applicable(name, log.space.why_not)
    at = np.flatnonzero(settled.seen)
    encoded = encode_table(proxies.coded_table).rows(proxies.positions(at))
    X = LinearDesign.learn(encoded).transform(encoded)
    X = np.column_stack([np.ones(len(at)), X.toarray() if sparse.issparse(X) else X])
    c = settled.mass[at] / settled.out_of_fold[0].chance[at]
    r, root = settled.held.reward[at], np.sqrt(c)
    rest = r - X @ np.linalg.lstsq(X * root[:, None], r * root, rcond=None)[0]
    gaps = []
    for code, label in enumerate(log.actions):
        own = log.action[at] == code
        if min(own.sum(), (~own).sum()) < FEWEST:
            continue
        sides = [
            (float(np.average(rest[s], weights=c[s])), c[s] @ c[s] / c[s].sum() ** 2, rest[s]) for s in (own, ~own)
        ]
        spread = math.sqrt(sum(float(np.var(values)) * share for _, share, values in sides))
        gap = sides[0][0] - sides[1][0]
        gaps.append((z_score(gap, spread, 0.0), gap, label))
    if not gaps:
        return not_applicable(name, "too few labels of any action to compare.")
    z, gap, label = max(gaps, key=lambda g: abs(g[0]))
    size = adjusted_z(z, len(gaps))
    way = "low" if gap > 0 else "high"
    return judged(
        name,
        size,
        f"at the same proxies, rewards of {log.names.action} {label!r} and of the others differ by {abs(gap):.3g}"
        + (
            f": the proxies rate it too {way} (z = {size:.2g}), which the labels correct."
            if size > 3
            else f" (z = {size:.2g})."
        ),
    )


STEPS = 60


@dataclass(frozen=True)
class LabelPlan:
    """Labels that an interval of a wanted width takes.

    Attributes
    ----------
    width : float
        Wanted.
    now, width_now : int and float
        Labels at hand, and the width of their interval.
    least_width : float
        With every row labeled.
    labels : int or None
        Rows to draw evenly for the wanted width; None where even all labels do not do.
    """

    width: float
    now: int
    width_now: float
    least_width: float
    labels: int | None

    def summary(self) -> dict[str, Any]:
        """Its numbers."""
        return asdict(self)

    def __str__(self) -> str:
        now = f"{self.now:,} labels give an interval of width {self.width_now:.3g}."
        if self.labels is None:
            all_rows = f"With every row labeled it would be {self.least_width:.3g}"
            return f"{now} {all_rows}: for {self.width:.3g}, log more rows."
        return f"{now} For {self.width:.3g}, draw {self.labels:,} rows to label."


def label_plan(
    settled: PseudoRewards, weight: Floats, std_error: float, width_now: float, width: float | None, level: float
) -> LabelPlan:
    """The plan for one policy.

    Parameters
    ----------
    weight : (n,) array
        Importance weights of the policy.
    std_error, width_now : float
        Of its estimate as it is.
    width : float or None
        Wanted; None: three quarters of what there is.
    """
    m, e, seen = settled.prediction, settled.out_of_fold[0].chance, settled.seen
    scale = (settled.mass / settled.mass.sum() * weight) ** 2
    square = (settled.held.reward - m) ** 2
    total = float((scale * square / e)[seen].sum())
    fixed = max(std_error**2 - float((scale * square / e * (1 / e - 1))[seen].sum()), 0.0)
    z = float(special.ndtri(0.5 + level / 2))
    excess = max(width_now / (2 * z * std_error) - 1, 0.0) if std_error > 0 else 0.0
    wanted = 0.75 * width_now if width is None else width
    n = len(weight)

    def width_of(share: float) -> float:
        error = fixed + (1 / share - 1) * total
        # Intervals of few labels are wider than normal ones, by an excess that falls as information grows.
        return 2 * z * math.sqrt(error) * (1 + excess * min(error / std_error**2, 1.0) ** 2)

    labels = None
    if width_of(1.0) <= wanted:
        low, high = 1 / n, 1.0
        for _ in range(STEPS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if width_of(middle) > wanted else (low, middle)
        labels = math.ceil(n * high)
    return LabelPlan(wanted, int(seen.sum()), width_now, width_of(1.0), labels)
