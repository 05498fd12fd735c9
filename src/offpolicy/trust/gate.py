"""A gate: does the log show that a policy clears a bar? Passed, failed, or not enough evidence.

    expression := quantity (">" | ">=" | "<" | "<=") number ["%"]
    quantity   := "lift" | "value" | policy | policy "lift" | policy "value" | policy "-" policy

Of several policies any may be gated after a look at the others, so that the interval of each is one that holds
together with theirs. Where models are fitted, a gate that would pass is asked again with folds that do not follow
from the seed it was given: seven draws of the default seed, or of more than 50,000 units the one draw that anyone
gets who gives no seed. Looking for a seed that passes leads nowhere. The
quantity's interval decides: wholly on the right side of the bar passes (exit code 0), wholly on the other side
fails (3), and an interval that holds the bar, or a verdict of insufficient evidence on any policy involved, is
not enough evidence (4), which is not green.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from offpolicy.errors import UsageError, did_you_mean
from offpolicy.inference.change import has_lift
from offpolicy.inference.family import adjusted
from offpolicy.inference.intervals.sample import check_level
from offpolicy.splits.hashing import DEFAULT_SEED
from offpolicy.trust.verdict import policy_name, speaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

ExitCode: TypeAlias = Literal[0, 3, 4]
PASSED: ExitCode = 0
FAILED: ExitCode = 3
UNSURE: ExitCode = 4
LOGGED = "logged"
DRAWS = 7  # of the folds, before a gate passes
MOST_UNITS = 50_000  # up to which the folds are drawn so often; beyond, fits are dear
EXAMPLES = 'Examples: "lift > 0", "value > 0.02", "new - old > 0", "\'my policy\' lift > 5%".'
TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>'[^']*'|"[^"]*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*%?)(?![\w.])
      | (?P<name>[^\W\d][\w.]*)
      | (?P<sign>>=|<=|>|<|-|\+|−)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Expression:
    """A parsed gate.

    Attributes
    ----------
    kind : {"lift", "value", "difference"}
    policy, other : str or None
        None stands for the only policy; ``other`` is what is subtracted.
    sign : {">", "<"}
    bar : float
    """

    kind: Literal["lift", "value", "difference"]
    policy: str | None
    other: str | None
    sign: Literal[">", "<"]
    bar: float


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
    """

    passed: bool | None
    exit_code: ExitCode
    sentence: str
    expression: str = ""
    level: float = 0.95
    assumption: str = ""

    @property
    def outcome(self) -> Literal["passed", "failed", "not enough evidence"]:
        """The result in a word."""
        if self.passed is None:
            return "not enough evidence"
        return "passed" if self.passed else "failed"


def worst(codes: Sequence[int]) -> int:
    """Exit code of several gates: a failure is worse than not enough evidence, and anything than passing.

    >>> worst([]), worst([0, 4]), worst([0, 4, 3])
    (0, 4, 3)
    """
    if all(code == PASSED for code in codes):
        return PASSED
    return FAILED if FAILED in codes else UNSURE


def expressions(asked: object, policies: Sequence[str]) -> list[str]:
    """The gates that were asked for, each one readable; an empty or blank one is an error, never a pass.

    >>> expressions(["lift > 0"], ["new"]), expressions(None, ["new"])
    (['lift > 0'], [])
    """
    if asked is None:
        return []
    gates = asked if isinstance(asked, list | tuple) else [asked]
    if not gates:
        raise UsageError(f"gate: the list is empty. Leave it out, or write one. {EXAMPLES}")
    for gate in gates:
        if not isinstance(gate, str) or not gate.strip():
            raise UsageError(
                f"gate {gate!r}: nothing to judge, and so nothing can pass. {EXAMPLES}"
            )
        verify(gate, policies)
    return list(gates)


def assumption(ev: Evaluation) -> str:
    """What every number of an evaluation rests on, as a sentence: the propensities."""
    if ev.problem.weights_known:
        rests = "This rests on the logged propensities being those the actions were drawn with."
        return f"{rests} It {ev.assumption}." if ev.assumption else rests
    how = "given" if ev.problem.source.behavior_given else "estimated"
    return f"The propensities were {how}: this {ev.assumption}."


def tokens(text: str) -> list[tuple[str, str]]:
    """Split an expression into (kind, text) pairs.

    >>> tokens("'my policy' lift > 5%")
    [('name', 'my policy'), ('name', 'lift'), ('sign', '>'), ('number', '5%')]
    """
    pairs, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = TOKEN.match(stripped, place)
        if match is None:
            raise UsageError(
                f"gate {text!r}: cannot read {stripped[place:].strip()!r}. Quote policy names with other "
                f"characters than letters, digits, '_' and '.'. {EXAMPLES}"
            )
        kind = str(match.lastgroup)
        word = match.group(kind)
        if kind == "quoted":
            pairs.append(("name", word[1:-1]))
        else:
            pairs.append((kind, "-" if word == "−" else word.strip()))
        place = match.end()
    return pairs


