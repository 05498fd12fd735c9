"""Pieces of HTML in which every text is escaped: sentences, tables that sort, large numbers."""

from __future__ import annotations

import base64
import hashlib
import math
from typing import TYPE_CHECKING, TypeAlias

from offpolicy._visible import esc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpolicy.show.answer import Fragment
    from offpolicy.show.tables import Row

# What a cell shows, and the number it sorts by (None: sort by the text).
Cell: TypeAlias = tuple[str, float | None]


def sentence(fragments: Iterable[Fragment]) -> str:
    """Fragments with their emphasis."""
    tags = {"text": "{}", "strong": "<strong>{}</strong>", "name": '<span class="name">{}</span>'}
    return "".join(tags[kind].format(esc(text)) for text, kind in fragments)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell | str]],
    *,
    caption: str,
    words: int = 1,
    marked: Iterable[int] = (),
    rows_classes: Sequence[str] = (),
    classes: str = "",
) -> str:
    """A table whose columns sort at the press of a button.

    The first ``words`` columns are text, the others numbers. ``marked`` rows are emphasized; ``rows_classes``
    gives each row a class of its own. Tables with ``classes`` are stacked on narrow screens: each cell carries
    its column's heading, which is then shown beside it instead of above. Closing tags that HTML does not need
    are left out: reports of many policies hold thousands of cells.
    """
    kinds = list(rows_classes) or [""] * len(rows)
    for i in marked:
        kinds[i] = "lead"

    def heading(text: str) -> str:
        return f'<th scope="col"><button type="button" class="sort">{esc(text)}</button></th>'

    def cell(j: int, content: Cell | str) -> str:
        text, value = content if isinstance(content, tuple) else (content, None)
        key = "" if value is None or math.isnan(value) else f' data-value="{value:.6g}"'
        label = f' data-label="{esc(headings[j])}"' if classes else ""
        element = "td" if j else "th scope=row"
        return f"<{element}{key}{label}>{esc(text)}"

    body = "".join(
        (f'<tr class="{esc(kinds[i])}">' if kinds[i] else "<tr>")
        + "".join(cell(j, content) for j, content in enumerate(row))
        for i, row in enumerate(rows)
    )
    head = "".join(map(heading, headings))
    if classes:  # stacking would cost them their meaning as tables
        for element, role in (("tr", "row"), ("td", "cell"), ("tbody", "rowgroup")):
            body = body.replace(f"<{element}", f'<{element} role="{role}"')
        body = body.replace("<th scope=row", '<th scope=row role="rowheader"')
    return (
        f'<div class="scroll"><table class="sortable words{words} {classes}" data-words="{words}">'
        f"<caption>{esc(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def columns_table(rows: Sequence[Row], columns: Sequence[tuple[str, str, Callable[..., str]]], caption: str) -> str:
    """A table with a column for each (heading, keys of a row, format of their values), words first.

    Rows of the headline estimator are marked.
    """
    cells = [[show(*(row[key] for key in keys.split())) for _, keys, show in columns] for row in rows]
    words = sum(show is str for _, _, show in columns)
    marked = [i for i, row in enumerate(rows) if row.get("headline")]
    headings = [heading for heading, _, _ in columns]
    return table(headings, cells, caption=caption, words=words, marked=marked)


def content_hash(script: str) -> str:
    """What a content security policy allows an inline script by."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
