"""`Finding`: one check, with its value, level, sentence and remedy; `Diagnostics`: all of them by name.

A check asks one question, often by several statistics: whether propensities are right, for instance, by the mean
weight, by the mean weight of each action and batch, and by their calibration. `Findings` puts the statistics of a check
together; verdict, report, JSON and command line see checks. The statistic of the worst level speaks for its check.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offpolicy._visible import printable
from offpolicy.errors import UnknownNameError, did_you_mean
from offpolicy.inference.figures import capitalized, plain, small_table
from offpolicy.trust.check import CHECKS, Level, Threshold, Topic

NOT_RUN = "not run"
MARKS: dict[Level, str] = {"ok": "ok     ", "note": "note   ", "caution": "CAUTION", "alarm": "ALARM  "}
SEVERITY: dict[Level, int] = {"ok": 0, "note": 1, "caution": 2, "alarm": 3}


@dataclass(frozen=True)
class Finding:
    """What one check found, or one of its statistics: ``finding["mean_weight"]``.

    Attributes
    ----------
    name : str
    value : float
        NaN where the check does not apply; the sentence says why. Of a check with several statistics it is the value of
        the one that speaks.
    level : {"ok", "note", "caution", "alarm"}
        A note is advice that says nothing against the number.
    sentence : str
        The finding in words, with its numbers.
    remedy : str
        What to do; empty when all is well.
    details : dict
        Tables behind the number.
    statistics : tuple of Finding
        What the check rests on; empty for a statistic itself.

    Examples
    --------
    >>> finding = judged("effective_sample_size", 2.3, "2.3 units' worth of information.")
    >>> finding.level, float(finding)
    ('alarm', 2.3)
    """

    name: str
    value: float
    level: Level
    sentence: str
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict, repr=False)
    statistics: tuple[Finding, ...] = field(default=(), repr=False)

    def __float__(self) -> float:
        return float(self.value)

    def __getitem__(self, name: str) -> Finding:
        for statistic in self.statistics:
            if statistic.name == name:
                return statistic
        raise UnknownNameError(
            f"{self.name!r} has no statistic {name!r}.{did_you_mean(name, [f.name for f in self.statistics])}"
        )

    @property
    def speaker(self) -> Finding:
        """The statistic whose value, level and sentence these are: the first of the worst level."""
        return max(self.statistics, key=lambda f: (SEVERITY[f.level], f.decides, f.ran), default=self)

    @property
    def limits(self) -> Threshold:
        """Of the statistic that speaks: what it is about, and whether its alarm decides."""
        return CHECKS[self.speaker.name].limits

    @property
    def topic(self) -> Topic:
        """What the statistic that speaks asks, in the plain words of the report."""
        return CHECKS[self.speaker.name].topic

    @property
    def decides(self) -> bool:
        """Whether this finding alone means that there is not enough evidence."""
        return self.level == "alarm" and self.limits.decides

    @property
    def is_raised(self) -> bool:
        """Whether it is a caution or an alarm."""
        return self.level in {"caution", "alarm"}

    @property
    def ran(self) -> bool:
        """Whether the check could be made; where not, the sentence says why."""
        return not math.isnan(self.value)

    @printable
    def __str__(self) -> str:
        return f"{MARKS[self.level] if self.ran else NOT_RUN} {self.name}: {self.sentence}"


def judged(
    name: str,
    value: float,
    sentence: str,
    details: dict[str, Any] | None = None,
    *,
    at_most: Level = "alarm",
    remedy: str | None = None,
) -> Finding:
    """A finding at the level that the check's limits give its value, or a milder one.

    ``remedy`` takes the place of the check's where what to do depends on the log.
    """
    limits = CHECKS[name].limits
    level = min(limits.level(value), at_most, key=SEVERITY.__getitem__)
    advice = limits.remedy if remedy is None else remedy
    return Finding(name, float(value), level, sentence, "" if level == "ok" else advice, details or {})


def fine(name: str, value: float) -> bool:
    """Whether a value is within the limits of a check."""
    return CHECKS[name].limits.level(value) == "ok"


def not_applicable(name: str, why: str) -> Finding:
    """A check that cannot be made here, and why."""
    return Finding(name, math.nan, "ok", why)


def wrapped(finding: Finding) -> list[str]:
    """Lines of a finding and its remedy, of a width that terminals have."""
    lines = textwrap.wrap(str(finding), 100, subsequent_indent=" " * 8)
    if finding.remedy:
        lines += textwrap.wrap(f"→ {finding.remedy}", 100, initial_indent=" " * 8, subsequent_indent=" " * 10)
    return lines


class Findings(Mapping[str, Finding]):
    """The findings about one policy (or about the log), one per check; a statistic can be looked up by its name too."""

    def __init__(self, statistics: Sequence[Finding]) -> None:
        self._statistics = {f.name: f for f in statistics}
        groups: dict[str, list[Finding]] = {}
        for f in self._statistics.values():
            groups.setdefault(CHECKS[f.name].listed, []).append(f)
        self._by_name = {name: _together(name, tuple(members)) for name, members in groups.items()}

    @property
    def statistics(self) -> list[Finding]:
        """Every statistic of every check."""
        return list(self._statistics.values())

    def __getitem__(self, name: str) -> Finding:
        if name not in self:
            raise UnknownNameError(
                f"no check is called {name!r}.{did_you_mean(name, [*self._by_name, *self._statistics])}"
            )
        return self._by_name.get(name) or self._statistics[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._statistics

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def worst(self) -> list[Finding]:
        """Alarms first, then cautions; what is well, and notes, are left out."""
        return sorted((f for f in self.values() if f.is_raised), key=lambda f: -SEVERITY[f.level])

    @printable
    def __str__(self) -> str:
        return "\n".join(line for finding in self.values() for line in wrapped(finding))

    @printable
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        ordered = sorted(self.values(), key=lambda f: {"alarm": 0, "caution": 1}.get(f.level, 2))
        rows = [(f.name, f.level, f"{capitalized(f.sentence)} {f.remedy}".strip(), plain(f.value)) for f in ordered]
        return small_table(("check", "result", "finding", "value"), rows, left=3)


def _together(name: str, statistics: tuple[Finding, ...]) -> Finding:
    """The finding of a check, as the worst of its statistics puts it."""
    says = Finding(name, math.nan, "ok", "", statistics=statistics).speaker
    return Finding(name, says.value, says.level, says.sentence, says.remedy, says.details, statistics)


class Diagnostics:
    """Every check of a log and of the policies evaluated on it.

    ``d["policy", "weights"]``, ``d["policy"]["weights"]``, and the name of the check alone where it is about the log or
    there is one policy. A statistic of a check has a name too: ``d["policy", "effective_sample_size"]``.

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 50, [0.0, 1.0] * 50, [0.5] * 100)
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
    >>> float(ev.diagnostics["effective_sample_size"])
    50.0
    """

    def __init__(self, log: Findings, policies: dict[str, Findings]) -> None:
        self.log = log
        # What a check finds about a policy takes the place of what it finds about the log.
        whole = {f.name: f for f in log.statistics}
        by_policy = {name: {f.name: f for f in own.statistics} for name, own in policies.items()}
        self.policies = {name: Findings(list((own | whole | own).values())) for name, own in by_policy.items()}
        self._own = policies

    def __getitem__(self, key: str | tuple[str, str]) -> Any:
        if isinstance(key, tuple):
            return self[key[0]][key[1]]
        if key in self.policies:
            return self.policies[key]
        if len(self.policies) == 1:
            return next(iter(self.policies.values()))[key]
        if key in self.log:
            return self.log[key]
        own = {f.name for findings in self._own.values() for f in (*findings.values(), *findings.statistics)}
        if key in own:
            raise UnknownNameError(f"name the policy as well: [policy, {key!r}]. Policies: {[*self.policies]}.")
        raise UnknownNameError(
            f"no policy or check is called {key!r}.{did_you_mean(key, [*self.policies, *own, *self.log])}"
        )

    def __iter__(self) -> Iterator[Finding]:
        """Every finding once: the log's, then each policy's."""
        for findings in (self.log, *self._own.values()):
            yield from findings.values()

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per finding, the log's first (``policy`` is None for these)."""
        groups: list[tuple[str | None, Findings]] = [(None, self.log), *self._own.items()]
        return [{"policy": policy, **_row(f)} for policy, findings in groups for f in findings.values()]

    @printable
    def __str__(self) -> str:
        parts = [f"The log\n{self.log}"] if len(self.log) else []
        parts += [f"Policy {name!r}\n{findings}" for name, findings in self._own.items()]
        return "\n\n".join(parts)

    def frame(self) -> Any:
        """One row per finding as a pandas table; ``policy`` is None for those about the log.

        >>> import offpolicy as op
        >>> log = op.BanditLog.from_arrays(None, [0, 1] * 50, [0.0, 1.0] * 50, [0.5] * 100)
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
        >>> ev.diagnostics.frame().columns.tolist()
        ['policy', 'name', 'value', 'level', 'sentence', 'remedy']
        """
        import pandas as pd

        kept = ("policy", "name", "value", "level", "sentence", "remedy")
        return pd.DataFrame([{key: row[key] for key in kept} for row in self.rows()])

    @printable
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        groups = {"The log": self.log, **self._own}
        return "".join(
            f"<p><b>{html.escape(name)}</b></p>{findings._repr_html_()}"
            for name, findings in groups.items()
            if len(findings)
        )


def _row(f: Finding) -> dict[str, Any]:
    """A check with its statistics, or a statistic with the tables behind it, as plain values."""
    words = {
        "name": f.name,
        "value": f.value,
        "level": f.level,
        "ran": f.ran,
        "sentence": f.sentence,
        "remedy": f.remedy,
    }
    if not f.statistics:
        return {**words, "details": f.details}
    return {**words, "statistic": f.speaker.name, "statistics": [_row(statistic) for statistic in f.statistics]}


TONES = {"trust": "#2a9d5c", "caution": "#c98a12", "insufficient evidence": "#d6453d"}


def bar(tone: str, head: str, lines: Sequence[str]) -> str:
    """A line of HTML and texts below it, beside a bar of a color."""
    inner = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return (
        f'<div style="border-left:3px solid {tone};padding:.1em .7em;margin:.4em 0">{head}'
        f'<ul style="margin:.2em 0;opacity:.8">{inner}</ul></div>'
    )
