"""The one registry of interval methods: what makes each of them, and what it declares.

`Estimate.interval`, families of intervals, sums, lifts, comparisons and `select` all look here. An interval of your own
is a function of `Asked` and gets the same doors: ``e.interval(method="mine")``, ``op.select(ev, method="mine")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.evidence import Evidence
    from offpolicy.inference.intervals.sample import Interval, Sample


@dataclass(frozen=True, eq=False)
class Asked:
    """What an interval is asked for.

    Attributes
    ----------
    estimate : Estimate
    level : float
        Coverage aimed at.
    evidence : Evidence or None
        Weights, rewards and their ranges.
    seed : int
        Of methods that draw.
    """

    estimate: Estimate
    level: float
    evidence: Evidence | None = None
    seed: int = 0

    @property
    def sample(self) -> Sample:
        """Scores of independent units: numerators, denominators and counts."""
        return self.estimate.sample()


Make: TypeAlias = Callable[[Asked], "Interval"]


@dataclass(frozen=True, eq=False)
class Method:
    """An interval method.

    Attributes
    ----------
    name : str
    make : callable, optional
        From `Asked` to an `Interval`; None where it is a result that cannot be asked for.
    balanced : bool
        Whether it is chosen where many units with balanced scores stand behind the estimate, so that sums of such
        estimates are as balanced, and `select` may rest on it.
    shares : bool
        Whether it is value ± critical value · standard error, so that a family may share a critical value.
    """

    name: str
    make: Make | None
    balanced: bool = False
    shares: bool = False


_METHODS: dict[str, Method] = {}
_ALIASES: dict[str, str] = {}


def register(
    name: str, make: Make | None = None, *, balanced: bool = False, shares: bool = False, aliases: tuple[str, ...] = ()
) -> Method:
    """Register an interval method under a name of its own.

    Parameters
    ----------
    name : str
        What `Estimate.interval` and `select` call it.
    make : callable, optional
        Takes `Asked` and gives an `Interval`.
    balanced, shares : bool
        As in `Method`.
    aliases : tuple of str
        Other names for it.

    Examples
    --------
    >>> from offpolicy.inference.estimate import Estimate
    >>> from offpolicy.inference.intervals import Interval
    >>> def wide(asked):
    ...     half = 3 * asked.sample.std_error
    ...     return Interval(asked.estimate.value - half, asked.estimate.value + half, asked.level, "three sigma")
    >>> _ = register("three sigma", wide)
    >>> e = Estimate.from_scores([1.0, 2.0, 3.0, 2.0])
    >>> e.interval(method="three sigma").width == 6 * e.std_error
    True
    >>> forget("three sigma")
    """
    for known in (name, *aliases):
        if known == "auto" or known in _METHODS or known in _ALIASES:
            raise UsageError(f"an interval is called {known!r} already. Give yours another name.")
    _METHODS[name] = Method(name, make, balanced, shares)
    _ALIASES.update(dict.fromkeys(aliases, name))
    return _METHODS[name]


def forget(name: str) -> None:
    """Take a method out of the registry."""
    _METHODS.pop(name)
    for alias in [a for a, known in _ALIASES.items() if known == name]:
        _ALIASES.pop(alias)


def names() -> list[str]:
    """Every method that can be asked for, "auto" first."""
    return ["auto", *(name for name, m in _METHODS.items() if m.make is not None)]


def method_named(name: str) -> Method:
    """Look a method up by its name or an alias."""
    found = _METHODS.get(_ALIASES.get(name, name))
    if found is None or found.make is None:
        near = did_you_mean(name, [*names(), *_ALIASES])
        raise UsageError(f"method={name!r}: no interval is called so.{near}")
    return found


def is_balanced(interval: Interval) -> bool:
    """Whether an interval is an answer that rests on many units with balanced scores."""
    return interval.sufficient and _declared(interval).balanced


def may_share(interval: Interval) -> bool:
    """Whether an interval is an answer whose critical value a family may share."""
    return interval.sufficient and _declared(interval).shares


def _declared(interval: Interval) -> Method:
    return _METHODS.get(interval.method, Method(interval.method, None))
