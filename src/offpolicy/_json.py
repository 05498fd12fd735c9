"""Any result as JSON: plain values, numbers that are not finite as null."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._output import write_text

if TYPE_CHECKING:
    from pathlib import Path


def write(value: Any, path: str | Path | None = None) -> str:
    """Any result as JSON, written to ``path`` when given."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False, allow_nan=False)
    if path is not None:
        write_text(path, text + "\n")
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
