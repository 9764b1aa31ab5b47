"""What shares of a budget buy: the noise of a measured marginal, and how many marginals can be measured.

Pure functions of the unit, the number of rows and (ε, δ): no table is touched.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from openprior.guidance.bounds import NoiseSize, expected_noise
from openprior.privacy.calibrate import budget_rho, gaussian_sigma_squared
from openprior.privacy.unit import Unit

__all__ = ["LEVEL", "Noise", "PlannedBudget", "largest_cell"]

LEVEL = 0.1
"""The noise of a measured marginal, in L1 as a share of the table, that still leaves something to see."""
_MEASURING = 0.8
"""Share of the budget that pays for measuring where marginals are selected: jam-pgm's alpha, and what tilt spends at
least."""
_SEEN = 2.0
"""Standard deviations above which a count can be told from nothing."""
_EXACT_SIZES = 64


@dataclass(frozen=True)
class Noise:
    """The noise of a measured marginal, unprocessed."""

    rows: float
    """σ of one cell, in rows."""
    share: float
    """σ of one cell, as a share of the table."""
    l1: float
    """Expected L1 error, as a share of the table; 2 is as wrong as can be."""
    largest: float
    """Expected largest error of a cell, as a share of the table."""


class PlannedBudget:
    """The noise that shares of the budget buy: Gaussian, or Laplace where δ = 0."""

    def __init__(self, unit: Unit, n: int, epsilon: float, delta: float) -> None:
        self.unit, self.n, self.epsilon, self.pure = unit, n, epsilon, delta == 0
        self.rho = budget_rho(epsilon, delta)
        self.measuring = 1.0 if self.pure else _MEASURING
        """Share that pays for measuring, where marginals are selected; pure methods select on public data."""

    def sigma(self, share: float) -> float:
        """Standard deviation of a cell, in rows."""
        if self.pure:
            return math.sqrt(2) * self.unit.l1 / (self.epsilon * share)
        return math.sqrt(gaussian_sigma_squared(self.unit.l2_squared, self.rho * share))

    def l1(self, share: float, cells: int) -> float:
        """Expected L1 noise of a marginal, as a share of the table."""
        return cells * _standard(1, self.pure).l1 * self.sigma(share) / self.n

    def noise(self, share: float, cells: int, largest: float) -> Noise:
        """Of a marginal; `largest` is the expected largest of its cells, in standard deviations."""
        sigma = self.sigma(share)
        return Noise(sigma, sigma / self.n, self.l1(share, cells), largest * sigma / self.n)

    def affordable(self, marginals: int, cells: int) -> int:
        """T for marginals of so many cells: σ grows with √T, and with T where ε is what adds up."""
        times = LEVEL / self.l1(self.measuring, cells)
        return int(min(marginals, times if self.pure else times**2))

    def share(self, chosen: int, of: int) -> float:
        """What each of the chosen marginals gets; where all are, nothing is spent on selecting."""
        return (1.0 if chosen >= of else self.measuring) / max(1, chosen)

    def seen(self, share: float) -> float:
        """The smallest count that can be seen."""
        return _SEEN * self.sigma(share)


@lru_cache(maxsize=1024)
def _standard(cells: int, pure: bool) -> NoiseSize:
    """Noise of standard deviation 1. The largest of k Laplace draws is 1 + 1/2 + … + 1/k scales in expectation."""
    if not pure:
        return expected_noise(rho=0.5, cells=cells, l2=1.0)
    from scipy.special import digamma

    return NoiseSize(1.0, cells / math.sqrt(2), float(digamma(cells + 1) + np.euler_gamma) / math.sqrt(2))


def largest_cell(sizes: set[int], pure: bool) -> Callable[[int], float]:
    """The expected largest of so many cells, in σ; interpolated where there are very many different sizes."""
    if len(sizes) <= _EXACT_SIZES:
        return lambda cells: _standard(cells, pure).largest
    knots = sorted({round(x) for x in np.geomspace(min(sizes), max(sizes), _EXACT_SIZES)})
    logs, heights = np.log(knots), [_standard(k, pure).largest for k in knots]
    return lambda cells: float(np.interp(math.log(cells), logs, heights))
