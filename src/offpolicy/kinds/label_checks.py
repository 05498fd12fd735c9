"""Checks of rewards seen in part: who has one, how many count, and what the proxies are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse, special

from offpolicy.inference.intervals.tails import effective_size
from offpolicy.models.fitting.encode import LinearDesign, encode_table
from offpolicy.trust.check import Check, Threshold, Topic, declare
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import adjusted_z, z_score

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats
    from offpolicy.kinds.seen_in_part import PseudoRewards


FEWEST = 10.0  # expected labels among the rows of a column from which on it is compared
WHOLE = "every reward is observed."
NO_PROXIES = "the outcome names no proxies."

declare(
    Check(
        "label_balance",
        Threshold(
            0.002, 0.0001, "below",
            "Check that the probability of a label is the one used to draw rows, and add whatever decided which rows "
            "were labeled to the context or to proxies=. Labels that depend on the reward itself cannot be corrected "
            "for.",
            decides=True, false_alarms=0.002,
        ),
        topic=Topic("Rows with a reward differ from rows without one."),
        value="p-value of the largest difference between rows with and without a reward", part_of="labels",
    ),
    Check(
        "effective_labels",
        Threshold(
            30.0, 5.0, "below",
            "Label more rows, starting with those whose action the policy would take (op.advise says how many).",
            decides=True,
        ),
        topic=Topic("Few labeled rows match the new policy."),
        value="labels that count, discounted for unequal weights", part_of="labels",
    ),
    Check(
        "proxy_skill",
        Threshold(
            0.0, -math.inf, "below", "The proxies predict the reward poorly; labels alone would do as well.",
            advice=True,
        ),
        topic=Topic("The proxies predict the reward poorly."),
        value="share of the labels' variance that the proxies explain besides context and action", part_of="proxies",
    ),
    Check(
        "proxy_preference",
        Threshold(
            4.0, math.inf, "above", "Never use these proxies as the reward: they favor an action.",
            advice=True, false_alarms=0.001,
        ),
        topic=Topic("The proxies favor some actions."),
        value="z-score of the largest difference between actions at the same proxies", part_of="proxies",
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
    each = settled.mass / settled.count * weight / settled.out_of_fold[0].chance
    used, count = np.where(settled.seen, each, 0.0), settled.count
    size = effective_size(used, count) if used.any() else 0.0
    total = settled.seen_count
    return judged(
        name, size, f"after weighting, {settled.held.noun} are worth about {size:.3g} of {total:,} for this policy."
    )


def balance(settled: PseudoRewards) -> Finding:
    """Rows with a reward against all rows, in context, action and proxies, at the probabilities e."""
    off = np.where(settled.seen, 1 / settled.out_of_fold[0].chance, 0.0) - 1
    columns, names = _columns(settled)
    scale = np.sqrt(np.asarray(columns.multiply(columns).multiply(settled.count[:, None]).sum(axis=0)).ravel())
    top = np.asarray(abs(columns).max(axis=0).todense()).ravel()
    expected = settled.seen_count / settled.total * (scale / np.where(top > 0, top, 1.0)) ** 2
    compared = np.flatnonzero((expected >= FEWEST) & (top > 0))
    g = columns[:, compared].multiply((off * settled.mass)[:, None]).tocsr()
    total = np.asarray(g.sum(axis=0)).ravel()
    apart = settled.log.layout.is_single and not settled.log.has_clusters
    if not apart or not settled.held.is_drawn:
        # Rows of a unit may have been drawn together: they are added up first.
        _, code = np.unique(settled.together, return_inverse=True)
        rows = np.arange(len(off))
        g = sparse.csr_array((np.ones(len(rows)), (code, rows)), shape=(int(code.max()) + 1, len(rows))) @ g
        variance = np.asarray(g.multiply(g).sum(axis=0)).ravel() - total**2 / g.shape[0]
    else:
        # The variance that the probabilities themselves say, which no chance draw moves.
        chance = settled.out_of_fold[0].chance
        spread = settled.mass**2 / settled.count * (1 / chance - 1)
        x = columns[:, compared]
        variance = np.asarray(x.multiply(x).multiply(spread[:, None]).sum(axis=0)).ravel()
    z = np.array([z_score(t, math.sqrt(max(v, 0.0)), 0.0) for t, v in zip(total, variance, strict=True)])
    worst = int(np.argmax(np.abs(z)))
    p = min(1.0, len(z) * float(special.erfc(abs(z[worst]) / math.sqrt(2))))
    if names[compared[worst]] == ALL:
        what = (
            "are present more often than their probabilities say"
            if z[worst] > 0
            else "are present less often than their probabilities say"
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
    e, count = c * (r - m), settled.count[at]
    off = float(e.sum())
    z = z_score(off, math.sqrt(max(float((e**2 / count).sum()) - off**2 / float(count.sum()), 0.0)), 0.0)
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
    r, root, count = settled.held.reward[at], np.sqrt(c), settled.count[at]
    rest = r - X @ np.linalg.lstsq(X * root[:, None], r * root, rcond=None)[0]
    gaps = []
    for code, label in enumerate(log.actions):
        own = log.action[at] == code
        if min(count[own].sum(), count[~own].sum()) < FEWEST:
            continue
        sides = (own, ~own)
        means = [float(np.average(rest[s], weights=c[s])) for s in sides]
        shares = [float(c[s] @ (c[s] / count[s])) / float(c[s].sum()) ** 2 for s in sides]
        spread = math.sqrt(sum(share * _spread(rest, count, s) for share, s in zip(shares, sides, strict=True)))
        gap = means[0] - means[1]
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
            f", so the proxies rate it too {way} (z = {size:.2g}); the labels correct this."
            if size > 3
            else f" (z = {size:.2g})."
        ),
    )


def _spread(values: Floats, count: Floats, at: Any) -> float:
    """The variance of some rows."""
    mean = np.average(values[at], weights=count[at])
    return float(np.average((values[at] - mean) ** 2, weights=count[at]))


STEPS = 60
BINS = 5  # of predictions, inside which errors are taken to be alike
LEAST = 0.5  # smallest probability of a design, as a share of that of an even draw: models learn from all rows


@dataclass(frozen=True)
class LabelPlan:
    """Labels that an interval of a wanted width takes, and on which rows.

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
    best_labels : int or None
        Rows to draw for the same width with ``probability``.
    probability : (n,) array or None
        For each row of the log the probability with which to label it, in proportion to the row's importance weight
        times the error to expect of its prediction: the design of the smallest variance. Draw rows with it, and give
        it as ``Labeled(…, probability=…)``.
    """

    width: float
    now: int
    width_now: float
    least_width: float
    labels: int | None
    best_labels: int | None = None
    probability: Floats | None = field(default=None, repr=False, compare=False)

    def summary(self) -> dict[str, Any]:
        """Its numbers."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "probability"}

    def __str__(self) -> str:
        now = f"{self.now:,} labels give an interval of width {self.width_now:.3g}."
        if self.labels is None:
            all_rows = f"With every row labeled it would be {self.least_width:.3g}"
            return f"{now} {all_rows}. For {self.width:.3g}, log more rows."
        return (
            f"{now} For {self.width:.3g}, label {self.labels:,} rows drawn uniformly, or {self.best_labels:,} drawn "
            "with the probabilities of the plan, which favor rows with large weights and uncertain predictions."
        )


