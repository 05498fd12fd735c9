"""The answer in one sentence, with its verdict: what a reader acts on before looking at any chart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from offpolicy.inference.change import change
from offpolicy.inference.display import interval_text, reach_of
from offpolicy.inference.figures import DASH, capitalized, count, measured, percent, plain
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.change import Change
    from offpolicy.trust import Findings
    from offpolicy.trust.trial import ABTest
    from offpolicy.trust.verdict import Verdict

Kind: TypeAlias = Literal["text", "strong", "name"]
Fragment: TypeAlias = tuple[str, Kind]

ORDER = {"trust": 0, "caution": 1, "insufficient evidence": 2}


# What speaks for a number that no check speaks against.
SUPPORT = ("effective_sample_size", "mean_weight", "unsupported_mass", "estimator_disagreement")


@dataclass(frozen=True)
class Reason:
    """A sentence, what to do about it (empty when all is well), and how serious it is."""

    text: str
    remedy: str = ""
    level: str = "ok"


@dataclass(frozen=True)
class Answer:
    """What is said about one policy.

    Attributes
    ----------
    policy, estimator : str
    level : str
        The verdict.
    sentence : tuple of (text, kind)
        The answer; kind says which words are emphasized and which are names from the data.
    reasons : tuple of Reason
        What the verdict rests on, the most serious first.
    cells : tuple of str
        Value, interval, change against the log and size of the A/B test, for the table of policies.
    numbers : tuple of (label, number, remark)
    """

    policy: str
    estimator: str
    level: str
    sentence: tuple[Fragment, ...]
    reasons: tuple[Reason, ...]
    cells: tuple[str, str, str, str]
    numbers: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        """The sentence without emphasis."""
        return "".join(part for part, _ in self.sentence)


def decision(log: Any) -> str:
    """What one unit of a log is called."""
    return "impression" if log.kind == "bandit" else "episode"


def question(evaluation: Evaluation) -> tuple[Fragment, ...]:
    """What the report answers."""
    if len(evaluation.policies) == 1:
        return (
            ("What would ", "text"),
            (evaluation.policies[0], "name"),
            (" have earned in place of the policy that made this log?", "text"),
        )
    return (("Which policy would have earned more than the one that made this log?", "text"),)


def answers(evaluation: Evaluation, level: float = 0.95) -> list[Answer]:
    """One answer for each policy, the most promising first.

    Verdicts come first, then the lower end of the interval of the difference from the log.
    """
    unordered = [_answer(evaluation, policy, level) for policy in evaluation.policies]

    def promise(a: Answer) -> tuple[int, float]:
        gain = (evaluation[a.policy, a.estimator] - evaluation.logged).interval(level)
        least = -gain.high if evaluation.minimize else gain.low
        return ORDER.get(a.level, 3), float("inf") if math.isnan(least) else -least

    return sorted(unordered, key=promise)


def _answer(evaluation: Evaluation, policy: str, level: float) -> Answer:
    verdict = evaluation.verdict(policy, level=level)
    name = headline(evaluation.estimators).name
    e, logged = evaluation[policy, name], evaluation.logged
    reward = evaluation.problem.log.names.reward
    per = f"{reward} per {decision(evaluation.problem.log)}"
    value = measured(e.value, e.std_error)
    single = len(evaluation.policies) == 1 or not e.is_defined
    family = None if single else evaluation.compare(level)
    # The best of several policies is not as good as it looks: its interval holds together with the others'.
    between = reach_of(e, level) if family is None else interval_text(e, family.values[policy])
    against = ChangeWords.undefined()
    if e.is_defined:
        own = (
            change(e, logged, level) if family is None else family.change(evaluation, policy, name)
        )
        against = ChangeWords.of(own, minimize=evaluation.minimize)
    test = verdict.test
    parts: list[Fragment] = [(policy, "name")]
    if not e.is_defined:
        parts = [("The log says nothing about ", "text"), (policy, "name"), (".", "text")]
    elif verdict.level == "insufficient evidence":
        parts = [
            ("There is not enough evidence in this log to say what ", "text"),
            (policy, "name"),
            (" would earn. ", "text"),
            (f"Taken at face value: {value} {per}, {percent(level)} interval {between}.", "text"),
        ]
    else:
        parts += [
            (" would earn ", "text"),
            (f"{value} {per}", "strong"),
            (f", {percent(level)} interval {between}; ", "text"),
            (against.words, "strong"),
            (against.tail, "text"),
            (_advice(against, test), "text"),
        ]
    cells = (value, between, against.short, DASH if test is None else count(test.total, 2))
    return Answer(
        policy,
        name,
        verdict.level,
        tuple(parts),
        _reasons(verdict, evaluation.diagnostics[policy]),
        cells,
        _numbers(evaluation, policy, level, between, against, test),
    )


def _reasons(verdict: Verdict, findings: Findings) -> tuple[Reason, ...]:
    """The verdict's reasons without its conclusion, which the sentence above it has said already."""
    level = "alarm" if verdict.level == "insufficient evidence" else "caution"
    against = [
        *(Reason(ground, level=level) for ground in verdict.grounds),
        *(Reason(capitalized(f.sentence), f.remedy, f.level) for f in verdict.findings),
    ]
    if against:
        return tuple(against)
    return tuple(
        Reason(capitalized(findings[name].sentence))
        for name in SUPPORT
        if name in findings and findings[name].level == "ok"
    )


