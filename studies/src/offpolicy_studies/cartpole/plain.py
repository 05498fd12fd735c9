"""Networks by the letter of the paper, for many data sets at once.

q is fitted by one-step fitted Q evaluation: the squared error between q(S_t, A_t) and

    1 + q⁻(S_{t+1}, π_e(S_{t+1})),     1 at the last step of an episode,

where q⁻ is a copy of the network taken every few steps. π_b is fitted by log-loss, once on the state and
once on the state and π_e(·|s). All episodes of a split train, for a fixed number of steps, and the last
weights are used as they are. The three networks of a split share their minibatches; a network that has had
its steps leaves the ensemble. One training step is one CUDA graph, as in `training`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import design, training
from offpolicy_studies.cartpole.adam import Adam
from offpolicy_studies.cartpole.ensemble import EXTRAS, Ensemble, forward

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy_studies.cartpole.environment import Episodes
    from offpolicy_studies.cartpole.settings import Plain, Settings

KINDS = ("q", "behavior", "behavior_pi")


@dataclass
class PlainFit:
    """What the networks of each split say about the steps that it holds out.

    Attributes
    ----------
    rows : list of (r,) arrays
        For each split the steps (within the block) predicted.
    q : dict of lists of (r, 2) arrays
        By number of training steps: values of both actions.
    odds : dict of lists of (r,) arrays
        Log-odds of action 1 by the networks ``behavior`` and ``behavior_pi``.
    frames : int
        Frames that went forward and backward through a network.
    """

    rows: list[np.ndarray]
    q: dict[int, list[np.ndarray]] = field(default_factory=dict)
    odds: dict[str, list[np.ndarray]] = field(default_factory=dict)
    frames: int = 0


class PlainTrainer:
    """Static buffers of one block and the step that trains every network once."""

    def __init__(
        self, episodes: Episodes, steps: design.Steps, groups: Sequence[design.Split],
        seeds: np.ndarray, settings: Settings, plain: Plain, per_set: int,
    ) -> None:  # fmt: skip
        import torch

        self.settings, self.plain = settings, plain
        self.kinds: tuple[str, ...] = KINDS
        self.images = episodes.images
        self.device = self.images.device
        self.action, self.greedy = episodes.actions.long(), episodes.greedy.long()
        total = len(steps.time)

        def rows(split: design.Split, chosen: np.ndarray) -> np.ndarray:
            return design.rows_of(steps, split, chosen, per_set)

        self.train_rows = [rows(g, np.sort(np.concatenate([g.fit, g.validation]))) for g in groups]
        self.held_out = [rows(g, g.held_out) for g in groups]
        last = np.zeros(total, dtype=bool)
        last[design.episode_ends(steps) - 1] = True
        self.last = torch.as_tensor(last).to(self.device)
        self.following = torch.as_tensor(np.minimum(np.arange(total) + 1, total - 1)).to(self.device)
        self.net = Ensemble.create(list(seeds.reshape(-1)), len(KINDS), str(self.device))
        rates = {"q": settings.q_rate}
        rate = torch.tensor([rates.get(k, settings.behavior_rate) for k in KINDS])
        self.adam = Adam.create(self.net.flat, rate.repeat(len(groups)))
        self.counter = torch.zeros(1, dtype=torch.long, device=self.device)
        self.copy = self._q_alone()

    def _q_alone(self) -> Ensemble:
        """Return a copy of the q networks, for targets."""
        many = len(self.kinds)
        return Ensemble(self.net.flat[::many].clone(), self.net.running[:, ::many].clone(), 1, self.net.dtype)

    def refresh(self) -> None:
        """Let the targets be made by q as it is now."""
        many = len(self.kinds)
        self.copy.flat.copy_(self.net.flat[::many])
        self.copy.running.copy_(self.net.running[:, ::many])

    def keep(self, kinds: tuple[str, ...]) -> None:
        """Go on with some of the networks, q among them."""
        if kinds == self.kinds:
            return
        import torch

        many = len(self.kinds)
        groups = len(self.net.flat) // many
        place = torch.tensor([self.kinds.index(k) for k in kinds], device=self.device)
        at = (torch.arange(groups, device=self.device)[:, None] * many + place).reshape(-1)
        self.net = Ensemble(self.net.flat[at].clone(), self.net.running[:, at].clone(), len(kinds), self.net.dtype)
        adam = self.adam
        self.adam = Adam(adam.first[at], adam.second[at], adam.rate[at], adam.count)
        self.kinds = kinds

    def minibatches(self, rngs: Sequence[np.random.Generator]) -> None:
        """Draw every minibatch, each group from its own generator; fewer steps see the same ones."""
        import torch

        shape = (max(*self.plain.marks, self.plain.behavior_steps), self.settings.batch)
        drawn = [
            rows[rng.integers(len(rows), size=shape, dtype=np.int32)].astype(np.int32)
            for rng, rows in zip(rngs, self.train_rows, strict=True)
        ]
        self.table = torch.as_tensor(np.stack(drawn, 1)).to(self.device)

    def _pictures(self, rows: Any) -> Any:
        groups, batch = rows.shape
        return self.images.index_select(0, rows.reshape(-1)).view(groups, batch, 3, 40, 90)

    def outputs(self, rows: Any, *, train: bool, flat: Any = None) -> Any:
        """Run the networks on steps ``rows`` (G, B): (G, M, B, 2)."""
        import torch

        extras = torch.zeros(len(rows), len(self.kinds), rows.shape[1], EXTRAS, device=self.device)
        if "behavior_pi" in self.kinds:
            place = self.kinds.index("behavior_pi")
            extras[:, place, :, 1] = self.greedy[rows].float() * 2 - 1
        extras *= self.settings.extra_scale
        return forward(self.net, self._pictures(rows), extras, train=train, flat=flat)

    def targets(self, rows: Any) -> Any:
        """Return 1 + q⁻(S', π_e(S')), and 1 at the end of an episode: (G, B)."""
        import torch

        with torch.no_grad():
            after = self.following[rows]
            extras = torch.zeros(len(rows), 1, rows.shape[1], EXTRAS, device=self.device)
            out = forward(self.copy, self._pictures(after), extras, train=False)[:, 0]
            value = out.gather(-1, self.greedy[after][..., None])[..., 0]
            return 1 + torch.where(self.last[rows], 0.0, value)

    def losses(self, rows: Any, out: Any) -> Any:
        """Return each step's loss under each network (G, M, B)."""
        import torch
        from torch.nn import functional

        action = self.action[rows]
        each = []
        for place, kind in enumerate(self.kinds):
            own = out[:, place]
            if kind == "q":
                taken = own.gather(-1, action[..., None])[..., 0]
                each.append((self.targets(rows) - taken) ** 2)
            else:
                odds = own[..., 1] - own[..., 0]
                each.append(functional.softplus(-(action * 2 - 1) * odds))
        return torch.stack(each, 1)

    def train_step(self) -> None:
        """Train every network on its next minibatch."""
        import torch

        rows = self.table.index_select(0, self.counter)[0].long()
        flat = self.net.flat.detach().requires_grad_()
        loss = self.losses(rows, self.outputs(rows, train=True, flat=flat)).mean(-1).sum()
        (grad,) = torch.autograd.grad(loss, flat)
        self.adam.update(self.net.flat, grad)
        self.counter += 1

    def predictions(self) -> list[np.ndarray]:
        """Run the networks on what each split holds out: (M, r, 2) for each split."""
        import torch

        width = max(len(r) for r in self.held_out)
        table = np.zeros((len(self.held_out), width), dtype=np.int64)
        for g, rows in enumerate(self.held_out):
            table[g, : len(rows)] = rows
            table[g, len(rows) :] = rows[0]
        at = torch.as_tensor(table).to(self.device)
        with torch.no_grad():
            out = torch.cat([self.outputs(p, train=False) for p in at.split(self.settings.batch, 1)], 2)
        found = out.cpu().numpy()
        return [found[g, :, : len(rows)] for g, rows in enumerate(self.held_out)]


def train(trainer: PlainTrainer, tick: Callable[[float], None] = lambda _: None) -> PlainFit:
    """Train to the last mark, reading q off at every mark and π̂_b after its own number of steps."""
    plain = trainer.plain
    fit = PlainFit(trainer.held_out)
    end = max(*plain.marks, plain.behavior_steps)
    done = 0
    for stop in sorted({*plain.marks, plain.behavior_steps}):
        trainer.keep(KINDS if done < plain.behavior_steps else ("q",))
        step = training.captured(trainer) if trainer.device.type == "cuda" else trainer.train_step
        for number in range(done, stop):
            if number % plain.refresh == 0:
                trainer.refresh()
            step()
            if number % 100 == 0:
                tick(number / end)
        per_step = len(trainer.net.flat) * trainer.settings.batch
        fit.frames += (stop - done) * per_step
        done = stop
        out = trainer.predictions()
        if stop in plain.marks:
            fit.q[stop] = [piece[0] for piece in out]
        if stop == plain.behavior_steps:
            fit.odds = {
                kind: [piece[place, :, 1] - piece[place, :, 0] for piece in out]
                for place, kind in enumerate(KINDS)
                if kind != "q"
            }
    return fit
