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
from offpolicy.models.fitting.tables import ActionColumns
from offpolicy.models.rewards.boosted import joined, objective_of
from offpolicy.models.rewards.reward import ConstantReward, FittedReward, RewardData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.engines.rows import Schema
    from offpolicy.splits.folds import Plan

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

    def fit_on_spark(
        self, frame: Any, schema: Schema, plan: Plan, seeds: dict[tuple[Any, ...], int]
    ) -> dict[tuple[Any, ...], FittedReward]:
        """One fit for each part of the sample that ``seeds`` names, made by the executors that hold the rows."""
        own = 0 if schema.features is None else len(schema.features.names)
        width = len(schema.roles.context) + own + 1
        features = ", ".join(f"f{j} double" for j in range(width))
        folds = ", ".join(f"fold{r} int, half{r} int" for r in range(plan.repeats))
        columns = f"{features}, label double, weight double, {folds}"
        encoded = frame.mapInArrow(_Encode(schema, plan), columns).cache()
        try:
            low, high = encoded.selectExpr("min(label)", "max(label)").first()
            if low == high:
                return dict.fromkeys(seeds, ConstantReward(float(low)))
            binary = encoded.where("label NOT IN (0, 1)").limit(1).count() == 0
            objective = "binary" if binary else "regression"
            return {
                key: self._fit(encoded.where(_training(key)), width, objective, seed) for key, seed in seeds.items()
            }
        finally:
            encoded.unpersist()

    def _fit(self, rows: Any, width: int, objective: str, seed: int) -> FittedReward:
        """Fit on encoded rows."""
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
        return _Trees(learner.fit(rows).get_booster().save_raw("ubj"))


def _training(key: tuple[Any, ...]) -> str:
    """Which rows train the part of the sample called ``key``."""
    if key[0] == "full":
        return "true"
    return f"half{key[1]} = 0" if key[0] == "half" else f"fold{key[1]} != {key[2]}"


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
    plan: Plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows == 0:
                continue
            log = self.schema.log(pa.Table.from_batches([batch]))
            folds = self.plan.block(log.units, labels=log.fold)
            table = encode_table(log.context.coded_table)
            if log.action_features is not None:
                table = ActionColumns(log.action_features).beside(table, log.action)
            matrix, _ = joined(table, log.action)
            columns = {f"f{j}": column for j, column in enumerate(matrix.T)}
            columns |= {"label": log.reward, "weight": log.weight}
            for r in range(folds.repeats):
                columns[f"fold{r}"] = folds.labels[r].astype(np.int32)
                columns[f"half{r}"] = folds.half[r].astype(np.int32)
            arrays = [pa.array(np.ascontiguousarray(c)) for c in columns.values()]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise missing_dependency("xgboost", "spark", "SparkBoosted") from error
    return xgboost