def parse(text: str) -> Expression:
    """Read a gate expression; nothing is evaluated as code.

    Examples
    --------
    >>> parse("new - old > 0")
    Expression(kind='difference', policy='new', other='old', sign='>', bar=0.0)
    >>> parse("lift >= 5%").bar
    0.05
    """
    words = tokens(text)
    at = [i for i, (kind, word) in enumerate(words) if kind == "sign" and word[0] in "<>"]
    if len(at) != 1:
        raise UsageError(f"gate {text!r}: needs exactly one of >, >=, <, <=. {EXAMPLES}")
    left, sign, right = words[: at[0]], words[at[0]][1][0], words[at[0] + 1 :]
    bar = _number(text, right)
    kind, policy, other = _quantity(text, left)
    return Expression(kind, policy, other, ">" if sign == ">" else "<", bar)


def _number(text: str, words: list[tuple[str, str]]) -> float:
    factor = 1.0
    if len(words) == 2 and words[0][0] == "sign" and words[0][1] in "+-":
        factor = -1.0 if words[0][1] == "-" else 1.0
        words = words[1:]
    if len(words) != 1 or words[0][0] != "number":
        raise UsageError(f"gate {text!r}: the right side must be one number. {EXAMPLES}")
    word = words[0][1]
    bar = factor * (float(word[:-1]) / 100 if word.endswith("%") else float(word))
    if not math.isfinite(bar):
        raise UsageError(f"gate {text!r}: {word} is beyond what a number can be. {EXAMPLES}")
    return bar


def _quantity(
    text: str, words: list[tuple[str, str]]
) -> tuple[Literal["lift", "value", "difference"], str | None, str | None]:
    kinds = [kind for kind, _ in words]
    names = [word for _, word in words]
    if kinds == ["name"]:
        if names[0] in {"lift", "value"}:
            return ("lift" if names[0] == "lift" else "value"), None, None
        return "value", names[0], None
    if kinds == ["name", "name"] and names[1] in {"lift", "value"}:
        return ("lift" if names[1] == "lift" else "value"), names[0], None
    if kinds == ["name", "sign", "name"] and names[1] == "-":
        return "difference", names[0], names[2]
    hint = did_you_mean(names[-1], ["lift", "value"]) if kinds == ["name", "name"] else ""
    raise UsageError(f"gate {text!r}: cannot read the left side.{hint} {EXAMPLES}")


def verify(expression: str, policies: Sequence[str]) -> Expression:
    """Parse a gate and check the policies it names, before anything is fitted.

    >>> verify("new lift > 0", ["new"]).policy
    'new'
    """
    gate = parse(expression)
    if gate.policy is None and len(policies) != 1:
        raise UsageError(
            f"the gate names no policy, and there are {len(policies)}: {list(policies)}. Write, for "
            f'example, "{policies[0]} {gate.kind} > …".'
        )
    allowed = [*policies, LOGGED] if gate.kind == "difference" else list(policies)
    for name in (gate.policy, gate.other):
        if name is not None and name not in allowed:
            raise UsageError(f"no policy is called {name!r}.{did_you_mean(name, allowed)}")
    return gate


