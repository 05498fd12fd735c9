"""Are contexts balanced? If actions were drawn with their propensities, rows of action a, each counted 1/p times,
look like all rows:

    E[(1{A = a}/p − 1) h(S)] = 0     for every function h of the context,

and E[(1{A = a} − π_b(a|S)) h(S)] = 0 where the whole distribution was logged. Stale, permuted or joined-wrong
propensities break this, and so does a context column that was written after the action.

With the probability of the logged action alone the sum has a tail: where p is tiny, the rows that would balance it are
those that were not drawn, and an action may be impossible in some contexts. Both make it too small. For f ≥ 0, any c,

    E[1{A = a, p ≥ c} f(S)/p] ≤ E[f(S)],

so that an excess contradicts the propensities, and its terms are bounded by f/c. f is (h ± 1)², h being standardized.

h is arcsinh of a column of numbers (monotone, with tails that are no longer heavy), and for labels two signs that
follow from the bits of their hash. Sums over rows suffice, and add up over blocks.

Numbers as actions are tested as a few intervals of them. If they were drawn with their densities p, then for an
interval B of length |B|, E[1{A ∈ B} h(S) / (p |B|)] = E h(S), as for a label whose propensity is p |B|: the same sums,
the same tests. The intervals share the middle half of the range of the log, since at its ends densities are small and
their inverses have no variance to speak of.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from offpolicy.logs.kinds import space_of
from offpolicy.logs.log import changed
from offpolicy.policies.distribution import blocks
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, fine, judged, not_applicable
from offpolicy.trust.moments import first_largest, normal_from_student, two_sided
from offpolicy.trust.view import counts_and_weights, propensities, several

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats
    from offpolicy.logs.log import L, Log
    from offpolicy.trust.check import Level
    from offpolicy.trust.hashes import Hashes

ENOUGH = 30  # rows of an action from which on its balance is judged
MATERIAL = 0.01  # standard deviations of a column
SIGNS = (40, 52)  # bits of a label's hash that are taken for signs
DEFICIT = -3.0
TAIL = 30  # rows of a context and an action that must be expected, for the action to be looked at there
BINS = 4  # intervals of numbers
NARROW = 1e-6  # variance over squared mean up to which a column does not vary beyond rounding of its powers


def binned(log: L) -> L:
    """The log, or a block of it, with intervals of numbers for actions; rows elsewhere count for none."""
    low, high = log.space.span or (0.0, 0.0)
    first, width = low + (high - low) / 4, (high - low) / (2 * BINS)
    place = np.floor((log.action - first) / width)
    inside = (place >= 0) & (place < BINS)
    edges = [first + width * j for j in range(BINS + 1)]
    return changed(
        log,
        action=np.where(inside, place, 0).astype(np.int64),
        space=space_of(tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges))),
        # An infinite propensity has the inverse 0: the row is of no interval.
        propensity=np.where(inside, log.propensity * width, np.inf),
        action_features=None,
    )


@dataclass(frozen=True, eq=False)
class BalanceSums:
    """Sums over rows; those of two blocks add up with ``+``.

    Attributes
    ----------
    names : tuple of str
        Columns that the features are of.
    level : (F, 3) array
        Σ m h^t for t = 0, 1, 2.
    gap : (F, K, 3) array
        Σ m g_a h^t, with g_a = 1{A = a, p ≥ c}/p − 1, or 1{A = a} − π_b(a|S).
    spread : (F, K, 5) array
        Σ m² E[g_a²] h^t for t = 0 … 4 (2 where the whole distribution was logged).
    """

    names: tuple[str, ...]
    level: Floats
    gap: Floats
    spread: Floats

    def __add__(self, other: BalanceSums) -> BalanceSums:
        """The sums over both blocks."""
        return BalanceSums(self.names, self.level + other.level, self.gap + other.gap, self.spread + other.spread)


def features(columns: list[tuple[str, Array, Hashes]]) -> list[tuple[str, Floats]]:
    """Functions of the context, by the column that they are of."""
    out: list[tuple[str, Floats]] = []
    for name, values, hashes in columns:
        if values.dtype.kind in "biuf":
            number = np.arcsinh(np.asarray(values, dtype=np.float64))
            out.append((name, np.where(np.isfinite(number), number, 0.0)))
        else:
            for bit in SIGNS:
                sign = (hashes >> np.uint64(bit)) & np.uint64(1)
                out.append((name, sign.astype(np.float64)))
    return out


def balance_sums(block: Any, columns: list[tuple[str, Array, Hashes]], rows: float | None = None) -> BalanceSums | None:
    """Sums over the decisions of a log, or of a block of it; None where propensities were not logged.

    Parameters
    ----------
    block : BanditLog or Trajectories
    columns : list of (name, values, hashes)
        Columns of its table of contexts.
    rows : float, optional
        Decisions of the whole log, from which c follows; default: those of the block.
    """
    named = features(columns)
    if block.propensity is None or not named:
        return None
    block = block.space.binned(block)
    count, weight = counts_and_weights(block)
    mass, square = count * weight, count * weight**2
    k, index = len(block.actions), block.context.index
    by_action = _ByAction.of(block, mass, square, TAIL / (rows or float(count.sum())))
    level, gap, spread = [], [], []
    for _, feature in named:
        h = feature if index is None else feature[index]
        square_of = h * h
        powers: list[Floats | None] = [None, h, square_of]
        level.append([float(mass.sum()), float(mass @ h), float(mass @ square_of)])
        gap.append(np.stack([by_action.gap(p) for p in powers], axis=-1))
        if block.distribution is None:
            powers += [h**3, h**4]
        spread.append(np.stack([by_action.spread(p) for p in powers], axis=-1))
    shape = (len(named), k, -1)
    return BalanceSums(
        tuple(name for name, _ in named), np.array(level), np.array(gap).reshape(shape), np.array(spread).reshape(shape)
    )


@dataclass(frozen=True, eq=False)
class _ByAction:
    """What g_a is made of, and sums of it by action."""

    action: Array
    k: int
    mass: Floats
    square: Floats
    first: Floats
    second: Floats
    able: Array | None
    chance: Floats | None

    @classmethod
    def of(cls, block: Any, mass: Floats, square: Floats, least: float) -> _ByAction:
        whole = block.distribution is not None
        # A share of rows that all have this propensity is no tail: limits are met but for rounding.
        inverse = np.where(block.propensity >= least * (1 - 1e-9), 1.0 / block.propensity, 0.0)
        return cls(
            block.action,
            len(block.actions),
            mass,
            square,
            mass if whole else mass * inverse,
            square * (inverse * inverse - 2 * inverse),
            None if whole else block.eligible,
            block.distribution,
        )

    def gap(self, h: Floats | None) -> Floats:
        taken = np.bincount(self.action, _times(self.first, h), self.k)
        return np.asarray(taken - self._expected(_times(self.mass, h), self.chance))

    def spread(self, h: Floats | None) -> Floats:
        square = _times(self.square, h)
        if self.chance is not None:
            return self._expected(square, self.chance, variance=True)
        taken = np.bincount(self.action, _times(self.second, h), self.k)
        return np.asarray(taken + self._expected(square, None))

    def _expected(self, mass: Floats, chance: Floats | None, *, variance: bool = False) -> Floats:
        if chance is None and self.able is None:
            return np.full(self.k, float(mass.sum()))
        total = np.zeros(self.k)
        for rows in blocks(len(mass), self.k):
            p = self.able[rows] if chance is None else chance[rows]  # type: ignore[index]
            total += mass[rows] @ (p * (1 - p) if variance else p)
        return total


def _times(mass: Floats, h: Floats | None) -> Floats:
    return mass if h is None else mass * h


def design_effects(log: Log) -> tuple[Floats, float]:
    """(K,) how much more Σ (1{A = a}/p − 1) varies than if rows were independent draws, and how many units are.

    1 without clusters, and for the steps of episodes, each of which is a draw of its own given those before.
    """
    k = len(log.actions)
    count, weight = counts_and_weights(log)
    if not log.has_clusters or several(log):
        return np.ones(k), float(count.sum())
    mass, inverse = count * weight, 1.0 / log.propensity
    size = int(log.cluster.max()) + 1
    own = np.bincount(log.cluster, mass, size)
    out = np.ones(k)
    for a in range(k):
        taken = log.action == a
        gain = np.where(taken, inverse, 0.0) - 1.0
        mean = float(mass @ gain / mass.sum())
        together = np.bincount(log.cluster, mass * gain, size) - mean * own
        alone = float(count * weight**2 @ (gain - mean) ** 2)
        out[a] = max(1.0, float(together @ together) / alone) if alone > 0 else 1.0
    return out, float(np.count_nonzero(own))


def finding(log: Log, sums: BalanceSums | None, *, whole: bool) -> Finding:
    """The column and action that are furthest out of balance.

    ``whole``: the whole distribution was logged, so that it is known what was possible.
    """
    name = "balance"
    if sums is None:
        return not_applicable(name, "the context has no columns.")
    log = log.space.binned(log)
    effects, units = design_effects(log)
    count, _ = counts_and_weights(log)
    often = np.bincount(log.action, count, len(log.actions)) >= ENOUGH
    z, size = _means(sums)
    if not whole:
        # Means say more than an excess, where terms have no tail and no action was impossible.
        small = np.where(_tailless(log, sums), _shrunk(log, z), np.nan)
        z, size = (np.concatenate(pair) for pair in zip((small, size), _excess(sums), strict=True))
    z = np.where(often, z, np.nan) / np.sqrt(effects)
    usable = np.isfinite(z)
    if not usable.any():
        return not_applicable(name, "no column varies enough to compare it between actions.")
    tests = int(usable.sum())
    z[0] = np.abs(z[0])
    worst = first_largest(np.where(usable, z, -np.inf).ravel())
    side, f, a = np.unravel_index(worst, z.shape)
    top = normal_from_student(float(z[side, f, a]), units)
    p = min(1.0, tests * (two_sided(top) if side == 0 else float(special.ndtr(-top))))
    off = float(size[side, f, a])
    column, label = sums.names[f], log.actions[a]
    said = (
        f"its mean is off by {off:.2g} standard deviations"
        if side == 0
        else f"{'large' if side == 1 else 'small'} values are {100 * off:.3g}% too frequent"
    )
    sentence = (
        f"after weighting, context columns have the same means for every action (p = {p:.2g} of {tests} comparisons)."
        if fine(name, p)
        else f"column {column!r} is out of balance: among rows of action {label!r}, weighted by "
        f"1/propensity, {said} (p = {p:.2g} of {tests} comparisons)."
    )
    at_most: Level = "alarm" if off > MATERIAL else "note"
    details = {"column": column, "action": label, "z": float(z.ravel()[worst]), "off": off, "tests": tests}
    return judged(name, p, sentence, details, at_most=at_most)


def _tailless(log: Log, sums: BalanceSums) -> Array:
    """(K,) actions of which no row was too unlikely to be expected, and which do not come too seldom."""
    count, _ = counts_and_weights(log)
    unlikely = log.propensity < TAIL / count.sum() * (1 - 1e-9)
    gap, spread = sums.gap[0, :, 0], sums.spread[0, :, 0]
    z = np.divide(gap, np.sqrt(spread), out=np.zeros(len(gap)), where=spread > 0)
    known = log.eligible is not None
    return np.asarray((np.bincount(log.action, unlikely, len(log.actions)) == 0) & (known | (z > DEFICIT)))


def _shrunk(log: Log, z: Floats) -> Floats:
    """z-scores without what the skewness of Σ 1{A = a}/p makes of their tails."""
    k = len(log.actions)
    count, _ = counts_and_weights(log)
    taken = np.bincount(log.action, count, k)
    off = 1.0 / log.propensity - 1.0
    second = np.bincount(log.action, count * off**2, k) + count.sum() - taken
    third = np.bincount(log.action, count * off**3, k)
    skew = np.divide(third, second**1.5, out=np.zeros(k), where=second > 0)
    size = np.abs(z)
    calm = -(-size + skew * size**2 / 3 - skew**2 * size**3 / 27 + skew / 6)  # as `moments.symmetric` has it
    return np.asarray(np.sign(z) * np.maximum(np.minimum(calm, size), 0.0))


def _means(sums: BalanceSums) -> tuple[Floats, Floats]:
    """(1, F, K) z-scores of Σ m g_a h, and how many standard deviations of h each is; NaN where h does not vary."""
    total, center, variance = _moments(sums)
    gap = sums.gap[..., 1] - center * sums.gap[..., 0]
    spread = sums.spread[..., 2] - 2 * center * sums.spread[..., 1] + center**2 * sums.spread[..., 0]
    varies = (variance > 1e-10 * center**2) & (spread > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(varies, gap / np.sqrt(spread), np.nan)
        size = np.where(varies, np.abs(gap) / (total * np.sqrt(np.abs(variance))), 0.0)
    return z[None], size[None]


def _excess(sums: BalanceSums) -> tuple[Floats, Floats]:
    """(2, F, K) z-scores of Σ m g_a f, with f = (h + 1)² and (h − 1)² of standardized h, and their size over f's."""
    total, center, variance = _moments(sums)
    varies = variance > NARROW * center**2
    width = np.sqrt(np.where(varies, variance, 1.0))
    z, size = [], []
    for side in (1.0, -1.0):
        # f = (h − c)²/s², with c and s in units of the column: by powers of h, so that sums over blocks suffice.
        origin = center - side * width
        first = np.array([1.0, -2.0, 1.0])
        f = np.concatenate([first[j] * origin ** (2 - j) for j in range(3)], axis=1) / width**2
        gap = np.einsum("fkt,ft->fk", sums.gap, f)
        square = np.stack([np.convolve(row, row) for row in f])
        spread = np.einsum("fkt,ft->fk", sums.spread, square)
        with np.errstate(divide="ignore", invalid="ignore"):
            z.append(np.where(varies & (spread > 0), gap / np.sqrt(spread), np.nan))
        size.append(np.abs(gap) / (2 * total))  # f has mean 2
    return np.stack(z), np.stack(size)


def _moments(sums: BalanceSums) -> tuple[Floats, Floats, Floats]:
    """(F, 1) mass, mean and variance of each feature."""
    total = sums.level[:, :1]
    center = sums.level[:, 1:2] / total
    return total, center, sums.level[:, 2:] / total - center**2


CHECKS = (
    Check(
        "balance",
        Threshold(
            0.001, 0.0001, "below",
            "Either the logged propensities are not the ones actually used, or a context column was "
            "written after the action. Check both, column by column.",
            decides=True, false_alarms=0.001,
        ),
        log=lambda s: finding(s.log, s.sums.balance, whole=s.sums.distribution is not None), applies=propensities,
        topic=Topic("Contexts differ between actions in ways the propensities do not explain."),
        value="p-value: context columns by action, weighted by 1/propensity, compared with all rows",
    ),
)  # fmt: skip
