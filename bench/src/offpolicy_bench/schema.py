"""One JSON line per entry, task and log: the schema, and what it is checked with."""

from __future__ import annotations

from typing import Any

VERSION = 1
#: JSON Schema of a result line.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Result of one entry on one log of OPE-bench",
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "entry", "task", "size", "log", "code", "truth", "estimate", "low", "high", "refused"],
    "properties": {
        "schema": {"const": VERSION},
        "entry": {"type": "string", "description": "name of the entry"},
        "task": {"type": "string", "description": "name of the task"},
        "size": {"enum": ["quick", "full"]},
        "log": {"type": "integer", "minimum": 0, "description": "number of the log"},
        "code": {"type": "string", "description": "digest of the adapter"},
        "truth": {"type": ["number", "null"], "description": "null: the right answer is a refusal"},
        "estimate": {"type": ["number", "null"]},
        "low": {"type": ["number", "null"], "description": "lower end of the 95% interval; null: none"},
        "high": {"type": ["number", "null"]},
        "refused": {"type": ["string", "null"], "description": "why the entry gives no answer; null: it does"},
        "raised": {"type": "boolean", "description": "the refusal was an error"},
        "method": {"type": ["string", "null"], "description": "in the entry's own words"},
        "seconds": {"type": ["number", "null"], "minimum": 0, "description": "CPU seconds, all threads"},
        "peak_mb": {"type": ["number", "null"], "minimum": 0, "description": "largest resident memory"},
    },
}
#: What an entry itself says.
ANSWER = ("estimate", "low", "high", "refused", "raised", "method")


def check(line: dict[str, Any]) -> None:
    """Raise where a result does not follow `SCHEMA` (the parts of JSON Schema that it uses)."""
    properties = SCHEMA["properties"]
    missing = [name for name in SCHEMA["required"] if name not in line]
    extra = [name for name in line if name not in properties]
    if missing or extra:
        raise ValueError(f"a result must have {', '.join(missing) or 'nothing else'}; it may not have {extra}")
    for name, value in line.items():
        rule = properties[name]
        kinds = rule.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        wrong = (
            (kinds and not any(_is(value, kind) for kind in kinds))
            or ("const" in rule and value != rule["const"])
            or ("enum" in rule and value not in rule["enum"])
            or ("minimum" in rule and value is not None and value < rule["minimum"])
        )
        if wrong:
            raise ValueError(f"`{name}` of a result must be {rule}. Got {value!r}")


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "null": value is None,
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "integer": number and float(value).is_integer(),
        "number": number,
    }[kind]


def settle(answer: dict[str, Any]) -> dict[str, Any]:
    """An entry's answer made whole: without an estimate it is a refusal; half an interval is none."""
    unknown = set(answer) - set(ANSWER)
    if unknown:
        raise ValueError(f"an answer may have {', '.join(ANSWER)}. Got {sorted(unknown)}")
    out: dict[str, Any] = {"estimate": None, "low": None, "high": None, "refused": None, **answer}
    if out["low"] is None or out["high"] is None:
        out["low"] = out["high"] = None
    if out["estimate"] is None and out["refused"] is None:
        out["refused"] = "the estimate is not a number"
    return out
