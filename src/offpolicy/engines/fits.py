"""Nuisances of a log that streams.

LightGBM is fitted on all training rows: chunks are encoded, spilled, and binned one after another into a
dataset of one byte a value, of which each fold is a subset. Behavior shares are counted by the engine. Other
learners are fitted on at most ``fit_rows`` rows, drawn by a hash, and the result says so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.chunks import Schema, chunks
from offpolicy.engines.roles import fold_column, in_order, normalized
from offpolicy.models.behavior.behavior import BehaviorData, Shares, as_behavior_model
from offpolicy.models.fitting.crossfit import BEHAVIOR, REWARD, seed_of
from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.rewards.boosted import (
    BoostedReward,
    fit_dataset,
    joined,
    lightgbm,
    objective_of,
)
from offpolicy.models.rewards.reward import ConstantReward, RewardData, as_reward_model
from offpolicy.splits.folds import hash_arithmetic, hash_constants

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.engines.scan import LogScan
    from offpolicy.scores.catalog import Estimator

RESOLUTION = 2**20


@dataclass(eq=False)
class Fits:
    """Models by the keys `CrossFit` looks them up under, and what to say about them."""

    models: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def part_keys(chosen: Sequence[Estimator], need: Any, k: int) -> list[tuple[Any, ...]]:
    """Keys of the parts that the estimators' splits train on."""
    keys: list[tuple[Any, ...]] = []
    for estimator in chosen:
        if need not in estimator.needs:
            continue
        if estimator.split == "full":
            keys.append(("full",))
        elif estimator.split == "half":
            keys.append(("fold", 0, 0) if k == 2 else ("half", 0))
        else:
            keys += [("fold", 0, j) for j in range(k)]
    return list(dict.fromkeys(keys))


def trains(key: tuple[Any, ...], fold: Ints, k: int) -> Bools:
    """Which rows, given their folds, train the part called ``key``."""
    if key[0] == "full":
        return np.ones(len(fold), dtype=bool)
    if key[0] == "half":
        return fold >= (k + 1) // 2
    return np.asarray(fold != key[2])


def fit_nuisances(
    log: LogScan,
    schema: Schema,
    chosen: Sequence[Estimator],
    reward_model: Any,
    behavior_model: Any,
) -> Fits:
    """Fit every nuisance that the estimators need, on every part of the sample they train on."""
    fits = Fits()
    k, seed = schema.plan.k, schema.plan.seed
    rewards = part_keys(chosen, "value", k)
    behaviors: list[tuple[Any, ...]] = []
    if behavior_model is not None or log.roles.propensity is None:
        behaviors = part_keys(chosen, "behavior", k)
    log.report("fit", 0.0)
    model = as_reward_model(reward_model)
    if rewards and isinstance(model, BoostedReward):
        _fit_boosted(log, schema, model, rewards, fits)
        rewards = []
    if rewards and hasattr(model, "fit_on_spark") and log.engine.name == "spark":
        _fit_on_spark(log, schema, model, rewards, fits)
        rewards = []
    spec = as_behavior_model("auto" if behavior_model is None else behavior_model)
    if behaviors and isinstance(spec, Shares):
        _fit_shares(log, schema, spec, behaviors, fits)
        behaviors = []
    if rewards or behaviors:
        sample = _sample(log, schema, fits)
        for key in rewards:
            use = np.flatnonzero(trains(key, sample.fold, k))
            fits.models[REWARD, "", *key] = model.fit_reward(
                sample.reward_data(model, use), seed_of(seed, REWARD, key)
            )
        for key in behaviors:
            use = np.flatnonzero(trains(key, sample.fold, k))
            fits.models[BEHAVIOR, *key] = spec.fit_behavior(
                sample.behavior_data(spec, use), seed_of(seed, BEHAVIOR, key)
            )
    log.report("fit", 1.0)
    return fits


@dataclass(frozen=True, eq=False)
class _Sample:
    """Training rows held in memory."""

    log: Any
    fold: Ints
    schema: Schema

    def _table(self, model: Any, use: Ints) -> Any:
        table = self.log.context.learner_table
        if not getattr(model, "wants_encoded", False):
            return table.iloc[use] if hasattr(table, "iloc") else table[use]
        frame = self.schema.coded(table) if hasattr(table, "iloc") else table
        return encode_table(frame).rows(use)

    def reward_data(self, model: Any, use: Ints) -> RewardData:
        log = self.log
        weight = None if log.weight is None else log.weight[use]
        return RewardData(
            self._table(model, use),
            log.action[use],
            log.reward[use],
            weight,
            log.actions,
            log.names.action,
        )

    def behavior_data(self, model: Any, use: Ints) -> BehaviorData:
        log = self.log
        weight = None if log.weight is None else log.weight[use]
        batch = None if log.batch is None else log.batch[use]
        return BehaviorData(
            self._table(model, use), log.action[use], weight, len(log.actions), batch
        )


