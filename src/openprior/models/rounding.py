"""Whole numbers of rows from weights."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_to_counts"]


def round_to_counts(weights: NDArray[np.float64], rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers that sum to `rows` and differ from rows·weights by less than 1 each, without bias.

    Systematic rounding: the whole parts stay, and one random offset decides which fractions are rounded up.
    The order is shuffled first, so that neighbours in the table are not favoured together.
    """
    expected = weights * (rows / weights.sum())
    order = rng.permutation(len(weights))
    ends = np.cumsum(expected[order])
    ends[-1] = rows
    marks = np.floor(ends + rng.random())
    counts = np.empty(len(weights), np.int64)
    counts[order] = np.diff(marks, prepend=0.0).astype(np.int64)
    # The offset moves the first and the last mark alike; the shortfall is at most one row.
    counts[order[-1]] += rows - counts.sum()
    if counts[order[-1]] < 0:
        counts[int(np.argmax(counts))] += counts[order[-1]]
        counts[order[-1]] = 0
    return counts
