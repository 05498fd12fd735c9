"""Small logs for the checks, by counts: a row of count 500 is 500 rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import offpolicy as op
from offpolicy.trust.check import CHECKS
from offpolicy.trust.diagnose import log_findings
from offpolicy.trust.mismatch import distribution_sums
from offpolicy.trust.sums import log_sums
from offpolicy.trust.view import draws_of


def table(counts: Any, propensity: Any, *, reward: Any = None, context: Any = None, **options: Any) -> op.BanditLog:
    """One row for each action, standing for so many of them."""
    action = options.pop("action", np.arange(len(counts)))
    reward = np.zeros(len(counts)) if reward is None else reward
    return op.BanditLog.from_arrays(
        context, action, reward, propensity, count=np.asarray(counts, dtype=float), **options
    )


def drawn(seed: int, n: int = 300, k: int = 3, sharp: float = 1.0) -> dict[str, Any]:
    """A logging policy that prefers by a number, what it chose, and what that earned."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).round(3)
    logits = sharp * np.outer(x, np.arange(k) - (k - 1) / 2)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    r = (0.3 * a + 0.2 * x + rng.normal(size=n)).round(4)
    return {"x": x, "a": a, "r": r, "whole": p, "p": p[np.arange(n), a]}


def asked(check: Any, log: Any) -> Any:
    """What a check of the propensities says of a log."""
    draws = draws_of(log)
    return check(log, draws, distribution_sums(log, draws.mass, draws.square))


def checked_log(name: str, log: Any) -> Any:
    """What the check of a name says of a log, or why it cannot be made."""
    (made,) = log_findings(log, log_sums(log), [CHECKS[name]])
    return made


def sums(log: Any) -> Any:
    """All sums over a log."""
    return log_sums(log)
