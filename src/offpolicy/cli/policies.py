"""``--policy name=SPEC``: from words on the command line to policies by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError
from offpolicy.policies.surface import Surface
from offpolicy.policies.words import from_words

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse_policies(specs: Sequence[str] | None, log: Any) -> dict[str, Any]:
    """Resolve every ``name=SPEC``; the words are those of `offpolicy.policies.words`."""
    if not specs:
        raise UsageError("which policy? Give --policy name=SPEC (see offpolicy evaluate --help).")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # package.module:function beside the log is the usual case
    surface = Surface.of(log)
    policies: dict[str, Any] = {}
    for text in specs:
        name, separator, spec = text.partition("=")
        if not separator or not name.strip() or not spec.strip():
            raise UsageError(f"--policy {text!r}: write name=SPEC, for example new=recommended_ad.")
        if not name.isprintable():
            raise UsageError(
                f"--policy {text!r}: a name is plain text, without control characters."
            )
        if name.strip() in policies:
            raise UsageError(f"--policy: the name {name.strip()!r} is used twice.")
        policies[name.strip()] = from_words(spec.strip(), surface)
    return policies
