"""What a policy is, and how one is told the order of the log's actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from offpolicy.errors import PolicyError, did_you_mean
from offpolicy.logs.frame import Columns, is_frame

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.kinds import ActionSpace
    from offpolicy.logs.log import Log, Scan


@runtime_checkable
class Policy(Protocol):
    """Anything that gives a distribution over the log's actions for each row of a context.

    The adapters of this package have more than the one method:

    - ``bind(actions)`` returns a policy that knows the labels and their order;
    - ``probabilities(context, *, eligible=None)`` takes an (n, K) array of the actions each row may
      choose from, and ``respects_eligible`` says whether it is used;
    - ``choices(context, *, eligible=None)``, on deterministic policies, gives (n,) action codes, so
      that no (n, K) array is needed;
    - ``time_dependent`` policies take ``probabilities(states, t)``, with ``t`` of shape (n,);
    - ``learned_from`` of a learned policy is the digest of the rows it was learned from, which it is not judged by.

    Examples
    --------
    >>> import numpy as np
    >>> class Coin:
    ...     def probabilities(self, context):
    ...         return np.full((len(context), 2), 0.5)
    >>> isinstance(Coin(), Policy)
    True
    """

    def probabilities(self, context: Any, /) -> Floats:
        """Return the (n, K) probabilities of the log's actions, in the log's order."""
        ...


def bind(policy: Any, actions: tuple[Hashable, ...]) -> Any:
    """Tell ``policy`` the log's actions if it wants to know them.

    >>> from offpolicy.policies import Fixed
    >>> bind(Fixed("b"), ("a", "b")).code
    1
    """
    return policy.bind(tuple(actions)) if hasattr(policy, "bind") else policy


def respects_eligible(policy: Any) -> bool:
    """Whether ``policy`` gives ineligible actions probability 0 when told which they are."""
    return bool(getattr(policy, "respects_eligible", False))


def learned_from(policy: Any) -> str:
    """Digest of the rows that a policy was learned from; empty where it does not say."""
    return str(getattr(policy, "learned_from", ""))


def member_probabilities(policy: Any, context: Any, eligible: Bools | None, shape: tuple[int, int]) -> Floats:
    """Probabilities of a policy inside another one, with their shape checked."""
    if respects_eligible(policy):
        values = policy.probabilities(context, eligible=eligible)
    else:
        values = policy.probabilities(context)
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise PolicyError(
            f"{type(policy).__name__}.probabilities must return an array of shape (n, K) = "
            f"{shape}. Got {values.shape} instead."
        )
    return values


def no_time(policy: Any, inside: str) -> None:
    """Refuse a time-dependent policy where only the context is passed on."""
    if getattr(policy, "time_dependent", False):
        raise PolicyError(
            f"{inside} does not take time-dependent policies. Write the combination as one "
            "function of (states, t) and wrap it in TimeDependent."
        )


def bound(actions: tuple[Hashable, ...] | None, policy: object) -> tuple[Hashable, ...]:
    """Return the actions of a bound policy; explain what binding is when there are none."""
    if actions is None:
        raise PolicyError(
            f"{type(policy).__name__} does not know the log's actions yet. evaluate() binds "
            "policies automatically; elsewhere call policy.bind(log.actions) first."
        )
    return actions


def n_rows(context: Any) -> int:
    """Return the number of rows of an array, a pandas or polars frame, or a pyarrow table.

    >>> n_rows(np.zeros((3, 2)))
    3
    """
    return int(context.num_rows) if hasattr(context, "num_rows") else len(context)


def take(context: Any, rows: Ints) -> Any:
    """Return these rows of a context, as the same kind of object.

    >>> take(np.array([10, 20, 30]), np.array([2, 0])).tolist()
    [30, 10]
    """
    if not is_frame(context):
        return np.asarray(context)[rows]
    import narwhals as nw

    return nw.from_native(context, eager_only=True)[rows].to_native()


def column(context: Any, name: str, policy: str) -> Array:
    """Return one column of a frame as an array of any dtype."""
    return _columns(context, [name], policy).values(name)


def numeric_columns(context: Any, names: Sequence[str], policy: str) -> Floats:
    """Return columns of numbers as an (n, len(names)) array; missing entries are NaN."""
    columns = _columns(context, names, policy)
    return np.column_stack([columns.numeric(name, "probability") for name in names])


def key_columns(context: Any, names: Sequence[str], policy: str) -> list[Array]:
    """Return the columns that a table of probabilities is keyed by.

    An array has no names: its columns are taken in the order given, and there must be as many.
    """
    if is_frame(context):
        columns = _columns(context, names, policy)
        return [_comparable(columns.values(name)) for name in names]
    array = np.asarray(context)
    array = array[:, None] if array.ndim == 1 else array
    if names and array.shape[1:] != (len(names),):
        raise PolicyError(
            f"{policy} is keyed by {len(names)} columns, {list(names)}, but the context is an "
            f"array of shape {np.shape(context)}. Build the log from a frame, with named columns."
        )
    return [_comparable(array[:, i]) for i in range(len(names))]


def only_column(context: Any, policy: str) -> Array:
    """Return the states of a context that has one column."""
    if not is_frame(context):
        array = np.asarray(context)
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    names = Columns(context).names
    if len(names) != 1:
        raise PolicyError(f"{policy} needs one column of states. The context has {names[:5]}.")
    return column(context, names[0], policy)


def feature_matrix(context: Any, model: Any) -> Any:
    """Return the context as fitted models read it: pandas with the model's own columns, else an array if numeric."""
    if not is_frame(context):
        array = np.asarray(context)
        return array[:, None] if array.ndim == 1 else array
    import narwhals as nw

    names = [str(n) for n in getattr(model, "feature_names_in_", ())]
    frame = nw.from_native(context, eager_only=True)
    if names:
        _columns(context, names, type(model).__name__)
        frame = frame[list(names)]
    numbers = all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())
    # A model that was fitted on a frame says so by the names it remembers; agents read arrays.
    return frame.to_pandas() if names or not numbers else frame.to_numpy()


