"""How flags are declared, and those that say what a log is, which most commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from offpolicy.cli.arguments import file_path, names

if TYPE_CHECKING:
    from collections.abc import Callable


def verb(
    verbs: Any, name: str, run: Callable[..., int], summary: str, epilog: str = "", *, add_help: bool = True
) -> argparse.ArgumentParser:
    """Declare a command: what runs it, its one line, and the examples under its help."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        add_help=add_help,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, command=name, parser=parser)
    return parser


def add(group: Any, *flags: tuple[str, str | None, str] | tuple[str, str | None, str, Any]) -> None:
    """Add flags given as (name, what its value is called, help, further settings)."""
    for name, metavar, text, *more in flags:
        settings: dict[str, Any] = {} if metavar is None else {"metavar": metavar}
        for extra in more:
            settings |= extra if isinstance(extra, dict) else {"type": extra}
        group.add_argument(name, help=text, **settings)


STORE_TRUE = {"action": "store_true", "default": None}  # None: not said, a run file may say it
LOG = "a CSV, Parquet, JSON-lines or dsjson file, a quoted pattern, or a run file (.toml)"


def extended() -> dict[str, Any]:
    """Names by commas, in a flag that may be repeated."""
    return {"type": names, "action": "extend"}


def log_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say what a log is."""
    add(
        parser.add_argument_group("the log"),
        ("log", "LOG", LOG, {"nargs": "?", "type": file_path}),
        ("--config", "FILE", "a TOML run file; flags override it"),
        ("--context", "COLS", "context columns, by commas", names),
        ("--action", "COL", "the action taken"),
        ("--reward", "COLS", "what it earned; several metrics by commas, or repeat it", extended()),
        (
            "--success",
            "WORD",
            "the reward is 1 where its column holds this word, else 0; repeat it for several",
            {"action": "append"},
        ),
        ("--cap-reward", "MAX", "set larger rewards to this; says how many", float),
        ("--propensity", "COL", "probability of the logged action, or K columns", names),
        ("--batch", "COL", "the logging policy is constant inside a batch"),
        ("--cluster", "COL", "unit of independence, such as the user"),
        ("--time", "COL", "dates or times; days become batches where --batch is not given"),
        ("--weight", "COL", "analysis weights"),
        ("--keep-probability", "COL", "of a subsampled log"),
        ("--actions", "LABELS", "all actions, also never logged; of numbers: LOW,HIGH", names),
        (
            "--action-kind",
            None,
            "discrete (labels), or continuous: prices, bids, doses, with --propensity their density",
            {"choices": ("discrete", "continuous")},
        ),
        ("--eligible", "COL", "list of eligible actions, row by row (Parquet)"),
        ("--separator", "CHAR", "of a CSV; default: what its first line shows"),
        ("--decimal", "CHAR", "of a CSV: ',' for numbers such as 0,5", {"choices": (".", ",")}),
    )
    add(
        parser.add_argument_group("rewards seen in part", "of the first --reward"),
        ("--proxies", "COLS", "what every row shows after its action, such as a judge's score", names),
        ("--label-probability", "P", "of a label: a column, a number, or 'fitted'"),
        ("--delay-time", "COL", "how long after the action the reward came; empty: not yet"),
        ("--age", "COL", "how long ago the action was, in the same unit"),
        ("--window", "LENGTH", "rewards count that come within this time", float),
    )
    add(
        parser.add_argument_group("episodes instead of single decisions"),
        ("--episode", "COL", "which episode a row (a step) belongs to"),
        ("--step", "COL", "0, 1, 2, … inside each episode"),
        ("--state", "COLS", "state columns, by commas", names),
        ("--terminated", "COL", "true at the step that ends an episode"),
        ("--truncated", "HOW", "bootstrap, cut or end; or a column, true where an episode was cut off"),
        ("--horizon", "STEPS", "ask for the value of up to so many steps", int),
    )
    add(
        parser.add_argument_group("slates: several items shown together, one row per slot"),
        ("--slate", "COL", "which slate a row (a slot) belongs to"),
        ("--position", "COL", "1, 2, 3, … inside each slate"),
        (
            "--interaction",
            None,
            "what a slot's reward depends on: its own item, those above, all, a sum, or look (cascade)",
            {"choices": ("independent", "cascade", "full", "additive", "auto")},
        ),
        (
            "--reward-of",
            None,
            "whether a row's reward is its slot's or repeats its slate's",
            {"choices": ("slot", "slate")},
        ),
        ("--candidates", "COL", "list of the items a slot could show (Parquet)"),
    )
    larger = parser.add_argument_group(
        "logs larger than memory", "patterns, folders and databases are read so by themselves"
    )
    add(
        larger,
        ("--engine", "NAME", "duckdb, spark (local) or spark://host:port"),
        ("--memory-limit", "SIZE", "of DuckDB, such as 2GB"),
        ("--id", "COL", "tells rows apart; folds are a hash of it"),
        ("--table", "NAME", "table of a database file"),
    )
    larger.add_argument("--network", action="store_true", default=None, help="read a log such as s3://… or https://…")
