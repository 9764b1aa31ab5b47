"""Intervals of counts where the number of all rows is public: no count is above it."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["among"]

Floats = NDArray[np.float64]


def among(rows: int | None, value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The interval, cut at so many rows above; a value beyond counts as all of them below, so that an unlucky draw does
    not look like certainty. As it is where nobody knows how many rows there are.

    >>> low, high = among(5, np.array([9.0, 2.0]), np.array([6.0, 0.0]), np.array([12.0, 5.5]))
    >>> low.tolist(), high.tolist()
    ([2.0, 0.0], [5.0, 5.0])
    """
    if rows is None:
        return low, high
    reach = high - np.maximum(value, 0.0)
    return np.where(value > rows, np.maximum(rows - reach, 0.0), low), np.minimum(high, rows)
