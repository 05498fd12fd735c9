"""All slots of Vowpal Wabbit's decision-service JSON: conditional contextual bandits (ccb) and slates.

In both a line has ``_outcomes``, one for each slot, with the chosen action first in ``_a`` and its probability first in
``_p``. Of a ccb line the slots share the candidates ``c._multi``, an action is shown once, and every slot has its cost:
`Slates` with a cascade. Of a slates line every candidate belongs to a slot (``_slot_id``), ``_a`` counts inside that
slot, and the line has one cost, ``_label_cost``: the additive `Slates` of the pseudo-inverse estimator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.formats.dsjson import cost_in, label_of
from offpolicy.logs.formats.lines import OnError, Reading, flatten, number_in, read_lines, whole_in
from offpolicy.logs.slates import Slates

if TYPE_CHECKING:
    from pathlib import Path

PER_SLOT = ("position", "action", "reward", "propensity", "candidates")


@dataclass(frozen=True, eq=False)
class SlateReading(Reading):
    """Lines as a table with one row per slot; ``whole`` says that slates have one reward."""

    whole: bool = False

    def log(self, **options: Any) -> Slates:  # type: ignore[override]
        """Build the `Slates`; ``options`` are further arguments of `Slates.from_frame`."""
        labels = {label for row in self.frame["candidates"] for label in row}
        roles: dict[str, Any] = {
            "slate": "slate",
            "position": "position",
            "context": list(self.context),
            "action": "action",
            "reward": "reward",
            "propensity": "propensity",
            "candidates": "candidates",
            "weight": "weight" if "weight" in self.frame.columns else None,
            "interaction": "additive" if self.whole else "cascade",
            "actions": sorted(labels),
        }
        return Slates.from_frame(self.frame, **{**roles, **options})


@checks_arguments
def read_dsjson_slates(path: str | Path, *, on_error: OnError = "report") -> SlateReading:
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
    reading = read_lines(path, row_of, on_error)
    frame = reading.frame
    whole = frame.pop("whole")
    if whole.nunique() > 1:
        raise DataError(
            "the file mixes lines with a cost for each slot and lines with one for the slate. Read them apart."
        )
    frame["slate"] = range(len(frame))
    if bool((frame["weight"] == 1).all()):
        frame = frame.drop(columns="weight")
    long = frame.explode(list(PER_SLOT), ignore_index=True)
    numbers = {"position": int, "reward": float, "propensity": float}
    return SlateReading(
        long.astype(numbers),
        reading.context,
        reading.bad,
        reading.n_bad,
        reading.n_skipped,
        lines=reading.lines,
        whole=bool(whole.iloc[0]),
    )


def row_of(event: dict[str, Any]) -> dict[str, Any] | None:
    """One event as a row whose cells list its slots; None when it says that it is not to be learned from."""
    if event.get("_skipLearn"):
        return None
    outcomes = event["_outcomes"]
    if not isinstance(outcomes, list) or not outcomes:
        raise DataError("no slots: _outcomes is empty")
    shared = event.get("c", event)
    candidates = shared["_multi"]
    whole = any("_slot_id" in action for action in candidates)
    keep = 1.0 - number_in(event.get("pdrop", 0.0), "pdrop")
    if not 0 < keep <= 1:
        raise DataError(f"pdrop = {event.get('pdrop')} is not in [0, 1)")
    slots = [_slot(event, candidates, k, outcome, whole=whole) for k, outcome in enumerate(outcomes)]
    return {
        **{name: [slot[name] for slot in slots] for name in PER_SLOT},
        "weight": 1.0 / keep,
        "whole": whole,
        "event": event.get("EventId"),
        "time": event.get("Timestamp"),
        "context": flatten({k: v for k, v in shared.items() if not k.startswith("_")}) if "c" in event else {},
    }


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
    labels = [names[i] for i in listed]
    if len(set(labels)) != len(labels):
        raise DataError(f"slot {k}: two candidate actions have the same label")
    probability = number_in(_listed(outcome["_p"])[0], "probability")
    if not 0 < probability <= 1:
        raise DataError(f"slot {k}: the probability {probability} is not in (0, 1]")
    return {
        "position": k,
        "action": names[chosen],
        "reward": 0.0 - cost_in(cost),
        "propensity": probability,
        "candidates": labels,
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
