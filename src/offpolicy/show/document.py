"""`Document`: an evaluation as answers and sections, made once; drawers turn it into text, Markdown, HTML and JSON.

Where it comes from is part of it: settings, versions, a digest of the log, and how to make it again.
"""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from offpolicy._document import Code, Facts, Section
from offpolicy._version import __version__
from offpolicy.errors import UsageError
from offpolicy.evaluation.shown import Origin, Traffic
from offpolicy.inference.figures import count
from offpolicy.logs.kinds import unit_word
from offpolicy.show import about_all, about_policy, learning
from offpolicy.show.answer import answers
from offpolicy.show.parts import Subject
from offpolicy.show.segments import groupings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from offpolicy._document import Block
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.evaluation.shown import Decision
    from offpolicy.logs.log import Log
    from offpolicy.show.answer import Answer
    from offpolicy.show.parts import Output, Part, Place
    from offpolicy.show.segments import Column, Segments
    from offpolicy.trust.gate import GateResult

PACKAGES = ("numpy", "scipy", "scikit-learn", "lightgbm", "pandas", "narwhals")
PARTS = {part.key: part for part in (*about_all.PARTS, *learning.PARTS, *about_policy.PARTS)}
OWN: dict[str, Part] = {}


def register(part: Part) -> None:
    """Let a part of your own show up in every report, text and JSON from now on."""
    if part.key in PARTS | OWN:
        raise UsageError(f"a section named {part.key!r} already exists.")
    OWN[part.key] = part


def forget(key: str) -> None:
    """Take a part of your own out again."""
    if OWN.pop(key, None) is None:
        raise UsageError(f"you have not added a section named {key!r}.")


def parts(output: Output, place: Place) -> list[Part]:
    """What shows up somewhere: the library's parts, then those of your own."""
    return [p for p in (PARTS | OWN).values() if p.place == place and output in p.shown]


