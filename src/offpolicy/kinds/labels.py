"""`Labels`: an action is one of K, each of which has a probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, did_you_mean
from offpolicy.logs import checks
from offpolicy.logs.actions import (
    Label,
    action_list,
    action_missing,
    action_unknown,
    distribution_columns,
    encode,
    refuse_continuous,
)
from offpolicy.logs.kinds import ActionSpace
from offpolicy.models.behavior.resolve import as_behavior_model
from offpolicy.models.fitting.predictions import predict_values
from offpolicy.models.fitting.tables import ActionColumns
from offpolicy.policies.forms import adapted, is_constant
from offpolicy.policies.target import resolve_labels
from offpolicy.trust.hashes import column_hashes

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.kinds import Logged
    from offpolicy.logs.log import Log
    from offpolicy.policies.protocol import Surface
    from offpolicy.policies.target import Target

EXAMPLES = 3


@dataclass(frozen=True)
class Labels(ActionSpace):
    """The K actions of a log; before a log is read, those that were given, or None."""

    given: Any = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The K actions, in order."""
        return () if self.given is None else self.given

    def read(self, logged: Logged) -> tuple[Labels, Ints]:
        """The actions of a log, and the code of each logged one."""
        values = logged.values()
        labels, codes = encode(values, self.given, logged.name)
        refuse_continuous(labels, len(values), logged.name, self.given)
        return Labels(labels), codes

    def scanned(self, values: Array, times: list[int], name: str) -> Labels:
        """The actions of a log from how often each occurs."""
        n = sum(times)
        if n == 0:
            raise DataError(checks.EMPTY)
        for value, count in zip(values, times, strict=True):
            if value is None or value != value:  # noqa: PLR0124
                raise DataError(action_missing(name, f"{count:,} of {n:,} values"))
        if self.given is None:
            labels = encode(values, None, name)[0]
            refuse_continuous(labels, n, name)
            return Labels(labels)
        known = encode(np.empty(0, dtype=object), tuple(self.given), name)[0]
        unknown = {v: c for v, c in zip(values, times, strict=True) if v not in set(known)}
        if unknown:
            shown = ", ".join(repr(v) for v in list(unknown)[:EXAMPLES])
            where = f"{sum(unknown.values()):,} of {n:,} values (such as {shown})"
            raise DataError(action_unknown(name, where, did_you_mean(next(iter(unknown)), known)))
        return Labels(known)

    def encode(self, values: Array) -> Ints:
        """Codes of logged values that have been checked."""
        place = {label: i for i, label in enumerate(self.labels)}
        return np.array([place[label] for label in values], dtype=np.int64)

    def whole_columns(self, propensity: Any) -> list[str]:
        """Columns of the whole logging distribution, one per action."""
        if isinstance(propensity, Mapping):
            action_list(propensity, "propensity")
        return list(distribution_columns(propensity, self.labels).values())

    def whole(self, propensity: Array, n: int) -> Array:
        """An (n, K) array."""
        shape = (n, len(self.labels))
        if propensity.shape != shape:
            raise DataError(f"'propensity' must have shape (n,) or (n, K) = {shape}. Got {propensity.shape}.")
        return propensity

    def logged_propensity(self, values: Any, action: Any, name: str) -> tuple[Any, Any]:
        """Probabilities of the logged actions, and the whole distribution where it was logged."""
        return checks.logged_propensity(values, action, name)

    def described(self, name: str) -> str:
        """How many there are."""
        return f"{len(self.labels):,} actions"

    def is_one_policy(self, given: Any) -> bool:
        """A mapping from actions to probabilities is one policy."""
        return is_constant(given)

    def adapted(self, name: str, policy: Any, surface: Surface) -> Any:
        """A policy over labels."""
        return adapted(name, policy, surface)

    def resolve(self, name: str, policy: Any, log: Log) -> Target:
        """Probabilities on the rows of a log."""
        return resolve_labels(name, policy, log)

    def predict(self, *asked: Any) -> tuple[Floats, dict[str, Floats]]:
        """Q at the logged actions and v of each target: Σ_a π_e(a | S) q(S, a)."""
        return predict_values(*asked)

    def behavior_model(self, spec: Any) -> Any:
        """A model of probabilities."""
        return as_behavior_model("auto" if spec is None else spec)

    def beside(self, log: Log) -> ActionColumns | None:
        """The features of the actions, where the log has any."""
        features = getattr(log, "action_features", None)
        return None if features is None else ActionColumns(features)

    def hashed(self, action: Any) -> Any:
        """Hashes of the labels."""
        labels = np.empty(len(self.labels), dtype=object)
        for i, label in enumerate(self.labels):
            labels[i] = label
        return column_hashes(labels)[action]
