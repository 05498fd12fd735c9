"""Where a target policy puts its mass, as sums over decisions that add up over the blocks of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.inference.intervals.evidence import SIZES, size_of
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.inference.score_table import Units
    from offpolicy.logs.log import Log
    from offpolicy.policies.target import Target


@dataclass(frozen=True, eq=False)
class Reach:
    """Sums over the decisions of a log, or of a block of it; two blocks add up with ``+``.

    Attributes
    ----------
    total : float
        Σ m, with m the mass of a decision.
    mass : (K,) array
        Σ m π_e(a|S).
    square : (K,) array
        Σ m² π_e(a|S)², for the variance of sums by action.
    chooses : bool
        Whether the target takes one action for sure in every context.
    forbidden : float or None
        Mass on actions with π_b = 0, where the whole distribution was logged.
    largest : float or None
        Largest weight that can occur in a logged context, likewise.
    sizes : (B,) array or None
        Σ m π_e(a|S) by the size of the weight π_e/π_b in quarters of an octave (`size_of`), likewise.
    cut : float
        Mass of the decisions in which the end of the range of numbers cuts the target's kernel.

    Examples
    --------
    >>> half = Reach(2.0, np.array([1.0, 1.0]), np.array([0.5, 0.5]), chooses=False)
    >>> (half + half).share.tolist()
    [0.5, 0.5]
    """

    total: float
    mass: Floats
    square: Floats
    chooses: bool
    forbidden: float | None = None
    largest: float | None = None
    cut: float = 0.0
    sizes: Floats | None = None

    def __add__(self, other: Reach) -> Reach:
        """The reach over both blocks."""
        forbidden = largest = sizes = None
        if self.forbidden is not None and other.forbidden is not None:
            forbidden = self.forbidden + other.forbidden
        if self.sizes is not None and other.sizes is not None:
            sizes = self.sizes + other.sizes
        if self.largest is not None and other.largest is not None:
            largest = max(self.largest, other.largest)
        return Reach(
            self.total + other.total,
            self.mass + other.mass,
            self.square + other.square,
            self.chooses and other.chooses,
            forbidden,
            largest,
            self.cut + other.cut,
            sizes,
        )

    @property
    def cut_share(self) -> float:
        """Share of the decisions in which the end of the range cuts the target's kernel."""
        return self.cut / self.total

    @property
    def share(self) -> Floats:
        """(K,) E[π_e(a|S)]."""
        return self.mass / self.total

    @property
    def size_shares(self) -> Floats | None:
        """Shares of the target's mass by the size of the weight; None where π_b is not wholly known."""
        return None if self.sizes is None else self.sizes / self.total

    @property
    def forbidden_share(self) -> float | None:
        """Share of the target's mass on actions with π_b = 0; None where π_b is not wholly known."""
        return None if self.forbidden is None else self.forbidden / self.total


def masses(units: Units) -> tuple[Floats, Floats]:
    """(N,) mass of each row of units, and the sum of the squared masses of the units it stands for."""
    return units.count * units.weight, units.count * units.weight**2


def reach(block: Any, target: Target, mass: Floats, square: Floats) -> Reach:
    """Reach of a target on the decisions of a log, or of a block of it.

    Parameters
    ----------
    block : BanditLog or Trajectories
    target : Target
        The policy on the rows of ``block``.
    mass, square : (S,) arrays
        Mass of each decision, and the sum of squared masses of those it stands for (`masses`). Decisions
        of mass 0 are left out.
    """
    rows = np.flatnonzero(mass > 0)
    mass, square = mass[rows], square[rows]
    total, k = float(mass.sum()), target.n_actions
    if target.numbers is not None:
        cut = float(mass @ target.numbers.cut()[rows])
        return Reach(total, np.empty(0), np.empty(0), chooses=False, cut=cut)
    if target.shown is not None:
        return Reach(total, np.full(k, np.nan), np.full(k, np.nan), chooses=False)
    logged = getattr(block, "distribution", None)
    at = block.context.positions(rows) if target.shares_context else rows
    if logged is None and target.codes is not None:
        chosen = target.codes[at]
        first, second = (np.bincount(chosen, weights=w, minlength=k) for w in (mass, square))
        return Reach(total, first.astype(np.float64), second.astype(np.float64), chooses=True)
    if logged is None:  # each place is asked about once
        at, group = np.unique(at, return_inverse=True)
        mass = np.bincount(group, weights=mass).astype(np.float64)
        square = np.bincount(group, weights=square).astype(np.float64)
    none = None if logged is None else 0.0
    nowhere = None if logged is None else np.zeros(SIZES)
    out = Reach(total, np.zeros(k), np.zeros(k), chooses=True, forbidden=none, largest=none, sizes=nowhere)
    for part in blocks(len(at), k):
        pi = target.probabilities(at[part])
        forbidden = largest = sizes = None
        if logged is not None:
            pi_b = logged[rows[part]]
            closed = pi_b <= 0
            forbidden = float(mass[part] @ np.where(closed, pi, 0.0).sum(axis=1))
            weight = np.divide(pi, pi_b, out=np.zeros_like(pi), where=~closed)
            largest = float(weight.max())
            size = size_of(weight).ravel()
            sizes = np.bincount(size, (mass[part, None] * pi).ravel(), SIZES).astype(np.float64)
        sums, squares = mass[part] @ pi, square[part] @ (pi * pi)
        out += Reach(0.0, sums, squares, _is_choice(pi), forbidden, largest, sizes=sizes)
    return out


