"""`Finding`: one check, with its value, level, sentence and remedy; `Diagnostics`: all of them by name."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from offpolicy._visible import printable
from offpolicy.errors import UnknownNameError, did_you_mean
from offpolicy.trust.thresholds import THRESHOLDS, Level

NOT_RUN = "not run"
MARKS: dict[Level, str] = {"ok": "ok     ", "note": "note   ", "caution": "CAUTION", "alarm": "ALARM  "}
SEVERITY: dict[Level, int] = {"ok": 0, "note": 1, "caution": 2, "alarm": 3}


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    name : str
    value : float
        NaN where the check does not apply; the sentence says why.
    level : {"ok", "note", "caution", "alarm"}
        A note is advice that says nothing against the number.
    sentence : str
        The finding in words, with its numbers.
    remedy : str
        What to do; empty when all is well.
    details : dict
        Tables behind the number.

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

    def __float__(self) -> float:
        return float(self.value)

    @property
    def decides(self) -> bool:
        """Whether this finding alone means that there is not enough evidence."""
        return self.level == "alarm" and THRESHOLDS[self.name].decides

    @property
    def about_products(self) -> bool:
        """Whether it speaks of products of ratios over an episode."""
        return THRESHOLDS[self.name].about_products

    @property
    def ran(self) -> bool:
        """Whether the check could be made; where not, the sentence says why."""
        return not math.isnan(self.value)

    @property
    def about_marginals(self) -> bool:
        """Whether it speaks of ratios of marginals."""
        return THRESHOLDS[self.name].about_marginals

    @property
    def about_reach(self) -> bool:
        """Whether it speaks of how little of the target the log holds."""
        return THRESHOLDS[self.name].about_reach

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
    """A finding at the level the table gives its value, or a milder one.

    ``remedy`` takes the place of the table's where what to do depends on the log.
    """
    level = THRESHOLDS[name].level(value)
    if SEVERITY[level] > SEVERITY[at_most]:
        level = at_most
    advice = THRESHOLDS[name].remedy if remedy is None else remedy
    return Finding(name, float(value), level, sentence, "" if level == "ok" else advice, details or {})


def not_applicable(name: str, why: str) -> Finding:
    """A check that cannot be made here, and why."""
    return Finding(name, math.nan, "ok", why)


ARMS = "actions are numbers, and the check is about labels."
SHOWN = "the policy is known for the shown items only."


def about_arms(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare that a check is about actions that are labels: of numbers it says why it was not made.

    ``names`` are the findings that the check makes; one that makes several gives a list. The first argument of a check
    is a log, or a view of a policy on one.
    """

    def declared(check: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(check)
        def made(subject: Any, *rest: Any, **keywords: Any) -> Any:
            continuous = getattr(subject, "log", subject).is_continuous
            target = getattr(subject, "target", None)
            partial = target is not None and target.shown is not None
            if not continuous and not partial:
                return check(subject, *rest, **keywords)
            findings = [not_applicable(name, SHOWN if partial else ARMS) for name in names]
            return findings[0] if len(findings) == 1 else findings

        return made

    return declared


def wrapped(finding: Finding) -> list[str]:
    """Lines of a finding and its remedy, of a width that terminals have."""
    lines = textwrap.wrap(str(finding), 100, subsequent_indent=" " * 8)
    if finding.remedy:
        lines += textwrap.wrap(f"→ {finding.remedy}", 100, initial_indent=" " * 8, subsequent_indent=" " * 10)
    return lines


class Findings(Mapping[str, Finding]):
    """The findings about one policy (or about the log) by name."""

    def __init__(self, findings: list[Finding]) -> None:
        self._by_name = {f.name: f for f in findings}

    def __getitem__(self, name: str) -> Finding:
        if name not in self._by_name:
            raise UnknownNameError(f"no check is called {name!r}.{did_you_mean(name, self._by_name)}")
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def worst(self) -> list[Finding]:
        """Alarms first, then cautions; what is well, and notes, are left out."""
        raised = [f for f in self.values() if f.level in {"caution", "alarm"}]
        return sorted(raised, key=lambda f: -SEVERITY[f.level])

    @printable
    def __str__(self) -> str:
        return "\n".join(line for finding in self.values() for line in wrapped(finding))

    @printable
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from offpolicy.trust.display import findings_html

        return findings_html(self)


class Diagnostics:
    """Every check of a log and of the policies evaluated on it.

    ``d["policy", "effective_sample_size"]``, ``d["policy"]["effective_sample_size"]``, and the name of the
    check alone where it is about the log or there is one policy.

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
        self.policies = {
            name: Findings([*own.values(), *(f for f in log.values() if f.name not in own)])
            for name, own in policies.items()
        }
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
        own = {name for findings in self._own.values() for name in findings}
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
        return [
            {
                "policy": policy,
                "name": f.name,
                "value": f.value,
                "level": f.level,
                "ran": f.ran,
                "sentence": f.sentence,
                "remedy": f.remedy,
                "details": f.details,
            }
            for policy, findings in groups
            for f in findings.values()
        ]

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
