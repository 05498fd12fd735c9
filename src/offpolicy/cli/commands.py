"""The commands: their one line and examples, what runs each, and the parser that is made of them and their settings."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

from offpolicy._version import __version__
from offpolicy.cli.settings import DESCRIBED, SETTINGS, of_command

CODES = "exit codes: 0 done (all gates passed), 1 bad data or usage, 3 a gate failed, 4 not enough evidence to say"


class Parser(argparse.ArgumentParser):
    """argparse with an exit code of its own for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Exit with 1 and the message."""
        self.print_usage()
        self.exit(1, f"{self.prog}: {message}\n")


@dataclass(frozen=True)
class Command:
    """A command: its name and one line, module and function that run it, examples, and whether any words follow."""

    name: str
    summary: str
    runs: str
    examples: str = ""
    takes_words: bool = False

    def __call__(self, options: argparse.Namespace) -> int:
        """Run it; what it needs is imported now, so that `offpolicy --help` answers at once."""
        module, _, function = self.runs.partition(":")
        code: int = getattr(import_module(f"offpolicy.cli.{module}"), function)(options)
        return code


COMMANDS = (
    Command("demo", "evaluate a simulated ad log whose truth is known", "demo:command"),
    Command(
        "init",
        "look at a log and write a run file for it",
        "init:run",
        """examples:
  offpolicy init log.csv
  offpolicy init 'log.parquet' --output gate.toml && offpolicy evaluate gate.toml
""",
    ),
    Command(
        "evaluate",
        "estimate the value of policies from a log",
        "evaluate:run",
        f"""examples:
  offpolicy evaluate log.csv --context age,device --action ad --reward click --propensity p \\
      --policy new=recommended_ad

  offpolicy evaluate 'logs/*.parquet' --context age,device --action ad --reward click --batch hour \\
      --behavior-model shares --policy new=mypackage.policies:choose --estimator DML --estimator SNIPW \\
      --json result.json

  offpolicy init log.csv && offpolicy evaluate run.toml --report report.html

a policy is name=SPEC, where SPEC is one of
  COLUMN                    a column of the log that holds the action the policy would take
  COL_1,COL_2,…             probability columns, one for each action in sorted order
  FILE.csv, FILE.parquet    a table of context columns, the action column and its probability
  TREE.json                 a policy tree written by learned.policy.to_json()
  package.module:function   a function of the context: K probabilities or one label per row
  uniform, always:LABEL     the simplest policies

{CODES}
""",
    ),
    Command(
        "check",
        "look for problems in a log",
        "evaluate:check",
        """example:
  offpolicy check log.parquet --context age,device --action ad --reward click --propensity p --batch hour

exit codes: 0 no alarm, 1 bad data or usage, 3 at least one check raised an alarm
""",
    ),
    Command(
        "select",
        "which of several policies to adopt, if any, with a stated rate of wrong adoptions",
        "deciding:select",
        """examples:
  offpolicy select log.csv --context age --action ad --reward click --propensity p \\
      --policy new=choice --policy bold=other_choice
  offpolicy select run.toml --rate 0.01 --json choice.json

adopts the policy with the highest estimate among those that the log shows to be better than the current one; adopts
a policy that is no better in at most --rate of logs

exit codes: 0 a policy is adopted, 1 bad data or usage, 4 none is shown to be better: keep the current policy
""",
    ),
    Command(
        "learn",
        "learn a better policy from a log, as readable rules with an honest value",
        "deciding:learn",
        """examples:
  offpolicy learn log.csv --context age,device --action ad --reward click --propensity p --report tree.html
  offpolicy learn run.toml --max-depth 3 --json tree.json --sql tree.sql
  offpolicy evaluate other.csv --context age,device --action ad --reward click --propensity p \\
      --policy learned=tree.json

prints readable rules and their value on rows they were not learned from, next to their value on the training rows,
which is too high

exit codes: 0 done, 1 bad data or usage
""",
    ),
    Command(
        "advise",
        "how much exploration and how many rows you need for an interval of a given width",
        "deciding:advise",
        """examples:
  offpolicy advise log.csv --context age --action ad --reward click --propensity p --policy new=choice --width 0.01
  offpolicy advise router.jsonl --policy large=always:large --width 0.02 --exploration 0.05,0.1

exit codes: 0 done, 1 bad data or usage, 4 this log cannot answer yet: follow the table
""",
    ),
    Command(
        "replay",
        "what an algorithm that learns would have earned",
        "deciding:replay",
        f"""examples:
  offpolicy replay log.csv --context age --action ad --reward click --propensity p \\
      --learner linucb --learner epsilon-greedy --blocks day --report learning.html
  offpolicy replay log.parquet … --learner mine=package.module:Learner --blocks 20 --time timestamp

trains a learner on all earlier blocks (--method progressive), or only on rows where the learner would have taken
the logged action (--method rejection); the first block is for training and is not scored

{CODES}
""",
    ),
    Command(
        "convert",
        "convert a log from another format to a table, or back",
        "convert:run",
        """examples:
  offpolicy convert decisions.json.gz log.parquet --from dsjson
  offpolicy convert log.csv trace.jsonl --to jsonl --context age --action ad --reward click --propensity p
""",
    ),
    Command("schema", "print the JSON Schema of what --json writes", "outputs:schema"),
    Command("reproduce", "run a study, or list the installed ones", "studies:run", takes_words=True),
    Command("bench", "the scoreboard of estimators, where it is installed", "studies:run_command", takes_words=True),
)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="offpolicy", description="What would another policy have earned? Off-policy evaluation from logged data."
    )
    parser.add_argument("--version", action="version", version=f"offpolicy {__version__}")
    parser.set_defaults(command=None)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    unsaid = dict.fromkeys(s.name for s in SETTINGS)
    for command in COMMANDS:
        own = verbs.add_parser(
            command.name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog=command.examples,
            add_help=not command.takes_words,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        own.set_defaults(**unsaid, run=command, command=command.name)
        groups: dict[str, Any] = {"": own}
        for setting in of_command(command.name).values():
            if setting.group not in groups:
                groups[setting.group] = own.add_argument_group(setting.group, DESCRIBED.get(setting.group))
            setting.add_to(groups[setting.group])
        if command.takes_words:  # studies are looked up, and imported, only when they are asked for
            own.add_argument("-h", "--help", action="store_true", help="list the installed studies")
            own.add_argument("words", nargs=argparse.REMAINDER, metavar="STUDY …")
    return parser
