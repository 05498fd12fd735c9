"""Words of the report explained in a sentence each, on hover and focus where they stand and in a list at the end."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.show.words import ESTIMATORS, TITLES, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpolicy.show.answer import Figure

MARKED = re.compile(r"\[(\w+)\|([^\]]+)\]")


def term(key: str, text: str | None = None) -> str:
    """A word that explains itself on hover, focus and touch."""
    shown = WORDS[key][0] if text is None else text
    return f'<button type="button" class="term" aria-describedby="word-{key}">{esc(shown)}</button>'


def explained(text: str) -> str:
    """A text whose words in brackets explain themselves: "[weight|weights]"."""

    def word(match: re.Match[str]) -> str:
        key, shown = match.groups()
        return term(key, html.unescape(shown)) if key in WORDS else match.group()

    return MARKED.sub(word, esc(text))


def tiles(figures: Iterable[Figure]) -> str:
    """Large numbers side by side; what should not be relied on is gray and says so."""

    def tile(f: Figure) -> str:
        label = term(TITLES[f.label]) if f.label in TITLES else esc(f.label)
        kind = ' class="doubtful"' if f.doubtful else ""
        note = "do not rely on this" if f.doubtful else f.remark
        return f"<div{kind}><dt>{label}</dt><dd>{esc(f.number)}<small>{esc(note)}</small></dd></div>"

    return f'<dl class="strip">{"".join(map(tile, figures))}</dl>'


def described(estimator: str) -> str:
    """The attribute by which a control explains an estimator; empty for those of users."""
    return f' aria-describedby="word-{esc(estimator)}"' if estimator in ESTIMATORS else ""


def listed(estimators: Iterable[str]) -> str:
    """All words, and the estimators of this report."""
    entries = [(f"word-{key}", word, meaning) for key, (word, meaning) in WORDS.items()]
    entries += [(f"word-{e}", e, ESTIMATORS[e]) for e in estimators if e in ESTIMATORS]
    inner = "".join(
        f'<div><dt>{esc(word)}</dt><dd id="{esc(key)}">{esc(meaning)}</dd></div>' for key, word, meaning in entries
    )
    return f'<dl class="facts">{inner}</dl>'
