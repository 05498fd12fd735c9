"""From an evaluation policy to a block of data sets with their nuisances (the part for the GPU).

Every data set has its own seeds for its episodes, folds, minibatches and first weights, and blocks
are cut at fixed places, so a run that was killed and resumed computes what it would have computed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import design, environment, training
from offpolicy_studies.cartpole.settings import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.cartpole.settings import Settings

EPISODES, FOLDS, MINIBATCHES, WEIGHTS, CHECKS, PLAIN_MINIBATCHES, PLAIN_WEIGHTS = range(7)


@dataclass(frozen=True)
class Cell:
    """One cell of the study: a policy, an ε and a number of folds."""

    policy: str
    epsilon: float
    folds: int
    trajectories: int
    seed: int

    def rng(self, stream: int, replication: int) -> np.random.Generator:
        """Return a data set's generator for one purpose; the episodes do not depend on K."""
        folds = 0 if stream in (EPISODES, CHECKS) else self.folds
        name = int.from_bytes(self.policy.encode()[:4].ljust(4), "little")
        key = [self.seed, stream, name, round(self.epsilon * 1e6), folds, replication]
        return np.random.default_rng(key)


def truth(act: Any, rollouts: int, seed: int, settings: Settings, device: str) -> dict[str, Any]:
    """Run the evaluation policy ``rollouts`` times; return mean, standard error and spread."""
    lengths: list[np.ndarray] = []
    chunk = 10_000
    for k, start in enumerate(range(0, rollouts, chunk)):
        draws = environment.draw_start(np.random.default_rng([seed, 77, k]), min(chunk, rollouts - start), settings.cap)
        done = environment.roll_out(
            act, draws, epsilon=0, cap=settings.cap, period=settings.noise_period, device=device
        )
        lengths.append(done.lengths.cpu().numpy())
    every = np.concatenate(lengths).astype(float)
    return {
        "rollouts": len(every),
        "value": float(every.mean()),
        "std_error": float(every.std(ddof=1) / np.sqrt(len(every))),
        "std": float(every.std(ddof=1)),
        "median": float(np.median(every)),
        "longest": float(every.max()),
        "at_cap": float((every >= settings.cap).mean()),
    }


@dataclass(frozen=True)
class Collected:
    """The episodes of several data sets and where their steps stand."""

    draws: environment.Draws
    episodes: environment.Episodes
    lengths: np.ndarray
    actions: np.ndarray
    greedy: np.ndarray
    steps: design.Steps

    def log(self, k: int, n: int) -> dict[str, np.ndarray]:
        """Return the log of the k-th data set of n episodes."""
        rows = slice(self.steps.first[k], self.steps.first[k + 1])
        return {
            "lengths": self.lengths[k * n : (k + 1) * n].astype(np.int16),
            "actions": self.actions[rows],
            "greedy": self.greedy[rows],
        }


def collect(act: Any, cell: Cell, replications: list[int], settings: Settings, device: str) -> Collected:
    """Play the episodes of several data sets and keep their pictures on the device."""
    import torch

    draws = environment.joined([
        environment.draw_start(cell.rng(EPISODES, r), cell.trajectories, settings.cap)
        for r in replications
    ])  # fmt: skip
    keep = torch.bfloat16 if device.startswith("cuda") else torch.float32
    episodes = environment.roll_out(
        act, draws, epsilon=cell.epsilon, cap=settings.cap, period=settings.noise_period,
        device=device, image_dtype=keep,
    )  # fmt: skip
    lengths = episodes.lengths.cpu().numpy()
    actions, greedy = episodes.actions.cpu().numpy(), episodes.greedy.cpu().numpy()
    steps = design.locate(lengths, actions != greedy, cell.trajectories)
    return Collected(draws, episodes, lengths, actions, greedy, steps)