def _is_choice(pi: Floats) -> bool:
    return bool(((pi == 0) | (pi == 1)).all())


def constant_propensities(log: Log) -> Floats:
    """(K,) propensity of each action where it is the same in all its rows, else NaN.

    >>> from offpolicy.logs.bandit import BanditLog
    >>> log = BanditLog.from_arrays(None, [0, 1, 1], [1.0, 0, 0], [0.5, 0.2, 0.3], actions=range(3))
    >>> constant_propensities(log).tolist()
    [0.5, nan, nan]
    """
    k = len(log.actions)
    top, bottom = np.zeros(k), np.full(k, np.inf)
    np.maximum.at(top, log.action, log.propensity)
    np.minimum.at(bottom, log.action, log.propensity)
    return np.where((top > 0) & (top - bottom <= 1e-9), bottom, np.nan)


def largest_weight(log: Log, whole: Reach) -> float | None:
    """Largest weight π_e/π_b that can occur in a logged context; None where it cannot be known.

    It can with the whole logged distribution, and for a deterministic target where the propensity of each
    action is a constant.

    Parameters
    ----------
    log : BanditLog
        Its columns ``action`` and ``propensity`` are looked at.
    whole : Reach
        Of the target, over all rows of the log.
    """
    if not log.layout.is_single or log.propensity is None or not log.space.finite:
        return None
    if whole.largest is not None:
        return None if whole.forbidden else max(1.0, whole.largest)
    taken = constant_propensities(log)[whole.mass > 0]
    if not whole.chooses or np.isnan(taken).any():
        return None
    return max(1.0, float((1.0 / taken).max()))


# Finer where probabilities are small, tenths above.
EDGES = np.array([0, 0.001, 0.003, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])


@dataclass(frozen=True, eq=False)
class CalibrationSums:
    """Sums over pairs (context, action) by the size of π_b(a|S); those of two blocks add up with ``+``.

    Attributes
    ----------
    mass, predicted, taken : (bins,) arrays
        Σ m, Σ m π_b and Σ m 1{A = a}.
    square : (bins,) array
        Σ m².
    number : (bins,) array
        Pairs.
    """

    mass: Floats
    predicted: Floats
    taken: Floats
    square: Floats
    number: Floats

    def __add__(self, other: CalibrationSums) -> CalibrationSums:
        """The sums over both blocks."""
        mine, theirs = vars(self), vars(other)
        return CalibrationSums(**{name: mine[name] + theirs[name] for name in mine})


def calibration_sums(matrix: Floats, action: Ints, mass: Floats, square: Floats, count: Floats) -> CalibrationSums:
    """Sums over a block of decisions.

    Parameters
    ----------
    matrix : (m, K) array
        π_b of every action.
    action : (m,) int array
        Logged actions.
    mass, square, count : (m,) arrays
        Mass of each decision, the sum of squared masses of those it stands for, and how many these are.
    """
    bins, k = len(EDGES) - 1, matrix.shape[1]
    place = np.clip(np.searchsorted(EDGES, matrix, side="right") - 1, 0, bins - 1)
    own, flat = place[np.arange(len(action)), action], place.ravel()

    def over(at: Ints, values: Floats) -> Floats:
        return np.bincount(at, weights=values, minlength=bins).astype(np.float64)

    return CalibrationSums(
        over(flat, np.repeat(mass, k)),
        over(flat, (mass[:, None] * matrix).ravel()),
        over(own, mass),
        over(flat, np.repeat(square, k)),
        over(flat, np.repeat(count, k)),
    )
