"""`KernelRatio`: a policy that names one number per row, spread around it by a kernel so that it has a density.

With K_h(u) = K(u/h)/h the smoothed policy draws a with density K_h(a − π(x)), inside the range of the log. Its ratio
to the logged density is the importance weight. A kernel that reaches over the end of the range is divided by what is
left of it inside ("renormalize"), folded back ("reflect"), or left as it is ("none"), which loses mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.log import Log

Span: TypeAlias = "tuple[Any, Any]"  # ends of the range: two numbers, or one of each per row
NODES = 8  # points at which a smoothed policy asks the reward model
FAR = 4.0  # bandwidths that a kernel without an end is followed


@dataclass(frozen=True, eq=False)
class Kernel:
    """A symmetric density with its distribution function and E|u|; ``reach`` is where it ends, in bandwidths."""

    density: Callable[[Floats], Floats]
    below: Callable[[Floats], Floats]
    mean_distance: float
    reach: float = 1.0


def _inside(values: Floats, u: Floats) -> Floats:
    return np.where(np.abs(u) <= 1, values, 0.0)


def _clipped(function: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    return lambda u: function(np.clip(u, -1.0, 1.0))


KERNELS: dict[str, Kernel] = {
    "epanechnikov": Kernel(lambda u: _inside(0.75 * (1 - u * u), u), _clipped(lambda u: (2 + 3 * u - u**3) / 4), 3 / 8),
    "triangular": Kernel(
        lambda u: _inside(1 - np.abs(u), u), _clipped(lambda u: (1 + 2 * u - u * np.abs(u)) / 2), 1 / 3
    ),
    "cosine": Kernel(
        lambda u: _inside(math.pi / 4 * np.cos(math.pi / 2 * u), u),
        _clipped(lambda u: (1 + np.sin(math.pi / 2 * u)) / 2),
        1 - 2 / math.pi,
    ),
    "uniform": Kernel(lambda u: _inside(np.full(np.shape(u), 0.5), u), _clipped(lambda u: (1 + u) / 2), 1 / 2),
    "gaussian": Kernel(
        lambda u: np.exp(-u * u / 2) / math.sqrt(2 * math.pi),
        lambda u: np.asarray(special.ndtr(u)),
        math.sqrt(2 / math.pi),
        math.inf,
    ),
}
EDGES = ("renormalize", "reflect", "none")


@checks_arguments
@dataclass(frozen=True)
class KernelRatio:
    """Importance weights of a policy that names a number: a kernel around it over the logged density.

    Parameters
    ----------
    bandwidth : "auto" or float
        Half the width of the window around the policy's number (its standard deviation for "gaussian"), in the units
        of the action. "auto" takes, policy by policy, the widest of a grid that no narrower one contradicts
        (Lepski's rule). Every interval is widened by an allowance for the bias that the window brings.
    kernel : {"epanechnikov", "triangular", "cosine", "uniform", "gaussian"}
    edge : {"renormalize", "reflect", "none"}
        What becomes of a kernel that reaches over the end of the range of logged actions: the part inside is scaled
        to 1, the part outside is folded back, or it is lost.
    smooth_model : bool
        Whether the reward model is averaged over the kernel as well, so that every estimator values the smoothed
        policy. By default it is asked at the policy's own number, so that only what the model leaves of the
        reward is smoothed: less bias for estimators with a reward model.

    Examples
    --------
    >>> KernelRatio(0.5).density(np.array([1.0, 1.25]), np.array([1.0, 1.0]), (0.0, 2.0)).tolist()
    [1.5, 1.125]
    """

    bandwidth: float | Literal["auto"] = "auto"
    kernel: str = "epanechnikov"
    edge: Literal["renormalize", "reflect", "none"] = "renormalize"
    smooth_model: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise UsageError(
                f"no kernel is called {self.kernel!r}.{did_you_mean(self.kernel, KERNELS)} "
                f"There are {', '.join(KERNELS)}."
            )
        if self.edge not in EDGES:
            raise UsageError(f"edge= must be one of {', '.join(EDGES)}. Got {self.edge!r} instead.")
        width: Any = self.bandwidth
        if width == "auto":
            return
        number = isinstance(width, int | float | np.number) and not isinstance(width, bool)
        if not number or not 0 < float(width) < math.inf:
            raise UsageError(f"bandwidth= must be 'auto' or a positive number. Got {width!r}.")

    def for_log(self, log: Log) -> KernelRatio:
        """The ratio on a log whose actions are numbers; other logs are refused."""
        if log.space.span is None:
            raise UsageError(
                "KernelRatio is for actions that are numbers. Build the log with action_kind='continuous', or leave "
                "ratio= out."
            )
        return self

    @property
    def width(self) -> float:
        """The bandwidth as a number."""
        if isinstance(self.bandwidth, str):
            raise UsageError("bandwidth='auto' is chosen by evaluate().")
        return float(self.bandwidth)

    @property
    def mean_distance(self) -> float:
        """How far from the policy's number the smoothed policy acts, on average.

        >>> KernelRatio(0.5).mean_distance
        0.1875
        """
        return self.width * KERNELS[self.kernel].mean_distance

    @property
    def words(self) -> str:
        """The window, for notes."""
        what = "standard deviation" if math.isinf(KERNELS[self.kernel].reach) else "half width"
        return f"{what} {self.width:.3g} ({self.kernel})"

    def density(self, action: Floats, center: Floats, span: Span) -> Floats:
        """(n,) density at ``action`` of the policy that takes ``center``, smoothed inside ``span``."""
        kernel, h = KERNELS[self.kernel], self.width
        value = kernel.density((action - center) / h)
        if self.edge == "reflect":
            for end in span:
                value = value + kernel.density((2 * end - action - center) / h)
        if self.edge == "renormalize":
            value = value / self.mass_inside(center, span)
        return np.asarray(value / h)

    def mass_inside(self, center: Floats, span: Span) -> Floats:
        """(n,) share of the kernel around ``center`` that lies inside ``span``.

        >>> KernelRatio(1.0).mass_inside(np.array([0.0, 2.0]), (0.0, 9.0)).tolist()
        [0.5, 1.0]
        """
        below, h = KERNELS[self.kernel].below, self.width
        return np.asarray(below((span[1] - center) / h) - below((span[0] - center) / h))

    def is_cut(self, center: Floats, span: Span) -> Bools:
        """(n,) whether the end of the range cuts off more than a thousandth of the kernel."""
        return np.asarray(self.mass_inside(center, span) < 0.999)

    def nodes(self, center: Floats, span: Span) -> tuple[Floats, Floats]:
        """(m, J) actions at which a reward model is asked, and their weights, which sum to 1 in every row."""
        center = center[:, None]
        if not self.smooth_model:
            return center, np.ones_like(center)
        reach = min(KERNELS[self.kernel].reach, FAR) * self.width
        at, weight = legendre()
        ends = np.reshape(span[0], (-1, 1)), np.reshape(span[1], (-1, 1))
        low, high = np.maximum(center - reach, ends[0]), np.minimum(center + reach, ends[1])
        points = (low + high) / 2 + (high - low) / 2 * at
        share = self.density(points, center, ends) * weight
        return points, share / share.sum(axis=1, keepdims=True)


@cache
def legendre(number: int = NODES) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre on [−1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return nodes, weights