def fit_block(
    act: Any, cell: Cell, replications: list[int], settings: Settings, device: str,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[dict[int, dict[str, np.ndarray]], dict[str, Any]]:  # fmt: skip
    """Collect and fit several data sets at once; return each one's arrays, and the timing."""
    import torch

    clock = Clock(device)
    n = cell.trajectories
    collected = collect(act, cell, replications, settings, device)
    steps, episodes, actions = collected.steps, collected.episodes, collected.actions
    clock.lap("collect")
    labels, groups, seeds, rngs = [], [], [], []
    for k, r in enumerate(replications):
        fold_rng = cell.rng(FOLDS, r)
        labels.append(design.fold_labels(fold_rng, n, cell.folds))
        mine = design.splits(fold_rng, k, labels[-1])
        groups += mine
        seeds.append(cell.rng(WEIGHTS, r).integers(2**31, size=(len(mine), len(KINDS))))
        rngs += cell.rng(MINIBATCHES, r).spawn(len(mine))
    trainer = training.Trainer(episodes, steps, groups, np.concatenate(seeds), 1 - cell.epsilon / 2, settings, n)
    trainer.minibatches(rngs)
    clock.lap("prepare")
    curve = training.train(trainer, lambda done: tick(done / settings.steps))
    clock.lap("train")
    fitted = training.finish(trainer, curve)
    clock.lap("predict")
    checks = q_checks(act, cell, replications, collected, settings)
    clock.lap("q roll-outs")
    out = {}
    hidden = episodes.physics.cpu().numpy().astype(np.float16)
    for k, r in enumerate(replications):
        rows = slice(steps.first[k], steps.first[k + 1])
        at = k * design.split_count(cell.folds)
        out[r] = {
            **collected.log(k, n),
            "folds": labels[k].astype(np.int8),
            **_fitted_arrays(fitted, slice(at, at + cell.folds + 1), rows),
            **_half_arrays(fitted, groups, at + cell.folds + 1, rows, n),
            "temperature": fitted.temperature[at : at + cell.folds + 1],
            "best_step": fitted.best_step[at : at + cell.folds + 1],
            **({"physics": hidden[rows]} if cell.policy == "long" else {}),
            "check_rows": checks[0][k],
            "check_values": checks[1][k],
        }
    seconds = clock.seconds
    timing = {
        "cell": [cell.policy, cell.epsilon, cell.folds],
        "replications": len(replications),
        "steps_logged": len(actions),
        "networks": len(groups) * len(KINDS),
        "frames": fitted.frames,
        "seconds": seconds,
        "frames_per_s": fitted.frames / seconds["train"],
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None,
        "curve": curve.round(4).tolist(),
    }
    return out, timing


def _fitted_arrays(fitted: training.Fitted, splits: slice, rows: slice) -> dict[str, np.ndarray]:
    out = {}
    for name in ("q", "q_mrdr", "behavior", "behavior_pi"):
        both = by_split(getattr(fitted, name), fitted.rows, splits, rows)
        if name != "q_mrdr":  # MRDR is only reported cross-fitted
            out[f"{name}_full"] = both[0]
        out[f"{name}_cross"] = both[1]
    return out


def _half_arrays(
    fitted: training.Fitted, groups: list[design.Split], at: int, rows: slice, n: int
) -> dict[str, np.ndarray]:
    """Return DR-half's own fit where no fold is a half: which episodes it scores, and predictions there."""
    if at >= len(groups) or groups[at].name != design.HALF:
        return {}
    halves = np.ones(n, dtype=np.int8)
    halves[groups[at].held_out] = 0
    out = {"halves": halves}
    for name in ("q", "behavior", "behavior_pi"):
        piece = getattr(fitted, name)[at]
        # Where it was fitted it is not asked; zeros are as good as anything.
        out[f"{name}_half"] = np.zeros((rows.stop - rows.start, *piece.shape[1:]), np.float16)
        out[f"{name}_half"][fitted.rows[at] - rows.start] = piece
    return out


def by_split(
    pieces: list[np.ndarray], held_out: list[np.ndarray], splits: slice, rows: slice
) -> tuple[np.ndarray, np.ndarray]:
    """Gather a data set's predictions: in-sample from the full fit, and out of fold from the others.

    Parameters
    ----------
    pieces, held_out : list of arrays
        For each split of the block what it predicts, and for which steps.
    splits : slice
        The data set's splits, the full sample first.
    rows : slice
        The data set's steps.
    """
    full, *others = range(splits.start, splits.stop)
    crossed = np.empty((rows.stop - rows.start, *pieces[full].shape[1:]), dtype=np.float16)
    for g in others:
        crossed[held_out[g] - rows.start] = pieces[g]
    return pieces[full].astype(np.float16), crossed


def q_checks(
    act: Any, cell: Cell, replications: list[int], collected: Collected, settings: Settings
) -> tuple[list[np.ndarray], np.ndarray]:
    """Simulate q of the policy's action from a sample of logged steps of each data set."""
    import torch

    steps, episodes = collected.steps, collected.episodes
    local, rows = [], []
    for k, r in enumerate(replications):
        size = steps.first[k + 1] - steps.first[k]
        local.append(cell.rng(CHECKS, r).integers(size, size=settings.q_checks).astype(np.int32))
        rows.append(local[-1] + steps.first[k])
    every = np.concatenate(rows)
    where = torch.as_tensor(every).to(episodes.physics.device)
    value = environment.values_from(
        act,
        episodes.physics[where],
        torch.tensor(collected.draws.pattern[steps.episode[every]]).to(where.device),
        torch.as_tensor(steps.time[every]).to(where.device),
        episodes.greedy[where].long(),
        cap=settings.cap,
        period=settings.noise_period,
    )
    return local, value.cpu().numpy().astype(np.float32).reshape(len(replications), -1)


class Clock:
    """Seconds by phase, with the device's queue emptied at each lap."""

    def __init__(self, device: str) -> None:
        self.cuda, self.last = device.startswith("cuda"), time.perf_counter()
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Note the seconds since the last lap."""
        if self.cuda:
            import torch

            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[name], self.last = round(now - self.last, 4), now
