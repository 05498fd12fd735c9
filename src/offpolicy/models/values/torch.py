"""Torch models: q by fitted Q iteration with any ``nn.Module``, and π_b by cross-entropy.

Each round regresses R_t + γ v(S_{t+1}, t + 1) of the network before on (S_t, A_t, t), starting from its
weights; T + 1 rounds carry a reward through the whole horizon. A part of the training episodes is held out:
it stops each round early, and is never a part of the fold that is scored.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import or_ones
from offpolicy.errors import ModelError, UsageError, check_choice, missing_dependency
from offpolicy.models.behavior.behavior import share_of_unseen
from offpolicy.models.values.values import next_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.models.behavior.behavior import BehaviorData, FittedBehavior
    from offpolicy.models.values.values import FittedValues, ValueData


def import_torch(purpose: str) -> Any:
    """The package, or a sentence about where to get it."""
    try:
        import torch
    except ImportError as error:
        raise missing_dependency("torch", "torch", purpose) from error
    return torch


@checks_arguments
@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Parameters
    ----------
    epochs : int
        Most passes over the training part in one round.
    batch_size : int
    learning_rate : float
    validation : float
        Share of the training episodes that decides when to stop.
    patience : int
        Passes without improvement there before stopping; the best weights are kept.
    device : str, optional
        Default: a GPU when there is one.
    """

    epochs: int = 50
    batch_size: int = 256
    learning_rate: float = 1e-3
    validation: float = 0.2
    patience: int = 5
    device: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise UsageError(f"validation= must be in the range [0, 1). Got {self.validation!r} instead.")

    def place(self) -> str:
        """The device to use."""
        if self.device is not None:
            return self.device
        return "cuda" if import_torch("A torch model").cuda.is_available() else "cpu"

    def held_out(self, unit: Ints, seed: int) -> Bools:
        """(m,) steps of the validation episodes."""
        present = np.unique(unit)
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(present)[: round(self.validation * len(present))]
        return np.asarray(np.isin(unit, chosen))

    def minimize(self, network: Any, loss: Callable[[Any], Any], size: int, held: Bools, seed: int) -> None:
        """Adam on mini-batches of rows; ``loss(rows)`` is their mean loss. Early stopping on ``held``."""
        torch = import_torch("A torch model")
        rng = np.random.default_rng(seed)
        train, check = np.flatnonzero(~held[:size]), np.flatnonzero(held[:size])
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        best, best_state, waited = np.inf, None, 0
        for _ in range(self.epochs):
            network.train()
            order = rng.permutation(train)
            for start in range(0, len(order), self.batch_size):
                optimizer.zero_grad()
                value = loss(order[start : start + self.batch_size])
                value.backward()
                optimizer.step()
            if len(check) == 0:
                continue
            network.eval()
            with torch.no_grad():
                score = float(loss(check))
            if score < best - 1e-9:
                best, waited = score, 0
                best_state = copy.deepcopy(network.state_dict())
            else:
                waited += 1
                if waited >= self.patience:
                    break
        if best_state is not None:
            network.load_state_dict(best_state)
        network.eval()


