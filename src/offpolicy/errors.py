"""One small tree of exceptions.

A message says what is wrong, where (the column and the first bad rows) and what to do about it:

    column 'p': 3 of 1,000 values are above 1 (first: row 17 = 25.0, …). Propensities are
    probabilities in (0, 1]; divide percentages by 100.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


class OffPolicyError(Exception):
    """Anything this library refuses to do."""


class DataError(OffPolicyError, ValueError):
    """The log is not what it is said to be: a bad value, a missing column, lengths that differ."""


class PolicyError(OffPolicyError, ValueError):
    """The policy does not give a distribution over the log's actions."""


class ModelError(OffPolicyError, ValueError):
    """A nuisance model cannot be fitted or gave something unusable."""


class UsageError(OffPolicyError, ValueError):
    """An argument has a value that this function does not take."""


class ArgumentError(UsageError, TypeError):
    """A call is given an argument that it does not have, or not given one that it needs."""


class UnknownNameError(UsageError, KeyError):
    """A result is asked for something by a name that it does not have."""

    __str__ = Exception.__str__  # KeyError would put the sentence in quotes


class NotIdentifiedError(OffPolicyError, ValueError):
    """The data cannot answer the question, whatever the estimator."""


class MissingDependencyError(OffPolicyError, ImportError):
    """An optional package is needed for this and is not installed."""


@contextmanager
def doing(what: str, kind: type[OffPolicyError]) -> Iterator[None]:
    """Say what was being done when somebody else's code raised; its own exception stays as the cause.

    >>> with doing("the score of 'mine'", UsageError):
    ...     1 / 0
    Traceback (most recent call last):
    offpolicy.errors.UsageError: the score of 'mine' failed with ZeroDivisionError: division by zero
    """
    try:
        yield
    except OffPolicyError:
        raise
    except Exception as error:
        raise kind(f"{what} failed with {type(error).__name__}: {error}") from error


def an(word: str) -> str:
    """A word with its article.

    >>> an("episode"), an("slate")
    ('an episode', 'a slate')
    """
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def check_choice(name: str, value: object, *choices: str) -> None:
    """Refuse an argument that is none of a few words.

    >>> check_choice("time", "day", "step", "pooled")
    Traceback (most recent call last):
    offpolicy.errors.UsageError: time= must be 'step' or 'pooled'. Got 'day' instead.
    """
    if not isinstance(value, str) or value not in choices:
        words = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise UsageError(f"{name}= must be {words}. Got {value!r} instead.")


def check_count(name: str, value: Any) -> None:
    """Refuse an argument that is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{name} must be an int of at least 1. Got {value!r} instead.")


def closest(word: str, names: Sequence[str]) -> str | None:
    """The name fewest slips of the finger away from ``word``; None where none is near.

    A slip is a letter too many, too few, another one, or two swapped (optimal string alignment). Among names equally
    far away the one of the same length is meant, then the first.

    >>> closest("DLM", ["DM", "DML", "SNDR"]), closest("clik", ["click", "ad"]), closest("age", ["device"])
    ('DML', 'click', None)
    """
    folded = word.casefold()
    ranked = sorted(
        (_slips(folded, name.casefold()), word != name, abs(len(word) - len(name)), place)
        for place, name in enumerate(names)
    )
    if not ranked:
        return None
    slips, *_, place = ranked[0]
    length = max(len(word), len(names[place]))
    return names[place] if slips <= max(1, 0.4 * length) and slips < length - 1 else None


def _slips(a: str, b: str) -> int:
    """Optimal string alignment distance of two words."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, above = above, row
    return above[-1]


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return a hint such as ``" Did you mean 'click'?"``, or the known names when none is close.

    >>> did_you_mean("clik", ["click", "ad"])
    " Did you mean 'click'?"
    """
    names = list(dict.fromkeys(str(k) for k in known))
    close = closest(str(name), names)
    if close is not None:
        return f" Did you mean {close!r}?"
    if not names:
        return ""
    shown = ", ".join(repr(n) for n in names[:8])
    return f" Known: {shown}{', …' if len(names) > 8 else ''}."


_ROW_NUMBERS: ContextVar[Any] = ContextVar("row numbers", default=None)


@contextmanager
def numbered(order: Any) -> Iterator[None]:
    """Inside, rows that were put in another order are called by the numbers that their owner knows them by.

    ``order`` holds the number of each row; None: rows are in their own order.

    >>> import numpy as np
    >>> with numbered(np.array([2, 0, 1])):
    ...     first_rows(np.array([False, True, True]))
    '2 of 3 values (first: row 0, row 1)'
    """
    token = _ROW_NUMBERS.set(order)
    try:
        yield
    finally:
        _ROW_NUMBERS.reset(token)


def row_numbers(n: int) -> Any:
    """The numbers of n rows as their owner counts them; None: 0, 1, 2, …."""
    order = _ROW_NUMBERS.get()
    return order if order is not None and len(order) == n else None


def first_rows(bad: NDArray[np.bool_], values: Any = None, numbers: Any = None, *, limit: int = 3) -> str:
    """Describe the first rows at which ``bad`` is true, with their values when given.

    ``numbers`` are those of the rows where they are not 0, 1, 2, …; default: as `numbered` says.

    >>> import numpy as np
    >>> first_rows(np.array([False, True, True]), np.array([0.1, 2.0, 3.0]))
    '2 of 3 values (first: row 1 = 2.0, row 2 = 3.0)'
    """
    rows = bad.nonzero()[0].tolist()
    shown = []
    numbers = row_numbers(len(bad)) if numbers is None else numbers
    if numbers is not None:
        rows.sort(key=lambda row: numbers[row])
    for row in rows[:limit]:
        name = f"row {row if numbers is None else numbers[row]}"
        if values is not None:
            value = values[row]
            name += f" = {value.item() if hasattr(value, 'item') else value!r}"
        shown.append(name)
    more = ", …" if len(rows) > limit else ""
    return f"{len(rows):,} of {len(bad):,} values (first: {', '.join(shown)}{more})"


def missing_dependency(package: str, extra: str | None, purpose: str) -> MissingDependencyError:
    """Say how to get ``package``, which ``purpose`` needs: by an extra, or by itself.

    >>> print(missing_dependency("polars", None, "A polars frame"))
    A polars frame needs the package 'polars', which is not installed. Install it with: pip install polars
    """
    what = package if extra is None else f"'offpolicy[{extra}]'"
    return MissingDependencyError(
        f"{purpose} needs the package {package!r}, which is not installed. Install it with: pip install {what}"
    )
