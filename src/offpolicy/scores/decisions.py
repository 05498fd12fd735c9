"""Everything a score may look at, as flat arrays with one entry per decision.

The paper's letters: R_t, ρ_t = ∏_{s≤t} π_e(A_s|S_s) / π_b(A_s|S_s), q_t(S_t, A_t) and
v_t = Σ_a π_e(a|S_t) q_t(S_t, a). A bandit has one decision per unit, an episode T + 1. Where the layout has a link
(slates), ρ_t multiplies the ratios of the linked decisions, and ρ_{t−1} those without t itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import constant, is_constant, picked, some_of
from offpolicy.errors import NotIdentifiedError, UsageError
from offpolicy.logs.columns import NOT_GIVEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.layout import Layout

LARGEST_LOG_WEIGHT = 700.0


@dataclass(eq=False)
class Ledger:
    """Means of the whole log for the score of one block, in the order in which the score asks for them.

    A mean that an earlier pass has summed over all blocks is known; until then the block's own stands in, and
    what the next pass needs is written down.
    """

    known: list[float] = field(default_factory=list)
    asked: list[tuple[float, float]] = field(default_factory=list)

    def mean(self, values: Floats, mass: Floats) -> float:
        """The whole log's mean, once known."""
        total, size = float(values @ mass), float(mass.sum())
        place = len(self.asked)
        self.asked.append((total, size))
        if place < len(self.known):
            return self.known[place]
        return total / size if size else math.nan


