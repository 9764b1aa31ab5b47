"""One step of the regression, on whole numbers: how hard the rows of a table pull at each coefficient.

A row's pull is a share of 1, rounded to a whole number of 2^−bits; these are added up. So the sum has no
rounding error, and is the same in whatever order the rows come: one row moves it by its own pull and nothing else.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled
from openprior.counting.cores import workers
from openprior.tables.table import Table

__all__ = ["Pull", "bits_for", "places_of"]

_FINEST = 50
"""Bits: a share of 1 in a double has 53, of which the last few are rounding errors."""

_FEW = 1 << 18
"""Values that are done before a second thread would have begun."""


def bits_for(rows: int) -> int:
    """How finely a share is told, so that the sum over so many rows stays below 2^62."""
    return min(62 - rows.bit_length(), _FINEST)


def places_of(table: Table) -> NDArray[np.int32]:
    """For every row and column, the number of the coefficient that belongs to its value."""
    starts = np.cumsum([0, *table.domain.shape[:-1]])
    places = np.empty((table.n, len(table.columns)), np.int32)
    for j, (start, column) in enumerate(zip(starts, table.columns, strict=True)):
        places[:, j] = column.astype(np.int32) + np.int32(start)
    return places


class Pull:
    """The pull of one table's rows, for changing coefficients."""

    def __init__(self, table: Table, counts: NDArray[np.int64], *, upwards: bool) -> None:
        """`upwards`: rows that want a large β·φ, and pull by σ(−β·φ); the others pull by σ(β·φ)."""
        self._places, self._counts = places_of(table), np.ascontiguousarray(counts, np.int64)
        self._rows = int(counts.sum())
        self._sign = 1.0 if upwards else -1.0
        self._bits = bits_for(self._rows)
        self._coefficients = sum(table.domain.shape)
        self._scale = 1 / math.sqrt(len(table.domain))
        self._portion = max(-(-table.n // workers()), _FEW // len(table.domain), 1)

    def mean(self, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean over all rows of pull × φ."""

        def add(start: int) -> NDArray[np.int64]:
            some = slice(start, start + self._portion)
            sums = np.zeros(self._coefficients, np.int64)
            _add_pulls(self._places[some], self._counts[some], beta, self._scale, self._sign, fineness, sums)
            return sums

        fineness = float(1 << self._bits)
        starts = range(0, len(self._counts), self._portion)
        if len(starts) == 1:
            sums = add(0)
        else:
            with ThreadPoolExecutor(len(starts)) as pool:
                sums = np.sum(list(pool.map(add, starts)), axis=0, dtype=np.int64)
        return sums.astype(np.float64) * (self._scale / (float(self._rows) * float(1 << self._bits)))


@compiled()
def _add_pulls(places, counts, beta, scale, sign, fineness, sums):  # type: ignore[no-untyped-def]
    columns = places.shape[1]
    for r in range(places.shape[0]):
        total = 0.0
        for j in range(columns):
            total += beta[places[r, j]]
        share = 1.0 / (1.0 + math.exp(sign * total * scale))
        pull = np.int64(np.rint(share * fineness)) * counts[r]
        for j in range(columns):
            sums[places[r, j]] += pull
