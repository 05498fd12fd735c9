"""Ratios of marginals that look back: between DRL, which looks back no step, and DML, which looks back to the first.

The ratio of state-action marginals at t is a mean of products, w_t = E[w_{t−k} ρ_{t−k+1} … ρ_t | S_t, A_t], ρ being the
ratio of one step. So for every k

    w^k_t = w_{t−k} ρ_{t−k+1} … ρ_t          (the product of all ratios where t < k)

may take its place in the score of DRL. What a regression of w_{t−k} got wrong has k steps to be forgotten in; what it
costs is the spread of a product of k ratios. A regression of w on a continuous state is always somewhat wrong: rungs
k = 1, 2, 4, … that the log supports say how much, and take the place of DRL where it matters.

Rewards weighted by w^k_t and normalized step by step, as SNIPW is, need no value model. Nothing then corrects what the
regression of w_{t−k} got wrong, so k is 16 at least; and where a value model adds noise they vary less than DRL does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import MOST_LOG
from offpolicy.scores import formulas as scores
from offpolicy.scores.missed import spread
from offpolicy.scores.normalized import normalized_sum

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.decisions import Decisions

# Effective episodes that products of ratios must leave, as a number or as a share, and the most that one may carry.
FEWEST_EPISODES = 20.0
ENOUGH_EPISODES = 100.0
ENOUGH_SHARE = 0.1
LARGEST_SHARE = 0.1
# Steps of which less than this is left, of the target's episodes or of the logged ones, are not judged.
LEFT_OVER = 0.05
FEWEST_RUNNING = 50
# Steps in which what a regression got wrong is taken to be forgotten where no value model corrects it.
FORGOTTEN = 16


def enough_episodes(n: float) -> float:
    """Effective episodes that an estimate by products may rest on: 100, or a tenth of all if that is 20.

    >>> enough_episodes(5000.0), enough_episodes(400.0), enough_episodes(50.0)
    (100.0, 40.0, 20.0)
    """
    return max(FEWEST_EPISODES, min(ENOUGH_EPISODES, ENOUGH_SHARE * n))


@dataclass(frozen=True, eq=False)
class Rung:
    """The score of DRL with ratios that look back k steps, or of these ratios without a value model."""

    steps: int
    psi: Floats
    modeled: bool = True

    @property
    def name(self) -> str:
        """What the notes of an estimate call it."""
        kind = "DRL" if self.modeled else "SNIPW"
        if self.steps == 0:
            return kind
        return f"{kind} looking {self.steps} step{'s' if self.steps > 1 else ''} back"


def ratios_back(d: Decisions, k: int) -> Floats:
    """(S,) w_{t−k} times the ratios of the k steps up to t.

    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> half, one = np.full(3, 0.5), np.ones(3)
    >>> d = Decisions(Layout.ragged([3]), one, one, half, one, one, marginal=np.array([2.0, 3.0, 5.0]))
    >>> ratios_back(d, 1).round(9).tolist(), ratios_back(d, 3).round(9).tolist()
    ([2.0, 4.0, 6.0], [2.0, 4.0, 8.0])
    """
    assert d.marginal is not None
    row = np.arange(d.layout.n_steps)
    reaches = d.layout.step >= k
    earlier = np.where(reaches, row - k, row)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞): no weight before, none after
        since = np.where(reaches, d.log_rho - d.log_rho[earlier], d.log_rho)
    product = np.exp(np.minimum(np.where(np.isnan(since), -np.inf, since), MOST_LOG))
    return np.where(reaches, d.marginal[earlier], 1.0) * product


def is_supported(d: Decisions, ratio: Floats) -> bool:
    """Whether at every step the ratios leave enough episodes, none of which carries too much."""
    size = float(d.mass.sum())
    for _, units, rows in d.layout.by_step():
        weight = d.mass[units] * ratio[rows]
        total = float(weight.sum())
        if len(units) < FEWEST_RUNNING or total < LEFT_OVER * size:
            continue
        effective = total**2 / float((weight**2).sum())
        if effective < enough_episodes(d.size) or float(weight.max()) / total > LARGEST_SHARE:
            return False
    return True


def ladder(d: Decisions) -> list[Rung]:
    """DRL, then the scores that look back 1, 2, 4, … steps, as far as the log supports them."""
    rungs = [Rung(0, scores.marginalized(d))]
    k = 1
    while k < d.layout.horizon:
        ratio = ratios_back(d, k)
        if not is_supported(d, ratio):
            break
        rungs.append(Rung(k, scores.marginalized(replace(d, marginal=ratio))))
        k *= 2
    return rungs


def with_plain(d: Decisions, rungs: list[Rung]) -> list[Rung]:
    """The rungs, those of `FORGOTTEN` steps and more after the same without a value model where that varies less."""
    made = []
    for rung in rungs:
        if d.whole and rung.steps >= FORGOTTEN:
            plain = normalized(d, ratios_back(d, rung.steps))
            if spread(d, plain) < spread(d, rung.psi):
                made.append(Rung(rung.steps, plain, modeled=False))
        made.append(rung)
    return made


def normalized(d: Decisions, ratio: Floats) -> Floats:
    """ψ linearizes Σ_t γ^t Σ_i w_it R_it / Σ_i w_it, an episode keeping its last ratio after its end."""
    with np.errstate(divide="ignore"):
        logs = np.log(ratio)
    return normalized_sum(d, d.reward, np.zeros(d.layout.n_steps), logs)
