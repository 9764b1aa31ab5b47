"""L1 scores of thousands of marginals, as a few vectors: what would be thousands of objects is one compiled pass.

`MarginalScores` are candidates, one per marginal; `TableScore` is one candidate, a weighted sum over marginals. Both
are the same exact numbers as the `L1Score`s and the `SumScore` that they stand for (scores.py), which tests compare.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.errors import PrivacyError
from openprior.privacy.score_grid import GRID, LARGEST, cut, summable
from openprior.privacy.unit import Unit
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["MarginalScores", "TableScore"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Flat:
    """Answers of several marginals one after the other, and one weight per marginal."""

    cells: Cells
    answers: Floats
    weights: Floats
    marginals: tuple[Marginal, ...] = field(init=False)
    """What it looks at."""
    _offsets: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        # Of our own and fixed: what is checked and charged for is what will be evaluated.
        fixed = {"answers": self.answers, "weights": self.weights, "_offsets": np.asarray(self.cells.offsets)}
        for name, array in fixed.items():
            object.__setattr__(self, name, frozen(array))
        object.__setattr__(self, "marginals", tuple(tuple(m) for m in self.cells.marginals))
        if self._offsets.dtype != np.int64 or self._offsets.shape != (len(self.marginals) + 1,):
            raise PrivacyError("the segments of flat scores are not the cells of their marginals")
        if not len(self.marginals) or self.answers.shape != (self._offsets[-1],):
            raise PrivacyError("scores of marginals need one answer per cell, and at least one marginal")
        _check_numbers("weight", self.weights, len(self.marginals))

    def check(self, domain: Domain) -> None:
        """Raise unless the segments are the marginals of the domain: others would count one change many times."""
        sizes = domain.sizes()
        place = {a: i for i, a in enumerate(sizes)}
        for m in self.marginals:
            places = [place.get(a, -1) for a in m]
            if not m or places[0] < 0 or any(a >= b for a, b in pairwise(places)):
                raise PrivacyError(f"the columns of the score of {m} must be the domain's, in its order")
        expected = [math.prod(sizes[a] for a in m) for m in self.marginals]
        if self._offsets[0] or np.diff(self._offsets).tolist() != expected:
            raise PrivacyError("the segments of flat scores are not the cells of their marginals")
        if not summable(self.answers, self._offsets):
            raise PrivacyError("scores have an answer that is not finite, or beyond 2^40 rows")

    def _steps(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """‖x_τ − answers_τ‖₁ of every marginal in steps of the grid, exactly."""
        from openprior.counting.tally import distances

        if counts.shape != self.answers.shape:
            raise PrivacyError(f"flat scores have {len(self.answers)} answers for {len(counts)} cells")
        doubles = self.answers.astype(np.float64, copy=False)
        steps: NDArray[np.int64] = distances(counts, doubles, self._offsets, GRID)
        return steps


@dataclass(frozen=True, eq=False)
class MarginalScores(_Flat):
    """The scores of many candidates, one per marginal of `cells`: weight·(‖x_τ − answers_τ‖₁ + offset), in rows."""

    offsets: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", frozen(self.offsets))
        super().__post_init__()
        _check_numbers("offset", self.offsets, len(self.marginals))

    def __len__(self) -> int:
        """How many candidates there are."""
        return len(self.marginals)

    def check(self, domain: Domain) -> None:
        """Raise unless they fit the domain, and some candidate has a weight."""
        super().check(domain)
        if not self.weights.any():
            raise PrivacyError("all candidates have weight 0; give at least one a positive weight")

    def sensitivity(self, unit: Unit) -> Fraction:
        """The largest |weight| times the L1 sensitivity of a marginal.

        Proof: answers, weights and offsets are public; ‖x_τ − answers_τ‖₁ is 1-Lipschitz in ‖x_τ‖₁. Answers may be
        those of an older model: whatever they are, the table moves a score by no more. ∎
        """
        return Fraction(float(np.abs(self.weights).max())) * unit.l1

    def levels(self, counts: NDArray[np.int64], steps: int, unit: Unit) -> NDArray[np.int64]:
        """⌊score·steps/sensitivity⌋ of every candidate, in whole numbers of any size, so that nothing is rounded but
        by that floor."""
        weights, _ = _whole(self.weights)
        offsets, parts = _whole(self.offsets)
        largest = GRID * parts * max(abs(w) for w in weights) * unit.l1
        found = zip(weights, offsets, self._steps(counts).tolist(), strict=True)
        return cut(w * (o * GRID + d * parts) * steps // largest for w, o, d in found)


@dataclass(frozen=True, eq=False)
class TableScore(_Flat):
    """The score of one candidate that answers all of `cells`: Σ weight·‖x_τ − answers_τ‖₁ + offset, in rows."""

    offset: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", float(self.offset))
        super().__post_init__()
        _check_numbers("offset", np.array([self.offset]), 1)

    def sensitivity(self, unit: Unit) -> Fraction:
        """Σ|weight| times the L1 sensitivity of a marginal. Proof: as above, and the triangle inequality. ∎"""
        weights, parts = _whole(self.weights)
        return Fraction(sum(abs(w) for w in weights), parts) * unit.l1

    def evaluate(self, counts: Mapping[Marginal, NDArray[np.int64]]) -> Fraction:
        """The exact score, with answers rounded to the grid."""
        weights, parts = _whole(self.weights)
        steps = self._steps(np.concatenate([counts[m] for m in self.marginals])).tolist()
        total = sum(w * d for w, d in zip(weights, steps, strict=True))
        return Fraction(total, parts * GRID) + Fraction(self.offset)


def _check_numbers(name: str, numbers: Floats, count: int) -> None:
    if numbers.shape != (count,) or numbers.dtype != np.float64 or not (np.abs(numbers) <= LARGEST).all():
        raise PrivacyError(f"scores of marginals need one {name} each, finite and within 2^40")


def _whole(numbers: Floats) -> tuple[list[int], int]:
    """Doubles as whole numbers over a common one, exactly.

    >>> _whole(np.array([0.5, 3.0, -0.25]))
    ([2, 12, -1], 4)
    """
    ratios = [x.as_integer_ratio() for x in numbers.tolist()]
    parts = max(below for _, below in ratios)  # powers of two: the largest is a multiple of all
    return [above * (parts // below) for above, below in ratios], parts
