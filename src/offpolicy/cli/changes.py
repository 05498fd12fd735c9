"""Changes to a log that flags ask for: success words as 0 and 1, a cap on rewards, days from a time column.

Each is made the same way on a frame and on a table behind an engine, and each says how many rows it changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offpolicy.cli import terminal
from offpolicy.errors import DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    import argparse

    from offpolicy.engines.scan import LogScan

YES = (
    "yes",
    "y",
    "true",
    "t",
    "1",
    "success",
    "click",
    "clicked",
    "converted",
    "ja",
    "oui",
    "si",
    "sí",
)
MOST_WORDS = 5  # different texts in a reward column that are listed
MOST_ACTIONS = 1_000  # different numbers in an action column that still look like labels


def apply(frame: Any, options: argparse.Namespace) -> Any:
    """The frame with what the flags ask for; flags that name derived columns follow."""
    frame = _success(frame, options)
    _check_actions(frame, options)
    if options.cap_reward is not None:
        column = _column(frame, only_reward(options, "--cap-reward"), "--cap-reward")
        above = int((frame[column] > options.cap_reward).sum())
        frame = frame.assign(**{column: frame[column].clip(upper=options.cap_reward)})
        _say_capped(above, len(frame), options)
    if getattr(options, "time", None):
        frame = _days(frame, options)
    return frame


def _column(frame: Any, name: str | None, flag: str) -> str:
    names = [str(c) for c in frame.columns]
    if name is None:
        raise UsageError(f"{flag} needs --reward: which column holds it?")
    if name not in names:
        raise DataError(f"{flag}: the log has no column {name!r}.{did_you_mean(name, names)}")
    return name


def _success(frame: Any, options: argparse.Namespace) -> Any:
    if options.success is not None:
        reward = only_reward(options, "--success")
        if reward is None or reward not in frame.columns:  # the log says that it is missing
            return frame
        return frame.assign(**{reward: success_of(frame[reward], options.success)})
    for reward in options.reward or ():
        if reward in frame.columns:
            _refuse_words(frame[reward], reward)
    return frame


def only_reward(options: argparse.Namespace, flag: str) -> str | None:
    """The reward, where a flag is about one."""
    if options.reward and len(options.reward) > 1:
        raise UsageError(
            f"{flag} is for one reward, and there are {len(options.reward)}. Change the column before."
        )
    return options.reward[0] if options.reward else None


def _refuse_words(values: Any, reward: str) -> None:
    """A column of words is no reward yet."""
    if values.dtype.kind in "OUS" or str(values.dtype) in {"str", "string", "category"}:
        words = [str(w) for w in values.dropna().unique()[: MOST_WORDS + 1]]
        if words and not any(_is_number(w) for w in words):
            raise DataError(not_numbers(reward, words))


def success_of(values: Any, word: str) -> Any:
    """1 where a column holds the word, 0 where it holds another, missing where it is missing."""
    texts = values.astype(str)
    hits = texts == word
    if not bool(hits.any()):
        known = [str(v) for v in values.dropna().unique()[:20]]
        raise DataError(
            f"--success {word}: column {values.name!r} never holds it.{did_you_mean(word, known)}"
        )
    return hits.astype(float).where(values.notna())


def not_numbers(column: str, words: list[str]) -> str:
    """What to do about a reward column that holds words.

    >>> print(not_numbers("bought", ["no", "yes"]))
    column 'bought' holds words ('no', 'yes') and no numbers. To count one of them as 1 and all others as 0:
    --success yes.
    """
    shown = ", ".join(map(repr, words[:MOST_WORDS])) + (", …" if len(words) > MOST_WORDS else "")
    return (
        f"column {column!r} holds words ({shown}) and no numbers. To count one of them as 1 and all others "
        f"as 0: --success {positive(words) or words[0]}."
    )


def positive(words: list[str]) -> str | None:
    """The word that means success, where one does.

    >>> positive(["No", "Yes"]), positive(["red", "blue"])
    ('Yes', None)
    """
    by_fold = {word.strip().casefold(): word for word in words}
    return next((by_fold[y] for y in YES if y in by_fold), None)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _check_actions(frame: Any, options: argparse.Namespace) -> None:
    """Measured quantities are no labels: thousands of them mean that the column is another."""
    action = getattr(options, "action", None)
    continuous = getattr(options, "action_kind", None) == "continuous"
    if action is None or action not in frame.columns or continuous:
        return
    values = frame[action]
    if values.dtype.kind == "O" and len(values):
        first = next((v for v in values if v is not None), None)
        if isinstance(first, list | dict | set | tuple) or hasattr(first, "__array__"):
            raise DataError(
                f"column {action!r} holds lists ({first!r} in the first row): an action is one label per row. "
                "Write each slate as one text label, or take the position you want to evaluate."
            )
    number = values.nunique() if values.dtype.kind == "f" else 0
    if number > MOST_ACTIONS and number > len(values) / 20:
        raise DataError(
            f"column {action!r} holds {number:,} different decimal numbers in {len(values):,} rows: that is a "
            "quantity, not a choice among labels. A price, a bid or a dose: --action-kind continuous. Else name the "
            "column of the action, or cut the quantity into a few ranges first."
        )


def _days(frame: Any, options: argparse.Namespace) -> Any:
    column = _column(frame, options.time, "--time")
    moments = moments_of(frame[column])
    if options.batch is None:
        options.batch = day_name(column)
        frame = frame.assign(**{options.batch: moments.dt.strftime("%Y-%m-%d")})
    return frame


def moments_of(values: Any) -> Any:
    """A column of times as moments, from ISO texts or dates; numbers are refused."""
    import pandas as pd

    if values.dtype.kind == "M":
        return values
    if values.dtype.kind in "iufb":
        raise DataError(
            f"--time: column {values.name!r} holds numbers. Give dates or times, such as 2026-01-31 14:00."
        )
    moments = pd.to_datetime(values, errors="coerce", format="ISO8601", utc=True)
    bad = moments.isna()
    if bool(bad.any()):
        row = int(bad.to_numpy().nonzero()[0][0])
        raise DataError(
            f"--time: column {values.name!r}: {int(bad.sum()):,} of {len(values):,} values are not dates "
            f"in a format offpolicy reads (first: "
            f"row {row} = {values.iloc[row]!r}). Write them as 2026-01-31 or 2026-01-31T14:00:00."
        )
    return moments


def day_name(column: str) -> str:
    """What the column of days is called."""
    return f"day of {column}"


def _say_capped(above: int, rows: int, options: argparse.Namespace) -> None:
    terminal.complain(
        f"{above:,} of {rows:,} rewards are above {options.cap_reward:g} and were set to it (--cap-reward)."
    )


def apply_scan(log: LogScan, options: argparse.Namespace) -> Any:
    """The same changes to a log behind an engine."""
    table, roles = log.table, log.roles
    if options.success is not None:
        reward = only_reward(options, "--success") or roles.reward
        texts = table[reward].cast("string")
        if not int(
            log.engine.table(table.aggregate(n=(texts == options.success).sum()))["n"][0].as_py()
            or 0
        ):
            raise DataError(f"--success {options.success}: column {reward!r} never holds it.")
        table = table.mutate(**{reward: (texts == options.success).cast("float64")})
    for reward in () if options.success is not None else roles.rewards:
        if not table[reward].type().is_string():
            continue
        few = log.engine.table(table.select(reward).distinct().limit(MOST_WORDS + 1))
        words = sorted(str(w) for w in few[reward].to_pylist() if w is not None)
        raise DataError(not_numbers(reward, words))
    if options.cap_reward is not None:
        reward = only_reward(options, "--cap-reward") or roles.reward
        counts = log.engine.table(
            table.aggregate(above=(table[reward] > options.cap_reward).sum(), n=table.count())
        )
        _say_capped(int(counts["above"][0].as_py() or 0), int(counts["n"][0].as_py()), options)
        table = table.mutate(**{reward: table[reward].clip(upper=options.cap_reward)})
    if getattr(options, "time", None):
        if options.time not in table.columns:
            raise DataError(
                f"--time: the log has no column {options.time!r}.{did_you_mean(options.time, table.columns)}"
            )
        if options.batch is None:
            options.batch = day_name(options.time)
            day = table[options.time].cast("timestamp").strftime("%Y-%m-%d")
            table = table.mutate(**{options.batch: day})
            roles = replace(roles, batch=options.batch)
    return replace(log, table=table, roles=roles)
