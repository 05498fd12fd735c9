"""Ask a policy about the same rows again: a distribution may depend on its own row and on nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import PolicyError, first_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Array, Ints

FEW = 64  # rows that every evaluation asks about again
AGREEMENT = 1e-9  # matrix products may round differently for other numbers of rows
SINGLE = 1e-5  # the same for networks in single precision
ALONE = "A row's distribution may depend only on that row; look for sums, ranks or scaling over all rows."
SAME = (
    "The same rows must give the same distribution: return probabilities rather than draws, and keep nothing "
    "between calls."
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
    _agree(first, shuffled, rows, who, "when rows come in another order", ALONE, tolerance)
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
        raise PolicyError(f"{who} gives other probabilities {when}: {where}. {remedy}")


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