def with_label(context: Any, name: str, labels: Array, actions: Sequence[Any], model: Any) -> Any:
    """Return the context with the action as a further column, as a model of both reads it."""
    if not is_frame(context):
        array = np.asarray(context)
        array = array[:, None] if array.ndim == 1 else array
        try:
            return np.column_stack([array, labels.astype(np.float64)])
        except (TypeError, ValueError) as error:
            raise PolicyError(
                "Greedy(model, action=…): actions are text, but the context is an array of numbers. Build the log "
                "from a frame with the columns that the model was fitted on."
            ) from error
    import narwhals as nw
    import pandas as pd

    frame = nw.from_native(context, eager_only=True).to_pandas()
    if type(model).__module__.startswith(("lightgbm", "xgboost")):
        # These align categories by their labels; other learners read the labels themselves.
        frame[name] = pd.Categorical(labels, categories=list(actions))
    else:
        frame[name] = pd.Series(labels, index=frame.index).infer_objects()
    wanted = [str(n) for n in getattr(model, "feature_names_in_", ())]
    missing = [n for n in wanted if n not in frame.columns]
    if missing:
        raise PolicyError(
            f"Greedy(model, action={name!r}): the model was fitted on a column {missing[0]!r}, which is neither the "
            f"action nor in the context.{did_you_mean(missing[0], list(frame.columns))}"
        )
    return frame[wanted] if wanted else frame


def numeric_array(context: Any, policy: str) -> Array:
    """Return the context as an array of numbers, its columns in order; text raises."""
    if not is_frame(context):
        array = np.asarray(context)
        if array.dtype.kind not in "biuf":
            raise PolicyError(f"{policy} needs numbers, but the context is an array of {array.dtype}.")
        return array
    columns = Columns(context)
    kinds = {name: columns.values(name).dtype.kind for name in columns.names}
    text = [name for name, kind in kinds.items() if kind not in "biuf"]
    if text:
        raise PolicyError(
            f"{policy} needs numbers, but the context's column {text[0]!r} is not numeric. Wrap the model "
            "in a function of the context that encodes it, as in training."
        )
    if len(kinds) == 1:
        return columns.values(columns.names[0])
    return np.column_stack([columns.numeric(name, "context") for name in columns.names])


def _comparable(values: Array) -> Array:
    # Times are equal whatever their unit; as Python objects they would not be.
    return values.astype("datetime64[ns]") if values.dtype.kind == "M" else values


def _columns(context: Any, names: Sequence[str], policy: str) -> Columns:
    if not is_frame(context):
        raise PolicyError(
            f"{policy} reads the columns {list(names)}, but the context is an array without names. "
            "Build the log from a frame, or give the policy a function of the array instead."
        )
    columns = Columns(context)
    for name in names:
        if name not in columns.names:
            raise PolicyError(
                f"{policy}: the context has no column {name!r}.{did_you_mean(name, columns.names)} "
                "A policy sees the columns listed in context= of the log."
            )
    return columns


@dataclass(frozen=True)
class Surface:
    """The side of a log that policies see before any row is read.

    Attributes
    ----------
    space : ActionSpace
        What an action is.
    columns : tuple of str
        Columns that a policy may name; those of the frame or the table, not of the context only.
    context : tuple of str
        Names of the context's columns.
    action : str
        Name of the column of logged actions.
    rows : int or None
        Rows that an array can be matched with; None where rows are not held in memory.
    integer_states : bool
        Whether rows are decisions of episodes in states that are whole numbers.
    of_slates : bool
        Whether units are slates, of items at positions.
    """

    space: ActionSpace
    columns: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    action: str = "action"
    rows: int | None = None
    integer_states: bool = False
    of_slates: bool = False

    @property
    def actions(self) -> tuple[Hashable, ...]:
        """The log's actions, in order."""
        return self.space.labels

    @classmethod
    def of(cls, given: Log | Scan) -> Surface:
        """Of a log in memory, scanned or streamed."""
        if given.in_memory:
            log = cast("Log", given)
            columns = () if log.source is None else tuple(Columns(log.source).names)
            rows, names = len(log.action), log.context.names or ()
            states = log.unit_kind.leads_on and _are_integers(log.context)
            return cls(log.space, columns, tuple(names), log.names.action, rows, states, log.unit_kind.shows_items)
        scan = cast("Scan", given)
        return cls(
            scan.space,
            scan.nameable,
            tuple(scan.roles.context),
            scan.roles.action,
            of_slates=scan.unit_kind.shows_items,
        )


def _are_integers(context: Any) -> bool:
    if context.is_frame:
        table = Columns(context.table)
        return len(table.names) == 1 and table.values(table.names[0]).dtype.kind in "iu"
    return context.table.ndim == 1 and context.table.dtype.kind in "iu"
