"""Arguments of public calls, checked in one place by what their annotations say.

``@checks_arguments`` reads the annotations of a function, method or class once. A call with a value which is none of
them ends in an error that names the argument and says what it may be; where the function has more to say about the
value, in an error of the library, that error is raised in its place.
`KINDS` says what each word of an annotation means, `RANGES` what a name means everywhere, and `FOREIGN` which arguments
are objects of other libraries: what these raise while they are read arrives as an error about the argument.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial, wraps
from inspect import Parameter, Signature, isclass, signature
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from offpolicy.errors import ArgumentError, OffPolicyError, UsageError, did_you_mean

Target = TypeVar("Target", bound=Callable[..., Any])
Rows: TypeAlias = Any  # a list, an array or a frame: a word of annotations


@dataclass(frozen=True)
class Kind:
    """What an annotation allows, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]
    choices: tuple[str, ...] = ()


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not _is_truth(value) and not math.isnan(value)


def _is_many(value: Any) -> bool:
    """Several in an order, which a set does not have."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | set | frozenset)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list | tuple)


def _is_rows(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def _all(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_many(value) and all(map(test, value))


def _numbers_by_key(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_number, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_column(value: Any) -> bool:
    return isinstance(value, str | Integral)


def is_hashable(value: Any) -> bool:
    """Whether a value can be a label."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _named(*names: str) -> Callable[[Any], bool]:
    """Of one of these classes, or of one made from them: classes to the right cannot be imported here."""
    return lambda value: any(each.__name__ in names for each in type(value).__mro__)


KINDS: dict[str, Kind] = {
    "None": Kind("None", lambda value: value is None),
    "bool": Kind("True or False", _is_truth),
    "int": Kind("an int", lambda value: isinstance(value, Integral) and not _is_truth(value)),
    "float": Kind("a number", _is_number),
    "str": Kind("text", _is_text),
    "Path": Kind("a path", lambda value: isinstance(value, os.PathLike)),
    "Sequence[str]": Kind("a list of texts", _all(_is_text)),
    "Sequence[str | int]": Kind("a list of columns", _all(_is_column)),
    "Sequence[float]": Kind("a list of numbers", _all(_is_number)),
    "Sequence[Any]": Kind("a list", _is_many),
    "Sequence[Label]": Kind("a list of labels", _is_many),
    "Iterable[Hashable]": Kind("a list of labels", _is_many),
    "tuple[Hashable, ...]": Kind("a list of labels", _is_many),
    "tuple[str, ...]": Kind("a list of texts", _all(_is_text)),
    "tuple[float, float]": Kind("two numbers", lambda v: _is_many(v) and len(list(v)) == 2 and all(map(_is_number, v))),
    "Mapping[Any, float]": Kind("a mapping to numbers", _numbers_by_key),
    "Mapping[str, float]": Kind("a mapping to numbers", _numbers_by_key),
    "Mapping": Kind("a mapping", lambda value: isinstance(value, Mapping)),
    "Callable": Kind("a function", callable),
    "Array": Kind("an array", _is_array),
    "Floats": Kind("an array of numbers", _is_array),
    "Ints": Kind("an array of whole numbers", _is_array),
    "Bools": Kind("an array of booleans", _is_array),
    "ArrayLike": Kind("an array of numbers", lambda value: _is_array(value) or _is_number(value)),
    "Rows": Kind("one entry per row", lambda value: _is_rows(value) and not isclass(value)),
    "Hashable": Kind("a label", is_hashable),
    "ActionSpace": Kind("an action space", lambda value: hasattr(value, "finite") and not isclass(value)),
    "UnitKind": Kind("a kind of unit", lambda value: hasattr(value, "decides_once") and not isclass(value)),
    "Log": Kind("a log", lambda value: hasattr(value, "in_memory") or hasattr(value, "opened")),
    "Scan": Kind("a scan", lambda value: hasattr(value, "engine")),
    "LogScan": Kind("a scan", _named("LogScan")),
    "BanditLog": Kind("a BanditLog", _named("BanditLog")),
    "Evaluation": Kind("an evaluation", _named("Evaluation")),
    "Estimate": Kind("an estimate", _named("Estimate")),
    "KFold": Kind("a KFold", _named("KFold")),
    "Format": Kind("a Format", _named("Format")),
    "Units": Kind("the units of other scores", _named("Units")),
    "list[float]": Kind("a list of numbers", _is_many),
    "Training": Kind("a Training", _named("Training")),
    "Decision": Kind("a selection, or a learned policy", lambda value: hasattr(value, "sections")),
}

