"""Results as plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offpolicy._progress import track
from offpolicy._visible import visible
from offpolicy.errors import NotIdentifiedError
from offpolicy.inference.change import change
from offpolicy.inference.display import align
from offpolicy.inference.figures import capitalized, level_text, plural_of
from offpolicy.logs.words import unit_word
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.show.tables import number_of_clusters

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

HEADINGS = ("policy", "estimator", "value", "std error", "{level} interval", "vs logged", "n")


def number(value: float, digits: int = 4) -> str:
    """A number for people: significant digits, no trailing noise, a dash for what is not defined.

    >>> number(0.0213456), number(float("nan")), number(1234567.0)
    ('0.02135', '—', '1.235e+06')
    """
    return "—" if math.isnan(value) else f"{value:.{digits}g}"


def cells(evaluation: Evaluation, level: float = 0.95) -> list[tuple[str, ...]]:
    """The result as rows of text."""
    logged = evaluation.logged
    own = {
        (policy, e.name): evaluation[policy, e.name]
        for policy in evaluation.policies
        for e in evaluation.estimators
    }
    rows = [((LOGGING_POLICY, "mean"), logged), *own.items()]
    out: list[tuple[str, ...]] = []
    with track("intervals", len(rows)) as advance:
        for names, e in rows:
            texts = (
                *(visible(name) for name in names),
                number(e.value),
                *_spread(e, level, counted=e is logged),
                _against(e, logged, level),
                f"{e.n:,}",
            )
            out.append(texts)
            advance()
    return out


def _spread(e: Estimate, level: float, *, counted: bool) -> tuple[str, str]:
    """Standard error and interval; estimates whose scores do not vary at all are no certainty, counted means are."""
    interval = e.interval(level)
    tiny = 1e-12 * (1 + abs(e.value))
    if e.std_error > tiny or counted:
        return number(e.std_error, 2), _interval(interval)
    return "—", _interval(interval) if interval.high - interval.low > 4 * tiny else "not stated"


def _against(e: Estimate, logged: Estimate, level: float) -> str:
    """A lift in percent, or the difference where the logged value is no base for one."""
    if e is logged or not e.is_defined:
        return ""
    against = change(e, logged, level)
    value, (low, high) = against.estimate.value, against.interval
    ends = f"[{low:+.3g}, {high:+.3g}]"
    if against.is_lift:
        ends = f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    size = f"{100 * value:+.1f}%" if against.is_lift else f"{value:+.3g}"
    return f"{size} {ends}" if against.interval.sufficient else f"{size} (refused)"


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return "not identified"
    if not interval.sufficient:
        return "refused"
    return f"[{number(interval.low)}, {number(interval.high)}]"


def refusals(evaluation: Evaluation, level: float) -> list[str]:
    """Why an estimate has no interval, one line for each that has none."""
    rows = evaluation.estimates.values()
    intervals = [(e.label, e.interval(level)) for e in rows if e.is_defined]
    return [f"{label}: no interval: {i.reason}" for label, i in intervals if not i.sufficient]


def headings(level: float) -> tuple[str, ...]:
    """Headings of the table of estimates, with the level of its intervals."""
    return tuple(h.format(level=level_text(level)) for h in HEADINGS)


def best_of(evaluation: Evaluation, level: float = 0.95) -> str:
    """Which of several policies is the best, or that they cannot be told apart; empty for a single one.

    The interval of the leader is one that holds although it was chosen.
    """
    if len(evaluation.policies) < 2:
        return ""
    try:
        comparison = evaluation.compare(level)
    except NotIdentifiedError as error:
        return capitalized(str(error))
    best, better = comparison.best, "lower" if evaluation.minimize else "higher"
    lines = [f"{capitalized(visible(best.statement))[:-1]} ({better} is better)."]
    own = comparison.values.get(best.leader)
    if own is not None and own.sufficient:
        lines.append(
            f"{visible(best.leader)}: {_interval(own)}, corrected for having been chosen among "
            f"{len(evaluation.policies)} policies."
        )
    return " ".join(lines)


def direction(evaluation: Evaluation) -> str:
    """Which way is better."""
    return "lower is better" if evaluation.minimize else "higher is better"


def metrics_line(evaluation: Evaluation) -> str:
    """Which of several metrics an evaluation speaks of; empty where there is one."""
    if not evaluation.asked.are_several:
        return ""
    others = [visible(m) for m in evaluation.metrics if m != evaluation.metric_name]
    own = visible(evaluation.metric_name)
    return f"Metric: {own} ({direction(evaluation)}). Others by ev.metric(…): {', '.join(others)}."


def pareto_table(evaluation: Evaluation, level: float = 0.95) -> str:
    """Policies by metrics with intervals that hold together, and the claim that they support."""
    found = evaluation.pareto(level)
    rows = []
    for policy in found.policies:
        cells = [
            f"{value} [{ends.replace(' to ', ', ')}]" if " to " in ends else f"{value} ({ends})"
            for value, ends in (found.cell(policy, metric) for metric in found.metrics)
        ]
        beaten = ", ".join(visible(p) for p in found.dominated.get(policy, ())) or "no one"
        rows.append((visible(policy), *cells, beaten))
    names = [
        f"{visible(m)} ({'lower' if m in found.minimized else 'higher'})" for m in found.metrics
    ]
    text = align(("policy", *names, "beaten in all by"), rows, numbers=False)
    note = f"All intervals hold together with probability {found.level:g}."
    return "\n".join([text, "", capitalized(visible(found.statement)), note])


def sizes(evaluation: Evaluation) -> str:
    """How much was logged, in the words of the log: impressions or episodes, and of how many users."""
    log, clusters = evaluation.problem.log, number_of_clusters(evaluation)
    text = f"{log.n:,} {unit_word(log.kind, plural=True)}"
    if clusters is None:
        return text
    return f"{text} of {clusters:,} {visible(plural_of(log.names.cluster))}"


def table(evaluation: Evaluation, level: float = 0.95) -> str:
    """The whole result as text: estimates, then what a reader should know about them."""
    text = align(headings(level), cells(evaluation, level))
    notes = [f"{e.label}: {note}" for e in evaluation.estimates.values() for note in e.notes]
    of_policies = [f"{name}: {t.note}" for name, t in evaluation.targets.items() if t.note]
    notes = [*of_policies, *refusals(evaluation, level), *notes]
    settings = evaluation.settings
    model = settings["reward_model"] or settings["value_model"]
    foot = (
        f"π_b: {settings['behavior_model']} · q: {model} · {settings['folds']} folds × "
        f"{settings['repeats']} · seed {settings['seed']}"
    )
    about = [settings["estimand"]] if "estimand" in settings else []
    if len(evaluation.policies) > 1:
        about.append(
            "Each interval of the table stands alone: none is corrected for the number of policies."
        )
    about += [sizes(evaluation)] if evaluation.problem.units.has_clusters else []
    return "\n".join([text, "", *about, foot, *notes])


def whole(evaluation: Evaluation) -> str:
    """What print() shows."""
    parts = (metrics_line(evaluation), best_of(evaluation), table(evaluation))
    return "\n".join(filter(None, parts))
