"""Policies over numbers, in whichever form they come.

The forms: a number, a function of the context that gives one number per row, a column, (n,) numbers, a fitted
regressor, words ("always:9.5"), or an object with ``density(context, action)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import OffPolicyError, PolicyError, doing, first_rows
from offpolicy.logs.given import differing, refuse_masked, row_labels
from offpolicy.logs.layout import in_log_order
from offpolicy.policies.asked import Asked, probe, some_rows
from offpolicy.policies.densities import UniformRange, nodes_of
from offpolicy.policies.distribution import blocks
from offpolicy.policies.forms import imported, unknown_words
from offpolicy.policies.on_rows import LabelColumn
from offpolicy.policies.protocol import Surface, n_rows
from offpolicy.policies.target import Smoothing, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.log import Log
    from offpolicy.policies.densities import Window


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
            raise PolicyError(f"it and the log have different indexes{differing(mine, theirs)}")
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
    ratio: Window
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
                "an array needs one number per logged row, but a scanned log is not in memory. Pass a function of the "
                "context, or the name of a column."
            )
        if shape != (log.rows,):
            raise PolicyError(f"{shape[0]:,} numbers for {log.rows:,} rows. Give one per row.")
        return RowNumbers(given)
    raise PolicyError(
        f"{given!r:.60} is not a policy over numbers. Pass a number, a function of the context or a column with one "
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


NARROW = 64  # numbers per row that a distribution is asked about at once
OUTSIDE = 0.01  # share of a distribution that may lie outside of the range of the log
FINE = 257  # points at which the density of a few rows is summed


@dataclass(frozen=True, eq=False)
class Numbers:
    """A policy over numbers on the rows of a log.

    Attributes
    ----------
    density : callable
        (n,) density at one action per row.
    nodes : callable
        (m, J) actions at which a reward model is asked in some rows, and their weights.
    cut : callable
        (n,) rows in which the end of the range cuts the kernel.
    apart : callable or None
        (n,) one action per row less the policy's own number; None for a distribution.
    """

    density: Callable[[Floats], Floats]
    nodes: Callable[[Ints], tuple[Floats, Floats]]
    cut: Callable[[], Bools]
    apart: Callable[[Floats], Floats] | None = None


def kernel_numbers(center: Floats, ratio: Window, space: ActionSpace) -> Numbers:
    """A policy that names one number per row, smoothed."""
    span = space.ends(center)

    def nodes(rows: Ints) -> tuple[Floats, Floats]:
        return ratio.nodes(center[rows], space.ends(center[rows]))

    return Numbers(
        lambda action: ratio.density(action, center, span),
        nodes,
        lambda: ratio.is_cut(center, span),
        lambda action: action - center,
    )


def named_numbers(name: str, policy: Any, log: Log) -> Floats:
    """(n,) the number that a policy names in each row, checked: inside the range of the log."""
    center = _numbers(name, policy, log)
    _check_inside(name, center, log.action_range)
    return center


def _numbers(name: str, policy: Any, log: Log) -> Floats:
    """(n,) the number that a policy names in each row, checked."""
    n = len(log.action)
    if hasattr(policy, "on_rows"):
        with doing(f"reading policy {name!r}", PolicyError):
            return _finite(name, np.asarray(policy.on_rows(log)), np.arange(n))
    asked = Asked(name, policy, log, timed=False, shares=False)

    def numbers(rows: Ints) -> Floats:
        return _finite(name, asked.answer(rows), rows)

    out = np.empty(n)
    for block in blocks(n, 1):
        out[block] = numbers(block)
    rows = some_rows(n)
    probe(numbers, rows, f"policy {name!r}", reference=out[rows])
    return out


def _finite(name: str, values: Array, rows: Ints) -> Floats:
    if values.shape == (len(rows), 1):
        values = values[:, 0]
    if values.shape != (len(rows),):
        raise PolicyError(
            f"policy {name!r} returned shape {values.shape} for {len(rows)} rows. Return one number per row."
        )
    if values.dtype.kind not in "biuf":
        raise PolicyError(f"policy {name!r} returned {values.dtype}, not numbers. Return one number per row.")
    numbers = values.astype(np.float64)
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise PolicyError(f"policy {name!r}: {first_rows(bad, numbers, rows)} are not finite.")
    return numbers


def _check_inside(name: str, center: Floats, span: tuple[float, float]) -> None:
    low, high = span
    rounding = 1e-9 * (high - low)
    outside = (center < low - rounding) | (center > high + rounding)
    if outside.any():
        share = float(outside.mean())
        raise PolicyError(
            f"policy {name!r} takes actions outside the logged range {low:g} to {high:g} in {100 * share:.3g}% of "
            f"rows: {first_rows(outside, center)}. The log has no data there. Keep the policy inside the range, or "
            "collect data outside it."
        )


def distribution_numbers(name: str, policy: Any, log: Log) -> Numbers:
    """A policy that is a distribution by itself."""
    span = log.action_range
    bound = policy.within(span) if hasattr(policy, "within") else policy
    context, n = log.context, len(log.action)

    def ask(rows: Ints, action: Floats) -> Floats:
        with doing(f"asking policy {name!r} for its density", PolicyError):
            values = np.asarray(bound.density(context.native(context.positions(rows)), action))
        if values.shape != (len(rows),) or not (np.isfinite(values).all() and (values >= 0).all()):
            raise PolicyError(
                f"policy {name!r}: density(context, action) must return one finite number of at least 0 per row."
            )
        return values.astype(np.float64)

    def density(action: Floats) -> Floats:
        out = np.empty(n)
        for block in blocks(n, NARROW):
            out[block] = ask(block, action[block])
        return out

    def nodes(rows: Ints) -> tuple[Floats, Floats]:
        with doing(f"asking policy {name!r} for its nodes", PolicyError):
            return nodes_of(bound, context.native(context.positions(rows)), span)

    few = some_rows(n)
    middle = np.full(len(few), sum(span) / 2)
    probe(lambda rows: ask(rows, middle[: len(rows)]), few, f"policy {name!r}")
    _check_mass(name, ask, few, span)
    return Numbers(density, nodes, lambda: np.zeros(n, dtype=bool))


def _check_mass(name: str, ask: Callable[[Ints, Floats], Floats], rows: Ints, span: tuple[float, float]) -> None:
    """The distribution lies inside the range of the log."""
    grid = np.linspace(*span, FINE)
    step = grid[1] - grid[0]
    middle = grid[:-1] + step / 2
    inside = np.sum([ask(rows, np.full(len(rows), a)) for a in middle], axis=0) * step
    off = np.abs(inside - 1) > 10 * OUTSIDE
    if np.abs(inside.mean() - 1) > OUTSIDE or off.any():
        worst = int(np.abs(inside - 1).argmax())
        raise PolicyError(
            f"policy {name!r}: only {100 * inside.mean():.3g}% of its distribution is inside the logged range "
            f"{span[0]:g} to {span[1]:g} (row {rows[worst]}: {100 * inside[worst]:.3g}%), and the log has no data "
            "outside it. Truncate the distribution (low=, high=) so that its density integrates to 1 inside the "
            "range."
        )


def resolve_numbers(name: str, policy: Any, log: Log) -> Target:
    """A policy over numbers: a distribution, or one number per row with its kernel."""
    policy = adapted_number(name, policy, Surface.of(log))
    if has_density(policy):
        numbers = distribution_numbers(name, policy, log)
        return Target(name, 0, False, None, None, numbers=numbers)
    assert isinstance(policy, Smoothed)  # every number has been given its kernel
    center = named_numbers(policy.values_of or name, policy.inner, log)

    def made(each: str, smoothed: Smoothed) -> Target:
        numbers = kernel_numbers(center, smoothed.ratio, log.space)
        return replace(blank_target(each, smoothed), numbers=numbers)

    return with_variants(name, policy, made)


def blank_target(name: str, policy: Smoothed) -> Target:
    """What is known of a smoothed policy before any row is looked at."""
    smoothing = Smoothing(policy.ratio.words, policy.ratio.mean_distance, policy.values_of)
    return Target(name, 0, False, None, None, smoothing=smoothing)


def with_variants(name: str, policy: Smoothed, make: Callable[[str, Smoothed], Target]) -> Target:
    """A target with its other bandwidths, each made by ``make``."""
    others: dict[str, Any] = {
        what: with_variants(other, each, make) for what, (other, each) in policy.variants(name).items()
    }
    tried = tuple(make(other, each) for other, each in policy.trials())
    made = make(name, policy)
    return replace(made, smoothing=replace(made.smoothing, tried=tried, **others))
