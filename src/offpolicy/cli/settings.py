"""Every setting of the command line, declared once: flags, help, keys of run files, and arguments of the library.

`build_parser` makes argparse of it, `runfile` checks TOML against it, and `terminal.in_flags` speaks in flags.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

REWARD_MODELS = ("auto", "linear", "lightgbm", "paper")
VALUE_MODELS = ("tabular", "fitted-q")
BEHAVIOR_MODELS = ("logged", "shares", "auto")
PROPENSITY_UNITS = ("probability", "percent")
#: Formats of `offpolicy convert` besides tables.
TRACES = ("dsjson", "jsonl")
READABLE = (*TRACES, "router")
#: Roles that `offpolicy init` may be told instead of guessing.
GIVEN = ("action", "reward", "propensity", "cluster", "time", "episode", "step")


def names(text: str) -> list[str]:
    """Comma-separated names."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("an empty list of names was given.")
    return parts


def file_path(text: str) -> str:
    """A file to read or write; in a run file it is relative to that file."""
    if not text.strip():
        raise UsageError("an empty file name was given.")
    return text


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes
    ----------
    name : str
        Of its value; the flag has dashes.
    commands : set of str
    group : str
        The heading of the help under which it stands.
    metavar, help : str
        What its value is called, and what it is for.
    kind : callable
        From the text of the flag to its value; `bool` is a flag without one.
    choices : tuple of str
    again : bool
        Whether the flag may be repeated, which gives a list.
    argument : str
        The argument of the library that it stands for, which run files may say as well; "" where there is none.
    more : dict
        Further words for argparse.
    """

    name: str
    commands: frozenset[str]
    group: str
    metavar: str
    help: str
    kind: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    again: bool = False
    argument: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, parser: Any) -> None:
        """Declare it to argparse."""
        how: dict[str, Any] = {"help": self.help, "choices": self.choices or None}
        if self.kind is bool:  # None: not said, a run file may say it
            how = {"help": self.help, "action": "store_true", "default": None}
        elif self.kind is not str:
            how["type"] = self.kind
        if self.metavar:
            how["metavar"] = self.metavar
        if self.again:
            how["action"] = "extend" if self.kind is names else "append"
        more = {"flag": f"--{self.name.replace('_', '-')}", **self.more}
        parser.add_argument(more.pop("flag"), **how, **more)


AGAIN = {"again": True}


def _settings(group: str, commands: str, *rows: tuple[Any, ...]) -> list[Setting]:
    """Settings of some commands from rows (name, what its value is called, help, kind or choices or more, …).

    "context=" stands for the library's argument of that name, "policy=policies" for one of another name.
    """
    made = []
    for name, metavar, text, *rest in rows:
        own, equals, other = name.partition("=")
        fields: dict[str, Any] = {"argument": other or own} if equals else {}
        for extra in rest:
            fields |= extra if isinstance(extra, dict) else {"choices" if isinstance(extra, tuple) else "kind": extra}
        made.append(Setting(own, frozenset(commands.split()), group, metavar, text, **fields))
    return made


def _per_command(group: str, *rows: tuple[Any, ...]) -> list[Setting]:
    """The same from rows that begin with the commands."""
    return [setting for commands, *row in rows for setting in _settings(group, commands, tuple(row))]


LOGS = "evaluate check select learn advise replay convert"
PART = "partly observed rewards"
EPISODES = "episodes instead of single decisions"
SLATES = "slates: several items shown together, one row per slot"
LARGER = "logs larger than memory"
ASKED, ANSWER = "the question", "the answer"
DESCRIBED = {PART: "for the first --reward", LARGER: "used automatically for patterns, folders and databases"}
LOG = "a CSV, Parquet, JSON-lines or dsjson file, a quoted pattern, or a run file (.toml)"
GATES = 'such as "lift > 0", "new - old > 0", "revenue lift > 0 and cost lift < 2%%"; repeat it for several gates'
INTERACTIONS = ("independent", "cascade", "full", "additive", "auto")
BOUNDS = ("auto", "smoothing", "exploration", "bernstein", "interval")
DECIDING = "select learn advise replay"

SETTINGS: tuple[Setting, ...] = (
    *_settings(
        "the log", LOGS,
        ("log", "LOG", LOG, file_path, {"more": {"flag": "log", "nargs": "?"}}),
        ("config", "FILE", "a TOML run file; flags override it"),
        ("context=", "COLS", "context columns, separated by commas", names),
        ("action=", "COL", "the action taken"),
        ("reward=", "COLS", "the reward; several metrics separated by commas, or repeat the flag", names, AGAIN),
        ("success", "WORD", "the reward is 1 where its column has this word, else 0; may be repeated", AGAIN),
        ("cap_reward", "MAX", "cap larger rewards at this value and report how many", float),
        ("propensity=", "COL", "probability of the logged action, or one column per action", names),
        ("propensity_unit", "", "percent if propensities go from 0 to 100 (default: probability)", PROPENSITY_UNITS),
        ("batch=", "COL", "the logging policy is constant inside a batch"),
        ("cluster=", "COL", "unit of independence, such as the user"),
        ("time=", "COL", "dates or times; days become batches where --batch is not given"),
        ("time_format", "FORMAT", 'how --time is written, such as "%%d.%%m.%%Y %%H:%%M"; default: ISO 8601'),
        ("weight=", "COL", "analysis weights"),
        ("keep_probability=", "COL", "probability that a subsampled log kept the row"),
        ("actions=", "LABELS", "all actions, including those never logged; for numbers LOW,HIGH", names),
        ("action_kind=", "", "discrete (labels), or continuous: prices, bids, doses, with --propensity their density",
         ("discrete", "continuous")),
        ("eligible=", "COL", "list of eligible actions in each row (Parquet)"),
        ("separator", "CHAR", "column separator of a CSV; default: guessed from its first line"),
        ("decimal", "CHAR", "decimal sign of a CSV: ',' for numbers such as 0,5", (".", ",")),
    ),
    *_settings(
        PART, LOGS,
        ("proxies=", "COLS", "outcomes every row has after its action, such as a judge's score", names),
        ("label_probability", "P", "probability that a row is labeled: a column, a number, or 'fitted'"),
        ("delay_time", "COL", "time from the action to the reward; empty if it has not come yet"),
        ("age=", "COL", "time since the action, in the same unit"),
        ("window=", "LENGTH", "count rewards that come within this time", float),
    ),
    *_settings(
        EPISODES, LOGS,
        ("episode=", "COL", "which episode a row (a step) belongs to"),
        ("step=", "COL", "0, 1, 2, … inside each episode"),
        ("state=", "COLS", "state columns, separated by commas", names),
        ("terminated=", "COL", "true at the step that ends an episode"),
        ("truncated=", "HOW", "bootstrap, cut or end; or a column, true where an episode was cut off"),
        ("horizon=", "STEPS", "evaluate at most this many steps", int),
    ),
    *_settings(
        SLATES, LOGS,
        ("slate=", "COL", "which slate a row (a slot) belongs to"),
        ("position=", "COL", "1, 2, 3, … inside each slate"),
        ("interaction=", "",
         "what a slot's reward depends on: its own item, those above, all, a sum, or look (cascade)", INTERACTIONS),
        ("reward_of=", "", "whether a row's reward is its slot's or repeats its slate's", ("slot", "slate")),
        ("candidates=", "COL", "list of the items that a slot could show (Parquet)"),
    ),
    *_settings(
        LARGER, LOGS,
        ("engine=", "NAME", "duckdb, spark (local) or spark://host:port"),
        ("memory_limit=", "SIZE", "DuckDB's memory limit, such as 2GB"),
        ("id=", "COL", "identifies rows; folds are a hash of it"),
        ("table=", "NAME", "table of a database file"),
        ("network", "", "read a log such as s3://… or https://…", bool),
    ),
    *_per_command(
        ASKED,
        ("evaluate advise", "policy=policies", "NAME=SPEC", "a policy to evaluate; may be repeated", AGAIN),
        ("select", "policy=policies", "NAME=SPEC", "a policy to choose from; may be repeated", AGAIN),
        ("select", "rate", "", "highest allowed rate of adopting a policy that is no better (0.05)", float),
        ("select", "method", "", "method of the bounds (auto: the tightest that is valid for the log)", BOUNDS),
        ("learn", "learner", "", "readable rules, or boosted regressions (tree)", ("tree", "boosted")),
        ("learn", "max_depth", "", "depth of the tree (2)", int),
        ("learn", "min_rows", "", "rows of the log behind every rule (1%% of the log, at least 20)", int),
        ("learn", "objective", "", "choose actions by their mean or by its lower bound (value)",
         ("value", "lower bound")),
        ("replay", "learner", "NAME", "a word, or name=package.module:Learner; may be repeated", AGAIN),
        ("replay", "blocks", "COL or N", "when to learn: after each value of a column, or N blocks by --time"),
        ("replay", "method", "", "(progressive)", ("progressive", "rejection")),
        ("replay", "accept", "", "share of rows that rejection accepts", float),
        ("advise", "width", "WIDTH", "width of the interval you want; default: half the width from this log", float),
        ("advise", "exploration", "SHARES", "shares of decisions drawn uniformly (0.01 to 0.5)", names),
        ("select learn replay", "metric", "COL", "the reward that decides, if there are several"),
        ("select learn replay", "minimize=", "", "lower is better", bool),
        ("evaluate replay", "estimator=estimators", "NAME", "may be repeated; default: a recommended set", AGAIN),
        ("select", "estimator=estimators", "NAME", "estimator to show; default: the recommended one", AGAIN),
        ("evaluate", "reward_model=", "", "default: auto (chosen inside each fold)", REWARD_MODELS),
        (DECIDING, "reward_model=", "", "default: auto", REWARD_MODELS),
        ("evaluate select advise", "value_model=", "", "for episodes", VALUE_MODELS),
        ("evaluate select advise", "discount=", "", "γ, for episodes (1)", float),
        (DECIDING, "behavior_model=", "", "as in evaluate", BEHAVIOR_MODELS),
        ("evaluate", "bandwidth=", "WIDTH", "width of the window around a policy's number (default: automatic)", float),
        ("evaluate", "behavior_model=", "", "default: logged propensities if there are any, else auto",
         BEHAVIOR_MODELS),
        ("evaluate", "train_before", "DATE", "train the reward model on earlier rows (--time), evaluate later ones"),
        ("evaluate", "minimize=", "", "the reward is a cost: lower is better", bool),
        ("evaluate", "minimize_metric", "COLS", "metrics to minimize", names, AGAIN),
        ("evaluate replay", "randomized=", "", "without propensities: actions were drawn at random", bool),
        ("evaluate", "gamma=", "", "without propensities: factor by which hidden causes change the odds", float),
        ("evaluate", "learned_elsewhere=", "NAMES", "policies that were not learned from these rows", names, AGAIN),
        ("evaluate select advise", "folds=", "", "folds for cross-fitting (2; 5 for episodes with many states)", int),
        ("learn", "folds=", "", "folds for the honest value (5; 3 for a long log)", int),
        ("evaluate", "repeats=", "", "redraw the folds this many times (1)", int),
        (f"evaluate {DECIDING}", "seed=", "", "seed of every random choice (0)", int),
        ("evaluate", "jobs=n_jobs", "", "threads for fitting models", int),
    ),
    *_per_command(
        ANSWER,
        ("evaluate select learn replay", "report", "FILE", "write a self-contained HTML report", file_path),
        ("evaluate replay", "title=", "TEXT", "title of the report and the summary"),
        ("evaluate", "segments=", "COLS", "context columns to show the value by (report, JSON, summary)", names),
        ("evaluate", "traffic", "TEXT", 'such as "2M per month", to show what the difference adds up to'),
        ("evaluate", "json", "FILE", "write the result as JSON (see offpolicy schema)", file_path),
        ("evaluate", "summary", "FILE", "write a Markdown summary; GITHUB_STEP_SUMMARY gets it too", file_path),
        ("evaluate", "gate=gates", "EXPR", GATES, AGAIN),
        ("evaluate", "gate_estimator", "NAME", "the estimator that gates use"),
        ("evaluate", "require", "", "let no gate pass unless the verdict is trust (by default caution is enough)",
         ("trust",)),
        ("evaluate", "level=", "", "level of intervals and gate (0.95)", float),
        ("check", "json", "FILE", "write the findings as JSON", file_path),
        ("select", "json", "FILE", "write the choice as JSON", file_path),
        ("learn", "json", "FILE", "write the tree as JSON, which --policy learned=FILE reads", file_path),
        ("learn", "sql", "FILE", "write the tree as an SQL expression", file_path),
        ("replay", "json", "FILE", "write the result as JSON", file_path),
        ("replay", "summary", "FILE", "write a Markdown summary", file_path),
        ("replay", "gate=gates", "TEXT", 'such as "linucb lift > 0"; may be repeated', AGAIN),
        ("advise", "json", "FILE", "write the advice as JSON", file_path),
        ("advise", "label_plan", "FILE", "write which rows to label, with which probability, as CSV", file_path),
        ("advise replay", "level=", "", "level of intervals (0.95)", float),
    ),
    *_per_command(
        "",
        ("convert", "output", "", "the file to write", {"more": {"flag": "output", "nargs": "?"}}),
        ("convert", "source", "", "format of the log", READABLE, {"more": {"flag": "--from", "dest": "source"}}),
        ("convert", "target", "", "format to write", TRACES, {"more": {"flag": "--to", "dest": "target"}}),
        ("convert", "strict", "", "stop at the first bad line", bool),
        ("init", "log", "", "a CSV, Parquet, JSON-lines or dsjson file", {"more": {"flag": "log"}}),
        ("init", "output", "FILE", "file to write (run.toml)", {"more": {"default": "run.toml"}}),
        *(("init", role, "COL", f"the {role} column, if you know it") for role in GIVEN if role != "reward"),
        ("init", "reward", "COLS", "the reward column, or several separated by commas", names, AGAIN),
        ("init", "force", "", "overwrite an existing file", bool),
        ("demo", "impressions", "", "rows to simulate (200000)", int, {"more": {"default": 200_000}}),
        ("demo", "seed", "", "seed of the simulation (0)", int, {"more": {"default": 0}}),
        ("demo", "report", "FILE", "write the HTML report of the simulated log"),
    ),
)  # fmt: skip


def of_command(command: str) -> dict[str, Setting]:
    """The settings of a command, by name."""
    return {s.name: s for s in SETTINGS if command in s.commands}


def given(options: argparse.Namespace, *asked: str) -> dict[str, Any]:
    """Values of some settings by their names, those that were given."""
    return {name: value for name in asked if (value := getattr(options, name)) is not None}