@dataclass(frozen=True, eq=False)
class LabelVariance:
    """What the squared standard error of a policy is made of, by how rows are labeled.

    Attributes
    ----------
    fixed : float
        With every row labeled.
    each : (n,) array
        What a row adds, times 1/e − 1: squared mass, weight and expected error of its prediction.
    count : (n,) array
        Rows that each stands for.
    std_error, excess, z : float
        Standard error now; by how much its interval is wider than a normal one; normal quantile.
    """

    fixed: float
    each: Floats
    count: Floats
    std_error: float
    excess: float
    z: float

    def width(self, chance: Floats | float) -> float:
        """Of the interval, where rows are labeled with these probabilities."""
        error = self.fixed + float(self.each @ np.broadcast_to(1 / np.asarray(chance) - 1, len(self.each)))
        # Intervals of few labels are wider than normal ones, by an excess that falls as information grows.
        return 2 * self.z * math.sqrt(error) * (1 + self.excess * min(error / self.std_error**2, 1.0) ** 2)

    def design(self, share: float) -> Floats:
        """(n,) probabilities of the smallest variance whose mean is a share: Neyman's, none above 1 or next to 0."""
        root = np.sqrt(self.each / self.count)
        low, high, least = 0.0, 1 / max(float(root[root > 0].min(initial=1.0)), 1e-300), LEAST * share
        for _ in range(2 * STEPS):
            middle = (low + high) / 2
            chance = np.clip(middle * root, least, 1.0)
            low, high = (middle, high) if float(self.count @ chance) < share * self.count.sum() else (low, middle)
        return np.asarray(np.clip(high * root, least, 1.0))


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
    e, seen, count = settled.out_of_fold[0].chance, settled.seen, settled.count
    scale = (settled.mass / settled.mass.sum() * weight) ** 2 / count
    square = (settled.held.reward - settled.prediction) ** 2
    total = float((scale * square / e)[seen].sum())
    expected = scale * expected_square(settled)
    each = expected * (total / float(expected.sum())) if expected.any() else expected
    fixed = max(std_error**2 - float((scale * square / e * (1 / e - 1))[seen].sum()), 0.0)
    z = float(special.ndtri(0.5 + level / 2))
    excess = max(width_now / (2 * z * std_error) - 1, 0.0) if std_error > 0 else 0.0
    variance = LabelVariance(fixed, each, count, std_error, excess, z)
    wanted = 0.75 * width_now if width is None else width
    plan = LabelPlan(wanted, settled.seen_count, width_now, variance.width(1.0), None)
    if plan.least_width > wanted:
        return plan
    even = _least(variance.width, wanted, settled.total)
    best = _least(lambda share: variance.width(variance.design(share)), wanted, settled.total)
    chance = variance.design(best)
    labels = math.ceil(settled.total * even)
    return replace(plan, labels=labels, best_labels=min(math.ceil(count @ chance), labels), probability=chance)


