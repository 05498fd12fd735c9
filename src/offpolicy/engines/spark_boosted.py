"""Boosted trees fitted by the executors: XGBoost on Spark, for continuous contexts beyond one machine.

XGBoost's Spark module trains inside the executors that hold the rows (a barrier stage), so that nothing but
the trees comes to the driver. LightGBM's distributed module runs on Dask, which would be a second cluster
and a copy of the log beside the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import missing_dependency
from offpolicy.models.fitting.encode import Encoded, encode_table
from offpolicy.models.rewards.boosted import joined, objective_of
from offpolicy.models.rewards.reward import ConstantReward, FittedReward, RewardData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.engines.chunks import Schema

OBJECTIVES = {"binary": "binary:logistic", "regression": "reg:squarederror"}


@dataclass(frozen=True)
class SparkBoosted:
    """A reward model of boosted trees that Spark's executors fit together.

    On a log in memory it is fitted here, with the same settings.

    Parameters
    ----------
    rounds, depth : int
        Number of trees and their depth.
    learning_rate : float
    workers : int
        Tasks that train together; at most as many as the cluster runs at once.
    """

    rounds: int = 100
    depth: int = 6
    learning_rate: float = 0.1
    workers: int = 2

    wants_encoded = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Fit on rows in memory."""
        xgboost = _xgboost()
        if np.ptp(data.reward) == 0:
            return ConstantReward(float(data.reward[0]))
        matrix = xgboost.DMatrix(joined(data.X, data.action)[0], data.reward, weight=data.weight)
        parameters = {
            "objective": OBJECTIVES[objective_of(data.reward)],
            "max_depth": self.depth,
            "eta": self.learning_rate,
            "tree_method": "hist",
            "seed": seed % 2**31,
        }
        return _Trees(xgboost.train(parameters, matrix, self.rounds).save_raw("ubj"))

    def encoded(self, frame: Any, schema: Schema, width: int) -> Any:
        """Spark DataFrame of features f0, f1, …, label, weight and fold, encoded by the executors."""
        features = ", ".join(f"f{j} double" for j in range(width))
        columns = f"{features}, label double, weight double, fold int"
        return frame.mapInArrow(_Encode(schema), columns)

    def fit_on_spark(
        self, encoded: Any, condition: str, width: int, objective: str, seed: int
    ) -> FittedReward:
        """Fit on the encoded rows that fulfil a condition on their fold."""
        _xgboost()
        from xgboost.spark import SparkXGBClassifier, SparkXGBRegressor

        kind = SparkXGBClassifier if objective == "binary" else SparkXGBRegressor
        learner = kind(
            features_col=[f"f{j}" for j in range(width)],
            label_col="label",
            weight_col="weight",
            num_workers=self.workers,
            n_estimators=self.rounds,
            max_depth=self.depth,
            learning_rate=self.learning_rate,
            tree_method="hist",
            random_state=seed % 2**31,
        )
        return _Trees(learner.fit(encoded.where(condition)).get_booster().save_raw("ubj"))


@dataclass(frozen=True, eq=False)
class _Trees:
    """Fitted trees as bytes, which any process can load."""

    raw: bytearray

    def predict(self, X: Encoded, codes: Ints) -> Floats:
        xgboost = _xgboost()
        booster = xgboost.Booster(model_file=self.raw)
        matrix = xgboost.DMatrix(joined(X, codes)[0])
        return np.asarray(booster.predict(matrix, validate_features=False), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Encode:
    """Rows of a partition as the numbers that trees read."""

    schema: Schema

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows == 0:
                continue
            log, folds = self.schema.chunk(pa.Table.from_batches([batch]), 0)
            table = log.context.learner_table
            table = self.schema.coded(table) if hasattr(table, "iloc") else table
            matrix, _ = joined(encode_table(table), log.action)
            weight = np.ones(log.rows) if log.weight is None else log.weight
            columns = [*matrix.T, log.reward, weight, folds.labels[0].astype(np.int32)]
            names = [f"f{j}" for j in range(matrix.shape[1])]
            arrays = [pa.array(np.ascontiguousarray(c)) for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, "label", "weight", "fold"])


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise missing_dependency("xgboost", "spark", "SparkBoosted") from error
    return xgboost
