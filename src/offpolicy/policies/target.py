"""A policy, in whichever form the user has it, resolved against a log into probabilities of its actions.

The forms are in `offpolicy.policies.forms`. Probabilities are asked for in blocks of rows and deterministic
policies are kept as codes, so that no n × K array is made for a large log.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached
from offpolicy.errors import DataError, OffPolicyError, PolicyError, did_you_mean, doing, first_rows
from offpolicy.logs.actions import encode, is_missing, plain
from offpolicy.logs.frame import Columns, is_frame
from offpolicy.logs.given import refuse_masked, refuse_other_rows
from offpolicy.policies.blocks import blocks, fit_together
from offpolicy.policies.distribution import check_rows, one_hot
from offpolicy.policies.forms import adapted
from offpolicy.policies.learned import needs_rows
from offpolicy.policies.number_rows import Numbers, distribution_numbers, kernel_numbers, named_numbers
from offpolicy.policies.numbers import Smoothed, adapted_number, has_density
from offpolicy.policies.on_rows import as_shown
from offpolicy.policies.probe import FEW, failing_row, probe, same_alone, some_rows
from offpolicy.policies.protocol import bind
from offpolicy.policies.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import Log, Scan


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
    shares_values : str or None
        Name of another target whose v is this one's as well.
    finer : Target or None
        The same policy with half the smoothing, by which the bias of the smoothing is judged.
    alone : Target or None
        The same policy with another smoothing, for estimators without a reward model.
    window : str
        The smoothing in words.
    mean_distance : float
        How far from the policy's number the smoothed policy acts, on average.
    tried : tuple of Target
        The same policy with other smoothings, to choose among.
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
    shares_values: str | None = None
    finer: Target | None = field(default=None, repr=False)
    alone: Target | None = field(default=None, repr=False)
    window: str = ""
    mean_distance: float = 0.0
    tried: tuple[Target, ...] = field(default=(), repr=False)
    shown: Floats | None = field(default=None, repr=False)
    note: str = ""  # what a reader of its numbers should know
    unseen: bool = False  # whether what acts on a row is known not to have learned from it

    @property
    def all(self) -> tuple[Target, ...]:
        """The target with its other smoothings."""
        others = [t for t in (self.finer, self.alone, *self.tried) if t is not None]
        return (self, *(each for t in others for each in t.all))

    @property
    def values_of(self) -> str:
        """Name under which v is kept."""
        return self.shares_values or self.name

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
                f"policy {self.name!r} is known for the shown items only, so that models cannot be averaged over what "
                "it would show. Use IPW or SNIPW, or give the probabilities of all items."
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
                raise PolicyError(f"{name!r} stands for the log in tables. Choose another name.")
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
            f"policy {name!r} draws the items of a slate without replacement, which needs a log of slates that knows "
            "the items above: op.Slates with distinct items and interaction 'cascade' or 'full'. Elsewhere give the "
            "probability of each item at its position, whatever else is shown."
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
    shared, words, far = policy.values_of, policy.ratio.words, policy.ratio.mean_distance
    return Target(name, 0, False, None, None, shares_values=shared, window=words, mean_distance=far)


def with_variants(name: str, policy: Smoothed, make: Callable[[str, Smoothed], Target]) -> Target:
    """A target with its other bandwidths, each made by ``make``."""
    others: dict[str, Any] = {
        what: with_variants(other, each, make) for what, (other, each) in policy.variants(name).items()
    }
    tried = tuple(make(other, each) for other, each in policy.trials())
    return replace(make(name, policy), tried=tried, **others)


def _from_array(name: str, array: Array, log: Log) -> Target:
    n, k = len(log.action), len(log.actions)
    if array.shape == (n,):
        return _from_labels(name, array, log)
    if array.shape != (n, k):
        check_rows(array, (n, k), f"policy {name!r}")
    array = array.astype(np.float64, copy=False)
    for block in blocks(n, k):
        _checked(array[block], name, log, block)
    return Target(name, k, False, None, array.__getitem__)


def _from_labels(name: str, values: Array, log: Log) -> Target:
    codes = encode_choices(name, values, log.actions)
    _check_eligible_codes(name, codes, log)
    return Target(name, len(log.actions), False, codes, None)


def _from_function(name: str, policy: Any, log: Log) -> Target:
    context: Context = log.context
    labels = log.actions
    timed = _takes_time(policy)
    shares = log.eligible is None and not timed
    n = context.n_table if shares else len(log.action)
    bound = _Asked(name, policy, log, timed=timed, shares=shares)
    if n == 0:
        raise PolicyError(f"policy {name!r}: the log has no rows to ask about.")
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


@dataclass(frozen=True, eq=False)
class _Asked:
    """Calls a user's policy on blocks of rows and checks what comes back."""

    name: str
    policy: Any
    log: Log
    timed: bool
    shares: bool  # whether it is asked by rows of the context's table

    @property
    def _context(self) -> Context:
        """What a policy may look at, where that is less than models see."""
        context: Context = getattr(self.log, "policy_context", self.log.context)
        return context

    def _called(self, at: Array) -> tuple[Any, Any]:
        """The rows that a policy is given, and what it makes of them."""
        context = self._context
        positions = at if self.shares else context.positions(at)
        arguments: list[Any] = [context.native(positions)]
        if self.timed:
            arguments.append(self.log.layout.step[at])
        keywords: dict[str, Any] = {}
        if self.log.eligible is not None and getattr(self.policy, "respects_eligible", False):
            keywords["eligible"] = self.log.eligible[at]
        return arguments[0], self._function(*arguments, **keywords)

    def _answer(self, at: Array) -> Array:
        try:
            given, answer = self._called(at)
        except OffPolicyError:
            raise
        except (Exception, SystemExit) as error:  # the user's own code: say whose, and keep its traceback
            row = failing_row(self._called, np.asarray(at, dtype=np.int64))
            where = f"{len(at):,} rows together" if row is None else f"row {row:,}"
            rows = self._context.native(self._context.positions(np.arange(1)))
            raise PolicyError(
                f"policy {self.name!r} failed on {where} with {type(error).__name__}: {error}. It was given "
                f"{_kind_of(rows)}{' and the steps' if self.timed else ''}."
            ) from error
        refuse_other_rows(answer, given, f"policy {self.name!r}", PolicyError)
        refuse_masked(answer, f"policy {self.name}", PolicyError)
        if is_frame(answer):
            names = Columns(answer)
            order = _column_order(self.name, names.names, self.log.actions)
            answer = np.column_stack([names.numeric(c, "probability") for c in order])
        with doing(f"reading the answer of policy {self.name!r}", PolicyError):
            return np.asarray(detached(answer))

    @property
    def _function(self) -> Any:
        asked = "choices" if hasattr(self.policy, "choices") else "probabilities"
        return getattr(self.policy, asked, self.policy)

    def elsewhere(self, states: Any, t: Ints) -> Floats:
        """(m, K) probabilities in states that need not be in the log, at steps t."""
        k = len(self.log.actions)
        arguments: list[Any] = [states, t] if self.timed else [states]
        with doing(f"policy {self.name!r} on {len(t):,} states", PolicyError):
            answer = np.asarray(self._function(*arguments))
        if hasattr(self.policy, "choices"):
            return one_hot(self._codes(answer, np.arange(len(t))), k)
        if answer.ndim == 1:
            return one_hot(encode_choices(self.name, answer, self.log.actions), k)
        return check_rows(answer, (len(t), k), f"policy {self.name!r}")

    @property
    def is_deterministic(self) -> bool:
        if hasattr(self.policy, "choices"):
            return True
        if hasattr(self.policy, "probabilities"):
            return False
        return self._answer(np.arange(1)).ndim == 1

    def choices(self, at: Array) -> Ints:
        answer = self._answer(at)
        if hasattr(self.policy, "choices"):
            codes = self._codes(answer, at)
        else:
            self._check_rows(answer, at)
            codes = encode_choices(self.name, answer, self.log.actions)
        self._check_rows(codes, at)
        return codes

    def _codes(self, answer: Array, at: Array) -> Ints:
        """Whole numbers 0 … K − 1."""
        self._check_rows(answer, at)
        if answer.dtype.kind not in "iuf":
            raise PolicyError(
                f"policy {self.name!r}: choices() gave {answer.dtype}. Give the positions of the chosen actions "
                "among log.actions, as integers."
            )
        numbers = answer.astype(np.float64)
        fraction = ~np.isfinite(numbers) | (numbers != np.floor(numbers))
        if fraction.any():
            raise PolicyError(
                f"policy {self.name!r}: choices() gave {first_rows(fraction, numbers, at)} that are not whole "
                "numbers. Give the positions of the chosen actions among log.actions."
            )
        bad = (numbers < 0) | (numbers >= len(self.log.actions))
        if bad.any():
            raise PolicyError(f"policy {self.name!r}: choices() gave {first_rows(bad, numbers, at)} out of range.")
        return answer.astype(np.int64)

    def probabilities(self, at: Array) -> Floats:
        """Distributions at some rows; of many rows a few are asked about alone, where they must get the same."""
        if len(at) <= FEW:
            return _checked(self._answer(at), self.name, self.log, at)
        few = some_rows(len(at))
        rows = np.asarray(at)[few]
        # Alone first: a policy may hand out a buffer that its next answer overwrites.
        alone = _checked(self._answer(rows), self.name, self.log, rows).copy()
        matrix = _checked(self._answer(at), self.name, self.log, at)
        same_alone(matrix[few], alone, rows, f"policy {self.name!r}")
        return matrix

    def _check_rows(self, answer: Array, at: Array) -> None:
        if answer.shape != (len(at),):
            raise PolicyError(
                f"policy {self.name!r}: gave {answer.shape} labels for {len(at)} rows. Return one action label per row."
            )


