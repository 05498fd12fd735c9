"""Vowpal Wabbit's decision-service JSON (dsjson): contextual bandits, conditional contextual bandits (ccb) and slates.

A line holds the shared context ``c``, the candidate actions ``c._multi``, the chosen one (``_labelIndex``,
or ``_label_Action`` counted from 1), its cost and probability. Rewards are −cost. ``pdrop`` is the
probability with which such lines were dropped, so that a line kept stands for 1 / (1 − pdrop); lines with
``_skipLearn`` are skipped and counted. Continuous actions (cats) are refused.

Lines of ccb and slates have ``_outcomes``, one for each slot, the chosen action first in ``_a`` and its probability
first in ``_p``. Of a ccb line the slots share the candidates ``c._multi``, an action is shown once, and every slot has
its cost: `Slates` with a cascade, or, by `read_dsjson`, the decision of the first slot. Of a slates line a candidate
belongs to a slot (``_slot_id``), ``_a`` counts inside that slot, and the line has one cost, ``_label_cost``: the
additive `Slates` of the pseudo-inverse estimator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.formats.lines import OnError, Reading, flatten, number_in, read_lines, whole_in, write_lines
from offpolicy.logs.metrics import need_one_metric
from offpolicy.logs.slates import Slates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offpolicy.logs.bandit import BanditLog


EQUAL = 1e-4  # two probabilities of one event that differ by less were rounded


@checks_arguments
def read_dsjson(path: str | Path, *, on_error: OnError = "report") -> Reading:
    r"""Read a dsjson file (also .gz).

    Parameters
    ----------
    path : file
        One event per line.
    on_error : {"report", "raise"}
        Collect bad lines with their numbers in ``.bad``, or stop at the first.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> event = {"_label_cost": -1.0, "_label_probability": 0.5, "_labelIndex": 1, "a": [2, 1],
    ...          "c": {"hour": 9, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}]}, "p": [0.5, 0.5]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "log.json"
    ...     _ = file.write_text(json.dumps(event) + "\n")
    ...     read_dsjson(file).log()
    BanditLog(1 rows, 2 actions, mean reward 1, propensities logged)
    """
    return read_lines(path, row_of, on_error)


def row_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """One event as a row; None when it says that it is not to be learned from."""
    if event.get("_skipLearn"):
        return None
    if "_label_ca" in event:
        raise DataError("a continuous action (cats); only discrete actions can be evaluated")
    candidates = event.get("c", event)["_multi"]
    labels = different_labels([label_of(action, i) for i, action in enumerate(candidates)])
    index, cost, probability = _first_slot(event) if "_outcomes" in event else _label(event)
    if not 0 <= index < len(labels):
        raise DataError(f"the chosen action {index} is not among the {len(labels)} candidates")
    return {
        "action": labels[index],
        "reward": 0.0 - cost_in(cost),
        "propensity": probability_in(probability),
        "eligible": labels,
        **shared_fields(event),
    }


def shared_fields(event: dict[str, Any]) -> dict[str, Any]:
    """What an event of any kind says besides its decisions."""
    keep = 1.0 - number_in(event.get("pdrop", 0.0), "pdrop")
    if not 0 < keep <= 1:
        raise DataError(f"pdrop = {event.get('pdrop')} is not in [0, 1)")
    known = {k: v for k, v in event["c"].items() if not k.startswith("_")} if "c" in event else {}
    return {
        "keep_probability": keep,
        "event": event.get("EventId"),
        "time": event.get("Timestamp"),
        "context": flatten(known),
    }


def different_labels(labels: list[str], slot: str = "") -> list[str]:
    """Labels of candidates, each there once."""
    if len(set(labels)) != len(labels):
        raise DataError(f"{slot}two candidate actions have the same label")
    return labels


def probability_in(value: Any, slot: str = "") -> float:
    """The probability of a chosen action."""
    probability = number_in(value, "probability")
    if not 0 < probability <= 1:
        raise DataError(f"{slot}the probability {probability} is not in (0, 1]")
    return probability


def cost_in(value: Any) -> float:
    """A cost, which is a number and not true or false."""
    if isinstance(value, bool):
        raise DataError(f"the cost {str(value).lower()} is not a number")
    return number_in(value, "cost")


def label_of(action: dict[str, Any], position: int) -> str:
    """The action's ``_tag``, else its ``id``, else its position counted from 1."""
    inner = action.get("i")
    names = (action.get("_tag"), action.get("id"), inner.get("id") if isinstance(inner, dict) else None)
    for name in names:
        if isinstance(name, list | dict):
            raise DataError(f"the label {name!r:.60} of a candidate action is not text or a number")
        if name is not None and name != "":  # 0 is a name
            return str(name)
    return str(position + 1)


