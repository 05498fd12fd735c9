"""The answer in a plain sentence, with its verdict: what a reader acts on before looking at any chart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from offpolicy.inference.change import change
from offpolicy.inference.display import interval_text, reach_of
from offpolicy.inference.figures import DASH, capitalized, count, level_text, measured, plain
from offpolicy.logs.words import unit_word
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline
from offpolicy.show.change_words import ChangeWords
from offpolicy.show.plain_words import SUPPORT, TOPICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.comparison import Comparison
    from offpolicy.logs.log import Log
    from offpolicy.trust import Findings
    from offpolicy.trust.finding import Finding
    from offpolicy.trust.trial import ABTest
    from offpolicy.trust.verdict import Verdict

Kind: TypeAlias = Literal["text", "strong", "name"]
Fragment: TypeAlias = tuple[str, Kind]

ORDER = {"trust": 0, "caution": 1, "insufficient evidence": 2}
SEVERITY = {"ok": 0, "note": 1, "caution": 2, "alarm": 3}
REFUSED = "insufficient evidence"
MOST_NAMES = 3


@dataclass(frozen=True)
class Reason:
    """A plain sentence, what to do about it (empty when all is well), and how serious it is.

    ``behind`` are the findings it rests on, with their numbers.
    """

    text: str
    remedy: str = ""
    level: str = "ok"
    behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A large number with its label and a remark; ``doubtful`` where it should not be relied on."""

    label: str
    number: str
    remark: str
    doubtful: bool = False


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
    basis : str
        The statistic behind the sentence.
    reasons : tuple of Reason
        What the verdict rests on, the most serious first.
    cells : tuple of str
        Value, interval, change against the log and size of the A/B test, for the table of policies.
    numbers : tuple of Figure
    """

    policy: str
    estimator: str
    level: str
    sentence: tuple[Fragment, ...]
    basis: str
    reasons: tuple[Reason, ...]
    cells: tuple[str, str, str, str]
    numbers: tuple[Figure, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the number should not be used."""
        return self.level == REFUSED

    @property
    def text(self) -> str:
        """The sentence without emphasis."""
        return "".join(part for part, _ in self.sentence)


def decision(log: Log) -> str:
    """What one unit of a log is called."""
    return unit_word(log.kind)


def actions_of(log: Log) -> str:
    """The actions of a log in a few words."""
    if log.is_continuous:
        low, high = log.action_range
        return f"{log.names.action} from {low:.4g} to {high:.4g}"
    return f"{count(len(log.actions))} actions"


def question(evaluation: Evaluation) -> tuple[Fragment, ...]:
    """What the report answers."""
    earned = "come to" if evaluation.minimize else "earned"
    if len(evaluation.policies) == 1:
        return (
            ("What would ", "text"),
            (evaluation.policies[0], "name"),
            (f" have {earned} in place of the policy that made this log?", "text"),
        )
    better = "come to less" if evaluation.minimize else "earned more"
    return ((f"Which policy would have {better} than the one that made this log?", "text"),)


def answers(evaluation: Evaluation, level: float = 0.95) -> list[Answer]:
    """One answer for each policy, the most promising first.

    Verdicts come first, then the lower end of the interval of the difference from the log.
    """
    family = _family(evaluation, level)
    unordered = [_answer(evaluation, policy, level, family) for policy in evaluation.policies]

    def promise(a: Answer) -> tuple[int, float]:
        gap = (evaluation[a.policy, a.estimator] - evaluation.logged).interval(level)
        gain = gap if family is None else family.differences.get(a.policy, gap)
        least = -gain.high if evaluation.minimize else gain.low
        return ORDER.get(a.level, 3), float("inf") if math.isnan(least) else -least

    return sorted(unordered, key=promise)


def _family(ev: Evaluation, level: float) -> Comparison | None:
    """Policies against each other; None for a single one, and where none is identified."""
    name = headline(ev.estimators).name
    if len(ev.policies) == 1 or not any(ev[p, name].is_defined for p in ev.policies):
        return None
    return ev.compare(level)


