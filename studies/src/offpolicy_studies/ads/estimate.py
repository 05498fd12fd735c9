"""All estimates of one campaign and batch, from its compressed multi-armed log.

Numbers come from `offpolicy.evaluate` alone: the cell becomes a `BanditLog` whose rows carry
counts and fold labels, the contextual bandit a policy, and LightGBM the reward model. Estimates
with the true and with the estimated behavior policy share the fitted reward models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.ads.config import generator
from offpolicy_studies.ads.reward import TunedBoosting

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from offpolicy_studies.ads.simulate import AdCell
    from offpolicy_studies.ads.world import World

ESTIMATORS = ("IPW", "DR-full", "DR-half", "DML", "SNIPW", "SNDR", "DM")
BEHAVIOR = {"estimated": "shares", "true": None}
_FOLDS = 40  # second element of the seed key; see simulate.py


@dataclass(frozen=True, eq=False)
class ChoiceTable:
    """A policy given as a table: one row of probabilities for each distinct context.

    Attributes
    ----------
    contexts : (p, columns) int array
        The contexts the table knows.
    sizes : tuple of int
        Levels of each column.
    table : (p, K) array
        Probabilities, or counts to be divided by ``total``.
    total : float
        Sum of a row of the table.
    """

    contexts: NDArray[np.int16]
    sizes: tuple[int, ...]
    table: NDArray[Any]
    total: float = 1.0

    def probabilities(self, context: Any) -> NDArray[np.float64]:
        """Return the rows of these contexts, given as an array or a table."""
        keys = np.ravel_multi_index(tuple(self.contexts.T), self.sizes)
        order = np.argsort(keys)
        if hasattr(context, "to_pandas"):  # a log read by a query engine has Arrow contexts
            context = context.to_pandas()
        asked = np.ravel_multi_index(tuple(np.asarray(context).T), self.sizes)
        rows = order[np.searchsorted(keys, asked, sorter=order)]
        return np.asarray(self.table[rows] / self.total)


def counted_log(world: World, cell: AdCell, folds: int) -> op.BanditLog:
    """Return the cell's log: one row for each (context, design, click, fold) with its count.

    Impressions are independent, so splitting a count at random among the folds is the same as
    giving each impression a random fold.
    """
    rng = generator(world.seed, _FOLDS, folds, cell.campaign, cell.batch)
    where = np.searchsorted(cell.present, cell.context)
    pair, fold, reward, count = [], [], [], []
    for click, number in ((0.0, cell.shown - cell.clicks), (1.0, cell.clicks)):
        split = rng.multinomial(number, np.full(folds, 1 / folds))
        rows, labels = np.nonzero(split)
        pair.append(rows)
        fold.append(labels)
        reward.append(np.full(len(rows), click))
        count.append(split[rows, labels])
    at = np.concatenate(pair)
    design = cell.design[at].astype(np.int64)
    log = op.BanditLog.from_arrays(
        None,
        design,
        np.concatenate(reward),
        cell.propensity[design],
        actions=range(len(cell.propensity)),
        count=np.concatenate(count),
        fold=np.concatenate(fold),
    )
    return replace(log, context=op.models.Context(world.contexts[cell.present], where[at]))


def scanned_log(world: World, path: Path, folds: int) -> op.BanditLog:
    """Return the log that the large-log engine makes of a file with one row per impression.

    Rows are grouped by DuckDB and never held in memory; folds are drawn by the engine.
    """
    campaign = int(path.stem.split("-")[0].removeprefix("campaign="))
    with op.scan(
        str(path),
        context=[name for name, _ in world.config.columns],
        action="design",
        reward="click",
        propensity="propensity",
        actions=range(world.campaigns[campaign].n_designs),
        threads=1,
    ) as scan:
        return scan.compress(folds, seed=world.seed)


def _intervals(estimate: op.Estimate) -> dict[str, list[float]]:
    """Return 95% intervals: the paper's normal one, and the library's default.

    A click on a rarely shown design carries a large weight, so scores are skewed and normal
    intervals too short; the default sees that.
    """
    return {"normal": list(estimate.interval(0.95, "normal")), "automatic": list(estimate.interval(0.95))}


def estimate_cell(world: World, cell: AdCell, log: op.BanditLog) -> dict[str, Any]:
    """Return every estimate of a cell, the online click rate and the truth, as plain values.

    Parameters
    ----------
    world : World
        The platform.
    cell : AdCell
        The campaign and batch.
    log : BanditLog
        Its multi-armed log, from `counted_log` or `scanned_log`.
    """
    sizes = tuple(levels for _, levels in world.config.columns)
    policy = ChoiceTable(world.contexts[cell.present], sizes, cell.choice, cell.draws)
    model = TunedBoosting()
    record: dict[str, Any] = {
        "campaign": cell.campaign,
        "batch": cell.batch,
        "n": log.n,
        "rows": log.rows,
        "online_impressions": cell.online_impressions,
        "online_clicks": cell.online_clicks,
        "true_value": cell.true_value,
        "true_logged": cell.true_logged,
        "estimates": {},
        "difference_std_error": {},
        "dml_intervals": {},
    }
    for name, behavior in BEHAVIOR.items():
        ev = op.evaluate(
            log,
            {"cb": policy},
            estimators=list(ESTIMATORS),
            reward_model=model,
            behavior_model=behavior,
            seed=world.seed,
        )
        found = {e: ev["cb", e] for e in ESTIMATORS}
        record["estimates"][name] = {e: [v.value, v.std_error] for e, v in found.items()}
        record["difference_std_error"][name] = {e: (v - found["DML"]).std_error for e, v in found.items() if e != "DML"}
        record["dml_intervals"][name] = _intervals(found["DML"])
    return record
