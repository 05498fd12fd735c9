"""The commands that lead to a decision: `select`, `learn` and `advise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy.cli import models
from offpolicy.cli.arguments import file_path, names
from offpolicy.cli.flags import STORE_TRUE, add, log_flags, verb

if TYPE_CHECKING:
    import argparse

ADVISE_EXAMPLES = """examples:
  offpolicy advise log.csv --context age --action ad --reward click --propensity p --policy new=choice --width 0.01
  offpolicy advise router.jsonl --policy large=always:large --width 0.02 --exploration 0.05,0.1

exit codes: 0 done, 1 bad data or usage, 4 the log does not answer as it is: do what the table says
"""

SELECT_EXAMPLES = """examples:
  offpolicy select log.csv --context age --action ad --reward click --propensity p \\
      --policy new=choice --policy bold=other_choice
  offpolicy select run.toml --rate 0.01 --json choice.json

of the policies that the log shows to be better than what was done, the one with the highest estimate is adopted; a
policy that is no better is adopted in at most --rate of logs

exit codes: 0 a policy is adopted, 1 bad data or usage, 4 none is shown to be better: keep what you have
"""

LEARN_EXAMPLES = """examples:
  offpolicy learn log.csv --context age,device --action ad --reward click --propensity p --report tree.html
  offpolicy learn run.toml --max-depth 3 --json tree.json --sql tree.sql
  offpolicy evaluate other.csv --context age,device --action ad --reward click --propensity p \\
      --policy learned=tree.json

prints rules that people can read and what they would earn, valued on rows they were not learned from; the value on
their own rows, which is too high, stands beside it

exit codes: 0 done, 1 bad data or usage
"""

REPLAY_EXAMPLES = """examples:
  offpolicy replay log.csv --context age --action ad --reward click --propensity p \\
      --learner linucb --learner epsilon-greedy --blocks day --report learning.html
  offpolicy replay log.parquet … --learner mine=package.module:Learner --blocks 20 --time timestamp

a learner's policy in a block is trained on the blocks before it (--method progressive), or on those rows alone that the
learner would have chosen itself (--method rejection); the first block trains and is not scored

