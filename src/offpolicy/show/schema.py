"""Versioned JSON of a result: what was asked, what came out, what it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from offpolicy._document import Picture, Table
from offpolicy._output import write
from offpolicy.errors import NotIdentifiedError
from offpolicy.evaluation.shown import Origin, Traffic
from offpolicy.scores.catalog import headline
from offpolicy.show.answer import totals
from offpolicy.show.document import Document, columns, digest, versions
from offpolicy.show.segments import segment_rows
from offpolicy.show.tables import lift_of, number_of_clusters, summary
from offpolicy.show.text import in_words, unmarked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpolicy._document import Block
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.show.segments import Column
    from offpolicy.trust.gate import GateResult

SCHEMA = "offpolicy.evaluation.result/5"
SCHEMA_FILE = "result.schema.json"


def published() -> str:
    """The JSON Schema of a result, as text."""
    return resources.files("offpolicy.show").joinpath("assets", SCHEMA_FILE).read_text("utf-8")


def document(
    evaluation: Evaluation,
    level: float = 0.95,
    gates: Sequence[GateResult] = (),
    made: str | None = None,
    segments: Sequence[Column] | Column | None = None,
    traffic: str | None = None,
) -> dict[str, Any]:
    """The result as plain values that JSON can hold."""
    log = evaluation.problem.log
    origin = evaluation.origin or Origin()
    return {
        "schema": SCHEMA,
        "version": versions()["offpolicy"],
        "versions": versions(),
        "origin": {"command": origin.command, "paths": list(origin.paths), "made": origin.made or made},
        "log": {
            "kind": log.kind,
            "n": log.n,
            "clusters": number_of_clusters(evaluation),
            "digest": digest(evaluation),
            "actions": [str(a) for a in log.actions],
            "action_range": None if log.space.span is None else list(log.space.span),
            "propensities": "logged" if log.propensity is not None else "unknown",
            "columns": columns(log),
        },
        "settings": evaluation.settings,
        "level": level,
        "assumption": evaluation.assumption or None,
        "headline": headline(evaluation.estimators).name,
        **_said(evaluation, level),
        "metrics": [_said(evaluation.metric(name), level) for name in _others(evaluation)],
        "pareto": _pareto(evaluation, level),
        "gates": [_gate(gate) for gate in gates],
        "segments": [] if segments is None else segment_rows(evaluation, segments, level=level),
        "traffic": None if traffic is None else totals(evaluation, level, Traffic.parse(traffic)),
        **_own(evaluation, level),
    }


def _own(evaluation: Evaluation, level: float) -> dict[str, Any]:
    """Sections of your own; nothing where there are none."""
    sections = Document(evaluation, level).own("json")
    rows = [
        {
            "key": s.key,
            "title": s.title,
            "about": unmarked(s.about),
            "policy": policy,
            "body": list(map(_block, s.body)),
        }
        for s, policy in sections
    ]
    return {"sections": rows} if rows else {}


def _block(block: Block) -> dict[str, Any]:
    """A block by its kind: tables as they are shown, pictures as their rows."""
    kind = type(block).__name__.lower()
    match block:
        case Table():
            return {"kind": kind, "caption": block.caption, "headings": list(block.headings), "rows": block.texts}
        case Picture():
            axes = {"x": block.x.title, "y": block.y.title}
            return {"kind": kind, "key": block.key, "about": block.about, **axes, "rows": list(block.rows)}
    return {"kind": kind, "text": in_words(block, lambda table: table.caption)}


def _said(evaluation: Evaluation, level: float) -> dict[str, Any]:
    """What the log says by one metric."""
    logged = evaluation.logged
    return {
        "metric": evaluation.metric_name,
        "better": "lower" if evaluation.minimize else "higher",
        "logged": summary(logged, level) | {"interval": interval_word(logged, level)},
        "estimates": [_estimate(evaluation, row, level) for row in evaluation.rows(level)],
        "comparison": _comparison(evaluation, level),
        "diagnostics": evaluation.diagnostics.rows(),
        "verdicts": {
            name: {"level": v.level, "reasons": list(v.reasons), "test": None if v.test is None else asdict(v.test)}
            for name, v in ((p, evaluation.verdict(p, level=level)) for p in evaluation.policies)
        },
    }


def _others(evaluation: Evaluation) -> list[str]:
    """Metrics besides the one that the document is about; none for a document about one of several."""
    return evaluation.metrics[1:] if evaluation.is_whole else []


def _pareto(evaluation: Evaluation, level: float) -> dict[str, Any] | None:
    """Policies by metrics with intervals that hold together; None where there is one metric."""
    if not _others(evaluation):
        return None
    found = evaluation.pareto(level)
    return {
        "statement": found.statement,
        "front": list(found.front),
        "dominated": {policy: list(better) for policy, better in found.dominated.items()},
        "values": found.rows(),
    }


def _gate(gate: GateResult) -> dict[str, Any]:
    return {
        "expression": gate.expression,
        "outcome": gate.outcome,
        "passed": gate.passed,
        "exit_code": gate.exit_code,
        "level": gate.level,
        "sentence": gate.sentence,
        "assumption": gate.assumption,
        "conditions": [
            {key: value for key, value in _gate(each).items() if key != "conditions"} for each in gate.conditions
        ],
    }


def _estimate(evaluation: Evaluation, row: dict[str, Any], level: float) -> dict[str, Any]:
    e, logged = evaluation[row["policy"], row["estimator"]], evaluation.logged
    gap = (e - logged).interval(level)
    return {
        **row,
        "interval": interval_word(e, level),
        "difference_low": gap.shown[0],
        "difference_high": gap.shown[1],
        "difference_refused": gap.reason or None,
        **lift_of(e, logged, level),
    }


def interval_word(e: Estimate, level: float) -> str:
    """What an interval is, in a word; a missing end is explained by it.

    "stated": covers as stated; "refused": no interval covers, for the reason given beside it; "unbounded": the data
    set no bound on a side, whose end is null; "undefined": there is no estimate.
    """
    if not e.is_defined:
        return "undefined"
    interval = e.interval(level)
    if any(math.isnan(end) for end in interval):
        return "undefined"
    if not interval.sufficient:
        return "refused"
    return "stated" if all(math.isfinite(end) for end in interval) else "unbounded"


def _comparison(evaluation: Evaluation, level: float) -> dict[str, Any] | None:
    """Policies against each other by intervals that hold together, and which of them may be the best."""
    if len(evaluation.policies) < 2:
        return None
    try:
        made = evaluation.compare(level)
    except NotIdentifiedError as error:
        return {"statement": str(error), "candidates": None}
    return {
        "statement": made.best.statement,
        "candidates": list(made.best.names),
        "leader": made.best.leader,
        "unjudged": list(made.best.unjudged),
        "better": "lower" if evaluation.minimize else "higher",
        "values": _ends(made.values),
        "differences": _ends(made.differences),
        "lifts": _ends(made.lifts),
        "p_values": made.p_values,
    }


def _ends(intervals: dict[str, Interval]) -> dict[str, Any]:
    return {
        name: dict(zip(("low", "high"), i.shown, strict=True))
        | {"method": i.method, "unbounded": i.unbounded or None, "refused": i.reason or None}
        for name, i in intervals.items()
    }


def dump(
    evaluation: Evaluation,
    path: str | Path | None = None,
    level: float = 0.95,
    gates: Sequence[GateResult] = (),
    segments: Sequence[Column] | Column | None = None,
    traffic: str | None = None,
) -> str:
    """Serialize, writing to ``path`` when given. Numbers that are not defined become null."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return write(document(evaluation, level, gates, made, segments, traffic), path)
