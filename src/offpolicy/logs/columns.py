"""Columns that every log has: how many rows a unit stands for, its weight, cluster and batch; never None.

Where nothing was given a column is a constant that is held once: 1 for counts and weights, −1 for "no cluster" and "no
batch".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from offpolicy._arrays import constant, is_constant, read_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offpolicy._arrays import Floats, Ints

NOT_GIVEN: Any = None  # default of a column; `fill` puts the constant in its place
DEFAULTS: dict[str, float] = {"count": 1.0, "weight": 1.0, "cluster": -1, "batch": -1}


def fill(owner: Any, n: int) -> None:
    """Put constants in place of the columns of a frozen dataclass that were not given."""
    for name, value in DEFAULTS.items():
        if getattr(owner, name) is None:
            object.__setattr__(owner, name, constant(value, n))


class HasColumns:
    """Facts about the columns of units, for logs and for the units of an estimate."""

    count: Floats
    weight: Floats
    cluster: Ints
    batch: Ints

    @property
    def is_counted(self) -> bool:
        """Whether the log says how many rows each stands for."""
        return not is_constant(self.count)

    @property
    def is_weighted(self) -> bool:
        """Whether units have analysis weights."""
        return not is_constant(self.weight)

    @property
    def has_clusters(self) -> bool:
        """Whether units come in clusters."""
        return len(self.cluster) > 0 and bool(self.cluster[0] >= 0)

    @property
    def has_batches(self) -> bool:
        """Whether the log says which batch a unit is of."""
        return len(self.batch) > 0 and bool(self.batch[0] >= 0)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: of a constant its length."""
        held = {k: v for k, v in vars(self).items() if k not in {"mass", "relative_mass"}}
        constants = {name: len(held[name]) for name in DEFAULTS if is_constant(held[name])}
        return held | constants

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Constants are held once again."""
        for name, value in state.items():
            made = name in DEFAULTS and isinstance(value, int)
            object.__setattr__(self, name, constant(DEFAULTS[name], value) if made else value)

    @cached_property
    def mass(self) -> Floats:
        """(n,) weight in means: count × analysis weight."""
        if not self.is_weighted:
            return self.count
        return self.count * self.weight if self.is_counted else self.weight


class HasRows(HasColumns):
    """What logs have in common whose decisions are held, in memory or but for their contexts."""

    action: Any
    propensity: Any
    further: Mapping[str, Floats]

    def _keep(self, n: int, names: Iterable[str]) -> None:
        """Fill the columns of n units that were not given, and let no one write to any."""
        fill(self, n)
        for name in names:
            object.__setattr__(self, name, read_only(getattr(self, name)))
        further = {name: read_only(values) for name, values in self.further.items()}
        object.__setattr__(self, "further", further)

    @property
    def rows(self) -> int:
        """Decisions held."""
        return len(self.action)

    @property
    def has_propensity(self) -> bool:
        """Whether the probability of the logged action is known."""
        return self.propensity is not None

    def opened(self, *_: Any) -> Self:
        """The log itself: it is open already."""
        return self

    def whole(self) -> Self:
        """The log itself."""
        return self
