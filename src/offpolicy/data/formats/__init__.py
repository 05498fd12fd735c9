"""Logs in the formats people already have: each reader gives a table or a log, each writer gives it back."""

from __future__ import annotations

from offpolicy.data.formats.dsjson import read_dsjson, write_dsjson
from offpolicy.data.formats.jsonl import read_jsonl, write_jsonl
from offpolicy.data.formats.lines import BadLine, Reading
from offpolicy.data.formats.obp import from_obp, to_obp

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
