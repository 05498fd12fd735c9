"""Versioned JSON of a result: what was asked, what came out, what it rests on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.report.provenance import digest, versions
from offpolicy.report.tables import lift_of, summary
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation

SCHEMA = "offpolicy.evaluation.result/2"


def document(evaluation: Evaluation, level: float = 0.95) -> dict[str, Any]:
    """The result as plain values that JSON can hold."""
    log, logged = evaluation.problem.log, evaluation.logged
    return {
        "schema": SCHEMA,
        "version": versions()["offpolicy"],
        "versions": versions(),
        "log": {
            "kind": log.kind,
            "n": log.n,
            "digest": digest(evaluation),
            "actions": [str(a) for a in log.actions],
            "propensities": "logged" if log.propensity is not None else "unknown",
        },
        "settings": evaluation.settings,
        "level": level,
        "logged": summary(logged, level),
        "headline": headline(evaluation.estimators).name,
        "estimates": [
            row | lift_of(evaluation[row["policy"], row["estimator"]], logged, level)
            for row in evaluation.rows(level)
        ],
        "diagnostics": evaluation.diagnostics.rows(),
        "verdicts": {
            name: {"level": v.level, "reasons": list(v.reasons)}
            for name, v in ((p, evaluation.verdict(p, level=level)) for p in evaluation.policies)
        },
    }


def dump(evaluation: Evaluation, path: str | Path | None = None, level: float = 0.95) -> str:
    """Serialize, writing to ``path`` when given. Numbers that are not defined become null."""
    return write(document(evaluation, level), path)


def write(value: Any, path: str | Path | None = None) -> str:
    """Any result as JSON, written to ``path`` when given."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False, allow_nan=False)
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
    return text


def jsonable(value: Any, digits: int | None = None) -> Any:
    """Plain values: numbers that are not finite become None, labels and other objects their text.

    ``digits`` rounds numbers to as many significant digits.

    >>> jsonable({1: (np.float64(0.123456), float("inf"))}, digits=3)
    {'1': [0.123, None]}
    """
    if isinstance(value, dict):
        return {str(k): jsonable(v, digits) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [jsonable(v, digits) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value if isinstance(value, str | int | bool) or value is None else str(value)