@dataclass(frozen=True, eq=False)
class Document:
    """An evaluation and how it is to be shown; see `Evaluation.report`."""

    ev: Evaluation
    level: float = 0.95
    gates: Sequence[GateResult] = ()
    title: str | None = None
    segments: Sequence[Column] | Column | None = None
    traffic: str | None = None
    command: str | None = None
    decision: Decision | None = None
    sections: Sequence[Section | Callable[[Evaluation], Section]] = ()

    @cached_property
    def answers(self) -> list[Answer]:
        """What is said about each policy, the most promising first."""
        return answers(self.ev, self.level, Traffic.parse(self.traffic) if self.traffic is not None else None)

    @cached_property
    def groups(self) -> list[Segments]:
        """Units in groups of the columns asked for."""
        return groupings(self.ev, self.segments)

    @cached_property
    def subjects(self) -> list[Subject]:
        """What parts are about: each policy, the most promising first."""
        return [Subject(self, a.policy) for a in self.answers]

    @property
    def is_of_several(self) -> bool:
        """Whether it is about several metrics."""
        return self.ev.asked.are_several and self.ev.is_whole

    def metrics(self) -> list[Document]:
        """A document for each metric that this one is about."""
        names = self.ev.metrics if self.ev.is_whole else [self.ev.metric_name]
        return [replace(self, ev=self.ev.metric(name)) for name in names]

    def about_all(self, output: Output, place: Place) -> Iterator[Section]:
        """Sections that are not about one policy."""
        for part in parts(output, place):
            if body := part.make(self.subjects[0]):
                yield Section(part.key, part.title, part.about, body)

    def evidence(self, output: Output, advance: Callable[..., None]) -> Iterator[tuple[Part, list[Sequence[Block]]]]:
        """Parts with their blocks for each policy; a part that has nothing to show is left out."""
        for part in parts(output, "evidence"):
            bodies = []
            for subject in self.subjects:
                bodies.append(part.make(subject))
                advance(note=part.title.lower())
            if any(bodies):
                yield part, bodies

    def own(self, output: Output) -> list[tuple[Section, str | None]]:
        """All sections for pages that are not HTML, with the policy that they are about, if it is one."""
        if self.ev.replayed is None and not any(output in part.shown for part in OWN.values()):
            return []
        out: list[tuple[Section, str | None]] = [
            (section, None) for place in ("all", "end") for section in self.about_all(output, place)
        ]
        for part, bodies in self.evidence(output, lambda **_: None):
            out += [
                (Section(part.key, part.title, part.about, body), s.policy)
                for s, body in zip(self.subjects, bodies, strict=True)
                if body
            ]
        return out

    def origin(self) -> Section:
        """Where it comes from."""
        made = self.ev.origin or Origin()
        identity = {"digest of the log": digest(self.ev), "files": ", ".join(made.paths), "evaluated": made.made or ""}
        identity = {key: value for key, value in identity.items() if value}
        identity["report made"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        body = (
            Code(self.command or made.command or command(self.ev), "To reproduce"),
            Facts(identity),
            Facts(settings(self.ev), "Settings"),
            Facts(versions(), "Versions"),
        )
        about = "The same inputs, settings and versions give the same numbers."
        return Section("origin", "Where this comes from", about, body)


# -- where a result comes from --------------------------------------------------------------------------------------


def columns(log: Log) -> dict[str, Any]:
    """Names of the log's columns by their role; None where there is none."""
    names = log.names
    return {
        "context": [str(name) for name in log.context.names or ()],
        "action": names.action,
        "reward": names.reward,
        "propensity": names.propensity if log.propensity is not None else None,
        "batch": names.batch if log.has_batches else None,
        "cluster": names.cluster if log.has_clusters else None,
    }


def versions() -> dict[str, str]:
    """Of this library, of Python and of the packages that numbers depend on."""
    numbers = {"offpolicy": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            numbers[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return numbers


def digest(evaluation: Evaluation) -> str:
    """128 bits of the log in hexadecimal: the sum of the hashes of its rows.

    The same rows in any order, compressed or streamed, have the same digest on every machine; a changed
    action, reward, propensity, context, batch, cluster or weight changes it.
    """
    return str(evaluation.problem.sums("log").digest)


def settings(evaluation: Evaluation) -> dict[str, str]:
    """What was asked for, in the words of `evaluate`'s arguments."""
    log = evaluation.problem.log
    names = log.names
    texts = {
        "log": f"{count(log.n)} {unit_word(log, plural=True)}, {log.space.described(log.names.action)}",
        "action": names.action,
        "reward": names.reward,
        "propensity": names.propensity if log.propensity is not None else "unknown",
        "batch": names.batch if log.has_batches else "none",
        "cluster": names.cluster if log.has_clusters else "none",
        "context": ", ".join(log.context.names or ()) or "an array",
    }
    if evaluation.origin is not None:
        texts["files"] = ", ".join(evaluation.origin.paths)
    for key, value in evaluation.settings.items():
        if value is not None:
            texts[key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return texts


def command(evaluation: Evaluation) -> str:
    """The call that gives these numbers again, from the same log and policies."""
    s = evaluation.settings
    policies = ", ".join(f"{name!r}: …" for name in evaluation.policies)
    arguments = [f"estimators={s['estimators']!r}"]
    arguments += [
        f"{key}={_source(s[key])}"
        for key in ("reward_model", "value_model", "behavior_model")
        if s.get(key) not in {None, "auto", "logged propensities"}
    ]
    usual = {"folds": 2, "repeats": 1, "discount": 1.0}
    arguments += [f"{key}={s[key]!r}" for key, value in usual.items() if s[key] != value]
    arguments.append(f"seed={s['seed']!r}")
    body = "".join(f"    {a},\n" for a in (f"log, {{{policies}}}", *arguments))
    return f"ev = op.evaluate(\n{body})"


def _source(model: str) -> str:
    if model == "given array":
        return "…"
    return model if "(" in model else repr(model)
