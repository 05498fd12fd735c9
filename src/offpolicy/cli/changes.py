"""Changes to a log that flags ask for: success words, a cap on rewards, propensities in percent, days from times.

Each is made the same way on a frame and on a table behind an engine, and each says how many rows it changed.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offpolicy.cli import terminal
from offpolicy.errors import DataError, UsageError, did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from offpolicy.engines.scan import LogScan

YES = ("yes", "y", "true", "t", "1", "success", "click", "clicked", "converted", "ja", "oui", "si", "sí")
MOST_WORDS = 5  # different texts in a reward column that are listed
MOST_TEXTS = 100_000  # different texts of a reward column that are compared with --success
MOST_LABELS = 1_000  # different texts of a column that are compared with each other
MOST_ACTIONS = 1_000  # different numbers in an action column that still look like labels


def apply(frame: Any, options: argparse.Namespace) -> Any:
    """The frame with what the flags ask for; flags that name derived columns follow."""
    frame = _success(frame, options)
    _check_actions(frame, options)
    _check_cap(options)
    if options.cap_reward is not None:
        column = _column(frame, only_reward(options, "--cap-reward"), "--cap-reward")
        above = int((frame[column] > options.cap_reward).sum())
        frame = frame.assign(**{column: frame[column].clip(upper=options.cap_reward)})
        _say_capped(above, len(frame), options)
    if options.propensity_unit == "percent":
        columns = [_column(frame, name, "--propensity") for name in _percent_columns(options)]
        _check_percent(columns, max((float(frame[c].max()) for c in columns), default=math.nan))
        frame = frame.assign(**{c: frame[c] / 100 for c in columns})
    if options.time:
        frame = _days(frame, options)
    return frame


def _percent_columns(options: argparse.Namespace) -> list[str]:
    if not options.propensity:
        raise UsageError("--propensity-unit percent needs --propensity, the column with the propensities.")
    return list(options.propensity)


def _check_percent(columns: list[str], largest: float) -> None:
    """Propensities that are probabilities already must not be divided by 100 once more."""
    if largest <= 1:
        raise DataError(
            f"--propensity-unit percent: no value in {', '.join(map(repr, columns))} is above 1, so these look like "
            "probabilities. Leave --propensity-unit out."
        )


def _check_cap(options: argparse.Namespace) -> None:
    if options.cap_reward is not None and not math.isfinite(options.cap_reward):
        raise UsageError(f"--cap-reward {options.cap_reward}: must be a finite number.")


def _column(frame: Any, name: str | None, flag: str) -> str:
    names = [str(c) for c in frame.columns]
    if name is None:
        raise UsageError(f"{flag} needs --reward, the column with the reward.")
    if name not in names:
        raise DataError(f"{flag}: the log has no column {name!r}.{did_you_mean(name, names)}")
    return name


def _success(frame: Any, options: argparse.Namespace) -> Any:
    if options.success is not None:
        reward = only_reward(options, "--success")
        if reward is None or reward not in frame.columns:  # the log says that it is missing
            return frame
        values = frame[reward]
        check_success(options.success, reward, values.dropna().astype(str).unique())
        hits = values.astype(str).isin(options.success)
        return frame.assign(**{reward: hits.astype(float).where(values.notna())})
    for reward in options.reward or ():
        if reward in frame.columns:
            _refuse_words(frame[reward], reward)
    return frame


def only_reward(options: argparse.Namespace, flag: str) -> str | None:
    """The reward, where a flag is about one."""
    if options.reward and len(options.reward) > 1:
        raise UsageError(
            f"{flag} takes one reward, but {len(options.reward)} were given. Change the columns in the file."
        )
    return options.reward[0] if options.reward else None


def _refuse_words(values: Any, reward: str) -> None:
    """A column of words is no reward yet."""
    if values.dtype.kind in "OUS" or str(values.dtype) in {"str", "string", "category"}:
        words = values.dropna().astype(str).unique()[:MOST_ACTIONS].tolist()  # lists have no hash, their texts do
        if words and not any(is_number(w) for w in words):
            raise DataError(not_numbers(reward, words))


def check_success(words: list[str], column: str, held: Iterable[str]) -> None:
    """Every word is held by the column, and no other spelling of one of them is left out."""
    texts = list(held)
    for word in words:
        if word not in texts:
            raise DataError(f"--success {word}: column {column!r} has no such value.{did_you_mean(word, texts[:20])}")
    folded = {word.strip().casefold() for word in words}
    also = [text for text in texts if text not in words and text.strip().casefold() in folded]
    if also:
        shown = ", ".join(map(repr, sorted(also)[:MOST_WORDS]))
        raise DataError(
            f"--success {words[0]}: column {column!r} also contains {shown}, which would count as 0. Name every "
            f"spelling ({_flags([*words, *sorted(also)])}), or rewrite the column."
        )


def _flags(words: Sequence[str]) -> str:
    return " ".join(f"--success {shlex.quote(word)}" for word in words)


def not_numbers(column: str, words: list[str]) -> str:
    """What to do about a reward column that holds words.

    >>> print(not_numbers("bought", ["no", "yes"]))
    column 'bought' contains words ('no', 'yes'), not numbers. To count some of them as 1 and all others as 0,
    add --success yes.
    >>> print(not_numbers("cost", ["1%", "2%"]))
    column 'cost' holds '1%', '2%': numbers with percent signs. Write plain numbers, such as 0.01 for 1%.
    """
    shown = ", ".join(map(repr, words[:MOST_WORDS])) + (", …" if len(words) > MOST_WORDS else "")
    for what, pattern, remedy in CLOTHES:
        if any(pattern.fullmatch(word.strip()) for word in words):
            return f"column {column!r} holds {shown}: {what}. {remedy}"
    return (
        f"column {column!r} contains words ({shown}), not numbers. To count some of them as 1 and all others as 0, "
        f"add {_flags(positive(words) or words[:1])}."
    )


def positive(words: Sequence[str]) -> list[str]:
    """Every spelling of the word that means success, where one does.

    >>> positive(["No", "Yes", "yes"]), positive(["red", "blue"])
    (['Yes', 'yes'], [])
    """
    folded = [word.strip().casefold() for word in words]
    meant = next((yes for yes in YES if yes in folded), None)
    return [word for word, fold in zip(words, folded, strict=True) if fold == meant]


CURRENCY, AMOUNT = r"([€$£¥₹]|[A-Z]{3})", r"[\d.,\s]*\d"
# Numbers that are not written as a program writes them: what they are, how they look, and what to do.
CLOTHES = (
    ("numbers with percent signs", re.compile(r"[-+−]?[\d.,\s]*\d\s*%"),
     "Write plain numbers, such as 0.01 for 1%."),
    ("amounts with a currency", re.compile(rf"[-+−]?\s*{CURRENCY}\s*[-+−]?{AMOUNT}|[-+−]?{AMOUNT}\s*{CURRENCY}"),
     "Write the number alone, and the currency in a column of its own."),
    ("numbers with a typographic minus sign", re.compile(r"−[\d.,]+"), "Use a hyphen: -1."),
    ("numbers in hexadecimal", re.compile(r"[-+]?0[xX][0-9a-fA-F]+"), "Write decimal numbers."),
    ("numbers with Fortran's exponent", re.compile(r"[-+]?[\d.]+[dD][-+]?\d+"), "Write 1e5 instead of 1d5."),
    ("numbers with thousands separators", re.compile(r"[-+]?\d{1,3}([.,'\u00a0\u202f\s_]\d{3})*([.,]\d+)?"),
     "Write them without: 1234.5 (with --decimal ',': 1234,5)."),
)  # fmt: skip


def is_number(word: str) -> bool:
    """Whether a text is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def alike(labels: Iterable[str]) -> tuple[str, ...]:
    """The first labels that differ only by spaces or letter case.

    >>> alike(["dress", "sofa", "Dress "]), alike(["dress", "sofa"])
    (('Dress ', 'dress'), ())
    """
    folded: dict[str, list[str]] = {}
    for label in labels:
        folded.setdefault(" ".join(label.split()).casefold(), []).append(label)
    return next((tuple(sorted(same)) for same in folded.values() if len(same) > 1), ())


