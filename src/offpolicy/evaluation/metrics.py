"""What was asked of the metrics of a log: their names, which are better low, and the models of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Asked:
    """Metrics of an evaluation.

    Attributes
    ----------
    names : tuple of str
        In the order of the log; the first is the one that the evaluation speaks of.
    minimized : tuple of str
        Those of which less is better.
    models : {name: model}
        What predicts each: as ``reward_model=`` or ``value_model=`` of `evaluate`.
    """

    names: tuple[str, ...]
    minimized: tuple[str, ...]
    models: Mapping[str, Any]

    @classmethod
    def of(cls, names: Iterable[str], minimize: Any, model: Any, argument: str) -> Asked:
        """Read what was given for all metrics, or for each.

        >>> Asked.of(["click", "cost"], ["cost"], None, "reward_model").minimized
        ('cost',)
        """
        known = tuple(names)
        return cls(known, _minimized(minimize, known), _models(model, known, argument))

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""
        return len(self.names) > 1


def _minimized(minimize: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(minimize, bool):
        if minimize and len(names) > 1:
            raise UsageError(
                f"minimize=True does not say of which metric less is better. Name them: minimize=[{names[-1]!r}]."
            )
        return names if minimize else ()
    if isinstance(minimize, str):
        minimize = [minimize]
    if not isinstance(minimize, list | tuple | set | frozenset):
        raise UsageError(
            f"minimize= must be True, False or names of metrics. Got {minimize!r} instead."
        )
    for name in minimize:
        if name not in names:
            raise UsageError(f"minimize=: no metric is called {name!r}.{did_you_mean(name, names)}")
    return tuple(name for name in names if name in minimize)


def _models(model: Any, names: tuple[str, ...], argument: str) -> dict[str, Any]:
    several = len(names) > 1
    by_metric = isinstance(model, Mapping) and bool(model) and all(key in names for key in model)
    # With one reward a mapping of value models goes by policy.
    if by_metric and (several or argument == "reward_model"):
        return {name: model.get(name) for name in names}
    if several and isinstance(model, Mapping) and any(key in names for key in model):
        odd = next(key for key in model if key not in names)
        raise UsageError(f"{argument}=: no metric is called {odd!r}.{did_you_mean(odd, names)}")
    if several and isinstance(model, np.ndarray | list | tuple | Mapping):
        raise UsageError(
            f"{argument}= holds predictions of one reward, and the log has {len(names)} metrics. Give predictions "
            f"of each: {argument}={{{names[0]!r}: …, {names[1]!r}: …}}."
        )
    return dict.fromkeys(names, model)
