"""``--policy name=SPEC``: from words on the command line to policies by name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy.policies.forms import from_words, names_module
from offpolicy.policies.protocol import Surface

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.logs.log import Log

TREE_FILES = (".json",)


def parse_policies(specs: Sequence[str] | None, log: Log, config: str | None = None) -> dict[str, Any]:
    """Resolve every ``name=SPEC``; the words are those of `offpolicy.policies.forms`.

    A module that a policy names is looked for where modules are, then beside the run file ``config``, then here.
    """
    if not specs:
        raise UsageError("which policy? Give --policy name=SPEC (see offpolicy evaluate --help).")
    surface = Surface.of(log)
    policies: dict[str, Any] = {}
    for text in specs:
        name, separator, spec = text.partition("=")
        if not separator or not name.strip() or not spec.strip():  # a label keeps its blanks
            raise UsageError(f"--policy {text!r}: write name=SPEC, for example new=recommended_ad.")
        if not name.isprintable():
            raise UsageError(f"--policy {text!r}: a name is plain text, without control characters.")
        if name.strip() in policies:
            raise UsageError(f"--policy: the name {name.strip()!r} is used twice.")
        if names_module(spec, surface):
            folders = [Path(config).resolve().parent] if config else []
            _look_last_in([*folders, Path.cwd()])
        policies[name.strip()] = _policy(name.strip(), spec, surface)
    return policies


def _look_last_in(folders: Sequence[Path]) -> None:
    """Modules may lie in these folders; none there takes the place of one that is installed."""
    sys.path += [str(folder) for folder in folders if str(folder) not in sys.path]
    importlib.invalidate_caches()


def _policy(name: str, spec: str, surface: Surface) -> Any:
    """A tree that `learn_policy` left as JSON, or what the library's words say."""
    if not surface.space.finite:
        return surface.space.adapted(name, spec, surface)
    if not spec.lower().endswith(TREE_FILES):
        return from_words(spec, surface)
    from offpolicy.decide.policies import TreePolicy

    path = Path(spec)
    if not path.is_file():
        raise UsageError(f"there is no file {spec!r} with a policy tree.")
    return TreePolicy.from_json(path.read_text(encoding="utf-8"))
