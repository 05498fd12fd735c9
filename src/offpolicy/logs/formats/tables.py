"""Tables of other tools: exposures of A/B tests (GrowthBook and its like), and the dictionary of Open Bandit Pipeline.

Of exposures the variations' weights are the propensities: the tool drew the variation with them. GrowthBook's columns
are the defaults: ``user_id``, ``timestamp``, ``experiment_id``, ``variation_id``, and dimensions; metrics are
tables of ``user_id``, ``timestamp`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, UsageError, did_you_mean, doing, first_rows
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.frame import Columns, as_features
from offpolicy.logs.metrics import need_one_metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints


SUM_TOLERANCE = 1e-6


@checks_arguments
def from_exposures(
    exposures: Any,
    metric: Any,
    *,
    weights: Mapping[Any, float],
    experiment: Any = None,
    dimensions: Sequence[str] = (),
    unit: str = "user_id",
    variation: str = "variation_id",
    time: str = "timestamp",
    value: str = "value",
    window: Any = None,
    several: str = "raise",
) -> BanditLog:
    """Read an exposure table and a metric table as a log with one row per unit, at its first exposure.

    Parameters
    ----------
    exposures : pandas, polars or pyarrow table
        One row per exposure: unit, time, variation, ``experiment_id`` where there are several, and dimensions.
    metric : table of the same kind
        One row per event: unit, time, value. The reward of a unit is the sum of its values from its first
        exposure on; 0 without any.
    weights : {variation: weight}
        Probability with which the tool drew each variation; they sum to 1. Coverage (the share of traffic in
        the experiment) does not matter.
    experiment : optional
        Whose rows to read (column ``experiment_id``); needed when the table has several.
    dimensions : list of column names
        What was known at exposure: the context.
    unit, variation, time, value : column names
        Where they differ from GrowthBook's.
    window : numpy.timedelta64 or anything it can be compared with, optional
        How long after the first exposure values count.
    several : {"raise", "drop"}
        What to do with units that saw several variations: their reward belongs to no one variation. Dropping
        is noted on every estimate.

    Examples
    --------
    >>> import pandas as pd
    >>> day = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])
    >>> shown = pd.DataFrame({"user_id": ["u", "v", "w"], "timestamp": day, "variation_id": [0, 1, 1]})
    >>> sales = pd.DataFrame({"user_id": ["v", "v"], "timestamp": day[1:], "value": [2.0, 3.0]})
    >>> log = from_exposures(shown, sales, weights={0: 0.5, 1: 0.5})
    >>> log.reward.tolist(), log.propensity.tolist()
    ([0.0, 5.0, 0.0], [0.5, 0.5, 0.5])
    """
    if several not in {"raise", "drop"}:
        raise UsageError(f"several= must be 'raise' or 'drop'. Got {several!r} instead.")
    _check_weights(weights)
    table = _of_experiment(Columns(exposures), experiment)
    for name in (unit, variation, time, *dimensions):
        table.require(name, "exposures")
    shown, when = table.values(variation), _times(table, time, "exposures")
    _check_variations(shown, weights, variation)
    units, place = distinct(table.values(unit))
    first = _first_rows(place, when, len(units))
    mixed = _saw_several(place, shown, first)
    if mixed.any() and several == "raise":
        raise DataError(
            f"{int(mixed.sum()):,} of {len(units):,} units saw several variations (first: "
            f"{units[int(mixed.argmax())]!r}). Their outcome cannot be attributed to one variation; several='drop' "
            "leaves them out."
        )
    events = Columns(metric)
    reward = _rewards(events, (unit, time, value), units, when[first], window)
    strangers = _strangers(events.values(unit), units, unit)
    frame = _frame(table, first, (*dimensions, variation), shown, weights)
    log = BanditLog.from_frame(
        frame.assign(reward=reward)[~mixed],
        context=list(dimensions) or None,
        action=variation,
        reward="reward",
        propensity="propensity",
        actions=list(weights),
    )
    notes = [strangers] if strangers else []
    if mixed.any():
        notes.append(f"{int(mixed.sum()):,} units saw several variations and were left out (several='drop')")
    return replace(log, notes=(*log.notes, *notes))


def _times(table: Columns, name: str, what: str) -> Array:
    """A column of times that can be subtracted from each other."""
    values = table.values(table.require(name, what))
    if values.dtype.kind not in "mMiuf" and len(values):
        raise DataError(
            f"column {name!r} of the {what} contains {type(values[0]).__name__} ({values[0]!r:.40} in row 0), not "
            "times. Convert it first: pandas.to_datetime."
        )
    return values


def _strangers(events: Array, units: list[Any], column: str) -> str | None:
    """What to say of metric rows whose unit was never exposed; all of them mean that the ids do not match."""
    known = set(units)
    apart = np.array([u not in known for u in events.tolist()], dtype=bool)
    if len(apart) and apart.all():
        mine, theirs = units[0], events.tolist()[0]
        raise DataError(
            f"column {column!r}: no row of the metric belongs to an exposed unit, so every reward would be 0. "
            f"Exposures have {mine!r} ({type(mine).__name__}), the metric has {theirs!r} ({type(theirs).__name__}). "
            "Give both the same type and the same units."
        )
    if not apart.any():
        return None
    return (
        f"{int(apart.sum()):,} of {len(apart):,} rows of the metric belong to units that were never exposed; they do "
        "not count"
    )


def _check_weights(weights: Mapping[Any, float]) -> None:
    if not isinstance(weights, Mapping) or not weights:
        raise UsageError(f"weights= must map each variation to its weight, as {{0: 0.5, 1: 0.5}}. Got {weights!r}.")
    total = float(sum(weights.values()))
    if min(weights.values()) < 0 or abs(total - 1) > SUM_TOLERANCE:
        raise UsageError(
            f"weights= must be non-negative and sum to 1, without coverage. Got {dict(weights)}, "
            f"which sum to {total:g}."
        )


def _of_experiment(table: Columns, experiment: Any) -> Columns:
    """Rows of one experiment; a table with several must be told which."""
    if "experiment_id" not in table.names:
        if experiment is None:
            return table
        raise DataError(f"experiment={experiment!r}: the exposures have no column 'experiment_id'. Leave it out.")
    ids = table.values("experiment_id")
    known = list(dict.fromkeys(ids.tolist()))
    if experiment is None and len(known) > 1:
        raise DataError(f"the exposures belong to {len(known)} experiments ({known[:5]}). Name one with experiment=.")
    chosen = known[0] if experiment is None and known else experiment
    rows = np.flatnonzero(ids == chosen)
    if len(rows) == 0:
        raise DataError(f"experiment={experiment!r}: no exposures have this id.{did_you_mean(experiment, known)}")
    return Columns(table.rows(rows))


def _check_variations(shown: Array, weights: Mapping[Any, float], column: str) -> None:
    unknown: Bools = np.array([v not in weights for v in shown.tolist()], dtype=bool)
    if unknown.any():
        raise DataError(
            f"column {column!r}: {first_rows(unknown, shown)} have no weight. weights= has "
            f"{list(weights)[:5]}; labels must have the same type."
        )
    never = np.array([weights[v] == 0 for v in shown.tolist()], dtype=bool)
    if never.any():
        raise DataError(f"column {column!r}: {first_rows(never, shown)} were shown with weight 0. Check weights=.")


def _first_rows(place: Ints, when: Array, n_units: int) -> Ints:
    """(units,) row of each unit's first exposure."""
    order = np.lexsort([when, place])
    starts = np.searchsorted(place[order], np.arange(n_units))
    return np.asarray(order[starts])


