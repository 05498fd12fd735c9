"""Versioned JSON of a result: what was asked, what came out, what it rests on."""

from __future__ import annotations

import json
import math
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation

SCHEMA = "offpolicy.evaluation.result/1"


def document(evaluation: Evaluation, level: float = 0.95) -> dict[str, Any]:
    """The result as plain values that JSON can hold."""
    from offpolicy import __version__

    log, logged = evaluation.problem.log, evaluation.logged
    low, high = logged.interval(level)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "log": {
            "kind": log.kind,
            "n": log.n,
            "rows": len(log.action),
            "actions": [str(a) for a in log.actions],
            "propensities": "logged" if log.propensity is not None else "unknown",
        },
        "settings": evaluation.settings,
        "level": level,
        "logged": {
            "value": logged.value,
            "std_error": logged.std_error,
            "low": low,
            "high": high,
            "n": logged.n,
        },
        "estimates": evaluation.rows(level),
        "diagnostics": evaluation.diagnostics.rows(),
        "verdicts": {
            name: {"level": v.level, "reasons": list(v.reasons)}
            for name, v in ((p, evaluation.verdict(p, level=level)) for p in evaluation.policies)
        },
    }


def dump(evaluation: Evaluation, path: str | Path | None = None, level: float = 0.95) -> str:
    """Serialize, writing to ``path`` when given. Numbers that are not defined become null."""
    text = json.dumps(
        _plain(document(evaluation, level)), indent=2, ensure_ascii=False, allow_nan=False
    )
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) or value is None else str(value)
