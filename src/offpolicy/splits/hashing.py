"""The fold of a unit: arithmetic on its number and the seed, the same on every path.

The fold of unit m among K is ((m mod K) + h(m − m mod K)) mod K: K units in a row are spread over the K folds,
in an order that the hash h of their block decides. Folds of consecutive numbers therefore differ in size by at most
one. Only + − * % are used and nothing leaves 53 bits (SQLite takes remainders in floating point), so numpy arrays,
Python ints and Ibis columns of every engine give the same fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.logs.given import unit_numbers

if TYPE_CHECKING:
    from offpolicy._arrays import Ints

DEFAULT_SEED = 0  # of those who give none
# The three largest primes below 2^26: products of two residues stay below 2^52.
P, Q, R = 67108859, 67108837, 67108819
HALF = 0x4A1F  # the stream of the half-sample split where the number of folds is odd


def hash_constants(seed: int, repeat: int = 0, stream: int = 0) -> tuple[int, int, int, int]:
    """Multipliers and shifts of the hash for one seed and repetition; streams are independent."""
    words = np.random.SeedSequence([seed, repeat, 0xF01D, stream]).generate_state(4, np.uint64)
    a, b, s, t = (int(w) % (Q - 2) + 1 for w in words)
    return a, b, s, t


def scrambled(numbers: Any, constants: tuple[int, int, int, int]) -> Any:
    """Numbers as pseudo-random ones in 0 … r − 1.

    u·v mod r, with u = (a·m + s) mod p and v = (b·m + t) mod q.
    """
    a, b, s, t = constants
    u = (_remainder(numbers, P) * a + s) % P
    v = (_remainder(numbers, Q) * b + t) % Q
    return u * v % R


def _remainder(numbers: Any, modulus: int) -> Any:
    """The remainder from 0 on; engines disagree on its sign for negative numbers."""
    return (numbers % modulus + modulus) % modulus


def fold_of(numbers: Any, k: int, constants: tuple[int, int, int, int]) -> Any:
    """Fold of units, as the same arithmetic on numpy arrays, Python ints and Ibis columns."""
    place = _remainder(numbers, k)
    return (place + scrambled(numbers - place, constants)) % k


def drawn(numbers: Any, share: float, seed: int) -> Any:
    """Which units belong to a sample of about ``share`` of all, drawn by a hash of their own."""
    resolution = 2**20
    limit = int(share * resolution)
    return scrambled(numbers, hash_constants(seed, 0, 0xFA17)) % resolution < limit


def hash_folds(ids: Any, k: int = 2, seed: int = 0, *, repeat: int = 0) -> Ints:
    """Folds of units by their ids: those that `evaluate` draws for k folds.

    Parameters
    ----------
    ids : (n,) int or text array
        Equal ids get equal folds. Text enters by the first 32 bits of its MD5 digest.
    k : int
        Number of folds.
    seed, repeat : int
        Other folds for other values.

    Returns
    -------
    (n,) int array of labels 0 … k − 1

    Examples
    --------
    >>> hash_folds([0, 1, 2, 3, 4, 5], 2, seed=0).tolist()
    [1, 0, 1, 0, 1, 0]
    """
    return np.asarray(fold_of(unit_numbers(ids), k, hash_constants(seed, repeat)), dtype=np.int64)
