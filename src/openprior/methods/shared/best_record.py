"""One record that meets as much as it can of some weighted queries: the data player's answer in DualQuery.

A query asks for certain values in a few columns. To be in its cell is worth its weight; a weight below 0 is that of a
negated query, which is worth as much to whoever stays out of the cell. `climbed` is a local search: it fills records
with queries that go together, then changes them as long as that helps. `record_program.py` finds the best of all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells

__all__ = ["WeightedQueries", "climbed"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WeightedQueries:
    """Queries over columns by number. A query of few columns names its last one again, which asks for nothing more."""

    columns: Ints
    """One line per query: which columns it looks at."""
    codes: Ints
    """Of the same shape: the value that each must have."""
    weights: Ints
    """What it is worth to be in the cell; never 0."""

    @staticmethod
    def of(cells: Cells, numbers: Iterable[int], signs: Iterable[int]) -> "WeightedQueries":
        """Drawn cells and their signs; a cell that was drawn several times is one query, with the sum of its signs.

        >>> from openprior.schema.domain import Domain
        >>> cells = Cells(Domain({"a": 2, "b": 3}), [("a",), ("a", "b")])
        >>> queries = WeightedQueries.of(cells, [6, 6, 1, 0, 0], [1, 1, -1, 1, -1])
        >>> queries.columns.tolist(), queries.codes.tolist(), queries.weights.tolist()
        ([[0, 1], [0, 0]], [[1, 1], [1, 1]], [2, -1])
        """
        sums: dict[int, int] = {}
        for number, sign in zip(numbers, signs, strict=True):
            sums[int(number)] = sums.get(int(number), 0) + int(sign)
        kept = {number: weight for number, weight in sums.items() if weight}
        widest = max((len(m) for m in cells.marginals), default=1)
        columns, codes = (np.zeros((len(kept), widest), np.int64) for _ in range(2))
        for line, number in enumerate(kept):
            marginal, cell = cells.locate(number)
            place = np.unravel_index(cell, [cells.domain[a] for a in marginal])
            width = [*range(len(marginal)), *[len(marginal) - 1] * (widest - len(marginal))]
            columns[line] = [cells.domain.position(marginal[i]) for i in width]
            codes[line] = [place[i] for i in width]
        return WeightedQueries(columns, codes, np.array(list(kept.values()), np.int64))

    @property
    def wanted(self) -> NDArray[np.intp]:
        """The queries whose cells are worth being in."""
        return np.flatnonzero(self.weights > 0)

    def met(self, records: Ints) -> NDArray[np.bool_]:
        """Whether each record has what each query asks for, column by column: [record, query, column]."""
        return np.asarray(records[:, self.columns] == self.codes)

    def worth(self, records: Ints) -> Ints:
        """The summed weights of the cells that each record is in."""
        return np.asarray(self.met(records).all(axis=2) @ self.weights)


def climbed(
    queries: WeightedQueries, sizes: tuple[int, ...], starts: Ints, rng: np.random.Generator
) -> tuple[Ints, int]:
    """The best record found from these starts, and what it is worth; what no query asks for stays as it was there."""
    records = np.array([_filled(start, queries, rng) for start in starts])
    worth = queries.worth(records)
    while _satisfy_one_more(records, worth, queries) | _change_columns(records, worth, queries, sizes):
        pass
    best = int(np.argmax(worth))
    return records[best], int(worth[best])


def _filled(start: Ints, queries: WeightedQueries, rng: np.random.Generator) -> Ints:
    """The start in the cells of queries that go together, taken in random order."""
    record, taken = start.copy(), np.zeros(len(start), np.bool_)
    for i in rng.permutation(queries.wanted):
        columns, codes = queries.columns[i], queries.codes[i]
        if (~taken[columns] | (record[columns] == codes)).all():
            record[columns], taken[columns] = codes, True
    return record


def _satisfy_one_more(records: Ints, worth: Ints, queries: WeightedQueries) -> bool:
    """Put each record into the one wanted cell that gains most, if any gains; says whether one did."""
    wanted = queries.wanted
    columns, codes = queries.columns[wanted], queries.codes[wanted]
    moved = False
    for i, record in enumerate(records):
        tried = np.repeat(record[None], len(wanted), axis=0)
        np.put_along_axis(tried, columns, codes, axis=1)
        worths = queries.worth(tried)
        if len(wanted) and worths.max() > worth[i]:
            best = int(np.argmax(worths))
            records[i], worth[i], moved = tried[best], worths[best], True
    return moved


def _change_columns(records: Ints, worth: Ints, queries: WeightedQueries, sizes: tuple[int, ...]) -> bool:
    """Give each column in turn the value that gains most, in all records; says whether one changed."""
    everyone, moved = np.arange(len(records)), False
    for column in np.unique(queries.columns):
        asks = queries.columns == column
        mine = np.flatnonzero(asks.any(axis=1))
        # With this column left aside, which queries does each record meet? Those depend on its value alone.
        open_to = (queries.met(records)[:, mine] | asks[mine]).all(axis=2)
        value_asked = queries.codes[mine, np.argmax(asks[mine], axis=1)]
        of_value = np.zeros((len(mine), sizes[column]), np.int64)
        of_value[np.arange(len(mine)), value_asked] = queries.weights[mine]
        gains = open_to @ of_value
        gains -= gains[everyone, records[:, column]][:, None]
        best = np.argmax(gains, axis=1)
        better = gains[everyone, best] > 0
        records[better, column] = best[better]
        worth += gains[everyone, best] * better
        moved |= bool(better.any())
    return moved
