"""The nuisance networks of many data sets, trained at once.

A group is one split of one data set; its networks (q, π_b on the state, π_b that also sees π_e, q for
MRDR) share each minibatch. One training step for all groups is one CUDA graph: it reads its rows
from a table by a step counter that lives on the device, so the host only replays it. On the CPU the
same function is called instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import design
from offpolicy_studies.cartpole.adam import Adam
from offpolicy_studies.cartpole.ensemble import EXTRAS, Ensemble, forward
from offpolicy_studies.cartpole.settings import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy_studies.cartpole.environment import Episodes
    from offpolicy_studies.cartpole.settings import Settings

TIME_SCALE = 50.0
TEMPERATURES = np.geomspace(0.25, 8.0, 61)


@dataclass(frozen=True)
class Fitted:
    """What the networks of each split say about the steps that it holds out.

    Attributes
    ----------
    rows : list of (r,) arrays
        For each split the steps (within the block) predicted.
    q, q_mrdr : list of (r, 2) arrays
        Values of both actions.
    behavior, behavior_pi : list of (r,) arrays
        Calibrated log-odds of action 1.
    temperature : (G, 2) array
        Of the two behavior models.
    best_step : (G, 4) array
        Training step at which each network's validation loss was lowest.
    curve : (checks, 4) array
        Mean validation loss by check and kind.
    frames : int
        Frames that went forward and backward through a network.
    """

    rows: list[np.ndarray]
    q: list[np.ndarray]
    q_mrdr: list[np.ndarray]
    behavior: list[np.ndarray]
    behavior_pi: list[np.ndarray]
    temperature: np.ndarray
    best_step: np.ndarray
    curve: np.ndarray
    frames: int


class Trainer:
    """Static buffers of one block and the step that trains every network once."""

    def __init__(
        self, episodes: Episodes, steps: design.Steps, groups: Sequence[design.Split],
        seeds: np.ndarray, follow: float, settings: Settings, per_set: int,
        kinds: tuple[str, ...] = KINDS,
    ) -> None:  # fmt: skip
        import torch

        self.settings, self.groups, self.per_set = settings, groups, per_set
        self.kinds = kinds
        self.images = episodes.images
        device = self.images.device
        self.device, self.steps = device, steps
        self.net = Ensemble.create(list(seeds.reshape(-1)), len(kinds), str(device))

        def put(array: Any, dtype: Any = torch.float32) -> Any:
            return torch.as_tensor(np.ascontiguousarray(array)).to(device=device, dtype=dtype)

        self.put = put
        self.action = episodes.actions.long()
        self.greedy = episodes.greedy.long()
        self.time = put(steps.time, torch.long)
        self.gap = put(steps.gap)
        # Group g keeps q at the deviations of its data set; the last column means "no more reward".
        sizes = np.diff(steps.first)
        local = np.where(steps.boot >= 0, steps.boot - steps.first[steps.data_set], sizes.max())
        self.boot = put(local, torch.long)
        target, weight = design.mrdr(steps.gap, steps.time, steps.clean, follow)
        self.mrdr_target, self.mrdr_weight = put(target), put(weight)
        self.set_first = put(steps.first[[g.data_set for g in groups]], torch.long)
        self._split_rows()
        self._warm(int(sizes.max()))
        rates = {"q": settings.q_rate, "q_mrdr": settings.q_rate}
        rate = torch.tensor([rates.get(k, settings.behavior_rate) for k in kinds])
        self.adam = Adam.create(self.net.flat, rate.repeat(len(groups)))
        self.counter = torch.zeros(1, dtype=torch.long, device=device)
        self.best = torch.full((len(groups), len(kinds)), math.inf, device=device)
        self.best_step = torch.zeros(len(groups), len(kinds), device=device)
        self.best_flat, self.best_running = self.net.flat.clone(), self.net.running.clone()

    def _split_rows(self) -> None:
        """Turn each split's episodes into rows: minibatches, validation, deviations, held out."""

        def rows(split: design.Split, episodes: np.ndarray) -> np.ndarray:
            return design.rows_of(self.steps, split, episodes, self.per_set)

        self.fit = [rows(g, g.fit) for g in self.groups]
        self.validation = [rows(g, g.validation) for g in self.groups]
        self.held_out = [rows(g, g.held_out) for g in self.groups]
        deviates = (self.action != self.greedy).cpu().numpy()
        both = [np.concatenate(pair) for pair in zip(self.fit, self.validation, strict=True)]
        self.train = both
        self.deviations, self.deviation_mask = self._padded([r[deviates[r]] for r in both])

    def _padded(self, rows: list[np.ndarray]) -> tuple[Any, Any]:
        """Stack ragged row lists (G, R) with a mask; a group without rows repeats its first step."""
        width = max(1, *(len(r) for r in rows))
        table = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=bool)
        for g, row in enumerate(rows):
            table[g] = self.steps.first[self.groups[g].data_set]
            table[g, : len(row)] = row
            mask[g, : len(row)] = True
        import torch

        return self.put(table, torch.long), self.put(mask, torch.bool)

    def _warm(self, width: int) -> None:
        kernel = design.smoothing(self.settings.cap)
        warm = [design.warm_start(self.steps, rows, kernel) for rows in self.train]
        self.base = self.put(np.stack([w.base for w in warm]))
        self.scale = self.put(np.array([w.scale for w in warm]))[:, None]
        self.boot_value = self.base.new_zeros(len(self.groups), width + 1)
        start = self.put(np.stack([w.value for w in warm]))
        self._set_boot(start.gather(1, self.time[self.deviations]))

    def _set_boot(self, value: Any) -> None:
        """Store q at the deviations (G, R) under their place within the data set."""
        place = self.deviations - self.set_first[:, None]
        # Padding points at a data set's first step, which no step bootstraps from.
        self.boot_value.scatter_(1, place, value * self.deviation_mask)

    def minibatches(self, rngs: Sequence[np.random.Generator]) -> None:
        """Draw every minibatch of the whole training, each group from its own generator."""
        import torch

        shape = (self.settings.steps, self.settings.batch)
        drawn = [
            rows[rng.integers(len(rows), size=shape, dtype=np.int32)] for rng, rows in zip(rngs, self.fit, strict=True)
        ]
        self.table = self.put(np.stack(drawn, 1), torch.int32)
        kept = [
            rng.permutation(rows)[: self.settings.validation_rows]
            for rng, rows in zip(rngs, self.validation, strict=True)
        ]
        self.check_rows, self.check_mask = self._padded(kept)

    def outputs(self, rows: Any, *, train: bool, flat: Any = None, running: Any = None) -> Any:
        """Run the networks on steps ``rows`` (G, B): (G, M, B, 2)."""
        import torch

        groups, batch = rows.shape
        images = self.images.index_select(0, rows.reshape(-1)).view(groups, batch, 3, 40, 90)
        extras = torch.zeros(groups, len(self.kinds), batch, EXTRAS, device=self.device)
        for place, kind in enumerate(self.kinds):
            if kind in {"q", "q_mrdr"}:
                extras[:, place, :, 0] = self.time[rows].float() / TIME_SCALE
            elif kind == "behavior_pi":
                extras[:, place, :, 1] = self.greedy[rows].float() * 2 - 1
        extras *= self.settings.extra_scale
        return forward(self.net, images, extras, train=train, flat=flat, running=running)

    def losses(self, rows: Any, out: Any) -> Any:
        """Return each step's loss under each network (G, M, B)."""
        import torch
        from torch.nn import functional

        action = self.action[rows]
        base = self.base.gather(1, self.time[rows])
        each = []
        for place, kind in enumerate(self.kinds):
            own = out[:, place]
            taken = own.gather(-1, action[..., None])[..., 0]
            if kind == "q":
                target = self.gap[rows] + self.boot_value.gather(1, self.boot[rows])
                each.append(((target - base) / self.scale - taken) ** 2)
            elif kind == "q_mrdr":
                weight = self.mrdr_weight[rows]
                weight = weight / weight.mean(1, keepdim=True).clamp_min(1e-6)
                each.append(weight * ((self.mrdr_target[rows] - base) / self.scale - taken) ** 2)
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

    def predict(self, rows: Any, *, best: bool) -> Any:
        """Run the networks, or their best checkpoints, on rows (G, R) piece by piece."""
        import torch

        flat, running = (self.best_flat, self.best_running) if best else (None, None)
        with torch.no_grad():
            pieces = [
                self.outputs(piece, train=False, flat=flat, running=running)
                for piece in rows.split(self.settings.batch, 1)
            ]
        return torch.cat(pieces, 2)

    def check(self, step: int) -> np.ndarray:
        """Look at the validation part, keep what is best so far, refresh q at the deviations."""
        import torch

        out = self.predict(self.check_rows, best=False)
        loss = self.losses(self.check_rows, out) * self.check_mask[:, None]
        loss = loss.sum(-1) / self.check_mask.sum(-1)[:, None]
        better = loss < self.best
        self.best = torch.where(better, loss, self.best)
        self.best_step = torch.where(better, float(step), self.best_step)
        row = better.reshape(-1, 1)
        self.best_flat = torch.where(row, self.net.flat, self.best_flat)
        self.best_running = torch.where(row, self.net.running, self.best_running)
        self.refresh()
        mean: np.ndarray = loss.mean(0).cpu().numpy()
        return mean

    def refresh(self) -> None:
        """Put the best q so far where targets bootstrap: at the deviations."""
        out = self.predict(self.deviations, best=True)[:, 0]
        choice = self.greedy[self.deviations]
        value = out.gather(-1, choice[..., None])[..., 0] * self.scale
        value = value + self.base.gather(1, self.time[self.deviations])
        self._set_boot(value.clamp_min(1.0))


