"""Asking a user's policy about rows: in blocks, a few rows twice, and with errors that say whose they are."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import detached, picked
from offpolicy.errors import DataError, OffPolicyError, PolicyError, closest, doing, first_rows
from offpolicy.logs.actions import encode, is_missing, plain
from offpolicy.logs.frame import Columns, is_frame
from offpolicy.logs.given import refuse_masked, refuse_other_rows
from offpolicy.policies.distribution import check_rows, one_hot

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Array, Floats, Ints
    from offpolicy.logs.frame import Context
    from offpolicy.logs.log import Log

FEW = 64  # rows that every evaluation asks about again
AGREEMENT = 1e-9  # matrix products may round differently for other numbers of rows
SINGLE = 1e-5  # the same for networks in single precision
ALONE = "A row's distribution may depend only on that row; look for sums, ranks or scaling over all rows."
SAME = (
    "The same rows must give the same distribution: return probabilities rather than random draws, and keep no "
    "state between calls."
)


def some_rows(n: int, most: int = FEW) -> Ints:
    """A few row numbers, spread over all.

    >>> some_rows(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def probe(
    ask: Callable[[Ints], Array], rows: Ints, who: str, *, reference: Array | None = None, tolerance: float = SINGLE
) -> None:
    """Compare what ``ask`` gives for rows twice, in another order, and in two parts.

    Parameters
    ----------
    ask : callable
        (m, K) probabilities or (m,) codes of some rows.
    reference : array, optional
        What it gave for these rows among all others.

    Raises
    ------
    PolicyError
        Naming the first row that got another answer.
    """
    first = ask(rows).copy()  # a policy may hand out and then overwrite its own buffer
    if reference is not None:
        same_alone(reference, first, rows, who, tolerance)
    _agree(first, ask(rows), rows, who, "in a second call", SAME, tolerance)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = np.empty_like(first)
    shuffled[order] = ask(rows[order])
    _agree(first, shuffled, rows, who, "when rows come in a different order", ALONE, tolerance)
    if len(rows) > 1:
        parts = [ask(part).copy() for part in np.array_split(rows, 2)]
        joined = np.concatenate(parts)
        _agree(first, joined, rows, who, "when rows are passed in two parts", ALONE, tolerance)


def same_alone(among: Array, alone: Array, rows: Ints, who: str, tolerance: float = SINGLE) -> None:
    """Raise where rows get other distributions among many others than they get by themselves."""
    _agree(among, alone, rows, who, "when fewer rows are passed", ALONE, tolerance)


def _agree(one: Array, other: Array, rows: Ints, who: str, when: str, remedy: str, tolerance: float) -> None:
    apart = np.abs(np.subtract(one, other, dtype=np.float64))
    differs = np.asarray((apart if apart.ndim == 1 else apart.max(axis=1)) > tolerance)
    if differs.any():
        where = first_rows(differs, None, rows)
        raise PolicyError(f"{who} gives different probabilities {when}: {where}. {remedy}")


def failing_row(ask: Callable[[Ints], Any], rows: Ints) -> int | None:
    """The first row that a function fails on alone, found by halves; None where no row does."""
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rest = rows[len(rows) // 2 :]
        if _fails(ask, half):
            rows = half
        elif _fails(ask, rest):
            rows = rest
        else:
            return None
    return int(rows[0])


def _fails(ask: Callable[[Ints], Any], rows: Ints) -> bool:
    try:
        ask(rows)
    except (Exception, SystemExit):  # noqa: BLE001 — whatever the user's code raises
        return True
    return False


@dataclass(frozen=True, eq=False)
class Asked:
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

    def answer(self, at: Array) -> Array:
        """What the policy gives for some rows, as an array; errors say whose they are."""
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
        if is_frame(answer) and self.log.actions:
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
        """Whether it names one action per row."""
        if hasattr(self.policy, "choices"):
            return True
        if hasattr(self.policy, "probabilities"):
            return False
        return self.answer(np.arange(1)).ndim == 1

    def choices(self, at: Array) -> Ints:
        """Codes of the chosen actions, checked."""
        answer = self.answer(at)
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
                f"policy {self.name!r}: choices() returned {answer.dtype}. Return the positions of the chosen actions "
                "among log.actions, as integers."
            )
        numbers = answer.astype(np.float64)
        fraction = ~np.isfinite(numbers) | (numbers != np.floor(numbers))
        if fraction.any():
            raise PolicyError(
                f"policy {self.name!r}: choices() returned {first_rows(fraction, numbers, at)} that are not whole "
                "numbers. Return the positions of the chosen actions among log.actions."
            )
        bad = (numbers < 0) | (numbers >= len(self.log.actions))
        if bad.any():
            raise PolicyError(f"policy {self.name!r}: choices() returned {first_rows(bad, numbers, at)} out of range.")
        return answer.astype(np.int64)

    def probabilities(self, at: Array) -> Floats:
        """Distributions at some rows; of many rows a few are asked about alone, where they must get the same."""
        if len(at) <= FEW:
            return checked_rows(self.answer(at), self.name, self.log, at)
        few = some_rows(len(at))
        rows = np.asarray(at)[few]
        # Alone first: a policy may hand out a buffer that its next answer overwrites.
        alone = checked_rows(self.answer(rows), self.name, self.log, rows).copy()
        matrix = checked_rows(self.answer(at), self.name, self.log, at)
        same_alone(matrix[few], alone, rows, f"policy {self.name!r}")
        return matrix

    def _check_rows(self, answer: Array, at: Array) -> None:
        if answer.shape != (len(at),):
            raise PolicyError(
                f"policy {self.name!r} returned {answer.shape} labels for {len(at)} rows. Return one action label per "
                "row."
            )


def _kind_of(rows: Any) -> str:
    """What a policy is handed, in words."""
    if is_frame(rows):
        names = [str(name) for name in Columns(rows).names]
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        return f"a {type(rows).__name__} with the columns {shown}"
    shape = ", ".join(["n", *map(str, np.shape(rows)[1:])])
    return f"an array of shape ({shape}{',' if np.ndim(rows) == 1 else ''})"


def checked_rows(matrix: Array, name: str, log: Log, rows: Array) -> Floats:
    """Distributions at rows of a log, over what was eligible there."""
    eligible = picked(log.eligible, rows)
    shape = (len(rows), len(log.actions))
    return check_rows(matrix, shape, f"policy {name!r}", eligible, rows)


def _column_order(name: str, columns: list[str], actions: tuple[Any, ...]) -> list[str]:
    """Columns of a policy's frame in the order of the log's actions, which they must be named after."""
    wanted = [str(a) for a in actions]
    if sorted(map(str, columns)) != sorted(wanted):
        raise PolicyError(
            f"policy {name!r} returned a frame with columns {columns[:5]}. Name its columns after log.actions "
            f"{tuple(actions)[:5]}, or return an array in that order."
        )
    named = {str(c): c for c in columns}
    return [named[w] for w in wanted]


def takes_time(policy: Any) -> bool:
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
    close = closest(str(plain(first)), [str(a) for a in actions])
    hint = "" if close is None else f" Did you mean {close!r}?"
    return (
        f"policy {name!r} chooses {plain(first)!r} (in {first_rows(odd)}), which is not an action of the log. "
        f"Actions: {shown}.{hint} An action that was never logged has no data: leave it out, "
        "or name it with actions= when you build the log."
    )
