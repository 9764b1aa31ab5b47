"""What public rows say of their attributes: entropies, mutual information, and the error that a measurement leaves.

A second sample of the same population differs from the public one by about 2·n·p in a cell's variance, and drift adds
to that; a measurement with noise σ² leaves v·σ²/(v + σ²) of a variance v.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.questions.workload import Marginal
from openprior.tables.table import Table

__all__ = ["Dependence"]

Floats = NDArray[np.float64]

_ROWS = 4000
"""Rows of a group that dependence is learnt from."""
_DRIFT = 4.0
"""Variance of the difference of public and private counts, in n·p: two samples of one population have 2; drift, and
households that are in a sample together, as much again (measured on ACS areas: 4 does best of 2, 3 and 4)."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """What the public rows of some groups say of their attributes, on average."""

    attributes: tuple[str, ...]
    groups: tuple[tuple[float, int, dict[Marginal, Floats]], ...]
    """Expected private rows, public rows, and shares of every one- and two-way marginal, of each group."""

    @staticmethod
    def of(
        groups: Sequence[Table],
        rows: Iterable[float],
        rng: np.random.Generator,
        *,
        most: int | None = _ROWS,
    ) -> "Dependence":
        """From public rows of groups, so many of each at most; `rows` are the private rows that each may have."""
        attributes = groups[0].domain.attributes
        marginals = [*((a,) for a in attributes), *itertools.combinations(attributes, 2)]
        learnt = []
        for table, expected in zip(groups, rows, strict=True):
            few = most is None or table.n <= most
            some = table if few else table.take(rng.choice(table.n, most, replace=False))
            shares = {m: c / some.n for m, c in count_table(some, marginals).items()}
            learnt.append((max(1.0, expected), some.n, shares))
        return Dependence(attributes, tuple(learnt))

    @property
    def pairs(self) -> list[Marginal]:
        """All pairs."""
        return list(itertools.combinations(self.attributes, 2))

    def entropy(self, marginal: Marginal) -> float:
        """Mean entropy within groups."""
        return float(np.mean([_entropy(shares[marginal]) for _, _, shares in self.groups]))

    def information(self, pair: Marginal) -> float:
        """Mean mutual information within groups, less what a sample of so many rows shows by chance."""
        a, b = pair
        raw = self.entropy((a,)) + self.entropy((b,)) - self.entropy(pair)
        chance = [
            (np.count_nonzero(s[(a,)]) - 1) * (np.count_nonzero(s[(b,)]) - 1) / (2 * rows)
            for _, rows, s in self.groups
        ]
        return max(raw - float(np.mean(chance)), 0.0)

    def strength(self, pair: Marginal) -> float:
        """Mutual information as a share of the smaller entropy."""
        least = min(self.entropy((pair[0],)), self.entropy((pair[1],)))
        return self.information(pair) / least if least > 1e-9 else 0.0

    def left(self, marginal: Marginal, variance: float) -> float:
        """Expected L1 error of a marginal (in rows, mean of groups) once it is measured with noise of this variance."""
        total = 0.0
        for n, _, shares in self.groups:
            p = shares[marginal]
            spread = _DRIFT * n * p * (1 - p)
            if math.isfinite(variance):
                spread = spread * variance / (spread + variance)
            total += float(np.sqrt(spread).sum())
        return total / len(self.groups)


def _entropy(shares: Floats) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())
