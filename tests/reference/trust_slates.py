"""Slates whose slots were drawn by themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd

import offpolicy as op

ROLES = {"slate": "s", "position": "k", "context": ["x"], "action": "item", "reward": "r", "propensity": "p"}


def frame_of(n, seed=0, *, effect=0.0, slots=3, below=False, x=None):
    """Slots drawn by themselves among three items; item 0 in another slot moves a reward by ``effect``."""
    rng = np.random.default_rng(seed)
    item = rng.choice(3, p=[0.5, 0.3, 0.2], size=(n, slots))
    best = item == 0
    others = best.sum(axis=1, keepdims=True) - best if below else best.cumsum(axis=1) - best
    reward = 0.2 * best + effect * others + rng.normal(size=(n, slots))
    given = np.repeat(rng.normal(size=n).round(3) if x is None else x, slots)
    return pd.DataFrame({
        "s": np.repeat(np.arange(n), slots), "k": np.tile(np.arange(slots), n) + 1, "x": given, "item": item.ravel(),
        "r": reward.ravel().round(4), "p": np.array([0.5, 0.3, 0.2])[item].ravel(),
    })  # fmt: skip


def log_of(frame, kind="independent", **roles):
    context = [] if roles.pop("bare", False) else ["x"]
    return op.Slates.from_frame(frame, **{**ROLES, "context": context, **roles}, interaction=kind)
