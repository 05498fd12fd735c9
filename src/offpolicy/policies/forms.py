"""The forms in which people hold a policy, one adapter each, tried in order.

An adapter says whether it takes an object and turns it into a policy: an object with ``probabilities`` or
``choices``, a function of the context, or something with ``on_rows`` that is known on the log's rows only. To
take a further kind of object, add an adapter to `FORMS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.errors import OffPolicyError, PolicyError
from offpolicy.logs.frame import is_frame
from offpolicy.policies.fitted import Classifier, Predictor, TorchLogits, is_torch_module
from offpolicy.policies.learned import CrossFitted, is_unfitted
from offpolicy.policies.on_rows import LogColumns, RowArray
from offpolicy.policies.simple import Constant, Ranking
from offpolicy.policies.tables import StateChoices, StateTable
from offpolicy.policies.words import from_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.policies.surface import Surface


DRAWN = "actions are drawn with predict_proba; for its single best action pass model.predict"


class Form(Protocol):
    """One form in which a policy may come."""

    @property
    def called(self) -> str:
        """What it is, for messages that list what is accepted."""
        ...

    def takes(self, given: Any, log: Surface) -> bool:
        """Whether ``given`` is of this form."""
        ...

    def adapt(self, given: Any, log: Surface) -> Any:
        """The policy that it stands for."""
        ...


@dataclass(frozen=True)
class Adapter:
    """A `Form` made of two functions."""

    called: str
    takes: Callable[[Any, Surface], bool]
    adapt: Callable[[Any, Surface], Any]


def adapted(name: str, given: Any, log: Surface) -> Any:
    """The policy that ``given`` stands for; a policy already adapted comes back as it is.

    >>> from offpolicy.policies.surface import Surface
    >>> adapted("new", {"a": 0.2, "b": 0.8}, Surface(actions=("a", "b")))
    Constant(shares={'a': 0.2, 'b': 0.8})
    """
    if inspect.isclass(given):
        raise PolicyError(f"policy {name!r} is the class {given.__name__}. Give an instance: {given.__name__}(…).")
    for form in FORMS:
        if form.takes(given, log):
            try:
                return form.adapt(given, log)
            except OffPolicyError as error:
                raise type(error)(f"policy {name!r}: {error}") from error
    if is_frame(given):
        raise PolicyError(
            f"policy {name!r}: a frame is ambiguous. Give probabilities as an (n, K) array in the order of "
            f"log.actions {log.actions[:5]}, or use offpolicy.policies.Table."
        )
    accepted = "; ".join(form.called for form in FORMS)
    raise PolicyError(
        f"policy {name!r}: {_shown(given)} is not a policy. Accepted: {accepted}. offpolicy.policies has adapters."
    )


def is_constant(given: Any) -> bool:
    """Whether ``given`` is a mapping from action to probability."""
    return (
        isinstance(given, Mapping)
        and bool(given)
        and all(isinstance(p, Real) and not isinstance(p, bool) for p in given.values())
    )


def _is_ready(given: Any, _: Surface) -> bool:
    parts = ("probabilities", "choices", "on_rows", "of_shown", "bind", "by_fold")
    return any(hasattr(given, part) for part in parts) and not is_unfitted(given)


def _are_names(given: Any, _: Surface) -> bool:
    return isinstance(given, Sequence) and bool(given) and all(isinstance(c, str) for c in given)


def _is_classifier(given: Any, _: Surface) -> bool:
    return hasattr(given, "predict_proba") and (hasattr(given, "classes_") or hasattr(given, "get_params"))


def _shape(given: Any) -> tuple[int, ...] | None:
    if is_frame(given) or isinstance(given, Mapping):
        return None
    try:
        return np.shape(given) or None
    except ValueError:  # lists of different lengths
        return None


def _is_state_table(given: Any, log: Surface) -> bool:
    shape = _shape(given)
    return (
        log.integer_states
        and shape is not None
        and len(shape) == 2
        and shape[0] != log.rows
        and shape[1] == len(log.actions)
    )


def _is_state_list(given: Any, log: Surface) -> bool:
    shape = _shape(given)
    return log.integer_states and shape is not None and len(shape) == 1 and shape[0] != log.rows


def _is_ranking(given: Any, log: Surface) -> bool:
    return (
        log.of_slates
        and isinstance(given, list | tuple)
        and bool(given)
        and all(isinstance(item, Hashable) and item in log.actions for item in given)
        and not all(isinstance(item, str) and item in log.columns for item in given)
    )


def _array(given: Any, log: Surface) -> RowArray:
    if log.rows is None:
        raise PolicyError(
            "an array has one row per logged row, which a scanned log does not hold. Give a function of "
            "the context, or the name of a column."
        )
    shape, k = _shape(given), len(log.actions)
    fits = shape in {(log.rows,), (log.rows, k), (log.rows, k, 1)}
    if log.integer_states and not fits and shape is not None and len(shape) < 3:
        raise PolicyError(
            f"an array of shape {shape} fits neither the rows of the log, (n, K) = {(log.rows, k)}, nor its states: a "
            f"table by state is (states, {k}), one action per state is (states,). The log has {k} actions, "
            f"{log.actions[:8]}; name those that were never logged when you build it: labels= of from_arrays, actions= "
            "of from_frame."
        )
    return RowArray(given)


def _shown(given: Any) -> str:
    shape = np.shape(given) if isinstance(given, np.ndarray) else ()
    if shape:
        return f"an array of shape {shape}"
    text = repr(given)
    return text if len(text) <= 60 else f"a {type(given).__name__}"


FORMS: tuple[Form, ...] = (
    Adapter("an object with probabilities(context) or choices(context)", _is_ready, lambda p, _: p),
    Adapter(
        "words: a column of the log, 'uniform', 'always:x', 'sql:case when … end'",
        lambda p, _: isinstance(p, str),
        from_words,
    ),
    Adapter("a list of items: one ranking for all slates", _is_ranking, lambda p, _: Ranking(tuple(p))),
    Adapter("names of probability columns", _are_names, lambda p, _: LogColumns(tuple(p))),
    Adapter("a mapping from action to probability", lambda p, _: is_constant(p), lambda p, _: Constant(dict(p))),
    Adapter(
        "an unfitted scikit-learn model of the reward, refitted out of fold",
        lambda p, _: is_unfitted(p),
        lambda p, _: CrossFitted(p),
    ),
    Adapter(
        "a fitted classifier (predict_proba, classes_)",
        _is_classifier,
        lambda p, log: Classifier(p, note=DRAWN).bind(log.actions),
    ),
    Adapter(
        "an object whose predict gives actions (Stable-Baselines3, d3rlpy)",
        lambda p, _: hasattr(p, "predict"),
        lambda p, _: Predictor(p),
    ),
    Adapter("a torch module giving logits", lambda p, _: is_torch_module(p), lambda p, _: TorchLogits(p)),
    Adapter("a function of the context", lambda p, _: callable(p), lambda p, _: p),
    Adapter("an (S, K) array for states 0 … S−1 of episodes", _is_state_table, lambda p, _: StateTable(np.asarray(p))),
    Adapter(
        "one action for each of the states 0 … S−1 of episodes",
        _is_state_list,
        lambda p, _: StateChoices(np.asarray(p)),
    ),
    Adapter("an (n, K) or (n, K, 1) array", lambda p, _: _shape(p) is not None, _array),
)
