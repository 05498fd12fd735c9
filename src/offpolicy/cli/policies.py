"""``--policy name=SPEC``: from words on the command line to a policy. Nothing is unpickled."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli.logs import read_frame
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.policies import Fixed, Table, Uniform

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Surface:
    """What a policy on the command line may refer to."""

    columns: list[str]
    actions: tuple[Any, ...]
    context: list[str]
    action: str

    @classmethod
    def of(cls, log: Any) -> Surface:
        """Of a log in memory or a scanned one."""
        if not log.in_memory:
            return cls(
                list(log.table.columns), log.actions, list(log.roles.context), log.roles.action
            )
        columns = [str(c) for c in log.source.columns]
        return cls(columns, log.actions, list(log.context.names or ()), log.names.action)


def parse_policies(specs: Sequence[str] | None, log: Any) -> dict[str, Any]:
    """Resolve every ``name=SPEC``."""
    surface = Surface.of(log)
    if not specs:
        raise UsageError("which policy? Give --policy name=SPEC (see offpolicy evaluate --help).")
    policies: dict[str, Any] = {}
    for text in specs:
        name, separator, spec = text.partition("=")
        if not separator or not name.strip() or not spec.strip():
            raise UsageError(f"--policy {text!r}: write name=SPEC, for example new=recommended_ad.")
        if name.strip() in policies:
            raise UsageError(f"--policy: the name {name.strip()!r} is used twice.")
        policies[name.strip()] = parse_policy(spec.strip(), surface)
    return policies


def parse_policy(spec: str, log: Surface) -> Any:
    """One SPEC."""
    if spec in log.columns:
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
        f"{did_you_mean(spec, log.columns)}"
    )


def _label(text: str, log: Surface) -> Any:
    for label in log.actions:
        if str(label) == text:
            return label
    raise UsageError(f"always:{text}: the log has no such action.{did_you_mean(text, log.actions)}")


def _table(path: str, log: Surface) -> Table:
    frame = read_frame(path)
    if not log.context:
        raise UsageError(f"{path}: a table policy needs context columns (--context).")
    context = [c for c in log.context if c in frame.columns]
    for column in (log.action, "probability"):
        if column not in frame.columns:
            raise UsageError(
                f"{path}: a policy table has context columns, the action column {log.action!r} and "
                f"'probability'. It has {list(frame.columns)}."
            )
    return Table(frame, context=context, action=log.action, probability="probability")


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
