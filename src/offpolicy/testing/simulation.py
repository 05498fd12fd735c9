"""`simulate`: bias, error, coverage and width of estimators over many logs of a world whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._progress import track
from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate

World = Callable[[np.random.Generator], tuple[Any, Any, float]]


@dataclass(frozen=True, eq=False)
class Simulation:
    """What estimators said of many logs.

    Attributes
    ----------
    truths : (L,) array
        The true value in each log.
    answers : {estimator: (L, 5) array}
        Estimate, standard error, both ends of its interval, and whether the interval is said to hold.
    level : float
        Of the intervals.
    """

    truths: Any
    answers: Mapping[str, Any]
    level: float

    def rows(self) -> list[dict[str, Any]]:
        """One row per estimator; the columns ending in ``_error`` are Monte Carlo errors of those before them.

        Coverage and width are those of intervals that are not refused.
        """
        rows = []
        for name, table in self.answers.items():
            value, error, low, high, holds = table.T
            off, kept = value - self.truths, holds > 0
            inside = (low <= self.truths) & (self.truths <= high)
            hits, asked = int((inside & kept).sum()), int(kept.sum())
            bias, rmse = float(off.mean()), float(np.sqrt((off**2).mean()))
            share = (hits + 2) / (asked + 4)  # Agresti and Coull: an error that is never 0
            rows.append(
                {
                    "estimator": name,
                    "logs": len(off),
                    "bias": bias,
                    "bias_error": _error(off),
                    "rmse": rmse,
                    "rmse_error": _error(off**2) / (2 * rmse) if rmse > 0 else 0.0,
                    "std_error": float(error.mean()),
                    "coverage": hits / asked if asked else math.nan,
                    "coverage_error": math.sqrt(share * (1 - share) / (asked + 4)),
                    "width": float((high - low)[kept].mean()) if asked else math.nan,
                    "refused": 1 - asked / len(off),
                }
            )
        return rows

    def frame(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        return str(self.frame().to_string(index=False, float_format=lambda x: f"{x:.4g}"))


@checks_arguments
def simulate(
    world: World,
    estimators: Any = None,
    logs: int = 100,
    *,
    level: float = 0.95,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Simulation:
    """Evaluate a policy on many logs of a world, and compare what estimators say with the truth.

    Parameters
    ----------
    world : callable
        Takes a numpy generator and returns a log, a policy and the policy's true value.
    estimators : list of names or `Estimator` objects, optional
        As in `evaluate`.
    logs : int
        How many logs to draw.
    level : float
        Of the intervals.
    seed : int
        The numbers of log i follow from (seed, i) alone.
    options : mapping, optional
        Further arguments of `evaluate`, such as ``{"reward_model": Ridge()}``.

    Examples
    --------
    >>> import offpolicy as op
    >>> def world(rng):
    ...     action = rng.integers(2, size=200)
    ...     reward = (rng.random(200) < 0.2 + 0.2 * action).astype(float)
    ...     return op.BanditLog.from_arrays(None, action, reward, np.full(200, 0.5)), "always:1", 0.4
    >>> found = op.testing.simulate(world, ["IPW", "SNIPW"], logs=20)
    >>> [row["estimator"] for row in found.rows()]
    ['IPW', 'SNIPW']
    """
    if logs < 2:
        raise UsageError(f"logs= must be an int of at least 2. Got {logs!r} instead.")
    truths, answers = np.empty(logs), dict[str, list[tuple[float, ...]]]()
    with track("simulating", logs) as advance:
        for i in range(logs):
            drawn = world(np.random.default_rng([seed, i]))
            if not isinstance(drawn, tuple) or len(drawn) != 3:
                raise UsageError("world(rng) must return a log, a policy and the policy's true value.")
            log, policy, truths[i] = drawn
            ev = evaluate(log, {"policy": policy}, estimators=estimators, seed=seed, **(options or {}))
            for name in ev.settings["estimators"]:
                estimate = ev["policy", name]
                interval = estimate.interval(level)
                row = (estimate.value, estimate.std_error, interval.low, interval.high, interval.sufficient)
                answers.setdefault(name, []).append(tuple(map(float, row)))
            advance()
    return Simulation(truths, {name: np.array(rows) for name, rows in answers.items()}, level)


def _error(values: Any) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))
