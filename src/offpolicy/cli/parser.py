"""Flags and help texts."""

from __future__ import annotations

import argparse

from offpolicy._version import __version__
from offpolicy.cli import decision_flags, models, studies
from offpolicy.cli.arguments import GIVEN, READABLE, TRACES, Parser, file_path, names
from offpolicy.cli.flags import STORE_TRUE, add, extended, log_flags, verb

EVALUATE_EXAMPLES = """examples:
  offpolicy evaluate log.csv --context age,device --action ad --reward click --propensity p \\
      --policy new=recommended_ad

  offpolicy evaluate 'logs/*.parquet' --context age,device --action ad --reward click --batch hour \\
      --behavior-model shares --policy new=mypackage.policies:choose --estimator DML --estimator SNIPW \\
      --json result.json

  offpolicy init log.csv && offpolicy evaluate run.toml --report report.html

a policy is name=SPEC, where SPEC is one of
  COLUMN                    a column of the log that holds the action the policy would take
  COL_1,COL_2,…             probability columns, one for each action in sorted order
  FILE.csv, FILE.parquet    a table of (context columns, action column, probability)
  TREE.json                 a policy tree, as learned.policy.to_json() writes it
  package.module:function   a function of the context: K probabilities or one label per row
  uniform, always:LABEL     the simplest policies

exit codes: 0 done (all gates passed), 1 bad data or usage, 3 a gate failed, 4 not enough evidence to say
"""

INIT_EXAMPLES = """examples:
  offpolicy init log.csv
  offpolicy init 'log.parquet' --output gate.toml && offpolicy evaluate gate.toml
"""

CONVERT_EXAMPLES = """examples:
  offpolicy convert decisions.json.gz log.parquet --from dsjson
  offpolicy convert log.csv trace.jsonl --to jsonl --context age --action ad --reward click --propensity p
"""

