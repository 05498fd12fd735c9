"""`evaluate`: the only orchestrator. Log → folds → nuisances → scores → estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, UsageError
from offpolicy.evaluation.pipeline import Problem
from offpolicy.evaluation.result import Evaluation, describe
from offpolicy.inference.estimate import Units
from offpolicy.logs.layout import in_log_order
from offpolicy.models.fitting.crossfit import CrossFit
from offpolicy.models.fitting.trajectory_fit import TrajectoryFit
from offpolicy.policies import target as targets
from offpolicy.scores import catalog as grid
from offpolicy.splits.folds import Folds, KFold, make_folds

if TYPE_CHECKING:
    from offpolicy._arrays import Array

NUMBER = int | float | np.integer | np.floating


def evaluate(
    log: Any,
    policies: Any,
    *,
    estimators: Any = None,
    reward_model: Any = None,
    value_model: Any = None,
    behavior_model: Any = None,
    ratio_model: Any = None,
    folds: int | KFold | Array = 2,
    repeats: int = 1,
    discount: float = 1.0,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Evaluation:
    """Estimate what policies would have earned, from a log of another policy.

    Parameters
    ----------
    log : BanditLog or Trajectories
        What was logged.
    policies : policy or {name: policy}
        An object with ``probabilities(context)``, a callable giving probabilities or one label per row, an
        (n, K) array, or the name of an action column (or of K probability columns) of the frame.
    estimators : list of names or `Estimator` objects, optional
        Default: the recommended "auto" beside DML, SNDR-cf, SNIPW, IPW and DM.
    reward_model : learner, "auto", or (n, K) array, optional
        Bandit logs: μ(s, a). Any scikit-learn regressor or classifier.
    value_model : value model, regressor, (steps, K) array or {policy: array}, optional
        Trajectories: {q_t}. `Tabular`, `FittedQ`, `ModelBased`, `TorchValue`; default: `Tabular()` for
        discrete states, else `FittedQ()`.
    behavior_model : classifier, "shares", "auto", (n, K) array, or None
        None uses the logged propensities exactly; without them the default model is fitted.
    ratio_model : MarginalRatio, (steps,) array or {policy: array}, optional
        Trajectories: ratio of state-action marginals, for DRL. Arrays of policies and models have one row a
        row of the log: for episodes read from a frame, a row of that frame, in its order.
    folds : int, KFold, or labels
        Number of folds for cross-fitting, or one label a unit (episodes of a frame: in sorted order).
    repeats : int
        How often to redraw the folds. The estimate is the mean over repetitions and its variance the mean
        of (standard error² + (estimate − mean)²).
    discount : float
        γ, for trajectories.
    seed : int
        Every random choice follows from it, on any number of workers.
    n_jobs : int, optional
        Threads that fit models while scores are made; −1 takes one for each core. None fits and scores in
        turn. The numbers are the same.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> a = rng.integers(2, size=500)
    >>> r = (x > 0) * a + rng.normal(size=500)
    >>> log = op.BanditLog.from_arrays(x, a, r, np.full(500, 0.5))
    >>> ev = op.evaluate(log, lambda x: (x > 0).astype(int), estimators=["DML", "IPW"])
    >>> abs(ev["policy", "DML"].value - 0.5) < 4 * ev["policy", "DML"].std_error
    True
    """
    _check_arguments(log, reward_model, value_model, discount, seed, n_jobs)
    if log.kind == "bandit" and ratio_model is not None:
        raise UsageError("ratio_model= is for trajectories; a bandit log has one decision a unit.")
    if getattr(log, "is_scan", False):
        from offpolicy.engines.run import evaluate_scan

        return evaluate_scan(
            log,
            policies,
            estimators=estimators,
            reward_model=reward_model,
            behavior_model=behavior_model,
            folds=folds,
            repeats=repeats,
            seed=seed,
            n_jobs=n_jobs,
        )
    named = targets.named_policies(policies)
    chosen = grid.resolve(grid.sensible(log) if estimators is None else estimators, log.kind)
    units = Units(
        log.layout.n_units,
        log.count,
        log.weight,
        log.cluster,
        log.batch if log.kind == "bandit" else None,
    )
    splits = _folds(log, folds, repeats, seed)
    if log.kind == "bandit":
        nuisances = CrossFit(
            log, splits, _as_array(reward_model), _as_array(behavior_model), seed, n_jobs
        )
    else:
        nuisances = TrajectoryFit(
            log,
            splits,
            in_log_order(_as_array(value_model), log),
            in_log_order(_as_array(behavior_model), log),
            seed,
            n_jobs,
            discount=float(discount),
            ratio_model=in_log_order(_as_array(ratio_model), log),
        )
    problem = Problem(log, splits, units, float(discount), nuisances)
    settings = {
        "estimators": [e.name for e in chosen],
        "reward_model": describe(reward_model) if log.kind == "bandit" else None,
        "value_model": describe(value_model) if log.kind != "bandit" else None,
        "behavior_model": describe(behavior_model, log),
        "folds": splits.k,
        "repeats": splits.repeats,
        "repeats_rule": "mean; variance = mean(se² + (estimate − mean)²)",
        "discount": discount,
        "seed": seed,
    }
    resolved = {name: targets.resolve(name, policy, log) for name, policy in named.items()}
    nuisances.targets = tuple(resolved.values())
    return Evaluation(problem, resolved, chosen, problem.run(resolved, chosen), settings)


def _as_array(model: Any) -> Any:
    """Nested lists are arrays; everything else is left as it is."""
    return np.asarray(model, dtype=np.float64) if isinstance(model, list | tuple) else model


def _folds(log: Any, folds: Any, repeats: int, seed: int) -> Folds:
    n = log.layout.n_units
    cluster = log.cluster
    if log.fold is not None and isinstance(folds, int | np.integer | KFold):
        if repeats != 1:
            raise UsageError(
                f"repeats={repeats}, but the log carries one column of fold labels. Pass folds= as a "
                "(repeats, n) array of labels, or build the log without fold=."
            )
        return make_folds(n, log.fold, repeats=1, cluster=cluster)
    counted = log.count is not None and float(log.count.max()) > 1
    if counted and isinstance(folds, int | np.integer | KFold):
        raise DataError(
            "rows of this log stand for several impressions, which folds drawn now would keep together. "
            "Compress it with fold labels (fold=…), or pass folds= as labels."
        )
    strata = None
    if isinstance(folds, KFold) and folds.stratify is not None:
        if log.kind != "bandit":
            raise UsageError("stratify= is for bandit logs.")
        strata = (
            log.action
            if folds.stratify == "action"
            else np.unique(log.reward, return_inverse=True)[1]
        )
    return make_folds(n, folds, repeats=repeats, seed=seed, cluster=cluster, strata=strata)


def _check_arguments(
    log: Any, reward_model: Any, value_model: Any, discount: Any, seed: Any, n_jobs: Any
) -> None:
    if getattr(log, "kind", None) not in {"bandit", "trajectories"}:
        raise UsageError(
            f"evaluate() takes a BanditLog or Trajectories. Got {type(log).__name__}. Build one with "
            "BanditLog.from_frame(frame, context=…, action=…, reward=…)."
        )
    if log.kind == "bandit" and value_model is not None:
        raise UsageError("value_model= is for trajectories; a bandit log takes reward_model=.")
    if log.kind == "trajectories" and reward_model is not None:
        raise UsageError("reward_model= is for bandit logs; trajectories take value_model=.")
    if isinstance(discount, bool) or not isinstance(discount, NUMBER) or not 0 <= discount <= 1:
        raise UsageError(f"discount= must be in the range [0, 1]. Got {discount!r} instead.")
    if n_jobs is not None and (
        isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or not n_jobs
    ):
        raise UsageError(f"n_jobs= must be a non-zero int or None. Got {n_jobs!r} instead.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed= must be an int of at least 0. Got {seed!r} instead.")
