"""Several rewards of the same decisions: metrics by name, the first of which is the log's ``reward``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from offpolicy.errors import DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    from offpolicy._arrays import Floats


class HasMetrics:
    """What logs with one reward or several have in common."""

    reward: Floats
    further: Mapping[str, Floats]
    names: Any

    @property
    def metrics(self) -> dict[str, Floats]:
        """Every reward by its name, the one that ``reward`` holds first."""
        return {self.names.reward: self.reward, **self.further}

    def with_reward(self, name: str) -> Self:
        """The same log with another of its metrics as the reward."""
        known = self.metrics
        check_metric(name, known)
        if name == self.names.reward:
            return self
        rest = {other: values for other, values in known.items() if other != name}
        changed: Any = replace(  # type: ignore[type-var]
            self, reward=known[name], further=rest, names=replace(self.names, reward=name)
        )
        made: Self = changed
        return made

    def with_rewards(self, rewards: Mapping[str, Floats]) -> Self:
        """The same log with other numbers for some of its metrics."""
        first = self.names.reward
        further = {name: rewards.get(name, values) for name, values in self.metrics.items() if name != first}
        changed: Any = replace(  # type: ignore[type-var]
            self, reward=rewards.get(first, self.reward), further=further
        )
        made: Self = changed
        return made


def need_one_metric(log: HasMetrics, what: str) -> None:
    """Refuse to leave metrics out of a format that holds one."""
    if log.further:
        raise DataError(
            f"{what} takes one reward, but this log has {len(log.metrics)}: {', '.join(log.metrics)}. Build the log "
            "with the one you want to write."
        )


def check_metric(name: Any, known: Any) -> None:
    """Refuse the name of a metric that is not there."""
    if name not in known:
        raise UsageError(
            f"no metric is called {name!r}.{did_you_mean(name, known)} Metrics: {', '.join(known)}. To have several, "
            'name them when you build the log: reward=["click", "revenue"].'
        )


def reward_names(reward: Any) -> tuple[str, ...]:
    """Columns of the rewards, from a name or a list of names.

    >>> reward_names("click"), reward_names(["click", "cost"])
    (('click',), ('click', 'cost'))
    """
    names = (reward,) if isinstance(reward, str) else reward
    if not isinstance(names, Sequence) or not names:
        raise DataError(f"reward= must be a column name or a list of them. Got {reward!r} instead.")
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"reward= must list column names (str). Got {name!r} instead.")
    _refuse_repeated(names)
    return tuple(names)


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise DataError(f"reward= lists a metric twice: {list(names)}. List each once.")


def named_rewards(reward: Any, metrics: Sequence[str] | None, axes: int = 1) -> dict[str, Any]:
    """Rewards by name, each as it was given: of a mapping, a frame, or an array with a last axis of metrics.

    Parameters
    ----------
    reward : array, {name: array} or frame
    metrics : sequence of str, optional
        Names of the last axis; one name for a single reward.
    axes : int
        Axes of a single reward.

    >>> sorted(named_rewards(np.zeros((3, 2)), ["click", "cost"]))
    ['click', 'cost']
    """
    if isinstance(reward, Mapping):
        if metrics is not None:
            raise UsageError("metrics= names the columns of an array; a mapping already has names.")
        if not reward:
            raise DataError("reward= is an empty mapping. Give {name: array}.")
        return {str(name): values for name, values in reward.items()}
    columns = getattr(reward, "columns", None)
    if columns is not None and metrics is None:
        names = [str(name) for name in columns]
        _refuse_repeated(names)
        return {name: reward[column] for name, column in zip(names, columns, strict=True)}
    if metrics is None:
        return {"reward": reward}
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    _refuse_repeated(names)
    array = np.asarray(reward)
    if array.ndim == axes and len(names) == 1:
        return {names[0]: reward}
    if array.ndim != axes + 1 or array.shape[-1] != len(names):
        raise DataError(
            f"metrics= names {len(names)} rewards, but the array of rewards has shape {array.shape}. Give it a last "
            "axis with one entry for each name, or a mapping {name: array}."
        )
    return {name: array[..., j] for j, name in enumerate(names)}
