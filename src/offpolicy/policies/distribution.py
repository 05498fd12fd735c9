"""Rows of probabilities: made, restricted to eligible actions, and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import PolicyError, first_rows

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints

SUM_TOLERANCE = 1e-6  # columns of logged probabilities are often single precision


def eligibility(eligible: Any, n: int, K: int) -> Bools | None:
    """Check an (n, K) array of eligible actions; every row must have one."""
    if eligible is None:
        return None
    mask = np.asarray(eligible)
    if mask.shape != (n, K) or mask.dtype != np.bool_:
        raise PolicyError(
            f"'eligible' must be a boolean array of shape ({n}, {K}). "
            f"Got {mask.dtype} of shape {mask.shape} instead."
        )
    none = np.asarray(~mask.any(axis=1))
    if none.any():
        raise PolicyError(
            f"{first_rows(none)} have no eligible action: there is nothing to choose."
        )
    return mask


def uniform(n: int, K: int, eligible: Bools | None, mass: float = 1.0) -> Floats:
    """Spread ``mass`` equally over the eligible actions of each row (a read-only view if all are).

    >>> uniform(1, 4, np.array([[True, False, True, False]])).tolist()
    [[0.5, 0.0, 0.5, 0.0]]
    """
    if eligible is None:
        return np.broadcast_to(np.float64(mass / K), (n, K))
    return np.asarray(mass * eligible / eligible.sum(axis=1, keepdims=True))


def one_hot(codes: Ints, K: int) -> Floats:
    """Return the (n, K) distributions of deterministic choices.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    out = np.zeros((len(codes), K))
    out[np.arange(len(codes)), codes] = 1.0
    return out


def check_rows(values: Any, shape: tuple[int, int], policy: str) -> Floats:
    """Return ``values`` as float64 if each row is a distribution; raise naming the first bad row.

    >>> check_rows([[0.5, 0.6]], (1, 2), "mine")
    Traceback (most recent call last):
    offpolicy.errors.PolicyError: mine: probabilities sum to something other than 1 in 1 of 1 values
    (first: row 0 = 1.1). Divide each row by its sum, or find the action that was left out.
    """
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{policy}: probabilities must be numbers ({error}).") from error
    if out.shape != shape:
        raise PolicyError(
            f"{policy}: probabilities must have shape (n, K) = {shape}, one column per action of "
            f"the log in the log's order. Got {out.shape} instead."
        )
    bad = np.asarray(~np.isfinite(out).all(axis=1))
    if bad.any():
        raise PolicyError(
            f"{policy}: probabilities are NaN or infinite in {first_rows(bad)}. "
            "Check the model for missing inputs and overflow at these rows."
        )
    lowest = out.min(axis=1)
    if (lowest < 0).any():
        raise PolicyError(
            f"{policy}: probabilities are negative in {first_rows(lowest < 0, lowest)}. "
            "Scores become probabilities by Softmax or Greedy."
        )
    total = out.sum(axis=1)
    off = np.abs(total - 1) > SUM_TOLERANCE
    if off.any():
        raise PolicyError(
            f"{policy}: probabilities sum to something other than 1 in "
            f"{first_rows(off, total)}. Divide each row by its sum, or find the action that was "
            "left out."
        )
    return out
