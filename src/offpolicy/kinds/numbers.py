"""`Numbers`: an action is a number (a price, a bid, a dose), and its probability is a density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.kinds.kernel import KernelRatio
from offpolicy.logs import checks
from offpolicy.logs.actions import one_density
from offpolicy.logs.checks import LARGEST, numbers, raise_first
from offpolicy.logs.kinds import ActionSpace
from offpolicy.models.behavior.density import as_density_model
from offpolicy.models.fitting.predictions import predict_numbers
from offpolicy.policies.numbers import adapted_number, resolve_numbers
from offpolicy.scores.catalog import AUTO_NUMBERS, DEFAULT_NUMBERS
from offpolicy.trust.balance import binned
from offpolicy.trust.hashes import column_hashes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpolicy._arrays import Array, Floats
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.kinds import Logged
    from offpolicy.logs.log import Log
    from offpolicy.policies.protocol import Surface
    from offpolicy.policies.target import Target


@dataclass(frozen=True)
class Numbers(ActionSpace):
    """The range of a log's actions; before a log is read, the one that was given, or None."""

    given: Any = None

    finite: ClassVar[bool] = False
    numeric: ClassVar[bool] = True
    why_not: ClassVar[str] = "this check is for labels, and actions are numbers here."
    propensities: ClassVar[str] = "densities"
    default: ClassVar[tuple[str, ...]] = DEFAULT_NUMBERS
    auto: ClassVar[Any] = AUTO_NUMBERS  # one score, which is not blended with others

    @property
    def span(self) -> tuple[float, float]:
        """Smallest and largest action."""
        low, high = self.given
        return float(low), float(high)

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

    def adapted(self, name: str, policy: Any, surface: Surface) -> Any:
        """A policy over numbers."""
        return adapted_number(name, policy, surface)

    def resolve(self, name: str, policy: Any, log: Log) -> Target:
        """Densities on the rows of a log."""
        return resolve_numbers(name, policy, log)

    def ratio(self, asked: Any) -> Any:
        """A policy that names a number has no density by itself: a kernel gives it one."""
        return KernelRatio() if isinstance(asked, str) and asked in {"exact", "auto"} else asked

    def predict(self, *asked: Any) -> tuple[Floats, dict[str, Floats]]:
        """Q at the logged numbers and v of each target, from few predictions per row."""
        return predict_numbers(*asked)

    def behavior_model(self, spec: Any) -> Any:
        """A model of densities."""
        return as_density_model(spec)

    def binned(self, log: Log) -> Any:
        """The log with a few intervals for actions."""
        return binned(cast("BanditLog", log))

    def hashed(self, action: Any) -> Any:
        """Hashes of the numbers."""
        return column_hashes(action)


def action_range(values: Floats, given: Any, column: str) -> tuple[float, float]:
    """Smallest and largest action: those logged, or the declared (low, high) that must hold them.

    >>> action_range(np.array([2.0, 5.0]), None, "price"), action_range(np.array([2.0]), (0, 9), "price")
    ((2.0, 5.0), (0.0, 9.0))
    """
    raise_first(numbers(values, np.isnan(values), column, "action")[:1])
    low, high = checked_range(float(values.min()), float(values.max()), given, column)
    outside = (values < low) | (values > high)
    if outside.any():
        raise DataError(outside_range(column, first_rows(outside, values), (low, high)))
    return low, high


def checked_range(low: float, high: float, given: Any, column: str) -> tuple[float, float]:
    """The declared range where there is one, else that of the logged numbers."""
    if given is not None:
        try:
            low, high = (float(end) for end in given)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"column {column!r}: when actions are numbers, actions= is their range (low, high). "
                f"Got {given!r:.60} instead."
            ) from error
    if max(abs(low), abs(high)) > LARGEST:
        raise DataError(
            f"column {column!r}: actions from {low:g} to {high:g} are larger than 1e30, and their distances would "
            "overflow. Use another unit."
        )
    if not (np.isfinite([low, high]).all() and low < high):
        raise DataError(
            f"column {column!r}: actions from {low:g} to {high:g} do not differ. A log needs several different "
            "actions to say anything about others."
        )
    return low, high


def outside_range(column: str, where: str, span: tuple[float, float]) -> str:
    """Logged actions are not in the declared range."""
    return (
        f"column {column!r}: {where} are outside the declared range {span[0]:g} to {span[1]:g}. Give "
        "a range actions=(low, high) that contains every logged action, or leave it out."
    )
