"""What a measurement gives: noisy numbers, and how noisy they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal

__all__ = ["Measurement"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts, and the standard deviation of their noise."""

    marginal: Marginal
    values: NDArray[np.float64]
    sigma: float
    rho: float
    noise: str
    cell: int | None = None
    """The one cell that was measured, or None for all cells of the marginal."""
    part: Mapping[str, int] = field(default_factory=dict)
    """Within a partition: the keys' codes of the rows that were measured."""
    queries: str = ""
    """Queries over the marginal, one value each, instead of its cells."""
