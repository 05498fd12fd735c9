"""From an evaluation policy to a block of data sets with networks by the letter, and careful ones beside them.

The careful q (`training`: baseline by time, targets across deviations, early stopping) is trained on the same
data sets and folds where it is asked for; the behavior networks are the letter's in both cases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy_studies.cartpole import blocks, design, plain, training
from offpolicy_studies.cartpole.settings import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.cartpole.settings import Plain, Settings


def fit_plain_block(
    act: Any, cell: blocks.Cell, replications: list[int], settings: Settings, letter: Plain,
    device: str, *, careful: tuple[int, ...] = (), tick: Callable[[float], None] = lambda _: None,
) -> tuple[dict[int, dict[str, np.ndarray]], dict[str, Any]]:  # fmt: skip
    """Collect and fit several data sets at once; return each one's arrays, and the timing.

    Arrays are named ``q<steps>`` and ``careful<steps>`` (values of both actions), ``behavior`` and
    ``behavior_pi`` (log-odds of action 1), each with ``_full`` (in-sample) or ``_cross`` (out of fold).
    """
    clock = blocks.Clock(device)
    n = cell.trajectories
    collected = blocks.collect(act, cell, replications, settings, device)
    clock.lap("collect")
    labels, groups = [], []
    for k, r in enumerate(replications):
        fold_rng = cell.rng(blocks.FOLDS, r)
        labels.append(design.fold_labels(fold_rng, n, cell.folds))
        groups += design.splits(fold_rng, k, labels[-1])
    found, frames = _plain(cell, replications, settings, letter, collected, groups, tick)
    clock.lap("train")
    best: np.ndarray | None = None
    if careful:
        values, best = _careful(cell, replications, settings, careful, collected, groups)
        found |= {f"careful{mark}": pieces for mark, pieces in values.items()}
        frames += len(groups) * max(careful) * settings.batch
        clock.lap("train careful q")
    checks = blocks.q_checks(act, cell, replications, collected, settings)
    clock.lap("q roll-outs")
    held_out = [design.rows_of(collected.steps, g, g.held_out, n) for g in groups]
    out = {}
    for k, r in enumerate(replications):
        rows = slice(collected.steps.first[k], collected.steps.first[k + 1])
        at = k * design.split_count(cell.folds)
        splits = slice(at, at + cell.folds + 1)
        arrays = {**collected.log(k, n), "folds": labels[k].astype(np.int8)}
        for name, pieces in found.items():
            both = blocks.by_split(pieces, held_out, splits, rows)
            arrays[f"{name}_full"], arrays[f"{name}_cross"] = both
        if best is not None:
            arrays["best_step"] = best[splits].astype(np.int32)
        arrays |= {"check_rows": checks[0][k], "check_values": checks[1][k]}
        out[r] = arrays
    trained = sum(s for name, s in clock.seconds.items() if name.startswith("train"))
    timing = {
        "cell": [cell.policy, cell.epsilon, cell.folds],
        "replications": len(replications),
        "steps_logged": len(collected.actions),
        "frames": frames,
        "seconds": clock.seconds,
        "frames_per_s": frames / trained,
        "peak_gib": _peak_gib(device),
    }
    return out, timing


def _plain(
    cell: blocks.Cell, replications: list[int], settings: Settings, letter: Plain,
    collected: blocks.Collected, groups: list[design.Split], tick: Callable[[float], None],
) -> tuple[dict[str, list[np.ndarray]], int]:  # fmt: skip
    """Train the letter's networks; return their predictions by name, and the frames."""
    many = design.split_count(cell.folds)
    seeds = [cell.rng(blocks.PLAIN_WEIGHTS, r).integers(2**31, size=(many, len(plain.KINDS))) for r in replications]
    trainer = plain.PlainTrainer(
        collected.episodes, collected.steps, groups, np.concatenate(seeds), settings, letter,
        cell.trajectories,
    )  # fmt: skip
    trainer.minibatches([
        rng for r in replications for rng in cell.rng(blocks.PLAIN_MINIBATCHES, r).spawn(many)
    ])  # fmt: skip
    fit = plain.train(trainer, tick)
    found = {f"q{mark}": pieces for mark, pieces in fit.q.items()}
    return found | fit.odds, fit.frames


def _careful(
    cell: blocks.Cell, replications: list[int], settings: Settings, marks: tuple[int, ...],
    collected: blocks.Collected, groups: list[design.Split],
) -> tuple[dict[int, list[np.ndarray]], np.ndarray]:  # fmt: skip
    """Train the careful q alone; return the best so far at every mark, and the step of the last best."""
    many = design.split_count(cell.folds)
    seeds = [cell.rng(blocks.WEIGHTS, r).integers(2**31, size=(many, len(KINDS)))[:, :1] for r in replications]
    trainer = training.Trainer(
        collected.episodes, collected.steps, groups, np.concatenate(seeds), 1 - cell.epsilon / 2,
        replace(settings, steps=max(marks)), cell.trajectories, kinds=("q",),
    )  # fmt: skip
    trainer.minibatches([
        rng for r in replications for rng in cell.rng(blocks.MINIBATCHES, r).spawn(many)
    ])  # fmt: skip
    values: dict[int, list[np.ndarray]] = {}

    def read(done: int) -> None:
        if done in marks:
            values[done] = training.q_so_far(trainer)

    training.train(trainer, read)
    best: np.ndarray = trainer.best_step[:, 0].cpu().numpy()
    return values, best


def _peak_gib(device: str) -> float | None:
    import torch

    return torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None