def _sample(log: LogScan, schema: Schema, fits: Fits) -> _Sample:
    """All rows, or a share of them drawn by a hash of their ids."""
    import pyarrow as pa

    share = log.limits.fit_rows / log.n
    limit = int(np.ceil(share * RESOLUTION))
    constants = hash_constants(schema.plan.seed, 0xFA17)
    queried = normalized(log.table, log.roles, log.facts.labels, schema.extra)
    if "id" in queried.columns:
        # Draw where the rows are, and put them in an order that does not depend on who sent them.
        if share < 1:
            queried = queried.filter(hash_arithmetic(queried.id, RESOLUTION, constants) < limit)
        rows = log.engine.table(in_order(queried))
    else:
        kept = []
        for table, first in chunks(log, schema):
            ids = np.arange(first, first + table.num_rows)
            numbered = table.append_column("id", pa.array(ids))
            drawn = hash_arithmetic(ids, RESOLUTION, constants) < limit
            kept.append(numbered if share >= 1 else numbered.filter(pa.array(drawn)))
        rows = pa.concat_tables(kept)
    _note_share(rows.num_rows, log.n, fits)
    chunk, folds = schema.chunk(rows, 0)
    return _Sample(chunk, folds.labels[0], schema)


def _note_share(used: int, n: int, fits: Fits) -> None:
    if used < n:
        fits.notes.append(
            f"models were fitted on {used:,} of {n:,} rows (fit_rows=), drawn by a hash"
        )


def _fit_shares(
    log: LogScan, schema: Schema, model: Shares, keys: list[tuple[Any, ...]], fits: Fits
) -> None:
    """Shares from counts by (batch, action, fold), made where the rows are."""
    rows = normalized(log.table, log.roles, log.facts.labels, schema.extra)
    plan = schema.plan
    if "id" not in rows.columns:
        # Row numbers exist only in the stream: count there.
        return _fit_shares_here(log, schema, model, keys, fits)
    rows = rows.mutate(fold0=fold_column(rows, plan.k, plan.seed, 0))
    by = [c for c in ("batch", "action", "fold0") if c in rows.columns]
    mass = rows.weight.sum() if log.roles.weight or log.roles.keep_probability else rows.count()
    found = log.engine.table(rows.group_by(by).aggregate(mass=mass)).sort_by(
        [(name, "ascending") for name in by]
    )
    action = np.array([schema.labels.index(a) for a in found["action"].to_pylist()])
    batch = None
    if schema.batches is not None:
        batch = np.array([schema.batches.index(b) for b in found["batch"].to_pylist()])
    fold = np.asarray(found["fold0"].to_numpy(), dtype=np.int64)
    mass = np.asarray(found["mass"].to_numpy(), dtype=np.float64)
    _shares_of(model, action, batch, fold, mass, schema, keys, fits)
    return None


def _fit_shares_here(
    log: LogScan, schema: Schema, model: Shares, keys: list[tuple[Any, ...]], fits: Fits
) -> None:
    k, n_actions = schema.plan.k, len(schema.labels)
    n_batches = 1 if schema.batches is None else len(schema.batches)
    counts = np.zeros(n_batches * n_actions * k)
    for table, first in chunks(log, schema):
        chunk, folds = schema.chunk(table, first)
        batch = np.zeros(chunk.rows, dtype=np.int64) if chunk.batch is None else chunk.batch
        cell = (batch * n_actions + chunk.action) * k + folds.labels[0]
        counts += np.bincount(cell, weights=chunk.weight, minlength=len(counts))
    cell = np.flatnonzero(counts)
    fold, rest = cell % k, cell // k
    group = None if schema.batches is None else rest // n_actions
    _shares_of(model, rest % n_actions, group, fold, counts[cell], schema, keys, fits)


def _shares_of(
    model: Shares,
    action: Ints,
    batch: Ints | None,
    fold: Ints,
    mass: Floats,
    schema: Schema,
    keys: list[tuple[Any, ...]],
    fits: Fits,
) -> None:
    for key in keys:
        use = np.flatnonzero(trains(key, fold, schema.plan.k))
        data = BehaviorData(
            np.empty((len(use), 0)),
            action[use],
            mass[use],
            len(schema.labels),
            None if batch is None else batch[use],
        )
        seed = seed_of(schema.plan.seed, BEHAVIOR, key)
        fits.models[BEHAVIOR, *key] = model.fit_behavior(data, seed)