CHECK_EXAMPLES = """example:
  offpolicy check log.parquet --context age,device --action ad --reward click --propensity p --batch hour

exit codes: 0 no alarm, 1 bad data or usage, 3 at least one check raised an alarm
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="offpolicy", description="What would another policy have earned? Off-policy evaluation from logged data."
    )
    parser.add_argument("--version", action="version", version=f"offpolicy {__version__}")
    parser.set_defaults(command=None)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    demo = verb(verbs, "demo", _demo, "evaluate a simulated ad log whose truth is known")
    demo.add_argument("--impressions", type=int, default=200_000, help="rows to simulate (200000)")
    demo.add_argument("--seed", type=int, default=0, help="seed of the simulation (0)")
    demo.add_argument("--report", metavar="FILE", help="write the HTML report of the simulated log")

    begin = verb(verbs, "init", _init, "look at a log and write a run file for it", INIT_EXAMPLES)
    begin.add_argument("log", help="a CSV, Parquet, JSON-lines or dsjson file")
    begin.add_argument("--output", metavar="FILE", default="run.toml", help="file to write (run.toml)")
    for role in GIVEN:
        if role == "reward":
            add(begin, ("--reward", "COLS", "the reward, or several by commas", extended()))
        else:
            begin.add_argument(f"--{role}", metavar="COL", help=f"the {role}, where it is known")
    begin.add_argument("--force", action="store_true", help="write over an existing file")

    evaluate = verb(verbs, "evaluate", _evaluate, "estimate the value of policies from a log", EVALUATE_EXAMPLES)
    log_flags(evaluate)
    _evaluate_flags(evaluate)

    check = verb(verbs, "check", _check, "look for problems in a log", CHECK_EXAMPLES)
    log_flags(check)
    check.set_defaults(elsewhere=evaluate)
    add(check, ("--json", "FILE", "write the findings as JSON", file_path))

    decision_flags.add_commands(verbs, evaluate)

    change = verb(verbs, "convert", _convert, "a log of another format to a table, or back", CONVERT_EXAMPLES)
    log_flags(change)
    change.set_defaults(elsewhere=evaluate)
    change.add_argument("output", nargs="?", help="the file to write")
    change.add_argument("--from", dest="source", choices=list(READABLE), help="format of the log")
    change.add_argument("--to", dest="target", choices=list(TRACES), help="format to write")
    change.add_argument("--strict", action="store_true", help="stop at the first bad line")

    verb(verbs, "schema", _schema, "print the JSON Schema of what --json writes")

    reproduce = verb(verbs, "reproduce", studies.run, "run an installed study, or list them", add_help=False)
    # Studies are looked up, and imported, only when they are asked for: for the list and to run one.
    reproduce.add_argument("-h", "--help", action="store_true", help="list the installed studies")
    reproduce.add_argument("words", nargs=argparse.REMAINDER, metavar="STUDY …")
    bench = verb(verbs, "bench", studies.run_command, "the scoreboard, where it is installed", add_help=False)
    bench.add_argument("-h", "--help", action="store_true", help="the verbs of the scoreboard")
    bench.add_argument("words", nargs=argparse.REMAINDER, metavar="VERB …")
    return parser


# What a command needs is imported when it runs: `offpolicy --help` answers at once.
def _demo(options: argparse.Namespace) -> int:
    from offpolicy.cli import commands

    return commands.demo(options)


def _schema(options: argparse.Namespace) -> int:
    from offpolicy.cli import commands

    return commands.schema(options)


def _evaluate(options: argparse.Namespace) -> int:
    from offpolicy.cli import evaluating

    return evaluating.run(options)


def _init(options: argparse.Namespace) -> int:
    from offpolicy.cli import init

    return init.run(options)


def _convert(options: argparse.Namespace) -> int:
    from offpolicy.cli import convert

    return convert.run(options)


def _check(options: argparse.Namespace) -> int:
    from offpolicy.cli import checking

    return checking.run(options)


def _evaluate_flags(parser: argparse.ArgumentParser) -> None:
    again = {"action": "append"}
    logged = "default: logged propensities when there are any, else auto"
    gates = 'such as "lift > 0", "new - old > 0", "revenue lift > 0 and cost lift < 2%%"; repeat it for several gates'
    rewards = {"choices": models.REWARD_MODELS}
    add(
        parser.add_argument_group("the question"),
        ("--policy", "NAME=SPEC", "a policy to evaluate; may be repeated", again),
        ("--estimator", "NAME", "may be repeated; default: the sensible set", again),
        ("--reward-model", None, "default: auto (chosen inside each fold)", rewards),
        ("--value-model", None, "for episodes", {"choices": models.VALUE_MODELS}),
        ("--discount", None, "γ, for episodes (1)", float),
        ("--bandwidth", "WIDTH", "of the window around a policy's number (chosen by itself)", float),
        ("--behavior-model", None, logged, {"choices": ("logged", "shares", "auto")}),
        ("--train-before", "DATE", "earlier rows (--time) train the reward model, later are evaluated"),
        ("--minimize", None, "the reward is a cost: lower is better", STORE_TRUE),
        ("--minimize-metric", "COLS", "metrics of which less is better", extended()),
        ("--randomized", None, "without propensities: actions were drawn at random", STORE_TRUE),
        ("--gamma", None, "without propensities: factor by which hidden causes move odds", float),
        ("--learned-elsewhere", "NAMES", "policies that were not learned from these rows", extended()),
        ("--folds", None, "folds for cross-fitting (2)", int),
        ("--repeats", None, "redraw the folds this often (1)", int),
        ("--seed", None, "every random choice follows from it (0)", int),
        ("--jobs", None, "threads that fit while scores are made", int),
    )
    add(
        parser.add_argument_group("the answer"),
        ("--report", "FILE", "write a self-contained HTML report", file_path),
        ("--title", "TEXT", "of the report and the summary"),
        ("--segments", "COLS", "context columns to show the value by (report, JSON, summary)", names),
        ("--traffic", "TEXT", 'such as "2M per month", to say what the difference adds up to'),
        ("--json", "FILE", "write the result as JSON (see offpolicy schema)", file_path),
        ("--summary", "FILE", "write a Markdown summary; GITHUB_STEP_SUMMARY gets it too", file_path),
        ("--gate", "EXPR", gates, again),
        ("--gate-estimator", "NAME", "the estimator that gates use"),
        (
            "--require",
            None,
            "let no gate pass unless the verdict is trust (by default caution is enough)",
            {"choices": ("trust",)},
        ),
        ("--level", None, "level of intervals and gate (0.95)", float),
    )
