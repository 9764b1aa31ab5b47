"""How precisely answers are written: as finely as they say anything, and no finer, because random digits fill files.

An answer's error is never known to a thousandth, and often larger than the answer. So an estimate is written to within
1/128 of a row, 1/256 of its standard error and 1/256 of itself, whichever is least; a standard error, and an interval's
ends, likewise. All are doubles that end in zeros, which a file stores in about a byte each; what they add up to is
right to far less than their errors, because they are rounded up as often as down.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rounded_numbers"]

Floats = NDArray[np.float64]

_ROW, _SHARE = 2.0**-6, 2.0**-7
"""The widest steps: in rows, and as a share of a number or of its standard error."""


def rounded_numbers(
    estimate: Floats, error: Floats, low: Floats, high: Floats, basis: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """The numbers of some cells (`answers.numbers_of`) as they are written; nan stays nan."""
    return (
        _rounded(estimate, error),
        _rounded(error, error),
        _rounded(low, error),
        _rounded(high, error),
        basis,
    )


def _rounded(numbers: Floats, error: Floats) -> Floats:
    """Each to a power of two that is fine enough for it and for its standard error, if it has one.

    >>> _rounded(np.array([1234.56789, 0.0012345, 5.0]), np.array([10.0, np.nan, 0.0])).tolist()
    [1234.5625, 0.0012359619140625, 5.0]
    """
    step = np.minimum(_power(np.abs(numbers)) * _SHARE, _ROW)
    known = np.isfinite(error) & (error > 0)
    step = np.where(known, np.minimum(step, _power(np.where(known, error, 1.0)) * _SHARE), step)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(step > 0, np.rint(numbers / step) * step, numbers)


def _power(numbers: Floats) -> Floats:
    """The largest power of two that is no larger; 0 for 0."""
    share, exponent = np.frexp(numbers)
    return np.where(share > 0, np.ldexp(1.0, exponent - 1), 0.0)
