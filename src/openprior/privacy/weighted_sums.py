"""Sums of a marginal's counts with weights: the rows of a strategy, which is measured so that queries follow from it.

Weights are whole numbers from 0 on, so that the sums are whole numbers, too, and get exact noise. A certificate has all
of them: whoever reads it derives the sensitivity from the very matrix that was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.statistics import Ints, Sensitivity, Statistic, Vaulted
from openprior.privacy.strict import Record
from openprior.privacy.unit import Unit
from openprior.questions.queries import Queries
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = ["MAX_ENTRIES", "MAX_WEIGHTS", "WeightedSums"]

MAX_WEIGHTS = 1 << 16
"""That a certificate writes down for one measurement."""
MAX_ENTRIES = 1 << 24
"""Of a whole matrix, zeros included: 128 MB."""
_LARGEST = 1 << 20
"""Of one weight: then no sum over fewer than 2⁴² rows leaves 64 bits."""
_ROWS = 1 << 42


@dataclass(frozen=True)
class WeightedSums(Statistic):
    """W x of the counts x of a marginal's cells, W of whole numbers from 0 on; measured for some queries."""

    kind: ClassVar[str] = "weighted sums"
    text: str
    """The queries whose answers follow from the sums, as they are written."""
    columns: Marginal
    weights: tuple[tuple[int, ...], ...]
    """Each row of W: its first cell with a weight, then the weights from there to its last."""

    @staticmethod
    def of(queries: Queries, matrix: NDArray[np.int64]) -> "WeightedSums":
        """The sums of a whole-number matrix [sums, cells], for these queries."""
        table = np.asarray(matrix)
        if table.dtype != np.int64 or table.ndim != 2 or table.shape[1] != queries.members.shape[1]:
            raise PrivacyError(
                f"weights for '{queries.text}' need a table of 64-bit whole numbers, with "
                f"{queries.members.shape[1]} columns"
            )
        return WeightedSums(queries.text, queries.marginal, tuple(map(_packed, table)))

    def __post_init__(self) -> None:
        if not self.weights or not all(map(_is_packed, self.weights)):
            raise PrivacyError(
                f"every weighted sum needs a first cell and weights from there to its last: whole numbers up to "
                f"{_LARGEST:,}, the first and the last above 0"
            )
        count = sum(len(row) - 1 for row in self.weights)
        if count > MAX_WEIGHTS:
            raise PrivacyError(
                f"{count:,} weights are more than the {MAX_WEIGHTS:,} that a certificate holds"
            )

    @property
    def marginal(self) -> Marginal:
        """The columns."""
        return self.columns

    @property
    def words(self) -> str:
        """What they are measured for."""
        return f"weighted sums for {self.text}"

    def fitted(self, layout: Layout) -> "WeightedSums":
        """Checked: the queries are over just these columns, and every weight has a cell of them."""
        queries = Queries.parse(self.text, layout.domain)
        cells = queries.members.shape[1]
        if queries.marginal != self.columns or self._cells > cells:
            raise PrivacyError(
                f"weighted sums for '{self.text}' have other columns than the queries, or a cell beyond their {cells:,}"
            )
        return self

    @cached_property
    def _cells(self) -> int:
        """One more than the last cell with a weight."""
        return max(row[0] + len(row) - 1 for row in self.weights)

    def numbers(self, domain: Domain) -> int:
        """One per row of W."""
        return len(self.weights)

    def matrix(self, cells: int) -> NDArray[np.int64]:
        """W [sums, cells]; refuses one that memory has no room for."""
        if len(self.weights) * cells > MAX_ENTRIES:
            raise PrivacyError(
                f"{len(self.weights):,} weighted sums over {cells:,} cells are too many for one matrix; use fewer"
            )
        table = np.zeros((len(self.weights), cells), np.int64)
        for line, (first, *weights) in zip(table, self.weights, strict=True):
            line[first : first + len(weights)] = weights
        return table

    @cached_property
    def column_norms(self) -> tuple[int, int]:
        """The largest sum of a column of W, and the largest sum of squares."""
        sums = [0] * self._cells  # of Python's numbers, which have no largest
        squares = [0] * self._cells
        for first, *weights in self.weights:
            for cell, weight in enumerate(weights, first):
                sums[cell] += weight
                squares[cell] += weight * weight
        return max(sums), max(squares)

    @cached_property
    def _heaviest(self) -> int:
        """The largest weight."""
        return max(max(weights) for _, *weights in self.weights)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """A marginal's, times the largest sum of a column in L1 and the largest sum of squares in squared L2.

        Proof: the change of the counts is u − v with u, v ≥ 0 and ‖u‖₁, ‖v‖₁ ≤ Δ (v = 0 under add/remove). A row in
        cell c moves the sums by column W_c, so ‖W(u − v)‖₁ ≤ max‖W_c‖₁·‖u − v‖₁; W, u and v being ≥ 0, ‖W(u − v)‖₂² ≤
        ‖Wu‖₂² + ‖Wv‖₂², and ‖Wu‖₂ ≤ Σu_c‖W_c‖₂ ≤ ‖u‖₁·max‖W_c‖₂. Both are a marginal's bounds times a constant, so
        what `Unit.parts_touched` proves of marginals in parts holds of them, too. One sum moves by the larger of Wu and
        Wv at most, both being ≥ 0: Δ times the largest weight. ∎
        """
        largest, squared = self.column_norms
        return Sensitivity(largest * unit.l1, squared * unit.l2_squared, self._heaviest * unit.cell)

    def read(self, vault: Vaulted, unit: Unit) -> Ints:
        """The exact sums."""
        counts = vault.counts([self.columns])[self.columns]
        if int(counts.sum()) >= _ROWS:
            raise PrivacyError(
                f"weighted sums over {_ROWS:,} rows or more would leave 64 bits; ask for counts"
            )
        return np.array(
            [counts[first : first + len(w)] @ np.array(w, np.int64) for first, *w in self.weights], np.int64
        )

    def _facts(self) -> dict[str, object]:
        return {
            "queries": self.text,
            "marginal": list(self.columns),
            "weights": [list(row) for row in self.weights],
        }

    @classmethod
    def _from_facts(cls, record: Record) -> "WeightedSums":
        text, columns = record.text("queries"), record.texts("marginal")
        rows = record.items("weights")
        if not columns or not all(type(row) is list for row in rows):
            raise PrivacyError(f"{record.what}: columns and lists of weights are needed")
        return cls(text, columns, tuple(map(tuple, rows)))


def _packed(row: NDArray[np.int64]) -> tuple[int, ...]:
    held = np.flatnonzero(row)
    return (int(held[0]), *row[held[0] : held[-1] + 1].tolist()) if len(held) else (0, 0)


def _is_packed(row: Sequence[int]) -> bool:
    """Exact types, as True would count as 1; without zeros at the ends, so that there is one way to write a row."""
    if len(row) < 2 or not all(type(number) is int and number >= 0 for number in row):
        return False
    return row[0] < MAX_WEIGHTS and max(row[1:]) <= _LARGEST and row[1] > 0 and row[-1] > 0
