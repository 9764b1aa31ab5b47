"""The data player of DualQuery: for the queries of a round, the record that meets most of them."""

import numpy as np
from numpy.typing import NDArray

from openprior.methods.shared.best_record import WeightedQueries, climbed
from openprior.methods.shared.record_program import solved
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["SOLVERS", "DataPlayer"]

Ints = NDArray[np.int64]
SOLVERS = ("program", "search")
_STARTS = 8
"""Of the local search: twice as many found nothing better in any program that was tried."""


class DataPlayer:
    """Answers with records; a column that the queries leave free is as in a random row, of the pool if there is one."""

    def __init__(self, domain: Domain, pool: Table | None, solver: str, rng: np.random.Generator) -> None:
        self._shape, self._pool, self._solver, self._rng = domain.shape, pool, solver, rng
        self.by_the_clock = 0
        """How often the program was stopped by its limit in seconds."""

    def answer(self, queries: WeightedQueries) -> Ints:
        """The record; the same for the same queries and the same generator, unless a clock stopped the program."""
        record, worth = climbed(queries, self._shape, self._starts(), self._rng)
        if self._solver == "search" or worth == queries.weights[queries.wanted].sum():
            return record
        found = solved(queries, self._shape)
        self.by_the_clock += found.by_the_clock
        if found.values is None:
            return record
        other = self._completed(found.values, queries)
        return other if queries.worth(other[None])[0] > worth else record

    def _starts(self) -> Ints:
        if self._pool is None:
            return np.stack([self._rng.integers(size, size=_STARTS) for size in self._shape], axis=1)
        rows = self._pool.take(self._rng.integers(self._pool.n, size=_STARTS))
        return np.stack(rows.columns, axis=1).astype(np.int64)

    def _completed(self, values: dict[int, int], queries: WeightedQueries) -> Ints:
        """These values, and in other columns one that no query asks for."""
        record: Ints = self._starts()[0]
        for column, size in enumerate(self._shape):
            asked = np.unique(queries.codes[queries.columns == column])
            if column in values:
                record[column] = values[column]
            elif record[column] in asked:
                record[column] = self._rng.choice(np.setdiff1d(np.arange(size), asked))
        return record
