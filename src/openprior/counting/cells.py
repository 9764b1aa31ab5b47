"""Cells by number: the flat layout that counts, scores, answers and errors share."""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from openprior.errors import MarginalTooLarge
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["MAX_CELLS", "MAX_TOTAL_CELLS", "Cells", "cell_numbers"]

T = TypeVar("T", bound=np.generic)

MAX_CELLS = 1 << 25
"""Most cells of one marginal."""
MAX_TOTAL_CELLS = 1 << 28
"""Most cells of all marginals of one request together."""


class Cells:
    """The cells of several marginals, numbered one marginal after the other, each in C order.

    >>> cells = Cells(Domain({"a": 2, "b": 3}), [("a",), ("a", "b")])
    >>> len(cells), cells.locate(3)
    (8, (('a', 'b'), 1))
    """

    def __init__(self, domain: Domain, marginals: Iterable[Iterable[str]], *, limit: int = MAX_CELLS) -> None:
        self.domain = domain
        self.marginals: tuple[Marginal, ...] = tuple(canonical(m, domain) for m in marginals)
        sizes = [domain.size(m) for m in self.marginals]
        for marginal, size in zip(self.marginals, sizes, strict=True):
            if size > limit:
                raise MarginalTooLarge(
                    f"marginal {' × '.join(marginal)} has {size:,} cells, more than the limit of {limit:,}; "
                    "leave a column out or give it fewer bins"
                )
        if sum(sizes) > MAX_TOTAL_CELLS:
            largest = self.marginals[int(np.argmax(sizes))]
            raise MarginalTooLarge(
                f"the {len(sizes):,} marginals have {sum(sizes):,} cells together, more than the limit of "
                f"{MAX_TOTAL_CELLS:,}; the largest is {' × '.join(largest)}: use a smaller workload or fewer bins"
            )
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

        self._start: dict[Marginal, int] = dict(zip(self.marginals, self.offsets.tolist(), strict=False))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def offset(self, marginal: Marginal) -> int:
        """Where a marginal's cells begin."""
        return self._start[marginal]

    def locate(self, cell: int) -> tuple[Marginal, int]:
        """The marginal that a cell belongs to, and its number there."""
        i = int(np.searchsorted(self.offsets, cell, side="right")) - 1
        return self.marginals[i], int(cell - self.offsets[i])

    def split(self, flat: NDArray[T]) -> dict[Marginal, NDArray[T]]:
        """Views of a flat vector, one per marginal."""
        return {m: flat[self.offsets[i] : self.offsets[i + 1]] for i, m in enumerate(self.marginals)}


def cell_numbers(table: Table, marginal: Marginal) -> NDArray[np.int32]:
    """The cell of the marginal that each row lies in, in C order of the marginal as it is spelled.

    >>> cell_numbers(Table(Domain({"a": 2, "b": 3}), (np.array([0, 1]), np.array([2, 0]))), ("a", "b")).tolist()
    [2, 3]
    """
    cells = np.zeros(table.n, np.int64)
    for a in marginal:
        cells = cells * table.domain[a] + table.column(a)
    return cells.astype(np.int32)  # holds every cell of a marginal within MAX_CELLS
