"""Episodes in the shapes people keep them in, as flat steps with lengths; and what can be wrong with them.

Three shapes are read: an (n, T+1, …) array (padded where episodes are shorter), a list with one array an
episode, and flat steps one episode after the other. Nothing downstream pads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, an, first_rows
from offpolicy.logs.metrics import named_rewards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints

MAX_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class Shape:
    """How the arrays of a log are laid out: decided by the actions, then asked of every other part.

    Attributes
    ----------
    form : {"padded", "list", "flat"}
    lengths : (N,) int array
        Steps of each episode.
    padded_to : int
        Second axis of padded arrays; 0 otherwise.
    """

    form: str
    lengths: Ints
    padded_to: int = 0

    @property
    def n_steps(self) -> int:
        """Steps in all."""
        return int(self.lengths.sum())

    def flat(self, values: Any, role: str) -> Array:
        """(S, …) array of one part of the log, in the shape the actions came in."""
        if self.form == "list":
            return self._flat_list(values, role)
        array = np.asarray(values)
        if self.form == "flat":
            if array.shape[:1] != (self.n_steps,):
                raise DataError(
                    f"{role!r} has shape {array.shape}, but the lengths add up to {self.n_steps:,} "
                    "steps. Give one entry per step, episode after episode."
                )
            return array
        expected = (len(self.lengths), self.padded_to)
        if array.shape[:2] != expected:
            raise DataError(
                f"{role!r} has shape {array.shape}, but the actions are (n, T+1) = {expected}. Every "
                "part needs the same first two axes."
            )
        if bool((self.lengths == self.padded_to).all()):
            return np.ascontiguousarray(array).reshape(self.n_steps, *array.shape[2:])
        return np.asarray(array[np.arange(self.padded_to) < self.lengths[:, None]])

    def _flat_list(self, values: Any, role: str) -> Array:
        episodes = [np.asarray(v) for v in values]
        found = np.array([len(e) if e.ndim else -1 for e in episodes], dtype=np.int64)
        if len(found) != len(self.lengths):
            raise DataError(f"{role!r} lists {len(found):,} episodes, but the actions list {len(self.lengths):,}.")
        wrong = found != self.lengths
        if wrong.any():
            i = int(wrong.argmax())
            extra = (
                " Leave out the state after the last action."
                if bool((found == self.lengths + 1).all()) and role == "states"
                else ""
            )
            raise DataError(
                f"{role!r}: episode {i} has {found[i]} steps, but its actions have {self.lengths[i]}.{extra}"
            )
        return np.concatenate(episodes) if episodes else np.empty(0)


def shape_of(actions: Any, lengths: Any) -> Shape:
    """Decide the shape from the actions.

    >>> shape_of([[0, 1], [1]], None).lengths.tolist()
    [2, 1]
    >>> shape_of(np.zeros((2, 3), dtype=int), [3, 1]).form
    'padded'
    """
    array = None
    if isinstance(actions, np.ndarray) and actions.dtype != object:
        array = actions
    elif not any(_is_sequence(a) for a in actions):
        array = np.asarray(actions)
    if array is None:
        return _listed(actions, lengths)
    return _flat_shape(array, lengths) if array.ndim == 1 else _padded_shape(array, lengths)


def _flat_shape(array: Array, lengths: Any) -> Shape:
    if lengths is None:
        raise DataError(
            "'actions' is one-dimensional and lengths= is missing. Give the length of each episode, "
            "an (n, T+1) array, or one array per episode in a list."
        )
    shape = Shape("flat", _lengths(lengths))
    if shape.n_steps != len(array):
        raise DataError(f"lengths= adds up to {shape.n_steps:,} steps, but there are {len(array):,} actions.")
    return shape


def _padded_shape(array: Array, lengths: Any) -> Shape:
    if array.ndim != 2:
        raise DataError(f"'actions' must be (n, T+1), flat with lengths=, or a list. Got {array.shape}.")
    n, width = array.shape
    if n == 0 or width == 0:
        raise DataError("the log is empty: it has no steps. There is nothing to evaluate.")
    counts = np.full(n, width, dtype=np.int64) if lengths is None else _lengths(lengths)
    if len(counts) != n:
        raise DataError(f"lengths= has {len(counts):,} entries for {n:,} episodes.")
    too_long = counts > width
    if too_long.any():
        raise DataError(f"lengths=: {first_rows(too_long, counts)} exceed the {width} steps given.")
    return Shape("padded", counts, width)


def _listed(actions: Any, lengths: Any) -> Shape:
    if lengths is not None:
        raise DataError("lengths= is for arrays. A list of episodes does not need it; leave it out.")
    episodes = [np.asarray(a) for a in actions]
    for i, episode in enumerate(episodes):
        if episode.ndim != 1:
            raise DataError(f"'actions': episode {i} has shape {episode.shape}. Give one action label per step.")
    return Shape("list", _lengths([len(e) for e in episodes]))


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _lengths(lengths: Any) -> Ints:
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(f"lengths= must be whole numbers, one per episode. Got {array.dtype}.")
    if len(array) == 0:
        raise DataError("the log is empty: it has no episodes. There is nothing to evaluate.")
    empty = array < 1
    if empty.any():
        raise DataError(
            f"lengths=: {first_rows(empty, array)} are below 1. An episode has at least one step; "
            "leave out episodes without decisions."
        )
    return array.astype(np.int64)


def order_of(
    episode: Ints, step: Floats | None, episode_name: str, step_name: str, words: tuple[str, str] = ("episode", "step")
) -> Ints:
    """Row order that puts each episode's steps one after the other, checked for gaps and duplicates."""
    if step is None:
        order = np.argsort(episode, kind="stable")
        return np.asarray(order, dtype=np.int64)
    unit_word, step_word = words
    bad = ~np.isfinite(step) | (step != np.floor(step))
    if bad.any():
        raise DataError(
            f"column {step_name!r}: {first_rows(bad, step)} are not whole numbers. The {step_word} is the "
            f"position of a decision in its {unit_word}: 0, 1, 2, …"
        )
    order = np.lexsort((step, episode))
    ordered, number = episode[order], step[order]
    same = ordered[1:] == ordered[:-1]
    change = number[1:] - number[:-1]
    for wrong, what, remedy in (
        (same & (change == 0), "appears twice", "Drop the duplicate rows."),
        (same & (change > 1), "is followed by a gap", f"Every {step_word} of {an(unit_word)} must be in the log."),
    ):
        if wrong.any():
            i = int(wrong.argmax())
            raise DataError(
                f"column {step_name!r}: {step_word} {number[i]:g} of the {unit_word} in row {order[i]} "
                f"{what} ({int(wrong.sum()):,} in total). {remedy}"
            )
    first = np.concatenate([[True], ~same])
    late = first & (number != number.min())
    if late.any():
        i = int(late.argmax())
        raise DataError(
            f"column {step_name!r}: the {unit_word} in row {order[i]} starts at {step_word} {number[i]:g}, but others "
            f"start at {number.min():g} ({int(late.sum()):,} start late). {an(unit_word).capitalize()} without "
            f"its beginning cannot be weighted; drop it, or renumber {step_name!r} from 0 in each "
            f"{episode_name!r}."
        )
    return np.asarray(order, dtype=np.int64)


