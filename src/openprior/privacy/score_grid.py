"""The grid on which scores are exact: how references and levels are rounded, and which numbers fit.

All of it depends on public numbers alone; why levels keep their sensitivity is proved in scores.py.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["GRID", "LARGEST", "LEVELS", "cut", "summable", "within"]

GRID = 1 << 10
"""References are rounded to 1/1024 of a row."""
LEVELS = 1 << 10
"""Levels per sensitivity and row of a person: rounding costs a thousandth in accuracy, and nothing in privacy. Inside a
partition, where one person's rows may touch many parts, it stays far below what spreading them saves."""
LARGEST = 2.0**40
"""Of weights, coefficients and offsets; of the rows in one cell of a reference."""
_LARGEST_SUM = 2.0**50
_FAR = 1 << 61


def cut(levels: Iterable[int]) -> NDArray[np.int64]:
    """Levels cut where differences still fit 64 bits; a cut cannot move a level further than it moved."""
    return np.array([max(-_FAR, min(level, _FAR)) for level in levels], dtype=np.int64)


def within(numbers: NDArray[np.float64]) -> bool:
    """Finite, and small enough for exact 64-bit arithmetic on the grid."""
    return numbers.dtype.kind in "fiu" and bool(
        (np.abs(numbers.astype(np.float64, copy=False)) <= LARGEST).all()
    )


def summable(reference: NDArray[np.float64], offsets: NDArray[np.int64] | None = None) -> bool:
    """Finite, and so small that its distance to any counts, in steps of the grid, is exact in 64 bits; that of every
    segment offsets[i] : offsets[i + 1], where it has several."""
    from openprior.counting.tally import largest_sum

    if reference.dtype.kind not in "fiu":
        return False
    # As doubles: a sum of integers could wrap around.
    numbers = np.ascontiguousarray(reference, np.float64).reshape(-1)
    segments = np.array([0, len(numbers)]) if offsets is None else offsets
    return bool(largest_sum(numbers, segments, LARGEST) <= _LARGEST_SUM)
