"""TOML run files: the flags of a command, written down.

log = "log.parquet"
context = ["age", "device"]
action = "ad"
reward = "click"
propensity = "p"
estimators = ["DML", "SNIPW"]

[policies]
new = "recommended_ad"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import argparse

RENAMED = {"estimators": "estimator", "policies": "policy"}
LISTS = {"context", "propensity", "actions", "estimator", "gate"}


def apply(options: argparse.Namespace) -> None:
    """Fill in what the flags leave open from ``--config``."""
    if getattr(options, "config", None) is None:
        return
    path = Path(options.config)
    try:
        with path.open("rb") as file:
            settings = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name} is not valid TOML: {error}") from error
    known = {key for key in vars(options) if key not in {"run", "command", "config"}}
    for key, value in settings.items():
        name = RENAMED.get(key, key).replace("-", "_")
        if name not in known:
            raise UsageError(
                f"{path.name}: unknown setting {key!r}.{did_you_mean(key, sorted(known))}"
            )
        if getattr(options, name) is None:
            setattr(options, name, _value(name, value, path))


def _value(name: str, value: Any, path: Path) -> Any:
    if name == "policy":
        if not isinstance(value, dict):
            raise UsageError('[policies] must be a table of name = "spec".')
        return [f"{k}={v}" for k, v in value.items()]
    if name in LISTS and isinstance(value, str):
        return [value]
    if name == "log" and not Path(str(value)).is_absolute():
        return str(path.parent / str(value))  # relative to the run file, wherever it is run from
    return value
