"""Policies by several metrics at once: intervals that hold together, and who is worse than another in all of them.

The values of all policies, the logging policy among them, by all metrics are one `family`. "b is worse than a in every
metric" is claimed where the interval of a − b lies on the better side in every metric. Such a claim needs all metrics,
so that each may be judged at the same level: a wrong claim is wrong in one of them already. The level is corrected for
the number of pairs, so that all claims hold together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offpolicy._visible import printable
from offpolicy.inference.family import adjusted, together
from offpolicy.inference.figures import interval_text, measured
from offpolicy.inference.registry import declared
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy.inference.comparison import Evaluated
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval


@dataclass(frozen=True)
class Pareto:
    """What each policy comes to by each metric, and which policies another beats in all of them.

    Attributes
    ----------
    level : float
        Probability with which all intervals, and all claims, hold together.
    metrics : tuple of str
    minimized : tuple of str
        Metrics of which less is better.
    policies : tuple of str
        The policies and the logging policy, as far as the log identifies them.
    values : {(policy, metric): Estimate}
    intervals : {(policy, metric): Interval}
        Simultaneous ones.
    dominated : {policy: tuple of policies}
        Who is shown to be better than a policy in every metric; only policies for which there is someone.
    """

    level: float
    metrics: tuple[str, ...]
    minimized: tuple[str, ...]
    policies: tuple[str, ...]
    values: dict[tuple[str, str], Estimate] = field(repr=False)
    intervals: dict[tuple[str, str], Interval]
    dominated: dict[str, tuple[str, ...]]

    @property
    def front(self) -> tuple[str, ...]:
        """Policies of which it is not shown that another is better in every metric."""
        return tuple(p for p in self.policies if p not in self.dominated)

    @property
    def statement(self) -> str:
        """The claims as a sentence."""
        rate = f"{100 * (1 - self.level):.3g}% error rate"
        if not self.dominated:
            return f"No policy is clearly worse than another in every metric ({rate})."
        claims = [f"{p} than {' and '.join(better)}" for p, better in self.dominated.items()]
        return f"Worse in every metric: {'; '.join(claims)} ({rate})."

    def rows(self) -> list[dict[str, object]]:
        """One dictionary per policy and metric."""
        table: list[dict[str, object]] = []
        for (policy, metric), e in self.values.items():
            low, high = self.intervals[policy, metric].shown
            table.append(
                {
                    "policy": policy,
                    "metric": metric,
                    "value": e.value,
                    "low": low,
                    "high": high,
                    "method": self.intervals[policy, metric].method,
                    "refused": self.intervals[policy, metric].reason or None,
                    "better": "lower" if metric in self.minimized else "higher",
                    "dominated_by": list(self.dominated.get(policy, ())),
                }
            )
        return table

    def cell(self, policy: str, metric: str) -> tuple[str, str]:
        """A value and its interval in words."""
        e = self.values[policy, metric]
        return measured(e.value, e.std_error), interval_text(e, self.intervals[policy, metric])

    @printable
    def __str__(self) -> str:
        lines = [f"All intervals hold at once with probability {self.level:g}."]
        for policy in self.policies:
            own = []
            for metric in self.metrics:
                value, between = self.cell(policy, metric)
                own.append(f"{metric} {value} ({between})")
            lines.append(f"{policy}: {', '.join(own)}")
        return "\n".join([*lines, self.statement])

    @printable
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from offpolicy.inference.figures import pareto_html

        return pareto_html(self)


def pareto(
    by_metric: Mapping[str, Evaluated], minimized: tuple[str, ...], level: float = 0.95, estimator: str | None = None
) -> Pareto:
    """Every policy by every metric; see `Evaluation.pareto`."""
    first = next(iter(by_metric.values()))
    name = estimator or headline(first.estimators).name
    found = {policy: {metric: each[policy, name] for metric, each in by_metric.items()} for policy in first.policies}
    found[LOGGING_POLICY] = {metric: each.logged for metric, each in by_metric.items()}
    judged = {p: own for p, own in found.items() if all(e.is_defined for e in own.values())}
    values = {(p, metric): e for p, own in judged.items() for metric, e in own.items()}
    made = together(list(values.values()), level).intervals
    intervals, dominated = dict(zip(values, made, strict=True)), _dominated(judged, minimized, level)
    return Pareto(level, tuple(by_metric), minimized, tuple(judged), values, intervals, dominated)


def _dominated(
    judged: dict[str, dict[str, Estimate]], minimized: tuple[str, ...], level: float
) -> dict[str, tuple[str, ...]]:
    each = adjusted(level, len(judged) * (len(judged) - 1) // 2)
    out = {}
    for worse, theirs in judged.items():
        better = tuple(p for p, own in judged.items() if p != worse and _beats(own, theirs, minimized, each))
        if better:
            out[worse] = better
    return out


def _beats(own: dict[str, Estimate], theirs: dict[str, Estimate], minimized: tuple[str, ...], level: float) -> bool:
    """Whether one policy is shown to be better in every metric, or the same in some and better in the others."""
    gaps = []
    for metric, e in own.items():
        gap = theirs[metric] - e if metric in minimized else e - theirs[metric]
        # What is within a standard error is beaten by no rule: its interval is not looked for.
        if gap.value < gap.std_error:
            return False
        gaps.append(gap)
    intervals = [gap.interval(level) for gap in gaps]
    same = [declared(i).certain for i in intervals]
    shown = [i.sufficient and i.low > 0 for i in intervals]
    return all(a or b for a, b in zip(same, shown, strict=True)) and any(shown)
