"""The answer in a plain sentence, with its verdict: what a reader acts on before looking at any chart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from offpolicy._document import Figure
from offpolicy.inference.comparison import Change, change
from offpolicy.inference.figures import DASH, capitalized, count, level_text, percent, plain, plural_of, signed
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline
from offpolicy.show.words import SUPPORT, ChangeWords, Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Traffic
    from offpolicy.inference.family import BestPolicy
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.trust import Findings
    from offpolicy.trust.finding import Finding
    from offpolicy.trust.trial import ABTest
    from offpolicy.trust.verdict import Verdict

Kind: TypeAlias = Literal["text", "strong", "name"]
Fragment: TypeAlias = tuple[str, Kind]

ORDER = {"trust": 0, "caution": 1, "insufficient evidence": 2}
REFUSED = "insufficient evidence"
MOST_NAMES = 3
TITLE = "Against the current policy"


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
class Ends:
    """Intervals of a policy: of its value, of its difference from the current policy, and of the change in words.

    The best of several policies is not as good as it looks: the intervals of several hold together.
    """

    value: Interval
    difference: Interval
    change: ChangeWords
    kind: str

    @classmethod
    def of(cls, ev: Evaluation, policy: str, level: float) -> Ends:
        """Those of the headline estimator."""
        name, kind = headline(ev.estimators).name, f"{level_text(level)} interval"
        e, logged = ev[policy, name], ev.logged
        if not e.is_defined:
            return cls(e.interval(level), (e - logged).interval(level), ChangeWords.undefined(), kind)
        if len(ev.policies) == 1:
            own = change(e, logged, level)
            return cls(e.interval(level), (e - logged).interval(level), ChangeWords.of(own, minimize=ev.minimize), kind)
        family = ev.compare(level)
        words = ChangeWords.of(family.change(ev, policy, name), minimize=ev.minimize)
        together = f"{kind} corrected for {len(ev.policies)} policies"
        return cls(family.values[policy], family.differences[policy], words, together)


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
        Value, interval, change against the current policy and size of the A/B test, for the table of policies.
    numbers : tuple of Figure
    ends : Ends
    """

    policy: str
    estimator: str
    level: str
    sentence: tuple[Fragment, ...]
    basis: str
    reasons: tuple[Reason, ...]
    cells: tuple[str, str, str, str]
    numbers: tuple[Figure, ...]
    ends: Ends

    @property
    def is_refused(self) -> bool:
        """Whether the number should not be used."""
        return self.level == REFUSED

    @property
    def text(self) -> str:
        """The sentence without emphasis."""
        return "".join(part for part, _ in self.sentence)


def question(ev: Evaluation) -> tuple[Fragment, ...]:
    """What the report answers."""
    if len(ev.policies) == 1:
        earned = "cost" if ev.minimize else "earned"
        return (
            ("What would ", "text"),
            (ev.policies[0], "name"),
            (f" have {earned} instead of the current policy?", "text"),
        )
    better = "cost less" if ev.minimize else "earned more"
    return ((f"Which policy would have {better} than the current one?", "text"),)


def answers(evaluation: Evaluation, level: float = 0.95, traffic: Traffic | None = None) -> list[Answer]:
    """One answer for each policy, the most promising first.

    Verdicts come first, then the lower end of the interval of the difference from the current policy.
    """
    unordered = [_answer(evaluation, policy, level, traffic) for policy in evaluation.policies]

    def promise(a: Answer) -> tuple[int, float]:
        gain = a.ends.difference
        least = -gain.high if evaluation.minimize else gain.low
        return ORDER.get(a.level, 3), float("inf") if math.isnan(least) else -least

    return sorted(unordered, key=promise)


def best_policies(ev: Evaluation, level: float) -> BestPolicy:
    """Which of several policies may be the best; the current one is not where another is shown to be better."""
    comparison = ev.compare(level)
    best, name = comparison.best, headline(ev.estimators).name
    better = [
        p
        for p, interval in comparison.differences.items()
        if Change(ev[p, name] - ev.logged, interval, is_lift=False).better(minimize=ev.minimize) > 0
    ]
    if LOGGING_POLICY not in best.names or not better:
        return best
    names = tuple(p for p in best.names if p != LOGGING_POLICY)
    return replace(best, names=names or (best.leader,))


