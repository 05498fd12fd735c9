"""How episodes end, and so which value a log of them can speak of.

Three facts decide: the horizon asked for, the flags that say how an episode ended, and the lengths. Their
meaning is in `Trajectories`; here they become one `Ending`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, NotIdentifiedError, UsageError
from offpolicy.logs.episodes import termination

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Bools, Ints

TREATMENTS = ("raise", "bootstrap", "cut", "end")
# A time limit shows as more episodes of the longest length than chance would stop there.
CHANCE_OF_TIES = 0.01


@dataclass(frozen=True, eq=False)
class Ending:
    """What the ends of the episodes say.

    Attributes
    ----------
    horizon : int
        Steps that the value counts: the limit, or the longest logged episode where there is none.
    unbounded : bool
        Whether the value is that of whole episodes, however long.
    ended : (N,) bool array
        Episodes that are over with their last step; of the others more would have followed.
    cut : int or None
        Steps after which every episode is cut.
    note : str
        What was done to episodes that end too early.
    """

    horizon: int
    unbounded: bool
    ended: Bools
    cut: int | None = None
    note: str = ""


def describe(horizon: int, discount: float, *, unbounded: bool) -> str:
    """The estimand in words.

    >>> describe(200, 1.0, unbounded=False)
    'value of up to 200 steps, γ = 1'
    >>> describe(200, 0.9, unbounded=True)
    'value of whole episodes, however long, γ = 0.9'
    """
    if unbounded:
        return f"value of whole episodes, however long, γ = {discount:g}"
    return f"value of up to {horizon:,} step{'s' if horizon != 1 else ''}, γ = {discount:g}"


def endings(lengths: Ints, terminated: Array | None, truncated: Any, horizon: int | None) -> Ending:
    """How episodes of these lengths end."""
    treatment, flags = _treatment(truncated)
    limit = None if horizon is None else whole_steps(horizon, "horizon=")
    longest = int(lengths.max())
    if terminated is None and flags is None:
        return _without_flags(lengths, limit)
    ended = _ended(lengths, terminated, flags)
    if limit is not None:
        # Whatever happened after the limit is no part of this value.
        kept = np.minimum(lengths, limit)
        ended = ended & (lengths <= limit)
        plain = Ending(limit, False, ended, limit if longest > limit else None)
        return _treated(plain, kept, ~ended & (kept < limit), treatment)
    open_ended = ~ended
    at_limit = open_ended & (lengths == longest)
    if treatment == "bootstrap" or (treatment == "flags" and bool((open_ended & ~at_limit).any())):
        return _treated(Ending(longest, True, ended), lengths, open_ended, treatment)
    # Episodes cut off at the longest length were stopped by a time limit: it is the horizon.
    plain = Ending(longest, not at_limit.any(), ended)
    return _treated(plain, lengths, open_ended & ~at_limit, treatment)


def _without_flags(lengths: Ints, limit: int | None) -> Ending:
    """Every episode ends where its rewards end; a limit is the one asked for, or the one that shows."""
    longest = int(lengths.max())
    if limit is not None:
        return Ending(limit, False, lengths < limit, limit if longest > limit else None)
    if has_time_limit(lengths):
        return Ending(longest, False, lengths < longest)
    note = (
        "no end flags were given: every episode is assumed to have ended on its own, and the value is of whole "
        f"episodes, however long. If there is a time limit, pass horizon= (the longest has {longest:,} steps); else "
        "terminated="
    )
    return Ending(longest, True, np.ones(len(lengths), dtype=bool), note=note)


def has_time_limit(lengths: Ints) -> bool:
    """Whether more episodes share the longest length than would by chance.

    With m episodes of the longest length L and a share h of the running ones that ended per step before L, chance
    stops all m at L with probability of about h^(m − 1).

    >>> has_time_limit(np.array([3, 3, 3])), has_time_limit(np.array([1, 4, 2, 1]))
    (True, False)
    """
    longest = int(lengths.max())
    at_limit = int((lengths == longest).sum())
    if at_limit == 1:
        return len(lengths) == 1
    at_risk = float(np.minimum(lengths, longest - 1).sum())
    hazard = float((lengths < longest).sum()) / at_risk if at_risk else 0.0
    return hazard ** (at_limit - 1) < CHANCE_OF_TIES


def _treatment(truncated: Any) -> tuple[str, Array | None]:
    """What to do with truncated episodes, and the flags that mark them where those were given."""
    if isinstance(truncated, str):
        if truncated not in TREATMENTS:
            raise UsageError(
                "truncated= must be 'raise', 'bootstrap', 'cut' or 'end', or flags that mark the truncated "
                f"episodes. Got {truncated!r} instead."
            )
        return truncated, None
    return "flags", np.asarray(truncated)


def _ended(lengths: Ints, terminated: Array | None, flags: Array | None) -> Bools:
    """(N,) episodes that ended by themselves."""
    cut_off = None if flags is None else termination(flags, lengths, "truncated")
    if terminated is None:
        assert cut_off is not None
        return ~cut_off
    ended = termination(terminated, lengths, "terminated")
    if cut_off is not None and bool((~ended & ~cut_off).any()):
        i = int((~ended & ~cut_off).argmax())
        raise DataError(
            f"episode {i} is neither terminated nor truncated at its last step. Drop it, or mark it truncated."
        )
    return ended


def _treated(ending: Ending, lengths: Ints, missing: Bools, treatment: str) -> Ending:
    """Deal with episodes whose last rewards are missing."""
    if not missing.any():
        return ending
    n, count, shortest = len(missing), int(missing.sum()), int(lengths[missing].min())
    if treatment == "raise":
        raise NotIdentifiedError(
            f"{count:,} of {n:,} episodes end before the horizon of {ending.horizon} steps without having "
            f"terminated (first: episode {int(missing.argmax())}). Their later rewards are missing, so the value "
            "up to the horizon cannot be estimated without a model of them. Use truncated='bootstrap' to fill in later "
            f"rewards with the value model, truncated='cut' to evaluate only the first {shortest} steps, which "
            "every episode has, or truncated='end' to count missing rewards as 0."
        )
    if treatment == "cut":
        note = f"cut at {shortest} steps: {count:,} episodes were truncated"
        return Ending(shortest, False, ending.ended & (lengths <= shortest), shortest, note)
    if treatment == "end":
        note = f"rewards after the truncation of {count:,} episodes are counted as 0"
        return replace(ending, ended=ending.ended | missing, note=note)
    note = f"{count:,} truncated episodes are bootstrapped: the value model predicts the rewards after their last state"
    return replace(ending, note=note)


def whole_steps(value: Any, name: str) -> int:
    """A number of steps, checked."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise UsageError(f"{name} must be an int of at least 1. Got {value!r} instead.")
    return int(value)
