"""Policies that are known on the rows of one log only: a column of labels, probability columns, an array.

They are not asked about contexts; `on_rows` gives (n,) labels or (n, K) probabilities in the order of the
log's rows. ``reads`` are the columns of the log that they need besides the context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import detached
from offpolicy.errors import PolicyError, first_rows
from offpolicy.logs.frame import Columns
from offpolicy.logs.given import differing, refuse_masked, row_labels
from offpolicy.logs.layout import in_log_order
from offpolicy.policies.distribution import SUM_TOLERANCE

if TYPE_CHECKING:
    from offpolicy._arrays import Array
    from offpolicy.logs.log import Log


@dataclass(frozen=True)
class LabelColumn:
    """One action label per row, in a column of the log."""

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.name,)

    def on_rows(self, log: Log) -> Array:
        """(n,) labels."""
        if self.name == log.names.action:
            raise PolicyError(
                f"{self.name!r} is the column of logged actions, which a policy must not see. Name "
                "the column with the actions the policy would take. For the value of the current policy, use ev.logged."
            )
        return columns_of(log, self.reads).values(self.name)


@checks_arguments
@dataclass(frozen=True)
class ShownProbability:
    """The probability with which a ranking policy would have shown what was shown, in a column of the log.

    It takes the place of a whole distribution where that is not at hand: for estimators that use weights alone, such as
    IPW and SNIPW. In `offpolicy.Slates` the name of such a column will do.

    Parameters
    ----------
    name : str
        Column with one probability per slot, given the context and the items above.

    Examples
    --------
    >>> ShownProbability("p_new").reads
    ('p_new',)
    """

    name: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.name,)

    def of_shown(self, log: Log) -> Array:
        """(n,) probabilities of the logged actions."""
        values = columns_of(log, self.reads).numeric(self.name, "probability")
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            raise PolicyError(
                f"column {self.name!r}: {first_rows(bad, values)} are not probabilities. Give the probability of the "
                "shown item in every row, in [0, 1]."
            )
        return values


def as_shown(policy: Any, log: Log) -> ShownProbability | None:
    """The policy that a column of numbers stands for in a log of slates whose items are something else."""
    if isinstance(policy, ShownProbability):
        return policy
    if not isinstance(policy, LabelColumn) or not log.shows_items:
        return None
    values = columns_of(log, policy.reads).values(policy.name)
    if values.dtype.kind != "f" or {float(v) for v in np.unique(values[:1000])} <= set(log.actions):
        return None
    return ShownProbability(policy.name)


@dataclass(frozen=True)
class LogColumns:
    """One column of probabilities for each action of the log, in their order."""

    reads: tuple[str, ...]

    def on_rows(self, log: Log) -> Array:
        """(n, K) probabilities."""
        if len(self.reads) != len(log.actions):
            raise PolicyError(
                f"{len(self.reads)} probability columns for {len(log.actions)} actions. Give one per "
                f"action, in the order of log.actions: {tuple(log.actions)[:5]}."
            )
        columns = columns_of(log, self.reads)
        made = np.column_stack([columns.numeric(c, "probability") for c in self.reads])
        total = made.sum(axis=1)
        off = ~(np.abs(total - 1) <= SUM_TOLERANCE)
        if off.any():
            raise PolicyError(
                f"the columns {', '.join(self.reads[:4])} are not probabilities: they do not sum to 1 in "
                f"{first_rows(off, total)}. If they are scores and the policy takes the highest, write "
                f"'greedy:{','.join(self.reads)}' or op.policies.Greedy(columns=[…])."
            )
        return made


@dataclass(frozen=True)
class ScoreColumns:
    """Take the action of the highest score; one column of scores for each action of the log, in their order."""

    reads: tuple[str, ...]

    def on_rows(self, log: Log) -> Array:
        """(n,) labels; ties go to the first action."""
        if len(self.reads) != len(log.actions):
            raise PolicyError(
                f"{len(self.reads)} score columns for {len(log.actions)} actions. Give one per action, in the order of "
                f"log.actions: {tuple(log.actions)[:5]}."
            )
        columns = columns_of(log, self.reads)
        scores = np.column_stack([columns.numeric(c, "score") for c in self.reads])
        bad = np.asarray(np.isnan(scores).any(axis=1))
        if bad.any():
            raise PolicyError(f"scores are missing in {first_rows(bad)}. Give every action a score.")
        if log.eligible is not None:
            scores = np.where(log.eligible, scores, -np.inf)
        return labels_of(log.actions, scores.argmax(axis=1))


def labels_of(actions: tuple[Any, ...], codes: Any) -> Array:
    """The labels that codes stand for."""
    labels = np.empty(len(actions), dtype=object)
    labels[:] = actions
    return np.asarray(labels[codes])


@dataclass(frozen=True, eq=False)
class RowArray:
    """(n, K) probabilities, OBP's (n, K, 1), or (n,) labels, given beside the log."""

    given: Any
    reads: ClassVar[tuple[str, ...]] = ()

    def on_rows(self, log: Log) -> Array:
        """(n, K) probabilities or (n,) labels."""
        mine, theirs = row_labels(self.given), getattr(log, "row_labels", None)
        if mine is not None and theirs is not None and not mine.equals(theirs):
            raise PolicyError(f"it and the log have different indexes{differing(mine, theirs)}")
        refuse_masked(self.given, "probabilities", PolicyError)
        array = np.asarray(detached(self.given))
        if array.ndim == 3 and array.shape[2] == 1:  # OBP keeps an axis for positions of a list
            array = array[:, :, 0]
        if array.ndim == 3:
            raise PolicyError(
                f"an array of shape {array.shape} has a distribution for each of {array.shape[2]} "
                "positions. Evaluate one position at a time: array[:, :, position]."
            )
        ordered: Array = in_log_order(array, log)
        return ordered


def columns_of(log: Log, names: tuple[str, ...]) -> Columns:
    """The columns of a log's frame, where it has these."""
    if log.source is None:
        raise PolicyError(f"{list(names)[:3]} name columns, but the log was not built from a frame.")
    columns = Columns(log.source)
    for name in names:
        columns.require(name, "policy")
    return columns