def train(trainer: Trainer, tick: Callable[[int], None] = lambda _: None) -> np.ndarray:
    """Run all training steps; return the validation losses (checks, kinds)."""
    step = captured(trainer) if trainer.device.type == "cuda" else trainer.train_step
    curve = []
    for number in range(1, trainer.settings.steps + 1):
        step()
        if number % trainer.settings.check_every == 0 or number == trainer.settings.steps:
            curve.append(trainer.check(number))
            tick(number)
    return np.array(curve)


def captured(trainer: Any) -> Callable[[], None]:
    """Capture one training step; the warm-up's changes to the networks are undone."""
    import torch

    kept = [trainer.net.flat, trainer.net.running, trainer.adam.first, trainer.adam.second,
            trainer.adam.count, trainer.counter]  # fmt: skip
    copies = [tensor.clone() for tensor in kept]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            trainer.train_step()
    torch.cuda.current_stream().wait_stream(side)
    # What the warm-up and the last block's graph have cached is not reusable by this graph.
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        trainer.train_step()
    for tensor, copy in zip(kept, copies, strict=True):
        tensor.copy_(copy)
    return graph.replay  # type: ignore[no-any-return]


def q_so_far(trainer: Trainer) -> list[np.ndarray]:
    """Return what each split's best q so far says about the steps that it holds out, (r, 2) each."""
    rows, mask = trainer._padded(trainer.held_out)  # noqa: SLF001
    out = trainer.predict(rows, best=True)[:, trainer.kinds.index("q")]
    base = trainer.base.gather(1, trainer.time[rows])[..., None]
    value, keep = (base + trainer.scale[..., None] * out).cpu().numpy(), mask.cpu().numpy()
    return [value[g, keep[g]] for g in range(len(trainer.groups))]


