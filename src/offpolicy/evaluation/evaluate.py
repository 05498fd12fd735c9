"""`evaluate`: log → folds → models → scores → estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._threads import prepare_threads
from offpolicy.errors import DataError, UsageError
from offpolicy.evaluation import ratios
from offpolicy.evaluation.bandwidths import bandwidths_of, smoothed
from offpolicy.evaluation.in_blocks import InBlocks
from offpolicy.evaluation.memory import InMemory
from offpolicy.evaluation.metrics import Asked
from offpolicy.evaluation.pipeline import Pipeline
from offpolicy.evaluation.ratios import (
    EXACT,
    as_ratio,
    described,
    is_auto,
    need_exact,
)
from offpolicy.evaluation.result import Evaluation, describe
from offpolicy.evaluation.source import Specs
from offpolicy.evaluation.streamed import Streamed
from offpolicy.inference.score_table import ScoreTable
from offpolicy.logs.outcome import settle
from offpolicy.models.behavior.logging_policy import as_logging_policy
from offpolicy.policies import target as targets
from offpolicy.policies.coarse import CoarseRatio
from offpolicy.policies.learned import aimed
from offpolicy.scores import catalog
from offpolicy.splits.folds import Folds, KFold, Plan
from offpolicy.splits.hashing import DEFAULT_SEED
from offpolicy.trust.assumption import check_declarations, check_learned_elsewhere
from offpolicy.trust.slots_choice import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array
    from offpolicy.evaluation.source import Source
    from offpolicy.logs.log import BlockedLog, Log, Scan
    from offpolicy.logs.slates import Slates
    from offpolicy.scores.catalog import Estimator

NUMBER = int | float | np.integer | np.floating


@checks_arguments
def evaluate(
    log: Log | Scan,
    policies: Any,
    *,
    estimators: Any = None,
    reward_model: Any = None,
    value_model: Any = None,
    behavior_model: Any = None,
    ratio_model: Any = None,
    ratio: Any = "exact",
    folds: int | KFold | Array = 2,
    repeats: int = 1,
    discount: float = 1.0,
    horizon: int | None = None,
    seed: int = DEFAULT_SEED,
    n_jobs: int | None = None,
    minimize: bool | str | Sequence[str] = False,
    average: Literal["units", "folds"] = "units",
    randomized: bool = False,
    gamma: float | None = None,
    learned_elsewhere: bool | str | Sequence[str] = False,
) -> Evaluation:
    """Estimate what policies would have earned, from a log of another policy.

    Parameters
    ----------
    log : BanditLog, Trajectories, Slates, or what `offpolicy.scan` gives
        What was logged.
    policies : policy or {name: policy}
        An object with ``probabilities(context)``, a callable giving probabilities or one label per row, a
        fitted classifier, an agent with ``predict``, a torch module giving logits, a mapping from action to
        probability, an (n, K) array, or words: a column of the frame, "uniform", "always:x". An unfitted
        scikit-learn estimator is a model of the reward that is refitted out of fold (`policies.CrossFitted`).
    estimators : list of names or `Estimator` objects, optional
        Default: the recommended "auto" beside DML, SNDR, SNIPW, IPW and DM.
    reward_model : learner, "auto", or (n, K) array, optional
        Bandit logs: μ(s, a). Any scikit-learn regressor or classifier; ``{metric: learner or array}`` where metrics
        need different ones.
    value_model : value model, regressor, (steps, K) array or {policy: array}, optional
        Trajectories: {q_t}. `Tabular`, `FittedQ`, `ModelBased`, `TorchValue`; default: `Tabular()` for
        discrete states, else `FittedQ()`. ``{metric: …}`` for a log with several.
    behavior_model : classifier, "shares", "auto", (n, K) array, policy, or None
        None uses the logged propensities exactly; without them the default model is fitted. A policy is the logging
        policy itself, asked block by block.
    ratio_model : MarginalRatio, (steps,) array or {policy: array}, optional
        Trajectories: ratio of state-action marginals, for DRL. Arrays of policies and models have one row per
        row of the log: for logs read from a frame, a row of that frame, in its order.
    ratio : "exact", `CoarseRatio` or "auto"
        Whose probabilities the importance weights are ratios of: those of the logged action, or of the cell of
        actions with the same features (for logs with ``action_features=``). "auto" takes cells of all features where
        they make estimates more precise and a paired test against the exact ratio does not object.
    folds : int, KFold, or labels
        Number of folds for cross-fitting, or one label per unit (episodes of a frame: in sorted order). The
        fold of a unit is a hash of its id, or of its number, and the seed.
    repeats : int
        How often to redraw the folds. Scores are averaged over repetitions unit by unit; the estimate and its
        standard error are those of the averaged scores.
    discount : float
        γ, for trajectories.
    horizon : int, optional
        Trajectories: asks for the value of up to so many steps. Default: what the ends of the logged episodes say
        (see `Trajectories`). The settings of the result, its text, JSON and report say which value it is.
    seed : int
        Every random choice follows from it, on any number of workers.
    n_jobs : int, optional
        Threads that fit models while scores are made; −1 takes one for each core. None fits and scores in
        turn. The numbers are the same.
    minimize : bool or names of metrics
        Whether a lower value is better, as for costs, or the metrics of which less is better. The numbers are the
        same; what is called better, best and worth a test is not.
    average : {"units", "folds"}
        Cross-fitted estimates are the mean over all units; "folds" takes the mean over folds of their means, as the
        paper writes it. The two are the same where folds have the same size.
    randomized : bool
        Declares that actions were drawn at random given the context columns, where no propensities were logged.
        Without it, or ``gamma``, no verdict on fitted propensities is better than "caution".
    gamma : float, optional
        The factor Γ ≥ 1 by which hidden causes may change the odds of an action, where no propensities were logged:
        the verdict then has to hold for all of them.
    learned_elsewhere : bool or names of policies
        Declares that policies (True: all) were not learned from these rows. A policy that does better here than a
        copy of it that has not seen the rows is refused without it.

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
    _check_arguments(log, reward_model, value_model, ratio_model, discount, seed, n_jobs)
    bandit = log.kind == "bandit"
    asked = Asked.of(
        log.metrics,
        minimize,
        reward_model if bandit else value_model,
        "reward_model" if bandit else "value_model",
    )
    if average not in {"units", "folds"}:
        raise UsageError(f"average= must be 'units' or 'folds'. Got {average!r} instead.")
    check_declarations(log, randomized, gamma)
    prepare_threads()
    named = aimed(targets.adapted_policies(policies, log), lowest=asked.names[0] in asked.minimized)
    elsewhere = check_learned_elsewhere(learned_elsewhere, list(named))
    labels = getattr(log, "fold", None), getattr(getattr(log, "roles", None), "fold", None)
    drawn = isinstance(folds, int | np.integer | KFold) and all(own is None for own in labels)

    def redraw(
        more: int,
        names: Sequence[Any],
        others: Mapping[str, Any],
        metric: str | None = None,
        other_seed: int | None = None,
    ) -> Evaluation:
        """The same call with folds drawn ``more`` times, for some estimators and these policies."""
        return evaluate(
            original if metric is None else original.with_reward(metric),
            {**(policies if isinstance(policies, Mapping) else {"policy": policies}), **others},
            estimators=names,
            reward_model=reward_model,
            value_model=value_model,
            behavior_model=behavior_model,
            ratio_model=ratio_model,
            ratio=decided,
            folds=folds,
            repeats=more,
            discount=discount,
            horizon=horizon,
            seed=seed if other_seed is None else other_seed,
            n_jobs=n_jobs,
            minimize=minimize,
            average=average,
            randomized=randomized,
            gamma=gamma,
            learned_elsewhere=learned_elsewhere,
        )

    original = log
    plan = Plan.of(folds, repeats, seed)
    weighed, given = as_ratio(ratio, log), as_logging_policy(behavior_model, log)
    if horizon is not None:
        log = log.up_to(horizon)
    model = reward_model if bandit else value_model
    log = cast("Log", log.opened(plan, named, model, given))
    if log.undecided:
        log = settled(cast("Slates", log), folds, seed)
    named_estimators = catalog.sensible(log) if estimators is None else estimators
    chosen = catalog.for_log(catalog.resolve(named_estimators, log.kind), log)
    model = asked.models[asked.names[0]]
    specs = Specs(
        model if bandit else None,
        None if bandit else model,
        given,
        ratio_model,
        seed,
        n_jobs,
        float(discount),
        weighed,
    )
    if log.in_memory:
        drawn_folds = partial(_folds, log, plan, folds)
        log = cast("Log", settle(log, drawn_folds, asked.models, seed))
    source = _source(log, plan, folds, specs)
    named = smoothed(source, named, chosen)
    resolved = source.resolve(named)
    chosen = _for_targets(resolved, chosen, asked=estimators is not None)
    choice, decided = None, ratio
    if is_auto(ratio):
        decided = EXACT
        if specs.cells is not None:
            need_exact(log, given)
            choice = ratios.chosen(source, resolved, chosen)
            decided = CoarseRatio() if choice.coarse else EXACT
            source = source if choice.coarse else source.with_exact_ratio()
    source.prepare(list(resolved.values()), chosen)
    settings = {
        "estimators": [e.name for e in chosen],
        "reward_model": describe(model) if bandit else None,
        "value_model": None if bandit else describe(model),
        "behavior_model": describe(behavior_model, log),
        "ratio": described(decided),
        **({} if choice is None else {"ratio_chosen": choice.why}),
        "folds": source.folds.k,
        "repeats": source.folds.repeats,
        "repeats_rule": "mean of the scores over repetitions; standard error of that mean",
        "discount": discount,
        **_estimand(log, float(discount)),
        "seed": seed,
        "minimize": asked.names[0] in asked.minimized,
        **({"metric": asked.names[0]} if asked.are_several else {}),
        "average": average,
        "randomized": randomized,
        "gamma": gamma,
        **({"learned_elsewhere": elsewhere} if elsewhere else {}),
        **bandwidths_of(named),
        **log.about,
    }
    table = ScoreTable(source.units())
    pipeline = Pipeline(
        source,
        table,
        float(discount),
        fold_means=average == "folds",
        metric=asked.names[0] if asked.are_several else "",
    )
    estimates = pipeline.run(resolved, chosen)
    return Evaluation(
        pipeline,
        resolved,
        chosen,
        estimates,
        settings,
        asked,
        redraw=redraw if drawn else None,
    )


