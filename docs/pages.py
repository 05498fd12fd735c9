"""The Python and shell blocks of the pages, run in order, and what they print.

A block of a page is followed by a fence called ``output`` with what it printed, written by `make outputs` and
compared by the tests. A block that is not run says why in a comment before it: ``<!-- not run: … -->``. A page that
reads public data names their folder in a comment, ``<!-- data: obd -->``; its blocks find them in the current folder.
"""

import contextlib
import io
import os
import re
import shlex
import unittest
import warnings
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]+ -->\s*)?"
    r"^(?P<code>```(?P<kind>python|bash)\n(?P<text>.*?)^```\n)"
    r"(?P<shown>\n```output\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
DATA = re.compile(r"^<!-- data: (\w+) -->$", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
# Learners round differently on other machines; a wrong number is further off than this.
RELATIVE, ABSOLUTE = 0.1, 0.02


@dataclass(frozen=True)
class Block:
    """One block of a page: python or bash, its text, and the output that the page shows."""

    kind: str
    text: str
    output: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are run."""
    found = BLOCK.finditer(page.read_text("utf-8"))
    return [Block(m["kind"], m["text"], m["output"] or "") for m in found if not m["skip"]]


def missing_data(page: Path) -> str:
    """The folder of public data that a page needs and that is not here; empty when nothing is missing."""
    named = DATA.search(page.read_text("utf-8"))
    return "" if named is None or (_data() / named[1]).is_dir() else named[1]


def _data() -> Path:
    return Path(os.environ.get("OFFPOLICY_DATA", ROOT.parent / "shared" / "data"))


def outputs(page: Path) -> list[str]:
    """Run a page in the current folder, its blocks one after another, and give what each printed."""
    if missing := missing_data(page):  # tests take this for a skip, with its reason
        raise unittest.SkipTest(f"the data {missing!r} are not in ../shared/data or OFFPOLICY_DATA")
    named = DATA.search(page.read_text("utf-8"))
    if named is not None:
        Path(named[1]).symlink_to(_data().resolve() / named[1])
    names = {"__name__": "__page__"}
    os.environ["COLUMNS"] = "120"
    return [_printed(block, page, names) for block in blocks(page)]


def _printed(block: Block, page: Path, names: dict) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        # Ibis asks pandas for an option that pandas 3 is about to drop.
        warnings.filterwarnings("ignore", "The 'future.infer_string' option", DeprecationWarning)
        if block.kind == "python":
            exec(compile(block.text, str(page), "exec"), names)  # noqa: S102
        else:
            _shell(block.text)
    text = out.getvalue().replace(str(Path.cwd()), "…")
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _shell(text: str) -> None:
    from offpolicy.cli import main

    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["offpolicy"]:
            code = main(words[1:])
            if code != 0:
                raise AssertionError(f"exit code {code}: {line}")


def filled(text: str, printed: list[str]) -> str:
    """The page with these outputs after its blocks."""
    remaining = iter(printed)

    def show(match: re.Match) -> str:
        if match["skip"]:
            return match[0]
        output = next(remaining)
        shown = f"\n```output\n{output}```\n" if output else ""
        return f"{match['code']}{shown}"

    return BLOCK.sub(show, text)


def differs(shown: str, printed: str) -> str:
    """Where a page's output is not what was printed, but for rounding; empty when it is."""
    left, right = shown.splitlines(), printed.splitlines()
    for a, b in zip(left, right, strict=False):
        if not _same(a, b):
            return f"the page says\n{a}\nand the code prints\n{b}"
    if len(left) != len(right):
        return f"the page shows {len(left)} lines and the code prints {len(right)}"
    return ""


def _same(a: str, b: str) -> bool:
    if _words(a) != _words(b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(_close(_value(x), _value(y)) for x, y in pairs)


def _words(line: str) -> str:
    """A line without its numbers and without what only lays it out."""
    return re.sub(r"[\s─━═|_-]+", " ", NUMBER.sub("#", line)).strip()


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


def _close(x: float, y: float) -> bool:
    return abs(x - y) <= RELATIVE * max(abs(x), abs(y)) + ABSOLUTE
