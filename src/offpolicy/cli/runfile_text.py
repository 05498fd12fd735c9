"""The text of a run file: settings with what was seen beside them, ready to be changed by hand."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING

from offpolicy._visible import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.cli.columns import ColumnFacts
    from offpolicy.cli.files import Table
    from offpolicy.cli.guess import Guess

SINGLE = ("action", "reward", "success", "propensity", "cluster", "episode", "step", "terminated")
WIDTH = 36


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
        "# Paths are relative to this file. Flags of the command line override what is here.",
        "",
        setting("log", log, f"{table.kind}, {len(table.frame):,} rows looked at"),
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
        lines.append('# propensity = "…"  # none was seen: the logging policy is estimated from the context')
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
    # Estimated propensities would be estimated day by day, which is for the owner of the log to say.
    return [line if "propensity" in made.roles else f"# {line}"]


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