TEXTS = ("name", "path")
# What a name means in every call: the words, and the test.
RANGES: dict[str, Kind] = {
    "level": Kind("between 0 and 1", lambda value: 0 < value < 1),
    "rate": Kind("from 1e-12 to less than 1", lambda value: 1e-12 <= value < 1),
    "seed": Kind("at least 0", lambda value: value >= 0),
    **dict.fromkeys(("k", "folds"), Kind("from 1 to 1,000,000", lambda value: 1 <= value <= 1_000_000)),
    **dict.fromkeys(TEXTS, Kind("a text that is not empty", lambda value: value != "")),
    **dict.fromkeys(
        ("repeats", "episodes", "max_steps", "horizon", "chunk_rows", "max_rows", "max_cells", "fit_rows",
         "neighbors", "knots", "rounds", "epochs", "batch_size", "min_rows"),
        Kind("at least 1", lambda value: value >= 1),
    ),
}  # fmt: skip

# Arguments of functions that are looked at before the call: it would take long to find out, or to go wrong.
BEFOREHAND = frozenset({"chunk_rows", "max_rows", "max_cells", "fit_rows", "progress", "rate"})

# Objects of other libraries, which say in their own words that they are none.
FOREIGN = {
    "buffer": "a Stable-Baselines3 buffer",
    "dataset": "a dataset of episodes",
    "recording": "an RLlib recording",
    "transitions": "transitions",
    "environment": "a Gymnasium environment",
    "feedback": "an Open Bandit Pipeline dictionary",
    "preference": "preferences",
    "module": "a torch module",
}
RAISED = (
    AttributeError, TypeError, KeyError, IndexError, ValueError, OSError, OverflowError, ZeroDivisionError,
)  # fmt: skip


def takes(*declared: Any) -> Callable[[Target], Target]:
    """Let a function's ``**`` stand for the arguments that TypedDicts and dataclasses declare, each by its name.

    Help, editors and `checks_arguments` see all of them.

    >>> from typing import TypedDict
    >>> class Words(TypedDict, total=False):
    ...     title: str | None
    >>> @takes(Words)
    ... def page(**words: str | None) -> Any:
    ...     return words
    >>> str(signature(page)), page(title="x")
    ("(*, title: 'str | None' = None) -> 'Any'", {'title': 'x'})
    """

    def with_names(function: Any) -> Any:
        own = signature(function)
        kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(each, name, None), annotation=_written(kind))
            for each in declared
            for name, kind in each.__annotations__.items()
        ]
        function.__signature__ = own.replace(parameters=[*kept, *more])
        return function

    return with_names