def _kind_of(rows: Any) -> str:
    """What a policy is handed, in words."""
    if is_frame(rows):
        names = [str(name) for name in Columns(rows).names]
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return f"a {type(rows).__name__} with the columns {shown}"
    shape = ", ".join(["n", *map(str, np.shape(rows)[1:])])
    return f"an array of shape ({shape}{',' if np.ndim(rows) == 1 else ''})"


def _checked(matrix: Array, name: str, log: Log, rows: Array) -> Floats:
    """Distributions at rows of a log, over what was eligible there."""
    eligible = None if log.eligible is None else log.eligible[rows]
    shape = (len(rows), len(log.actions))
    return check_rows(matrix, shape, f"policy {name!r}", eligible, rows)


def _column_order(name: str, columns: list[str], actions: tuple[Any, ...]) -> list[str]:
    """Columns of a policy's frame in the order of the log's actions, which they must be named after."""
    wanted = [str(a) for a in actions]
    if sorted(map(str, columns)) != sorted(wanted):
        raise PolicyError(
            f"policy {name!r}: gave a frame with columns {columns[:5]}. Name its columns after log.actions "
            f"{tuple(actions)[:5]}, or return an array in that order."
        )
    named = {str(c): c for c in columns}
    return [named[w] for w in wanted]


