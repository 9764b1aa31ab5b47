"""Numbers and names as a reader wants them."""

import math
from collections.abc import Sequence

__all__ = ["count", "names", "percent", "plain"]

_BLANK = "\u00a0"


def percent(share: float | None) -> str:
    """A share as a percentage with about three digits; the blank does not break.

    >>> percent(0.1234), percent(0.0042), percent(0.000001), percent(None)
    ('12.3\\xa0%', '0.42\\xa0%', '<0.01\\xa0%', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    value = 100 * share
    if 0 < value < 0.01:
        return f"<0.01{_BLANK}%"
    return f"{value:.2f}{_BLANK}%" if 0 < value < 1 else f"{value:.1f}{_BLANK}%"


def count(value: float | None) -> str:
    """A number of rows.

    >>> count(12345.6), count(2.51), count(0)
    ('12,346', '2.5', '0')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.1f}"


def plain(value: float | None) -> str:
    """A number with four digits, without an exponent where that is short.

    >>> plain(0.0149730), plain(1.0), plain(1e-9), plain(188.731)
    ('0.01497', '1', '1e-09', '188.7')
    """
    return "–" if value is None else f"{value:.4g}"


def names(marginal: Sequence[str]) -> str:
    """The columns of a marginal.

    >>> names(("age", "sex"))
    'age × sex'
    """
    return " × ".join(marginal)
