"""Scores of single cells with a sign: candidates are queries "in this cell", and their negations "not in this cell".

A query's score is how many rows its cell has beyond a public reference; its negation's is the same with the other sign,
because what a cell has too few, its complement has too many. DualQuery draws by them.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from openprior.privacy.scores import CellScores, quarters_beyond
from openprior.privacy.unit import Unit

__all__ = ["SignedCellScores"]


@dataclass(frozen=True, eq=False)
class SignedCellScores(CellScores):
    """x_c − answer_c for every cell, in rows, and then answer_c − x_c for every cell's negation, in the same order."""

    def __len__(self) -> int:
        """Two candidates per cell."""
        return 2 * len(self.only)

    def sensitivity(self, unit: Unit) -> Fraction:
        """That of one count, Δ under both relations.

        Proof: the answer is public, so a score moves by what x_c moves, up or down; the person's rows enter the cell or
        leave it. Inside a partition the same bound holds, and the price is that of single cells: a score of part g
        moves by at most max(u_g, v_g), whatever its sign (`Unit.parts_touched`). ∎
        """
        return Fraction(unit.cell)

    def evaluate(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """±(4x_c − rint(4·answer_c)): quarters of a row, exactly."""
        beyond = quarters_beyond(counts, self.answers)
        return np.concatenate([beyond, -beyond])

    def queries(self, indices: tuple[int, ...]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """What drawn indices stand for: numbers of cells, and 1 for the cell or −1 for its negation.

        >>> from openprior.counting.cells import Cells
        >>> from openprior.schema.domain import Domain
        >>> cells = Cells(Domain({"a": 3}), [("a",)])
        >>> scores = SignedCellScores(cells, np.array([0, 2]), np.zeros(2))
        >>> [array.tolist() for array in scores.queries((1, 3, 0))]
        [[2, 2, 0], [1, -1, 1]]
        """
        negated, place = np.divmod(np.asarray(indices, dtype=np.intp), len(self.only))
        return self.only[place], 1 - 2 * negated.astype(np.int64)