def _for_targets(
    resolved: Mapping[str, Any], chosen: list[Estimator], *, asked: bool
) -> list[Estimator]:
    """The estimators that policies allow: those known for the logged actions only have weights and no v."""
    partial = next((name for name, target in resolved.items() if target.shown is not None), None)
    modeled = [e.name for e in chosen if "value" in e.needs]
    if partial is None or not modeled:
        return chosen
    if asked:
        raise UsageError(
            f"policy {partial!r} is known for the shown items only, and {', '.join(modeled)} average a model over all "
            "that a policy may show. Use estimators such as IPW and SNIPW, or give the probabilities of all items."
        )
    return [e for e in chosen if "value" not in e.needs]


def _estimand(log: Log, discount: float) -> dict[str, Any]:
    """Which value a log of episodes speaks of, for the settings of the result."""
    if log.kind == "bandit":
        return {}
    limit = None if log.unbounded else log.horizon
    return {"horizon": limit, "estimand": log.estimand(discount)}


def _source(log: Log, plan: Plan, folds: Any, specs: Specs) -> Source:
    """Where the predictions of a log come from."""
    if log.in_memory:
        return InMemory.of(log, _folds(log, plan, folds), specs)
    if log.kind == "bandit":
        return Streamed.of(log, plan, specs)
    return InBlocks.of(cast("BlockedLog", log), _folds(log, plan, folds), specs)


