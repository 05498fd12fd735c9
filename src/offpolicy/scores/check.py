"""A public checker for scores that users write themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError, first_rows
from offpolicy.logs.layout import Layout
from offpolicy.scores.catalog import Estimator, apply
from offpolicy.scores.decisions import Decisions, undeclared

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats

UNITS = 60
CLOSE = 1e-9


def check_score(score: Any, *, trajectories: bool = True) -> None:
    """Check that a score, or an `Estimator` made of one, keeps what it declares.

    It must give one finite number per unit, the same twice, without writing into what it is given; look at
    nuisances only that it names in ``needs``; move with the units when they come in another order; and, where it
    declares ``linear_in_reward``, ``whole_log_means`` or ``takes_counts``, behave so.

    Parameters
    ----------
    score : Estimator or function of `Decisions`
    trajectories : bool
        Whether to try it on episodes besides impressions.

    Raises
    ------
    UsageError
        That says which promise is not kept.

    Examples
    --------
    >>> check_score(lambda d: d.sum(d.gamma * d.rho * d.reward))
    >>> check_score(lambda d: d.reward.mean())
    Traceback (most recent call last):
    offpolicy.errors.UsageError: the score of 'score' gave shape () for 60 units. Return one number per unit; sum
    over steps with d.sum(…).
    """
    estimator = score if isinstance(score, Estimator) else Estimator("score", score)
    layouts = [Layout.single(UNITS)]
    if trajectories and "trajectories" in estimator.kinds:
        layouts.append(Layout.ragged(np.arange(UNITS) % 3 + 1))
    if "bandit" not in estimator.kinds:
        layouts = layouts[1:]
    for layout in layouts:
        _check(estimator, _decisions(layout, estimator))


def _decisions(layout: Layout, estimator: Estimator) -> Decisions:
    """Made-up decisions; what a score does not declare to need cannot be looked at."""
    rng = np.random.default_rng(0)
    steps = layout.n_steps

    def drawn(low: float, high: float) -> Floats:
        values = rng.uniform(low, high, steps)
        values.flags.writeable = False
        return values

    needs = estimator.needs
    return Decisions(
        layout,
        drawn(-1, 2),
        drawn(0.1, 0.9),
        drawn(0.2, 0.8) if "behavior" in needs else undeclared("pi_b", "behavior", steps),
        drawn(-1, 1) if "value" in needs else undeclared("q", "value", steps),
        drawn(-1, 1) if "value" in needs else undeclared("v", "value", steps),
        0.9,
        None,
        drawn(0.5, 2.0) if "marginal" in needs else None,
        None,
        np.arange(layout.n_units) % 2 if estimator.split == "crossfit" else None,
    )


def _check(estimator: Estimator, d: Decisions) -> None:
    psi = apply(estimator, d).psi
    _same(estimator, psi, apply(estimator, replace(d)).psi, "in a second call")
    order = np.random.default_rng(1).permutation(d.n)
    mixed = np.empty_like(psi)
    mixed[order] = apply(estimator, d.part(order)).psi
    _same(estimator, psi, mixed, "when units come in another order")
    if estimator.linear_in_reward:
        none = apply(estimator, replace(d, reward=np.zeros_like(d.reward))).psi
        twice = apply(estimator, replace(d, reward=2 * d.reward)).psi
        _same(
            estimator, 2 * psi - none, twice, "from twice the rewards, though linear_in_reward=True"
        )
        half = np.arange(d.n // 2)
        part = apply(estimator, d.part(half)).psi
        _same(estimator, psi[half], part, "of half the units alone, though linear_in_reward=True")
    if estimator.takes_counts and not estimator.by_block:
        counted = replace(d, count=np.full(d.n, 2.0), weight=np.full(d.n, 2.0))
        unfolded = apply(estimator, counted.unfolded()).psi[::2]
        _same(
            estimator,
            unfolded,
            apply(estimator, counted).psi,
            "of counted units, though takes_counts=True",
        )


def _same(estimator: Estimator, one: Array, other: Array, when: str) -> None:
    differs = ~np.isclose(one, other, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    if differs.any():
        raise UsageError(
            f"the score of {estimator.name!r} gives other numbers {when}: {first_rows(differs, other)}."
        )
