"""Cells for rows whose groups are known: rounded, or drawn independently.

Rows are made clique by clique. Those that agree on what a clique shares with its parent are a group, and `table[group]`
is the distribution that their cell of the clique follows.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["draw_cells", "round_cells"]

Floats = NDArray[np.float64]

_GOLDEN = (5**0.5 - 1) / 2


def round_cells(groups: NDArray[np.int64], table: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """A cell for each row, as often as its group's distribution says, rounded up or down.

    Within a group in random order; offsets of a golden-ratio sequence, so that roundings up in one group meet roundings
    down in the next, and the cells' totals over all groups come out right too.
    """
    shuffled = rng.permutation(len(groups))
    rows = shuffled[np.argsort(groups[shuffled], kind="stable")]
    counts = np.bincount(groups, minlength=len(table))
    filled = np.flatnonzero(counts)
    offsets = np.zeros(len(table))
    offsets[filled] = (rng.random() + _GOLDEN * np.arange(len(filled))) % 1.0
    cells = np.zeros(len(groups), np.int64)
    _round_rows(rows, np.cumsum([0, *counts]), table, offsets, cells)
    return cells


def draw_cells(groups: NDArray[np.int64], table: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """An independent draw for each row."""
    ends = np.cumsum(table, axis=1)
    before = np.cumsum([0.0, *ends[:, -1]])
    marks = before[groups] + rng.random(len(groups)) * ends[groups, -1]
    flat = (ends + before[:-1, None]).reshape(-1)
    width = table.shape[1]
    place: NDArray[np.int64] = np.searchsorted(flat, marks, side="right") - groups * width
    last = width - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    cells: NDArray[np.int64] = np.minimum(np.maximum(place, 0), last[groups])
    return cells


@compiled()
def _round_rows(rows, starts, table, offsets, cells):  # type: ignore[no-untyped-def]
    """Give each row a cell of its group's distribution, as often as that says, rounded up or down.

    Group g has the rows rows[starts[g]:starts[g+1]] and the weights table[g]; its running total, begun at an offset in
    [0, 1), gives a row to the cell in which it passes a whole number. A uniform offset makes that unbiased.
    """
    for g in range(len(starts) - 1):
        first, end = starts[g], starts[g + 1]
        if first == end:
            continue
        weights = table[g]
        mass, last = 0.0, 0
        for i in range(len(weights)):
            if weights[i] > 0.0:
                mass += weights[i]
                last = i
        scale = (end - first) / mass if mass > 0.0 else 0.0
        running, place = offsets[g], first
        for i in range(len(weights)):
            running += weights[i] * scale
            while place < end and place - first + 1 <= running:
                cells[rows[place]] = i
                place += 1
        while place < end:
            cells[rows[place]] = last
            place += 1