def _fit_boosted(
    log: LogScan, schema: Schema, model: BoostedReward, keys: list[tuple[Any, ...]], fits: Fits
) -> None:
    spilled, rewards, weights, folds = [], [], [], []
    categories: list[int] = []
    done = 0
    for table, first in chunks(log, schema):
        chunk, chunk_folds = schema.chunk(table, first)
        features = chunk.context.learner_table
        features = schema.coded(features) if hasattr(features, "iloc") else features
        matrix, categories = joined(encode_table(features), chunk.action)
        path = log.engine.workspace.path(".bin")
        np.ascontiguousarray(matrix).tofile(path)
        spilled.append(path)
        rewards.append(chunk.reward)
        weights.append(chunk.weight)
        folds.append(chunk_folds.labels[0].astype(np.int8))
        done += len(matrix)
        log.report("fit", 0.3 * done / log.n)
    reward, fold = np.concatenate(rewards), np.concatenate(folds)
    weight: Floats | None = None
    if all(w is not None for w in weights):
        weight = np.concatenate([w for w in weights if w is not None])
    try:
        width = len(log.roles.context) + 1
        dataset = _dataset(spilled, width, reward, weight, categories, model)
        for i, key in enumerate(keys):
            use = np.flatnonzero(trains(key, fold, schema.plan.k))
            seed = seed_of(schema.plan.seed, REWARD, key)
            fits.models[REWARD, "", *key] = (
                ConstantReward(float(reward[use[0]]))
                if np.ptp(reward[use]) == 0
                else fit_dataset(model, dataset, use, objective_of(reward[use]), seed)
            )
            log.report("fit", 0.4 + 0.6 * (i + 1) / len(keys))
    finally:
        for path in spilled:
            path.unlink(missing_ok=True)


def _fit_on_spark(
    log: LogScan, schema: Schema, model: Any, keys: list[tuple[Any, ...]], fits: Fits
) -> None:
    """Fit by the executors; the rows stay where they are."""
    rows = normalized(log.table, log.roles, log.facts.labels, schema.extra)
    width = len(log.roles.context) + 1
    encoded = model.encoded(log.engine.frame(rows), schema, width).cache()  # type: ignore[attr-defined]
    try:
        low, high = encoded.selectExpr("min(label)", "max(label)").first()
        whole = encoded.where("label NOT IN (0, 1)").limit(1).count() == 0
        for key in keys:
            condition = {
                "full": "true",
                "half": f"fold >= {(schema.plan.k + 1) // 2}",
                "fold": f"fold != {key[-1]}",
            }[key[0]]
            seed = seed_of(schema.plan.seed, REWARD, key)
            fits.models[REWARD, "", *key] = (
                ConstantReward(float(low))
                if low == high
                else model.fit_on_spark(
                    encoded, condition, width, "binary" if whole else "regression", seed
                )
            )
    finally:
        encoded.unpersist()


def _dataset(
    spilled: list[Path],
    width: int,
    reward: Floats,
    weight: Floats | None,
    categories: list[int],
    model: BoostedReward,
) -> Any:
    """LightGBM's binned dataset, built from one spilled chunk after another."""
    lgb = lightgbm()

    class Spilled(lgb.Sequence):  # type: ignore[name-defined]
        batch_size = 65_536

        def __init__(self, path: Path) -> None:
            self.file = os.open(path, os.O_RDONLY)
            self.n = path.stat().st_size // (8 * width)

        def __getitem__(self, at: Any) -> Any:
            # Plain reads: pages of a memory map would stay counted as this process's memory.
            first, count = (at.start, at.stop - at.start) if isinstance(at, slice) else (at, 1)
            size = 8 * width
            data = os.pread(self.file, int(count) * size, int(first) * size)
            rows = np.frombuffer(data).reshape(-1, width)
            return rows if isinstance(at, slice) else rows[0]

        def __len__(self) -> int:
            return self.n

        def __del__(self) -> None:
            os.close(self.file)

    dataset = lgb.Dataset(
        [Spilled(path) for path in spilled],
        label=reward,
        weight=weight,
        categorical_feature=categories,
        params=model.parameters(objective_of(reward), 0, {}),
        # Rows are not asked for again: a subset takes their bins.
        free_raw_data=True,
    )
    return dataset.construct()