def _check_actions(frame: Any, options: argparse.Namespace) -> None:
    """Measured quantities are no labels: thousands of them mean that the column is another."""
    action = options.action
    if action not in frame.columns or options.action_kind == "continuous":
        return
    values = frame[action]
    if values.dtype.kind == "O" and len(values):
        first = next((v for v in values if v is not None), None)
        if isinstance(first, list | dict | set | tuple) or hasattr(first, "__array__"):
            raise DataError(
                f"column {action!r} contains lists ({first!r} in the first row), but an action is one label per row. "
                "Write each slate as one text label, or keep only the position you want to evaluate."
            )
    texts = [v for v in values.unique()[:MOST_LABELS] if isinstance(v, str)] if values.dtype.kind not in "biufM" else []
    same = alike(texts)
    if same:
        some = " and ".join(map(repr, same))
        terminal.complain(
            f"labels of {action!r} differ only by spaces or letter case: {some}. They count as different actions."
        )
    number = values.nunique() if values.dtype.kind == "f" else 0
    if number > MOST_ACTIONS and number > len(values) / 20:
        raise DataError(
            f"column {action!r} has {number:,} different decimal numbers in {len(values):,} rows, which is a "
            "quantity, not a choice among labels. For a price, a bid or a dose use --action-kind continuous. Otherwise "
            "name the column with the action, or cut the quantity into a few ranges first."
        )


