"""Which cells are alike: strata by the estimate, and how many cells of which size a group of marginals has."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EDGES", "STRATA", "Sizes", "level_of", "stratum_of"]

Floats = NDArray[np.float64]

EDGES = (0.0, 0.1, 0.5, 2.0, 5.0, 20.0, 100.0, 500.0, 2e3, 1e4, 1e5, 1e6)
"""Where a stratum begins, in rows; an estimate below 0 is in the first."""
STRATA = len(EDGES)
_LEAST = 0.01
"""Smaller estimates are all alike."""
_STEP = 0.15
"""Of the histogram, in natural logarithms."""
_ROUNDED = 1e-9
"""A mean of logarithms is off by less than this."""


def stratum_of(estimate: Floats) -> NDArray[np.int8]:
    """The stratum of each estimate.

    >>> stratum_of(np.array([-1.0, 0.0, 0.1, 3.0, 1e9])).tolist()
    [0, 0, 1, 3, 11]
    """
    return np.maximum(np.searchsorted(EDGES, estimate, side="right") - 1, 0).astype(np.int8)


def level_of(estimate: Floats) -> Floats:
    """The logarithm of an estimate, from that of 0.01 on."""
    levels: Floats = np.log(np.maximum(estimate, _LEAST))
    return levels


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many cells have estimates of which size: so many per marginal, in bins that lie in one stratum each."""

    size: Floats
    """The geometric mean of a bin's estimates, each taken as 0.01 at least."""
    cells: Floats
    """How many cells it has, on average per marginal; each as much as its errors weigh."""
    stratum: NDArray[np.int8]

    @property
    def level(self) -> Floats:
        """Of each bin."""
        levels: Floats = np.log(self.size)
        return levels

    @property
    def can_be(self) -> bool:
        """Whether every bin is in the stratum of its size, and not below the least; at an edge rounding decides."""
        least, most = (stratum_of(self.size * factor) for factor in (1 - _ROUNDED, 1 + _ROUNDED))
        inside = (least <= self.stratum) & (self.stratum <= most) & (self.size >= _LEAST * (1 - _ROUNDED))
        return bool(inside.all())

    @staticmethod
    def of(parts: Iterable[tuple[Floats, Floats]], marginals: int) -> "Sizes":
        """Of the cells of so many marginals, a part at a time: their estimates, and how much their errors weigh."""
        held: dict[tuple[int, int], list[float]] = {}
        for estimate, weight in parts:
            level, stratum = level_of(estimate), stratum_of(estimate)
            key = np.floor((level - np.log(_LEAST)) / _STEP).astype(np.int64) * STRATA + stratum
            found, which = np.unique(key, return_inverse=True)
            counts, sums = np.bincount(which, weight), np.bincount(which, weight * level)
            for k, count, total in zip(found.tolist(), counts.tolist(), sums.tolist(), strict=True):
                bin_ = held.setdefault(divmod(k, STRATA), [0.0, 0.0])
                bin_[0] += count
                bin_[1] += total
        keys = sorted(held)
        return Sizes(
            np.exp(np.array([held[k][1] / held[k][0] for k in keys])),
            np.array([held[k][0] / marginals for k in keys]),
            np.array([s for _, s in keys], np.int8),
        )
