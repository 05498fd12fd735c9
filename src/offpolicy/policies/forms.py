"""The forms in which people hold a policy, one adapter each, tried in order.

An adapter says whether it takes an object and turns it into a policy: an object with ``probabilities`` or
``choices``, a function of the context, or something with ``on_rows`` that is known on the log's rows only. To
take a further kind of object, add an adapter to `FORMS`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy.errors import OffPolicyError, PolicyError, did_you_mean
from offpolicy.logs.actions import by_label
from offpolicy.logs.frame import is_frame
from offpolicy.policies.fitted import Classifier, CrossFitted, Predictor, TorchLogits, is_torch_module, is_unfitted
from offpolicy.policies.on_rows import LabelColumn, LogColumns, RowArray, ScoreColumns
from offpolicy.policies.simple import Constant, Fixed, Ranking, Uniform
from offpolicy.policies.sql import PREFIX, SqlRule, policy_table
from offpolicy.policies.tables import StateChoices, StateTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.policies.protocol import Surface


DRAWN = "actions are drawn from predict_proba; for its single best action pass model.predict"


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

    >>> from offpolicy.policies.protocol import Surface
    >>> from offpolicy.logs.kinds import space_of
    >>> adapted("new", {"a": 0.2, "b": 0.8}, Surface(space_of(("a", "b"))))
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
            f"policy {name!r}: a frame is ambiguous. Pass probabilities as an (n, K) array in the order of "
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
            "an array needs one row per logged row, but a scanned log is not in memory. Pass a function of "
            "the context, or the name of a column."
        )
    shape, k = _shape(given), len(log.actions)
    fits = shape in {(log.rows,), (log.rows, k), (log.rows, k, 1)}
    if log.integer_states and not fits and shape is not None and len(shape) < 3:
        raise PolicyError(
            f"an array of shape {shape} matches neither the rows of the log, (n, K) = {(log.rows, k)}, nor its states: "
            f"a table by state is (states, {k}), one action per state is (states,). The log has {k} actions, "
            f"{log.actions[:8]}; name actions that were never logged when you build it: labels= of from_arrays, "
            "actions= of from_frame."
        )
    return RowArray(given)


def _shown(given: Any) -> str:
    shape = np.shape(given) if isinstance(given, np.ndarray) else ()
    if shape:
        return f"an array of shape {shape}"
    text = repr(given)
    return text if len(text) <= 60 else f"a {type(given).__name__}"


TABLE_FILES = (".csv", ".csv.gz", ".parquet", ".pq")


@dataclass(frozen=True)
class Word:
    """One way to say a policy: how it is written, whether a text is one, and what it means."""

    written: str
    says: Callable[[str, Surface], bool]
    means: Callable[[str, Surface], Any]
    runs_code: bool = False  # of a file that the text names


def from_words(text: str, log: Surface) -> Any:
    """The policy that a text stands for; a column of the log comes before anything else.

    >>> from offpolicy.policies.protocol import Surface
    >>> from offpolicy.logs.kinds import space_of
    >>> from_words("always:b", Surface(space_of(("a", "b"))))
    Fixed(action='b')
    """
    for word in WORDS:
        if word.says(text, log):
            return word.means(text, log)
    raise unknown_words(text, log)


def unknown_words(text: str, log: Surface) -> PolicyError:
    """The error about a text that is no policy."""
    known = (*log.columns, "uniform", *(f"always:{a}" for a in log.actions[:5]))
    written = ", ".join(word.written for word in WORDS)
    said = f" (the log has no such column{'' if log.columns else ' because it was not built from a frame'})"
    return PolicyError(f"{text!r} is not a policy{said}.{did_you_mean(text, known)} A policy as text is {written}.")


def _listed(text: str, log: Surface, what: str) -> tuple[str, ...]:
    """Names of columns, each of them once."""
    names = [part if part in log.columns else part.strip() for part in text.split(",")]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f"{text!r} names the {what} column {name!r} twice.")
    return tuple(names)


def _label(text: str, log: Surface) -> Any:
    named = text.removeprefix("always:")
    alike = [label for label in log.actions if str(label) == named]
    if len(alike) > 1:
        raise PolicyError(
            f"{text}: the log's actions {alike[0]!r} and {alike[1]!r} look the same as text. Name the action in "
            f"Python: op.policies.Fixed({alike[0]!r})."
        )
    if alike:
        return Fixed(alike[0])
    raise PolicyError(f"{text}: the log has no such action.{did_you_mean(named, log.actions)}")


def _table(path: str, log: Surface) -> Any:
    if not Path(path).exists():
        raise PolicyError(f"there is no file {path!r}. Check the path of the policy's table.")
    if not log.context:
        raise PolicyError(f"{path}: a table policy needs a log with named context columns.")
    return policy_table(path, log.action, log.context)


def names_module(text: str, log: Surface) -> bool:
    """Whether a text is a policy that is imported: nothing else than that runs the code of a file."""
    word = next((word for word in WORDS if word.says(text, log)), None)
    return word is not None and word.runs_code


def imported(text: str, _: Surface) -> Any:
    """The object that ``package.module:name`` or ``file.py:name`` names."""
    module_name, _colon, path = text.rpartition(":")
    file = module_name.endswith(".py")
    words = [*([] if file else module_name.split(".")), *path.split(".")]
    if not all(part.isidentifier() for part in words):
        raise PolicyError(f"{text!r} is not package.module:function: modules and functions need plain names.")
    try:
        value: Any = _from_file(module_name) if file else importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the module's own code raises
        said = f"{error}" if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise PolicyError(f"{text!r}: cannot import {module_name!r}: {said}") from error
    for part in path.split("."):
        if not hasattr(value, part):
            known = [n for n in dir(value) if not n.startswith("_")]
            raise PolicyError(f"{text!r}: {module_name} has no {part!r}.{did_you_mean(part, known)}")
        value = getattr(value, part)
    return value


def _from_file(path: str) -> Any:
    """The module in a file."""
    if not Path(path).exists():
        raise ImportError(f"there is no file {path!r}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORDS: tuple[Word, ...] = (
    Word("a column's name", lambda t, log: t in log.columns, lambda t, _: LabelColumn(t)),
    Word("'uniform'", lambda t, _: t == "uniform", lambda _t, _: Uniform()),
    Word("'always:x'", lambda t, _: t.startswith("always:"), _label),
    Word(
        "'sql:case when … end'",
        lambda t, _: t.startswith(PREFIX),
        lambda t, log: SqlRule.of(t.removeprefix(PREFIX).strip(), log.columns),
    ),
    Word(
        "'greedy:score_a,score_b'",
        lambda t, _: t.startswith("greedy:"),
        lambda t, log: ScoreColumns(by_label(_listed(t.removeprefix("greedy:"), log, "score"), log.actions)),
    ),
    Word("'table.csv'", lambda t, _: t.lower().endswith(TABLE_FILES), _table),
    Word(
        "'p_a,p_b'",
        lambda t, _: "," in t,
        lambda t, log: LogColumns(by_label(_listed(t, log, "probability"), log.actions)),
    ),
    Word("'package.module:function' or 'rules.py:function'", lambda t, _: ":" in t, imported, runs_code=True),
)


FORMS: tuple[Form, ...] = (
    Adapter("an object with probabilities(context) or choices(context)", _is_ready, lambda p, _: p),
    Adapter(
        "words: a column of the log, 'uniform', 'always:x', 'sql:case when … end'",
        lambda p, _: isinstance(p, str),
        from_words,
    ),
    Adapter("a list of items: one ranking for all slates", _is_ranking, lambda p, _: Ranking(tuple(p))),
    Adapter("names of probability columns", _are_names, lambda p, log: LogColumns(by_label(p, log.actions))),
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
    Adapter("a torch module that returns logits", lambda p, _: is_torch_module(p), lambda p, _: TorchLogits(p)),
    Adapter("a function of the context", lambda p, _: callable(p), lambda p, _: p),
    Adapter("an (S, K) array for states 0 … S−1 of episodes", _is_state_table, lambda p, _: StateTable(np.asarray(p))),
    Adapter(
        "one action for each of the states 0 … S−1 of episodes",
        _is_state_list,
        lambda p, _: StateChoices(np.asarray(p)),
    ),
    Adapter("an (n, K) or (n, K, 1) array", lambda p, _: _shape(p) is not None, _array),
)
