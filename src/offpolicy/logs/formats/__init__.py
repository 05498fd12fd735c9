"""Logs in the formats people already have: each reader gives a table or a log, each writer gives it back."""

from __future__ import annotations

from offpolicy.logs.formats.d3rlpy import from_d3rlpy
from offpolicy.logs.formats.dsjson import read_dsjson, write_dsjson
from offpolicy.logs.formats.dsjson_slates import read_dsjson_slates
from offpolicy.logs.formats.exposures import from_exposures
from offpolicy.logs.formats.gymnasium_rollout import from_gymnasium, roll_out
from offpolicy.logs.formats.jsonl import read_jsonl, write_jsonl
from offpolicy.logs.formats.lines import BadLine, Reading
from offpolicy.logs.formats.minari import from_minari
from offpolicy.logs.formats.obp import from_obp, to_obp
from offpolicy.logs.formats.rllib import from_rllib
from offpolicy.logs.formats.router import read_router, read_router_log
from offpolicy.logs.formats.sb3 import from_sb3
from offpolicy.logs.formats.transitions import from_transitions

__all__ = [
    "BadLine",
    "Reading",
    "from_d3rlpy",
    "from_exposures",
    "from_gymnasium",
    "from_minari",
    "from_obp",
    "from_rllib",
    "from_sb3",
    "from_transitions",
    "read_dsjson",
    "read_dsjson_slates",
    "read_jsonl",
    "read_router",
    "read_router_log",
    "roll_out",
    "to_obp",
    "write_dsjson",
    "write_jsonl",
]
