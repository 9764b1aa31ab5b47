"""Residual components: a marginal as a sum of independent parts, one for every subset of its columns.

The counts of a marginal over A are Σ_{B⊆A} (component B, spread evenly over the columns of A that B lacks). Component B
is what the marginal over B says beyond all smaller ones: P·x with P = ⊗_{i∈B}(I − 11ᵀ/nᵢ). The component is the same
whichever marginal it is taken from, and equal noise on all cells of a marginal is uncorrelated between its components.
So the least-squares estimate of all of them, from any set of noisy marginals, is for each component the mean of what
the marginals say, weighted by precision. No table of the whole domain is ever made.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Average", "residual", "subsets", "telling"]

Floats = NDArray[np.float64]


def telling(marginal: Marginal, domain: Domain) -> Marginal:
    """Its columns that have more than one value; the others say nothing."""
    return tuple(a for a in marginal if domain[a] > 1)


def subsets(marginal: Marginal) -> Iterator[Marginal]:
    """All of them, the empty one first.

    >>> list(subsets(("a", "b")))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    for k in range(len(marginal) + 1):
        yield from itertools.combinations(marginal, k)


def residual(table: Floats) -> Floats:
    """P times a table, axis by axis: each number less the mean along the axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


class Average:
    """The precision-weighted mean of every component, over all that was measured of it."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._sums: dict[Marginal, Floats] = {}
        self._precision: dict[Marginal, float] = {}

    def add_marginal(self, marginal: Marginal, counts: Floats, variance: float) -> None:
        """Noisy counts of a marginal: each of its components, B with the variance of as many cells as are summed."""
        table = counts.reshape([self._domain[a] for a in marginal])
        for part in subsets(telling(marginal, self._domain)):
            away = tuple(i for i, a in enumerate(marginal) if a not in part)
            cells = math.prod(table.shape[i] for i in away)
            self._add(part, residual(table.sum(axis=away)), cells * variance)

    def add_component(self, columns: Marginal, values: Floats, variance: float) -> None:
        """A component measured by itself, with equal noise on all of its numbers.

        What such noise adds outside of the component's own space is no information, so it is projected away.
        """
        self._add(columns, residual(values.reshape([self._domain[a] for a in columns])), variance)

    def _add(self, columns: Marginal, values: Floats, variance: float) -> None:
        self._precision[columns] = self._precision.get(columns, 0.0) + 1 / variance
        self._sums[columns] = self._sums.get(columns, 0.0) + values / variance

    def components(self) -> tuple[dict[Marginal, Floats], dict[Marginal, float]]:
        """The means, and the variance τ of each: component B has the covariance τP."""
        means = {b: np.asarray(total / self._precision[b]) for b, total in self._sums.items()}
        return means, {b: 1 / precision for b, precision in self._precision.items()}
