"""The evaluation policy: greedy in a Q-network learned from the pixels by double DQN.

As in the tutorial the paper follows: replay of 10,000 transitions, minibatches of 128, γ = 0.999,
ε from 0.9 to 0.05 with decay exp(−steps/200), Huber loss. Otherwise: many environments step
together, Adam replaces RMSprop, and the target uses the online network's choice (double DQN).
Which checkpoint becomes the evaluation policy is decided by a rule on its value, see `Rule`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import ModelError
from offpolicy_studies.cartpole import dynamics, environment
from offpolicy_studies.cartpole.adam import Adam
from offpolicy_studies.cartpole.ensemble import EXTRAS, Ensemble, forward

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPLAY = 10_000
BATCH = 128
DISCOUNT = 0.999
CHUNK = 8192


@dataclass(frozen=True)
class Rule:
    """Which checkpoint of the learner is the evaluation policy.

    The first one, looked at every ``every`` updates, whose mean length over ``episodes`` greedy
    episodes lies in [low, high]; when none does, an error, or the closest one if ``closest``. With
    ``apart``, the value must also differ by that much from the behavior policy's.
    """

    low: float
    high: float
    every: int = 25
    episodes: int = 500
    updates: int = 4000
    environments: int = 64
    rate: float = 5e-4
    target_every: int = 100
    closest: bool = False
    #: Smallest difference between its value and that of its ε-greedy version, the log's.
    apart: float = 0.0
    apart_epsilon: float = 0.10
    apart_episodes: int = 2000


@dataclass(frozen=True)
class Learned:
    """A checkpoint: its network, the update it was taken at, and its value when chosen."""

    net: Ensemble
    update: int
    value: float


def greedy(net: Ensemble) -> Callable[[Any], Any]:
    """Return the function from states (n, 3, 40, 90) to greedy actions (n,)."""
    import torch

    @torch.no_grad()
    def act(states: Any) -> Any:
        parts = []
        for piece in states.split(CHUNK):
            extras = piece.new_zeros(1, 1, len(piece), EXTRAS)
            parts.append(forward(net, piece[None], extras, train=False)[0, 0].argmax(-1))
        return torch.cat(parts) if parts else states.new_zeros(0, dtype=torch.long)

    return act  # type: ignore[no-any-return]


def learn(
    seed: int, rules: list[Rule], *, cap: int, period: int, device: str,
    report: Callable[[int, float], None] = lambda _, __: None,
) -> list[Learned]:  # fmt: skip
    """Train one Q-network and return the first checkpoint that satisfies each rule.

    The rules share the learner (that of the first rule) and differ in the wanted value. ``report`` is told
    the update and the greedy value of every checkpoint.
    """
    import torch

    rule = rules[0]
    rng = np.random.default_rng([seed, 1])
    play = _Playground(rule.environments, rng, cap, period, device)
    net = Ensemble.create([int(rng.integers(2**31))], 1, device)
    target_flat, target_running = net.flat.clone(), net.running.clone()
    adam = Adam.create(net.flat, torch.full((1,), rule.rate))
    test = environment.draw_start(np.random.default_rng([seed, 2]), rule.episodes, cap)
    found: list[Learned | None] = [None] * len(rules)
    nearest: list[Learned | None] = [None] * len(rules)
    act = greedy(net)
    memory = _Replay(device, net.dtype)
    for update in range(1, rule.updates + 1):
        epsilon = 0.05 + 0.85 * math.exp(-update / 200)
        memory.add(*play.step(act, epsilon))
        if memory.filled < BATCH:
            continue
        grad = _gradient(net, target_flat, target_running, memory.sample(rng))
        adam.update(net.flat, grad.clamp(-1, 1))
        if update % rule.target_every == 0:
            target_flat.copy_(net.flat)
            target_running.copy_(net.running)
        due = [k for k, wanted in enumerate(rules) if update % wanted.every == 0]
        if not due:
            continue
        tried = environment.roll_out(act, test, epsilon=0, cap=cap, period=period, device=device)
        value = float(tried.lengths.double().mean())
        report(update, value)
        for k in due:
            wanted, here = rules[k], Learned(_copy(net), update, value)
            if (
                found[k] is None
                and wanted.low <= value <= wanted.high
                and _apart(act, wanted, seed, cap, period, device) >= wanted.apart
            ):
                found[k] = here
            near = nearest[k]
            if near is None or _miss(value, wanted) < _miss(near.value, wanted):
                nearest[k] = here
        if all(found):
            break
    return [_settled(*each) for each in zip(found, nearest, rules, strict=True)]


def _apart(act: Any, rule: Rule, seed: int, cap: int, period: int, device: str) -> float:
    """Return how far the policy's value is from that of its ε-greedy version, on the same starts."""
    if rule.apart <= 0:
        return 0.0
    draws = environment.draw_start(np.random.default_rng([seed, 3]), rule.apart_episodes, cap)
    values = [
        environment.roll_out(act, draws, epsilon=e, cap=cap, period=period, device=device).lengths.double().mean()
        for e in (0.0, rule.apart_epsilon)
    ]
    return float((values[0] - values[1]).abs())


def _settled(found: Learned | None, nearest: Learned | None, rule: Rule) -> Learned:
    if found is not None:
        return found
    if rule.closest and nearest is not None:
        return nearest
    best = "none" if nearest is None else f"{nearest.value:.1f} at update {nearest.update}"
    raise ModelError(
        f"no checkpoint within {rule.updates} updates has a greedy value in "
        f"[{rule.low:g}, {rule.high:g}] (closest: {best}). Use another seed or more updates."
    )


