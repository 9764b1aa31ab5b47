"""The distinct rows of a source and how often each occurs, for what no marginal can tell.

Counts of marginals are enough for almost everything, and take one pass and little memory. A regression is not: it looks
at all columns of a row together. So the codes of all rows are held for a moment, a byte or two per value.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.tables.encode import Encoder
from openprior.tables.table import Table

__all__ = ["whole_rows"]


def whole_rows(encoder: Encoder) -> tuple[Table, NDArray[np.int64]]:
    """The distinct rows over the schema's columns, at most Δ rows per person, and the count of each."""
    domain = encoder.schema.domain
    parts = [codes[: len(domain)] for codes in encoder.batches()]
    if not parts:
        return Table(domain, tuple(np.zeros(0, np.uint8) for _ in domain)), np.zeros(0, np.int64)
    return Table(domain, tuple(np.concatenate(column) for column in zip(*parts, strict=True))).unique()