def check(
    ev: Evaluation, expression: str, level: float = 0.95, *, estimator: str | None = None
) -> GateResult:
    """Judge an expression about the policies of an evaluation.

    Parameters
    ----------
    ev : Evaluation
    expression : str
        Such as ``"lift > 0"``, ``"value > 0.02"`` or ``"new - old > 0"``; ``logged`` names the logging
        policy. Policies may be left out when there is one.
    level : float
        Level of the two-sided interval that must clear the bar.
    estimator : str, optional
        Whose estimates to use; default: the recommended one among those computed.

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
    gate = verify(expression, ev.policies)
    result = _judged(ev, gate, expression, level, estimator)
    rests_on = assumption(ev)
    return replace(
        result,
        sentence=f"{result.sentence} {rests_on}",
        expression=expression,
        level=level,
        assumption=rests_on,
    )


def _judged(
    ev: Evaluation, gate: Expression, expression: str, level: float, estimator: str | None
) -> GateResult:
    names = _policies(ev, gate)
    for name in names:
        verdict = ev.verdict(name, estimator, level=level)
        if verdict.level == "insufficient evidence":
            why = verdict.reasons[0]
            return GateResult(
                None, UNSURE, f"gate {expression!r}: not enough evidence on {name!r}. {why}"
            )
    if gate.kind == "lift" and not has_lift(ev.logged, level):
        why = (
            "The logged value may be 0, so that a lift over it says nothing. Gate the "
            f'difference: "{names[0]} - {LOGGED} > …".'
        )
        return GateResult(None, UNSURE, f"gate {expression!r}: not enough evidence. {why}")
    estimate = _estimate(ev, gate, estimator)
    interval = _interval(ev, gate, estimate, level, estimator)
    if not interval.sufficient or math.isnan(interval.low):
        return GateResult(
            None, UNSURE, f"gate {expression!r}: not enough evidence ({interval.reason})."
        )
    result = _decided(expression, gate, estimate, interval, len(ev.policies))
    draws = _draws(ev, estimator) if result.passed else 0
    return _over_folds(ev, gate, result, expression, level, estimator, draws) if draws else result


def _draws(ev: Evaluation, estimator: str | None) -> int:
    """How many draws of the folds by the default seed a gate must pass as well; 0 for no more than there are."""
    chosen = speaker(ev, estimator)
    fitted = "value" in chosen.needs or not ev.problem.weights_known
    if chosen.split == "full" or not fitted or ev.redraw is None:
        return 0
    own = int(ev.settings["repeats"])
    draws = max(own, DRAWS) if ev.logged.n <= MOST_UNITS else own
    return 0 if draws == own and ev.settings["seed"] == DEFAULT_SEED else draws


def _over_folds(
    ev: Evaluation,
    gate: Expression,
    passed: GateResult,
    expression: str,
    level: float,
    estimator: str | None,
    draws: int,
) -> GateResult:
    """A gate passes where it passes with folds that no seed moves, so that none can be looked for."""
    again = ev.redrawn(draws, speaker(ev, estimator).name, seed=DEFAULT_SEED)
    if again is None:
        return passed
    name = speaker(again, None).name
    estimate = _estimate(again, gate, name)
    interval = _interval(again, gate, estimate, level, name)
    ends = f"{interval.low:.4g} to {interval.high:.4g}"
    several = draws > 1
    how = f"folds drawn {draws} times" if several else "the folds of the default seed"
    spread = f"; from draw to draw it moves by {estimate.fold_spread:.2g}" if several else ""
    if interval.sufficient and _decided(expression, gate, estimate, interval, 1).passed:
        return replace(
            passed, sentence=f"{passed.sentence} With {how} it passes too: {ends}{spread}."
        )
    own = "With folds drawn once" if ev.settings["repeats"] == 1 else "With the folds as drawn"
    other = f"the mean of {draws} draws" if several else how
    return GateResult(
        None,
        UNSURE,
        f"gate {expression!r}: not enough evidence. {own} it would pass, with {other} it does not "
        f"({ends}){spread}.",
    )


def _interval(
    ev: Evaluation, gate: Expression, estimate: Estimate, level: float, estimator: str | None
) -> Interval:
    """The interval that decides: of several policies, one that holds whichever of them is gated."""
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


def _decided(
    expression: str, gate: Expression, estimate: Estimate, interval: Interval, policies: int
) -> GateResult:
    above, below = interval.low > gate.bar, interval.high < gate.bar
    summary = (
        f"{estimate.label} is {estimate.value:.4g}, {100 * interval.level:g}% interval "
        f"{interval.low:.4g} to {interval.high:.4g} ({interval.method}"
        f"{f', corrected for {policies} policies' if policies > 1 else ''})"
    )
    if above or below:
        passed = above if gate.sign == ">" else below
        word = "passed" if passed else "failed"
        return GateResult(
            passed, PASSED if passed else FAILED, f"gate {expression!r}: {word}. {summary}."
        )
    return GateResult(
        None, UNSURE, f"gate {expression!r}: not enough evidence. {summary}, holds {gate.bar:g}."
    )  # fmt: skip


def _policies(ev: Evaluation, gate: Expression) -> list[str]:
    named = (gate.policy or ev.policies[0], gate.other)
    return [n for n in named if n is not None and (n in ev.targets or n != LOGGED)]


def _estimate(ev: Evaluation, gate: Expression, estimator: str | None) -> Estimate:
    def of(name: str | None) -> Estimate:
        if name == LOGGED and name not in ev.targets:
            return ev.logged
        policy = policy_name(ev, name)
        return ev[policy, speaker(ev, estimator).name]

    if gate.kind == "difference":
        return of(gate.policy) - of(gate.other)
    return of(gate.policy).lift(ev.logged) if gate.kind == "lift" else of(gate.policy)
