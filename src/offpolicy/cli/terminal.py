"""What people see: text on a terminal or in a pipe, whatever its encoding, and none of it lost to a closed pipe.

A character that the encoding of the stream does not have is written in plain letters (π as pi), control
characters of names from the data are shown and not obeyed, and color is for terminals only (``NO_COLOR`` turns it
off).
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from offpolicy._visible import visible
from offpolicy.cli.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

Color: TypeAlias = Literal["red", "yellow", "green", "bold"]

CODES: dict[Color, str] = {"red": "31", "yellow": "33", "green": "32", "bold": "1"}
PLAIN = {
    "─": "-", "—": "-", "–": "-", "−": "-", "→": "->", "…": "...", "·": "|", "×": "x", "±": "+-", "≥": ">=",
    "≤": "<=", "≠": "!=", "∞": "inf", "²": "^2", "√": "sqrt ", "Σ": "sum ", "∈": "in", "π": "pi", "ψ": "psi",
    "β": "beta", "γ": "gamma", "δ": "delta", "μ": "mu", "ρ": "rho", "σ": "sigma", "θ": "theta", "ε": "epsilon",
    "Γ": "Gamma", "✓": "ok", "✗": "x", "“": '"', "”": '"', "‘": "'", "’": "'", "█": "#", "━": "=",
}  # fmt: skip
HANDLER = "offpolicy.plain"
LOST: list[OSError] = []  # why output of this run was not written


def plainly(error: UnicodeError) -> tuple[str, int]:
    r"""Stand-ins for characters that an encoding does not have; names in other scripts as escapes.

    >>> codecs.register_error(HANDLER, plainly)
    >>> "π_b … 中".encode("ascii", HANDLER).decode()
    'pi_b ... \\u4e2d'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    stand_ins = (PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in missing)
    return "".join(stand_ins), error.end


def prepare() -> None:
    """Make both streams take any text."""
    codecs.register_error(HANDLER, plainly)
    for stream in (sys.stdout, sys.stderr):
        settle: Any = getattr(stream, "reconfigure", None)  # absent where output is captured
        if settle is not None:
            settle(errors=HANDLER)


def say(text: str = "", color: Color | None = None) -> None:
    """Print to standard output; when nobody reads it any more, go on in silence."""
    with _kept():
        print(painted(visible(text, lines=True), color, sys.stdout))


def complain(text: str) -> None:
    """Print to standard error, where there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(visible(text, lines=True), file=sys.stderr, flush=True)


def painted(text: str, color: Color | None, stream: TextIO | None) -> str:
    """Text in a color where the stream is a terminal whose user did not ask for none."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if color is None or plain or stream is None or not stream.isatty():
        return text
    return f"\x1b[{CODES[color]}m{text}\x1b[0m"


def finish(code: int) -> int:
    """Write out what is still held back; the exit code stays, or tells that nothing could be written."""
    with _kept():
        if sys.stdout is not None:
            sys.stdout.flush()
    while LOST:
        complain(f"offpolicy: the output could not be written: {LOST.pop()}")
        code = code or 1
    return code


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    """Let no failure of standard output reach the command; all but a reader that went away are remembered."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            LOST.append(error)
        _mute()


def _mute() -> None:
    """Send what is left to flush nowhere, so that the interpreter does not fail on it at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# -- the library's remedies in the words of the command line: ``cluster=`` becomes ``--cluster`` -----------------------

FLAGS = {s.argument: f"--{s.name.replace('_', '-')}" for s in SETTINGS if s.argument}
ARGUMENT = re.compile(
    rf"(?<![\w.\-])(?P<name>{'|'.join(sorted(FLAGS, key=len, reverse=True))})="
    r"(?P<value>\w+\([^()]*\)|'[^']*'|\"[^\"]*\"|[\w]+(?:\.\d+)?|…)?"
)


def in_flags(text: str) -> str:
    """A sentence of the library for someone at the command line.

    >>> in_flags("name the unit that repeats with cluster=.")
    'name the unit that repeats with --cluster.'
    >>> in_flags("context='age': the frame has no such column.")
    "--context 'age': the frame has no such column."
    >>> in_flags("say randomized=True if so")
    'say --randomized if so'
    >>> in_flags("smooth: behavior_model=Shares(smoothing=1).")
    'smooth: behavior_model=Shares(smoothing=1) in Python.'
    """

    def flag(match: re.Match[str]) -> str:
        value = match["value"] or ""
        if value.endswith(")"):  # an object; the command line has no word for it
            return f"{match[0]} in Python"
        if value == "True":
            value = ""
        return f"{FLAGS[match['name']]}{' ' if value else ''}{value}"

    return ARGUMENT.sub(flag, text)
