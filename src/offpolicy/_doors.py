"""Doors to the right: methods of results whose code stands in a room that results must not import.

Imports go one way, and pages, plots and trackers stand to the right of what they show. A result reaches them by
name through this table, when it is asked to.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

DOORS = {
    "scan of units": "offpolicy.engines.scan:scan_units",
    "scan in the order of time": "offpolicy.engines.timed:in_time",
    "report": "offpolicy.show.html:write",
    "json": "offpolicy.show.schema:dump",
    "rows": "offpolicy.show.tables:estimate_rows",
    "summary": "offpolicy.show.answer:summary_rows",
    "segments": "offpolicy.show.segments:segment_rows",
    "latex": "offpolicy.show.text:latex",
    "mlflow": "offpolicy.show.tracking:log_mlflow",
    "plot": "offpolicy.show.plots:plot",
    "plot of steps": "offpolicy.show.plots:plot_steps",
    "plot of a value curve": "offpolicy.show.plots:plot_value_curve",
    "text": "offpolicy.show.text:whole",
    "notebook": "offpolicy.show.html:evaluation_html",
    "positions": "offpolicy.show.evidence:by_position",
    "learning curve": "offpolicy.decide.replay:learning_curve",
    "learned": "offpolicy.show.about_all:learned_section",
    "selection": "offpolicy.show.about_all:selection_section",
}


def door(name: str) -> Any:
    """What stands behind a door, imported now.

    >>> door("text").__name__
    'whole'
    """
    module, _, attribute = DOORS[name].partition(":")
    return getattr(import_module(module), attribute)
