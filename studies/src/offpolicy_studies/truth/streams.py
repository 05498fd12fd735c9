"""The same log read whole and streamed from a file: does everything that is printed come out the same?"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import OffPolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy_studies.arrays import Floats
    from offpolicy_studies.truth.question import Question

BLOCKS = 4
#: What may differ: who read the rows, from where and when.
PROVENANCE = ("provenance", "source", "engine", "way", "log", "settings", "created", "command")


def compared(q: Question, folds: int, seed: int) -> dict[str, Any]:
    """{"difference": largest relative one between numbers of the two JSON results, "numbers": how many, "at": where}.

    Episodes are read whole only; and a path that cannot give the answer says so: {"refused": why}.
    """
    if q.log.kind != "bandit":
        return {"refused": "episodes are read whole"}
    with tempfile.TemporaryDirectory() as folder:
        frame, roles, policies = as_table(q)
        path = Path(folder) / "log.parquet"
        frame.to_parquet(path)
        rows = -(-len(frame) // BLOCKS)
        logs = (op.BanditLog.from_frame(frame, **roles), op.scan(str(path), **roles, way="stream", chunk_rows=rows))
        try:
            made = [
                json.loads(op.evaluate(log, policies, folds=folds, seed=seed, **q.models).to_json()) for log in logs
            ]
        except OffPolicyError as error:
            return {"refused": str(error)[:200]}
        finally:
            logs[1].close()
    one, two = (dict(numbers(x)) for x in made)
    gaps = {key: apart(one.get(key), two.get(key)) for key in {**one, **two}}
    worst = max(gaps, key=lambda key: gaps[key])
    return {"difference": gaps[worst], "numbers": len(gaps), "at": worst}


def as_table(q: Question) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A log as a frame, the roles of its columns, and its policies as functions of the context."""
    import pandas as pd

    log = q.log
    table = log.context.native(log.context.positions(np.arange(len(log.action))))
    context = np.asarray(table, dtype=np.float64).reshape(len(log.action), -1)
    columns: dict[str, Any] = {f"x{j}": context[:, j] for j in range(context.shape[1])}
    roles: dict[str, Any] = {"context": list(columns), "action": "action", "reward": "reward"}
    columns |= {"action": np.asarray(log.actions)[log.action], "reward": log.reward}
    # A row that was kept with a probability has one over it as its weight.
    parts: dict[str, Any] = {
        "cluster": log.cluster if log.has_clusters else None,
        "batch": log.batch if log.has_batches else None,
        "weight": log.weight if log.is_weighted else None,
    }
    if log.distribution is not None:
        roles["propensity"] = [f"p{k}" for k in range(len(log.actions))]
        columns |= dict(zip(roles["propensity"], log.distribution.T, strict=True))
    else:
        parts["propensity"] = log.propensity
    for name, values in parts.items():
        if values is not None:
            columns[name], roles[name] = values, name
    roles["actions"] = list(log.actions)
    policies: dict[str, Any] = {}
    for name, policy in q.policies.items():
        is_table = isinstance(policy, np.ndarray)
        policies[name] = ByContext(context, policy) if is_table else policy
    return pd.DataFrame(columns), roles, policies


class ByContext:
    """A policy that is known on the rows of one log, as a function of the context: it knows no row by its number."""

    def __init__(self, context: Floats, table: Floats) -> None:
        self.found = {row.tobytes(): probabilities for row, probabilities in zip(context, table, strict=True)}

    def probabilities(self, context: Any) -> Floats:
        """(n, K) what was given for the same context."""
        rows = np.ascontiguousarray(np.asarray(context, dtype=np.float64))
        return np.array([self.found[row.tobytes()] for row in rows])


def numbers(found: Any, at: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a JSON result by where it stands."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key not in PROVENANCE:
                yield from numbers(value, f"{at}/{key}")
    elif isinstance(found, list):
        for i, value in enumerate(found):
            yield from numbers(value, f"{at}/{i}")
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield at, float(found)


def apart(a: float | None, b: float | None) -> float:
    """Difference relative to the numbers, and to 1e-6 where they are smaller; infinite where one is missing.

    >>> apart(2.0, 2.0), apart(1.0, 1.5) > 0.3, apart(1.0, None)
    (0.0, True, inf)
    """
    if a is None or b is None:
        return math.inf
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(abs(a), abs(b), 1e-6)
