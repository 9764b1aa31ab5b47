"""What a measurement gives: noisy numbers, and how noisy they are. The one type from the curator to the file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from openprior.privacy.statistics import CellCount, Counts, Statistic
from openprior.privacy.together import Together
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Measurement", "Sums"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy values of a statistic, and the standard deviation of their noise."""

    statistic: Statistic
    values: NDArray[np.float64]
    sigma: float
    noise: str = "gaussian"
    part: Mapping[str, int] = field(default_factory=dict)
    """Within a partition: the keys' codes of the rows that were measured."""

    @property
    def variance(self) -> float | NDArray[np.float64]:
        """Of the noise of each value, or of all of them."""
        return self.sigma**2

    @staticmethod
    def of(marginal: Marginal, values: NDArray[np.float64], sigma: float) -> "Measurement":
        """Noisy counts of a whole marginal."""
        return Measurement(Counts(marginal), values, sigma)

    def pieces(self, domain: Domain) -> Iterator["Measurement"]:
        """What was measured together, one by one and without its factor; itself, if it was measured alone."""
        if not isinstance(self.statistic, Together):
            yield self
            return
        start = 0
        for times, statistic, length in self.statistic.pieces(domain):
            values = self.values[start : start + length] / times
            yield Measurement(statistic, values, self.sigma / times, self.noise, self.part)
            start += length

    @property
    def marginal(self) -> Marginal:
        """The columns that were counted."""
        return self.statistic.marginal

    @property
    def cell(self) -> int | None:
        """The one cell that was counted, or None."""
        return self.statistic.cell if isinstance(self.statistic, CellCount) else None

    def cells(self, domain: Domain) -> tuple[Marginal, Mapping[str, int]] | None:
        """Which cells the values count: all those of some columns, where others have given codes; None if no cells."""
        counted = self.statistic.cells(domain)
        return None if counted is None else (counted[0], {**self.part, **counted[1]})


@dataclass(frozen=True, eq=False)
class Sums(Measurement):
    """Post-processing of a measurement: each value is the sum of so many of its values."""

    terms: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))

    @property
    def variance(self) -> NDArray[np.float64]:
        """The noise of independent numbers adds up."""
        return self.sigma**2 * self.terms