def _miss(value: float, rule: Rule) -> float:
    return max(rule.low - value, value - rule.high, 0.0)


def _copy(net: Ensemble) -> Ensemble:
    return Ensemble(net.flat.clone(), net.running.clone(), net.networks, net.dtype)


def _gradient(net: Ensemble, target_flat: Any, target_running: Any, batch: tuple[Any, ...]) -> Any:
    """Return the gradient of the Huber loss of double DQN's one-step error."""
    import torch
    from torch.nn import functional

    state, action, after, done = batch
    extras = torch.zeros(1, 1, BATCH, EXTRAS, device=action.device)
    with torch.no_grad():
        choice = forward(net, after[None], extras, train=False)[0, 0].argmax(-1, keepdim=True)
        later = forward(net, after[None], extras, train=False, flat=target_flat, running=target_running)[0, 0].gather(
            1, choice
        )[:, 0]
        wanted = 1 + DISCOUNT * torch.where(done, 0.0, later)
    flat = net.flat.detach().requires_grad_()
    value = forward(net, state[None], extras, train=True, flat=flat)[0, 0]
    loss = functional.smooth_l1_loss(value.gather(1, action.long()[:, None])[:, 0], wanted)
    return torch.autograd.grad(loss, flat)[0]


class _Replay:
    """The last 10,000 transitions, on the device."""

    def __init__(self, device: str, dtype: Any) -> None:
        import torch

        shape = (REPLAY, 3, 40, 90)
        self.columns = [
            torch.empty(shape, dtype=dtype, device=device),
            torch.empty(REPLAY, dtype=torch.int8, device=device),
            torch.empty(shape, dtype=dtype, device=device),
            torch.empty(REPLAY, dtype=torch.bool, device=device),
        ]
        self.device, self.at, self.filled = device, 0, 0

    def add(self, *values: Any) -> None:
        import torch

        n = len(values[0])
        rows = (self.at + torch.arange(n, device=self.device)) % REPLAY
        for column, value in zip(self.columns, values, strict=True):
            column[rows] = value.to(column.dtype)
        self.at, self.filled = (self.at + n) % REPLAY, min(REPLAY, self.filled + n)

    def sample(self, rng: np.random.Generator) -> tuple[Any, ...]:
        import torch

        rows = torch.tensor(rng.integers(self.filled, size=BATCH), device=self.device)
        return tuple(column[rows] for column in self.columns)


class _Playground:
    """Environments that play on, each starting a new episode when its last one ends."""

    def __init__(self, n: int, rng: np.random.Generator, cap: int, period: int, device: str) -> None:
        import torch

        self.n, self.rng, self.cap, self.period, self.device = n, rng, cap, period, device
        self.physics = torch.zeros(n, 4, dtype=torch.float64, device=device)
        self.pattern = torch.zeros(n, 40, 90, dtype=torch.bool, device=device)
        self.time = torch.zeros(n, dtype=torch.long, device=device)
        self.patch = torch.zeros(n, 3, 40, 90, device=device)
        self.state = torch.zeros(n, 3, 40, 90, device=device)
        self._restart(torch.ones(n, dtype=torch.bool, device=device))

    def _restart(self, ended: Any) -> None:
        import torch

        rows = ended.nonzero()[:, 0]
        if not len(rows):
            return
        fresh = environment.draw_start(self.rng, len(rows), 1)
        self.physics[rows] = torch.tensor(fresh.physics, device=self.device)
        self.pattern[rows] = torch.tensor(fresh.pattern, device=self.device)
        self.time[rows] = 0
        self.patch[rows] = environment.observe(self.physics[rows], self.pattern[rows], self.time[rows], self.period)
        self.state[rows] = 0

    def step(self, act: Callable[[Any], Any], epsilon: float) -> tuple[Any, Any, Any, Any]:
        """Take one ε-greedy step everywhere; return (state, action, next state, ended by failure)."""
        import torch

        explore = torch.tensor(self.rng.random(self.n) < epsilon, device=self.device)
        coin = torch.tensor(self.rng.integers(0, 2, self.n), device=self.device)
        state = self.state.clone()
        action = torch.where(explore, coin, act(state))
        self.physics = dynamics.step(self.physics, action)
        self.time = self.time + 1
        patch = environment.observe(self.physics, self.pattern, self.time, self.period)
        self.state = patch - self.patch
        self.patch = patch
        after, done = self.state.clone(), dynamics.failed(self.physics)
        self._restart(done | (self.time >= self.cap))
        return state, action, after, done


def save(learned: Learned, path: Path) -> None:
    """Write a checkpoint as plain tensors: safetensors where installed, else torch's own format."""
    import torch

    meta = torch.tensor([learned.update, learned.value], dtype=torch.float64)
    tensors = {
        "flat": learned.net.flat.cpu().contiguous(),
        "running": learned.net.running.cpu().contiguous(),
        "meta": meta,
    }
    partial = path.with_suffix(".partial")
    try:
        from safetensors.torch import save_file
    except ImportError:
        torch.save(tensors, partial)
    else:
        save_file(tensors, str(partial))
    partial.replace(path)


def load(path: Path, device: str) -> Learned:
    """Read a checkpoint written by `save`; nothing is unpickled."""
    import torch

    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        tensors = torch.load(path, weights_only=True)
    else:
        try:
            tensors = load_file(str(path))
        except SafetensorError:
            tensors = torch.load(path, weights_only=True)
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    net = Ensemble(tensors["flat"].to(device), tensors["running"].to(device), 1, dtype)
    update, value = tensors["meta"].tolist()
    return Learned(net, int(update), value)