@dataclass(frozen=True, eq=False)
class Decisions:
    """One policy's view of the log, with nuisances predicted in one sample split.

    Parameters
    ----------
    layout : Layout
        Which decisions form a unit.
    reward, pi_e, pi_b, q, v : (S,) arrays
        R_t; probabilities of the logged action under target and behavior; q_t(S_t, A_t); v_t.
    discount : float
        γ.
    weight : (N,) array
        Mass of each unit in means (counts × analysis weights).
    marginal : (S,) array or None
        Ratio of state-action marginals, for the scores that use it.
    count : (N,) array
        How many identical units each stands for (`is_counted`).
    fold : (N,) int array or None
        Fold of each unit, for scores with coefficients of their own to fit; None outside cross-fitting.
    ledger : Ledger or None
        Where means of the whole log come from when these decisions are a block of it.
    regressed : bool
        Whether ``marginal`` is of a continuous state: a regression, or given, and somewhat wrong, not counted.
    whole : bool
        Whether all episodes were logged to their ends. Of one that was truncated, weights alone say nothing of what
        follows.

    Examples
    --------
    >>> from offpolicy.logs.layout import Layout
    >>> half = np.full(2, 0.5)
    >>> d = Decisions(Layout.ragged([2]), np.ones(2), np.ones(2), half, half, half, discount=0.9)
    >>> d.rho.tolist(), d.rho_before.tolist(), d.gamma.tolist()
    ([2.0, 4.0], [1.0, 2.0], [1.0, 0.9])
    """

    layout: Layout
    reward: Floats
    pi_e: Floats
    pi_b: Floats
    q: Floats
    v: Floats
    discount: float = 1.0
    weight: Floats = NOT_GIVEN
    marginal: Floats | None = None
    count: Floats = NOT_GIVEN
    fold: Ints | None = None
    ledger: Ledger | None = None
    regressed: bool = False
    whole: bool = True
    mass: Floats = field(init=False, repr=False)  # the weight, by what it is in means

    def __post_init__(self) -> None:
        for name in ("weight", "count"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, constant(1.0, self.layout.n_units))
        object.__setattr__(self, "mass", self.weight)

    @property
    def is_counted(self) -> bool:
        """Whether a unit may stand for several that are alike."""
        return not is_constant(self.count)

    @property
    def n(self) -> int:
        """Units held."""
        return self.layout.n_units

    @property
    def size(self) -> float:
        """Units they stand for."""
        return float(self.count.sum())

    @cached_property
    def ratio(self) -> Floats:
        """(S,) one-step ratio w_t = π_e / π_b."""
        return self.pi_e / self.pi_b

    @cached_property
    def log_rho(self) -> Floats:
        """(S,) log ρ_t, −∞ once the target would not have taken a logged action."""
        logs = _log_ratio(self)
        if self.layout.is_single:
            return logs
        if self.layout.link is not None:
            return self.layout.link.log_rho(logs, self.layout)
        total = np.zeros(self.n)
        out = np.empty_like(logs)
        for _, units, rows in self.layout.by_step():
            total[units] += logs[rows]
            out[rows] = total[units]
        return out

    def log_rho_by_step(self) -> Iterator[tuple[int, Ints, Ints, Floats]]:
        """Yield (t, units with a decision at t, their rows, (N,) log weights of all units at t).

        An episode that has ended keeps its last weight; a slot that a linked unit does not have weighs 1.
        """
        now = np.zeros(self.n)
        for t, units, rows in self.layout.by_step():
            if self.layout.link is not None:
                now = np.zeros(self.n)
            now[units] = self.log_rho[rows]
            yield t, units, rows, now

    @cached_property
    def log_product(self) -> Floats:
        """(N,) log of the product of all ratios of a unit."""
        if self.layout.link is None:
            return np.asarray(self.layout.last(self.log_rho))
        logs = _log_ratio(self)
        lost = np.isneginf(logs)
        total = self.sum(np.where(lost, 0.0, logs))
        return np.where(self.sum(lost.astype(np.float64)) > 0, -np.inf, total)

    @cached_property
    def log_weight(self) -> Floats:
        """(N,) log of the weight of a unit as a whole: that of its last decision; of linked ones, their mean."""
        if self.layout.link is None:
            return np.asarray(self.layout.last(self.log_rho))
        with np.errstate(divide="ignore"):
            return np.log(mean_step_weight(self))

    @cached_property
    def rho(self) -> Floats:
        """(S,) ρ_t, the importance weight up to and including t (Eq. weight)."""
        if self.layout.is_single:
            return self.ratio
        within_floats(self.log_rho, self)
        return np.exp(self.log_rho)

    @cached_property
    def rho_before(self) -> Floats:
        """(S,) ρ_{t−1}, which is 1 at t = 0."""
        if self.layout.is_single:
            return np.ones(self.layout.n_steps)
        if self.layout.link is not None:
            return np.exp(self.log_before)
        out = np.ones(self.layout.n_steps)
        later = self.layout.step > 0
        out[later] = self.rho[np.flatnonzero(later) - 1]
        return out

    @cached_property
    def log_before(self) -> Floats:
        """(S,) log ρ_{t−1}."""
        if self.layout.link is not None:
            return self.layout.link.log_before(_log_ratio(self), self.layout)
        out = np.zeros(self.layout.n_steps)
        later = np.flatnonzero(self.layout.step > 0)
        out[later] = self.log_rho[later - 1]
        return out

    @cached_property
    def gamma(self) -> Floats:
        """(S,) γ^t."""
        if self.layout.is_single:
            return np.ones(self.layout.n_steps)
        return np.asarray(self.discount ** np.arange(self.layout.horizon))[self.layout.step]

    def part(self, units: Ints) -> Decisions:
        """The decisions of some units."""
        rows = self.layout.rows_of(units)

        return Decisions(
            self.layout.subset(units),
            self.reward[rows],
            self.pi_e[rows],
            self.pi_b[rows],
            self.q[rows],
            self.v[rows],
            self.discount,
            some_of(self.weight, units),
            picked(self.marginal, rows),
            some_of(self.count, units),
            picked(self.fold, units),
            regressed=self.regressed,
            whole=self.whole,
        )

    def unfolded(self) -> Decisions:
        """The same units without counts: each as often as it stands for."""
        if not self.is_counted:
            return self
        times = np.rint(self.count).astype(np.int64)
        every = self.part(np.repeat(np.arange(self.n), times))
        mass = every.weight
        if not is_constant(mass):
            mass = mass / np.repeat(self.count, times)
        return replace(every, weight=mass, count=NOT_GIVEN)

    @cached_property
    def outcome(self) -> Floats:
        """(S,) R_t + γ v_{t+1}, whose mean given S_t and A_t is q_t; R of an impression or of a linked slot."""
        if self.layout.is_single or self.layout.link is not None:
            return self.reward
        following = np.zeros(self.layout.n_steps)
        later = np.flatnonzero(self.layout.step > 0)
        following[later - 1] = self.v[later]
        return self.reward + self.discount * following

    def sum(self, values: Floats) -> Floats:
        """(N,) sum of a per-decision quantity inside each unit."""
        return self.layout.sum(values)

    def total(self, values: Floats) -> Floats:
        """(N,) sum of what decisions add to a score.

        Where every slot carries the reward of its whole slate, what is counted too often is taken off.
        """
        return self.sum(values) + self.layout.surplus(self.reward)

    @property
    def returns(self) -> Floats:
        """(N,) what each unit earned, Σ γ^t R_t."""
        return self.reward if self.layout.is_single else self.total(self.gamma * self.reward)

    def mean(self, values: Floats) -> float:
        """Mean over all units of the log, by mass."""
        if self.ledger is not None:
            return self.ledger.mean(values, self.mass)
        if is_constant(self.weight):
            return float(values.mean())
        return float(values @ self.weight / self.weight.sum())