def _days(frame: Any, options: argparse.Namespace) -> Any:
    column = _column(frame, options.time, "--time")
    moments = moments_of(frame[column], options.time_format)
    if options.batch is None:
        options.batch = day_name(column)
        frame = frame.assign(**{options.batch: moments.dt.strftime("%Y-%m-%d")})
    return frame


def moments_of(values: Any, written: str | None = None) -> Any:
    """A column of times as moments, from dates or texts in the format ``written`` (ISO 8601); numbers are refused."""
    import pandas as pd

    if values.dtype.kind == "M":
        return values
    if values.dtype.kind in "iufb":
        raise DataError(f"--time: column {values.name!r} is numeric. Give dates or times, such as 2026-01-31 14:00.")
    moments = pd.to_datetime(values, errors="coerce", format=written or "ISO8601", utc=True)
    bad = moments.isna()
    if bool(bad.any()):
        row = int(bad.to_numpy().nonzero()[0][0])
        raise DataError(
            f"--time: column {values.name!r}: {int(bad.sum()):,} of {len(values):,} values are not dates "
            f"in {'the format ' + repr(written) if written else 'a format offpolicy reads'} (first: "
            f"row {row} = {values.iloc[row]!r}). Write them as 2026-01-31 or 2026-01-31T14:00:00, or give their "
            'format: --time-format "%d.%m.%Y %H:%M".'
        )
    return moments


def day_name(column: str) -> str:
    """What the column of days is called."""
    return f"day of {column}"


def _say_capped(above: int, rows: int, options: argparse.Namespace) -> None:
    terminal.complain(
        f"{above:,} of {rows:,} rewards were above {options.cap_reward:g} and were capped there (--cap-reward)."
    )


def apply_scan(log: LogScan, options: argparse.Namespace) -> Any:
    """The same changes to a log behind an engine."""
    _check_cap(options)
    table, roles = log.table, log.roles
    if options.success is not None:
        reward = only_reward(options, "--success") or roles.reward
        texts = table[reward].cast("string")
        held = log.engine.table(table.select(text=texts).distinct().limit(MOST_TEXTS))
        check_success(options.success, reward, [t for t in held["text"].to_pylist() if t is not None])
        table = table.mutate(**{reward: texts.isin(options.success).cast("float64")})
    for reward in () if options.success is not None else roles.rewards:
        if not table[reward].type().is_string():
            continue
        few = log.engine.table(table.select(reward).distinct().limit(MOST_ACTIONS))
        words = sorted(str(w) for w in few[reward].to_pylist() if w is not None)
        raise DataError(not_numbers(reward, words))
    if options.cap_reward is not None:
        reward = only_reward(options, "--cap-reward") or roles.reward
        counts = log.engine.table(table.aggregate(above=(table[reward] > options.cap_reward).sum(), n=table.count()))
        _say_capped(int(counts["above"][0].as_py() or 0), int(counts["n"][0].as_py()), options)
        table = table.mutate(**{reward: table[reward].clip(upper=options.cap_reward)})
    if options.propensity_unit == "percent":
        columns = _percent_columns(options)
        largest = log.engine.table(table.aggregate(**{c: table[c].max() for c in columns})).to_pylist()[0]
        _check_percent(columns, max(float(v) for v in largest.values() if v is not None))
        table = table.mutate(**{c: table[c] / 100 for c in columns})
    if options.time:
        if options.time not in table.columns:
            raise DataError(
                f"--time: the log has no column {options.time!r}.{did_you_mean(options.time, table.columns)}"
            )
        if options.batch is None:
            options.batch = day_name(options.time)
            text = table[options.time]
            moment = text.as_timestamp(options.time_format) if options.time_format else text.cast("timestamp")
            day = moment.strftime("%Y-%m-%d")
            table = table.mutate(**{options.batch: day})
            roles = replace(roles, batch=options.batch)
    return replace(log, table=table, roles=roles)
