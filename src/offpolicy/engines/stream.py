"""Evaluation of a log that is too large to hold and does not compress: chunk by chunk, sums kept.

Memory is bounded by the size of a chunk (and by LightGBM's dataset of one byte a value while it is fitted).
Estimates rest on all rows; diagnostics and reports look at a sample of rows drawn by a hash.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.chunks import chunks, make_schema
from offpolicy.engines.fits import RESOLUTION, fit_nuisances
from offpolicy.engines.scored import Key, Part, Task, chunk_problem, score_chunk
from offpolicy.errors import UsageError
from offpolicy.evaluation.pipeline import NO_OVERLAP, Problem
from offpolicy.evaluation.result import Evaluation
from offpolicy.inference.moments import SummedEstimate
from offpolicy.models.fitting.crossfit import Behavior, Values
from offpolicy.policies import target as targets
from offpolicy.scores import formulas as scores
from offpolicy.splits.folds import hash_arithmetic, hash_constants

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from offpolicy.engines.compress import FoldPlan
    from offpolicy.engines.scan import LogScan
    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import Estimator

STREAMABLE = (
    scores.direct,
    scores.importance_weighted,
    scores.doubly_robust,
    scores.self_normalized,
    scores.self_normalized_dr,
)
WITH_MEANS = (scores.self_normalized, scores.self_normalized_dr)
SAMPLE_ROWS = 100_000
MOST_PASSES = 5


@dataclass(eq=False)
class StreamProblem(Problem):
    """A streamed log's problem: estimates from sums over all rows, everything else from a sample."""

    whole: SummedEstimate | None = None
    weights: dict[str, Any] = field(default_factory=dict)

    def logged(self) -> Estimate:
        """The logging policy's own value, over all rows."""
        assert self.whole is not None
        return self.whole

    def run(self, *_: Any) -> Any:
        """Raise: the log is passed once."""
        raise UsageError(
            "a streamed log is not kept, so policies cannot be added later. Name them all in one evaluate()."
        )

    def with_behavior(self, behavior_model: Any) -> Problem:
        """Raise: the log is passed once."""
        raise UsageError(
            f"a streamed log is not kept: call evaluate(…, behavior_model={behavior_model!r}) instead."
        )


def evaluate_stream(
    log: LogScan,
    named: dict[str, Any],
    chosen: Sequence[Estimator],
    reward_model: Any,
    behavior_model: Any,
    plan: FoldPlan,
    extra: Sequence[str],
) -> Evaluation:
    """`evaluate` for a log that streams."""
    for estimator in chosen:
        if estimator.score not in STREAMABLE or estimator.emphasis is not None:
            raise UsageError(
                f"{estimator.name} looks at all scores at once, which a streamed log does not hold. "
                "Streaming serves DM, IPW, SNIPW, DR, DML and SNDR in every split."
            )
    if plan.repeats > 1:
        raise UsageError("repeats= is for logs that compress or fit in memory; this one streams.")
    schema = make_schema(log, plan, tuple(extra))
    fits = fit_nuisances(log, schema, chosen, reward_model, behavior_model)
    task = Task(schema, named, list(chosen), fits.models, reward_model, behavior_model)
    distributed = getattr(log.engine, "score", None)
    if distributed is None:
        part, sample = _passes_here(log, task)
    else:
        part, sample = distributed(log, task)
    return finish(log, task, part, sample, tuple(fits.notes))


def passes(task: Task, one_pass: Callable[[dict[Key, list[float]]], Part]) -> Part:
    """Pass over the log until every mean that a score asks for is the whole log's."""
    known: dict[Key, list[float]] = {}
    again = any(e.score in WITH_MEANS for e in task.estimators)
    for _ in range(MOST_PASSES):
        total = one_pass(known)
        found = means_of(total)
        if not again or _settled(found, known):
            return total
        known = found
    raise AssertionError("the means of a self-normalized score did not settle.")


def _settled(found: dict[Key, list[float]], known: dict[Key, list[float]]) -> bool:
    """Whether a pass found the means it was given (to rounding: engines may sum in any order)."""
    return known.keys() == found.keys() and all(
        len(found[key]) == len(known[key])
        and np.allclose(found[key], known[key], rtol=1e-13, atol=0.0, equal_nan=True)
        for key in found
    )


def _passes_here(log: LogScan, task: Task) -> tuple[Part, Any]:
    """Pass over chunks in this process; predictions of the first pass are spilled for the next."""
    again = any(e.score in WITH_MEANS for e in task.estimators)
    spilled: dict[int, Path] = {}
    sample: list[Any] = []

    def one_pass(known: dict[Key, list[float]]) -> Part:
        total: Part | None = None
        for table, first in chunks(log, task.schema):
            kept = _thaw(spilled[first]) if first in spilled else None
            part, problem = score_chunk(task, table, first, known, kept)
            if not known:
                sample.append(drawn(table, first, log.n, task.schema.plan.seed))
                if again:
                    spilled[first] = log.engine.workspace.path(".npz")
                    _freeze(spilled[first], problem._kept)  # noqa: SLF001
            total = part if total is None else total + part
            log.report("score", float(total.rows[0]) / log.n)
        assert total is not None
        return total

    try:
        return passes(task, one_pass), _concat(sample)
    finally:
        for path in spilled.values():
            path.unlink(missing_ok=True)


