"""The worlds of the episode study by name: a log to draw, a target, its exact value, and what the policies are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.episodes.cart import Cart
from offpolicy_studies.episodes.clinic import clinic
from offpolicy_studies.episodes.outcomes import World, from_gymnasium, greedy, softmax
from offpolicy_studies.tabular.chain import Chain
from offpolicy_studies.tabular.toys import cliff_walking

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.arrays import Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """One question: draw a log, evaluate a target.

    Attributes
    ----------
    draw : callable
        (n, rng, propensities) → log.
    target : callable
        π_e of states.
    value : callable
        () → V of the target; CartPole's takes a quarter of a minute, so nobody waits for it who does not ask.
    table : (S, K) array or None
        π_e of every state, where there are finitely many.
    ratios : callable or None
        log → (steps,) true ratio of the state-action marginals at its steps; None where nobody knows it.
    """

    draw: Callable[..., op.Trajectories]
    target: Callable[[Any], Floats]
    value: Callable[[], float]
    table: Floats | None = None
    ratios: Callable[[op.Trajectories], Floats] | None = None

    @property
    def truth(self) -> float:
        """V of the target."""
        return self.value()


def _ratios_of(visits_e: Floats, visits_b: Floats, pi_e: Floats, pi_b: Floats) -> Callable[[op.Trajectories], Floats]:
    """The true ratios at the steps of a log, from (T, S) distributions of the state under both policies."""

    def ratios(log: op.Trajectories) -> Floats:
        rows = np.arange(log.rows)
        state = np.asarray(log.context.table)[log.context.positions(rows)]
        t, action = log.layout.step, log.action
        state_ratio = visits_e[t, state] / visits_b[t, state]
        return np.asarray(state_ratio * pi_e[state, action] / pi_b[state, action])

    return ratios


def tabular(world: World, pi_e: Floats, pi_b: Floats) -> Problem:
    """A finite world with its two policies."""

    def draw(n: int, rng: np.random.Generator, *, propensities: bool) -> op.Trajectories:
        return world.simulate(pi_b, n, rng, propensities=propensities)

    ratios = _ratios_of(world.visits(pi_e), world.visits(pi_b), pi_e, pi_b)
    return Problem(draw, lambda states: pi_e[np.asarray(states)], lambda: world.value(pi_e), pi_e, ratios)


def _lake(name: str, horizon: int) -> Problem:
    world = from_gymnasium("FrozenLake", horizon, map_name=name, is_slippery=True)
    q = world.optimal()
    return tabular(world, greedy(q, 0.2), greedy(q, 0.5))


def _taxi() -> Problem:
    world = from_gymnasium("Taxi", 50)
    q = world.optimal()
    return tabular(world, greedy(q, 0.2), greedy(q, 0.4))


def _cliff() -> Problem:
    world = from_gymnasium("CliffWalking", 100)
    q = world.optimal()
    return tabular(world, greedy(q, 0.1), greedy(q, 0.3))


def _clinic(temperature: float) -> Problem:
    world = clinic()
    q = world.optimal()
    return tabular(world, softmax(q, temperature), softmax(q, 0.5))


def _published_cliff() -> Problem:
    """Kallus and Uehara 2020: the cliff of the tabular study, 0.9 greedy from 0.7 greedy, 60 steps."""
    toy = cliff_walking()

    def draw(n: int, rng: np.random.Generator, *, propensities: bool) -> op.Trajectories:
        return toy.simulate(n, rng, propensities=propensities)

    visits_e, visits_b = (toy.world.marginals(pi).sum(axis=2) for pi in (toy.pi_e, toy.pi_b))
    ratios = _ratios_of(visits_e, visits_b, toy.pi_e, toy.pi_b)
    return Problem(draw, toy.target, toy.value, toy.pi_e, ratios)


def _chain(horizon: int) -> Problem:
    chain = Chain(horizon=horizon)

    def draw(n: int, rng: np.random.Generator, *, propensities: bool) -> op.Trajectories:
        log = chain.simulate(n, rng)
        if propensities:
            return log
        return op.Trajectories.from_arrays(
            np.asarray(log.context.table).reshape(n, horizon, 1),
            log.action.reshape(n, horizon),
            log.reward.reshape(n, horizon),
        )

    return Problem(draw, chain.target, chain.value, ratios=chain.ratios)


def _cart(logging_slope: float = 1.0, target_slope: float = 1.5) -> Problem:
    cart = Cart(logging_slope=logging_slope, target_slope=target_slope)
    return Problem(cart.simulate, cart.target, cart.value)


WORLDS: dict[str, tuple[Callable[[], Problem], int]] = {
    "FrozenLake 4x4": (lambda: _lake("4x4", 100), 1_000),
    "FrozenLake 8x8": (lambda: _lake("8x8", 200), 1_000),
    "Taxi, 50 steps": (_taxi, 1_000),
    "CliffWalking": (_cliff, 1_000),
    "published cliff": (_published_cliff, 1_000),
    "clinic, near target": (lambda: _clinic(0.3), 1_000),
    "clinic, far target": (lambda: _clinic(0.08), 1_000),
    "clinic, near target, 5,000": (lambda: _clinic(0.3), 5_000),
    "clinic, far target, 5,000": (lambda: _clinic(0.08), 5_000),
    "chain, 10 steps": (lambda: _chain(10), 1_000),
    "chain, 50 steps": (lambda: _chain(50), 1_000),
    "CartPole": (_cart, 300),
}
# Run when they are named: carts whose logs support looking back less.
BESIDE: dict[str, tuple[Callable[[], Problem], int]] = {
    "wilder CartPole log": (lambda: _cart(logging_slope=0.5, target_slope=1.0), 300),
    "steeper CartPole target": (lambda: _cart(target_slope=2.5), 300),
    "flatter CartPole target": (lambda: _cart(target_slope=0.4), 300),
}
EVERY = WORLDS | BESIDE


@lru_cache(maxsize=16)
def problem(name: str) -> Problem:
    """The problem of a world."""
    return EVERY[name][0]()
