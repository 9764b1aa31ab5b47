"""Different rows drawn at random from a domain: where weights may be put if the domain itself cannot be listed."""

import numpy as np

from openprior.schema.domain import Domain
from openprior.tables.table import Table, dtype_for, join

__all__ = ["random_rows"]

_DENSE = 8
"""A domain of at most so many times the rows is numbered and drawn from without replacement."""


def random_rows(domain: Domain, count: int, rng: np.random.Generator) -> Table:
    """So many different combinations of values, every set of them as likely as any other; all if there are no more."""
    size = domain.size()
    kinds = [dtype_for(n) for n in domain.shape]
    if size <= _DENSE * count:
        numbers = np.sort(rng.choice(size, min(count, size), replace=False))
        codes = np.unravel_index(numbers, domain.shape)
        return Table(domain, tuple(c.astype(kind) for c, kind in zip(codes, kinds, strict=True)))
    rows = Table(domain, tuple(np.zeros(0, kind) for kind in kinds))
    while rows.n < count:  # rows that are there already are drawn again, which favours none
        drawn = tuple(
            rng.integers(0, n, count - rows.n, kind) for n, kind in zip(domain.shape, kinds, strict=True)
        )
        rows, _ = join([rows, Table(domain, drawn)]).unique()
    return rows
