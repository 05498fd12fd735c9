"""Flags and help texts."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from offpolicy import __version__
from offpolicy.cli import commands, convert, studies
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

EVALUATE_EXAMPLES = """examples:
  offpolicy evaluate log.csv --context age,device --action ad --reward click --propensity p \\
      --policy new=recommended_ad

  offpolicy evaluate 'logs/*.parquet' --context age,device --action ad --reward click --batch hour \\
      --behavior-model shares --policy new=mypackage.policies:choose --estimator DML --estimator SNIPW \\
      --json result.json

  offpolicy evaluate --config run.toml

a policy is name=SPEC, where SPEC is one of
  COLUMN                    a column of the log that holds the action the policy would take
  COL_1,COL_2,…             probability columns, one for each action in sorted order
  FILE.csv, FILE.parquet    a table of (context columns, action column, probability)
  package.module:function   a function of the context: K probabilities or one label per row
  uniform, always:LABEL     the simplest policies

exit codes: 0 done (gate passed), 1 bad data or usage, 3 gate failed, 4 not enough evidence to say
"""

CONVERT_EXAMPLES = """examples:
  offpolicy convert decisions.json.gz log.parquet --from dsjson
  offpolicy convert log.csv trace.jsonl --to jsonl --context age --action ad --reward click --propensity p
"""

CHECK_EXAMPLES = """example:
  offpolicy check log.parquet --context age,device --action ad --reward click --propensity p --batch hour
"""


class Parser(argparse.ArgumentParser):
    """argparse, but with the exit code of the design for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Exit with 1 and the message."""
        self.print_usage()
        self.exit(1, f"{self.prog}: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="offpolicy",
        description="What would another policy have earned? Off-policy evaluation from logged data.",
    )
    parser.add_argument("--version", action="version", version=f"offpolicy {__version__}")
    parser.set_defaults(command=None)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    demo = _verb(verbs, "demo", commands.demo, "evaluate a simulated ad log whose truth is known")
    demo.add_argument("--impressions", type=int, default=200_000, help="rows to simulate (200000)")
    demo.add_argument("--seed", type=int, default=0, help="seed of the simulation (0)")

    evaluate = _verb(
        verbs,
        "evaluate",
        commands.evaluate,
        "estimate the value of policies from a log",
        EVALUATE_EXAMPLES,
    )
    _log_flags(evaluate)
    _evaluate_flags(evaluate)

    check = _verb(verbs, "check", commands.check, "look for problems in a log", CHECK_EXAMPLES)
    _log_flags(check)
    check.add_argument("--json", metavar="FILE", help="write the findings as JSON")

    change = _verb(
        verbs,
        "convert",
        convert.run,
        "a log of another format to a table, or back",
        CONVERT_EXAMPLES,
    )
    _log_flags(change)
    change.add_argument("output", nargs="?", help="the file to write")
    change.add_argument(
        "--from", dest="source", choices=list(convert.READERS), help="format of the log"
    )
    change.add_argument(
        "--to", dest="target", choices=list(convert.WRITERS), help="format to write"
    )
    change.add_argument("--strict", action="store_true", help="stop at the first bad line")

    lines = "\n".join(f"  {name:10}{text}" for name, text in studies.SUMMARIES.items())
    reproduce = _verb(
        verbs,
        "reproduce",
        studies.run,
        "run a study",
        f"studies:\n{lines}\n\nits own flags: offpolicy reproduce STUDY --help\n",
    )
    reproduce.add_argument("study", metavar="STUDY", help="one of those below")
    reproduce.add_argument("rest", nargs=argparse.REMAINDER, metavar="…", help="flags of the study")
    return parser


def _verb(
    verbs: Any, name: str, run: Callable[..., int], summary: str, epilog: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, command=name)
    return parser


def _log_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the log")
    group.add_argument("log", nargs="?", help="a CSV or Parquet file, or a quoted pattern of them")
    group.add_argument("--config", metavar="FILE", help="a TOML run file; flags override it")
    group.add_argument("--context", type=names, metavar="COLS", help="context columns, by commas")
    group.add_argument("--action", metavar="COL", help="the action taken")
    group.add_argument("--reward", metavar="COL", help="what it earned")
    group.add_argument(
        "--propensity",
        type=names,
        metavar="COL",
        help="probability of the logged action, or K columns",
    )
    group.add_argument(
        "--batch", metavar="COL", help="the logging policy is constant inside a batch"
    )
    group.add_argument("--cluster", metavar="COL", help="unit of independence, such as the user")
    group.add_argument("--weight", metavar="COL", help="analysis weights")
    group.add_argument("--keep-probability", metavar="COL", help="of a subsampled log")
    group.add_argument(
        "--actions", type=names, metavar="LABELS", help="all actions, also never logged"
    )
    group.add_argument(
        "--eligible", metavar="COL", help="list of eligible actions, row by row (Parquet)"
    )
    steps = parser.add_argument_group("episodes instead of single decisions")
    steps.add_argument("--episode", metavar="COL", help="which episode a row (a step) belongs to")
    steps.add_argument("--step", metavar="COL", help="0, 1, 2, … inside each episode")
    steps.add_argument("--state", type=names, metavar="COLS", help="state columns, by commas")
    steps.add_argument("--terminated", metavar="COL", help="true at the step that ends an episode")
    large = parser.add_argument_group(
        "logs larger than memory", "patterns, folders and databases are read so by themselves"
    )
    large.add_argument(
        "--engine", metavar="NAME", help="duckdb, spark (local) or spark://host:port"
    )
    large.add_argument("--memory-limit", metavar="SIZE", help="of DuckDB, such as 2GB")
    large.add_argument("--id", metavar="COL", help="tells rows apart; folds are a hash of it")
    large.add_argument("--table", metavar="NAME", help="table of a database file")


def _evaluate_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the question")
    group.add_argument(
        "--policy",
        action="append",
        metavar="NAME=SPEC",
        help="a policy to evaluate; may be repeated",
    )
    group.add_argument(
        "--estimator",
        action="append",
        metavar="NAME",
        help="may be repeated; default: the sensible set",
    )
    group.add_argument(
        "--reward-model",
        choices=list(commands.REWARD_MODELS),
        help="default: auto (chosen inside each fold)",
    )
    group.add_argument("--value-model", choices=list(commands.VALUE_MODELS), help="for episodes")
    group.add_argument("--discount", type=float, help="γ, for episodes (1)")
    group.add_argument(
        "--behavior-model",
        choices=["logged", "shares", "auto"],
        help="default: logged propensities when there are any, else auto",
    )
    group.add_argument("--folds", type=int, help="folds for cross-fitting (2)")
    group.add_argument("--repeats", type=int, help="redraw the folds this often (1)")
    group.add_argument("--seed", type=int, help="every random choice follows from it (0)")
    group.add_argument("--jobs", type=int, help="threads that fit while scores are made")
    out = parser.add_argument_group("the answer")
    out.add_argument("--report", metavar="FILE", help="write a self-contained HTML report")
    out.add_argument("--json", metavar="FILE", help="write the result as versioned JSON")
    out.add_argument(
        "--gate", metavar="EXPR", help='such as "lift > 0", "value > 0.02", "new - old > 0"'
    )
    out.add_argument("--gate-estimator", metavar="NAME", help="the estimator the gate looks at")
    out.add_argument("--level", type=float, help="level of intervals and gate (0.95)")


def names(text: str) -> list[str]:
    """Comma-separated names."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("an empty list of names was given.")
    return parts
