"""Models in words, and choosing one: the candidate of the smallest held-out loss, by one rule for every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from offpolicy.errors import ModelError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from offpolicy._arrays import Floats

Candidate = TypeVar("Candidate")


def best_of(candidates: Iterable[Candidate], loss: Callable[[Candidate], float]) -> tuple[Candidate, float]:
    """The candidate of the smallest loss, and its loss; of equal ones the first, so simple ones come first.

    >>> best_of([3, -1, 1], abs)
    (-1, 1)
    """
    best: tuple[Candidate, float] | None = None
    for candidate in candidates:
        value = loss(candidate)
        if best is None or value < best[1]:
            best = candidate, value
    assert best is not None
    return best


def downhill(values: Sequence[Candidate], start: int, loss: Callable[[Candidate], float]) -> tuple[Candidate, float]:
    """The best of an ordered grid, looked for from ``start`` in the direction in which the loss falls.

    >>> downhill([0, 1, 2, 3, 4, 5], 4, lambda x: (x - 1) ** 2)
    (1, 0)
    """
    known = {start: loss(values[start])}

    def at(i: int) -> float:
        if i not in known:
            known[i] = loss(values[i])
        return known[i]

    for step in (-1, 1):
        i = min(known, key=lambda j: known[j])
        while 0 <= i + step < len(values) and at(i + step) < known[i]:
            i += step
    best = min(known, key=lambda j: known[j])
    return values[best], known[best]


def mean_loss(losses: Floats, weight: Floats | None) -> float:
    """Mean over held-out rows, each with its weight."""
    return float(np.average(losses, weights=weight))


def resolved(
    argument: str, spec: Any, method: str, words: Mapping[str, Callable[[], Any]], error: type[Exception] = ModelError
) -> Any:
    """The model that a word names, or a model that has ``method``; None for anything else, which may be a learner.

    >>> resolved("reward_model=", "one", "fit_reward", {"one": lambda: 1})
    1
    """
    if isinstance(spec, str):
        if spec not in words:
            known = ", ".join(map(repr, words))
            raise error(f"{argument} as a word is one of {known}. Got {spec!r}.{did_you_mean(spec, words)}")
        return words[spec]()
    if isinstance(spec, type):
        raise ModelError(f"{argument} is the class {spec.__name__}. Give an instance: {spec.__name__}().")
    return spec if hasattr(spec, method) else None
