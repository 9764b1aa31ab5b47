"""Independent columns: what noisy one-way marginals alone say, without any public table.

Every column's distribution is read off its own measurement (column_reading.py). Measurements are released, so all of
it is post-processing.
"""

from collections.abc import Iterable

from openprior.models.prior.prior import Prior, uniform_prior
from openprior.models.tilted.column_reading import read_column
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain

__all__ = ["independent_prior"]


def independent_prior(domain: Domain, total: float, measurements: Iterable[Measurement]) -> Prior:
    """Columns as measured, as far as the noise can tell; others uniform."""
    arrays = uniform_prior(domain).arrays
    table, sizes = arrays.table.copy(), arrays.sizes
    for measured in measurements:
        (column,) = measured.marginal
        place = domain.position(column)
        start = arrays.table_start[0, place]
        mass = read_column(measured.values, measured.sigma, total).counts
        table[start : start + sizes[place]] = mass / mass.sum()
    return Prior(arrays._replace(table=table), 0, (0.0, 0.0, 1.0))
