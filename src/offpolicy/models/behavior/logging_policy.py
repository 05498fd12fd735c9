"""The logging policy itself in place of a model of it: ``behavior_model=`` as a policy, asked block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, ModelError, first_rows
from offpolicy.models.fitting.tables import abilities
from offpolicy.policies.forms import adapted, is_constant
from offpolicy.policies.protocol import Surface
from offpolicy.policies.target import resolve

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.log import Log, Scan
    from offpolicy.policies.coarse import Cells, Exact
    from offpolicy.policies.target import Target

NAME = "behavior_model"
SAME = 1e-4  # relative: logged propensities are often single precision or rounded


@dataclass(frozen=True, eq=False)
class LoggingPolicy:
    """π_b as a policy: its probabilities of the logged actions must be those that were logged, where these are."""

    policy: Any

    def __repr__(self) -> str:
        return f"logging policy {self.policy!r}"

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log that it needs besides the context."""
        return tuple(getattr(self.policy, "reads", ()))

    def target(self, log: Log) -> Target:
        """The policy on the rows of a log."""
        return resolve(NAME, self.policy, log)

    def of_logged(self, log: Log, ratios: Cells | Exact) -> tuple[Floats, Floats]:
        """(S,) π_b of the logged action, and of what ratios are of."""
        own, cell = ratios.of_logged(self.target(log), log.context, log.action)
        # A block of a larger log of single decisions begins later than 0; of episodes `first` is a method.
        first = getattr(log, "first", 0) if log.layout.is_single else 0
        rows = np.arange(first, first + len(own))
        _check_possible(own, rows)
        if log.propensity is not None:
            _check_logged(own, log.propensity, log.names.propensity, rows)
        return own, cell


def is_known(spec: Any, *, of_ratios: bool, of_actions: bool) -> bool:
    """Whether π_b is what was logged: of what ratios are of (actions or cells), or of the actions of a logging policy.

    >>> is_known(None, of_ratios=True, of_actions=True), is_known("shares", of_ratios=True, of_actions=True)
    (True, False)
    """
    return of_actions if isinstance(spec, LoggingPolicy) else spec is None and of_ratios


def is_given(spec: Any, *, known: bool) -> bool:
    """Whether no behavior model is fitted.

    >>> is_given(None, known=False), is_given(LoggingPolicy("uniform"), known=False)
    (False, True)
    """
    return known or isinstance(spec, np.ndarray | LoggingPolicy)


def fits_contexts(spec: Any, log: Log | Scan) -> bool:
    """Whether π_b(a | s) of single decisions, each one of several actions, is fitted to their contexts."""
    logged = bool(log.has_propensity)
    given = is_given(spec, known=is_known(spec, of_ratios=logged, of_actions=logged))
    counted = spec == "shares" if isinstance(spec, str) else abilities(spec).ignores_context
    return log.decides_once and log.space.finite and not (given or counted)


def _check_possible(own: Floats, rows: Ints) -> None:
    if (own <= 0).any():
        raise ModelError(
            "behavior_model= is a policy that gives logged actions probability 0: "
            f"{first_rows(own <= 0, own, rows)}. The logging policy took these actions, so it must be a different "
            "policy."
        )


def _check_logged(own: Floats, logged: Floats, name: str, rows: Ints) -> None:
    off = np.abs(own - logged) > SAME * logged
    if off.any():
        at = int(off.argmax())
        raise DataError(
            f"behavior_model= is a policy whose probabilities of logged actions differ from column {name!r}: "
            f"{first_rows(off, own, rows)}, logged {logged[at]:.6g}. One of the two is wrong: "
            "correct it, or build the log without propensity=."
        )


def as_logging_policy(spec: Any, log: Log | Scan) -> Any:
    """``behavior_model=`` with a policy made a `LoggingPolicy`; models, words and arrays of rows are left as they are.

    A table by state of episodes is a policy.
    """
    if isinstance(spec, LoggingPolicy):
        return spec
    if isinstance(spec, np.ndarray | list):
        surface = Surface.of(log)
        shape = np.shape(spec)
        by_state = surface.integer_states and len(shape) == 2 and shape[0] != surface.rows
        return LoggingPolicy(adapted(NAME, np.asarray(spec), surface)) if by_state else spec
    return LoggingPolicy(adapted(NAME, spec, Surface.of(log))) if _is_policy(spec) else spec


def _is_policy(spec: Any) -> bool:
    if spec is None or isinstance(spec, str | list | tuple | np.ndarray | type):
        return False
    if isinstance(spec, Mapping):
        return is_constant(spec)
    if any(hasattr(spec, part) for part in ("fit_behavior", "predict_proba", "fit")):
        return False
    return callable(spec) or any(hasattr(spec, part) for part in ("probabilities", "choices", "on_rows"))