def _label(event: dict[str, Any]) -> tuple[int, float, float]:
    lowered = _label_fields(event)
    if "_label_cost" not in lowered:
        raise DataError("no label: the event has no _label_cost")
    if "_label_probability" not in lowered:
        raise DataError("no label: the event has no _label_probability")
    index = _chosen(event, lowered)
    probability = number_in(lowered["_label_probability"], "probability")
    drawn = event.get("p")
    if isinstance(drawn, list) and drawn and abs(number_in(drawn[0], "p[0]") - probability) > EQUAL:
        raise DataError(f"_label_probability is {probability:g}, but p gives {drawn[0]} for that action")
    return index, lowered["_label_cost"], probability


def _label_fields(event: dict[str, Any]) -> dict[str, Any]:
    """Fields of the label in small letters, each of them once."""
    lowered: dict[str, Any] = {}
    for key, value in event.items():
        if key.lower().startswith("_label"):
            if key.lower() in lowered:
                raise DataError(f"the field {key!r} appears twice, in different letter case")
            lowered[key.lower()] = value
    return lowered


def _chosen(event: dict[str, Any], lowered: dict[str, Any]) -> int:
    """Position of the chosen action, about which all fields must agree."""
    told = {}
    if lowered.get("_labelindex") is not None:
        told["_labelIndex"] = whole_in(lowered["_labelindex"], "chosen action")
    if lowered.get("_label_action") is not None:
        told["_label_Action"] = whole_in(lowered["_label_action"], "chosen action") - 1
    if isinstance(event.get("a"), list) and event["a"]:
        told["a"] = whole_in(event["a"][0], "chosen action") - 1
    if not told.keys() & {"_labelIndex", "_label_Action"}:
        raise DataError("no label: the event has neither _labelIndex nor _label_Action")
    if len(set(told.values())) > 1:
        said = ", ".join(f"{field} = {index}" for field, index in told.items())
        raise DataError(f"the event names several chosen actions, counted from 0: {said}")
    return next(iter(told.values()))


def _first_slot(event: dict[str, Any]) -> tuple[int, float, float]:
    """Conditional contextual bandit: the first slot is an ordinary decision; later ones depend on it."""
    slot = event["_outcomes"][0]
    return whole_in(slot["_a"][0], "chosen action"), slot["_label_cost"], slot["_p"][0]


@checks_arguments
def write_dsjson(log: BanditLog, path: str | Path) -> int:
    """Write a log as dsjson and return the number of lines.

    The propensities must be logged and rows must not carry counts. A keep-probability has become part of
    the weight; a weight of at least 1 is written as pdrop = 1 − 1 / weight.
    """
    if log.propensity is None:
        raise DataError("dsjson needs the propensity of the logged action, which this log does not have.")
    need_one_metric(log, "dsjson")
    if log.is_counted:
        raise DataError("rows of this log have counts, which dsjson cannot store. Write each row separately.")
    return write_lines(path, _events(log))


def _events(log: BanditLog) -> Iterator[dict[str, Any]]:
    contexts = context_dicts(log)
    for i, shared in enumerate(contexts):
        eligible = range(len(log.actions)) if log.eligible is None else log.eligible[i].nonzero()[0]
        codes = [int(c) for c in eligible]
        index = codes.index(int(log.action[i]))
        assert log.propensity is not None
        event: dict[str, Any] = {
            "_label_cost": 0.0 - float(log.reward[i]),
            "_label_probability": float(log.propensity[i]),
            "_label_Action": index + 1,
            "_labelIndex": index,
            "c": {**shared, "_multi": [{"_tag": str(log.actions[c])} for c in codes]},
        }
        if log.weight[i] != 1:
            if log.weight[i] < 1:
                raise DataError(f"row {i}: a weight below 1 cannot be written as a drop probability.")
            event["pdrop"] = 1.0 - 1.0 / float(log.weight[i])
        yield event


