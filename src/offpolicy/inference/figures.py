"""Numbers as people read them: as many digits as the standard error supports, percentages, counts."""

from __future__ import annotations

import html
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval
    from offpolicy.inference.pareto import Pareto


DASH = "—"
#: Differences that are smaller than this share of what they are differences of are rounding.
NOISE = 1e-12


def decimals(std_error: float) -> int:
    """Decimal places at which a standard error shows two significant digits.

    >>> decimals(0.0019), decimals(0.5), decimals(320.0)
    (4, 2, 0)
    """
    if not math.isfinite(std_error) or std_error <= 0:
        return 4
    return min(12, max(0, 1 - math.floor(math.log10(std_error))))


def measured(value: float, std_error: float) -> str:
    """A value with the digits its standard error supports, a dash where it is not defined.

    >>> measured(0.0794321, 0.0019), measured(12345.6, 320.0), measured(float("nan"), 0.1)
    ('0.0794', '12,346', '—')
    """
    return plain(value) if not math.isfinite(value) else f"{value:,.{decimals(std_error)}f}"


def plain(value: float, digits: int = 3) -> str:
    """Significant digits without trailing noise or exponents where they can be avoided.

    >>> plain(0.0213456), plain(1234567.0), plain(0.0), plain(float("inf"))
    ('0.0213', '1,230,000', '0', '∞')
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -5 or size > 12:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, digits - 1 - size)
    text = f"{rounded:,.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed(value: float, scale: float = 0.0, digits: int = 3) -> str:
    """`plain` with a sign; 0 where it is rounding noise next to ``scale``.

    >>> signed(0.0213456), signed(-1234567.0), signed(-1.1e-16, 0.3), signed(math.inf)
    ('+0.0213', '-1,230,000', '0', '+∞')
    """
    if math.isnan(value):
        return DASH
    text = plain(0.0 if abs(value) <= NOISE * abs(scale) else abs(value), digits)
    return text if text == "0" else f"{'-' if value < 0 else '+'}{text}"


def percent(share: float, digits: int | None = None) -> str:
    """A share as a percentage.

    >>> percent(0.1234), percent(0.00042), percent(1.0)
    ('12%', '0.042%', '100%')
    """
    if not math.isfinite(share):
        return DASH
    if digits is not None:
        return f"{100 * share:.{digits}f}%"
    return f"{plain(100 * share, 2 if abs(share) < 0.995 else 3)}%"


def level_text(level: float) -> str:
    """A confidence level as a percentage, all digits of it: 97.5% is not 98%.

    >>> level_text(0.95), level_text(0.975), level_text(0.9999999)
    ('95%', '97.5%', '99.99999%')
    """
    return f"{100 * level:.10g}%"


def count(number: float, digits: int | None = None) -> str:
    """A number of things, to two significant digits when it is itself an estimate.

    >>> count(180123), count(180123, 2), count(12.4)
    ('180,123', '180,000', '12')
    """
    if not math.isfinite(number):
        return DASH
    if digits is not None and number > 0:
        number = round(number, digits - 1 - math.floor(math.log10(number)))
    return f"{number:,.0f}"


def plural_of(column: str) -> str:
    """What a column of ids counts, in the user's own word.

    >>> plural_of("user_id"), plural_of("Company"), plural_of("visitors"), plural_of("sessionId")
    ('users', 'companies', 'visitors', 'sessions')
    """
    word = re.sub(r"(?i)[ _.-]*(?<![a-z])u?u?id$|(?<=[a-z])(?:Id|ID)$", "", column)
    word = re.sub(r"[\s_.-]+", " ", word).strip().lower() or "unit"
    if word.endswith("s"):
        return word
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"


def capitalized(text: str) -> str:
    """A sentence with a capital and a full stop; symbols such as π keep their case.

    >>> capitalized("the mean weight is 1"), capitalized("π_b is known.")
    ('The mean weight is 1.', 'π_b is known.')
    """
    text = text[:1].upper() + text[1:] if text[:1].isascii() else text
    return text if text.endswith((".", "!", "?")) else f"{text}."


NUMBER = ' style="text-align:right;font-variant-numeric:tabular-nums"'
TEXT = ' style="text-align:left"'


def estimate_html(e: Estimate, level: float = 0.95) -> str:
    """One estimate as a row, its notes below."""
    headings = ("estimate", "value", "std error", f"{level_text(level)} interval", "n")
    row = (e.label, measured(e.value, e.std_error), plain(e.std_error, 2), reach_of(e, level), count(e.n))
    notes = "".join(f'<div style="opacity:.8">{html.escape(note)}</div>' for note in e.notes)
    return small_table(headings, [row], left=1) + notes


def comparison_html(c: Comparison) -> str:
    """Which policy may be the best, then every policy with intervals that hold together."""
    rows = [
        (name, _ends(value), _ends(c.differences[name]), plain(c.p_values[name], 2)) for name, value in c.values.items()
    ]
    kind = f"{level_text(c.level)} interval"
    head = ("policy", f"value, {kind}", f"difference from the current policy, {kind}", "adjusted p")
    said = f"<p><b>{html.escape(c.best.statement)}</b></p>"
    note = "<div>All intervals of a column hold at once.</div>"
    return said + small_table(head, rows, left=1) + note


def pareto_html(p: Pareto) -> str:
    """Policies by metrics, and who is shown to be worse than another in all of them."""
    rows = [(policy, *(" · ".join(p.cell(policy, metric)) for metric in p.metrics)) for policy in p.policies]
    head = ("policy", *(f"{m} ({'lower' if m in p.minimized else 'higher'} is better)" for m in p.metrics))
    said = f"<p><b>{html.escape(p.statement)}</b></p>"
    note = f"<div>All {level_text(p.level)} intervals hold at once.</div>"
    return said + small_table(head, rows, left=1) + note


def _ends(interval: Interval) -> str:
    if not interval.sufficient:
        return "refused"
    return f"{plain(interval.low, 4)} to {plain(interval.high, 4)}"


def reach_of(e: Estimate, level: float) -> str:
    """The interval of an estimate in words, with the digits that its standard error supports."""
    return interval_text(e, e.interval(level))


def interval_text(e: Estimate, interval: Interval) -> str:
    """An interval of an estimate in words."""
    if not e.is_defined:
        return "no estimate"
    if not interval.sufficient:
        return "refused"
    low, high = interval
    return f"{measured(low, e.std_error)} to {measured(high, e.std_error)}"


def small_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """An HTML table of escaped texts whose first ``left`` columns are words and the others numbers.

    >>> small_table(["a"], [["<b>"]], left=0).count("&lt;b&gt;")
    1
    """

    def line(values: Sequence[str], tag: str) -> str:
        inner = "".join(f"<{tag}{TEXT if j < left else NUMBER}>{html.escape(v)}</{tag}>" for j, v in enumerate(values))
        return f"<tr>{inner}</tr>"

    body = "".join(line(r, "td") for r in rows)
    return f"<table><thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>"


def align(headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """Columns of text, the first two to the left, ``numbers`` to the right."""
    widths = [max(len(r[j]) for r in (headings, *rows)) for j in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = [
            c.ljust(w) if j < 2 or not numbers else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    rule = "  ".join("─" * w for w in widths)
    return "\n".join([line(headings), rule, *(line(r) for r in rows)])
