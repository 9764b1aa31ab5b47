"""A cloud of weighted particles: rows of codes with their origin in the prior, which stand for a distribution.

Drawing, moving and counting run on every core in chunks whose generators are seeded apart, so the result depends on the
seed alone and not on the number of threads.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import RowCounter, workers
from openprior.counting.passes import Plan
from openprior.models.prior.draws import PriorArrays, draw
from openprior.models.tilted.moves import CHUNK, TiltArrays, potentials, sweep
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["Particles"]

Floats = NDArray[np.float64]


class Particles:
    """Rows, origins and weights; the weights sum to `total`."""

    def __init__(
        self, prior: PriorArrays, domain: Domain, total: float, count: int, rng: np.random.Generator
    ) -> None:
        self.domain, self.total = domain, total
        self._prior, self._rng = prior, rng
        self.codes: NDArray[np.uint16] = np.empty((count, len(domain)), np.uint16)
        self._kinds: NDArray[np.int8] = np.empty(count, np.int8)
        self._origins: NDArray[np.int32] = np.empty(count, np.int32)
        self._in_chunks(lambda seed, s: draw(prior, seed, self.codes[s], self._kinds[s], self._origins[s]))
        self.weights: Floats = np.full(count, total / count)
        self._table: Table | None = None
        self._counters: dict[Cells, RowCounter] = {}
        self._plans: dict[Cells, tuple[Plan, int]] = {}
        """And the particles that each was made for."""

    def copy(self) -> "Particles":
        """The same cloud, to go back to."""
        other = copy(self)
        other.codes, other.weights = self.codes.copy(), self.weights.copy()
        other._kinds, other._origins = self._kinds.copy(), self._origins.copy()
        return other

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def table(self) -> Table:
        """The rows; laid out by columns once, until they move."""
        if self._table is None:
            self._table = Table(self.domain, tuple(np.ascontiguousarray(c) for c in self.codes.T))
        return self._table

    @property
    def effective(self) -> float:
        """Effective sample size, as a share of the particles."""
        # Not by a dot product: its threads would go on waiting for more, on cores that others need.
        return float(self.weights.sum() ** 2 / np.square(self.weights).sum() / len(self))

    @property
    def shares(self) -> tuple[float, float, float]:
        """How much of the mass comes from classes, anchors and networks."""
        parts = np.bincount(self._kinds, self.weights, minlength=3) / self.weights.sum()
        return float(parts[0]), float(parts[1]), float(parts[2])

    def cells(self, marginal: Marginal) -> NDArray[np.uint32]:
        """Every particle's cell of a marginal."""
        number = np.zeros(len(self), np.uint32)
        for a in marginal:
            number *= np.uint32(self.domain[a])
            number += self.table.columns[self.domain.position(a)]
        return number

    def mass(self, marginal: Marginal) -> Floats:
        """The weighted count of one marginal."""
        counts = np.bincount(self.cells(marginal), self.weights, minlength=self.domain.size(marginal))
        return counts.astype(np.float64, copy=False)

    def answers(self, marginals: Iterable[Marginal]) -> dict[Marginal, Floats]:
        """Weighted counts."""
        counter = RowCounter(self.table, marginals)
        return counter.cells.split(counter.answers(self.weights))

    def flat(self, cells: Cells) -> Floats:
        """Weighted counts of all cells in one vector. The codes stay fused for the next call with the same cells, and
        what was planned for them stays until there are many more or fewer particles."""
        if cells not in self._counters:
            if cells not in self._plans or not _alike(self._plans[cells][1], len(self)):
                self._plans[cells] = Plan(cells, len(self)), len(self)
            self._counters[cells] = RowCounter(self.table, self._plans[cells][0])
        return self._counters[cells].answers(self.weights)

    def resample(self, count: int) -> None:
        """So many particles of equal weight, each taken as often as its weight says (systematic)."""
        ends = np.cumsum(self.weights)
        marks = (np.arange(count) + self._rng.random()) * (ends[-1] / count)
        chosen = np.minimum(np.searchsorted(ends, marks, side="right"), len(self) - 1)
        self.codes, self._kinds = self.codes[chosen], self._kinds[chosen]
        self._origins = self._origins[chosen]
        self._even()

    def move(self, tilt: TiltArrays, *, sweeps: int, fresh: bool) -> float:
        """Sweeps that leave p₀·exp(−Θ) as it is, with fresh draws offered in each or in none; the share of these that
        was taken."""

        def work(seed: np.uint64, s: slice) -> int:
            cloud = self.codes[s], self._kinds[s], self._origins[s]
            return sweep(self._prior, tilt, seed, cloud, fresh=fresh)

        taken = sum(sum(self._in_chunks(work)) for _ in range(sweeps))
        self._even()
        return taken / max(1, sweeps * fresh * len(self))

    def tilt(self, tilt: TiltArrays) -> None:
        """Weight the particles by exp(−Θ)."""
        theta = np.empty(len(self))
        self._in_chunks(lambda seed, s: potentials(tilt, self.codes[s], theta[s]))
        self.weights = np.exp(theta.min() - theta)
        self.weights *= self.total / self.weights.sum()

    def _even(self) -> None:
        self.weights = np.full(len(self), self.total / len(self))
        self._table, self._counters = None, {}

    def _in_chunks(self, work: Callable[[np.uint64, slice], int]) -> Sequence[int]:
        starts = range(0, len(self.codes), CHUNK)
        seeds = self._rng.integers(0, 1 << 63, size=len(starts), dtype=np.uint64)
        jobs = [(seed, slice(s, s + CHUNK)) for seed, s in zip(seeds, starts, strict=True)]
        with ThreadPoolExecutor(workers()) as pool:
            return list(pool.map(lambda job: work(*job), jobs))


def _alike(one: int, other: int) -> bool:
    """Whether two numbers of rows are within a factor of two, so that what is planned for one suits the other."""
    return one <= 2 * other and other <= 2 * one