def choice(ev: Evaluation, ordered: Sequence[Answer], level: float) -> tuple[Fragment, ...]:
    """Which of several policies is the best, or which are too close to call; nothing for a single policy."""
    if len(ordered) == 1:
        return ()
    usable = [a.policy for a in ordered if not a.is_refused]
    if not usable:
        return (
            ("There is not enough evidence to say which of the ", "text"),
            (f"{len(ordered)} policies", "strong"),
            (" is better.", "text"),
        )
    best = best_policies(ev, level)
    if len(usable) < len(ordered):  # what cannot be judged may not win
        some = replace(
            ev,
            targets={p: ev.targets[p] for p in usable},
            estimates={key: e for key, e in ev.estimates.items() if key[0] in usable},
        )
        best = best_policies(some, level)
    rest = len(ordered) - len(usable)
    tail = f" There is not enough evidence about {_policies(rest)}." if rest else ""
    among = f"the {_policies(len(usable))}" + (" with enough evidence" if rest else "")
    winners = [a.policy for a in ordered if a.policy in best.names]
    if LOGGING_POLICY in best.names:
        parts: list[Fragment] = [(f"None of {among} is clearly better than the current one", "strong")]
        if winners:
            close = "is" if len(winners) == 1 else "are"
            parts += [("; ", "text"), *_named(winners), (f" {close} too close to call", "text")]
    elif len(winners) == 1:
        parts = [(winners[0], "name"), (f" is the best of {among}", "strong")]
    else:
        parts = [*_named(winners), (" are too close to call", "strong")]
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


def _answer(ev: Evaluation, policy: str, level: float, traffic: Traffic | None) -> Answer:
    verdict = ev.verdict(policy, level=level)
    name = headline(ev.estimators).name
    e, measure = ev[policy, name], Measure.of(ev)
    ends = Ends.of(ev, policy, level)
    between, against, kind = measure.between(e, ends.value), ends.change, ends.kind
    worth = measure.worth(e.value, e.std_error)
    parts: list[Fragment]
    if not e.is_defined:
        parts = [("The log has no evidence about ", "text"), (policy, "name"), (".", "text")]
    elif verdict.level == REFUSED:
        parts = [
            ("There is not enough evidence to say what ", "text"),
            (policy, "name"),
            (f" would {'cost' if ev.minimize else 'earn'}. Taken at face value, it would {worth}.", "text"),
        ]
    else:
        parts = [
            (policy, "name"),
            (" would ", "text"),
            (worth, "strong"),
            *_against(against, kind, minimize=ev.minimize),
            (_advice(against, verdict.test), "text"),
        ]
        if traffic is not None:
            parts.append((_adds_up(ev, policy, level, traffic, measure), "text"))
        if ev.assumption:
            parts.append((f" {capitalized(f'this {ev.assumption}')}", "text"))
    short = against.short if against.short == DASH else f"{against.short} ({against.ends})"
    test = verdict.test
    doubt = "Do not rely on this " if verdict.level == REFUSED else ""
    basis = f"{doubt}{kind}: {between}, estimated by {name}."
    return Answer(
        policy,
        name,
        verdict.level,
        tuple(parts),
        basis,
        _reasons(verdict, ev.diagnostics[policy]),
        (measure.text(e.value, e.std_error), between, short, DASH if test is None else count(test.total, 2)),
        _numbers(ev, policy, level, between, against, verdict),
        ends,
    )


def _against(against: ChangeWords, kind: str, *, minimize: bool) -> list[Fragment]:
    """The policy against the current one: how much more, or that there may be no difference."""
    if against.sign == 0:
        if not against.reach:
            return [(". How it compares with the current policy is uncertain.", "text")]
        return [
            (". Compared with the current policy, that is anywhere from ", "text"),
            (against.reach, "strong"),
            (f" ({kind}), so there may be no difference.", "text"),
        ]
    less = "; lower is better" if minimize else ""
    return [
        (", ", "text"),
        (f"{against.size} than the current policy", "strong"),
        (f" ({kind}: {against.reach}{less}).", "text"),
    ]


def _adds_up(ev: Evaluation, policy: str, level: float, traffic: Traffic, measure: Measure) -> str:
    """What the difference comes to at so much traffic, with its interval."""
    low, high, value = difference_at(ev, policy, level, traffic)
    more = measure.total(plain(abs(value), 2), more=value >= 0)
    start = f" At {traffic.number} {measure.unit}s per {traffic.period}, that is about {more} per {traffic.period}"
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{start}."
    ends = f"{signed(low, digits=2)} to {signed(high, digits=2)}".replace("-", "−")
    return f"{start} ({ends})."


def difference_at(ev: Evaluation, policy: str, level: float, traffic: Traffic) -> tuple[float, float, float]:
    """Ends of the interval and value of a policy's difference from the current one, times the traffic."""
    low, high = Ends.of(ev, policy, level).difference.shown
    gap = ev[policy, headline(ev.estimators).name] - ev.logged
    return low * traffic.units, high * traffic.units, gap.value * traffic.units


