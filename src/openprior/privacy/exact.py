"""Exact sums of doubles, and rounding in the direction that is safe.

>>> exact_sum([0.1] * 10) > 1
True
>>> down(Fraction(1, 3)) < Fraction(1, 3) < up(Fraction(1, 3))
True
"""

from collections.abc import Iterable
from fractions import Fraction
from math import inf, nextafter

__all__ = ["down", "exact_sum", "up"]


def exact_sum(values: Iterable[float]) -> Fraction:
    """The exact sum of doubles: their denominators are powers of two, so the largest is a common one."""
    ratios = [value.as_integer_ratio() for value in values]
    common = max((denominator for _, denominator in ratios), default=1)
    return Fraction(sum(numerator * (common // denominator) for numerator, denominator in ratios), common)


def down(value: Fraction) -> float:
    """The largest double that is not above the value."""
    rounded = float(value)
    return rounded if Fraction(rounded) <= value else nextafter(rounded, -inf)


def up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    rounded = float(value)
    return rounded if Fraction(rounded) >= value else nextafter(rounded, inf)