def _least(width: Callable[[float], float], wanted: float, n: int) -> float:
    """The smallest share of rows at which a width is the wanted one."""
    low, high = 1 / n, 1.0
    for _ in range(STEPS // 2):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if width(middle) > wanted else (low, middle)
    return high


def expected_square(settled: PseudoRewards) -> Floats:
    """(n,) the squared error to expect of the prediction of each row, up to a factor.

    Errors are taken to be alike where predictions are: squared errors of the labels, in bins of the prediction.
    """
    m, seen = settled.prediction, settled.seen
    reward = settled.held.reward[seen]
    cuts = np.quantile(m[seen], np.arange(1, BINS) / BINS)
    place = np.searchsorted(cuts, m)
    c = (settled.mass / settled.out_of_fold[0].chance)[seen]
    square = c * (reward - m[seen]) ** 2
    sums = [np.bincount(place[seen], each, minlength=BINS) for each in (square, c)]
    whole = float(square.sum() / c.sum())
    # A bin counts as much as its labels do beside ten rows of the whole.
    sizes = np.bincount(place[seen], minlength=BINS)
    means = np.where(sums[1] > 0, sums[0] / np.where(sums[1] > 0, sums[1], 1.0), whole)
    return np.asarray(((sizes * means + 10 * whole) / (sizes + 10))[place])
