"""JSON-lines traces: one decision per line, with the probability of the action and of being kept.

    {"context": {"age": 30}, "action": "b", "reward": 1.0, "act_prob": 0.25, "keep_prob": 0.1}

``act_prob`` and ``keep_prob`` may be missing from every line (unknown; kept always), not from some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError
from offpolicy.logs.formats.dsjson import context_dicts
from offpolicy.logs.formats.lines import OnError, Reading, flatten, number_in, read_lines, write_lines
from offpolicy.logs.metrics import need_one_metric

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        raise DataError("rows of this log carry counts, which a trace cannot express. Write rows.")
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
