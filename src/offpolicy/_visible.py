"""Text that cannot steer a terminal, a page, or the CI job whose output it is part of."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Control characters, formatting ones (which can turn the direction of text), lone surrogates, line ends.
CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# What GitHub Actions, Azure Pipelines and TeamCity obey in the output of a step.
COMMAND = re.compile(r"^([^\S\n]*)(:)(?=:)|()(#)(?=#(?:\[|vso\[|teamcity\[))", re.MULTILINE)


def visible(text: str, *, lines: bool = False) -> str:
    r"""Text whose control characters are shown as escapes: a name from the data cannot steer a terminal.

    ``lines`` leaves line breaks and tabs as they are, for text of several lines; what CI systems would take for
    commands (``::error::`` at the beginning of a line, ``##[error]``) loses its first character to an escape.

    >>> visible("new" + chr(27) + "[2J"), visible("::stop-commands::x", lines=True)
    ('new\\x1b[2J', '\\x3a:stop-commands::x')
    """
    if lines:
        text = COMMAND.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):x}", text)
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or unicodedata.category(c) not in CONTROL else _escape(c) for c in text)


def esc(text: object) -> str:
    """Text for an element or a quoted attribute.

    >>> esc('<img onerror="x">')
    '&lt;img onerror=&quot;x&quot;&gt;'
    """
    return html.escape(visible(str(text), lines=True), quote=True)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable(method: Callable[[Any], str]) -> Callable[[Any], str]:
    """For ``__str__`` and ``__repr__`` of what carries names from the data: print() shows them, and obeys none."""

    @wraps(method)
    def text(self: Any) -> str:
        return visible(method(self), lines=True)

    return text
