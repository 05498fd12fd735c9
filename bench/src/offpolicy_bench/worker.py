"""Runs an adapter in an environment of its own: one JSON line in, one JSON line out, until the input ends.

    python worker.py adapter.py  <  {"log": "/path/log.npz", "kind": "bandit", …}

This file is handed to the interpreter of an entry's environment. It needs numpy and nothing of this package, so that an
entry in another language can read what it does and do the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np


def question(asked: dict[str, Any]) -> SimpleNamespace:
    """The arrays of a log as attributes (None: not to be known), with ``kind``, ``level`` and ``seed``."""
    with np.load(asked["log"]) as arrays:
        known = {name: arrays[name] for name in arrays.files}
    return SimpleNamespace(
        **{**dict.fromkeys(asked["fields"]), **known, **{k: asked[k] for k in ("kind", "level", "seed")}}
    )


def reply(answer: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The adapter's answer to a log; whatever is raised counts as a refusal, with its message."""
    try:
        found = answer(question(asked))
        return {k: _number(v) for k, v in found.items()}
    except Exception as error:  # noqa: BLE001  (an entry's own error is its answer)
        return {"refused": f"{type(error).__name__}: {error}"[:300], "raised": True}


def _number(value: Any) -> Any:
    """A plain number or text; what is not finite is no number."""
    if value is None or isinstance(value, str | bool):
        return value
    number = float(value)
    return number if np.isfinite(number) else None


def main() -> None:
    """Load the adapter, then answer line by line."""
    warnings.filterwarnings("ignore")
    # Libraries may print: what they print goes to the error stream, answers keep the output to themselves.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spec = importlib.util.spec_from_file_location("adapter", sys.argv[1])
    if spec is None or spec.loader is None:
        raise SystemExit(f"{sys.argv[1]} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(reply(module.answer, json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
