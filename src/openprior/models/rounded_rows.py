"""Whole rows of a weighted table, however many are asked for, at the cost of rounding a small one.

Each particle comes as often as the whole part of its weight says. What is left, less than one row per particle, is
chosen so that its marginals meet those of the fractions that are left: then the marginals of all rows meet the model's,
and the error of rounding is that of a small table.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import RowCounter
from openprior.models.rows import choose_rows
from openprior.questions.workload import Marginal
from openprior.tables.table import Table, join

__all__ = ["rounded_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def rounded_rows(
    particles: Table,
    weights: Floats,
    rows: int,
    marginals: Sequence[Marginal],
    rng: np.random.Generator,
    *,
    effort: float,
) -> tuple[Table, Ints]:
    """So many rows, as a table and how often each of its rows comes; `effort` as in `choose_rows`."""
    expected = weights * (rows / weights.sum())
    counts = np.floor(expected).astype(np.int64)
    rest = expected - counts
    left = rows - int(counts.sum())
    held = counts > 0
    if left == 0 or not rest.any():
        return particles.take(held), counts[held]
    targets = {}
    if marginals:
        counter = RowCounter(particles, marginals)
        targets = counter.cells.split(counter.answers(rest))
    chosen = choose_rows(particles, rest, left, targets, rng, effort=effort)
    return join([particles.take(held), chosen]), np.concatenate([counts[held], np.ones(chosen.n, np.int64)])
