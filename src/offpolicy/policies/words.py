"""Policies in words, the same on the command line and in Python.

=====================  ======================================================================================
a column of the log    the action it would take, row by row
``uniform``            every action with the same probability
``always:x``           the action x
``table.csv``          a file (CSV or Parquet) of context columns, the action and ``probability``
``p_a,p_b``            probability columns, one for each action of the log, in their order
``greedy:s_a,s_b``     score columns, one for each action of the log, in their order: the highest is taken
``sql:case … end``     an SQL expression over columns of the log that gives the action
``package.module:f``   a function or object that can be imported; ``rules.py:f`` reads it from a file
=====================  ======================================================================================

Nothing is unpickled.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import PolicyError, did_you_mean
from offpolicy.policies.on_rows import LabelColumn, LogColumns, ScoreColumns
from offpolicy.policies.simple import Fixed, Uniform
from offpolicy.policies.sql import PREFIX, SqlRule
from offpolicy.policies.table_file import policy_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.policies.surface import Surface

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

    >>> from offpolicy.policies.surface import Surface
    >>> from_words("always:b", Surface(actions=("a", "b")))
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
    said = f" (the log has no such column{'' if log.columns else ': it was not built from a frame'})"
    return PolicyError(f"{text!r} is not a policy in words{said}.{did_you_mean(text, known)} Written are: {written}.")


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
            f"{text}: the log's actions {alike[0]!r} and {alike[1]!r} are written alike. Name it from Python: "
            f"op.policies.Fixed({alike[0]!r})."
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
        raise PolicyError(f"{text!r} is not package.module:function: names of modules and functions are plain words.")
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
        lambda t, log: ScoreColumns(_listed(t.removeprefix("greedy:"), log, "score")),
    ),
    Word("'table.csv'", lambda t, _: t.lower().endswith(TABLE_FILES), _table),
    Word("'p_a,p_b'", lambda t, _: "," in t, lambda t, log: LogColumns(_listed(t, log, "probability"))),
    Word("'package.module:function' or 'rules.py:function'", lambda t, _: ":" in t, imported, runs_code=True),
)
