"""Logs in the formats people already have: each reader gives a table or a log, each writer gives it back."""

from __future__ import annotations

from offpolicy.logs.formats.dsjson import read_dsjson, write_dsjson
from offpolicy.logs.formats.jsonl import read_jsonl, write_jsonl
from offpolicy.logs.formats.lines import BadLine, Reading
from offpolicy.logs.formats.obp import from_obp, to_obp

__all__ = [
    "BadLine",
    "Reading",
    "from_obp",
    "read_dsjson",
    "read_jsonl",
    "to_obp",
    "write_dsjson",
    "write_jsonl",
]
