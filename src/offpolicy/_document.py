"""What a report is made of: sections of paragraphs, tables, figures and pictures, as plain values.

Whoever has something to show hands over these, and drawers turn them into text, Markdown, HTML and JSON. A picture is
rows, axes and marks; one drawer makes SVG of it and another one axes of matplotlib.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Row: TypeAlias = dict[str, Any]
# What a cell shows, and the number it sorts by (None: sort by the text).
Cell: TypeAlias = tuple[str, float | None]
Color: TypeAlias = Literal["accent", "logged", "soft"]
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Paragraph:
    """Sentences; words in brackets are explained: "[weight|weights]". ``kind`` "about" says how to read something."""

    text: str
    kind: Literal["about", ""] = ""


@dataclass(frozen=True)
class Figure:
    """A large number with its label and a remark; ``doubtful`` where it should not be relied on."""

    label: str
    number: str
    remark: str
    doubtful: bool = False


@dataclass(frozen=True)
class Figures:
    """Large numbers side by side."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Facts:
    """What something is, by name, under a title."""

    entries: Mapping[str, str]
    title: str = ""


@dataclass(frozen=True)
class Code:
    """A command or program, to be copied, under a title; behind a click where it ``folds``."""

    text: str
    title: str = ""
    folds: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of text, of which the first ``words`` columns are words and the others numbers.

    Attributes
    ----------
    headings : sequence of str
    rows : sequence of rows
        A cell is a text, or a text and the number it sorts by.
    caption : str
    words : int
    kinds : sequence of str
        How each row is emphasized: "lead", "doubtful" or a level of checks.
    stacks : str
        Where it is not "", cells are stacked on narrow screens; the style sheet knows "policies" and "wordy".
    folds : str
        Where it is not "", the table is behind a click on this text.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    caption: str
    words: int = 1
    kinds: Sequence[str] = ()
    stacks: str = ""
    folds: str = ""

    @classmethod
    def of(cls, rows: Sequence[Row], columns: Sequence[tuple[str, str, Callable[..., str]]], caption: str) -> Table:
        """A column for each (heading, keys of a row, format of their values), words first.

        Rows of the headline estimator are emphasized.

        >>> Table.of([{"a": "x", "n": 2}], [("Action", "a", str), ("Rows", "n", "{:.1f}".format)], "Actions").rows
        [['x', '2.0']]
        """
        cells = [[show(*(row[key] for key in keys.split())) for _, keys, show in columns] for row in rows]
        words = sum(show is str for _, _, show in columns)
        kinds = ["lead" if row.get("headline") else "" for row in rows]
        return cls([heading for heading, _, _ in columns], cells, caption, words, kinds)

    @property
    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        return [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Axis:
    """An axis: what it counts and from where to where."""

    title: str = ""
    low: float = 0.0
    high: float = 1.0
    is_logarithmic: bool = False
    is_share: bool = False
    is_whole: bool = False

    @classmethod
    def over(cls, rows: Sequence[Row], keys: str, title: str = "", *, pad: float = 0.05) -> Axis:
        """Over all values of some keys, with room at both ends."""
        ends = [r[key] for r in rows for key in keys.split() if is_finite(r[key])] or [0.0, 1.0]
        low, high = min(ends), max(ends)
        room = pad * (high - low) or 0.5 * abs(high) or 0.5
        return cls(title, low - room, high + room)


def is_finite(x: float | None) -> bool:
    """Whether there is a number, and an end of it."""
    return x is not None and math.isfinite(x)


@dataclass(frozen=True)
class Mark:
    """What is drawn of every row, by the keys of its values.

    Attributes
    ----------
    kind : str
        "interval" (from ``low`` to ``high`` with a point at ``x``), "point", "line" through all rows, "band" between
        ``low`` and ``high``, "bar" of height ``y`` from ``low`` to ``high``, "name" (``low``) beside a point,
        "join" from ``low`` to ``high``, and "spread" from ``low`` to ``high``, upright or (``is_flat``) across.
    x, y, low, high : str
        Keys of a row.
    color : str
        A color, or where it is in brackets the key of a row that holds it.
    """

    kind: Literal["interval", "point", "line", "band", "bar", "name", "join", "spread"]
    x: str = ""
    y: str = ""
    low: str = "low"
    high: str = "high"
    color: str = "accent"
    is_dashed: bool = False
    is_flat: bool = False

    def color_of(self, row: Row) -> str:
        """The color of one row's mark."""
        return str(row[self.color[1:-1]]) if self.color.startswith("[") else self.color


@dataclass(frozen=True)
class Picture:
    """Rows, axes, marks and a caption.

    Rows with a ``label`` are drawn one below the other, under each ``heading`` where there is one, on the axis ``x``;
    all others on two axes.

    Attributes
    ----------
    key : str
        What it is called on a page.
    rows : sequence of dict
    marks : sequence of Mark
    about : str
        What it shows, for those who do not see it.
    x, y : Axis
    table : Table, optional
        The numbers behind it, row by row.
    label, heading : str
        Keys of a row's name and of the group that it is in.
    ticks : str
        Key of the names of rows that are places on the axis ``x``.
    legend : (color, text) pairs
    reference : (value, low, high), optional
        A line with its own interval behind rows.
    at : (x, text), optional
        An upright line.
    is_square : bool
        Whether both axes count the same, which agree on the diagonal.
    orders, measures : (key, text) pairs
        By which keys a reader may sort rows, and which keys of a row may be the height of bars.
    names : sequence of str
        Rows that a reader may leave out, by their label.
    note : str
        What static pictures say beside the title of their axis.
    """

    key: str
    rows: Sequence[Row]
    marks: Sequence[Mark]
    about: str
    x: Axis
    y: Axis = Axis()
    table: Table | None = None
    label: str = ""
    heading: str = ""
    ticks: str = ""
    legend: Sequence[Pair] = ()
    reference: tuple[float, float, float] | None = None
    at: tuple[float, str] | None = None
    is_square: bool = False
    orders: Sequence[Pair] = ()
    measures: Sequence[Pair] = ()
    names: Sequence[str] = ()
    height: int = 220
    note: str = ""


@dataclass(frozen=True)
class Markup:
    """A drawing as HTML, which must be safe; ``about`` says what it shows, ``table`` has what is in it."""

    html: str
    about: str
    key: str
    table: Table | None = None


Block: TypeAlias = Paragraph | Figures | Facts | Code | Markup | Table | Picture


@dataclass(frozen=True)
class Section:
    """A part of the report; ``about`` says in a sentence or two how to read it."""

    key: str
    title: str
    about: str
    body: Sequence[Block] = ()