def finish(trainer: Trainer, curve: np.ndarray) -> Fitted:
    """Calibrate the behavior models and predict the held-out steps with the best checkpoints."""
    import torch

    out = trainer.predict(trainer.check_rows, best=True)
    sign = trainer.action[trainer.check_rows] * 2.0 - 1
    odds = (out[:, 1:3, :, 1] - out[:, 1:3, :, 0]) * sign[:, None]
    heat = trainer.put(TEMPERATURES)
    count = trainer.check_mask.sum(-1)[:, None]
    loss = torch.stack([
        (torch.nn.functional.softplus(-odds / h) * trainer.check_mask[:, None]).sum(-1) / count
        for h in heat
    ])  # fmt: skip
    temperature = heat[loss.argmin(0)]
    rows, mask = trainer._padded(trainer.held_out)  # noqa: SLF001
    out = trainer.predict(rows, best=True)
    base = trainer.base.gather(1, trainer.time[rows])[..., None]
    value = base[:, None] + trainer.scale[..., None, None] * out[:, [0, 3]]
    odds = (out[:, 1:3, :, 1] - out[:, 1:3, :, 0]) / temperature[..., None]
    value, odds, keep = value.cpu().numpy(), odds.cpu().numpy(), mask.cpu().numpy()
    groups = range(len(trainer.groups))
    return Fitted(
        rows=trainer.held_out,
        q=[value[g, 0, keep[g]] for g in groups],
        q_mrdr=[value[g, 1, keep[g]] for g in groups],
        behavior=[odds[g, 0, keep[g]] for g in groups],
        behavior_pi=[odds[g, 1, keep[g]] for g in groups],
        temperature=temperature.cpu().numpy(),
        best_step=trainer.best_step.cpu().numpy(),
        curve=curve,
        frames=len(trainer.groups) * len(KINDS) * trainer.settings.steps * trainer.settings.batch,
    )
