"""From a file name and flags to a log."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.cli import changes, terminal
from offpolicy.cli.files import SUFFIXES, kind_of, read_table
from offpolicy.cli.settings import given
from offpolicy.engines.files import REMOTE, is_pattern, listed
from offpolicy.errors import UsageError
from offpolicy.logs.bandit import BanditLog
from offpolicy.logs.formats.parquet import row_bytes
from offpolicy.policies.forms import names_module
from offpolicy.policies.protocol import Surface

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from offpolicy.cli.files import Table
    from offpolicy.logs.formats.lines import Reading
    from offpolicy.logs.log import Log, Scan

BOOLEANS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
NAMES = {"i": "integers", "u": "integers", "f": "numbers", "b": "true and false"}
# Columns that tell things apart.
LABELS = ("action", "batch", "cluster", "id", "episode", "slate")
OF_SLATES = ("position", "interaction", "reward_of", "candidates")
OF_EPISODES = ("step", "state", "terminated", "truncated", "horizon")
IN_PART = ("proxies", "label_probability", "delay_time", "age", "window")  # rewards seen in part
BANDIT = ("batch", "keep_probability", "id")  # columns of bandit logs only
MOST_LINES = 10
TREE_FILES = (".json",)
NO_LOG = (
    "which log? Give a CSV, Parquet, JSON-lines or dsjson file (or `log = …` in the run file). "
    "To create a run file: offpolicy init LOG."
)
LARGE = 500_000_000  # bytes of a table that an engine should read


def open_log(options: argparse.Namespace) -> Any:
    """The log in the form that fits it: episodes, a scan where an engine should read it, or rows."""
    if not options.log:
        raise UsageError(NO_LOG)
    check_flags(options)
    if options.engine or (not options.episode and _wants_engine(options)):
        return scanned(options)
    if options.table:
        raise UsageError("--table is for a database file (.duckdb); this file is a single table.")
    table = table_of(options)
    if table.reading is not None and not (options.episode or options.slate):
        return traced(table.reading, options)
    return log_of(changes.apply(table.frame, options), options)


def traced(reading: Reading, options: argparse.Namespace) -> BanditLog:
    """A log that knows its own roles: dsjson or a trace; flags override them."""
    if outcome_of(options) is not None:
        raise UsageError("partly observed rewards are read from a table. Convert the log to Parquet first.")
    roles = given(options, "context", "action", "reward", "cluster", "weight", "eligible", *BANDIT)
    if options.propensity:
        roles["propensity"] = _propensity(options)
    options.reward = options.reward or [reading.reward]
    frame = changes.apply(reading.frame, options)
    if options.batch is not None:  # a day, by now
        roles["batch"] = options.batch
    if options.actions:
        roles["actions"] = _typed(options.actions, frame, roles.get("action", "action"))
    for line in left_out(reading):
        terminal.complain(line)
    log: BanditLog = replace(reading, frame=frame).log(**roles)
    return log


def left_out(reading: Reading) -> list[str]:
    """What a reader of a trace should know of the lines that are not in it."""
    lines = []
    if reading.n_skipped:
        lines.append(f"{reading.n_skipped:,} lines are marked as to be skipped")
    lines += [f"left out: {bad}" for bad in reading.bad[:MOST_LINES]]
    if reading.n_bad > MOST_LINES:
        lines.append(f"left out: {reading.n_bad - MOST_LINES:,} more lines")
    return lines


def check_flags(options: argparse.Namespace) -> None:
    """No flag of the other kind of log is passed over."""
    single = ["batch", "keep_probability", "eligible", "id", "time", "train_before", "action_kind"]
    single += ["bandwidth"]
    wrong = {}
    if options.episode:
        refused = [*single, "slate", *([] if options.engine else ["memory_limit", "table"])]
        refused += ["context"] if options.state else []
        wrong = dict.fromkeys(refused, "is not for episodes (--episode)")
    else:
        wrong = dict.fromkeys(OF_EPISODES, "is for episodes: name their column, --episode")
    if options.slate:
        wrong |= dict.fromkeys(single, "is not for slates (--slate)")
        if not options.position:
            raise UsageError("--slate needs --position, the column with each row's position in its slate.")
    else:
        wrong |= dict.fromkeys(OF_SLATES, "is for slates: name their column, --slate")
    for name, said in wrong.items():
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} {said}.")


def _wants_engine(options: argparse.Namespace) -> bool:
    """Asked for, or many files, a folder, a database, or a file too large to read whole."""
    if options.engine:
        return True
    if options.eligible or options.separator or options.decimal or options.candidates:
        return False
    if REMOTE.match(options.log):
        return True
    file = Path(options.log)
    several = is_pattern(options.log) or file.is_dir()
    database = file.suffix in {".duckdb", ".ddb", ".db"}
    if several or database or not file.is_file():
        return several or database
    is_parquet = SUFFIXES.get(file.suffix.lower()) == "parquet"
    return (row_bytes(options.log) if is_parquet else file.stat().st_size) > LARGE


def scanned(options: argparse.Namespace) -> Any:
    """A log that an engine reads."""
    for flag in ("eligible", "candidates", "separator", "decimal", "train_before"):
        if getattr(options, flag):
            raise UsageError(f"--{flag.replace('_', '-')} needs a file that is read into memory. Leave out --engine.")
    log = _scan_of(options)
    log = changes.apply_scan(log, options)
    if not options.actions:
        return log
    held = log.table.schema()[options.action]
    kinds = {"i": held.is_integer(), "f": held.is_floating(), "b": held.is_boolean()}
    kind = next((k for k, found in kinds.items() if found), "O")
    return log.with_actions(tuple(_as_kind(options.actions, kind, options.action)))


def _scan_of(options: argparse.Namespace) -> Any:
    """The log behind an engine."""
    form = Form.of(options)
    reading = {name: getattr(options, name) for name in ("table", "engine", "memory_limit")}
    return form.scan(options.log, **form.roles, **reading, network=bool(options.network), progress=_stages())


@dataclass(frozen=True)
class Form:
    """What makes a log of the kind that flags speak of: from a frame, by an engine; its roles, and those of frames."""

    from_frame: Callable[..., Any]
    scan: Callable[..., Any]
    roles: dict[str, Any]
    of_frames: dict[str, Any]

    @classmethod
    def of(cls, options: argparse.Namespace, columns: Sequence[Any] = ()) -> Form:
        """Single decisions, episodes or slates; ``columns`` are those of the frame."""
        for flag in ("action", "reward"):
            if getattr(options, flag) is None:
                known = f" Columns: {', '.join(map(str, columns))}" if len(columns) else ""
                raise UsageError(f"--{flag} is missing. Name its column.{known}")

        def named(*names: str) -> dict[str, Any]:
            return {name: getattr(options, name) for name in names}

        roles = {**named("action", "reward", "cluster", "weight"), "propensity": _propensity(options)}
        roles |= {"outcome": outcome_of(options)}
        if options.episode:
            from offpolicy.logs.trajectories import Trajectories

            ends = {"truncated": options.truncated or "raise", "state": options.state or options.context}
            roles |= named("episode", "step", "terminated", "horizon") | ends
            return cls(Trajectories.from_frame, Trajectories.scan, roles, {})
        roles["context"] = options.context
        if options.slate:
            from offpolicy.logs.slates import Slates

            roles |= named("slate", "position", "reward_of") | {"interaction": options.interaction or "cascade"}
            return cls(Slates.from_frame, Slates.scan, roles, named("candidates"))
        from offpolicy.engines.scan import scan

        roles |= named(*BANDIT) | {"action_kind": options.action_kind or "discrete"}
        return cls(BanditLog.from_frame, scan, roles, named("eligible"))


def _stages() -> Any:
    """Show the stages of an engine on standard error, where a person watches."""
    said: set[str] = set()

    def report(stage: str, done: float) -> None:
        if sys.stderr.isatty() and (stage not in said or done >= 1):
            said.add(stage)
            print(f"· {stage} {100 * done:.0f}%", file=sys.stderr, flush=True)

    return report


def frame_of(options: argparse.Namespace) -> Any:
    """The log's table as pandas, with the changes that flags ask for."""
    return changes.apply(table_of(options).frame, options)