def _reasons(verdict: Verdict, findings: Findings) -> tuple[Reason, ...]:
    """The verdict's reasons without its conclusion, which the sentence above it has said already.

    A remedy is given once.
    """
    level = "alarm" if verdict.level == REFUSED else "caution"
    against = [*(Reason(ground, level=level) for ground in verdict.grounds), *_raised(verdict.findings)]
    if against:
        return tuple(against)
    supporting = [findings[name] for name in SUPPORT if name in findings]
    return tuple(
        Reason(f.topic.well or capitalized(f.sentence), behind=(capitalized(f.sentence),))
        for f in supporting
        if f.level == "ok" and not math.isnan(f.value)
    )


def _raised(findings: Sequence[Finding]) -> list[Reason]:
    """Findings in plain words, each with the sentences of its statistics."""
    remedies: set[str] = set()
    out = []
    for f in findings:
        text = f.topic.raised or capitalized(f.sentence)
        new = [r for r in dict.fromkeys(s.remedy for s in f.statistics) if r and r not in remedies]
        remedies.update(new)
        behind = tuple(b for b in (capitalized(s.sentence) for s in f.statistics) if b != text)
        out.append(Reason(text, " ".join(new), f.level, behind))
    return out


def _advice(against: ChangeWords, test: ABTest | None) -> str:
    if against.sign < 0:
        return " It is not worth an A/B test."
    if test is None:
        return ""
    arms = f"{test.size} ({count(test.per_arm, 2)} per arm)"
    power = f"with {percent(test.power)} power"
    if against.sign == 0:
        return f" To find out, an A/B test of {arms} would detect {test.effect} {power}."
    if test.is_reasonable:
        return f" Worth an A/B test: {arms} would detect {test.effect} {power}."
    return (
        f" The size of the gain is uncertain: an A/B test that detects {test.effect}, a cautious estimate of it, "
        f"needs {test.size}."
    )


def _numbers(
    ev: Evaluation, policy: str, level: float, between: str, against: ChangeWords, verdict: Verdict
) -> tuple[Figure, ...]:
    e, logged = ev[policy, headline(ev.estimators).name], ev.logged
    size, test, measure = (ev.diagnostics[policy, "effective_sample_size"], verdict.test, Measure.of(ev))
    refused = verdict.level == REFUSED
    unit = plural_of(ev.problem.log.names.cluster) if ev.problem.units.has_clusters else f"{measure.unit}s"
    return (
        Figure("Estimated value", measure.text(e.value, e.std_error), between, refused),
        Figure(
            "Logged value",
            measure.text(logged.value, logged.std_error),
            measure.between(logged, logged.interval(level)),
        ),
        Figure(TITLE, against.short, against.ends, refused),
        Figure("Effective sample", plain(size.value), f"of {count(size.details['units'])} {unit}"),
        Figure(
            "A/B test to settle it",
            DASH if test is None else count(test.total, 2),
            "no finite test" if test is None else f"{test.unit}, to detect {test.effect}",
        ),
    )


def summary_rows(ev: Evaluation, level: float = 0.95) -> list[dict[str, Any]]:
    """What `Evaluation.summary` holds: the current policy, then one row per policy, the most promising first."""

    def row(policy: str, verdict: str, value: float, interval: Interval, change: tuple[str, str], test: Any) -> Any:
        low, high = interval.shown
        told = {"change": change[0], "change_interval": change[1], "ab_test": test}
        return {"policy": policy, "verdict": verdict, "value": value, "low": low, "high": high, **told}

    name, logged = headline(ev.estimators).name, ev.logged
    rows = [row(LOGGING_POLICY, "", logged.value, logged.interval(level), ("", ""), None)]
    for a in answers(ev, level):
        test, told = ev.verdict(a.policy, level=level).test, (a.ends.change.short, a.ends.change.ends)
        total = None if test is None else test.total
        rows.append(row(a.policy, a.level, ev[a.policy, name].value, a.ends.value, told, total))
    return rows


def totals(ev: Evaluation, level: float, traffic: Traffic) -> dict[str, Any]:
    """What the differences of all policies add up to at so much traffic, with intervals."""
    name = headline(ev.estimators).name
    out: dict[str, Any] = {"text": traffic.text, "units": traffic.units, "period": traffic.period}
    for policy in ev.policies:
        if ev[policy, name].is_defined:
            low, high, value = difference_at(ev, policy, level, traffic)
            out.setdefault("differences", {})[policy] = {"value": value, "low": low, "high": high}
    return out
