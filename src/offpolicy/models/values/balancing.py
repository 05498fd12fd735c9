"""Representation-balancing MDP: a learned model whose features look alike under both policies.

Liu, Gottesman, Raghu, Komorowski, Faisal, Doshi-Velez and Brunskill 2018 (the paper's group (iii)). A shared
representation φ(s) feeds a reward, a transition and an ending head for each action. The loss is

    Σ_i (1 + w_i) ℓ_i  +  α MMD²(φ under logging weights, φ under weights ρ_{t−1}),

where ℓ is the one-step error, w the importance weight ρ_t normalized at each t, and MMD the distance of the
mean representations. For stochastic targets ρ takes the place of "the logged actions so far are the
target's", which it equals, up to scale, for deterministic ones. q follows by simulating the model under π_e.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.models.values.model_based import Simulated, state_matrix
from offpolicy.models.values.torch import Training, import_torch
from offpolicy.models.values.values import ENDED, UNKNOWN

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.models.values.values import FittedValues, ValueData


@checks_arguments
@dataclass(frozen=True, eq=False)
class BalancedModel:
    """Representation-balancing model of the environment, as a value model.

    Parameters
    ----------
    width : int
        Units of each layer of the representation.
    balance : float
        α; 0 is a plain learned model.
    draws : int
        Simulated roll-outs for each step and action.
    training : Training
        Optimization and early stopping.

    Examples
    --------
    >>> BalancedModel(balance=0.1).width
    32
    """

    width: int = 32
    balance: float = 0.01
    draws: int = 5
    training: Training = field(default_factory=Training)

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Fit the model on the training steps."""
        return Simulated(data, self.fit_dynamics(data, seed), self.draws, seed)

    def fit_dynamics(self, data: ValueData, seed: int) -> Any:
        """Fit representation and heads."""
        torch = import_torch("BalancedModel")
        states = state_matrix(data)
        here = states[data.log.context.positions(data.rows)]
        center, spread = here.mean(axis=0), here.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        onward = data.following >= 0
        moved = np.zeros_like(here)
        moved[onward] = states[data.log.context.positions(data.following[onward])] - here[onward]
        pace = (
            np.where(moved[onward].std(axis=0) > 0, moved[onward].std(axis=0), 1.0)
            if (onward.any())
            else np.ones(here.shape[1])
        )
        earned = data.reward
        gain = (float(earned.mean()), float(earned.std()) or 1.0)
        weight, before = step_weights(data)
        place = self.training.place()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = _network(torch, here.shape[1], len(data.log.actions), self.width).to(place)

            def tensor(values: Array) -> Any:
                return torch.as_tensor(values, dtype=torch.float32, device=place)

            X, R = tensor((here - center) / scale), tensor((earned - gain[0]) / gain[1])
            M, W, B = tensor(moved / pace), tensor(1 + weight), tensor(before)
            known, over = tensor(data.following != UNKNOWN), tensor(data.following == ENDED)
            alive = tensor(onward)
            A = torch.as_tensor(data.action, device=place)

            def loss(at: Array) -> Any:
                i = torch.as_tensor(at, device=place)
                z, reward, change, logit = network(X[i], A[i])
                error = (reward - R[i]) ** 2 + alive[i] * ((change - M[i]) ** 2).mean(dim=1)
                ending = torch.nn.functional.binary_cross_entropy_with_logits(logit, over[i], reduction="none")
                total = (W[i] * (error + known[i] * ending)).mean()
                share = B[i] / B[i].sum().clamp_min(1e-12)
                gap = z.mean(dim=0) - (share[:, None] * z).sum(dim=0)
                return total + self.balance * (gap**2).sum()

            unit = data.log.layout.unit[data.rows]
            self.training.minimize(network, loss, len(earned), self.training.held_out(unit, seed), seed)
        ends = bool((data.following == ENDED).any())
        return _Balanced(network, center, scale, pace, gain, place, ends)


def step_weights(data: ValueData) -> tuple[Floats, Floats]:
    """(m,) ρ_t and ρ_{t−1} of the training steps, each with mean 1 at every t."""
    with np.errstate(divide="ignore"):
        logs = np.log(data.ratios())
    log_rho = np.zeros(len(logs))
    log_before = np.zeros(len(logs))
    order = list(data.backward())[::-1]
    for t, at in order:
        if t > 0:
            log_before[at] = log_rho[data.position[data.rows[at] - 1]]
        log_rho[at] = log_before[at] + logs[at]
    out = []
    for values in (log_rho, log_before):
        scaled = np.zeros(len(values))
        for _, at in order:
            if len(at) and np.isfinite(values[at]).any():
                raw = np.exp(values[at] - values[at].max())
                scaled[at] = raw / raw.mean()
        out.append(scaled)
    return out[0], out[1]


def _network(torch: Any, p: int, k: int, width: int) -> Any:
    class Heads(torch.nn.Module):
        """φ, then for each action a reward, a change of state and a logit of ending."""

        def __init__(self) -> None:
            super().__init__()
            self.phi = torch.nn.Sequential(
                torch.nn.Linear(p, width), torch.nn.ELU(), torch.nn.Linear(width, width), torch.nn.ELU()
            )
            self.out = torch.nn.Linear(width + p, k * (p + 2))

        def forward(self, x: Any, action: Any) -> tuple[Any, Any, Any, Any]:
            z = self.phi(x)
            table = self.out(torch.cat([z, x], dim=1)).reshape(len(x), k, p + 2)
            row = table[torch.arange(len(x), device=x.device), action]
            return z, row[:, 0], row[:, 2:], row[:, 1]

    return Heads()


@dataclass(frozen=True, eq=False)
class _Balanced:
    network: Any
    center: Floats
    scale: Floats
    pace: Floats
    gain: tuple[float, float]
    place: str
    ends: bool

    def step(self, states: Floats, codes: Ints, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        torch = import_torch("BalancedModel")
        X = torch.as_tensor((states - self.center) / self.scale, dtype=torch.float32, device=self.place)
        with torch.no_grad():
            _, reward, change, logit = self.network(X, torch.as_tensor(codes, device=self.place))
            over = torch.sigmoid(logit).double().cpu().numpy()
        mean = self.gain[0] + self.gain[1] * reward.double().cpu().numpy()
        following = states + self.pace * change.double().cpu().numpy()
        return mean, following, over if self.ends else np.zeros(len(codes))
