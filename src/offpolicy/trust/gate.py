"""A gate: does the log show that a policy clears a bar? Passed, failed, or not enough evidence.

What a gate may say is in `gate_text`. Of several policies any may be gated after a look at the others, so that the
interval of each is one that holds together with theirs. Where models are fitted, a gate that would pass is asked
again with folds that do not follow from the seed it was given: seven draws of the default seed, or of more than
50,000 units the one draw that anyone gets who gives no seed. Looking for a seed that passes leads nowhere. The
quantity's interval decides: wholly on the right side of the bar passes (exit code 0), wholly on the other side fails
(3), and an interval that holds the bar, or a verdict of insufficient evidence on any policy involved, is not enough
evidence (4), which is not green. The intervals of several conditions hold together; all have to pass, and one that
fails decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from offpolicy._visible import visible
from offpolicy.inference.comparison import has_lift
from offpolicy.inference.family import adjusted
from offpolicy.inference.figures import level_text
from offpolicy.inference.intervals.sample import check_level
from offpolicy.splits.hashing import DEFAULT_SEED
from offpolicy.trust.assumption import UNSEEN, of_policy
from offpolicy.trust.gate_text import LOGGED, conditions, quoted, verify
from offpolicy.trust.verdict import policy_name, speaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.trust.check import Answer
    from offpolicy.trust.gate_text import Expression

ExitCode: TypeAlias = Literal[0, 3, 4]
PASSED: ExitCode = 0
FAILED: ExitCode = 3
UNSURE: ExitCode = 4
DRAWS = 7  # of the folds, before a gate passes
MOST_UNITS = 50_000  # up to which the folds are drawn so often; beyond, fits are dear


@dataclass(frozen=True)
class GateResult:
    """What a gate says.

    Attributes
    ----------
    passed : bool or None
        None when the data cannot tell.
    exit_code : {0, 3, 4}
        Passed, failed, not enough evidence.
    sentence : str
    expression : str
        The gate as it was written.
    level : float
        Of the interval that decided.
    assumption : str
        What the answer rests on besides the numbers, as a sentence.
    conditions : tuple of GateResult
        What each of several conditions says.
    """

    passed: bool | None
    exit_code: ExitCode
    sentence: str
    expression: str = ""
    level: float = 0.95
    assumption: str = ""
    conditions: tuple[GateResult, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", visible(self.sentence))

    @property
    def why(self) -> str:
        """The sentence without the gate and its outcome."""
        return self.sentence.removeprefix(f"gate {self.expression!r}: {self.outcome}").lstrip(". ")

    @property
    def outcome(self) -> Literal["passed", "failed", "not enough evidence"]:
        """The result in a word."""
        if self.passed is None:
            return "not enough evidence"
        return "passed" if self.passed else "failed"


def worst(codes: Sequence[int]) -> ExitCode:
    """Exit code of several gates: a failure is worse than not enough evidence, and anything than passing.

    >>> worst([]), worst([0, 4]), worst([0, 4, 3])
    (0, 4, 3)
    """
    if all(code == PASSED for code in codes):
        return PASSED
    return FAILED if FAILED in codes else UNSURE


def assumption(ev: Answer) -> str:
    """What every number of an evaluation rests on, in sentences: the propensities, and policies that saw no rewards."""
    said = [of_policy(ev, name) for name in ev.policies]
    unseen = f"It {UNSEEN if UNSEEN in said else said[0]}."
    if ev.problem.weights_known:
        rests = "This assumes the logged propensities are the ones actually used."
        return f"{rests} It {ev.assumption}. {unseen}" if ev.assumption else f"{rests} {unseen}"
    how = "given" if ev.problem.behavior_given else "estimated"
    return f"The propensities were {how}, so this {ev.assumption}. {unseen}"


def check(
    ev: Answer,
    expression: str,
    level: float = 0.95,
    *,
    estimator: str | None = None,
    draws: int | None = None,
    require: Literal["trust"] | None = None,
) -> GateResult:
    """Judge an expression about the policies of an evaluation.

    Parameters
    ----------
    ev : Evaluation
    expression : str
        Such as ``"lift > 0"``, ``"value > 0.02"`` or ``"new - old > 0"``; ``logged`` names the logging
        policy. Policies may be left out when there is one. Conditions on several metrics are joined by ``and``:
        ``"revenue lift > 0 and cost lift < 2%"``.
    level : float
        Level of the two-sided interval that must clear the bar.
    estimator : str, optional
        Whose estimates to use; default: the recommended one among those computed.
    draws : int, optional
        Draws of the folds by the default seed with which a gate that would pass is asked again, where models are
        fitted; default: seven, and beyond 50,000 units as many as the evaluation has.
    require : "trust", optional
        Let nothing pass whose verdict is not "trust"; by default a verdict of "caution" may.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=4000)
    >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=4000), np.full(4000, 0.5))
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    >>> check(ev, "lift > 0").exit_code, check(ev, "value > 2").exit_code
    (0, 3)
    """
    check_level(level)
    gates = verify(expression, ev.policies, ev.metrics)
    each = adjusted(level, len(gates))
    result = _all(ev, gates, expression, _Asked(level, each, len(gates), estimator, draws, require))
    rests_on = assumption(ev)
    return replace(
        result, sentence=f"{result.sentence} {rests_on}", expression=expression, level=level, assumption=rests_on
    )


def _all(ev: Answer, gates: list[Expression], expression: str, asked: _Asked) -> GateResult:
    """Every condition by an interval that holds together with those of the others."""
    results = []
    for text, gate in zip(conditions(expression), gates, strict=True):
        own = ev if gate.metric in {None, ev.metric_name} else ev.metric(str(gate.metric))
        made = _judged(own, gate, text, asked)
        results.append(replace(made, expression=text, level=asked.level))
    if asked.number == 1:
        return results[0]
    code: ExitCode = worst([result.exit_code for result in results])
    passed = None if code == UNSURE else code == PASSED
    said = " ".join(result.sentence.removeprefix("gate ") for result in results)
    whole = GateResult(passed, code, "", conditions=tuple(results))
    return replace(whole, sentence=f"gate {expression!r}: {whole.outcome}. {said}")


@dataclass(frozen=True)
class _Asked:
    """How a condition is judged: at ``each``, so that ``number`` conditions hold together at ``level``."""

    level: float
    each: float
    number: int
    estimator: str | None
    draws: int | None
    require: Literal["trust"] | None = None


def _judged(ev: Answer, gate: Expression, expression: str, asked: _Asked) -> GateResult:
    names, level, estimator = _policies(ev, gate), asked.each, asked.estimator
    for name in names:
        verdict = ev.verdict(name, estimator, level=level)
        if verdict.level == "insufficient evidence":
            why = verdict.reasons[0]
            return GateResult(None, UNSURE, f"gate {expression!r}: not enough evidence on {name!r}. {why}")
    if gate.kind == "lift" and not has_lift(ev.logged, level):
        why = (
            "The logged value may be 0, so a lift over it means nothing. Gate the "
            f'difference instead: "{quoted(names[0])} - {LOGGED} > …".'
        )
        return GateResult(None, UNSURE, f"gate {expression!r}: not enough evidence. {why}")
    estimate = _estimate(ev, gate, estimator)
    interval = _interval(ev, gate, estimate, asked, estimator)
    if not interval.sufficient or math.isnan(interval.low):
        return GateResult(None, UNSURE, f"gate {expression!r}: not enough evidence ({interval.reason}).")
    corrected = _corrected(ev, asked)
    result = _decided(expression, gate, estimate, interval, corrected)
    if result.passed and asked.require is not None:
        short = required(ev, names, asked)
        if short:
            return GateResult(None, UNSURE, f"gate {expression!r}: not enough evidence. {short}")
    draws = _draws(ev, asked) if result.passed else 0
    return _over_folds(ev, gate, result, expression, asked, draws) if draws else result


def _corrected(ev: Answer, asked: _Asked) -> str:
    """What an interval allows for, in words."""
    counts = ((len(ev.policies), "policies"), (asked.number, "conditions"))
    parts = [f"{number} {what}" for number, what in counts if number > 1]
    return f", corrected for {' and '.join(parts)}" if parts else ""


def _draws(ev: Answer, asked: _Asked) -> int:
    """How many draws of the folds by the default seed a gate must pass as well; 0 for no more than there are."""
    chosen = speaker(ev, asked.estimator)
    fitted = "value" in chosen.needs or not ev.problem.weights_known
    if chosen.split == "full" or not fitted or not ev.draws_folds:
        return 0
    own = int(ev.settings["repeats"])
    usual = max(own, DRAWS) if ev.logged.n <= MOST_UNITS else own
    draws = usual if asked.draws is None else asked.draws
    return 0 if draws == own and ev.settings["seed"] == DEFAULT_SEED else draws


def _over_folds(
    ev: Answer, gate: Expression, passed: GateResult, expression: str, asked: _Asked, draws: int
) -> GateResult:
    """A gate passes where it passes with folds that no seed moves, so that none can be looked for."""
    again = ev.redrawn(draws, speaker(ev, asked.estimator).name, seed=DEFAULT_SEED)
    if again is None:
        return passed
    name = speaker(again, None).name
    estimate = _estimate(again, gate, name)
    interval = _interval(again, gate, estimate, asked, name)
    ends = f"{figure(gate, interval.low)} to {figure(gate, interval.high)}"
    several = draws > 1
    how = f"on average over {draws} random splits" if several else "with the splits of the default seed"
    size = figure(gate, estimate.fold_spread).removeprefix("+")
    spread = f"; the estimate varies by {size} between splits" if several else ""
    if interval.sufficient and _decided(expression, gate, estimate, interval, "").passed:
        return replace(passed, sentence=f"{passed.sentence} It also passes {how} ({ends}{spread}).")
    own = "one random split" if ev.settings["repeats"] == 1 else "the splits as drawn"
    return GateResult(
        None, UNSURE, f"gate {expression!r}: not enough evidence. It passes with {own} but not {how} ({ends}{spread})."
    )


def _interval(ev: Answer, gate: Expression, estimate: Estimate, asked: _Asked, estimator: str | None) -> Interval:
    """The interval that decides: of several policies, one that holds whichever of them is gated."""
    found = _holding(ev, gate, estimate, asked.each, estimator)
    return found if asked.number == 1 else replace(found, level=asked.level)


def _holding(ev: Answer, gate: Expression, estimate: Estimate, level: float, estimator: str | None) -> Interval:
    if len(ev.policies) == 1:
        return estimate.interval(level)
    policy = gate.policy or ev.policies[0]
    if gate.kind == "difference" and (gate.other != LOGGED or LOGGED in ev.targets):
        count = len(ev.policies) + 1  # the logging policy is one of them
        wide = estimate.interval(adjusted(level, count * (count - 1) // 2))
        return replace(wide, level=level)
    comparison = ev.compare(level, estimator)
    if gate.kind == "difference":
        return comparison.differences[policy]
    return (comparison.lifts if gate.kind == "lift" else comparison.values)[policy]


def _decided(expression: str, gate: Expression, estimate: Estimate, interval: Interval, corrected: str) -> GateResult:
    above, below = interval.low > gate.bar, interval.high < gate.bar
    what = "the " if gate.kind != "value" else ""
    summary = (
        f"{what}{estimate.label} is {figure(gate, estimate.value)}, {level_text(interval.level)} interval "
        f"{figure(gate, interval.low)} to {figure(gate, interval.high)} ({interval.method}{corrected})"
    )
    summary = summary[:1].upper() + summary[1:] if what else summary
    if above or below:
        passed = above if gate.sign == ">" else below
        word = "passed" if passed else "failed"
        return GateResult(passed, PASSED if passed else FAILED, f"gate {expression!r}: {word}. {summary}.")
    return GateResult(
        None, UNSURE, f"gate {expression!r}: not enough evidence. {summary}, which includes {figure(gate, gate.bar)}."
    )  # fmt: skip


def figure(gate: Expression, x: float) -> str:
    """A number of a gate's quantity: lifts in percent, others as they are.

    >>> from offpolicy.trust.gate_text import parse
    >>> figure(parse("lift > 5%"), 0.05274), figure(parse("value > 2"), 0.05274)
    ('+5.27%', '0.05274')
    """
    if gate.kind != "lift":
        return f"{x:.4g}"
    return f"{100 * x:+,.0f}%" if 10 <= abs(x) < math.inf else f"{100 * x:+.3g}%"


def required(ev: Answer, names: Sequence[str], asked: _Asked) -> str:
    """Why a verdict falls short of trust, for the first policy whose does; empty where none does."""
    for name in names:
        verdict = ev.verdict(name, asked.estimator, level=asked.each)
        if verdict.level != "trust":
            return f"The verdict on {name!r} is {verdict.level}, and trust is required. {verdict.reasons[0]}"
    return ""


def verdicts(ev: Answer, level: float = 0.95, estimator: str | None = None) -> GateResult:
    """A gate on verdicts alone: every policy must have "trust"."""
    short = required(ev, ev.policies, _Asked(level, level, 1, estimator, None, "trust"))
    text, rests_on = "verdict is trust", assumption(ev)
    if short:
        said, passed, code = f"gate {text!r}: not enough evidence. {short}", None, UNSURE
    else:
        said, passed, code = f"gate {text!r}: passed.", True, PASSED
    return GateResult(passed, code, f"{said} {rests_on}", text, level, rests_on)


def _policies(ev: Answer, gate: Expression) -> list[str]:
    named = (gate.policy or ev.policies[0], gate.other)
    return [n for n in named if n is not None and (n in ev.targets or n != LOGGED)]


def _estimate(ev: Answer, gate: Expression, estimator: str | None) -> Estimate:
    def of(name: str | None) -> Estimate:
        if name == LOGGED and name not in ev.targets:
            return ev.logged
        policy = policy_name(ev, name)
        return ev[policy, speaker(ev, estimator).name]

    if gate.kind == "difference":
        return of(gate.policy) - of(gate.other)
    return of(gate.policy).lift(ev.logged) if gate.kind == "lift" else of(gate.policy)
