"""TOML run files: the flags of a command, written down.

log = "log.parquet"
context = ["age", "device"]
action = "ad"
reward = "click"
propensity = "p"
estimators = ["DML", "SNIPW"]

[policies]
new = "recommended_ad"

A setting is checked against the flag of the same name. Paths are relative to the run file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli.arguments import file_path, names
from offpolicy.cli.policies import TREE_FILES
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.formats.lines import plain_file
from offpolicy.policies.forms import TABLE_FILES

if TYPE_CHECKING:
    import argparse

RENAMED = {"estimators": "estimator", "policies": "policy", "gates": "gate"}
FILES = (*TABLE_FILES, *TREE_FILES)
REPEATED = {"estimator", "gate", "success"}  # flags that may be given several times are lists here
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def apply(options: argparse.Namespace) -> None:
    """Fill in what the flags leave open from ``--config``, or from a run file in the place of the log."""
    if str(options.log or "").lower().endswith(".toml"):
        if options.config is not None:
            raise UsageError(f"two run files: {options.log} and --config {options.config}.")
        options.config, options.log = options.log, None
    if options.config is None:
        return
    path = Path(options.config)
    settings = _read(path)
    declared = {k: a for k, a in options.parser.declared.items() if k != "config"}
    elsewhere = getattr(options, "elsewhere", options.parser).declared  # settings of `evaluate`
    _check_once(settings, path)
    for key, value in settings.items():
        name = RENAMED.get(key, key).replace("-", "_")
        if name not in declared and name in elsewhere:
            continue
        if name not in declared:
            spellings = {*declared, *RENAMED}
            raise UsageError(f"{path.name}: unknown setting {key!r}.{did_you_mean(key, sorted(spellings))}")
        checked: Any = _policies(value, path) if name == "policy" else _value(key, value, declared[name])
        if declared[name].type is file_path:
            checked = beside(path, checked)
        if getattr(options, name) is None:
            setattr(options, name, checked)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise UsageError(f"there is no run file {str(path)!r}. Make one: offpolicy init LOG --output {path.name}")
    try:
        return tomllib.loads(plain_file(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path.name} is not valid TOML: {error}") from error


def _check_once(settings: dict[str, Any], path: Path) -> None:
    """No setting is there under two names, and none is another run file."""
    said: dict[str, str] = {}
    for key, value in settings.items():
        name = RENAMED.get(key, key).replace("-", "_")
        if name == "config":
            raise UsageError(f"{path.name}: config = {value!r}: a run file cannot name another one.")
        if said.setdefault(name, key) != key:
            raise UsageError(f"{path.name}: {said[name]} and {key} are one setting. Keep one of them.")


def beside(path: Path, given: str) -> str:
    """A path of a run file: relative to the file, wherever it is run from."""
    return given if Path(given).is_absolute() else str(path.parent / given)


def _policies(value: Any, path: Path) -> list[str]:
    if not isinstance(value, dict):
        raise UsageError('[policies] must be a table of name = "spec".')
    specs = []
    for name, spec in value.items():
        text = ",".join(spec) if _all_text(spec) else spec
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"[policies] {name} = {spec!r}: must be text in quotes.")
        specs.append(f"{name}={beside(path, text) if text.lower().endswith(FILES) else text}")
    return specs


def _all_text(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def _value(key: str, value: Any, flag: argparse.Action) -> Any:
    """A setting as the flag would give it."""
    if flag.type is names or flag.dest in REPEATED:
        if isinstance(value, str) and flag.type is names:
            return names(value)
        entries = value if isinstance(value, list) else [value]
        if not all(isinstance(v, str) for v in entries) and flag.type is names:
            entries = [_label(v) for v in entries]
        if flag.dest == "gate":  # what is no gate is said where gates are read
            return entries
        if not _all_text(entries):
            raise UsageError(f"{key} = {value!r}: must be text in quotes, or a list of such.")
        return entries
    kind: Any = bool if flag.nargs == 0 else flag.type if flag.type in {int, float} else str
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        value = _moment(value)  # TOML has dates, which flags take as text
    if type(value) is not kind:
        raise UsageError(f"{key} = {value!r}: must be {WORDS[kind]}.")
    if flag.choices is not None and value not in flag.choices:
        choices = [str(c) for c in flag.choices]
        raise UsageError(
            f"{key} = {value!r}: must be one of {', '.join(map(repr, choices))}. Other models: use the library "
            "from Python."
            if key.endswith("_model")
            else f"{key} = {value!r}: must be one of {', '.join(map(repr, choices))}."
        )
    return value


def _label(value: Any) -> Any:
    """Numbers and truth values among labels, as one would write them after a flag."""
    return str(value) if isinstance(value, int | float) else value


def _moment(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