def means_of(part: Part) -> dict[Key, list[float]]:
    """The whole log's means, in the order that scores asked for them."""
    return {
        key: [total / mass if mass else math.nan for total, mass in sums]
        for key, sums in part.means.items()
    }


def drawn(table: Any, first: int, n: int, seed: int) -> Any:
    """About SAMPLE_ROWS of all n rows, by a hash of their ids, with the ids that folds need."""
    import pyarrow as pa

    named = "id" in table.column_names
    ids = table["id"].to_numpy() if named else np.arange(first, first + table.num_rows)
    if not named:
        table = table.append_column("id", pa.array(ids))
    if n <= SAMPLE_ROWS:
        return table
    kept = hash_arithmetic(ids, RESOLUTION, hash_constants(seed, 0x5A3)) < RESOLUTION * (
        SAMPLE_ROWS / n
    )
    return table.filter(pa.array(kept))


def sample_filter(rows: Any, n: int, seed: int) -> Any:
    """The rows that `drawn` keeps, as a query."""
    if n <= SAMPLE_ROWS:
        return rows
    number = hash_arithmetic(rows.id, RESOLUTION, hash_constants(seed, 0x5A3))
    return rows.filter(number < int(np.ceil(RESOLUTION * (SAMPLE_ROWS / n))))


def _concat(tables: list[Any]) -> Any:
    import pyarrow as pa

    return pa.concat_tables(tables)


def finish(log: LogScan, task: Task, part: Part, sample: Any, notes: tuple[str, ...]) -> Evaluation:
    """Estimates from the sums, and a problem of the sample for diagnostics."""
    keys = task.keys
    logged_at, all_at, half_at = (len(keys) + i for i in range(3))
    by_name = {e.name: e for e in task.estimators}
    estimates: dict[Key, Estimate] = {}
    for at, (policy, name) in enumerate(keys):
        half = by_name[name].split == "half"
        said = notes
        overlap = part.weights.get(policy)
        if "behavior" in by_name[name].needs and overlap is not None and overlap[4] == 0:
            said = (*notes, NO_OVERLAP)
        estimate = SummedEstimate.of_entry(
            part.moments,
            at,
            half_at if half else all_at,
            int(part.rows[1] if half else part.rows[0]),
            f"{policy} ({name})",
            said,
        )
        if said is not notes:
            object.__setattr__(estimate, "level", math.nan)
        estimates[policy, name] = estimate
    size = int(part.rows[0])
    logged = SummedEstimate.of_entry(part.moments, logged_at, all_at, size, "logged")
    seen = chunk_problem(task, sample, 0)
    problem = StreamProblem(
        seen.log,
        seen.folds,
        seen.units,
        1.0,
        seen.nuisances,
        whole=logged,
        weights={name: _weight_summary(sums) for name, sums in part.weights.items()},
    )
    resolved = {n: targets.resolve(n, p, seen.log) for n, p in task.policies.items()}
    settings = {
        "estimators": [e.name for e in task.estimators],
        "reward_model": _describe(task.reward_model, "auto"),
        "behavior_model": _describe(
            task.behavior_model,
            "auto" if log.roles.propensity is None else "logged propensities",
        ),
        "folds": task.schema.plan.k,
        "repeats": 1,
        "discount": 1.0,
        "seed": task.schema.plan.seed,
        "engine": {
            "engine": log.engine.name,
            "way": "stream",
            "rows": log.n,
            "held": seen.log.rows,
            "diagnostics": f"on {seen.log.rows:,} rows drawn by a hash",
        },
    }
    return Evaluation(problem, resolved, list(task.estimators), estimates, settings)


def _describe(model: Any, default: str) -> str:
    return default if model is None else str(model).split("\n", maxsplit=1)[0][:200]


def _weight_summary(sums: Any) -> dict[str, float]:
    """Mean, effective sample size, largest weight and its share, and the share of rows with a weight."""
    n, total, squares, largest, positive = (float(x) for x in sums)
    return {
        "n": n,
        "mean": total / n,
        "effective_size": total * total / squares if squares else 0.0,
        "largest": largest,
        "largest_share": largest / total if total else 0.0,
        "overlap": positive / n,
    }


def _freeze(path: Path, kept: dict[tuple[Any, ...], Any]) -> None:
    """Write a chunk's predictions to disk."""
    arrays: dict[str, Any] = {}
    for key, value in kept.items():
        if key[0] == "pi_e":
            arrays[f"pi_e|{key[1]}"] = value
        elif key[0] == "pi_b":
            arrays[f"pi_b|{key[1]}"] = value.probability
        elif key[0] == "values":
            for name, both in value.items():
                arrays[f"q|{key[1]}"] = both.q
                arrays[f"v|{key[1]}|{name}"] = both.v
    np.savez(path, **arrays)


def _thaw(path: Path) -> dict[tuple[Any, ...], Any]:
    """Read a chunk's predictions back, under the keys `Problem` keeps them by."""
    kept: dict[tuple[Any, ...], Any] = {}
    with np.load(path) as arrays:
        for label in arrays.files:
            kind, _, rest = label.partition("|")
            if kind == "pi_e":
                kept["pi_e", rest] = arrays[label]
            elif kind == "pi_b":
                kept["pi_b", rest, 0] = Behavior(arrays[label])
            elif kind == "v":
                split, _, name = rest.partition("|")
                values = kept.setdefault(("values", split, 0), {})
                values[name] = Values(arrays[f"q|{split}"], arrays[label])
    return kept
