"""Checkers for what you write yourself, a simulation of estimators, and what long studies of your own need.

`check_policy`, `check_reward_model`, `check_score`, `check_learner`; `simulate`; `track` (progress), and files that are
written whole or not at all (`written_whole`, `write_text`, `lock_folder`). Each name is loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offpolicy._output import lock_folder as lock_folder
    from offpolicy._output import write_text as write_text
    from offpolicy._output import written_whole as written_whole
    from offpolicy._progress import track as track
    from offpolicy.testing.checks import check_learner as check_learner
    from offpolicy.testing.checks import check_policy as check_policy
    from offpolicy.testing.checks import check_reward_model as check_reward_model
    from offpolicy.testing.checks import check_score as check_score
    from offpolicy.testing.simulation import Simulation as Simulation
    from offpolicy.testing.simulation import simulate as simulate

_NAMES = {
    "Simulation": "offpolicy.testing.simulation",
    "check_learner": "offpolicy.testing.checks",
    "check_policy": "offpolicy.testing.checks",
    "check_reward_model": "offpolicy.testing.checks",
    "check_score": "offpolicy.testing.checks",
    "lock_folder": "offpolicy._output",
    "simulate": "offpolicy.testing.simulation",
    "track": "offpolicy._progress",
    "write_text": "offpolicy._output",
    "written_whole": "offpolicy._output",
}

__all__ = [*_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