def _log_ratio(d: Decisions) -> Floats:
    """(S,) log w_t."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(d.pi_e) - np.log(d.pi_b))


def within_floats(logs: Floats, d: Decisions) -> None:
    """Refuse weights that no float can hold."""
    highest = float(logs.max(initial=-np.inf))
    if highest > LARGEST_LOG_WEIGHT:
        raise NotIdentifiedError(
            f"an importance weight reaches e^{highest:.0f}, which overflows: at a horizon "
            f"of {d.layout.horizon} steps these data cannot support products of ratios. Use a "
            "self-normalized (SNIPW, WDR), marginalized (DRL) or model-based (DM) estimator, a "
            "shorter horizon, or a target closer to the logging policy."
        )


class Undeclared(np.ndarray[Any, Any]):
    """A nuisance that a score did not declare to need: it was not fitted, and using it raises."""

    what: tuple[str, str]

    def __array_finalize__(self, parent: Any) -> None:
        self.what = getattr(parent, "what", ("q", "value"))

    def _refuse(self, *_: Any, **__: Any) -> Any:
        name, need = self.what
        raise UsageError(
            f"the score uses d.{name}, but its needs= does not name {need!r}, so nothing was fitted for it. "
            f"Declare it: Estimator(…, needs={{{need!r}, …}})."
        )

    __array_ufunc__ = __array_function__ = _refuse
    for _method in ("sum", "mean", "max", "min", "copy", "tolist", "dot", "astype", "__float__"):
        locals()[_method] = _refuse


def undeclared(name: str, need: str, n: int) -> Floats:
    """A stand-in for ``d.name`` of n decisions that must not be looked at."""
    blank = np.broadcast_to(np.float64(np.nan), (n,)).view(Undeclared)
    blank.what = (name, need)
    return blank


def mean_step_weight(d: Decisions) -> Floats:
    """(N,) Σ_t γ^t ρ_t / Σ_t γ^t over the longest episode's steps; an episode that has ended keeps its last weight.

    >>> from offpolicy.logs.layout import Layout
    >>> half = np.full(3, 0.5)
    >>> mean_step_weight(Decisions(Layout.ragged([2, 1]), half, np.ones(3), half, half, half)).tolist()
    [3.0, 2.0]
    """
    if d.layout.is_single:
        return d.ratio
    longest = d.layout.horizon
    powers = d.discount ** np.arange(longest, dtype=np.float64)
    after = np.concatenate([np.cumsum(powers[::-1])[::-1], [0.0]])
    carried = d.layout.last(d.rho) if d.layout.link is None else 1.0
    total = d.sum(d.gamma * d.rho) + carried * after[np.asarray(d.layout.lengths)]
    return np.asarray(total / powers.sum())


def variance_emphasis(d: Decisions) -> Floats:
    """(S,) weights γ^{2t} ρ_t² (1 − π_b) of the regressions of MRDR, up to a common factor.

    Farajtabar et al. 2018: with them the fitted q_t minimizes the variance of the doubly robust score. Here
    they weight the recursion's own targets R_t + γ v_{t+1}, which are far less noisy than the importance-
    weighted returns of the original. A common factor changes no weighted mean: of episodes the largest weight is 1,
    and no horizon overflows.
    """
    if d.layout.is_single:
        return np.asarray((d.pi_e / d.pi_b) ** 2 * (1 - d.pi_b))
    with np.errstate(divide="ignore"):
        logs = 2 * (d.log_rho + np.log(d.gamma)) + np.log1p(-np.minimum(d.pi_b, 1.0))
    highest = float(logs.max(initial=-np.inf))
    return np.zeros_like(logs) if np.isneginf(highest) else np.exp(logs - highest)
