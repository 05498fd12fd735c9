"""Small decisions by hand, and the words of a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from offpolicy.errors import OffPolicyError
from offpolicy.logs.layout import Layout
from offpolicy.scores.decisions import Decisions


def said(call) -> str:
    with pytest.raises(OffPolicyError) as raised:
        call()
    return str(raised.value)


def weighted(weights, mass=None, **known) -> Decisions:
    """Episodes of two steps whose whole weights are given."""
    w = np.asarray(weights, dtype=float)
    n = len(w)
    pi_e = np.column_stack([w, np.ones(n)]).ravel() / 2
    half, ones = np.full(2 * n, 0.5), np.ones(2 * n)
    pi_b = np.column_stack([half[:n], ones[:n]]).ravel()
    return Decisions(
        Layout.ragged([2] * n), half, pi_e * np.tile([1.0, 2.0], n), pi_b, half, half, weight=mass, **known
    )


def world(seed=0, n=60, **known) -> Decisions:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, size=n)
    s = int(lengths.sum())
    given = {"marginal": rng.uniform(0.5, 1.5, s)} | known
    return Decisions(
        Layout.ragged(lengths), rng.random(s), rng.uniform(0.3, 0.6, s), rng.uniform(0.3, 0.6, s),
        rng.random(s), rng.random(s), 0.9, **given,
    )  # fmt: skip
