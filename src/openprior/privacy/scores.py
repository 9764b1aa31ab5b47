"""A score is data: coefficients and reference vectors. The curator evaluates it; its sensitivity is derived.

`L1Score`, one a candidate marginal: weight·(Σᵢ cᵢ·‖x_τ − refᵢ‖₁ + offset); `SumScore`, a sum of those; `CellScores`,
one a cell, for millions of them: |x_c − answer_c|. Nobody types a sensitivity, so nobody can type a wrong one: an
error score gets 2 under replace-one, JAM-PGM's public candidates get 4, by themselves.

Levels. Selection works on integers. References and answers are public, so they are rounded to a grid first; then
every score is an exact rational number, and the level ⌊score·K/Δ⌋ of a score of sensitivity Δ has sensitivity
exactly K, because ⌊a⌋ ≤ ⌊b⌋ + K whenever a ≤ b + K for an integer K. ∎
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.counting.plan import Cells
from openprior.errors import PrivacyError
from openprior.privacy.units import Unit
from openprior.workload import Marginal

__all__ = ["CellScores", "Counted", "L1Score", "Levels", "Scores", "SumScore", "levels"]

_GRID = 1 << 10
"""References are rounded to 1/1024 of a row."""
_LEVELS = 1 << 10
"""Levels a sensitivity: rounding costs a thousandth of a sensitivity in accuracy, and nothing in privacy."""


class Counted(Protocol):
    """Where exact counts come from: the curator's vault."""

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.int64]]:
        """Counts of whole marginals."""
        ...

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> NDArray[np.int64]:
        """Counts of some cells."""
        ...


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

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """What it looks at."""
        return (self.marginal,)

    def sensitivity(self, unit: Unit) -> Fraction:
        """|weight|·Σ|cᵢ|·(L1 sensitivity of a marginal).

        Proof: ‖x − ref‖₁ is 1-Lipschitz in ‖x‖₁, and |Σ cᵢ·fᵢ(x) − Σ cᵢ·fᵢ(x')| ≤ Σ|cᵢ|·‖x − x'‖₁. ∎
        """
        coefficients = sum((abs(Fraction(c)) for c, _ in self.terms), Fraction(0))
        return abs(Fraction(self.weight)) * coefficients * unit.l1

    def evaluate(self, counts: Mapping[Marginal, NDArray[np.int64]]) -> Fraction:
        """The exact score, with references rounded to the grid."""
        total = Fraction(self.offset)
        for coefficient, reference in self.terms:
            grid = np.rint(reference * _GRID).astype(np.int64)
            distance = int(np.abs(counts[self.marginal] * _GRID - grid).sum())
            total += Fraction(coefficient) * Fraction(distance, _GRID)
        return Fraction(self.weight) * total


@dataclass(frozen=True, eq=False)
class SumScore:
    """A score over several marginals: the sum of theirs (a workload's error, say, with weights that sum to 1)."""

    parts: tuple[L1Score, ...]

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """What it looks at."""
        return tuple(p.marginal for p in self.parts)

    def sensitivity(self, unit: Unit) -> Fraction:
        """The sum of the parts'. Proof: the triangle inequality. ∎"""
        return sum((p.sensitivity(unit) for p in self.parts), Fraction(0))

    def evaluate(self, counts: Mapping[Marginal, NDArray[np.int64]]) -> Fraction:
        """The exact score."""
        return sum((p.evaluate(counts) for p in self.parts), Fraction(0))


@dataclass(frozen=True, eq=False)
class CellScores:
    """The scores of single cells of several marginals: |x_c − answer_c|, in rows.

    `only` says which cells are candidates, by their number in `cells`; `answers` has one number each, in that order.
    """

    cells: Cells
    only: NDArray[np.intp]
    answers: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.answers.shape != self.only.shape or not np.isfinite(self.answers).all():
            raise PrivacyError("cell scores need one finite answer a candidate")

    def sensitivity(self, unit: Unit) -> Fraction:
        """That of one count. Proof: |x_c − a| is 1-Lipschitz in x_c. ∎"""
        return Fraction(unit.cell)


Scores = Sequence[L1Score | SumScore] | CellScores


def levels(scores: Scores, vault: Counted, unit: Unit) -> Levels:
    """Integer levels of all candidates and their common sensitivity."""
    if isinstance(scores, CellScores):
        # |4x_c − rint(4·answer_c)|: quarters of a row, exactly.
        quarters = np.rint(scores.answers * 4).astype(np.int64) - 4 * vault.gather(scores.cells, scores.only)
        return Levels(np.abs(quarters), 4 * unit.cell)
    if len(scores) == 0:
        raise PrivacyError("a selection needs at least one candidate")
    largest = max(s.sensitivity(unit) for s in scores)
    if largest <= 0:
        raise PrivacyError("all candidates have weight 0; give at least one a positive weight")
    counts = vault.counts({m for s in scores for m in s.marginals})
    values = [s.evaluate(counts) * _LEVELS / largest for s in scores]
    return Levels(np.array([v.numerator // v.denominator for v in values], dtype=np.int64), _LEVELS)