def _takes_time(policy: Any) -> bool:
    """Whether π_t(a | s) is meant: declared, or a second argument called t or step."""
    declared = getattr(policy, "time_dependent", None)
    if declared is not None:
        return bool(declared)
    function = getattr(policy, "probabilities", policy)
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[1] in {"t", "step"}


def encode_choices(name: str, labels: Array, actions: tuple[Any, ...]) -> Ints:
    """Codes of a policy's labels among the log's actions."""
    try:
        return encode(labels, actions, f"policy {name}")[1]
    except DataError as error:
        raise PolicyError(_not_an_action(name, labels, actions) or str(error)) from error


def _not_an_action(name: str, labels: Array, actions: tuple[Any, ...]) -> str:
    """The sentence about choices that are no actions of the log; empty where the trouble is another."""
    known = set(actions)
    odd = np.array([plain(v) not in known for v in labels], dtype=bool)
    if is_missing(labels).any() or not odd.any():
        return ""
    first = labels[int(odd.argmax())]
    shown = ", ".join(map(repr, actions[:5])) + (", …" if len(actions) > 5 else "")
    return (
        f"policy {name!r} chooses {plain(first)!r} (in {first_rows(odd)}), which is not an action of the log. The log "
        f"has {shown}.{did_you_mean(plain(first), actions)} An action that was never logged has no data: leave it out, "
        "or name it with actions= when you build the log."
    )


def _check_eligible_codes(name: str, codes: Ints, log: Log) -> None:
    if log.eligible is None:
        return
    bad = ~log.eligible[np.arange(len(codes)), codes]
    if bad.any():
        remedy = "Choose among the eligible ones."
        if getattr(log, "excludes_above", False):
            remedy += (
                " No slate of the log shows an item twice, so that the items above are not; say distinct=False if they "
                "could be."
            )
        raise PolicyError(f"policy {name!r}: chooses an action that was not eligible in {first_rows(bad)}. {remedy}")
