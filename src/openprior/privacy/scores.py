"""A score is data: coefficients and reference vectors. The curator evaluates it; its sensitivity is derived.

`L1Score`, one per candidate marginal: weight·(Σᵢ cᵢ·‖x_τ − refᵢ‖₁ + offset), of merged cells if it has a merging;
`SumScore`, a sum of those; `CellScores`, one per cell, for millions of them: |x_c − answer_c|; `WorstCellScores`, the
largest of those per marginal. Thousands of L1 scores, or a sum of thousands, are one object each in flat_scores.py.
Nobody types a sensitivity, so nobody can type a wrong one: an error score gets 2 under replace-one, JAM-PGM's public
candidates get 4, by themselves.

Levels. Selection works on integers. References and answers are public, so they are rounded to a grid first; then
every score is an exact rational number, and the level ⌊score·K/Δ⌋ of a score of sensitivity Δ has sensitivity
exactly K, because ⌊a⌋ ≤ ⌊b⌋ + K whenever a ≤ b + K for an integer K. ∎
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.errors import PrivacyError
from openprior.given import shown
from openprior.privacy.flat_scores import MarginalScores, TableScore
from openprior.privacy.merging import Merging
from openprior.privacy.score_grid import GRID, LARGEST, LEVELS, cut, summable, within
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout

__all__ = [
    "CellScores",
    "Counted",
    "L1Score",
    "Levels",
    "Scores",
    "SumScore",
    "WorstCellScores",
    "check_scores",
    "levels",
    "quarters_beyond",
    "score_steps",
]

_QUARTERS = 4
"""Levels per row of single cells."""


class Counted(Protocol):
    """Where exact counts come from: the curator's vault."""

    def counts(self, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.int64]]:
        """Counts of whole marginals."""
        ...

    def gather(self, cells: Cells, only: NDArray[np.intp]) -> NDArray[np.int64]:
        """Counts of some cells."""
        ...

    def flat(self, marginals: tuple[Marginal, ...]) -> NDArray[np.int64]:
        """Counts of whole marginals, one after the other in one vector."""
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
    merging: Merging | None = None
    """Which values are merged before x_τ is compared; references then have one number per merged cell."""

    def __post_init__(self) -> None:
        # Of our own and fixed: what is checked and charged for is what will be evaluated, whatever other threads do.
        terms = tuple((float(c), frozen(reference)) for c, reference in self.terms)
        weight, offset = float(self.weight), float(self.offset)
        for name, value in (
            ("marginal", tuple(self.marginal)),
            ("terms", terms),
            ("weight", weight),
            ("offset", offset),
        ):
            object.__setattr__(self, name, value)
        if self.merging is not None and type(self.merging) is not Merging:
            raise PrivacyError(
                f"the score of {self.marginal} is merged by {shown(self.merging)}; give a Merging"
            )
        if self.merging is not None:
            object.__setattr__(self, "merging", self.merging.own())
        if not all(abs(v) <= LARGEST for v in (weight, offset, *(c for c, _ in terms))):
            raise PrivacyError(
                f"the score of {self.marginal} has a number that is not finite, or beyond 2^40"
            )

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """What it looks at."""
        return (self.marginal,)

    def check(self, domain: Domain) -> None:
        """Raise unless it fits the domain: another shape would be broadcast, and count one change many times."""
        if self.marginal != canonical(self.marginal, domain):
            raise PrivacyError(f"the columns of the score of {self.marginal} must be in the domain's order")
        cells = domain.size(self.marginal)
        if self.merging is not None:
            self.merging.check(self.marginal, domain)
            cells = self.merging.cells
        for _, reference in self.terms:
            if reference.shape != (cells,):
                raise PrivacyError(
                    f"a reference of {self.marginal} has shape {reference.shape}; give one number per cell"
                )
            if not summable(reference):
                raise PrivacyError(
                    f"a reference of {self.marginal} has a number that is not finite, or beyond 2^40 rows"
                )

    def sensitivity(self, unit: Unit) -> Fraction:
        """|weight|·Σ|cᵢ|·(L1 sensitivity of a marginal).

        Proof: ‖x − ref‖₁ is 1-Lipschitz in ‖x‖₁, and |Σ cᵢ·fᵢ(x) − Σ cᵢ·fᵢ(x')| ≤ Σ|cᵢ|·‖x − x'‖₁. Sums of disjoint
        cells are no farther apart than the cells: ‖Mx − Mx'‖₁ ≤ ‖x − x'‖₁ for a map M of cells to merged cells. ∎
        """
        return _lipschitz(self.weight, tuple(c for c, _ in self.terms)) * unit.l1

    def evaluate(self, counts: Mapping[Marginal, NDArray[np.int64]]) -> Fraction:
        """The exact score, with references rounded to the grid; whole numbers until the end, as every operation on
        fractions would reduce them."""
        from openprior.counting.tally import distance

        table = counts[self.marginal]
        if self.merging is not None:
            table = self.merging(table)
        above, below = self.offset.as_integer_ratio()
        for coefficient, reference in self.terms:
            if reference.shape != table.shape:
                raise PrivacyError(
                    f"a reference of {self.marginal} has {len(reference)} of {len(table)} cells"
                )
            doubles = np.ascontiguousarray(reference, np.float64)
            top, bottom = coefficient.as_integer_ratio()
            bottom *= GRID
            above = above * bottom + top * int(distance(table, doubles, GRID)) * below
            below *= bottom
        top, bottom = self.weight.as_integer_ratio()
        return Fraction(above * top, below * bottom)


