"""Pieces of HTML in which every text is escaped: sentences, tables that sort, data for scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from offpolicy.report.schema import jsonable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpolicy.report.answer import Fragment
    from offpolicy.report.tables import Row

DIGITS = 7  # that charts draw
# What a cell shows, and the number it sorts by (None: sort by the text).
Cell: TypeAlias = tuple[str, float | None]


def esc(text: object) -> str:
    """Text for an element or a quoted attribute.

    >>> esc('<img onerror="x">')
    '&lt;img onerror=&quot;x&quot;&gt;'
    """
    return html.escape(str(text), quote=True)


def sentence(fragments: Iterable[Fragment]) -> str:
    """Fragments with their emphasis."""
    tags = {"text": "{}", "strong": "<strong>{}</strong>", "name": '<span class="name">{}</span>'}
    return "".join(tags[kind].format(esc(text)) for text, kind in fragments)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell | str]],
    *,
    caption: str,
    numeric: Iterable[int] = (),
    marked: Iterable[int] = (),
    rows_classes: Sequence[str] = (),
    classes: str = "",
) -> str:
    """A table whose columns sort at the press of a button.

    ``marked`` rows are emphasized; ``rows_classes`` gives each row a class of its own.

    Each cell carries its column's heading, which narrow screens show beside it instead of above.
    """
    right = set(numeric)
    kinds = list(rows_classes) or [""] * len(rows)
    for i in marked:
        kinds[i] = "lead"

    def heading(j: int, text: str) -> str:
        side = ' class="number"' if j in right else ""
        return f'<th scope="col"{side}><button type="button" class="sort">{esc(text)}</button></th>'

    def cell(j: int, content: Cell | str) -> str:
        text, value = content if isinstance(content, tuple) else (content, None)
        side = ' class="number"' if j in right else ""
        key = "" if value is None or math.isnan(value) else f' data-value="{value!r}"'
        open_, close = ('th scope="row"', "th") if j == 0 else ("td", "td")
        return f'<{open_}{side}{key} data-label="{esc(headings[j])}">{esc(text)}</{close}>'

    body = "".join(
        (f'<tr class="{esc(kinds[i])}">' if kinds[i] else "<tr>")
        + "".join(cell(j, content) for j, content in enumerate(row))
        + "</tr>"
        for i, row in enumerate(rows)
    )
    head = "".join(heading(j, text) for j, text in enumerate(headings))
    if classes:  # narrow screens stack these, which would cost them their meaning as tables
        for element, role in (("tr", "row"), ("td", "cell"), ("tbody", "rowgroup")):
            body = body.replace(f"<{element}", f'<{element} role="{role}"')
        body = body.replace('<th scope="row"', '<th scope="row" role="rowheader"')
    return (
        f'<div class="scroll"><table class="sortable {classes}"><caption>{esc(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def columns_table(
    rows: Sequence[Row], columns: Sequence[tuple[str, str, Callable[..., str]]], caption: str
) -> str:
    """A table with a column for each (heading, keys of a row, format of their values).

    It sorts by the numbers behind the text: by the first where a column shows several. Rows of the
    headline estimator are marked.
    """

    def cell(row: Row, keys: str, show: Callable[..., str]) -> Cell:
        values = [row[key] for key in keys.split()]
        first = values[0]
        return show(*values), None if first is None or isinstance(first, str) else float(first)

    cells = [[cell(row, keys, show) for _, keys, show in columns] for row in rows]
    numeric = [j for j, (_, _, show) in enumerate(columns) if show is not str]
    marked = [i for i, row in enumerate(rows) if row.get("headline")]
    headings = [heading for heading, _, _ in columns]
    return table(headings, cells, caption=caption, numeric=numeric, marked=marked)


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers side by side: (label, number, remark)."""
    inner = "".join(
        f"<div><dt>{esc(label)}</dt><dd>{esc(number)}<small>{esc(remark)}</small></dd></div>"
        for label, number, remark in entries
    )
    return f'<dl class="strip">{inner}</dl>'


def script_json(value: Any) -> str:
    r"""JSON that cannot end the script element it stands in, whatever the strings hold.

    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(
        jsonable(value, DIGITS), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def content_hash(script: str) -> str:
    """What a content security policy allows an inline script by."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
