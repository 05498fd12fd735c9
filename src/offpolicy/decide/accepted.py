"""Replay by rejection: a learner sees the rows that it would have chosen itself.

A row is accepted with probability c · π(A | S) / π_b(A | S), which is c on average, whatever the policy (Li et al.
2011).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.decide.past import Course, ask
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpolicy._arrays import Bools, Floats
    from offpolicy.decide.past import Telling
    from offpolicy.decide.time_blocks import TimedLog

AHEAD = 512  # most rows a learner is asked about before the next acceptance


def rejection(
    time: TimedLog, learners: Mapping[str, Any], telling: Telling, c: float, seed: int, advance: Callable[[int], None]
) -> tuple[Course, dict[str, Bools]]:
    """Probabilities of the scored rows by the learner of the rows accepted before, and which were accepted."""
    policies: dict[str, Floats] = {}
    accepted: dict[str, Bools] = {}
    for number, (name, learner) in enumerate(learners.items()):
        draws = np.random.default_rng([seed, number]).random(len(time.rows))
        policies[name], accepted[name] = _one(time, name, learner, telling, c, draws, advance)
    return Course(policies, {}), accepted


def _one(
    time: TimedLog, name: str, learner: Any, telling: Telling, c: float, draws: Floats, advance: Callable[[int], None]
) -> tuple[Floats, Bools]:
    log = time.scored()
    out, accepted = np.empty((log.rows, len(log.actions))), np.zeros(log.rows, dtype=bool)
    held = log.outcomes.get(telling.metric)
    at, ahead = 0, min(AHEAD, max(1, round(1 / c)))
    while at < log.rows:
        some = np.arange(at, min(at + ahead, log.rows))
        p = ask(name, learner, log, some)
        chance = c * p[np.arange(len(some)), log.action[some]] / np.asarray(log.propensity)[some]
        if (chance > 1 + 1e-9).any():
            k = int(np.argmax(chance))
            raise UsageError(
                f"accept={c:g} is too large: row {int(time.rows[some[k]])} would be accepted with probability "
                f"{chance[k]:.3g}. Use at most {c / chance[k]:.3g}."
            )
        taken = np.flatnonzero(draws[some] < chance)
        used = len(some) if len(taken) == 0 else int(taken[0]) + 1
        out[at : at + used] = p[:used]
        at += used
        if len(taken):
            accepted[at - 1] = True
            if held is None or held.seen[at - 1]:
                telling.show(learner, log, np.array([at - 1]))
        advance(used)
    return out, accepted