def table_of(options: argparse.Namespace) -> Table:
    """The log's table: one file, or all files of a pattern one after the other."""
    if not options.log:
        raise UsageError(NO_LOG)
    are_labels = LABELS[1:] if options.action_kind == "continuous" else LABELS
    labels = [v for name in are_labels if isinstance(v := getattr(options, name), str)]
    given = {"separator": options.separator, "decimal": options.decimal, "labels": labels}
    if not is_pattern(options.log):
        return read_table(options.log, **given)
    paths = listed(options.log)
    together = kind_of(Path(paths[0])) in {"csv", "parquet"}
    first = read_table(options.log if together else paths[0], **given)
    if together or len(paths) == 1:
        return first
    import pandas as pd

    rest = [read_table(p, **given).frame for p in paths[1:]]
    return replace(first, frame=pd.concat([first.frame, *rest], ignore_index=True))


def _propensity(options: argparse.Namespace) -> Any:
    """One column, or one for each action."""
    several = options.propensity
    return several[0] if isinstance(several, list) and len(several) == 1 else several


def log_of(frame: Any, options: argparse.Namespace, actions: Sequence[Any] | None = None) -> Any:
    """Build the log from the flags; ``actions`` stand in for those of the flags."""
    form = Form.of(options, frame.columns)
    labels = actions or _typed(options.actions, frame, options.action)
    return form.from_frame(frame, **form.roles, **form.of_frames, actions=labels)


