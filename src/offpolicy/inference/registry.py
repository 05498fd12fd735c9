"""The one registry of interval methods: what makes each of them, and what it declares.

`Estimate.interval`, families of intervals, sums, lifts, comparisons and `select` all look here. An interval of your own
is a function of `Asked` and gets the same doors: ``e.interval(method="mine")``, ``op.select(ev, method="mine")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
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


@dataclass(frozen=True, eq=False)
class Bet:
    """What a one-sided bound that needs no large sample is asked for; weights are known, units independent and alike.

    Attributes
    ----------
    weight, earned : (n,) arrays
        Importance weights, and rewards scaled to [0, 1].
    rate : float
        Probability, at most, with which the bound is above what it bounds.
    count : (n,) array or None
        How many units each row stands for.
    weight_high : float or None
        Largest weight that can occur.
    less_logged : bool
        Whether the gain over the logging policy is bounded, in place of the value.
    """

    weight: Floats
    earned: Floats
    rate: float
    count: Floats | None
    weight_high: float | None
    less_logged: bool


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
    certain : bool
        Whether nothing is left to estimate, so that its one value is the truth.
    p_value : callable, optional
        From an estimate and a null to the two-sided p-value that agrees with its intervals, where that has a form;
        otherwise intervals are inverted.
    bound : callable, optional
        From a `Bet` to the lower bound of a value, or of a gain, that holds at any sample size; `select` takes it.
    says : str
        What `select` calls the bound.
    """

    name: str
    make: Make | None = None
    balanced: bool = False
    shares: bool = False
    certain: bool = False
    p_value: Callable[[Estimate, float], float] | None = None
    bound: Callable[[Bet], float] | None = None
    says: str = ""


_METHODS: dict[str, Method] = {}
_ALIASES: dict[str, str] = {}


def register(name: str, make: Make | None = None, *, aliases: tuple[str, ...] = (), **declared: Any) -> Method:
    """Register an interval method under a name of its own.

    Parameters
    ----------
    name : str
        What `Estimate.interval` and `select` call it.
    make : callable, optional
        Takes `Asked` and gives an `Interval`.
    aliases : tuple of str
        Other names for it.
    **declared
        What it can do: ``balanced``, ``shares``, ``p_value``, ``bound``, …, as in `Method`.

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
            raise UsageError(f"an interval named {known!r} already exists. Give yours another name.")
    _METHODS[name] = Method(name, make, **declared)
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


def bounds() -> list[str]:
    """Every method that bounds a gain at any sample size."""
    return [name for name, m in _METHODS.items() if m.bound is not None]


def is_known(name: str) -> bool:
    """Whether a method, or an alias of one, is called so."""
    return _ALIASES.get(name, name) in _METHODS


def method_named(name: str) -> Method:
    """Look a method up by its name or an alias."""
    found = _METHODS.get(_ALIASES.get(name, name))
    if found is None or (found.make is None and found.bound is None):
        near = did_you_mean(name, [*names(), *_ALIASES])
        raise UsageError(f"method={name!r}: no interval has this name.{near}")
    return found


def declared(interval: Interval) -> Method:
    """What the method of an interval declares; of a refused interval, and of one that is not registered, nothing."""
    unknown = Method(interval.method)
    return _METHODS.get(interval.method, unknown) if interval.sufficient else unknown
