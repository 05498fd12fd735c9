"""Numbers as people read them: as many digits as the standard error supports, percentages, counts."""

from __future__ import annotations

import math
import re

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
