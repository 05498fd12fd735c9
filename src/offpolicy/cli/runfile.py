"""TOML run files: the settings of a command, written down.

log = "log.parquet"
context = ["age", "device"]
action = "ad"
reward = "click"
propensity = "p"
estimators = ["DML", "SNIPW"]

[policies]
new = "recommended_ad"

Settings are called as their flags are, or as the library's arguments (see `settings`). Paths are relative to the run
file.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy._visible import visible
from offpolicy.cli.logs import TREE_FILES
from offpolicy.cli.settings import file_path, names, of_command
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.logs.formats.lines import plain_file
from offpolicy.policies.forms import TABLE_FILES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from offpolicy.cli.files import Table
    from offpolicy.cli.guess import Guess
    from offpolicy.cli.init import ColumnFacts
    from offpolicy.cli.settings import Setting

FILES = (*TABLE_FILES, *TREE_FILES)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}
SINGLE = (
    "action", "reward", "success", "propensity", "propensity_unit", "cluster", "episode", "step", "terminated",
)  # fmt: skip
WIDTH = 36


def apply(options: argparse.Namespace) -> None:
    """Fill in what the flags leave open from ``--config``, or from a run file in the place of the log."""
    if str(options.log or "").lower().endswith(".toml"):
        if options.config is not None:
            raise UsageError(f"two run files were given, {options.log} and --config {options.config}. Keep one.")
        options.config, options.log = options.log, None
    if options.config is None:
        return
    path = Path(options.config)
    for key, own, value in _named(path, options.command):
        checked: Any = _policies(value, path) if own.name == "policy" else _value(key, value, own)
        if own.kind is file_path:
            checked = beside(path, checked)
        if getattr(options, own.name) is None:
            setattr(options, own.name, checked)


def _named(path: Path, command: str) -> Iterator[tuple[str, Setting, Any]]:
    """What a run file says: each key, its setting and its value; settings of `evaluate` alone are passed over."""
    declared, elsewhere = _by_key(command), _by_key("evaluate")
    said: dict[str, str] = {}
    for key, value in _read(path).items():
        name = key.replace("-", "_")
        own = declared.get(name) or elsewhere.get(name)
        if own is None:
            raise UsageError(f"{path.name}: unknown setting {key!r}.{did_you_mean(key, sorted(declared))}")
        if own.name == "config":
            raise UsageError(f"{path.name}: config = {value!r}: a run file cannot name another one.")
        if said.setdefault(own.name, key) != key:
            raise UsageError(f"{path.name}: {said[own.name]} and {key} are the same setting. Keep one of them.")
        if name in declared:
            yield key, own, value


def _by_key(command: str) -> dict[str, Setting]:
    """The settings of a command, by each of their keys."""
    own = of_command(command)
    return {s.argument: s for s in own.values() if s.argument} | own


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise UsageError(f"there is no run file {str(path)!r}. Make one: offpolicy init LOG --output {path.name}")
    try:
        return tomllib.loads(plain_file(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path.name} is not valid TOML: {error}") from error


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


def _value(key: str, value: Any, setting: Setting) -> Any:
    """A setting as its flag would give it."""
    if setting.kind is names or setting.again:
        if isinstance(value, str) and setting.kind is names:
            return names(value)
        entries = value if isinstance(value, list) else [value]
        if setting.kind is names:  # numbers and truth values among labels, as one would write them after a flag
            entries = [str(v) if isinstance(v, int | float) else v for v in entries]
        if setting.name == "gate":  # what is no gate is said where gates are read
            return entries
        if not _all_text(entries):
            raise UsageError(f"{key} = {value!r}: must be text in quotes, or a list of texts in quotes.")
        return entries
    kind: Any = setting.kind if setting.kind in WORDS else str
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind and hasattr(value, "isoformat"):
        value = value.isoformat()  # TOML has dates, which flags take as text
    if type(value) is not kind:
        raise UsageError(f"{key} = {value!r}: must be {WORDS[kind]}.")
    if setting.choices and value not in setting.choices:
        other = " For other models, use Python." if key.endswith("_model") else ""
        raise UsageError(f"{key} = {value!r}: must be one of {', '.join(map(repr, setting.choices))}.{other}")
    return value


# -- the text of a run file: settings with what was seen beside them, ready to be changed by hand ----------------------


def quoted(value: str) -> str:
    r"""A TOML string.

    >>> print(quoted('a "b"'))
    "a \"b\""
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    """A TOML key, bare where it may be.

    >>> key("new"), key("my policy")
    ('new', '"my policy"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def setting(name: str, value: object, remark: str = "") -> str:
    """One line: the setting, and what is known of it.

    >>> setting("action", "ad", "3 labels")
    'action = "ad"                        # 3 labels'
    """
    if isinstance(value, list):
        text = f"{name} = [{', '.join(quoted(str(v)) for v in value)}]"
    else:
        text = f"{name} = {quoted(str(value))}"
    return f"{text:<{WIDTH}}  # {visible(remark)}" if remark else text


def run_file(log: str, table: Table, made: Guess, facts: Sequence[ColumnFacts]) -> str:
    """A run file for a log with guessed roles, checked to be TOML."""
    seen = {f.name: f for f in facts}
    lines = [
        "# A run file for offpolicy. Check the roles below, then run:  offpolicy evaluate THIS_FILE",
        "# Paths are relative to this file. Command-line flags override these settings.",
        "",
        setting("log", log, f"{table.kind}, {len(table.frame):,} rows read"),
    ]
    if table.dialect is not None and table.dialect.separator != ",":
        lines.append(setting("separator", table.dialect.separator))
    if table.dialect is not None and table.dialect.decimal != ".":
        lines.append(setting("decimal", table.dialect.decimal))
    lines.append("")
    if table.reading is not None:
        lines.append("# The format says which field is the action, the reward and the propensity.")
    given = {role: made.roles[role] for role in SINGLE if role in made.roles}
    lines += [setting(role, column, _remark(column, seen)) for role, column in given.items()]
    if "propensity" not in made.roles and table.reading is None:
        lines.append('# propensity = "…"  # none was found, so the logging policy is estimated from the context')
    lines += _time(made)
    lines += _context(made, seen)
    lines += _left_out(made)
    policies = made.policies or {"uniform": "uniform"}
    first = next(iter(policies))
    lines += [
        "",
        f"# gate = [{quoted(f'{first} lift > 0')}]  # exit code 3 when it fails, 4 when the log cannot tell",
        '# report = "report.html"',
        '# json = "result.json"',
        "",
        "[policies]  # name = a column of actions, probability columns, table.csv, package.module:function,",
        "            #        uniform, or always:LABEL",
    ]
    lines += [setting(key(name), spec) for name, spec in policies.items()]
    text = "\n".join(lines) + "\n"
    tomllib.loads(text)
    return text


def _remark(column: object, seen: dict[str, ColumnFacts]) -> str:
    known = seen.get(str(column))
    return known.describe() if known is not None else ""


def _time(made: Guess) -> list[str]:
    if "time" not in made.roles:
        return []
    line = setting("time", made.roles["time"], "days become batches: value and checks day by day")
    lines = [line]
    if "time_format" in made.roles:
        lines.append(setting("time_format", made.roles["time_format"]))
    # Estimated propensities would be estimated day by day, which is for the owner of the log to say.
    return lines if "propensity" in made.roles else [f"# {line}" for line in lines]


def _context(made: Guess, seen: dict[str, ColumnFacts]) -> list[str]:
    for role in ("context", "state"):
        columns = made.roles.get(role)
        if not isinstance(columns, list) or not columns:
            continue
        inner = [f"    {quoted(c) + ',':<{WIDTH - 4}}  # {visible(seen[c].describe())}" for c in columns]
        return [f"{role} = [", *inner, "]"]
    return []


def _left_out(made: Guess) -> list[str]:
    if not made.left_out:
        return []
    lines = [f"#   {quoted(c):<{WIDTH - 4}}  {visible(made.why[c])}" for c in made.left_out]
    return ["", "# Left out of the context:", *lines]
