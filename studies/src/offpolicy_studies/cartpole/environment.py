"""Episodes on pixels, thousands at a time.

The state at step t is the noisy patch minus the one before it; at t = 0 it is all zeros. An episode
ends when the cart fails or at the cap; every step earns 1, the failing one included. Episodes that
have ended leave the batch, so a step costs what its living episodes cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import dynamics, noise, picture

if TYPE_CHECKING:
    from collections.abc import Callable

    Policy = Callable[[Any], Any]


@dataclass(frozen=True)
class Draws:
    """The randomness of n episodes, made on the CPU so that it is the same on every device.

    Attributes
    ----------
    physics : (n, 4) array
        First states, uniform on ±0.05.
    pattern : (n, 40, 90) array
        First noise patterns.
    explore : (n, cap) array
        Uniforms that decide about exploration; the action is random where they are below ε.
    coin : (n, cap) array
        The random actions.
    """

    physics: np.ndarray
    pattern: np.ndarray
    explore: np.ndarray
    coin: np.ndarray


def draw_start(rng: np.random.Generator, n: int, cap: int) -> Draws:
    """Draw everything random about ``n`` episodes."""
    width = dynamics.RESET_WIDTH
    return Draws(
        physics=rng.uniform(-width, width, (n, 4)),
        pattern=noise.patterns(rng, n),
        explore=rng.random((n, cap), dtype=np.float32),
        coin=rng.integers(0, 2, (n, cap), dtype=np.int8),
    )


def joined(draws: list[Draws]) -> Draws:
    """Put the draws of several data sets behind each other."""
    fields = ("physics", "pattern", "explore", "coin")
    return Draws(**{name: np.concatenate([getattr(d, name) for d in draws]) for name in fields})


@dataclass(frozen=True)
class Episodes:
    """What n episodes logged, steps of all episodes one after the other.

    Attributes
    ----------
    lengths : (n,) tensor
        Steps per episode; also its total reward.
    actions, greedy : (steps,) tensor
        The action taken and the one that the evaluation policy would take, int8.
    physics : (steps, 4) tensor
        The hidden state before each step.
    images : (steps, 3, 40, 90) tensor or None
        The states.
    """

    lengths: Any
    actions: Any
    greedy: Any
    physics: Any
    images: Any


def observe(physics: Any, pattern: Any, time: Any, period: int) -> Any:
    """Draw the noisy patches of carts (n, 4) at steps ``time`` (n,)."""
    clean = picture.draw(physics[:, 0], physics[:, 2])
    return noise.black_out(clean, pattern, noise.shift(time, period))


def roll_out(
    policy: Policy, draws: Draws, *, epsilon: float, cap: int, period: int, device: str,
    image_dtype: Any = None,
) -> Episodes:  # fmt: skip
    """Run the ε-greedy version of ``policy`` from the start of n episodes to their end.

    Parameters
    ----------
    policy : callable
        Gives the greedy actions (n,) for states (n, 3, 40, 90).
    draws : Draws
        The episodes' randomness.
    epsilon : float
        Probability of a uniformly random action; 0 runs the policy itself.
    cap : int
        The last step is cap − 1.
    period : int
        Steps between two moves of the noise.
    device : str
        Where to compute.
    image_dtype : torch.dtype, optional
        Keep the states in this type; not kept unless given.
    """
    import torch

    n = len(draws.physics)
    physics = torch.tensor(draws.physics, device=device)
    pattern = torch.tensor(draws.pattern, device=device)
    explore = torch.tensor(draws.explore, device=device)
    coin = torch.tensor(draws.coin, device=device)
    alive = torch.arange(n, device=device)
    lengths = torch.zeros(n, dtype=torch.long, device=device)
    before: Any = None
    log: list[tuple[Any, ...]] = []
    for t in range(cap):
        time = torch.full_like(alive, t)
        patch = observe(physics, pattern[alive], time, period)
        state = torch.zeros_like(patch) if before is None else patch - before
        greedy = policy(state).to(torch.int8)
        action = torch.where(explore[alive, t] < epsilon, coin[alive, t], greedy)
        kept = None if image_dtype is None else state.to(image_dtype)
        log.append((alive, action, greedy, physics, kept))
        lengths[alive] += 1
        physics = dynamics.step(physics, action)
        go_on = ~dynamics.failed(physics)
        alive, physics, before = alive[go_on], physics[go_on], patch[go_on]
        if not len(alive):
            break
    return _by_episode(lengths, log)


def _by_episode(lengths: Any, log: list[tuple[Any, ...]]) -> Episodes:
    """Reorder a log kept step by step so that an episode's steps stand together."""
    import torch

    first = torch.cumsum(lengths, 0) - lengths
    total = int(lengths.sum())
    columns: list[Any] = [None] * 4
    for t, (alive, *values) in enumerate(log):
        rows = first[alive] + t
        for k, value in enumerate(values):
            if value is None:
                continue
            if columns[k] is None:
                columns[k] = torch.empty((total, *value.shape[1:]), dtype=value.dtype, device=value.device)
            columns[k][rows] = value
        log[t] = ()  # the pictures of a step are freed as soon as they are copied
    return Episodes(lengths, *columns)


def values_from(policy: Policy, physics: Any, pattern: Any, time: Any, action: Any, *, cap: int, period: int) -> Any:
    """Return q_t(s, a) by simulation: take ``action``, then follow the policy to the end (n,).

    Dynamics and policy are deterministic, so one roll-out from the hidden state is exact.
    """
    import torch

    value = torch.zeros(len(time), device=time.device)
    alive = torch.arange(len(time), device=time.device)
    patch = observe(physics, pattern, time, period)
    while len(alive):
        value[alive] += 1
        physics = dynamics.step(physics, action)
        time = time + 1
        go_on = ~dynamics.failed(physics) & (time < cap)
        alive, physics, time, before = alive[go_on], physics[go_on], time[go_on], patch[go_on]
        if len(alive):
            patch = observe(physics, pattern[alive], time, period)
            action = policy(patch - before)
    return value
