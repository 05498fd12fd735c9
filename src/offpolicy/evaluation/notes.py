"""What an estimate has to say about itself: its models, its folds, the window around a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.evaluation.block import behavior_name
from offpolicy.inference.estimate import INTERIOR
from offpolicy.models.fitting.store import BEHAVIOR, MRDR, REWARD

if TYPE_CHECKING:
    from offpolicy.evaluation.pipeline import Pipeline
    from offpolicy.inference.estimate import Estimate
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Split

NO_OVERLAP = (
    "no overlap: the target never takes an action that was logged, so its importance weights are all 0 "
    "and the data say nothing about it"
)
NO_SURVIVOR = (
    "at some step no logged episode follows the target, so that every importance weight is 0 there and the "
    "data say nothing about what comes later. Use a shorter horizon (log.first(steps)), DRL or DM"
)
WITHIN_CELLS = (
    "the standard error leaves out the noise with which the reward model tells actions of one cell apart, which "
    "ratios of cells do not correct"
)
NO_SPREAD = "the scores do not vary: a standard error of 0 would leave out the error of the value model"
MUCH = 0.2  # share of a standard error from which the draw of the folds is spoken of


def model_notes(p: Pipeline, target: Target, estimator: Estimator, repeat: int) -> list[str]:
    """What the models have to say about themselves."""
    notes: list[str] = []
    split, said = estimator.split, p.source.said
    repeat = 0 if split == "full" else repeat
    if "behavior" in estimator.needs:
        notes += _floor_note(p, split, repeat)
        notes += p.source.fit_notes(BEHAVIOR)
        source = behavior_name(p.folds, p.columns, split, repeat, 0)
        notes.append(said(("behavior", *source[1:])))
    if "value" in estimator.needs:
        notes += p.source.fit_notes(REWARD if estimator.emphasis is None else MRDR)
        notes.append(said(p.value_names(target, estimator, repeat)[1]))
        cells = p.source.cells
        if cells is not None and cells.models_actions:
            notes.append(WITHIN_CELLS)
    return [note for note in notes if note]


def _floor_note(p: Pipeline, split: Split, repeat: int) -> list[str]:
    notes = []
    if p.log.eligible is not None and not p.source.behavior_given:
        notes.append("π_b was fitted over all actions and divided among the eligible ones of each row")
    rows = None
    if split == "half":
        rows = p.log.layout.rows_of(np.flatnonzero(p.folds.half[repeat]))
    raised = p.floored(split, repeat, rows)
    if raised:
        notes.append(
            f"the fitted π_b gave {raised:,} logged actions probability 0: they got the share of an action "
            "not seen yet, 1 / (n + K)"
        )
    return notes


def spread_note(e: Estimate) -> list[str]:
    """What the draw of the folds does to an estimate, where it matters."""
    if len(e.rows) == 1 or not e.is_defined or not e.fold_spread > MUCH * e.std_error:
        return []
    share = e.fold_spread / e.std_error if e.std_error > 0 else math.inf
    moves = f"the estimate moves by {e.fold_spread:.2g} ({share:.2g} of its standard error)"
    return [f"from one draw of the folds to the next {moves}; this is the mean of {len(e.rows)} draws"]


def smoothing_note(e: Estimate, target: Target, cut: float) -> str:
    """What the window around a policy's number does to an estimate."""
    bias, error = e.smoothing
    window = f"a window of {target.window} around the policy's number stands for it"
    law = "its square" if e.extrapolation == INTERIOR else "it"
    edge = f"; the end of the logged range cuts it in {100 * cut:.3g}% of the rows" if cut else ""
    return (
        f"{window}{edge}: halving it moves the estimate by {bias / e.extrapolation:+.2g}, and a bias that grows with "
        f"{law} is {bias:+.2g} ± {error:.2g}; intervals allow for {e.allowance:.2g}"
    )


def is_constant(e: Estimate) -> bool:
    """Whether scores differ by rounding at most."""
    return e.is_defined and e.std_error <= 1e-12 * (1 + abs(e.value))