exit codes: 0 done (all gates passed), 1 bad data or usage, 3 a gate failed, 4 not enough evidence to say
"""

LOGGED = {"choices": ("logged", "shares", "auto")}
METRIC = ("--metric", "COL", "which of several rewards decides")
LESS = ("--minimize", None, "less of it is better", STORE_TRUE)
FOLDS = ("--folds", None, "folds for cross-fitting (2)", int)
SEED = ("--seed", None, "every random choice follows from it (0)", int)
REPORT = ("--report", "FILE", "write a self-contained HTML report", file_path)


def add_commands(verbs: Any, evaluate: argparse.ArgumentParser) -> None:
    """Declare them; settings of ``evaluate`` in a run file are passed over."""
    select = verb(
        verbs,
        "select",
        _select,
        "which of several policies to adopt, if any, with a stated rate of wrong adoptions",
        SELECT_EXAMPLES,
    )
    log_flags(select)
    select.set_defaults(elsewhere=evaluate)
    _select_flags(select)

    learn = verb(
        verbs,
        "learn",
        _learn,
        "learn a better policy from a log, as rules, and say honestly what it is worth",
        LEARN_EXAMPLES,
    )
    log_flags(learn)
    learn.set_defaults(elsewhere=evaluate, value_model=None)
    _learn_flags(learn)

    advise = verb(
        verbs, "advise", _advise, "how much exploration, and how many rows, a wanted width takes", ADVISE_EXAMPLES
    )
    log_flags(advise)
    advise.set_defaults(elsewhere=evaluate)
    _advise_flags(advise)

    replay = verb(verbs, "replay", _replay, "what an algorithm that learns would have earned", REPLAY_EXAMPLES)
    log_flags(replay)
    replay.set_defaults(elsewhere=evaluate, value_model=None, segments=None)
    _replay_flags(replay)


def _replay(options: argparse.Namespace) -> int:
    from offpolicy.cli import replaying

    return replaying.run(options)


def _advise(options: argparse.Namespace) -> int:
    from offpolicy.cli import advising

    return advising.run(options)


def _select(options: argparse.Namespace) -> int:
    from offpolicy.cli import deciding

    return deciding.select(options)


def _learn(options: argparse.Namespace) -> int:
    from offpolicy.cli import deciding

    return deciding.learn(options)


def _select_flags(parser: argparse.ArgumentParser) -> None:
    again = {"action": "append"}
    methods = {"choices": ("auto", "smoothing", "exploration", "bernstein", "interval")}
    add(
        parser.add_argument_group("the question"),
        ("--policy", "NAME=SPEC", "a policy to choose from; may be repeated", again),
        ("--rate", None, "of adopting a policy that is no better, at most (0.05)", float),
        ("--method", None, "of the bounds (auto: the tightest that holds for the log)", methods),
        METRIC,
        LESS,
        ("--estimator", "NAME", "whose estimates to show; default: the recommended", again),
        ("--reward-model", None, "default: auto", {"choices": models.REWARD_MODELS}),
        ("--value-model", None, "for episodes", {"choices": models.VALUE_MODELS}),
        ("--discount", None, "γ, for episodes (1)", float),
        ("--behavior-model", None, "as in evaluate", LOGGED),
        FOLDS,
        SEED,
    )
    add(parser.add_argument_group("the answer"), REPORT, ("--json", "FILE", "write the choice as JSON", file_path))


def _learn_flags(parser: argparse.ArgumentParser) -> None:
    objectives = {"choices": ("value", "lower bound")}
    add(
        parser.add_argument_group("the question"),
        ("--learner", None, "rules that people can read, or more (tree)", {"choices": ("tree", "boosted")}),
        ("--max-depth", None, "questions in a row (2)", int),
        ("--min-rows", None, "rows of the log behind every rule (1%% of them, at least 20)", int),
        ("--objective", None, "what an action is chosen by: its mean, or a lower bound of it (value)", objectives),
        METRIC,
        LESS,
        ("--reward-model", None, "default: auto", {"choices": models.REWARD_MODELS}),
        ("--behavior-model", None, "as in evaluate", LOGGED),
        ("--folds", None, "folds for the honest value (5; 3 for a long log)", int),
        SEED,
    )
    add(
        parser.add_argument_group("the answer"),
        REPORT,
        ("--json", "FILE", "write the tree as JSON, which --policy learned=FILE reads", file_path),
        ("--sql", "FILE", "write the tree as an SQL expression", file_path),
    )


def _advise_flags(parser: argparse.ArgumentParser) -> None:
    add(
        parser.add_argument_group("the question"),
        ("--policy", "NAME=SPEC", "a policy to evaluate; may be repeated", {"action": "append"}),
        ("--width", "WIDTH", "of the interval that is wanted; default: half of what the log gives", float),
        ("--exploration", "SHARES", "of decisions drawn uniformly, by commas (0.01 to 0.5)", names),
        ("--reward-model", None, "default: auto", {"choices": models.REWARD_MODELS}),
        ("--value-model", None, "for episodes", {"choices": models.VALUE_MODELS}),
        ("--discount", None, "γ, for episodes (1)", float),
        ("--behavior-model", None, "as in evaluate", {"choices": ("logged", "shares", "auto")}),
        ("--folds", None, "folds for cross-fitting (2)", int),
        ("--seed", None, "every random choice follows from it (0)", int),
        ("--level", None, "level of intervals (0.95)", float),
        ("--json", "FILE", "write the advice as JSON", file_path),
    )


def _replay_flags(parser: argparse.ArgumentParser) -> None:
    again = {"action": "append"}
    add(
        parser.add_argument_group("the question"),
        ("--learner", "NAME", "a word, or name=package.module:Learner; may be repeated", again),
        ("--blocks", "COL or N", "when it learns: a column, or so many blocks by --time"),
        ("--method", None, "(progressive)", {"choices": ("progressive", "rejection")}),
        ("--accept", None, "share of rows that rejection accepts", float),
        METRIC,
        LESS,
        ("--randomized", None, "without propensities: actions were drawn at random", STORE_TRUE),
        ("--estimator", "NAME", "may be repeated; default: the sensible set", again),
        ("--reward-model", None, "default: auto", {"choices": models.REWARD_MODELS}),
        ("--behavior-model", None, "as in evaluate", LOGGED),
        SEED,
    )
    add(
        parser.add_argument_group("the answer"),
        REPORT,
        ("--title", "TEXT", "of the report and the summary"),
        ("--json", "FILE", "write the result as JSON", file_path),
        ("--summary", "FILE", "write a Markdown summary", file_path),
        ("--gate", "TEXT", 'such as "linucb lift > 0"; may be repeated', again),
        ("--level", None, "level of intervals (0.95)", float),
    )
