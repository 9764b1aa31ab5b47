"""Weights on rows: the distributions of PMW^Pub, MWEM+PUB, the public proxy, and MWEM on an enumerated domain.

`SupportModel` is the finished distribution. `MultiplicativeWeights` is the same while it is being learnt: one
update multiplies the rows of one cell by a constant, so all answers move by what those rows (or the others, if
they are fewer) add; nothing of size rows × queries is ever stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.base import Flags, Model, Saved
from openprior.models.parts import DrawPart, split_rows
from openprior.models.rounding import round_to_counts
from openprior.questions.workload import Marginal, canonical
from openprior.tables.table import Table

__all__ = ["MultiplicativeWeights", "SupportModel"]

Floats = NDArray[np.float64]

_LONG, _LONGEST = 3.0, 300.0
"""Of the logarithm of a cell's weights: beyond the first, a move is too long for its scale to be told without loss, so
all is counted anew; beyond the second the other rows have no mass that a double would show, so it ends there."""
_NEAR = 1e-9
"""Weights that were divided by their sum add up to 1 within this."""


class SupportModel(Model):
    """A distribution on given rows."""

    kind: ClassVar[str] = "support"

    def __init__(self, rows: Table, weights: Floats, total: float) -> None:
        if (
            len(weights) != rows.n
            or not np.isfinite(weights).all()
            or (weights < 0).any()
            or weights.sum() <= 0
        ):
            raise ValueError("a support model needs one finite weight ≥ 0 per row, and a positive sum")
        super().__init__(rows.domain, total)
        self.rows = rows
        self.weights: Floats = weights / weights.sum()

    def answers(self, marginals: Iterable[Iterable[str]]) -> dict[Marginal, Floats]:
        """Weighted counts of the rows."""
        counter = RowCounter(self.rows, [canonical(m, self.domain) for m in marginals])
        return counter.cells.split(counter.answers(self.weights * self.total))

    def sizes(self, answers: Mapping[Marginal, Floats]) -> Mapping[Marginal, Floats]:
        """What cells would hold if no row weighed less than it did at first: rows are weighed down by noise, too."""
        counter = RowCounter(self.rows, answers)
        least = np.maximum(self.weights, 1 / self.rows.n)
        return counter.cells.split(counter.answers(least * self.total))

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """Each row as often as its weight says, rounded up or down without bias; shuffled."""
        counts = round_to_counts(self.weights, rows, rng)
        return self.rows.take(rng.permutation(np.repeat(np.arange(self.rows.n), counts)))

    def sample_parts(self, rows: int, parts: int, rng: np.random.Generator) -> Sequence[DrawPart]:
        """Rounded once, then split."""
        return split_rows(self.rows, round_to_counts(self.weights, rows, rng), parts, rng)

    can_restrict: ClassVar[bool] = True

    def restricted(self, allowed: Mapping[str, Flags]) -> "SupportModel | None":
        """The rows that are allowed."""
        kept = np.where(self.rows.inside(allowed), self.weights, 0.0)
        share = float(kept.sum())
        return SupportModel(self.rows, kept, self.total * share) if share > 0 else None

    def save(self, folder: Path) -> None:
        """Rows and weights."""
        columns = {f"column{i}": c for i, c in enumerate(self.rows.columns)}
        self._write(folder, {"total": self.total}, {"weights": self.weights, **columns})

    @classmethod
    def load(cls, saved: Saved) -> "SupportModel":
        """Rows and weights."""
        columns = tuple(saved.arrays[f"column{i}"] for i in range(len(saved.domain)))
        weights = saved.arrays["weights"]
        model = cls(Table(saved.domain, columns), weights, saved.facts["total"])
        if (
            abs(weights.sum() - 1) < _NEAR
        ):  # divided by that again, they would not be the same to the last bit
            model.weights = weights
        return model


class MultiplicativeWeights:
    """A distribution on rows under multiplicative updates, with the answers of a workload kept current."""

    _REFRESH = 64
    """Answers are counted anew after so many moves, so that rounding errors cannot add up."""

    def __init__(self, rows: Table, weights: Floats, marginals: Iterable[Marginal]) -> None:
        self.rows = rows
        self.weights: Floats = weights / weights.sum()
        self._counter = RowCounter(rows, marginals)
        self.cells = self._counter.cells
        self.answers: Floats = self._counter.answers(self.weights)
        self._moves = 0

    def restart(self, weights: Floats) -> None:
        """Begin anew at these weights."""
        self.weights = weights / weights.sum()
        self.answers = self._counter.answers(self.weights)

    def reachable(self) -> NDArray[np.intp]:
        """The cells that hold some of the rows but not all: no weights can move the others."""
        rows = np.rint(self._counter.answers(np.ones(self.rows.n)))
        return np.flatnonzero((rows > 0) & (rows < self.rows.n))

    def answer(self, marginal: Marginal, cell: int) -> float:
        """One answer."""
        return float(self.answers[self.cells.offset(marginal) + cell])

    def members(self, marginal: Marginal, cell: int) -> NDArray[np.bool_]:
        """Which rows lie in a cell."""
        sizes = [self.rows.domain[a] for a in marginal]
        inside: NDArray[np.bool_] | None = None
        for a, code in zip(marginal, np.unravel_index(cell, sizes), strict=True):
            hit = self.rows.column(a) == code
            inside = hit if inside is None else inside & hit
        assert inside is not None
        return inside

    def update(self, moves: Iterable[tuple[Marginal, int, float]], step: float) -> None:
        """For each (marginal, cell, noisy answer a): A ∝ A·exp(q(x)·(a − q(A))·step), one after the other."""
        weights = self.weights.copy()
        touched = np.zeros(len(weights), np.bool_)
        factor = scale = 1.0
        count, far = 0, False
        for marginal, cell, answer in moves:
            inside = self.members(marginal, cell)
            mass = float(weights[inside].sum()) * scale
            length = (answer - mass) * step
            factor = float(np.exp(min(max(length, -_LONGEST), _LONGEST)))
            weights[inside] *= factor
            if abs(length) > _LONG:
                weights, scale, far = weights / weights.sum(), 1.0, True
            else:
                scale /= 1.0 + (factor - 1.0) * mass
            touched |= inside
            count += 1
        if far:
            self._move(weights / weights.sum(), np.arange(len(weights)), 1.0)
            return
        weights *= scale
        if count == 1 and 2 * np.count_nonzero(touched) > len(weights):
            # Seen from inside a large cell, it is the other rows that moved.
            touched, scale = ~touched, scale * factor
        self._move(weights / weights.sum(), np.flatnonzero(touched), scale)

    def _move(self, weights: Floats, changed: NDArray[np.intp], scale: float) -> None:
        """Bring the answers up to date: rows that are not `changed` were only rescaled."""
        before, self.weights = self.weights, weights
        self._moves += 1
        if self._moves % self._REFRESH == 0 or 2 * len(changed) > len(weights):
            self.answers = self._counter.answers(weights)
        else:
            self.answers = self.answers * scale
            self.answers += self._counter.answers(weights[changed] - before[changed] * scale, changed)
