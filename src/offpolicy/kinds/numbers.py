"""`Numbers`: an action is a number (a price, a bid, a dose), and its probability is a density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy.errors import DataError, UsageError
from offpolicy.logs import checks
from offpolicy.logs.actions import one_density
from offpolicy.logs.continuous import action_range, checked_range, outside_range
from offpolicy.models.behavior.density import as_density_model
from offpolicy.models.fitting.predictions import predict_numbers
from offpolicy.policies.kernel import KernelRatio
from offpolicy.policies.numbers import adapted_number
from offpolicy.policies.target import resolve_numbers
from offpolicy.scores.catalog import AUTO_NUMBERS, DEFAULT_NUMBERS
from offpolicy.trust.balance import binned
from offpolicy.trust.hashes import column_hashes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.kinds import Logged
    from offpolicy.logs.log import Log
    from offpolicy.policies.surface import Surface
    from offpolicy.policies.target import Target


@dataclass(frozen=True)
class Numbers:
    """The range of a log's actions; before a log is read, the one that was given, or None."""

    given: Any = None

    labels: ClassVar[tuple[Any, ...]] = ()
    finite: ClassVar[bool] = False
    numeric: ClassVar[bool] = True
    why_not: ClassVar[str] = "actions are numbers, and the check is about labels."
    propensities: ClassVar[str] = "densities"

    @property
    def span(self) -> tuple[float, float]:
        """Smallest and largest action."""
        low, high = self.given
        return float(low), float(high)

    @property
    def room(self) -> float:
        """How far apart actions can be that a window may hold."""
        return self.span[1] - self.span[0]

    def ends(self, center: Floats) -> tuple[Any, Any]:
        """Where the range ends around numbers."""
        return self.span

    def check_given(self, given: Mapping[str, Any]) -> None:
        """Refuse what is about labels."""
        for name, value in given.items():
            if value is not None:
                raise UsageError(f"{name}= is for actions that are labels; with action_kind='continuous' leave it out.")

    def read(self, logged: Logged) -> tuple[Numbers, Floats]:
        """The range of a log's actions, and these as they are."""
        values = logged.numbers()
        return Numbers(action_range(values, self.given, logged.name)), values

    def scanned(self, values: Array, times: list[int], name: str) -> Numbers:
        """The declared range, or that of the logged numbers, which it must hold."""
        checks.check(values, name, "action")
        low, high = map(float, values)
        span = checked_range(low, high, self.given, name)
        outside = [end for end in (low, high) if not span[0] <= end <= span[1]]
        if outside:
            raise DataError(outside_range(name, f"actions such as {outside[0]:g}", span))
        return Numbers(span)

    def encode(self, values: Array) -> Floats:
        """The numbers themselves."""
        return np.asarray(values, dtype=np.float64)

    def whole_columns(self, propensity: Any) -> list[str]:
        """Refused: a density is one column."""
        raise DataError(one_density(propensity))

    def whole(self, propensity: Array, n: int) -> Array:
        """Refused: a density is one number per row."""
        raise DataError(one_density(propensity.shape))

    def logged_propensity(self, values: Any, action: Any, name: str) -> tuple[Any, Any]:
        """Densities of the logged actions."""
        return None if values is None else checks.check(values, name, "propensity", "density"), None

    def described(self, name: str) -> str:
        """The range."""
        low, high = self.span
        return f"{name} from {low:.4g} to {high:.4g}"

    def is_one_policy(self, given: Any) -> bool:
        """Never: a mapping to numbers is of policies that name one each."""
        return False

    def adapted(self, name: str, policy: Any, surface: Surface) -> Any:
        """A policy over numbers."""
        return adapted_number(name, policy, surface)

    def resolve(self, name: str, policy: Any, log: Log) -> Target:
        """Densities on the rows of a log."""
        return resolve_numbers(name, policy, log)

    def ratio(self, asked: Any) -> Any:
        """A policy that names a number has no density by itself: a kernel gives it one."""
        return KernelRatio() if isinstance(asked, str) and asked in {"exact", "auto"} else asked

    def estimators(self, of_units: tuple[str, ...]) -> tuple[str, ...]:
        """Those that smooth well."""
        return DEFAULT_NUMBERS

    def auto(self, of_units: Any) -> Any:
        """One score, which is not blended with others."""
        return AUTO_NUMBERS

    def predict(self, *asked: Any) -> tuple[Floats, dict[str, Floats]]:
        """Q at the logged numbers and v of each target, from few predictions per row."""
        return predict_numbers(*asked)

    def behavior_model(self, spec: Any) -> Any:
        """A model of densities."""
        return as_density_model(spec)

    def beside(self, log: Log) -> None:
        """None: the number says it all."""

    def groups(self, action: Any) -> Ints:
        """All are one group."""
        return np.zeros(len(action), dtype=np.int64)

    def binned(self, log: Any) -> Any:
        """The log with a few intervals for actions."""
        return binned(log)

    def hashed(self, action: Any) -> Any:
        """Hashes of the numbers."""
        return column_hashes(action)
