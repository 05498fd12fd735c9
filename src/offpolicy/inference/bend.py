"""Does the mean reward break where a policy of numbers sits? A corner or a jump, told from smooth bends.

With u the logged number less the policy's, rewards less what the model says of the policy's number (which depends on
the context alone) are regressed on a polynomial in u and one broken term: |u| for a corner, the sign of u for a jump.
A smooth reward bends in the window too, and polynomials of any degree leave some of it. So the broken term must be
significant beside few powers and keep its share beside more, further powers must not be needed, and it must be as large
in half the window: a corner has the same change of slope at every scale, and a jump the same height, while what powers
leave of a smooth reward vanishes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from offpolicy._arrays import picked

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints

WINDOWS = (0.5, 0.354, 0.25)  # half widths, as shares of the width of the log
MIDDLE = (0.05, 0.95)  # quantiles between which that width is taken, which thin ends do not move
FEWEST = 50  # rows on each side of the policy's number
MOST = 100_000  # rows that are looked at
SURE = 4.0
STAYS = 0.45  # share of its z-score that a broken term keeps beside two more powers
SUFFICE = 0.1  # p-value above which further powers are not needed
SCALES = 1.64  # standard errors by which half the window may differ
POWERS = {"corner": (4, 6, 8), "jump": (5, 7, 9)}
#: z-score in half the window over that in the whole, for a break of the same size.
HALVED = {"corner": 2**-1.5, "jump": 2**-0.5}


@dataclass(frozen=True)
class Bend:
    """A break at the policy's number.

    Attributes
    ----------
    kind : {"corner", "jump", "none"}
    size : float
        By how much the slope, or the mean reward, changes there.
    z : float
        In standard errors; 0 where none stands out.
    """

    kind: str = "none"
    size: float = 0.0
    z: float = 0.0


def width_of(action: Floats) -> float:
    """How wide the logged actions lie: that of a uniform distribution with the same middle.

    >>> round(width_of(np.linspace(0.0, 6.0, 1001)), 6)
    6.0
    """
    low, high = np.quantile(action, MIDDLE)
    return float(high - low) / (MIDDLE[1] - MIDDLE[0])


def bend(apart: Floats, residual: Floats, mass: Floats, cluster: Ints | None, width: float) -> Bend | None:
    """The break of the mean reward at apart = 0; None where too few rows lie on either side to tell.

    Parameters
    ----------
    apart, residual, mass : (n,) arrays
        Logged number less the policy's; reward less what follows from the context; weight of the row.
    cluster : (n,) codes or None
    width : float
        Of the logged actions (`width_of`).
    """
    if len(apart) > MOST:
        rows = np.linspace(0, len(apart) - 1, MOST).astype(np.int64)
        apart, residual, mass = apart[rows], residual[rows], mass[rows]
        cluster = picked(cluster, rows)
    looked = False
    found = Bend()
    for share in WINDOWS:
        window = share * width
        whole, half = (_Part.of(apart, residual, mass, cluster, w) for w in (window, window / 2))
        if whole is None or half is None:
            continue
        looked = True
        for kind in POWERS:
            made = _break(kind, whole, half, window)
            if abs(made.z) > abs(found.z):
                found = made
    return found if looked else None


def agreed(found: list[Bend | None]) -> Bend | None:
    """The last of several findings, where all speak of the same kind of break; None where one could not tell."""
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    return known[-1] if len({each.kind for each in known}) == 1 else Bend()


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows inside a window, with u in units of it."""

    u: Floats
    y: Floats
    mass: Floats
    cluster: Ints | None

    @classmethod
    def of(cls, apart: Floats, residual: Floats, mass: Floats, cluster: Ints | None, window: float) -> _Part | None:
        inside = np.flatnonzero((np.abs(apart) <= window) & (mass > 0))
        right = int((apart[inside] > 0).sum())
        if min(right, len(inside) - right) < FEWEST:
            return None
        codes = None if cluster is None else np.unique(cluster[inside], return_inverse=True)[1]
        return cls(apart[inside] / window, residual[inside], mass[inside], codes)

    def fit(self, degree: int, kind: str) -> tuple[Floats, Floats]:
        """Coefficients of the powers and of the broken term, and their covariance, robust to unequal noise."""
        broken = np.abs(self.u) if kind == "corner" else np.sign(self.u)
        X = np.column_stack([np.polynomial.legendre.legvander(self.u, degree), broken])
        weighted = X * self.mass[:, None]
        inverse = np.linalg.pinv(X.T @ weighted)
        coefficients = inverse @ (weighted.T @ self.y)
        leverage = np.einsum("ij,jk,ik->i", weighted, inverse, X)
        rest = (self.y - X @ coefficients) / np.sqrt(np.maximum(1 - leverage, 0.1))
        score = weighted * rest[:, None]
        if self.cluster is not None:
            sums = np.zeros((int(self.cluster.max()) + 1, score.shape[1]))
            np.add.at(sums, self.cluster, score)
            score = sums
        return coefficients, inverse @ (score.T @ score) @ inverse


def _break(kind: str, whole: _Part, half: _Part, window: float) -> Bend:
    """A break that passes every test, in one window."""
    few, more, most = POWERS[kind]
    coefficients, covariance = whole.fit(few, kind)
    z = _z(coefficients, covariance)
    if abs(z) <= SURE:
        return Bend()
    if _z(*whole.fit(more, kind)) * math.copysign(1.0, z) < STAYS * abs(z):
        return Bend()
    at_half = _z(*half.fit(few, kind))
    if at_half * z <= 0 or abs(at_half - HALVED[kind] * z) > SCALES:
        return Bend()
    further, spread = whole.fit(most, kind)
    extra = np.arange(more + 1, most + 1)
    square = further[extra] @ np.linalg.pinv(spread[np.ix_(extra, extra)]) @ further[extra]
    if float(special.chdtrc(len(extra), max(float(square), 0.0))) < SUFFICE:
        return Bend()
    size = 2 * float(coefficients[-1])
    return Bend(kind, size / window if kind == "corner" else size, z)


def _z(coefficients: Floats, covariance: Floats) -> float:
    error = math.sqrt(max(float(covariance[-1, -1]), 0.0))
    return float(coefficients[-1]) / error if error > 0 else 0.0
