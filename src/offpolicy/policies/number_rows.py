"""Policies over numbers on the rows of a log: densities at the logged actions, and where a reward model is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import OffPolicyError, PolicyError, doing, first_rows
from offpolicy.logs.given import refuse_masked, refuse_other_rows
from offpolicy.policies.blocks import blocks
from offpolicy.policies.densities import nodes_of
from offpolicy.policies.probe import failing_row, probe, some_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.log import Log
    from offpolicy.policies.kernel import KernelRatio

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


def kernel_numbers(center: Floats, ratio: KernelRatio, space: ActionSpace) -> Numbers:
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
    asked = _Asked(name, policy, log)
    out = np.empty(n)
    for block in blocks(n, 1):
        out[block] = asked.numbers(block)
    rows = some_rows(n)
    probe(asked.numbers, rows, f"policy {name!r}", reference=out[rows])
    return out


@dataclass(frozen=True, eq=False)
class _Asked:
    name: str
    policy: Any
    log: Log

    def numbers(self, rows: Ints) -> Floats:
        """One number per row, checked."""
        context = self.log.context
        try:
            given = context.native(context.positions(rows))
            answer = self.policy(given)
        except OffPolicyError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code: say whose, and keep its traceback
            row = failing_row(lambda at: self.policy(context.native(context.positions(at))), rows)
            where = f"{len(rows):,} rows together" if row is None else f"row {row:,}"
            raise PolicyError(f"policy {self.name!r} failed on {where} with {type(error).__name__}: {error}") from error
        refuse_other_rows(answer, given, f"policy {self.name!r}", PolicyError)
        refuse_masked(answer, f"policy {self.name}", PolicyError)
        return _finite(self.name, np.asarray(detached(answer)), rows)


def _finite(name: str, values: Array, rows: Ints) -> Floats:
    if values.shape == (len(rows), 1):
        values = values[:, 0]
    if values.shape != (len(rows),):
        raise PolicyError(f"policy {name!r}: gave shape {values.shape} for {len(rows)} rows. Give one number per row.")
    if values.dtype.kind not in "biuf":
        raise PolicyError(f"policy {name!r}: gave {values.dtype}, not numbers. Give one number per row.")
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
            f"policy {name!r} takes actions outside of the logged range {low:g} to {high:g} in {100 * share:.3g}% of "
            f"the rows: {first_rows(outside, center)}. The log says nothing about them: keep the policy inside, or "
            "collect data there."
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
                f"policy {name!r}: density(context, action) must give one finite number of at least 0 per row."
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
            f"policy {name!r}: {100 * inside.mean():.3g}% of its distribution lies inside the logged range "
            f"{span[0]:g} to {span[1]:g} (row {rows[worst]}: {100 * inside[worst]:.3g}%), and must be 100%. The log "
            "says nothing about the rest: cut the distribution off (low=, high=), and see that its density integrates "
            "to 1."
        )