def outcome_of(options: argparse.Namespace) -> Any:
    """Why rewards are missing, as flags say it; None where they do not."""
    given: dict[str, Any] = {name: getattr(options, name) for name in IN_PART}
    if not any(given.values()):
        return None
    if options.train_before:
        raise UsageError("--train-before needs rewards that are all observed.")
    made: Any
    if given["delay_time"] or given["age"] or given["window"]:
        from offpolicy.kinds.delayed import Delayed

        for name in ("delay_time", "age", "window"):
            if not given[name]:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is missing. Late rewards need --delay-time, --age and --window.")
        if given["label_probability"]:
            raise UsageError("--label-probability is for labels; late rewards have none.")
        made = Delayed(given["delay_time"], given["age"], given["window"], given["proxies"])
    else:
        from offpolicy.kinds.labeled import Labeled

        made = Labeled(given["proxies"], _label_probability(given["label_probability"]))
    return {options.reward[0]: made} if options.reward else made


def _label_probability(given: str | None) -> str | float | None:
    """A number, a column, or None where it is to be fitted."""
    if given in {None, "fitted"}:
        return None
    try:
        return float(str(given))
    except ValueError:
        return given


def _typed(labels: list[str] | None, frame: Any, column: str) -> list[Any] | None:
    """Labels from the command line in the type of the column."""
    if not labels or column not in frame.columns:  # the log says that the column is missing
        return labels
    return _as_kind(labels, frame[column].dtype.kind, column)


def _as_kind(labels: list[str], kind: str, column: str) -> list[Any]:
    make: dict[str, Callable[[str], Any]] = {"i": int, "u": int, "f": float, "b": BOOLEANS.__getitem__}
    try:
        return [make[kind](label) if kind in make else label for label in labels]
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"--actions: {','.join(labels)} does not match column {column!r}, which contains {NAMES[kind]}."
        ) from error


# -- models and policies ----------------------------------------------------------------------------------------------


def models(log: Log | Scan, options: argparse.Namespace) -> dict[str, Any]:
    """The models that were asked for, under the names `evaluate` gives them."""
    own = log.unit_kind.argument
    asked = given(options, "reward_model", "value_model")
    for wrong, kind in (("reward_model", "bandit logs"), ("value_model", "trajectories")):
        if wrong in asked and wrong != own and own not in asked:
            raise UsageError(f"--{wrong.replace('_', '-')} is for {kind}.")
    return {**given(options, own), "behavior_model": behavior(log, options)}


def behavior(log: Log | Scan, options: argparse.Namespace) -> str | None:
    """The behavior model that was asked for; None for the logged propensities."""
    asked: str | None = options.behavior_model
    if asked != "logged":
        return asked
    if not log.has_propensity:
        raise UsageError("--behavior-model logged: the log has no propensities. Name their column with --propensity.")
    return None


def parse_policies(options: argparse.Namespace, log: Log | Scan) -> dict[str, Any]:
    """Resolve every ``--policy name=SPEC``; the words are those of `offpolicy.policies.forms`.

    A module that a policy names is looked for where modules are, then beside the run file, then here.
    """
    if not options.policy:
        raise UsageError("which policy? Give --policy name=SPEC (see offpolicy evaluate --help).")
    surface = Surface.of(log)
    policies: dict[str, Any] = {}
    for text in options.policy:
        name, separator, spec = text.partition("=")
        if not separator or not name.strip() or not spec.strip():  # a label keeps its blanks
            raise UsageError(f"--policy {text!r}: write name=SPEC, for example new=recommended_ad.")
        if not name.isprintable():
            raise UsageError(f"--policy {text!r}: a name is plain text, without control characters.")
        if name.strip() in policies:
            raise UsageError(f"--policy: the name {name.strip()!r} is used twice.")
        if names_module(spec, surface):
            # None in these folders takes the place of one that is installed.
            folders = [*([Path(options.config).resolve().parent] if options.config else []), Path.cwd()]
            sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
            importlib.invalidate_caches()
        if spec.lower().endswith(TREE_FILES):
            policies[name.strip()] = _tree(Path(spec))
        else:
            policies[name.strip()] = log.space.adapted(name.strip(), spec, surface)
    return policies


def _tree(path: Path) -> Any:
    """A tree that `learn_policy` left as JSON."""
    from offpolicy.decide.policies import TreePolicy

    if not path.is_file():
        raise UsageError(f"the policy tree {str(path)!r} does not exist.")
    return TreePolicy.from_json(path.read_text(encoding="utf-8"))
