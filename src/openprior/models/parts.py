"""Rows in parts, for more of them than fit into memory.

Rows that were rounded once, as a whole, are split afterwards. The list of them, sorted, is never made: part i of k has
its rows i, i + k, i + 2k, …. So parts have the same number of rows up to one, no part depends on another, each is
spread over all rows as evenly as can be, and together they are the rows as they were rounded.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from openprior.tables.table import Table

__all__ = ["DrawPart", "part_sizes", "part_streams", "split_rows"]

Ints = NDArray[np.int64]

DrawPart = Callable[[], Table]
"""Draws one part; may be called from any thread and in any order, and gives the same every time."""


def part_sizes(rows: int, parts: int) -> list[int]:
    """How many rows each part has.

    >>> part_sizes(8, 3)
    [3, 3, 2]
    """
    return [rows // parts + (i < rows % parts) for i in range(parts)]


def part_streams(rng: np.random.Generator, parts: int) -> list[np.random.SeedSequence]:
    """A seed for each: no generator, because who draws a part again should have the same again."""
    return np.random.SeedSequence(rng.integers(1 << 32, size=4).tolist()).spawn(parts)


def split_rows(rows: Table, counts: Ints, parts: int, rng: np.random.Generator) -> Sequence[DrawPart]:
    """All rows, each as often as its count says, in so many parts; shuffled within each."""
    order = np.lexsort(rows.words()[::-1])
    ends = np.cumsum(counts[order])
    streams = part_streams(rng, parts)
    return [partial(_part, rows, order, ends, i, parts, stream) for i, stream in enumerate(streams)]


def _part(
    rows: Table, order: Ints, ends: Ints, number: int, parts: int, stream: np.random.SeedSequence
) -> Table:
    # Of the first `end` places of the list, so many are number, number + parts, number + 2·parts, …
    taken = np.maximum(-((number - ends) // parts), 0)
    places = np.repeat(order, np.diff(taken, prepend=0))
    return rows.take(np.random.default_rng(stream).permutation(places))
