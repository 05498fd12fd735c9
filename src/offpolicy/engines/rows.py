"""Arrow rows of a scanned log as a `BanditLog`: the whole log, or a block of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.engines.codes import codes_of
from offpolicy.logs.actions import label_array
from offpolicy.logs.bandit import BanditLog, Names, name_of
from offpolicy.logs.frame import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offpolicy._arrays import Floats
    from offpolicy.engines.roles import Roles
    from offpolicy.logs.action_features import ActionFeatures
    from offpolicy.logs.kinds import ActionSpace

LARGEST = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Schema:
    """What the rows of one log share; plain values, so that it can be sent to other machines.

    Attributes
    ----------
    space : ActionSpace
        The actions.
    extra : tuple of str
        Columns that policies name.
    batches, folds : tuple or None
        Labels of the batches and of the folds, sorted.
    levels : dict
        Sorted distinct values of each text column of the context.
    metric : str or None
        Which metric is the reward; None: the first.
    """

    roles: Roles
    space: ActionSpace
    extra: tuple[str, ...] = ()
    batches: tuple[Any, ...] | None = None
    folds: tuple[Any, ...] | None = None
    levels: dict[str, list[Any]] | None = None
    metric: str | None = None
    features: ActionFeatures | None = None

    @property
    def labels(self) -> tuple[Any, ...]:
        """The K actions."""
        return self.space.labels

    def log(self, rows: Any, first: int = 0) -> BanditLog:
        """A log of Arrow rows that have been checked; ``first`` is the number of the first row."""

        def numbers(name: str) -> Any:
            if name not in rows.column_names:
                return None
            return np.array(rows[name].to_numpy(), dtype=np.float64)

        def frame(columns: Sequence[str], names: Sequence[str]) -> Any:
            return rows.select(list(columns)).rename_columns(list(names)).to_pandas()

        roles = self.roles
        context = Context(np.empty((rows.num_rows, 0)))
        if roles.context:
            columns = [f"x{j}" for j in range(len(roles.context))]
            context = Context(frame(columns, roles.context), None, tuple(roles.context), self.levels or {})
        source = None
        if self.extra:
            source = frame([f"extra{j}" for j in range(len(self.extra))], self.extra)
        unit = rows["unit"].to_numpy() if "unit" in rows.column_names else None
        reward = numbers("reward")
        assert reward is not None
        fold = _placed(rows, "fold", self.folds)
        log = BanditLog(
            context=context,
            space=self.space,
            action=numbers("action") if self.space.numeric else _encoded(rows, self.space),
            reward=reward,
            further=further_of(roles, lambda name: np.array(rows[name].to_numpy(), dtype=np.float64)),
            propensity=numbers("propensity"),
            distribution=distribution_of(roles, numbers),
            batch=_placed(rows, "batch", self.batches),
            batch_labels=self.batches or (),
            cluster=_clusters(rows),
            weight=numbers("weight"),
            fold=None if fold is None else fold[None, :],
            unit=None if unit is None else np.asarray(unit, dtype=np.int64),
            first=first,
            source=source,
            names=names_of(roles),
            action_features=self.features,
        )
        return log if self.metric is None else log.with_reward(self.metric)


def _encoded(rows: Any, space: ActionSpace) -> Any:
    """What a log holds of each action; distinct ones are looked at once."""
    present, code = codes_of(rows, "action")
    return space.encode(label_array(present))[code]


def _placed(rows: Any, name: str, labels: tuple[Any, ...] | None) -> Any:
    """Codes of a column among the labels of the whole log."""
    if labels is None or name not in rows.column_names:
        return None
    present, code = codes_of(rows, name)
    position = {label: i for i, label in enumerate(labels)}
    return np.array([position[label] for label in present], dtype=np.int64)[code]


def _clusters(rows: Any) -> Any:
    """Numbers of the clusters, the same in every block: integers as they are, others by 63 bits of a digest."""
    if "cluster" not in rows.column_names:
        return None
    present, code = codes_of(rows, "cluster")
    numbers = [_cluster_number(label) for label in present]
    return np.array(numbers, dtype=np.int64)[code]


def _cluster_number(label: Any) -> int:
    if isinstance(label, int):
        return label & LARGEST  # codes of clusters are not negative
    digest = hashlib.blake2b(str(label).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def further_of(roles: Roles, column: Callable[[str], Floats]) -> dict[str, Floats]:
    """Metrics beside the reward, by the names of their owner."""
    return {name: column(f"metric{j}") for j, name in enumerate(roles.further)}


def distribution_of(roles: Roles, column: Callable[[str], Floats | None]) -> Floats | None:
    """(n, K) the logging policy's whole distribution, where it was logged."""
    if not roles.distribution:
        return None
    columns = [column(f"p{j}") for j in range(len(roles.distribution))]
    return np.column_stack([p for p in columns if p is not None])


def names_of(roles: Roles) -> Names:
    """What the owner calls the parts of the log."""
    propensity = roles.propensity if isinstance(roles.propensity, str) else "propensity"
    propensity = name_of(roles.distribution) or propensity
    return Names(roles.action, roles.reward, propensity, roles.batch or "batch", roles.cluster or "cluster")
