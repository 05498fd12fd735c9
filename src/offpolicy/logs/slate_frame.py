"""Tables with one row per slot, as the parts of a log of slates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, UsageError, check_count, first_rows
from offpolicy.logs.frame import Columns
from offpolicy.logs.trajectories import Trajectories, checked
from offpolicy.logs.trajectory_frame import read as read_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Ints
    from offpolicy.logs.actions import Label

WORDS = ("slate", "position")


def read(
    frame: Any,
    *,
    slate: str,
    position: str,
    context: Sequence[str] | str | None,
    action: str,
    reward: str | Sequence[str],
    propensity: str | Sequence[str] | None,
    candidates: str | None,
    cluster: str | None,
    weight: str | None,
    fold: str | None,
    actions: Sequence[Label] | None,
    slots: int | None = None,
) -> dict[str, Any]:
    """Fields of the slots, checked and in order, and what a row says of its slate."""
    if isinstance(frame, str) or hasattr(frame, "collect") or hasattr(frame, "toPandas"):
        raise DataError(
            f"from_frame reads tables in memory, and a {type(frame).__name__} is not there yet. Scan it where it is: "
            "offpolicy.Slates.scan(source, …)."
        )
    columns = Columns(frame)
    names = [context] if isinstance(context, str) else list(() if context is None else context)
    if position in names:
        raise UsageError(f"context= contains the position column {position!r}, which is always seen. Leave it out.")
    if slate in names:
        raise UsageError(f"context= contains the slate column {slate!r}, which tells slates apart and nothing else.")
    parts = read_steps(
        frame,
        episode=slate,
        step=position,
        state=[*names, position],
        action=action,
        reward=reward,
        propensity=propensity,
        terminated=None,
        cluster=cluster,
        weight=weight,
        fold=fold,
        actions=actions,
        discrete=False,
        eligible=candidates,
        words=WORDS,
    )
    lengths = parts["lengths"]
    if slots is not None:
        check_count("slots=", slots)
        if slots < lengths.max():
            raise UsageError(f"slots={slots}, and the longest slate has {lengths.max()} slots.")
    parts["terminated"], parts["truncated"] = np.ones(len(lengths), dtype=bool), "raise"
    log = checked(**parts, horizon=max(int(lengths.max()), slots or 0))
    made = {name: getattr(log, name) for name in Trajectories.__dataclass_fields__ if name in vars(log)}
    first = int(columns.numeric(position, "position").min())
    return {
        **made,
        "bare": made["context"],
        "slot_reward": made["reward"],
        "allowed": made["eligible"],
        "positions": tuple(range(first, first + log.horizon)),
    }


def shown_items(action: Ints, unit: Ints, step: Ints, slots: int) -> Ints:
    """(N, H) code of the item of each slot of each slate; −1 where there is none."""
    wide: Ints = np.full((int(unit[-1]) + 1, slots), -1, dtype=np.int64)
    wide[unit, step] = action
    return wide


def repeats_items(wide: Ints) -> bool:
    """Whether some slate shows an item twice."""
    ordered = np.sort(wide, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any())


def one_reward(values: Array, unit: Ints, first: Ints, column: str) -> None:
    """A reward of whole slates is the same in all rows of each."""
    differs = values != values[first][unit]
    if differs.any():
        raise DataError(
            f"column {column!r}: the reward of a slate changes inside it in {first_rows(differs, values)} (rows in "
            "order of slate and position). Give every row the slate's reward, or give rewards of slots and another "
            "interaction=."
        )
