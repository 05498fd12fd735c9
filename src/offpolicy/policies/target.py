"""A policy, in whichever form the user has it, resolved against a log into probabilities of its actions.

The forms are in `offpolicy.policies.forms`. Probabilities are asked for in blocks of rows and deterministic
policies are kept as codes, so that no n × K array is made for a large log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import OffPolicyError, PolicyError, first_rows
from offpolicy.policies.asked import Asked, checked_rows, encode_choices, probe, some_rows, takes_time
from offpolicy.policies.distribution import blocks, check_rows, fit_together, one_hot
from offpolicy.policies.fitted import needs_rows
from offpolicy.policies.forms import adapted
from offpolicy.policies.on_rows import as_shown
from offpolicy.policies.protocol import Surface, bind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import Log, Scan
    from offpolicy.policies.numbers import Numbers


@dataclass(frozen=True, eq=False)
class Smoothing:
    """The window around the numbers that a policy names.

    Attributes
    ----------
    window : str
        The window in words.
    mean_distance : float
        How far from the policy's number the smoothed policy acts, on average.
    values_of : str or None
        Name of another target whose v is this one's as well.
    finer : Target or None
        The same policy with half the window, by which the bias of the smoothing is judged.
    alone : Target or None
        The same policy with another window, for estimators without a reward model.
    tried : tuple of Target
        The same policy with other windows, to choose among.
    """

    window: str = ""
    mean_distance: float = 0.0
    values_of: str | None = None
    finer: Target | None = None
    alone: Target | None = None
    tried: tuple[Target, ...] = ()


SHARP = Smoothing()  # of policies that are not smoothed


@dataclass(frozen=True, eq=False)
class Target:
    """π_e on the rows of a log.

    Attributes
    ----------
    name : str
    shares_context : bool
        Whether rows of the context's table (distinct contexts) suffice to ask it.
    codes : (m,) int array or None
        The chosen action of each row, when the policy is deterministic.
    elsewhere : callable or None
        (m, K) probabilities in any states at steps t, also those not in the log; None for policies that
        are known on the log's rows only (arrays, columns).
    numbers : Numbers or None
        Densities, where actions are numbers; there is no distribution over labels then.
    smoothing : Smoothing
        The window around the policy's numbers, and the same policy with others.
    shown : (n,) array or None
        Probabilities of the logged actions, where nothing is known of the others.
    note : str
        What a reader of its numbers should know.
    """

    name: str
    n_actions: int
    shares_context: bool
    codes: Ints | None
    _ask: Callable[[Array], Floats] | None = field(repr=False)
    elsewhere: Callable[[Any, Ints], Floats] | None = field(default=None, repr=False)
    asked_width: int | None = None  # numbers per row that an answer takes, where it is more than K
    numbers: Numbers | None = field(default=None, repr=False)
    smoothing: Smoothing = field(default=SHARP, repr=False)
    shown: Floats | None = field(default=None, repr=False)
    note: str = ""  # what a reader of its numbers should know
    unseen: bool = False  # whether what acts on a row is known not to have learned from it

    @property
    def all(self) -> tuple[Target, ...]:
        """The target with its other smoothings."""
        s = self.smoothing
        others = [t for t in (s.finer, s.alone, *s.tried) if t is not None]
        return (self, *(each for t in others for each in t.all))

    @property
    def values_of(self) -> str:
        """Name under which v is kept."""
        return self.smoothing.values_of or self.name

    @property
    def width(self) -> int:
        """Numbers per row that an answer takes in memory."""
        return self.n_actions if self.asked_width is None else self.asked_width

    def probabilities(self, positions: Array) -> Floats:
        """(m, K) probabilities at table rows (or log rows, where contexts are not shared)."""
        if self.codes is not None:
            return one_hot(self.codes[positions], self.n_actions)
        if self.shown is not None:
            raise PolicyError(
                f"policy {self.name!r} has probabilities only for the shown items, so a model cannot be averaged over "
                "its choices. Use IPW or SNIPW, or give the probabilities of all items."
            )
        assert self._ask is not None
        answer: Floats = self._ask(positions)
        return answer

    def of_actions(self, context: Context, action: Ints) -> Floats:
        """(n,) π_e(A_i | S_i) for every row of the log: probabilities, or densities of numbers."""
        n = len(action)
        if self.numbers is not None:
            return self.numbers.density(np.asarray(action, dtype=np.float64))
        if self.shown is not None:
            return self.shown
        if self.codes is not None:
            rows = np.arange(n)
            at = context.positions(rows) if self.shares_context else rows
            return np.asarray(self.codes[at] == action, dtype=np.float64)
        out = np.empty(n)
        for rows, matrix, at in self.by_block(context, n):
            out[rows] = matrix[at, action[rows]]
        return out

    def by_block(self, context: Context, n: int) -> Iterator[tuple[Any, Floats, Ints]]:
        """Rows of the log, a block of distributions, and which of these each row has."""
        if self.shares_context and context.index is not None:
            if fit_together(context.n_table, self.width):
                yield slice(None), self.probabilities(np.arange(context.n_table)), context.index
                return
            order = np.argsort(context.index, kind="stable")
            at = context.index[order]
            for block in blocks(context.n_table, self.width):
                low, high = np.searchsorted(at, [block[0], block[-1] + 1])
                yield order[low:high], self.probabilities(block), at[low:high] - block[0]
            return
        for block in blocks(n, self.width):
            yield block, self.probabilities(block), np.arange(len(block))


# Tables and comparisons show the log itself under this name.
LOGGING_POLICY = "(logging policy)"


def named_policies(policies: Any, log: Log | Scan) -> dict[str, Any]:
    """One policy is called "policy"; a mapping keeps its names.

    A mapping to numbers is one policy, of probabilities by action, unless actions are numbers themselves.
    """
    one = hasattr(policies, "probabilities") or log.space.is_one_policy(policies)
    if isinstance(policies, Mapping) and not one:
        if not policies:
            raise PolicyError("policies= is empty. Give at least one policy.")
        for name in policies:
            if not isinstance(name, str) or not name:
                raise PolicyError(f"policy names must be non-empty strings. Got {name!r} instead.")
            if name == LOGGING_POLICY:
                raise PolicyError(f"{name!r} is reserved for the current policy in tables. Choose another name.")
        return dict(policies)
    return {"policy": policies}


def adapted_policies(named: Mapping[str, Any], log: Log | Scan) -> dict[str, Any]:
    """Policies by name, each adapted from the form it came in; files and modules are read here, once."""
    surface = Surface.of(log)
    return {name: log.space.adapted(name, policy, surface) for name, policy in named.items()}


def resolve(name: str, policy: Any, log: Log) -> Target:
    """Turn any form of policy into a `Target` on the rows of ``log``."""
    target: Target = log.space.resolve(name, policy, log)
    return target


def resolve_labels(name: str, policy: Any, log: Log) -> Target:
    """A policy over labels: probabilities on the rows of a log."""
    policy = bind(adapted(name, policy, Surface.of(log)), log.actions)
    if getattr(policy, "by_fold", False):
        raise needs_rows(name)
    if getattr(policy, "without_replacement", False) and not getattr(log, "excludes_above", False):
        raise PolicyError(
            f"policy {name!r} draws the items of a slate without replacement, which needs to know the items above: "
            "use op.Slates with distinct items and interaction 'cascade' or 'full'. Otherwise give the "
            "probability of each item at its position, regardless of the other items."
        )
    try:
        shown = as_shown(policy, log)
        if shown is not None:
            return Target(name, len(log.actions), False, None, None, shown=shown.of_shown(log))
    except OffPolicyError as error:
        raise type(error)(f"policy {name!r}: {error}") from error
    if not hasattr(policy, "on_rows"):
        return _from_function(name, policy, log)
    try:
        values = policy.on_rows(log)
    except OffPolicyError as error:
        raise type(error)(f"policy {name!r}: {error}") from error
    return _from_array(name, values, log)


def note_of(policy: Any) -> str:
    """What an adapter has to say about how it reads what it was given."""
    return str(getattr(policy, "note", ""))


def _from_array(name: str, array: Array, log: Log) -> Target:
    n, k = len(log.action), len(log.actions)
    if array.shape == (n,):
        return _from_labels(name, array, log)
    if array.shape != (n, k):
        check_rows(array, (n, k), f"policy {name!r}")
    array = array.astype(np.float64, copy=False)
    for block in blocks(n, k):
        checked_rows(array[block], name, log, block)
    return Target(name, k, False, None, array.__getitem__)


def _from_labels(name: str, values: Array, log: Log) -> Target:
    codes = encode_choices(name, values, log.actions)
    _check_eligible_codes(name, codes, log)
    return Target(name, len(log.actions), False, codes, None)


def _from_function(name: str, policy: Any, log: Log) -> Target:
    context: Context = log.context
    labels = log.actions
    timed = takes_time(policy)
    shares = log.eligible is None and not timed
    n = context.n_table if shares else len(log.action)
    bound = Asked(name, policy, log, timed=timed, shares=shares)
    if n == 0:
        raise PolicyError(f"policy {name!r}: the log has no rows.")
    if bound.is_deterministic:
        codes = np.empty(n, dtype=np.int64)
        for block in blocks(n, 1):
            codes[block] = bound.choices(block)
        _check_eligible_codes(name, codes, log)
        rows = some_rows(n)
        probe(bound.choices, rows, f"policy {name!r}", reference=codes[rows])
        return Target(name, len(labels), shares, codes, None, bound.elsewhere)
    probe(bound.probabilities, some_rows(n), f"policy {name!r}")
    ask, note = bound.probabilities, note_of(policy)
    return Target(name, len(labels), shares, None, ask, bound.elsewhere, note=note)


def _check_eligible_codes(name: str, codes: Ints, log: Log) -> None:
    if log.eligible is None:
        return
    bad = ~log.eligible[np.arange(len(codes)), codes]
    if bad.any():
        remedy = "Choose among the eligible actions."
        if getattr(log, "excludes_above", False):
            remedy += (
                " No slate of the log shows an item twice, so items already shown are not eligible; pass "
                "distinct=False if items may repeat."
            )
        raise PolicyError(f"policy {name!r} chooses an action that was not eligible in {first_rows(bad)}. {remedy}")
