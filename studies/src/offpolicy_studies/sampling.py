"""Actions drawn from a table of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints


def sample(probabilities: Floats, rng: np.random.Generator) -> Ints:
    """One action for each row.

    >>> sample(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0)).tolist()
    [1, 0]
    """
    u = rng.random((len(probabilities), 1))
    chosen = (probabilities.cumsum(axis=1) < u).sum(axis=1)
    return np.asarray(np.minimum(chosen, probabilities.shape[1] - 1))