def _written(annotation: Any) -> str:
    """An annotation as it stands in the source."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def checks_arguments(target: Target) -> Target:
    """Check the arguments of a public function, method or class by their annotations.

    >>> @checks_arguments
    ... def tail(level: float = 0.95) -> float:
    ...     return 1 - level
    >>> tail(None)
    Traceback (most recent call last):
    offpolicy.errors.UsageError: tail: level= must be a number. Got None instead.
    """
    if isclass(target):
        made: Any = target
        made.__init__ = _guarded(made.__init__, made.__name__)
        return target
    guarded: Target = _guarded(target, target.__name__)
    return guarded


def _guarded(function: Any, who: str) -> Any:
    @cache
    def declared() -> tuple[Signature, dict[str, tuple[Kind, ...]], str | None]:
        form = signature(function)
        kinds = {
            name: _kinds(str(each.annotation), function.__globals__)
            for name, each in form.parameters.items()
            if name != "self" and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        }
        return form, kinds, next((name for name in kinds if name in FOREIGN), None)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        form, kinds, foreign = declared()
        try:
            given = form.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise _not_bound(form, who, function.__qualname__, kwargs, error) from None
        return _answer(who, given, kinds, foreign, lambda: function(*args, **kwargs))

    call.declared_kinds = lambda: declared()[1]  # type: ignore[attr-defined]
    return call


def checked_as(function: Any, who: str, given: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    """What ``work`` gives, of arguments that mean what they mean to another function."""
    return _answer(who, given, function.declared_kinds(), None, work)


def _answer(
    who: str,
    given: Mapping[str, Any],
    kinds: Mapping[str, tuple[Kind, ...]],
    foreign: str | None,
    work: Callable[[], Any],
) -> Any:
    wrong = next(_wrong_ones(who, given, kinds), None)
    if wrong is not None and wrong[0] in BEFOREHAND:
        raise wrong[1]
    try:
        answer = work()
    except OffPolicyError:
        raise  # whoever has more to say about a value has said it
    except RAISED as error:
        if wrong is not None:
            raise wrong[1] from error
        if foreign is None or foreign not in given:
            raise
        raise UsageError(
            f"{who}: {foreign}= cannot be read as {FOREIGN[foreign]} ({type(error).__name__}: {error})."
        ) from error
    if wrong is not None:
        raise wrong[1]
    return answer


def _wrong_ones(
    who: str, given: Mapping[str, Any], kinds: Mapping[str, tuple[Kind, ...]]
) -> Iterator[tuple[str, UsageError]]:
    """Arguments that are not of their kinds, those that are looked at beforehand first, and what to say of each."""
    for name in sorted(given, key=lambda name: name not in BEFOREHAND):
        error = _wrong(who, name, given[name], kinds.get(name, ()))
        if error is not None:
            yield name, error


def _wrong(who: str, name: str, value: Any, allowed: tuple[Kind, ...]) -> UsageError | None:
    if not allowed:
        return None
    if not any(kind.holds(value) for kind in allowed):
        choices = [choice for kind in allowed for choice in kind.choices]
        hint = did_you_mean(value, choices) if isinstance(value, str) and choices else ""
        said = _or([kind.words for kind in allowed])
        return UsageError(f"{who}: {name}= must be {said}. Got {value!r:.80} instead.{hint}")
    limit = RANGES.get(name)
    if limit is not None and isinstance(value, Real | str) and not _is_truth(value):
        comparable = isinstance(value, str) == (name in TEXTS)
        if comparable and not limit.holds(value):
            return UsageError(f"{who}: {name}= must be {limit.words}. Got {value!r:.80} instead.")
    return None


def _not_bound(form: Signature, who: str, name: str, kwargs: Mapping[str, Any], error: TypeError) -> Exception:
    """What to say of an argument that is not known, or missing; it is a TypeError as well."""
    own = {each.name: each for each in form.parameters.values() if each.name not in {"self", "cls"}}
    open_ended = any(each.kind is each.VAR_KEYWORD for each in own.values())
    unknown = [key for key in kwargs if key not in own and not open_ended]
    if unknown:
        return ArgumentError(f"{name} has no argument {unknown[0]!r}.{did_you_mean(unknown[0], own)}")
    return ArgumentError(f"{who}: {error}.")


def _kinds(annotation: str, names: dict[str, Any]) -> tuple[Kind, ...]:
    """What an annotation allows; nothing where one of its words is not in the table, so that anything passes."""
    found = []
    for word in _alternatives(annotation):
        alias = names.get(word)
        if word.startswith("Literal["):
            alias = eval(word, {"Literal": Literal})  # noqa: S307 — an annotation of the library's own
        if get_origin(alias) is Literal:
            choices = get_args(alias)
            text = _or(list(map(repr, choices)))
            found.append(Kind(text, partial(_is_choice, choices), choices))
        elif get_origin(alias) is Callable:
            found.append(KINDS["Callable"])
        elif word in KINDS or word.split("[")[0] in {"Mapping", "Callable"}:
            found.append(KINDS.get(word) or KINDS[word.split("[")[0]])
        else:
            return ()
    return tuple(found)


def _or(words: list[str]) -> str:
    """Words in a row.

    >>> _or(["'a'", "'b'", "None"])
    "'a', 'b' or None"
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _is_choice(choices: tuple[Any, ...], value: Any) -> bool:
    return isinstance(value, str) and value in choices


def _alternatives(annotation: str) -> list[str]:
    """The words of an annotation, divided where | stands outside of brackets.

    >>> _alternatives("Sequence[str | int] | None")
    ['Sequence[str | int]', 'None']
    """
    words, depth, start = [], 0, 0
    for i, character in enumerate(annotation):
        depth += (character in "[(") - (character in "])")
        if character == "|" and depth == 0:
            words.append(annotation[start:i].strip())
            start = i + 1
    return [*words, annotation[start:].strip()]