def choice(ev: Evaluation, ordered: Sequence[Answer], level: float) -> tuple[Fragment, ...]:
    """Which of several policies is the best, or which cannot be told apart; nothing for a single policy."""
    if len(ordered) == 1:
        return ()
    usable = [a.policy for a in ordered if not a.is_refused]
    if not usable:
        return (
            ("This log cannot say which of the ", "text"),
            (f"{len(ordered)} policies", "strong"),
            (" is better: there is not enough evidence about any of them.", "text"),
        )
    family = _family(ev, level)
    assert family is not None
    best = family.best
    if len(usable) < len(ordered):  # what the log cannot judge may not win
        some = replace(
            ev,
            targets={p: ev.targets[p] for p in usable},
            estimates={key: e for key, e in ev.estimates.items() if key[0] in usable},
        )
        best = some.compare(level).best
    rest = len(ordered) - len(usable)
    tail = f" There is not enough evidence about {_policies(rest)}." if rest else ""
    among = (
        f"the {len(usable)} policies" if not rest else f"the {_policies(len(usable))} it can judge"
    )
    winners = [a.policy for a in ordered if a.policy in best.names]
    if LOGGING_POLICY in best.names:
        parts: list[Fragment] = [
            (f"None of {among} is shown to be better than the one that made this log", "strong")
        ]
        if winners:
            parts += [("; ", "text"), *_named(winners), (" cannot be told apart from it", "text")]
    elif len(winners) == 1:
        parts = [(winners[0], "name"), (f" is the best of {among}", "strong")]
    else:
        parts = [*_named(winners), (" cannot be told apart", "strong")]
        if len(winners) < len(usable):
            parts.append((f"; one of them is the best of {among}", "text"))
    return (*parts, (f".{tail} ", "text"))


def _policies(number: int) -> str:
    return "1 policy" if number == 1 else f"{number} policies"


def _named(names: Sequence[str]) -> list[Fragment]:
    """Names with commas and an *and* between them; of many the first few."""
    shown, more = list(names[:MOST_NAMES]), len(names) - MOST_NAMES
    out: list[Fragment] = []
    for i, name in enumerate(shown):
        last = i == len(shown) - 1 and more <= 0
        if i:
            out.append((" and " if last else ", ", "text"))
        out.append((name, "name"))
    if more > 0:
        out.append((f" and {more} more", "text"))
    return out


def _answer(evaluation: Evaluation, policy: str, level: float, family: Comparison | None) -> Answer:
    verdict = evaluation.verdict(policy, level=level)
    name = headline(evaluation.estimators).name
    e, logged = evaluation[policy, name], evaluation.logged
    per = f"{evaluation.problem.log.names.reward} per {decision(evaluation.problem.log)}"
    value = measured(e.value, e.std_error)
    family = family if e.is_defined else None
    # The best of several policies is not as good as it looks: its interval holds together with the others'.
    between = reach_of(e, level) if family is None else interval_text(e, family.values[policy])
    against = ChangeWords.undefined()
    if e.is_defined:
        own = (
            change(e, logged, level) if family is None else family.change(evaluation, policy, name)
        )
        against = ChangeWords.of(own, minimize=evaluation.minimize)
    earn = "come to" if evaluation.minimize else "earn"
    parts: list[Fragment]
    if not e.is_defined:
        parts = [("The log says nothing about ", "text"), (policy, "name"), (".", "text")]
    elif verdict.level == REFUSED:
        parts = [
            ("This log cannot say what ", "text"),
            (policy, "name"),
            (f" would {earn}. Taken at face value it would be {value} {per}.", "text"),
        ]
    else:
        parts = [
            (policy, "name"),
            (f" would {earn} ", "text"),
            (f"{value} {per}", "strong"),
            *_against(against, minimize=evaluation.minimize),
            (_advice(against, verdict.test), "text"),
        ]
        if evaluation.assumption:
            parts.append((f" {capitalized(f'this {evaluation.assumption}')}", "text"))
    short = against.short if against.short == DASH else f"{against.short} ({against.ends})"
    test = verdict.test
    return Answer(
        policy,
        name,
        verdict.level,
        tuple(parts),
        _basis(evaluation, verdict, name, level, between, corrected=family is not None),
        _reasons(verdict, evaluation.diagnostics[policy]),
        (value, between, short, DASH if test is None else count(test.total, 2)),
        _numbers(evaluation, policy, level, between, against, verdict),
    )


