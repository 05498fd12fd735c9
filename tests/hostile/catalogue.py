"""What was tried, and what must come of it: one row for each input, with the number or the words expected.

``python tests/hostile/catalogue.py`` prints the counts of the rows by area and class.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))


import inputs
import kinds
import tables
import usercode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBER, ERROR, LEFT_OUT = "right number", "clear error", "line left out, with the reason"


@dataclass(frozen=True)
class Case:
    """One row: run it in a folder of its own."""

    area: str
    name: str
    expected: str
    words: str | float
    run: Callable[[Path], Any]

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"


def cases() -> Iterator[Case]:
    """Every row."""
    yield from _of_tables()
    for name, line, words in tables.dsjson_lines():
        yield Case("dsjson", name, LEFT_OUT, words, lambda folder, line=line: tables.dsjson_reason(line, folder))
    for area, found in {**inputs.AREAS, **usercode.AREAS, **kinds.AREAS}.items():
        for name, expected, run in found():
            kind = NUMBER if isinstance(expected, float) else ERROR
            yield Case(area, name, kind, expected, run)


def _of_tables() -> Iterator[Case]:
    for reader in tables.READERS:
        for fault in tables.FAULTS:
            if not tables.applies(reader, fault):
                continue

            def run(folder: Path, reader: str = reader, fault: tables.Fault = fault) -> float:
                return tables.number(reader, fault, folder)

            if fault.words:
                yield Case(reader, fault.name, ERROR, fault.words, run)
            else:
                yield Case(reader, fault.name, NUMBER, tables.expected_number(fault), run)


def counts() -> str:
    """Markdown: rows by area and class."""
    found = Counter((case.area, case.expected) for case in cases())
    classes = (NUMBER, ERROR, LEFT_OUT)
    lines = [f"| area | {' | '.join(classes)} | rows |", "|---|" + "---:|" * 4]
    areas = list(dict.fromkeys(area for area, _ in found))
    for area in areas:
        row = [found[area, kind] for kind in classes]
        lines.append(f"| {area} | {' | '.join(str(n or '') for n in row)} | {sum(row)} |")
    total = [sum(found[a, kind] for a in areas) for kind in classes]
    lines.append(f"| **all** | {' | '.join(f'**{n}**' for n in total)} | **{sum(total)}** |")
    return "\n".join(lines)


BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def write_counts(page: Path) -> None:
    """Put the counts between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{counts()}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        write_counts(Path(sys.argv[1]))
    else:
        print(counts())
