"""JSON lines: traces of decisions, with the probability of the action and of being kept; and logs of routers.

    {"context": {"age": 30}, "action": "b", "reward": 1.0, "act_prob": 0.25, "keep_prob": 0.1}

``act_prob`` and ``keep_prob`` may be missing from every line (unknown; kept always), not from some.

Logs of a router among language models have one request per line, which models could answer, and which one did:

    {"candidates": ["small", "large"], "model": "small", "propensity": 0.95,
     "quality": 1.0, "cost": 0.0004, "latency": 0.8, "context": {"domain": "law", "words": 31}}

``candidates`` may be a mapping from model to the router's probability, which then says the propensity. Quality, cost
and latency are outcomes: each may be the reward, and none is context. ``propensity`` may be missing from every line
(unknown), not from some. Further fields (``request``, ``user``, ``time``) become columns, for `cluster` and `batch`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy.logs.formats.dsjson import context_dicts
from offpolicy.logs.formats.lines import OnError, Reading, flatten, number_in, read_lines, write_lines
from offpolicy.logs.metrics import need_one_metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from offpolicy.logs.bandit import BanditLog


@checks_arguments
def read_jsonl(path: str | Path, *, on_error: OnError = "report") -> Reading:
    """Read a JSON-lines trace (also .gz).

    Parameters
    ----------
    path : file
        One decision per line.
    on_error : {"report", "raise"}
        Collect bad lines with their numbers in ``.bad``, or stop at the first.
    """
    return read_lines(path, row_of, on_error)


def row_of(event: dict[str, Any]) -> dict[str, Any]:
    """One line as a row."""
    context = event.get("context", {})
    row: dict[str, Any] = {
        "action": event["action"],
        "reward": event["reward"],
        "context": flatten(context) if isinstance(context, dict | list) else {"context": context},
    }
    if isinstance(row["action"], list | dict) or row["action"] is None:
        raise DataError(f"the action {row['action']!r:.60} is not a label")
    if "act_prob" in event:
        row["propensity"] = number_in(event["act_prob"], "act_prob")
    if "keep_prob" in event:
        row["keep_probability"] = number_in(event["keep_prob"], "keep_prob")
    row["reward"] = number_in(event["reward"], "reward")
    return row


@checks_arguments
def write_jsonl(log: BanditLog, path: str | Path) -> int:
    """Write a log as a JSON-lines trace and return the number of lines."""
    need_one_metric(log, "a trace")
    if log.is_counted:
        raise DataError("rows of this log have counts, which a trace cannot store. Write each row separately.")
    return write_lines(path, _lines(log))


def _lines(log: BanditLog) -> Iterator[dict[str, Any]]:
    for i, context in enumerate(context_dicts(log)):
        line: dict[str, Any] = {
            "context": context,
            "action": log.actions[int(log.action[i])],
            "reward": float(log.reward[i]),
        }
        if log.propensity is not None:
            line["act_prob"] = float(log.propensity[i])
        if log.is_weighted:
            if log.weight[i] < 1:
                raise DataError(f"row {i}: a weight below 1 cannot be written as a keep-probability.")
            line["keep_prob"] = 1.0 / float(log.weight[i])
        yield line


OUTCOMES = ("quality", "cost", "latency")
FIELDS = ("candidates", "model", "propensity", "context", *OUTCOMES)
#: Fields by which a file of JSON lines is known to be a router's.
SIGNATURE = frozenset({"candidates", "model"})
#: Names that a table of decisions uses itself.
TAKEN = frozenset({"action", "reward", "propensity", "eligible", *FIELDS})


@checks_arguments
def read_router_log(
    path: str | Path,
    *,
    reward: str | Sequence[str] = "quality",
    fields: Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    **options: Any,
) -> BanditLog:
    r"""Read the log of a router among language models; each request's candidates are its eligible actions.

    Parameters
    ----------
    path : file
        JSON lines (also .gz) with ``candidates``, ``model``, ``propensity``, ``quality``, ``cost``, ``latency`` and
        ``context``.
    reward : str or list of str
        Which outcome is the reward; several make a log of several metrics.
    fields : {field: name in the file}, optional
        Fields that the file calls otherwise, such as ``{"model": "chosen_model"}``.
    on_error : {"raise", "report"}
        Stop at the first bad line, or leave bad lines out and say so in ``log.notes``.
    **options
        Further arguments of `BanditLog.from_frame`: ``cluster="user"``, ``batch="day"``, ….

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> line = {"candidates": ["small", "large"], "model": "small", "propensity": 0.9, "quality": 1, "cost": 0.1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "router.jsonl"
    ...     _ = file.write_text(json.dumps(line) + "\n" + json.dumps(line | {"quality": 0}) + "\n")
    ...     read_router_log(file)
    BanditLog(2 rows, 2 actions, mean quality 0.5, propensities logged)
    """
    reading = read_router(path, fields=fields, on_error=on_error)
    names = [reward] if isinstance(reward, str) else list(reward)
    for name in names:
        if name not in reading.frame.columns:
            raise DataError(
                f"reward={name!r}: no line has such a field.{did_you_mean(name, list(reading.frame.columns))}"
            )
        missing = reading.frame[name].isna().to_numpy()
        if missing.any():
            line = reading.lines[int(missing.argmax())]
            raise DataError(
                f"reward={name!r}: {int(missing.sum()):,} lines do not have it (first: line {line}). Leave them out of "
                "the file, or choose another reward."
            )
    log: BanditLog = reading.log(reward=reward, **options)
    return log if not reading.n_bad else replace(log, notes=(*log.notes, _left_out(reading)))


def _left_out(reading: Reading) -> str:
    """What is not in the log."""
    return f"{reading.n_bad:,} lines could not be read and were left out (first: {reading.bad[0]})"


@checks_arguments
def read_router(path: str | Path, *, fields: Mapping[str, str] | None = None, on_error: OnError = "report") -> Reading:
    """Read the same file as a table, with the lines that could not be used.

    Parameters
    ----------
    path, fields
        As in `read_router_log`.
    on_error : {"report", "raise"}
        Collect bad lines with their numbers in ``.bad``, or stop at the first.
    """
    given = dict(fields or {})
    for name in given:
        if name not in FIELDS:
            raise UsageError(f"fields=: there is no field {name!r}.{did_you_mean(name, FIELDS)}")
    reading = read_lines(path, partial(request_of, {n: given.get(n, n) for n in FIELDS}), on_error, "quality")
    return _with_whole_lines(reading)


def request_of(names: Mapping[str, str], event: dict[str, Any]) -> dict[str, Any]:
    """One request as a row."""
    candidates = event[names["candidates"]]
    labels = list(candidates) if isinstance(candidates, dict | list) else None
    if not labels or not all(isinstance(c, str | int) and not isinstance(c, bool) for c in labels):
        raise DataError(f"the candidates {candidates!r:.60} are not a list of models")
    if len(set(labels)) != len(labels):
        raise DataError("a model is named twice among the candidates")
    chosen = event[names["model"]]
    if isinstance(chosen, list | dict) or chosen not in labels:
        raise DataError(f"the model {chosen!r:.60} is not among the candidates {labels!r:.120}")
    row: dict[str, Any] = {"action": chosen, "eligible": labels}
    propensity = _propensity(candidates, chosen, event.get(names["propensity"]))
    if propensity is not None:
        row["propensity"] = propensity
    for name in OUTCOMES:
        value = event.get(names[name])
        if value is not None:
            row[name] = number_in(value, name)
    known = set(names.values())
    others = {k: v for k, v in event.items() if k not in known and not isinstance(v, list | dict)}
    row |= {k if k not in TAKEN else f"logged.{k}": v for k, v in others.items()}
    context = event.get(names["context"]) or {}
    if not isinstance(context, dict):
        raise DataError(f"the context {context!r:.60} is not an object of named features")
    row["context"] = flatten(context)
    return row


def _propensity(candidates: Any, chosen: Any, said: Any) -> float | None:
    """The probability of the chosen model, from its own field or from the candidates' mapping."""
    if isinstance(candidates, dict):
        shares = {c: number_in(p, f"probability of {c}") for c, p in candidates.items()}
        if min(shares.values()) < 0 or not math.isclose(sum(shares.values()), 1, abs_tol=1e-6):
            raise DataError(f"the candidates' probabilities add up to {sum(shares.values()):g}, not 1")
        if said is not None and not math.isclose(number_in(said, "propensity"), shares[chosen], abs_tol=1e-6):
            raise DataError(f"the propensity is {said}, but the candidates give {shares[chosen]} for {chosen!r}")
        said = shares[chosen]
    if said is None:
        return None
    propensity = number_in(said, "propensity")
    if not 0 < propensity <= 1:
        raise DataError(f"the propensity {propensity:g} is not in (0, 1]")
    return propensity


def _with_whole_lines(reading: Reading) -> Reading:
    """Refuse a file in which some lines have a propensity and others do not."""
    frame = reading.frame
    if "propensity" not in frame.columns or not frame["propensity"].isna().any():
        return reading
    without = frame["propensity"].isna().to_numpy()
    line = reading.lines[int(without.argmax())]
    raise DataError(
        f"{int(without.sum()):,} of {len(frame):,} lines have no propensity (first: line {line}). Log it in every "
        "line, or in none to have it estimated."
    )