@checks_arguments
@dataclass(frozen=True, eq=False)
class TorchValue:
    """Fitted Q evaluation with a torch network.

    Parameters
    ----------
    module : nn.Module
        Maps a batch of states (float tensors of the states' shape, plus a last column t / T when
        ``time="feature"``) to K values. It is copied for every fit; yours is left as it is.
    time : {"feature", "none"}
        Whether the network sees t. "none" is for images, or for discounted problems.
    rounds : int, optional
        Regressions; default: one for each step of the horizon.
    training : Training
        Optimization and early stopping.

    Examples
    --------
    >>> import torch
    >>> TorchValue(torch.nn.Linear(5, 2)).time
    'feature'
    """

    module: Any
    time: Literal["feature", "none"] = "feature"
    rounds: int | None = None
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        check_choice("time", self.time, "feature", "none")

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Regress round after round."""
        torch = import_torch("TorchValue")
        place = self.training.place()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = copy.deepcopy(self.module).to(place).float()
            fit = _TorchValues(data, network, self.time == "feature", place, 0.0, 1.0)
            return self._rounds(fit, data, seed)

    def _rounds(self, fit: _TorchValues, data: ValueData, seed: int) -> FittedValues:
        torch = import_torch("TorchValue")
        rounds = data.horizon if self.rounds is None else self.rounds
        reward = data.reward
        unit = data.log.layout.unit[data.rows]
        held = self.training.held_out(unit, seed)
        inputs = fit.inputs(data.rows)
        action = torch.as_tensor(data.action, device=fit.place)
        weight = np.ones(len(reward)) if data.weight is None else data.weight / data.weight.mean()
        weight_t = torch.as_tensor(weight, dtype=torch.float32, device=fit.place)
        network = fit.network
        v = np.zeros(len(data.log.action))
        for number in range(rounds):
            y = reward + data.discount * next_values(data.following, v)
            # The scale of targets grows with the rounds; the network always sees units of 1.
            center, scale = float(y.mean()), float(y.std()) or 1.0
            fit = _TorchValues(data, network, fit.timed, fit.place, center, scale)
            target = torch.as_tensor((y - center) / scale, dtype=torch.float32, device=fit.place)

            def loss(at: Array, target: Any = target) -> Any:
                index = torch.as_tensor(at, device=action.device)
                out = network(inputs[index])
                chosen = out.gather(1, action[index][:, None])[:, 0]
                return (weight_t[index] * (chosen - target[index]) ** 2).mean()

            self.training.minimize(network, loss, len(reward), held, seed + number)
            v[data.rows] = fit.predict(data.rows)[1]
        return fit


@dataclass(frozen=True, eq=False)
class _TorchValues:
    data: ValueData
    network: Any
    timed: bool
    place: str
    center: float
    scale: float

    def inputs(self, rows: Ints) -> Any:
        """States as a float tensor, with t when the network sees it."""
        torch = import_torch("TorchValue")
        log = self.data.log
        states = self.data.numbers[log.context.positions(rows)]
        tensor = torch.as_tensor(np.ascontiguousarray(states), dtype=torch.float32)
        if self.timed:
            if tensor.ndim != 2:
                raise ModelError(f"time='feature' needs flat states. Got shape {tuple(tensor.shape)}; use time='none'.")
            t = torch.as_tensor(log.layout.step[rows] / max(self.data.horizon - 1, 1))
            tensor = torch.cat([tensor, t.to(torch.float32)[:, None]], dim=1)
        return tensor.to(self.place)

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        torch = import_torch("TorchValue")
        k = len(self.data.log.actions)
        q, v = np.empty(len(rows)), np.empty(len(rows))
        self.network.eval()
        for start in range(0, len(rows), 8192):
            at = np.arange(start, min(len(rows), start + 8192))
            with torch.no_grad():
                out = self.network(self.inputs(rows[at])).double().cpu().numpy()
            if out.shape != (len(at), k):
                raise ModelError(f"the network returned {out.shape} for {len(at)} states and {k} actions.")
            table = self.center + self.scale * out
            q[at], v[at] = self.data.policy.read_off(table, rows[at])
        return q, v


@checks_arguments
@dataclass(frozen=True, eq=False)
class TorchBehavior:
    """π_b by a torch network whose K outputs are logits.

    Parameters
    ----------
    module : nn.Module
        Maps a batch of states, in their own shape, to K logits. Copied for every fit.
    training : Training
    """

    module: Any
    training: Training = field(default_factory=Training)
    wants_native = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Cross-entropy with early stopping on a part of the training rows: of whole episodes, where there are any."""
        torch = import_torch("TorchBehavior")
        place = self.training.place()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = copy.deepcopy(self.module).to(place).float()
            fit = _TorchPolicy(network, place, data.n_actions, share_of_unseen(data))
            inputs, action = fit.inputs(data.X), torch.as_tensor(data.action, device=place)
            mass = or_ones(data.weight, len(data.action))
            weight = torch.as_tensor(mass / mass.mean(), dtype=torch.float32, device=place)

            def loss(at: Array) -> Any:
                index = torch.as_tensor(at, device=place)
                each = torch.nn.functional.cross_entropy(network(inputs[index]), action[index], reduction="none")
                return (weight[index] * each).mean()

            units = np.arange(len(data.action)) if data.unit is None else data.unit
            held = self.training.held_out(units, seed)
            self.training.minimize(network, loss, len(data.action), held, seed)
        return fit


@dataclass(frozen=True, eq=False)
class _TorchPolicy:
    network: Any
    place: str
    n_actions: int
    floor: float

    def inputs(self, states: Any) -> Any:
        torch = import_torch("TorchBehavior")
        array = np.asarray(states)
        array = array[:, None] if array.ndim == 1 else array
        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.float32, device=self.place)

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        torch = import_torch("TorchBehavior")
        with torch.no_grad():
            logits = self.network(self.inputs(X)).double()
        return np.asarray(torch.softmax(logits, dim=1).cpu().numpy())
