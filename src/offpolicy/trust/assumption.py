"""What a number rests on where propensities were not logged: the sentence, and what makes it more than a hope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.figures import level_text
from offpolicy.logs.outcome import settled_of
from offpolicy.trust.confounding import Sensitivity
from offpolicy.trust.ratios import COARSE as RATIO_CHECK
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from offpolicy.logs.log import Log, Scan
    from offpolicy.logs.outcome import Settled
    from offpolicy.trust.check import Answer

ASSUMES = "assumes that nothing outside the context columns affected both the action and the reward"
DECLARED = "relies on your statement that actions were drawn at random given the context columns"
GIVEN = "assumes the given propensities are the ones actually used"
ACCEPTED = "assumes that no unrecorded cause changes the odds of an action by more than a factor of {:g}"
COARSE = "assumes that actions of one cell (same {}; {}) earn the same, apart from what the reward model predicts"
UNSEEN = "assumes that the policy was not learned from these rows"
KEPT = "that no row is missing because of its reward"
ELSEWHERE = "relies on your statement that the policy was not learned from these rows"
UNTESTED = (
    "Whether cells of actions are fine enough could not be tested, because the exact weights are unknown or have too "
    "little information. The estimate {}."
)
OF_CELLS = "Only the logged action's probability is known, so the probabilities of cells were fitted"
REMEDY = "Log propensities, or pass randomized=True if actions were drawn at random given these columns"
BOUND = ", or accept a bound on unrecorded causes with gamma="


def remedy_of(log: Log) -> str:
    """What would support the number: bounds on unrecorded causes are for single decisions among labels."""
    bounded = log.unit_kind.decides_once and log.space.finite
    return f"{REMEDY}{BOUND if bounded else ''}."


def assumption(ev: Answer) -> str:
    """What the numbers of an evaluation assume; empty where propensities were logged, and used action by action."""
    seen = [own.about["assumes"] for own in outcomes_of(ev)]
    return " and ".join(part for part in (of_propensities(ev), of_cells(ev), *seen) if part)


def outcomes_of(ev: Answer) -> list[Settled]:
    """Metrics of this evaluation that are seen in part."""
    return settled_of(ev.problem.log, ev.settings.get("weights") or [ev.metric_name])


def of_cells(ev: Answer) -> str:
    """What ratios of cells assume; empty where ratios are of actions."""
    cells = ev.problem.cells
    if cells is None:
        return ""
    return COARSE.format(", ".join(cells.features), f"{cells.n:,} cells of {len(cells.code):,} actions")


def of_propensities(ev: Answer) -> str:
    """What the propensities assume; empty where they were logged and used."""
    if ev.problem.weights_known:
        return ""
    if ev.settings.get("randomized"):
        return DECLARED
    gamma = ev.settings.get("gamma")
    if gamma is not None:
        return ACCEPTED.format(gamma)
    return GIVEN if ev.problem.behavior_given else ASSUMES


def of_policy(ev: Answer, policy: str) -> str:
    """What a number assumes of the policy itself."""
    return ELSEWHERE if policy in ev.settings.get("learned_elsewhere", ()) else UNSEEN


def of_policy_and_rows(ev: Answer, policy: str) -> str:
    """What a number assumes of the policy, and of rows that are not there unless weights stand for those left out."""
    told = of_policy(ev, policy)
    if ev.problem.log.is_weighted:
        return told
    return f"{told} and {KEPT if told == UNSEEN else f'assumes {KEPT}'}"


def check_learned_elsewhere(asked: object, policies: list[str]) -> list[str]:
    """Names of the policies that were declared to be learned elsewhere.

    >>> check_learned_elsewhere(True, ["a", "b"]), check_learned_elsewhere("b", ["a", "b"])
    (['a', 'b'], ['b'])
    """
    if isinstance(asked, bool):
        return policies if asked else []
    names = [asked] if isinstance(asked, str) else asked
    if not isinstance(names, Sequence):
        raise UsageError(f"learned_elsewhere= must be True or names of policies. Got {asked!r} instead.")
    for name in names:
        if name not in policies:
            raise UsageError(
                f"learned_elsewhere= names {name!r}, which is not one of the "
                f"policies.{did_you_mean(str(name), policies)}"
            )
    return list(names)


def check_declarations(log: Log | Scan, randomized: object, gamma: object) -> None:
    """Refuse what cannot be meant."""
    if not isinstance(randomized, bool):
        raise UsageError(f"randomized= must be True or False. Got {randomized!r} instead.")
    if gamma is None:
        return
    if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not 1 <= gamma < 1e6:
        raise UsageError(f"gamma= must be a number of at least 1. Got {gamma!r} instead.")
    if not log.space.finite:
        raise UsageError("gamma= bounds the odds of labels, but these actions are numbers. Leave gamma= out.")
    if not log.unit_kind.decides_once:
        raise UsageError("gamma= works only for single decisions. Leave it out for episodes.")


def grounds(ev: Answer, policy: str, level: float) -> tuple[list[str], bool]:
    """Reasons that follow from the assumption, and whether a hidden cause could turn the answer round.

    Without a declaration one reason, which keeps a verdict from "trust". With an accepted Γ none, unless the
    difference to the logged value has a sign that Γ could take from it.
    """
    doubts = [doubt for own in outcomes_of(ev) for doubt in own.doubts]
    if ev.problem.weights_known or ev.settings.get("randomized"):
        return [*doubts, *untested(ev, policy)], False
    gamma = ev.settings.get("gamma")
    if gamma is None:
        how = f"Propensities were {'given' if ev.problem.behavior_given else 'fitted'}, not logged"
        remedy = remedy_of(ev.problem.log)
        if ev.problem.cells is not None and ev.problem.log.propensity is not None:
            how, remedy = OF_CELLS, f"Give the logging policy as behavior_model=. {remedy}"
        return [f"{how}, so the estimate {of_propensities(ev)}. {remedy}", *doubts, *untested(ev, policy)], False
    view = View.of(ev.problem, ev.targets[policy])
    if not view.weight.any():
        return doubts, False
    bounds = Sensitivity.of(view)
    plain, wide = bounds.difference(1.0, level), bounds.difference(gamma, level)
    if plain[0] <= 0 <= plain[1] or not wide[0] <= 0 <= wide[1]:
        return doubts, False
    why = (
        f"If an unrecorded cause changes the odds of an action by a factor of {gamma:g}, the difference from the "
        f"logged value is between {wide[0]:.3g} and {wide[1]:.3g}, so it may be 0."
    )
    return [why, *doubts], True


def untested(ev: Answer, policy: str) -> list[str]:
    """A reason for caution where ratios are of cells, and the check of them could not be made."""
    if ev.problem.cells is None or ev.diagnostics[policy][RATIO_CHECK].ran:
        return []
    return [UNTESTED.format(of_cells(ev))]


def bounds_sentence(ev: Answer, policy: str, level: float) -> list[str]:
    """The value's interval at the accepted Γ, in words."""
    gamma = ev.settings.get("gamma")
    if gamma is None or ev.problem.weights_known:
        return []
    view = View.of(ev.problem, ev.targets[policy])
    if not view.weight.any():
        return []
    low, high = Sensitivity.of(view).ends(gamma, level)
    sentence = (
        f"With odds of actions off by a factor of up to {gamma:g}, the value is between {low:.4g} and {high:.4g} "
        f"({level_text(level)})."
    )
    return [sentence]
