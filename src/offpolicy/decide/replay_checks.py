"""Checks of a replay: whether learners started blank, settled and took enough steps, and whether logging changed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from offpolicy.trust.check import Check, Threshold, Topic, declare
from offpolicy.trust.finding import Finding, judged

if TYPE_CHECKING:
    from offpolicy.trust.view import View

FEWEST_STEPS = 30  # accepted rows below which a replay says nothing about how a learner learns
STEADY = 0.2  # mean distance of a policy from the one of the block before, from which on it is still changing


def _made(view: View) -> Any:
    problem: Any = view.problem
    return problem.store.replayed


def _order(view: View) -> Finding:
    name = view.target.name
    trained = name in _made(view).trained
    said = (
        "the learner's policy already differed between contexts before the first block, so it was trained before. "
        "If that was on these rows, it has seen the future."
        if trained
        else "the learner started untrained and saw each reward only once it was known."
    )
    return judged("learner_order", float(trained), said)


def _stability(view: View) -> Finding:
    moved = _made(view).moved.get(view.target.name, math.nan)
    return judged(
        "learner_stability",
        moved,
        f"between the last two blocks the policy changed {moved:.1%} of its decisions. The value is the mean over all "
        "blocks, not that of the last policy."
        if moved > STEADY
        else f"between the last two blocks the policy changed {moved:.1%} of its decisions.",
    )


def _steps(view: View) -> Finding:
    steps, rows = _made(view).steps[view.target.name], len(_made(view).block)
    return judged(
        "replay_steps", float(steps), f"the learner made {steps:,} of its own decisions out of {rows:,} rows."
    )


def _changed(view: View) -> Finding:
    """Shares of actions by block: p-value of a chi-squared test."""
    batch, action = np.asarray(view.log.batch), np.asarray(view.log.action)
    table = np.zeros((int(batch.max()) + 1, len(view.log.actions)))
    np.add.at(table, (batch, action), 1.0)
    table = table[:, table.sum(axis=0) > 0]
    p = float(stats.chi2_contingency(table).pvalue) if min(table.shape) > 1 else 1.0
    said = "shares of actions are equal in all blocks." if p >= 0.001 else "shares of actions differ between blocks."
    return judged("logging_change", p, said)


def _learns(view: Any) -> bool:
    """Whether policies of the evaluation are learners; checks of logs alone have no problem to ask."""
    return _made(view) is not None


declare(
    Check(
        "learner_order",
        Threshold(
            0.5, math.inf, "above",
            "Give an untrained learner, or make sure that it was trained on other rows, which learned_from_log checks.",
        ),
        policy=_order,
        where=_learns,
        topic=Topic("The learner was trained before the first block.", "The learner never sees the future."),
        value="1 where the learner was trained before the first block",
        part_of="learner",
    ),
    Check(
        "learner_stability",
        Threshold(
            STEADY, math.inf, "above",
            "Use more blocks after it settles, or look at ev.learning_curve(): its last blocks are closest to the "
            "policy you would deploy.",
            advice=True,
        ),
        policy=_stability,
        where=lambda view: _learns(view) and bool(_made(view).moved),
        topic=Topic("The learner was still changing at the end."),
        value="mean distance between the policies of the last two blocks",
        part_of="learner",
    ),
    Check(
        "replay_steps",
        Threshold(
            100.0, float(FEWEST_STEPS), "below",
            "Log with more exploration (accept= is at most the smallest propensity), use a longer log, or "
            "method='progressive', which learns from every row.",
            decides=True,
        ),
        policy=_steps,
        where=lambda view: _learns(view) and _made(view).method == "rejection",
        topic=Topic("The learner made few of its own decisions."),
        value="decisions that a learner made by rejection",
        part_of="learner",
    ),
    Check(
        "logging_change",
        Threshold(
            0.001, -math.inf, "below",
            "Log the propensities, or add the block to the context so the fitted π_b can change.",
            false_alarms=0.001,
        ),
        policy=_changed,
        where=_learns,
        applies=lambda view: (
            "propensities were logged row by row, which allows for a logging policy that learns."
            if view.log.has_propensity
            else ""
        ),
        topic=Topic("The logging policy seems to have changed over time."),
        value="p-value: shares of actions by block, where propensities were not logged",
        part_of="behavior_model",
    ),
)  # fmt: skip
