"""A score is data: coefficients and reference vectors. The curator evaluates it; its sensitivity is derived.

Two kinds. `L1Score`, one a candidate marginal: weight·(Σᵢ cᵢ·‖x_τ − refᵢ‖₁ + offset). `CellScores`, one a cell of
whole marginals: |x_c − answer_c|. Nobody types a sensitivity, so nobody can type a wrong one: an error score gets
2 under replace-one, JAM-PGM's public candidates get 4, by themselves.

Levels. Selection works on integers. References and answers are public, so they are rounded to a grid first; then
every score is an exact rational number, and the level ⌊score·K/Δ⌋ of a score of sensitivity Δ has sensitivity
exactly K, because ⌊a⌋ ≤ ⌊b⌋ + K whenever a ≤ b + K for an integer K. ∎
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from openprior.counting.plan import Cells
from openprior.errors import PrivacyError
from openprior.privacy.units import Unit
from openprior.workload import Marginal

__all__ = ["CellScores", "L1Score", "Levels", "Scores"]

_GRID = 1 << 10
"""References are rounded to 1/1024 of a row."""
_LEVELS = 1 << 10
"""Levels a sensitivity: rounding costs a thousandth of a sensitivity in accuracy, and nothing in privacy."""

CountsOf = Callable[[Iterable[Marginal]], dict[Marginal, NDArray[np.int64]]]


@dataclass(frozen=True)
class Levels:
    """Integer utilities and their exact sensitivity."""

    values: NDArray[np.int64]
    sensitivity: int


@dataclass(frozen=True, eq=False)
class L1Score:
    """The score of one candidate: weight·(Σ cᵢ·‖x_τ − refᵢ‖₁ + offset), in rows."""

    marginal: Marginal
    terms: tuple[tuple[float, NDArray[np.float64]], ...]
    weight: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        numbers = [self.weight, self.offset, *(c for c, _ in self.terms)]
        if not all(isfinite(v) for v in numbers) or not all(np.isfinite(r).all() for _, r in self.terms):
            raise PrivacyError(f"the score of {self.marginal} has a number that is not finite")

    def sensitivity(self, unit: Unit) -> Fraction:
        """|weight|·Σ|cᵢ|·(L1 sensitivity of a marginal).

        Proof: ‖x − ref‖₁ is 1-Lipschitz in ‖x‖₁, and |Σ cᵢ·fᵢ(x) − Σ cᵢ·fᵢ(x')| ≤ Σ|cᵢ|·‖x − x'‖₁. ∎
        """
        coefficients = sum((abs(Fraction(c)) for c, _ in self.terms), Fraction(0))
        return abs(Fraction(self.weight)) * coefficients * unit.l1

    def evaluate(self, counts: NDArray[np.int64]) -> Fraction:
        """The exact score, with references rounded to the grid."""
        total = Fraction(self.offset)
        for coefficient, reference in self.terms:
            grid = np.rint(reference * _GRID).astype(np.int64)
            total += Fraction(coefficient) * Fraction(int(np.abs(counts * _GRID - grid).sum()), _GRID)
        return Fraction(self.weight) * total


@dataclass(frozen=True, eq=False)
class CellScores:
    """The scores of every cell of several marginals: |x_c − answer_c|, in rows; the answers lie as `Cells` says."""

    cells: Cells
    answers: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.answers.shape != (len(self.cells),):
            raise PrivacyError(f"{self.answers.shape} answers for {len(self.cells)} cells")

    def sensitivity(self, unit: Unit) -> Fraction:
        """That of one count. Proof: |x_c − a| is 1-Lipschitz in x_c. ∎"""
        return Fraction(unit.cell)


Scores = Sequence[L1Score] | CellScores


def levels(scores: Scores, counts_of: CountsOf, unit: Unit) -> Levels:
    """Integer levels of all candidates and their common sensitivity."""
    if isinstance(scores, CellScores):
        return _cell_levels(scores, counts_of, unit)
    if len(scores) == 0:
        raise PrivacyError("a selection needs at least one candidate")
    largest = max(s.sensitivity(unit) for s in scores)
    if largest <= 0:
        raise PrivacyError("all candidates have weight 0; give at least one a positive weight")
    counts = counts_of(s.marginal for s in scores)
    values = [s.evaluate(counts[s.marginal]) * _LEVELS / largest for s in scores]
    return Levels(np.array([v.numerator // v.denominator for v in values], dtype=np.int64), _LEVELS)


def _cell_levels(scores: CellScores, counts_of: CountsOf, unit: Unit) -> Levels:
    """|4x_c − rint(4·answer_c)|: quarters of a row, exactly."""
    quarters = 4
    values = np.rint(scores.answers * quarters).astype(np.int64)
    counts = counts_of(scores.cells.marginals)
    for marginal, part in scores.cells.split(values).items():
        np.subtract(part, counts[marginal] * quarters, out=part)
    return Levels(np.abs(values, out=values), quarters * unit.cell)
