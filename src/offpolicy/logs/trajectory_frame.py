"""Tables with one row per step, as the flat parts of a trajectory log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, an, first_rows
from offpolicy.logs import checks, episodes
from offpolicy.logs.actions import Label, encode, refuse_continuous, refuse_twice
from offpolicy.logs.bandit import Names
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.identity import unit_numbers
from offpolicy.logs.metrics import reward_names
from offpolicy.logs.roles import check_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Ints


def read(
    frame: Any,
    *,
    episode: str,
    step: str | None,
    state: Sequence[str] | str | None,
    action: str,
    reward: str | Sequence[str],
    propensity: str | Sequence[str] | None,
    terminated: str | None,
    cluster: str | None,
    weight: str | None,
    fold: str | None,
    actions: Sequence[Label] | None,
    discrete: bool | None,
    truncated: str | None = None,
    eligible: str | None = None,
    words: tuple[str, str] = ("episode", "step"),
) -> dict[str, Any]:
    """Parts of the log, steps in order; ``words`` are what a unit and its decisions are called."""
    unit_word, step_word = words
    columns = Columns(frame)
    checks.not_empty(len(columns))
    names = [state] if isinstance(state, str) else list(() if state is None else state)
    for name in names:
        columns.require(name, "state" if unit_word == "episode" else "context")
    rewards = reward_names(reward)
    for name, role in ((action, "action"), *((each, "reward") for each in rewards)):
        columns.require(name, role)
        if name in names:
            raise DataError(f"state= contains the {role} column {name!r}. Leave the {role} out.")
    columns.require(episode, unit_word)
    able_role = "eligible" if unit_word == "episode" else "candidates"
    named = {
        unit_word: episode,
        step_word: step,
        "action": action,
        "reward": rewards,
        "propensity": propensity,
        "terminated": terminated,
        "truncated": truncated,
        able_role: eligible,
        "cluster": cluster,
        "weight": weight,
        "fold": fold,
    }
    check_apart(named)
    ids, codes = checks.groups(columns.values(episode), episode, unit_word)
    times = None if step is None else columns.numeric(columns.require(step, step_word), step_word)
    order = episodes.order_of(codes, times, episode, step or "step", words)
    lengths = np.bincount(codes)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])

    def steps(name: str, role: str) -> Array:
        return columns.values(columns.require(name, role))[order]

    def units(name: str | None, role: str) -> Array | None:
        if name is None:
            return None
        values = steps(name, role)
        differs = values != np.repeat(values[first], lengths)
        if differs.any():
            raise DataError(
                f"column {name!r}: the {role} changes inside {an(unit_word)} in {first_rows(differs)} "
                f"(rows in order of {unit_word} and {step_word}). It belongs to the whole {unit_word}."
            )
        return np.asarray(values[first])

    labels, taken = encode(steps(action, "action"), actions, action)
    refuse_continuous(labels, len(columns), action, actions)
    probabilities: Array | None = None
    propensity_name = "propensity"
    if isinstance(propensity, str):
        propensity_name = propensity
        probabilities = columns.numeric(columns.require(propensity, "propensity"), "propensity")
    elif propensity is not None:
        listed = list(propensity)
        refuse_twice(listed)
        propensity_name = ", ".join(listed[:3])
        probabilities = np.column_stack(
            [columns.numeric(columns.require(c, "propensity"), "propensity") for c in listed]
        )
    weights = units(weight, "weight")
    return {
        "context": _states(columns, names, order, discrete=discrete),
        "actions": labels,
        "action": taken,
        "reward": columns.numeric(rewards[0], "reward")[order],
        "further": {each: columns.numeric(each, "reward")[order] for each in rewards[1:]},
        "lengths": lengths.astype(np.int64),
        "propensity": None if probabilities is None else probabilities[order],
        "terminated": None if terminated is None else steps(terminated, "terminated"),
        "truncated": None if truncated is None else steps(truncated, "truncated"),
        "cluster": units(cluster, "cluster"),
        "weight": None if weights is None else checks.one_dimensional(weights, "weight", "weight"),
        "fold": units(fold, "fold"),
        "eligible": _eligible(columns, eligible, able_role, (labels, taken, order)),
        "unit": unit_numbers(ids),
        "source": Context.from_frame(frame).native(order),
        "row_order": None if bool((np.diff(order) > 0).all()) else order,
        "names": Names(action, rewards[0], propensity_name, "batch", cluster or "cluster"),
    }


def _eligible(columns: Columns, name: str | None, role: str, logged: Any) -> Any:
    """(S, K) actions that could be taken, steps in order; None where no column says."""
    if name is None:
        return None
    labels, taken, order = logged
    lists = columns.lists(columns.require(name, role))
    able = checks.eligible_from_lists(lists, labels, name)[order]
    checks.logged_is_eligible(able, taken, name)
    return able


def _states(columns: Columns, names: list[str], order: Ints, *, discrete: bool | None) -> Context:
    """States as a frame of rows, or of distinct rows when every column holds ids."""
    if not names:
        return Context(np.empty((len(order), 0)))
    frame = Context.from_frame(columns.subset(names))
    codes = _codes(columns, names, discrete=discrete)
    if codes is None:
        return Context.from_frame(frame.native(order))
    _, first, index = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    if discrete is None and len(names) > 1 and 2 * len(first) > len(order):
        return Context.from_frame(frame.native(order))
    distinct = frame.native(first)
    return Context.from_frame(distinct, index.reshape(-1)[order].astype(np.int64))


def _codes(columns: Columns, names: list[str], *, discrete: bool | None) -> Array | None:
    if discrete is False:
        return None
    parts = []
    for name in names:
        values = columns.values(name)
        if discrete is None and values.dtype.kind not in "biuOUS":
            return None
        parts.append(checks.groups(values, name, "state")[1])
    return np.column_stack(parts)
