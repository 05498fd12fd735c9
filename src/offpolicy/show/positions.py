"""What a policy earns at each position of its slates, beside what the log earned there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.show.tables import against_log, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats
    from offpolicy.show.tables import Row
    from offpolicy.trust.view import View


def by_position(view: View, level: float = 0.95) -> list[Row]:
    """Value, logged reward and difference of each position; intervals hold together with probability ``level``.

    Values are by the weights of the slot divided by their sum (SNIPW), so that of cascades and independent slots they
    add up to that estimate. A slate without the slot counts with 0. Empty where slates have one reward.
    """
    log = view.log
    if not log.shows_items or log.reward_of == "slate":
        return []
    lengths = np.diff(view.decisions.layout.offsets)
    together = 1 - (1 - level) / view.decisions.layout.horizon
    rows = []
    for position, reward, psi in position_scores(view):
        estimate, logged = view.estimate(psi), view.estimate(reward)
        there = float(view.mass @ (lengths > position)) / float(view.mass.sum())
        rows.append(
            {
                "group": str(log.positions[position]),
                **summary(estimate, together),
                "logged": logged.value,
                "share": there,
                **against_log(view.estimate(psi - reward), together),
            }
        )
    return rows


def position_scores(view: View) -> Iterator[tuple[int, Floats, Floats]]:
    """(slot, (N,) rewards as logged, (N,) linearized scores of their self-normalized mean)."""
    d, log = view.decisions, view.log
    layout, shown = d.layout, log.slot_reward[view.rows]
    lengths = np.diff(layout.offsets)
    due = log.interaction.due
    for k, units, rows in layout.by_step():
        reward, logs = np.zeros(d.n), np.zeros(d.n)
        reward[units] = shown[rows]
        if layout.link is not None:
            logs[units] = d.log_rho[rows]
        else:  # the slot at which the reward of slot k is paid; a slate that has ended keeps its last weight
            paid = k if due is None else int(due[k])
            logs = d.log_rho[layout.offsets[:-1] + np.minimum(paid, lengths - 1)]
        yield k, reward, _normalized(d.mass, logs, reward)


def _normalized(mass: Floats, logs: Floats, x: Floats) -> Floats:
    highest = float(logs.max())
    if np.isneginf(highest):
        return np.full(len(x), np.nan)
    weight = np.exp(logs - highest)
    share = weight / float(mass @ weight)
    level = float((mass * share) @ x)
    return np.asarray(level + float(mass.sum()) * share * (x - level))