def _against(against: ChangeWords, *, minimize: bool) -> list[Fragment]:
    """The policy against the log: how much more, or that it may be no more at all."""
    if against.sign == 0:
        reach = against.reach or "how sure that is cannot be said"
        return [
            (". Against the log that is ", "text"),
            (f"{reach}", "strong"),
            (": it may make no difference", "text"),
        ]
    less = "; less is better" if minimize else ""
    return [
        (": ", "text"),
        (f"{against.size} than the log", "strong"),
        (f" ({against.reach}{less})", "text"),
    ]


def _basis(
    ev: Evaluation, verdict: Verdict, name: str, level: float, between: str, *, corrected: bool
) -> str:
    """The statistic behind the sentence."""
    kind = f"{level_text(level)} interval"
    if corrected:
        kind += f" (corrected for {len(ev.policies)} policies)"
    doubt = "Not to be relied on: " if verdict.level == REFUSED else ""
    return f"{doubt}{kind} {between}, estimated by {name}."


def _reasons(verdict: Verdict, findings: Findings) -> tuple[Reason, ...]:
    """The verdict's reasons without its conclusion, which the sentence above it has said already.

    Findings that mean the same are one reason, and a remedy is given once.
    """
    level = "alarm" if verdict.level == REFUSED else "caution"
    against = [
        *(Reason(ground, level=level) for ground in verdict.grounds),
        *_topics(list(verdict.findings)),
    ]
    if against:
        return tuple(against)
    supporting = [findings[name] for name in SUPPORT if name in findings]
    return tuple(
        Reason(TOPICS[f.name].well or capitalized(f.sentence), behind=(capitalized(f.sentence),))
        for f in supporting
        if f.level == "ok" and not math.isnan(f.value)
    )


def _topics(findings: list[Finding]) -> list[Reason]:
    """Findings in plain words, those that share them together, in the order of the first of each."""
    groups: dict[str, list[Finding]] = {}
    for f in findings:
        topic = TOPICS.get(f.name)
        groups.setdefault(capitalized(f.sentence) if topic is None else topic.raised, []).append(f)
    remedies: set[str] = set()
    out = []
    for text, members in groups.items():
        new = [r for r in dict.fromkeys(f.remedy for f in members) if r and r not in remedies]
        remedies.update(new)
        worst = max((f.level for f in members), key=lambda each: SEVERITY[each])
        behind = tuple(b for b in (capitalized(f.sentence) for f in members) if b != text)
        out.append(Reason(text, " ".join(new), worst, behind))
    return out


def _advice(against: ChangeWords, test: ABTest | None) -> str:
    if against.sign < 0:
        return ". Not worth an A/B test on this evidence."
    if test is None:
        return "."
    if against.sign == 0:
        return f". An A/B test to tell would need {test.size}, to detect {test.effect}."
    if test.is_reasonable:
        return f". Worth an A/B test of {test.size}, enough to detect {test.effect}."
    return (
        ". How large the difference is this log hardly says: an A/B test for what can be counted on "
        f"({test.effect}) would need {test.size}."
    )


def _numbers(
    evaluation: Evaluation,
    policy: str,
    level: float,
    between: str,
    against: ChangeWords,
    verdict: Verdict,
) -> tuple[Figure, ...]:
    e, logged = evaluation[policy, headline(evaluation.estimators).name], evaluation.logged
    size, test = evaluation.diagnostics[policy, "effective_sample_size"], verdict.test
    refused = verdict.level == REFUSED
    return (
        Figure("Estimated value", measured(e.value, e.std_error), between, refused),
        Figure("Logged value", measured(logged.value, logged.std_error), reach_of(logged, level)),
        Figure("Against the log", against.short, against.ends, refused),
        Figure("Effective sample", plain(size.value), f"of {count(size.details['units'])}"),
        Figure(
            "A/B test to settle it",
            DASH if test is None else count(test.total, 2),
            "no finite test" if test is None else f"{test.unit} in all, to detect {test.effect}",
        ),
    )