@dataclass(frozen=True)
class ChangeWords:
    """A policy against the log, in words: relative where the log's value is clearly not 0."""

    words: str
    tail: str
    short: str
    sign: int

    @classmethod
    def undefined(cls) -> ChangeWords:
        """Nothing is known."""
        return cls("", "", DASH, 0)

    @classmethod
    def of(cls, against: Change, *, minimize: bool = False) -> ChangeWords:
        """A lift or a difference in words; ``sign`` says whether it is for the better."""
        value, error = against.estimate.value, against.estimate.std_error
        low, high = against.interval

        def text(x: float) -> str:
            if not against.is_lift:
                return measured(x, error)
            return percent(x, 0 if error >= 0.0095 else 1 if error >= 0.00095 else 2)

        mark = "+" if value >= 0 else "−"
        if not against.interval.sufficient:
            short = f"{mark}{text(abs(value))} (refused)"
            return cls(f"{short} against the log", ", an interval of which is refused", short, 0)
        size, reach = text(abs(value)), text((high - low) / 2)
        short = f"{mark}{size} ± {reach}"
        # An interval that leans to one side is not told by a single ±.
        lopsided = not abs((high - value) - (value - low)) < 0.25 * (high - low)
        if lopsided:
            short = f"{mark}{size} ({text(low)} to {text(high)})"
        if against.sign == 0:
            return cls(f"{short} against the log", ", which is within noise", short, 0)
        sign = against.better(minimize=minimize)
        word = "more" if against.sign > 0 else "less"
        if lopsided:
            tail = f" ({text(low)} to {text(high)})"
            return cls(f"{size} {word} than the log", tail, short, sign)
        return cls(f"{size} ± {reach} {word} than the log", "", short, sign)

    @property
    def parts(self) -> tuple[str, str]:
        """The number, and how sure it is."""
        for separator in (" ± ", " ("):
            if separator in self.short:
                number, rest = self.short.split(separator)
                return number, f"± {rest}" if separator == " ± " else rest.rstrip(")")
        return self.short, "not identified"


def _advice(against: ChangeWords, test: ABTest | None) -> str:
    if against.sign < 0:
        return "; not worth an A/B test on this evidence."
    if test is None:
        return "."
    verb = "worth an A/B test of" if against.sign > 0 else "an A/B test to tell would need"
    return f"; {verb} {count(test.total, 2)} {test.unit}."


def _numbers(
    evaluation: Evaluation,
    policy: str,
    level: float,
    between: str,
    against: ChangeWords,
    test: ABTest | None,
) -> tuple[tuple[str, str, str], ...]:
    e, logged = evaluation[policy, headline(evaluation.estimators).name], evaluation.logged
    size = evaluation.diagnostics[policy, "effective_sample_size"]
    return (
        ("Estimated value", measured(e.value, e.std_error), between),
        ("Logged value", measured(logged.value, logged.std_error), reach_of(logged, level)),
        ("Against the log", *against.parts),
        ("Effective sample", plain(size.value), f"of {count(size.details['units'])}"),
        (
            "A/B test to settle it",
            DASH if test is None else count(test.total, 2),
            "no finite test" if test is None else f"{test.unit}, both arms",
        ),
    )