def termination(flags: Array, lengths: Ints, column: str) -> Bools:
    """(N,) whether each episode terminated, from flags per episode or per step."""
    values = np.asarray(flags)
    if values.dtype.kind in "iuf":
        odd = ~np.isin(values, (0, 1))
        if odd.any():
            raise DataError(f"{column!r}: {first_rows(odd, values)} are neither 0 nor 1.")
    elif values.dtype.kind != "b":
        raise DataError(f"{column!r} must be true or false. Got {values.dtype}.")
    values = values.astype(bool)
    if len(values) == len(lengths) and len(lengths) != int(lengths.sum()):
        return values
    last = np.zeros(len(values), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    early = values & ~last
    if early.any():
        i = int(early.argmax())
        episode = int(np.searchsorted(np.cumsum(lengths), i, side="right"))
        raise DataError(
            f"{column!r}: episode {episode} continues after it terminated ({int(early.sum()):,} such "
            "steps). Cut the episode there, or check the flag."
        )
    return np.asarray(values[last])


def refuse_padding(actions: Any) -> None:
    """Refuse −1 after the last step of episodes: it would pass for an action of its own."""
    array = np.asarray(actions) if isinstance(actions, np.ndarray) else None
    if array is None or array.ndim != 2 or array.dtype.kind not in "if":
        return
    padded = array == -1
    ends = np.logical_and.accumulate(padded[:, ::-1], axis=1)[:, ::-1]
    if padded.any() and bool((padded == ends).all()) and not padded[:, 0].any():
        first = int(padded.any(axis=1).argmax())
        raise DataError(
            f"'actions' is -1 at the end of {int(padded.any(axis=1).sum()):,} episodes (first: episode {first}), which "
            "looks like padding. Give the length of each episode with lengths=. If -1 is an action, name all actions "
            "with labels=."
        )


def distinct_states(states: Array, *, discrete: bool | None) -> tuple[Array, Ints] | None:
    """The distinct states and the code of each step, when states are discrete.

    Integers (ids, or a few columns of them) are discrete unless told otherwise; floats are not, unless told.
    """
    if discrete is False or states.ndim == 0:
        return None
    if discrete is None and (states.dtype.kind not in "biuUS" or states.ndim > 2):
        return None
    if states.ndim == 1:
        table, index = np.unique(states, return_inverse=True)
        return table, index.astype(np.int64)
    flat = states.reshape(len(states), -1)
    if discrete is None and flat.shape[1] > MAX_COLUMNS:
        return None
    _, first, index = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    if discrete is None and 2 * len(first) > len(states):
        return None
    return states[first], index.reshape(-1).astype(np.int64)


def named_steps(rewards: Any, metrics: Sequence[str] | None, actions: Any) -> dict[str, Any]:
    """Rewards of steps by name; a list with one array an episode is cut metric by metric."""
    listed = isinstance(rewards, list | tuple) and any(hasattr(r, "__len__") for r in rewards)
    if metrics is not None and listed:
        parts = [named_rewards(np.asarray(episode), metrics) for episode in rewards]
        return {name: [part[name] for part in parts] for name in parts[0]}
    axes = max(np.ndim(actions) if isinstance(actions, np.ndarray) else 1, 1)
    named = named_rewards(rewards, metrics, axes)
    return {"rewards": rewards} if list(named) == ["reward"] and metrics is None else named


def flags_of(values: Any, shape: Shape, name: str) -> Array | None:
    """Flags of episodes, or of steps in the shape of the actions."""
    if values is None:
        return None
    if isinstance(values, np.ndarray) or not any(hasattr(v, "__len__") for v in values):
        flags = np.asarray(values)
        if flags.shape == (len(shape.lengths),):
            return flags
    return shape.flat(values, name)
