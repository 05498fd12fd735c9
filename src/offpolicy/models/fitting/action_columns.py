"""Features of actions as columns of what a reward model reads, so that actions seldom taken borrow from their like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.models.fitting.encode import Encoded, encode_table
from offpolicy.models.fitting.plain import PlainTable

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.action_features import ActionFeatures


@dataclass(frozen=True, eq=False)
class ActionColumns:
    """The features of the K actions in the forms of learner tables."""

    features: ActionFeatures

    @cached_property
    def encoded(self) -> Encoded:
        """Numbers, and codes of texts."""
        return encode_table(self.features.table)

    @cached_property
    def numbers(self) -> Floats:
        """(K, d) numbers; texts as 0/1 columns."""
        plain = PlainTable.learn(self.features.table, None, keeps_categories=False)
        return np.asarray(plain.transform(self.features.table), dtype=np.float64)

    def beside(self, X: Any, codes: Ints) -> Any:
        """Rows of a context table with the features of one action each as further columns."""
        if isinstance(X, Encoded):
            own = self.encoded
            width = X.matrix.shape[1]
            return Encoded(
                np.column_stack([X.matrix, own.matrix[codes]]),
                (*X.categorical, *(width + j for j in own.categorical)),
                own.matrix.shape[1],
            )
        if not hasattr(X, "iloc"):
            return np.column_stack([np.asarray(X, dtype=np.float64), self.numbers[codes]])
        import pandas as pd

        own = self.features.table.iloc[codes].set_axis(X.index)
        return pd.concat([X, own], axis=1)
