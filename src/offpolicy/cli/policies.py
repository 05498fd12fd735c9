"""``--policy name=SPEC``: from words on the command line to a policy. Nothing is unpickled."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli.logs import read_frame
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.policies import Fixed, Table, Uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.data.bandit import BanditLog


def parse_policies(specs: Sequence[str] | None, log: BanditLog) -> dict[str, Any]:
    """Resolve every ``name=SPEC``."""
    if not specs:
        raise UsageError("which policy? Give --policy name=SPEC (see offpolicy evaluate --help).")
    policies: dict[str, Any] = {}
    for text in specs:
        name, separator, spec = text.partition("=")
        if not separator or not name.strip() or not spec.strip():
            raise UsageError(f"--policy {text!r}: write name=SPEC, for example new=recommended_ad.")
        if name.strip() in policies:
            raise UsageError(f"--policy: the name {name.strip()!r} is used twice.")
        policies[name.strip()] = parse_policy(spec.strip(), log)
    return policies


def parse_policy(spec: str, log: BanditLog) -> Any:
    """One SPEC."""
    columns = list(log.source.columns)
    if spec in columns:
        return spec
    if spec == "uniform":
        return Uniform()
    if spec.startswith("always:"):
        return Fixed(_label(spec.removeprefix("always:"), log))
    if spec.lower().endswith((".csv", ".csv.gz", ".parquet", ".pq")):
        return _table(spec, log)
    if "," in spec:
        return [part.strip() for part in spec.split(",")]
    if ":" in spec:
        return _function(spec)
    raise UsageError(
        f"policy {spec!r} is not a column of the log, a file, probability columns or package.module:function."
        f"{did_you_mean(spec, columns)}"
    )


def _label(text: str, log: BanditLog) -> Any:
    for label in log.actions:
        if str(label) == text:
            return label
    raise UsageError(f"always:{text}: the log has no such action.{did_you_mean(text, log.actions)}")


def _table(path: str, log: BanditLog) -> Table:
    frame = read_frame(path)
    if log.context.names is None:
        raise UsageError(f"{path}: a table policy needs context columns (--context).")
    context = [c for c in log.context.names if c in frame.columns]
    for column in (log.names.action, "probability"):
        if column not in frame.columns:
            raise UsageError(
                f"{path}: a policy table has context columns, the action column {log.names.action!r} and "
                f"'probability'. It has {list(frame.columns)}."
            )
    return Table(frame, context=context, action=log.names.action, probability="probability")


def _function(spec: str) -> Any:
    module_name, _, path = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # a policy beside the log is the usual case
    try:
        value: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"policy {spec!r}: cannot import {module_name!r}: {error}") from error
    for part in path.split("."):
        if not hasattr(value, part):
            known = [n for n in dir(value) if not n.startswith("_")]
            raise UsageError(
                f"policy {spec!r}: {module_name} has no {part!r}.{did_you_mean(part, known)}"
            )
        value = getattr(value, part)
    return value
