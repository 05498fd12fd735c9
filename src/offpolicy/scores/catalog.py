"""The grid: an estimator is a score in a sample split.

A name without a suffix means the split the literature uses: the full sample for all but DML and DRL, which
are cross-fitted by definition. ``-full``, ``-half`` and ``-cf`` ask for another split: ``IPW-cf``,
``SWITCH-cf``, ``DM-cf``; ``DR-cf`` is DML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from offpolicy.errors import UsageError, did_you_mean, first_rows
from offpolicy.scores import formulas as scores
from offpolicy.scores.control_variates import best_combination, optimal_control
from offpolicy.scores.formulas import Scored
from offpolicy.scores.magic import magic
from offpolicy.scores.tuning import tuned_shrinkage, tuned_switch

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.scores.decisions import Decisions
    from offpolicy.splits.folds import Split

Need: TypeAlias = Literal["value", "behavior", "marginal"]


@dataclass(frozen=True, eq=False)
class Estimator:
    """A score in a sample split; write your own score as a function of `Decisions`.

    Parameters
    ----------
    name : str
        What the result is called.
    score : callable
        Takes `Decisions` (arrays ``reward``, ``rho``, ``q``, ``v``, … with one entry a decision) and
        returns one number per unit, whose mean is the estimate.
    split : {"crossfit", "full", "half"}
        On whom the nuisances are fitted and the score is taken.
    needs : set of {"value", "behavior", "marginal"}
        Nuisances the score looks at; those it does not need are not fitted.
    emphasis : {"mrdr"} or None
        Fits the value model with weights that minimize the variance of the score.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> def clipped(d):
    ...     return d.sum(d.gamma * np.minimum(d.rho, 10) * (d.reward - d.q)) + d.v
    >>> op.Estimator("clipped", clipped).split
    'crossfit'
    """

    name: str
    score: Callable[[Decisions], Any]
    split: Split = "crossfit"
    needs: frozenset[Need] = frozenset({"value", "behavior"})
    emphasis: Literal["mrdr"] | None = None
    kinds: frozenset[str] = frozenset({"bandit", "trajectories"})

    def __post_init__(self) -> None:
        if self.split not in {"crossfit", "full", "half"}:
            raise UsageError(
                f"split= must be 'crossfit', 'full' or 'half'. Got {self.split!r} instead."
            )
        if not callable(self.score):
            raise UsageError(f"score= must be a function of Decisions. Got {self.score!r} instead.")
        object.__setattr__(self, "needs", frozenset(self.needs))


BOTH: frozenset[Need] = frozenset({"value", "behavior"})
ALL: frozenset[Need] = frozenset({"value", "behavior", "marginal"})
VALUE: frozenset[Need] = frozenset({"value"})
BEHAVIOR: frozenset[Need] = frozenset({"behavior"})
TRAJECTORIES = frozenset({"trajectories"})

FAMILIES: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator("DM", scores.direct, "full", VALUE),
        Estimator("IPW", scores.importance_weighted, "full", BEHAVIOR),
        Estimator("SNIPW", scores.self_normalized, "full", BEHAVIOR),
        Estimator("DR", scores.doubly_robust, "full", BOTH),
        Estimator("SNDR", scores.self_normalized_dr, "full", BOTH),
        Estimator("SWITCH", tuned_switch, "full", BOTH),
        Estimator("DRos", tuned_shrinkage, "full", BOTH),
        Estimator("MRDR", scores.doubly_robust, "full", BOTH, "mrdr"),
        Estimator("OCV", optimal_control, "crossfit", BOTH),
        Estimator("auto", best_combination, "crossfit", BOTH),
        Estimator("TIS", scores.trajectory_weighted, "full", BEHAVIOR, None, TRAJECTORIES),
        Estimator("WIS", scores.trajectory_normalized, "full", BEHAVIOR, None, TRAJECTORIES),
        Estimator("WDR", scores.self_normalized_dr, "full", BOTH, None, TRAJECTORIES),
        Estimator("MAGIC", magic, "full", BOTH, None, TRAJECTORIES),
        Estimator("DRL", scores.marginalized, "crossfit", ALL, None, TRAJECTORIES),
    )
}
SPECIAL: dict[str, Estimator] = {
    "DML": replace(FAMILIES["DR"], name="DML", split="crossfit"),
}
SUFFIXES: dict[str, Split] = {"-full": "full", "-half": "half", "-cf": "crossfit"}
DEFAULT = ("auto", "DML", "SNDR-cf", "SNIPW", "IPW", "DM")
DEFAULT_SUMMED = DEFAULT[1:]  # what sums of scores suffice for
DEFAULT_TRAJECTORIES = ("auto", "DML", "WDR-cf", "SNIPW", "IPW", "DM")
DEFAULT_DISCRETE = ("auto", "DML", "DRL", "WDR-cf", "SNIPW", "IPW", "DM")


def known_names() -> list[str]:
    """Every name that `named` understands."""
    names = [n for n in FAMILIES if n != "DR"] + list(SPECIAL)
    return [*names, *(f"{n}{s}" for n in FAMILIES for s in SUFFIXES)]


def named(name: str) -> Estimator:
    """Look up an estimator by its exact name.

    >>> named("DML").split, named("DR-half").split, named("IPW").split
    ('crossfit', 'half', 'full')
    """
    if name in SPECIAL:
        return SPECIAL[name]
    if name in FAMILIES and name != "DR":
        return FAMILIES[name]
    for suffix, split in SUFFIXES.items():
        family = name.removesuffix(suffix)
        if name.endswith(suffix) and family in FAMILIES:
            return replace(FAMILIES[family], name=name, split=split)
    raise UsageError(f"no estimator is called {name!r}.{did_you_mean(name, known_names())}")


def sensible(log: Any) -> tuple[str, ...]:
    """Names of the estimators to use when none are asked for."""
    if log.layout.is_single:
        return DEFAULT
    return DEFAULT_DISCRETE if log.is_discrete else DEFAULT_TRAJECTORIES


def resolve(estimators: Any, kind: str) -> list[Estimator]:
    """Names and objects as a list of estimators."""
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    out: list[Estimator] = []
    for entry in estimators:
        chosen = (
            entry
            if isinstance(entry, Estimator)
            else named(entry)
            if isinstance(entry, str)
            else None
        )
        if chosen is None:
            raise UsageError(
                f"estimators= takes names and offpolicy.Estimator objects. Got {entry!r}."
            )
        if kind not in chosen.kinds:
            raise UsageError(f"{chosen.name} is not defined for a {kind} log.")
        if any(e.name == chosen.name for e in out):
            raise UsageError(f"estimators= lists {chosen.name!r} twice. Give each its own name.")
        out.append(chosen)
    if not out:
        raise UsageError("estimators= is empty. Name at least one, or leave it out.")
    return out


def apply(estimator: Estimator, d: Decisions) -> Scored:
    """Scores of one estimator, checked: one finite number per unit, or all NaN when not identified."""
    result = estimator.score(d)
    scored = result if isinstance(result, Scored) else Scored(np.asarray(result, dtype=np.float64))
    if scored.psi.shape != (d.n,):
        raise UsageError(
            f"the score of {estimator.name!r} gave shape {scored.psi.shape} for {d.n} units. "
            "Return one number per unit; sum over steps with d.sum(…)."
        )
    bad = ~np.isfinite(scored.psi)
    if bad.any() and not np.isnan(scored.psi).all():
        raise UsageError(
            f"the score of {estimator.name!r} is not finite in {first_rows(bad, scored.psi)}."
        )
    return scored