def _saw_several(place: Ints, shown: Array, first: Ints) -> Bools:
    other = shown != shown[first][place]
    return np.bincount(place, weights=other.astype(np.float64), minlength=len(first)) > 0


def _rewards(metric: Columns, names: tuple[str, str, str], units: list[Any], since: Array, window: Any) -> Floats:
    """(units,) sum of the values from the first exposure on, inside the window."""
    unit, time, value = (metric.require(name, "metric") for name in names)
    number = {each: i for i, each in enumerate(units)}
    of = np.array([number.get(u, -1) for u in metric.values(unit).tolist()], dtype=np.int64)
    when, values = _times(metric, time, "metric"), metric.numeric(value, "metric")
    missing = np.isnan(values) & (of >= 0)
    if missing.any():
        raise DataError(f"column {value!r}: {first_rows(missing)} of the metric are missing.")
    counts = of >= 0
    if not len(values):
        raise DataError("the metric has no rows, so every reward would be 0. Give the rows of these units.")
    if (when.dtype.kind in "mM") != (since.dtype.kind in "mM"):
        raise DataError(
            f"column {time!r}: the metric has {when.dtype} and the exposures {since.dtype}, which cannot be compared. "
            "Give both as dates, or both as numbers."
        )
    waited = when[counts] - since[of[counts]]
    late = waited >= (waited[:1] - waited[:1] if len(waited) else 0)
    if window is not None:
        with doing("from_exposures: comparing times with window=", UsageError):
            late &= np.asarray(waited <= window, dtype=bool)
    rows = np.flatnonzero(counts)[late]
    return np.bincount(of[rows], weights=values[rows], minlength=len(units)).astype(np.float64)


