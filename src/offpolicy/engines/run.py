"""An evaluation of a scanned log: choose what to bring over, then the ordinary evaluation.

Rows, cells and sums become a `BanditLog`; a log that fits none of these streams in chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.compress import Cells, FoldPlan, TooManyCellsError, compress
from offpolicy.engines.fetch import fetch
from offpolicy.errors import PolicyError, UsageError
from offpolicy.models.rewards.boosted import BoostedReward
from offpolicy.policies import target as targets
from offpolicy.scores import catalog as grid
from offpolicy.scores import formulas as scores
from offpolicy.splits.folds import KFold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.engines.scan import LogScan
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.scores.catalog import Estimator

MANY_REWARDS = 1_000
AFFINE = (
    scores.direct,
    scores.importance_weighted,
    scores.doubly_robust,
    scores.self_normalized,
    scores.self_normalized_dr,
)


def evaluate_scan(
    log: LogScan,
    policies: Any,
    *,
    estimators: Any,
    reward_model: Any,
    behavior_model: Any,
    folds: Any,
    repeats: int,
    seed: int,
    n_jobs: int | None,
) -> Evaluation:
    """`evaluate` for a scanned log; the arguments are its arguments."""
    from offpolicy.evaluation.evaluate import evaluate

    named = targets.named_policies(policies)
    chosen = grid.resolve(grid.DEFAULT[1:] if estimators is None else estimators, "bandit")
    extra = policy_columns(named)
    plan = fold_plan(log, folds, repeats, seed)
    for what, model in (("reward_model", reward_model), ("behavior_model", behavior_model)):
        if isinstance(model, np.ndarray | list | tuple):
            raise UsageError(
                f"{what}= as an array has one row a logged row, which a scanned log does not hold. "
                "Give a model, or load the log with BanditLog.from_frame."
            )
    way, cells = bring(log, plan, extra, chosen, reward_model)
    if cells is None:
        from offpolicy.engines.stream import evaluate_stream

        return evaluate_stream(log, named, chosen, reward_model, behavior_model, plan, extra)
    if estimators is None and way != "sums":
        chosen = grid.resolve(grid.DEFAULT, "bandit")
    log.report("fit", 0.0)
    result = evaluate(
        cells.log,
        policies,
        estimators=chosen,
        reward_model=reward_model,
        behavior_model=behavior_model,
        folds=cells.folds,
        repeats=len(cells.folds),
        seed=seed,
        n_jobs=n_jobs,
    )
    log.report("score", 1.0)
    if way == "sums":
        units = replace(result.problem.units, summed=True)
        result.problem.units = units
        estimates = {key: replace(e, units=units) for key, e in result.estimates.items()}
        result = replace(result, estimates=estimates)
    about = {"engine": log.engine.name, "way": way, "rows": log.n, "held": cells.log.rows}
    return replace(result, settings={**result.settings, "engine": about})


def bring(
    log: LogScan,
    plan: FoldPlan,
    extra: Sequence[str],
    chosen: Sequence[Estimator],
    reward_model: Any,
) -> tuple[str, Cells | None]:
    """The log in the smallest exact form that fits; None when it has to stream."""
    facts, limits, way = log.facts, log.limits, log.way
    widest = max((facts.distinct[name] for name in log.roles.context), default=0)
    if way == "auto" and facts.n <= limits.rows and widest > facts.n / 10:
        way = "rows"
    if way == "rows":
        return "rows", fetch(log.engine, log.table, log.roles, facts, plan, extra=extra)
    if way == "stream" or (way == "auto" and widest > facts.n / 10):
        return "stream", None
    summable = sums_suffice(chosen, reward_model)
    if way == "sums" and not summable:
        raise UsageError(
            "way='sums' serves scores that are affine in the reward (DM, IPW, SNIPW, DR, DML, SNDR) and "
            "least-squares reward models. Use way='cells'."
        )
    tries = ["cells", "sums"] if way == "auto" else [way]
    if way == "auto" and summable and facts.distinct["reward"] > MANY_REWARDS:
        tries = ["sums"]
    log.report("compress", 0.0)
    for each in tries:
        if each == "sums" and not summable:
            continue
        try:
            cells = compress(
                log.engine,
                log.table,
                log.roles,
                facts,
                plan,
                extra=extra,
                sums=each == "sums",
                max_cells=limits.cells,
            )
        except TooManyCellsError:
            if way != "auto":
                raise UsageError(
                    f"the log has more than max_cells={limits.cells:,} cells. Raise it, or use "
                    "way='stream'."
                ) from None
            continue
        log.engine.rest()
        log.report("compress", 1.0)
        return each, cells
    return "stream", None


def sums_suffice(chosen: Sequence[Estimator], reward_model: Any) -> bool:
    """Whether n, Σr and Σr² of a cell are all that scores and models use."""
    squared = (
        reward_model is None or reward_model == "auto" or isinstance(reward_model, BoostedReward)
    )
    kind = type(reward_model).__name__
    return (squared or kind in {"LinearRegression", "Ridge"}) and all(
        e.score in AFFINE and e.emphasis is None for e in chosen
    )


def policy_columns(named: dict[str, Any]) -> list[str]:
    """Columns of the source that policies name; arrays cannot be matched with rows of a scan."""
    found: list[str] = []
    for name, policy in named.items():
        if isinstance(policy, str):
            found.append(policy)
        elif isinstance(policy, list | tuple) and policy and isinstance(policy[0], str):
            found += policy
        elif not (callable(policy) or hasattr(policy, "probabilities")):
            raise PolicyError(
                f"policy {name!r}: an array has one row a logged row, which a scanned log does not hold. "
                "Give a function of the context, or the name of a column."
            )
    return list(dict.fromkeys(found))


def fold_plan(log: LogScan, folds: Any, repeats: int, seed: int) -> FoldPlan:
    """Number of folds, repetitions and seed, for a log whose rows are not held."""
    if isinstance(folds, KFold):
        if folds.stratify is not None:
            raise UsageError(
                "stratify= is for logs in memory; folds of a scan are drawn by a hash."
            )
        folds = folds.k
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise UsageError(
            f"folds= must be an int of at least 2 for a scanned log. Got {folds!r}. Labels of your own "
            "come in a column: scan(…, fold=…)."
        )
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise UsageError(f"repeats= must be an int of at least 1. Got {repeats!r} instead.")
    return FoldPlan(int(folds), 1 if log.roles.fold is not None else repeats, seed)