@dataclass(frozen=True, eq=False)
class SumScore:
    """A score over several marginals: the sum of theirs (a workload's error, say, with weights that sum to 1)."""

    parts: tuple[L1Score, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """What it looks at."""
        return tuple(p.marginal for p in self.parts)

    def check(self, domain: Domain) -> None:
        """Raise unless every part fits the domain."""
        for part in self.parts:
            part.check(domain)

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
        object.__setattr__(self, "only", frozen(self.only))
        object.__setattr__(self, "answers", frozen(self.answers))
        if self.answers.shape != self.only.shape or self.only.ndim != 1 or self.only.dtype.kind not in "iu":
            raise PrivacyError("cell scores need candidates by number, and one answer per candidate")

    def check(self, domain: Domain) -> None:
        """Raise unless the cells are of the domain and the answers finite."""
        if not within(self.answers):
            raise PrivacyError("cell scores need finite answers, below 2^40 rows")
        if self.cells.domain != domain or (
            len(self.only) and not 0 <= self.only.min() <= self.only.max() < len(self.cells)
        ):
            raise PrivacyError("cell scores name cells that the domain does not have")

    def sensitivity(self, unit: Unit) -> Fraction:
        """That of one count. Proof: |x_c − a| is 1-Lipschitz in x_c. ∎"""
        return Fraction(unit.cell)

    def __len__(self) -> int:
        """How many candidates there are."""
        return len(self.only)

    def evaluate(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """|4x_c − rint(4·answer_c)| of every candidate, from the counts of the cells: quarters of a row, exactly."""
        return np.abs(quarters_beyond(counts, self.answers))


@dataclass(frozen=True, eq=False)
class WorstCellScores:
    """The scores of whole marginals, each that of its worst cell: max_c |x_c − answer_c|, in rows.

    The candidates are the marginals of `cells`; `answers` has one number per cell.
    """

    cells: Cells
    answers: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", frozen(self.answers))
        if self.answers.shape != (len(self.cells),):
            raise PrivacyError("scores of worst cells need one answer per cell")

    def check(self, domain: Domain) -> None:
        """Raise unless the cells are of the domain and the answers finite."""
        if self.cells.domain != domain:
            raise PrivacyError("scores of worst cells name cells that the domain does not have")
        if not within(self.answers):
            raise PrivacyError("scores of worst cells need finite answers, below 2^40 rows")

    def sensitivity(self, unit: Unit) -> Fraction:
        """That of one count, as for single cells; parts of a partition are paid for as for those, too.

        Proof: every |x_c − a| moves by at most what x_c moves, which is Δ at most, and the largest of several numbers
        moves by no more than the one that moves most. In a part that a person takes u rows from and brings v to, it
        moves by at most max(u, v), as one cell does. ∎
        """
        return Fraction(unit.cell)

    def __len__(self) -> int:
        """How many candidates there are."""
        return len(self.cells.marginals)

    def evaluate(self, counts: Mapping[Marginal, NDArray[np.int64]]) -> NDArray[np.int64]:
        """The largest |4x_c − rint(4·answer_c)| of every marginal, exactly."""
        parts = self.cells.split(self.answers)
        worst = [int(np.abs(quarters_beyond(counts[m], a)).max()) for m, a in parts.items()]
        return np.array(worst, dtype=np.int64)


Scores = Sequence[L1Score | SumScore | TableScore] | MarginalScores | CellScores | WorstCellScores


def check_scores(scores: Scores, layout: Layout) -> tuple[Marginal, ...]:
    """The marginals that candidates look at; raises for what can be refused, so that nothing is charged for it."""
    if isinstance(scores, CellScores | WorstCellScores):
        scores.check(layout.domain)
        return scores.cells.marginals
    if isinstance(scores, MarginalScores):
        scores.check(layout.full_domain)
        return scores.marginals
    for score in scores:
        if not isinstance(score, L1Score | SumScore | TableScore):
            raise PrivacyError(
                f"{shown(score)} is no score of one candidate; give L1Score, SumScore or TableScore"
            )
        score.check(layout.full_domain)
    if not any(score.sensitivity(Unit()) > 0 for score in scores):
        raise PrivacyError("all candidates have weight 0; give at least one a positive weight")
    return tuple(dict.fromkeys(m for score in scores for m in score.marginals))


def score_steps(unit: Unit, *, over_cells: bool) -> int:
    """The sensitivity of a level, whatever the scores: levels are cut to it."""
    return _QUARTERS * unit.cell if over_cells else LEVELS * unit.rows_per_person


def levels(scores: Scores, vault: Counted, unit: Unit) -> Levels:
    """Integer levels of all candidates and their common sensitivity."""
    if isinstance(scores, CellScores):
        quarters = scores.evaluate(vault.gather(scores.cells, scores.only))
        return Levels(quarters, score_steps(unit, over_cells=True))
    if isinstance(scores, WorstCellScores):
        worst = scores.evaluate(vault.counts(scores.cells.marginals))
        return Levels(worst, score_steps(unit, over_cells=True))
    if isinstance(scores, MarginalScores):
        steps = score_steps(unit, over_cells=False)
        return Levels(scores.levels(vault.flat(scores.marginals), steps, unit), steps)
    largest = max(s.sensitivity(unit) for s in scores)
    counts = vault.counts({m for s in scores for m in s.marginals})
    steps = score_steps(unit, over_cells=False)
    up, down = steps * largest.denominator, largest.numerator  # ⌊score·steps/largest⌋
    exact = [s.evaluate(counts) for s in scores]
    return Levels(cut(e.numerator * up // (e.denominator * down) for e in exact), steps)


def quarters_beyond(counts: NDArray[np.int64], answers: NDArray[np.float64]) -> NDArray[np.int64]:
    """By how many quarters of a row each count lies above its answer, which is rounded to them."""
    return _QUARTERS * counts - np.rint(answers * _QUARTERS).astype(np.int64)


@lru_cache(maxsize=4096)
def _lipschitz(weight: float, coefficients: tuple[float, ...]) -> Fraction:
    return abs(Fraction(float(weight))) * sum((abs(Fraction(float(c))) for c in coefficients), Fraction(0))
