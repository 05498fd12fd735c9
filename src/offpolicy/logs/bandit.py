"""`BanditLog`: (context, action, reward, propensity) rows, checked once and kept as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from offpolicy._arguments import checks_arguments, takes
from offpolicy._arrays import picked, some_of
from offpolicy._visible import printable
from offpolicy.errors import DataError, UsageError
from offpolicy.logs import checks
from offpolicy.logs.action_features import ActionFeatures, of_frame, of_table
from offpolicy.logs.columns import NOT_GIVEN, HasRows
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.given import check_given, own_copy, row_labels
from offpolicy.logs.kinds import HasKinds, Logged, space_of
from offpolicy.logs.layout import Layout
from offpolicy.logs.metrics import HasMetrics, named_rewards
from offpolicy.logs.outcome import Given, held_outcomes, with_outcomes
from offpolicy.logs.reader import Names, labelled, measured, read, settled
from offpolicy.logs.roles import SINGLE, CountedRoles, Roles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offpolicy._arguments import Rows
    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.kinds import ActionKind, ActionSpace


COLUMNS = (
    "action", "reward", "propensity", "distribution", "eligible", "batch", "cluster", "weight", "count",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class BanditLog(HasMetrics, HasRows, HasKinds):
    """A log of single decisions. Build it with `from_frame`, `from_arrays` or `offpolicy.scan`.

    Attributes
    ----------
    space : ActionSpace
        What an action is: `Labels`, `Numbers`, or your own.
    actions : tuple of labels
        The K actions, in the order of every (n, K) array.
    action, reward : (n,) arrays
        Codes of the logged actions among ``actions``, and what they earned. Where actions are numbers (prices,
        doses), ``action`` holds these and ``actions`` is empty.
    further : {name: (n,) array}
        Other rewards of the same decisions; ``metrics`` holds all, the first being ``reward``.
    propensity : (n,) array or None
        Probability with which the logged action was taken; None when unknown. Of a number: the density at it.
    action_range : (low, high) or None
        Range of actions that are numbers; None where they are labels.
    distribution : (n, K) array or None
        The logging policy's whole distribution, when it was logged.
    count : (n,) array
        How many identical rows a row stands for (a compressed log, `is_counted`); else 1.
    weight : (n,) array
        Analysis weights, including 1 / keep-probability of a subsampled log (`is_weighted`); else 1.
    cluster, batch : (n,) int arrays
        Codes of the clusters (`has_clusters`) and batches (`has_batches`); −1 where there are none.
    unit : (n,) int array or None
        Numbers from which folds follow: of the clusters, else of the ids; None: of the rows.
    fold, half : (R, n) int and bool arrays or None
        Fold labels and scored halves that the log carries.
    first : int
        Number of the first row: a block of a larger log begins later than 0.

    Examples
    --------
    >>> log = BanditLog.from_arrays([[0.1], [0.7]], ["left", "right"], [0, 1], [0.5, 0.5])
    >>> log.actions, log.n
    (('left', 'right'), 2)
    """

    context: Context
    space: ActionSpace
    action: Any
    reward: Floats
    propensity: Floats | None = None
    distribution: Floats | None = None
    eligible: Bools | None = None
    batch: Ints = NOT_GIVEN
    batch_labels: tuple[Any, ...] = ()
    cluster: Ints = NOT_GIVEN
    weight: Floats = NOT_GIVEN
    count: Floats = NOT_GIVEN
    fold: Ints | None = None
    half: Bools | None = None
    unit: Ints | None = None
    first: int = 0
    source: Any = None
    names: Names = field(default_factory=Names)
    row_order: Ints | None = None  # row of the frame each row came from, when ids put them in order
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)  # where it was read
    row_labels: Any = field(default=None, repr=False)  # pandas index of what it was built from
    notes: tuple[str, ...] = ()  # what a reader of any estimate should know
    further: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    action_features: ActionFeatures | None = field(default=None, repr=False)
    outcomes: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of metrics seen in part

    kind: ClassVar[str] = "bandit"
    in_memory: ClassVar[bool] = True
    is_discrete: ClassVar[bool] = False
    horizon: ClassVar[int] = 1
    unbounded: ClassVar[bool] = False
    undecided: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._keep(len(self.action), (*COLUMNS, "fold", "half", "unit", "row_order"))

    @property
    def n(self) -> int:
        """Impressions the log stands for."""
        return int(self.count.sum()) if self.is_counted else len(self.action)

    @property
    def layout(self) -> Layout:
        """One decision per unit."""
        return Layout.single(len(self.action))

    @property
    def ended(self) -> Bools:
        """(n,) every unit is over with its one decision."""
        return np.broadcast_to(np.bool_(True), len(self.action))

    @property
    def bootstrapped(self) -> Ints:
        """Rows after which rewards are missing: none."""
        return np.empty(0, dtype=np.int64)

    def estimand(self, discount: float = 1.0) -> str:
        """Which value estimates from this log are about."""
        return "value of one decision"

    def up_to(self, steps: int) -> BanditLog:
        """Refused: a unit is one decision."""
        raise UsageError("horizon= is for trajectories; a bandit log has one decision per unit.")

    @property
    def actions(self) -> tuple[Label, ...]:
        """The K actions; none where they are numbers."""
        return self.space.labels

    @printable
    def __repr__(self) -> str:
        known = "logged" if self.propensity is not None else "unknown"
        cells = f" in {self.rows:,} cells" if self.is_counted else ""
        means = ", ".join(f"mean {name} {self._mean(r):.6g}" for name, r in self.metrics.items())
        actions, what = self.space.described(self.names.action), self.space.propensities
        return f"BanditLog({self.n:,} rows{cells}, {actions}, {means}, {what} {known})"

    def _mean(self, reward: Floats) -> float:
        seen = ~np.isnan(reward)
        return float(np.average(reward[seen], weights=(self.count * self.weight)[seen]))

    def take(self, rows: Array) -> BanditLog:
        """The log of these rows only (integer positions or a mask); actions keep their codes."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        held = {name: getattr(self, name) for name in COLUMNS}
        columns: dict[str, Any] = {k: None if v is None else some_of(v, rows) for k, v in held.items()}
        return replace(
            self,
            **columns,
            further={name: values[rows] for name, values in self.further.items()},
            outcomes={name: held.take(rows) for name, held in self.outcomes.items()},
            context=self.context.take(rows),
            fold=picked(self.fold, (slice(None), rows)),
            half=picked(self.half, (slice(None), rows)),
            unit=self.units[rows],
            source=None if self.source is None else Columns(self.source).rows(rows),
            row_order=None,
            row_labels=None,
        )

    @property
    def units(self) -> Ints:
        """(n,) numbers of the units, from which folds follow."""
        if self.unit is not None:
            return self.unit
        return np.arange(self.first, self.first + len(self.action), dtype=np.int64)

    def blocks(self) -> Iterator[BanditLog]:
        """The log, block by block: one, since it is in memory."""
        yield self

    @classmethod
    @checks_arguments
    @takes(CountedRoles)
    def from_frame(
        cls,
        frame: Any,
        *,
        context: Sequence[str] | str | None,
        action: str,
        reward: str | Sequence[str],
        propensity: str | Sequence[str] | Mapping[Label, str] | None = None,
        actions: Sequence[Label] | ActionSpace | None = None,
        action_features: Any = None,
        action_kind: ActionKind = "discrete",
        outcome: Any = None,
        **columns: Unpack[CountedRoles],
    ) -> BanditLog:
        """Build a log from the columns of a pandas, polars or pyarrow table.

        Parameters
        ----------
        frame : table
            One row per impression.
        context : list of column names
            What the policy and the models may look at; any dtype, missing values included.
        action, reward : column names
            The action taken and what it earned. Several rewards (``["click", "revenue", "cost"]``) are metrics of
            the same decisions; the first is the log's ``reward``.
        propensity : column name, list of K columns, mapping {action: column}, or None
            Probability of the logged action, or the whole distribution; None when unknown.
        batch : column name, optional
            The logging policy is constant inside a batch; sorted order is the order of time.
        cluster : column name, optional
            Unit of independence (a user, a session).
        weight : column name, optional
            Analysis weights of the rows.
        actions : sequence of labels, optional
            All actions, also those never logged; default: the distinct logged ones, sorted.
        eligible : column name, optional
            A list of the actions that could have been taken, row by row.
        keep_probability : column name, optional
            Probability with which a row was kept in a subsampled log; rows get weight 1 / it.
        count : column name, optional
            How many identical rows a row stands for.
        fold : column name, optional
            Fold labels to use instead of drawing them.
        id : column name, optional
            Integer or text that tells rows apart. Rows are put in its order and folds follow from it, so
            that the order of the frame changes nothing. Arrays given beside the log follow the frame.
        action_features : column names, frame, mapping or (K, d) array, optional
            What is known of each action besides its name: columns of the log that are constant per action, a
            table with the column of actions, {action: features}, or one row per action in their order. Reward
            models read them, and `CoarseRatio` makes cells from them.
        action_kind : {"discrete", "continuous"}
            Whether actions are labels, or numbers such as prices, bids and doses. Of a number ``propensity`` is the
            column of the *density* with which it was drawn, and ``actions`` may give the range, (low, high), in which
            it could be drawn; default: the smallest and largest number logged.
        outcome : `Labeled`, `Delayed`, `LongTerm` or {metric: outcome}, optional
            Why rewards are missing, and how they are made whole. Default: every row has its reward.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame(
        ...     {"age": [20, 31], "ad": ["a", "b"], "click": [0, 1], "p": [0.5, 0.25]}
        ... )
        >>> BanditLog.from_frame(frame, context=["age"], action="ad", reward="click", propensity="p")
        BanditLog(2 rows, 2 actions, mean click 0.5, propensities logged)
        """
        space = space_of(actions, action_kind)
        given = {"action_features": action_features, **{name: columns.get(name) for name in ("eligible", "count")}}
        space.check_given(given)
        named = {"context": context, "action": action, "reward": reward, "propensity": propensity, **columns}
        return cls.built(frame, Roles.of(SINGLE, named, space), action_features, outcome)

    @classmethod
    def built(cls, frame: Any, roles: Roles, action_features: Any = None, outcome: Any = None) -> BanditLog:
        """The log of a table whose columns play these roles."""
        rows = read(frame, roles)
        names, columns = list(roles.context), rows.columns
        features = of_frame(action_features, columns, rows.space.labels, rows.parts["action"], roles.action, names)
        log = cls(**rows.parts, space=rows.space, row_labels=row_labels(frame), action_features=features)
        log = with_outcomes(log, outcome, roles, columns)
        made: BanditLog = settled(log, rows.given, roles, unseen=log.outcomes)
        return made

    @classmethod
    @checks_arguments
    def from_arrays(
        cls,
        context: Any,
        action: Rows,
        reward: Any,
        propensity: Any = None,
        *,
        batch: Any = None,
        cluster: Any = None,
        weight: Any = None,
        actions: Sequence[Label] | ActionSpace | None = None,
        eligible: Any = None,
        keep_probability: Any = None,
        count: Any = None,
        fold: Any = None,
        metrics: Sequence[str] | None = None,
        action_features: Any = None,
        action_kind: ActionKind = "discrete",
        outcome: Any = None,
    ) -> BanditLog:
        """Build a log from arrays; the arguments are those of `from_frame`, one entry per row.

        Parameters
        ----------
        context : (n, …) array or None
            What policies and models see.
        action : (n,) array
            Labels of any type; integers 0 … K−1 are their own labels.
        reward : (n,) array, {name: (n,) array}, or (n, M) array or frame
            What the action earned, by one metric or several.
        propensity : (n,) or (n, K) array or None
            Of the logged action, or the whole distribution.
        batch, cluster, weight, actions, eligible, keep_probability, count, fold, action_kind
            As in `from_frame`; ``eligible`` may also be an (n, K) mask of booleans.
        metrics : sequence of str, optional
            Names of the M columns of an (n, M) array of rewards.
        action_features : (K, d) array, mapping {action: features}, or frame with a column "action", optional
            As in `from_frame`.
        outcome : `Labeled`, `Delayed`, `LongTerm` or {metric: outcome}, optional
            As in `from_frame`, with arrays in place of names of columns.

        Examples
        --------
        >>> BanditLog.from_arrays(None, [0, 1, 1], [1.0, 0.0, 2.0], actions=range(3)).actions
        (0, 1, 2)
        """
        rewards = named_rewards(reward, metrics)
        labels_of_rows = check_given(
            {
                "action": action,
                "context": context,
                **rewards,
                "propensity": propensity,
                "batch": batch,
                "cluster": cluster,
                "weight": weight,
                "eligible": eligible,
                "keep_probability": keep_probability,
                "count": count,
                "fold": fold,
            }
        )
        space = space_of(actions, action_kind)
        space.check_given({"eligible": eligible, "count": count, "action_features": action_features})
        logged = Logged(
            "action", lambda: checks.one_label(action), lambda: checks.one_dimensional(action, "action", "action")
        )
        checks.not_empty(len(logged.numbers() if space.numeric else logged.values()))
        space, codes = space.read(logged)
        labels, n = space.labels, len(codes)
        table = np.empty((n, 0)) if context is None else checks.text_column(own_copy(context))
        if table.dtype.kind not in "biufUS" or (table.ndim > 1 and table.dtype.kind in "US"):
            raise DataError(
                f"'context' is an array of dtype {table.dtype}. Give numbers (or one column of text), or a "
                "table to from_frame, which keeps names and dtypes."
            )
        if table.ndim == 0:
            raise DataError("'context' must have one row per action. Got a single value.")
        mask = None if eligible is None else checks.eligible_mask(eligible, n, labels)
        earned = {name: checks.one_dimensional(values, name, "reward") for name, values in rewards.items()}
        first = next(iter(earned))
        probabilities = None
        if propensity is not None:
            probabilities = np.asarray(propensity)
            if probabilities.ndim == 1:
                probabilities = checks.one_dimensional(propensity, "propensity", "propensity")
            else:
                probabilities = space.whole(probabilities, n)
        log = cls(
            context=Context(table),
            space=space,
            action=codes,
            reward=earned[first],
            further={name: values for name, values in earned.items() if name != first},
            names=Names(reward=first),
            propensity=probabilities,
            eligible=mask,
            row_labels=labels_of_rows,
            action_features=of_table(action_features, labels, "action"),
        )
        log = replace(log, outcomes=held_outcomes(outcome, earned, Given(n)))
        given = measured({"weight": weight, "keep_probability": keep_probability, "count": count})
        given |= labelled({"batch": batch, "cluster": cluster, "fold": fold})
        made: BanditLog = settled(log, given, unseen=log.outcomes)
        return made