def _frame(table: Columns, first: Ints, names: Sequence[str], shown: Array, weights: Mapping[Any, float]) -> Any:
    import pandas as pd

    columns = {name: table.values(name)[first] for name in names}
    propensity = [weights[v] for v in shown[first].tolist()]
    return pd.DataFrame(columns | {"propensity": propensity})


def distinct(values: Array) -> tuple[list[Any], Ints]:
    """Units in the order of their first row, and the number of each row's unit."""
    number: dict[Any, int] = {}
    place = [number.setdefault(each, len(number)) for each in values.tolist()]
    return list(number), np.array(place, dtype=np.int64)


REQUIRED = ("action", "reward", "context")


@checks_arguments
def from_obp(feedback: Mapping[str, Any], *, position: int | None = None) -> BanditLog:
    """Read OBP's dictionary.

    Parameters
    ----------
    feedback : mapping
        ``n_actions``, ``context``, ``action``, ``reward`` and, where known, ``pscore``.
    position : int, optional
        Keep the rounds of one position of a list only; needed when the log has several.

    Examples
    --------
    >>> feedback = {"n_rounds": 2, "n_actions": 3, "context": [[0.0], [1.0]], "action": [0, 2],
    ...             "reward": [0, 1], "pscore": [0.2, 0.5], "position": None}
    >>> from_obp(feedback).actions
    (0, 1, 2)
    """
    for key in REQUIRED:
        if key not in feedback:
            raise DataError(f"the dictionary has no {key!r}.{did_you_mean(key, feedback)}")
    action = np.asarray(feedback["action"])
    rounds = feedback.get("n_rounds")
    if rounds is not None and rounds != len(action):
        raise DataError(f"n_rounds is {rounds!r}, but there are {len(action):,} actions. Correct one of them.")
    n_actions = int(feedback.get("n_actions", int(action.max(initial=0)) + 1))
    kept: Any = slice(None)
    places = feedback.get("position")
    if places is not None:
        places = np.asarray(places)
        distinct = np.unique(places)
        if position is None and len(distinct) > 1:
            raise DataError(
                f"the log has {len(distinct)} positions; evaluate one at a time with position=, one of "
                f"{distinct.tolist()}."
            )
        kept = slice(None) if position is None else places == position
    pscore = feedback.get("pscore")
    return BanditLog.from_arrays(
        np.asarray(feedback["context"])[kept],
        action[kept],
        np.asarray(feedback["reward"])[kept],
        None if pscore is None else np.asarray(pscore)[kept],
        actions=range(n_actions),
    )


@checks_arguments
def to_obp(log: BanditLog) -> dict[str, Any]:
    """Give a log back as OBP's dictionary; text contexts must be encoded first."""
    need_one_metric(log, "OBP's dictionary")
    if log.is_counted:
        raise DataError("rows of this log have counts, which OBP cannot store.")
    table = log.context.learner_table
    if log.context.is_frame:
        try:
            context = np.asarray(table.to_numpy(dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise DataError(f"OBP takes numeric contexts only: {error}") from error
    else:
        context = as_features(np.asarray(log.context.table))
    context = context if log.context.index is None else context[log.context.index]
    return {
        "n_rounds": log.rows,
        "n_actions": len(log.actions),
        "context": context,
        "action": log.action.copy(),
        "reward": log.reward.copy(),
        "pscore": None if log.propensity is None else log.propensity.copy(),
        "position": None,
        "action_context": np.eye(len(log.actions)),
    }
