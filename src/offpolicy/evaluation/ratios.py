"""What a user passes as ``ratio=``: whose probabilities the importance weights are ratios of.

"auto" takes ratios of cells where they make an estimate clearly more precise and nothing speaks against them: not
where the paired test of both (`offpolicy.trust.coarse`) rejects them for any policy, and not for the sake of a few
percent of a standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.evaluation.pipeline import Pipeline
from offpolicy.inference.score_table import ScoreTable
from offpolicy.models.behavior.logging_policy import LoggingPolicy
from offpolicy.policies.coarse import Cells, CoarseRatio
from offpolicy.policies.kernel import KernelRatio
from offpolicy.scores import catalog
from offpolicy.trust.coarse import compared
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.evaluation.source import Source
    from offpolicy.logs.log import Log, Scan
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator

EXACT = "exact"
AUTO = "auto"
LEVEL = 0.05  # of the test under "auto": to reject a sound coarse ratio costs precision only
GAIN = 0.9  # ratio of standard errors above which cells are not worth their assumption


def is_auto(ratio: Any) -> bool:
    """Whether the log is to decide."""
    return isinstance(ratio, str) and ratio == AUTO


def as_ratio(ratio: Any, log: Log | Scan) -> Any:
    """Resolve ``ratio=`` against a log: None for the ratio of the logged action itself, else what the object makes.

    An object with ``for_log(log)`` is asked once, before any model is fitted, and refuses logs it is not for.
    """
    if isinstance(ratio, str) and ratio in {EXACT, AUTO} and log.is_continuous:
        # A policy that names a number has no density by itself: a kernel gives it one.
        return KernelRatio()
    if isinstance(ratio, str) and ratio == EXACT:
        return None
    if is_auto(ratio):
        ratio = CoarseRatio()
    if isinstance(ratio, type):
        raise UsageError(
            f"ratio= is the class {ratio.__name__}. Give an instance: {ratio.__name__}(…)."
        )
    if hasattr(ratio, "for_log"):
        made = ratio.for_log(log)
        # One action per cell is the exact ratio.
        return None if isinstance(made, Cells) and made.single.all() else made
    raise UsageError(
        f"ratio= must be 'exact', 'auto', op.CoarseRatio([…]) or op.KernelRatio(…). Got {ratio!r} instead."
    )


@dataclass(frozen=True)
class Choice:
    """Which ratio the log decided for, and why."""

    coarse: bool
    why: str


def need_exact(log: Log, behavior_model: Any) -> None:
    """Refuse "auto" where there is no exact ratio to compare with."""
    given = isinstance(behavior_model, np.ndarray | LoggingPolicy)
    if not given and not (behavior_model is None and log.has_propensity):
        raise UsageError(
            "ratio='auto' compares ratios of cells with those of actions, which need the propensity of the logged "
            "action. Name the cells (op.CoarseRatio([…])) or say ratio='exact'."
        )


def chosen(
    source: Source, targets: Mapping[str, Target], estimators: Sequence[Estimator]
) -> Choice:
    """Compare both ratios on every policy, by the doubly robust score where a reward model is fitted at all."""
    modeled = any("value" in e.needs for e in estimators)
    probe = catalog.named("DML" if modeled else "IPW")
    everyone = list(targets.values())
    source.prepare(everyone, [probe])
    problem = Pipeline(source, ScoreTable(source.units()), 1.0)
    gains = []
    for name, target in targets.items():
        source.predict(target, probe, 0, everyone)
        both = compared(View.of(problem, target))
        if both is None or not both.possible:
            gains.append(0.0)
            continue
        if both.p < LEVEL / len(targets):
            why = (
                f"ratios of cells move the value of {name!r} by {both.gap:+.3g} (p = {both.p:.2g})"
            )
            return Choice(False, why)
        gains.append(both.coarse / both.exact if both.exact > 0 else 1.0)
    if min(gains) > GAIN:
        return Choice(False, f"ratios of cells would leave {100 * min(gains):.3g}% of the error")
    if max(gains) == 0:
        return Choice(True, "the exact weights carry too little to compare with")
    return Choice(
        True, f"the test does not object, and {100 * max(gains):.3g}% of the error are left"
    )


def described(ratio: Any) -> str:
    """A ratio in the settings of a result."""
    return ratio if isinstance(ratio, str) else repr(ratio)
