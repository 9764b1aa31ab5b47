"""A graphical model that grows by one measured marginal per round: what JAM-PGM, AIM and MST share.

Measuring a marginal may join cliques, and the tables of a joined clique multiply; so every round only marginals are
candidates with which the model stays below a size limit, and its fits below a limit of time (fit_time.py).
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.methods.base import Sizes
from openprior.methods.shared.compression import Compression
from openprior.methods.shared.fit_time import LAST_STEPS, FitTime, steps_between
from openprior.models.graphical.estimation import Estimator
from openprior.models.graphical.junction import Structure, megabytes
from openprior.models.graphical.loss import Weigh, by_precision
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.calibrate import gaussian_sigma_squared
from openprior.privacy.measurement import Measurement
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["GrowingModel", "check_size", "clique_seconds", "expected_noise", "noise_of", "within_reach"]

_EFFORT = 2e8
"""Multiplications (a cell written is ten) that the exact answer of one candidate may take; the answers of others are
counted from rows."""
_ROWS = 1 << 18


class GrowingModel:
    """The measurements so far, and the model closest to them."""

    def __init__(
        self,
        domain: Domain,
        total: float | None,
        rng: np.random.Generator,
        *,
        size_limit: float,
        seconds: float | None = None,
        weigh: Weigh = by_precision,
        compression: Compression | None = None,
    ) -> None:
        """`total` is the number of rows, or None to estimate it; `size_limit` is in megabytes; all fits together may
        take so many `seconds`, as foretold, or as long as they take if None. With a `compression`, measurements and
        answers of several columns are of merged values; limits are of the tables of all values, which come in the
        end."""
        check_size(domain, size_limit)
        self.measurements: list[Measurement] = []
        self._size_limit, self._rng = size_limit, rng
        self._time = FitTime(seconds)
        self._structure = Structure(domain)
        self._compression = compression or Compression(domain)
        self._estimator = Estimator(self._compression.domain, total, weigh=weigh, tolerance=5e-4)
        self.model: GraphicalModel = self._estimator.fit([])

    def candidates(self, marginals: Iterable[Marginal], used: float, rounds: float) -> list[Marginal]:
        """Those with which the model stays below the size limit times `used`, a share of the budget, and all its fits
        in so many `rounds` to come below the limit of time.

        What fits into a clique that is there costs nothing, so every one-way marginal is always a candidate.
        """
        limit = self._size_limit * min(used, 1.0)
        return [m for m in marginals if self._may_grow(self._structure.cells_with(m), limit, rounds)]

    def _may_grow(self, cells: float, limit: float, rounds: float) -> bool:
        if cells <= self._structure.cells:
            return True
        return megabytes(cells) <= limit and self._time.allows(cells, rounds)

    def answers(self, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.float64]]:
        """The model's answers, for scores."""
        answers = self.model.approximate_answers(marginals, self._rng, effort=_EFFORT, rows=_ROWS)
        return {m: self._compression.spread(m, x) for m, x in answers.items()}

    def answer(self, marginal: Marginal) -> NDArray[np.float64]:
        """The model's exact answer."""
        return self._compression.spread(marginal, self.model.answers([marginal])[marginal])

    def measured(self, *measurements: Measurement) -> None:
        """Take measurements in and fit again."""
        for measurement in measurements:
            self._structure = self._structure.with_marginal(measurement.marginal)
            self._compression = self._compression.learnt(measurement)
        self.measurements += map(self._compression.sums, measurements)
        self._estimator.max_steps = steps_between(self._structure.cells)
        self.model = self._estimator.fit(self.measurements, self._structure)
        self._time.spend(self._structure.cells)

    def finish(self) -> GraphicalModel:
        """The model of all values, fitted more closely than it has to be between rounds."""
        self._estimator.tolerance, self._estimator.max_steps = 1e-4, LAST_STEPS
        with phase("estimating"):
            self.model = self._estimator.fit(self.measurements, self._structure)
        return self._compression.expand(self.model)


def check_size(domain: Domain, size_limit: float) -> None:
    """Refuse a limit (in megabytes) below the largest one-way marginal, with which nothing could be measured."""
    widest = max(domain, key=lambda a: domain[a])
    if megabytes(domain[widest]) > size_limit:
        raise OptionError(
            f"size_limit ({size_limit:g} MB) is smaller than the one-way marginal of '{widest}' "
            f"({megabytes(domain[widest]):.3g} MB); raise it, or give the column fewer values"
        )


def within_reach(domain: Domain, marginals: Iterable[Marginal], size_limit: float) -> list[Marginal]:
    """Those whose own table fits the size limit; others can never be measured."""
    return [m for m in marginals if megabytes(domain.size(m)) <= size_limit]


def noise_of(unit: Unit, rho: float) -> float:
    """The standard deviation of the noise that measuring a marginal with this budget adds."""
    return math.sqrt(gaussian_sigma_squared(unit.l2_squared, rho))


def clique_seconds(sizes: Sizes, limit: float | None, more: float = 0.0) -> float:
    """Seconds that fits take where cliques have grown: the more rows and budget there are for a cell, up to a point,
    the more marginals stand out of the noise and are joined; `more` if a method joins them anyway. A limit of the
    time of fits holds for them, and roughly for the scores from large cliques, which take as long again."""
    typical = sizes.cells / sizes.marginals
    signal = sizes.rows * sizes.epsilon / typical
    grown = 4e-5 * sizes.rows * sizes.epsilon * min(signal / 50, 1.0) * min(typical / 1000, 1.0) + more
    return grown if limit is None else min(grown, 2 * limit)


def expected_noise(sigma: float, cells: int) -> float:
    """The expected L1 norm of Gaussian noise on so many cells.

    >>> round(expected_noise(2.0, 10), 2)
    15.96
    """
    return math.sqrt(2 / math.pi) * sigma * cells
