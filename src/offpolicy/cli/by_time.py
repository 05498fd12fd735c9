"""``--train-before DATE``: earlier rows train the reward model, later ones are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.cli import changes, logs, models, terminal
from offpolicy.errors import DataError, UsageError
from offpolicy.inference.figures import plural_of

if TYPE_CHECKING:
    import argparse

    from offpolicy._arrays import Bools, Floats


def opened(options: argparse.Namespace) -> tuple[Any, dict[str, Floats]]:
    """The log of the later rows, and (n, K) rewards by each metric, predicted for them from the earlier ones."""
    from offpolicy.models.fitting.policy_fits import predictions_apart

    if not options.time:
        raise UsageError("--train-before needs --time: which column holds the date?")
    logs.check_flags(options)
    if options.engine or options.episode or options.slate:
        raise UsageError("--train-before is for a table of single decisions that is read whole.")
    table = logs.table_of(options)
    if table.reading is not None:
        raise UsageError("--train-before is for tables. Convert the trace first: offpolicy convert.")
    frame = changes.apply(table.frame, options)
    early = is_early(frame[options.time], options.train_before)
    whole = logs.bandit_log(frame, options)
    order = np.arange(len(frame)) if whole.row_order is None else np.asarray(whole.row_order)
    asked = models.asked_for("bandit", options).get("reward_model")
    predicted = {}
    for metric in whole.metrics:
        own = whole.with_reward(metric)
        found = predictions_apart(own, early[order], asked, options.seed or 0)
        in_frame = np.empty((len(frame), found.shape[1]))
        in_frame[order[~early[order]]] = found
        predicted[metric] = in_frame[~early]
    _say(frame, early, options)
    later = frame[~early].reset_index(drop=True)
    return logs.bandit_log(later, options, whole.actions), predicted


def is_early(values: Any, date: str) -> Bools:
    """Which rows come before a date."""
    import pandas as pd

    moments = pd.to_datetime(changes.moments_of(values), utc=True)
    try:
        cut = pd.Timestamp(date)
    except ValueError as error:
        raise UsageError(f"--train-before {date}: write a date such as 2026-01-31.") from error
    cut = cut.tz_localize("UTC") if cut.tzinfo is None else cut
    early = np.asarray(moments < cut, dtype=bool)
    if not early.any() or early.all():
        side = "before" if not early.any() else "from"
        raise DataError(
            f"--train-before {date}: no row lies {side} it on; the log goes from {moments.min()} to {moments.max()}."
        )
    return early


def _say(frame: Any, early: Bools, options: argparse.Namespace) -> None:
    terminal.complain(
        f"{int(early.sum()):,} rows before {options.train_before} train the reward model, "
        f"{int((~early).sum()):,} are evaluated."
    )
    if options.cluster is not None:
        names = frame[options.cluster]
        both = len(set(names[early]) & set(names[~early]))
        if both:
            terminal.complain(
                f"{both:,} {plural_of(options.cluster)} are on both sides: the model has seen them before."
            )
