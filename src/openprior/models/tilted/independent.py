"""Independent columns: what noisy one-way marginals alone say, without any public table.

A uniform prior tilted by one-way marginals is a product of columns, so every column's block step can be made on its
values themselves: no particles, and nothing to draw anew. Measurements are released, so all of it is post-processing.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openprior.models.prior.prior import Prior, uniform_prior
from openprior.models.tilted.blocks import Block, FlatBlocks
from openprior.models.tilted.raking import most_likely, stiffness, trust_evidence
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain

__all__ = ["independent_prior"]

Floats = NDArray[np.float64]

_TRUST, _SPREAD = 0.01, 1.5
"""How far uniform columns are trusted before anything is known, and how far that may be wrong (log units)."""
_STEPS = 6


def independent_prior(
    domain: Domain, total: float, particles: int, measurements: Iterable[Measurement]
) -> Prior:
    """Columns as measured, as far as noise and so many particles can tell; others uniform."""
    arrays = uniform_prior(domain).arrays
    table, sizes = arrays.table.copy(), arrays.sizes
    for measured in measurements:
        (column,) = measured.marginal
        place = domain.position(column)
        start = arrays.table_start[0, place]
        mass = _fitted(measured.values, measured.sigma**2, total, particles)
        table[start : start + sizes[place]] = mass / mass.sum()
    return Prior(arrays._replace(table=table), 0, (0.0, 0.0, 1.0))


def _fitted(values: Floats, variance: float, total: float, particles: int) -> Floats:
    """The mass of every value of a column, from uniform."""
    expected = np.full(len(values), total / len(values))
    trust = most_likely(trust_evidence(values, expected, variance), _TRUST, _SPREAD)
    least = 0.05 * total / particles
    c, stands_out = stiffness(np.minimum(values, total), expected, variance, trust, least)
    zeros = np.zeros(len(values))
    flat = FlatBlocks([Block(values, variance, trust, c, stands_out, zeros, zeros)])
    cells = np.arange(len(values), dtype=np.uint32)[None]
    for _ in range(_STEPS):
        flat.rake(cells, expected, total)
        flat.before = flat.theta.copy()
    return expected
