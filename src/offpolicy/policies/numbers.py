"""Policies over numbers, in whichever form they come.

The forms: a number, a function of the context that gives one number per row, a column, (n,) numbers, a fitted
regressor, words ("always:9.5"), or an object with ``density(context, action)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import OffPolicyError, PolicyError
from offpolicy.logs.given import differing, refuse_masked, row_labels
from offpolicy.logs.layout import in_log_order
from offpolicy.policies.context import n_rows
from offpolicy.policies.densities import UniformRange
from offpolicy.policies.on_rows import LabelColumn
from offpolicy.policies.words import imported, unknown_words

if TYPE_CHECKING:
    from offpolicy._arrays import Array
    from offpolicy.logs.log import Log
    from offpolicy.policies.kernel import KernelRatio
    from offpolicy.policies.surface import Surface


@dataclass(frozen=True)
class Always:
    """The same number in every row."""

    action: float

    def __call__(self, context: Any) -> Any:
        """The number, for all rows."""
        return np.full(n_rows(context), self.action)


@dataclass(frozen=True, eq=False)
class Regressor:
    """A fitted model whose predictions are the numbers."""

    model: Any

    def __call__(self, context: Any) -> Any:
        """(n,) predictions."""
        return self.model.predict(context)


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """One number per row of the log, given beside it."""

    given: Any

    def on_rows(self, log: Log) -> Array:
        """(n,) numbers in the order of the log."""
        mine, theirs = row_labels(self.given), getattr(log, "row_labels", None)
        if mine is not None and theirs is not None and not mine.equals(theirs):
            raise PolicyError(f"it has another index than the log{differing(mine, theirs)}")
        refuse_masked(self.given, "numbers", PolicyError)
        numbers: Array = in_log_order(np.asarray(detached(self.given)), log)
        return numbers


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A policy of numbers with the kernel that gives it a density.

    ``values_of`` names the policy whose reward predictions serve this one as well, at another bandwidth; ``judged``
    says that half the bandwidth is looked at too, by which the bias of the bandwidth is judged; ``alone`` is the
    bandwidth for estimators without a reward model, which smooth all of the reward and not what a model leaves of it;
    ``tried`` are other bandwidths under names of their own.
    """

    inner: Any
    ratio: KernelRatio
    values_of: str | None = None
    judged: bool = False
    alone: float | None = None
    tried: tuple[tuple[str, float], ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log that it needs besides the context."""
        return tuple(getattr(self.inner, "reads", ()))

    def variants(self, name: str) -> dict[str, tuple[str, Smoothed]]:
        """The other bandwidths of the policy called ``name`` by what they are for, each with a name of its own."""
        shared = None if self.ratio.smooth_model else name
        made: dict[str, tuple[str, Smoothed]] = {}
        if self.judged:
            half = replace(self.ratio, bandwidth=self.ratio.width / 2)
            made["finer"] = (f"{name} at half the bandwidth", Smoothed(self.inner, half, shared))
        if self.alone is not None:
            own = Smoothed(self.inner, replace(self.ratio, bandwidth=self.alone), shared, self.judged)
            made["alone"] = (f"{name} without a model", own)
        return made

    def trials(self) -> list[tuple[str, Smoothed]]:
        """The policy at every bandwidth that is tried beside its own."""
        return [
            (name, Smoothed(self.inner, replace(self.ratio, bandwidth=h), self.values_of)) for name, h in self.tried
        ]


def trial_stem(name: str) -> str:
    """How the names begin under which bandwidths of a policy are tried."""
    return f"{name} at bandwidth "


def is_number(given: Any) -> bool:
    """Whether a policy is a constant number."""
    return isinstance(given, int | float | np.number) and not isinstance(given, bool)


def has_density(policy: Any) -> bool:
    """Whether a policy is a distribution by itself."""
    return hasattr(policy, "density")


def adapted_number(name: str, given: Any, log: Surface) -> Any:
    """The policy over numbers that ``given`` stands for; one already adapted comes back as it is."""
    if isinstance(given, type):
        raise PolicyError(f"policy {name!r} is the class {given.__name__}. Give an instance: {given.__name__}(…).")
    try:
        return _adapted(given, log)
    except OffPolicyError as error:
        raise type(error)(f"policy {name!r}: {error}") from error


def _adapted(given: Any, log: Surface) -> Any:
    if isinstance(given, Smoothed) or has_density(given) or hasattr(given, "on_rows"):
        return given
    if is_number(given):
        return Always(float(given))
    if isinstance(given, str):
        return _words(given, log)
    if hasattr(given, "predict") and not callable(given):
        return Regressor(given)
    if callable(given):
        return given
    shape = np.shape(given)
    if len(shape) == 1:
        if log.rows is None:
            raise PolicyError(
                "an array has one number per logged row, which a scanned log does not hold. Give a function of the "
                "context, or the name of a column."
            )
        if shape != (log.rows,):
            raise PolicyError(f"{shape[0]:,} numbers for {log.rows:,} rows. Give one for each.")
        return RowNumbers(given)
    raise PolicyError(
        f"{given!r:.60} is not a policy over numbers. Give a number, a function of the context or a column with one "
        "number per row, an (n,) array, a fitted regressor, 'always:9.5', or an object with density(context, action) "
        "such as offpolicy.policies.Normal."
    )


def _words(text: str, log: Surface) -> Any:
    if text in log.columns:
        return LabelColumn(text)
    if text == "uniform":
        return UniformRange()
    if text.startswith("always:"):
        said = text.removeprefix("always:")
        try:
            return Always(float(said))
        except ValueError as error:
            raise PolicyError(f"{said!r} is not a number.") from error
    if ":" in text:
        return _adapted(imported(text, log), log)
    raise unknown_words(text, log)