def _folds(log: Log, plan: Plan, asked: Any) -> Folds:
    """Folds of a log in memory: its own labels, the ones given, or drawn."""
    drawn = isinstance(asked, int | np.integer | KFold)
    labels = log.fold if drawn else None
    order = log.row_order if log.kind == "bandit" else None
    if not drawn and order is not None and plan.labels is not None:
        plan = replace(plan, labels=plan.labels[:, order])  # given in the order of the frame
    if labels is not None and plan.repeats not in {1, len(labels)}:
        raise UsageError(
            f"repeats={plan.repeats}, but the log carries one column of fold labels. Pass folds= as a "
            "(repeats, n) array of labels, or build the log without fold=."
        )
    counted = float(log.count.max()) > 1
    if counted and drawn and labels is None:
        raise DataError(
            "rows of this log stand for several impressions, which folds drawn now would keep together. "
            "Compress it with fold labels (fold=…), or pass folds= as labels."
        )
    strata = None
    if plan.stratify is not None:
        if log.kind != "bandit":
            raise UsageError("stratify= is for bandit logs.")
        if log.has_clusters:
            raise UsageError(
                "folds cannot be stratified and clustered at once. Leave stratify out."
            )
        if log.is_continuous and plan.stratify == "action":
            raise UsageError("stratify='action' is for actions that are labels.")
        by = log.action if plan.stratify == "action" else log.reward
        strata = np.unique(by, return_inverse=True)[1]
    return plan.folds(
        log.units,
        labels=labels,
        half=None if labels is None else log.half,
        cluster=log.cluster if log.has_clusters else None,
        strata=strata,
    )


def _check_arguments(
    log: Log | Scan,
    reward_model: Any,
    value_model: Any,
    ratio_model: Any,
    discount: Any,
    seed: Any,
    n_jobs: Any,
) -> None:
    if getattr(log, "kind", None) not in {"bandit", "trajectories", "slates"}:
        raise UsageError(
            f"evaluate() takes a BanditLog, Trajectories or Slates. Got {type(log).__name__}. Build one with "
            "BanditLog.from_frame(frame, context=…, action=…, reward=…)."
        )
    if log.kind == "bandit" and value_model is not None:
        raise UsageError("value_model= is for trajectories; a bandit log takes reward_model=.")
    if log.kind != "bandit" and reward_model is not None:
        raise UsageError(f"reward_model= is for bandit logs; {log.kind} take value_model=.")
    if log.kind != "trajectories" and ratio_model is not None:
        raise UsageError(
            "ratio_model= is for trajectories: only there does one decision lead to the next."
        )
    if isinstance(discount, bool) or not isinstance(discount, NUMBER) or not 0 <= discount <= 1:
        raise UsageError(f"discount= must be in the range [0, 1]. Got {discount!r} instead.")
    if log.kind == "slates" and discount != 1:
        raise UsageError(
            f"discount={discount!r} is for episodes. Where lower slots count for less, multiply their rewards."
        )
    if n_jobs is not None and (
        isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or not n_jobs
    ):
        raise UsageError(f"n_jobs= must be a non-zero int or None. Got {n_jobs!r} instead.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed= must be an int of at least 0. Got {seed!r} instead.")