def context_dicts(log: BanditLog) -> Iterator[dict[str, Any]]:
    """Context rows as dictionaries of plain values; missing ones are left out."""
    from offpolicy.logs.actions import plain

    if log.context.is_frame:
        table = log.context.learner_table
        names = [str(c) for c in table.columns]
        records = zip(*(table[c].tolist() for c in table.columns), strict=True) if names else None
        rows = list(records) if records is not None else [()] * log.context.n_table
    else:
        import numpy as np

        from offpolicy.logs.frame import as_features

        matrix = as_features(np.asarray(log.context.table))
        names = [f"x{j}" for j in range(matrix.shape[1])]
        rows = [tuple(r) for r in matrix.tolist()]
    positions = range(log.rows) if log.context.index is None else log.context.index
    for p in positions:
        values = {n: plain(v) for n, v in zip(names, rows[int(p)], strict=True)}
        yield {n: _jsonable(v) for n, v in values.items() if v is not None and v == v}  # noqa: PLR0124


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


PER_SLOT = ("position", "action", "reward", "propensity", "candidates")


@checks_arguments
def read_dsjson_slates(path: str | Path, *, on_error: OnError = "report") -> Reading:
    r"""Read all slots of a ccb or slates dsjson file (also .gz).

    Parameters
    ----------
    path : file
        One event per line.
    on_error : {"report", "raise"}
        Collect bad lines with their numbers in ``.bad``, or stop at the first.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> event = {"c": {"hour": 9, "_multi": [{"_tag": "tea"}, {"_tag": "coffee"}], "_slots": [{}, {}]},
    ...          "_outcomes": [{"_label_cost": -1, "_a": [1, 0], "_p": [0.5, 0.5]},
    ...                        {"_label_cost": 0, "_a": [0], "_p": [1.0]}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "log.json"
    ...     _ = file.write_text(json.dumps(event) + "\n")
    ...     read_dsjson_slates(file).log()
    Slates(1 slates, 2 slots, at most 2 each, 2 distinct items, cascade, mean reward 1, propensities logged)
    """
    reading = read_lines(path, slots_of, on_error)
    frame = reading.frame
    whole = frame.pop("whole")
    if whole.nunique() > 1:
        raise DataError("some lines have a cost per slot and others one cost per slate. Read them separately.")
    frame["slate"] = range(len(frame))
    roles = {"slate": "slate", "position": "position", "weight": "weight"}
    if bool((frame["weight"] == 1).all()):
        del frame["weight"], roles["weight"]
    long = frame.explode(list(PER_SLOT), ignore_index=True)
    long = long.astype({"position": int, "reward": float, "propensity": float})
    roles["interaction"] = "additive" if whole.iloc[0] else "cascade"
    return replace(reading, frame=long, roles=roles, makes=Slates)


def slots_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """One event as a row whose cells list its slots; None when it says that it is not to be learned from."""
    if event.get("_skipLearn"):
        return None
    outcomes = event["_outcomes"]
    if not isinstance(outcomes, list) or not outcomes:
        raise DataError("no slots: _outcomes is empty")
    candidates = event.get("c", event)["_multi"]
    whole = any("_slot_id" in action for action in candidates)
    slots = [_slot(event, candidates, k, outcome, whole=whole) for k, outcome in enumerate(outcomes)]
    rest = shared_fields(event)
    weight = 1.0 / rest.pop("keep_probability")
    return {**{name: [slot[name] for slot in slots] for name in PER_SLOT}, "weight": weight, "whole": whole, **rest}


def _slot(
    event: dict[str, Any], candidates: list[Any], k: int, outcome: dict[str, Any], *, whole: bool
) -> dict[str, Any]:
    if whole:
        own = [(i, a) for i, a in enumerate(candidates) if a.get("_slot_id") == k]
        names = {i: label_of(action, i) for i, (_, action) in enumerate(own)}
        listed = list(names)
        cost = event["_label_cost"]
    else:
        names = {i: label_of(action, i) for i, action in enumerate(candidates)}
        listed = [whole_in(i, "candidate") for i in _listed(outcome["_a"])]
        cost = outcome["_label_cost"]
    chosen = whole_in(_listed(outcome["_a"])[0], "chosen action")
    unknown = next((i for i in (chosen, *listed) if i not in names), None)
    if unknown is not None:
        raise DataError(f"slot {k}: action {unknown} is not among its {len(names)} candidates")
    return {
        "position": k,
        "action": names[chosen],
        "reward": 0.0 - cost_in(cost),
        "propensity": probability_in(_listed(outcome["_p"])[0], f"slot {k}: "),
        "candidates": different_labels([names[i] for i in listed], f"slot {k}: "),
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
