"""How far 95 % bars reach, in standard deviations of the error, where that itself is known only roughly."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEAN_TO_SD", "reach"]

Floats = NDArray[np.float64]

MEAN_TO_SD = math.sqrt(math.pi / 2)
"""A normal error's standard deviation, per mean of its size."""
_Z95 = 1.959963984540054
_AT, _TAILS = np.log([0.1, 0.5, 2.0, 5.0, 20.0, 100.0, 500.0]), (1.8, 1.8, 1.85, 1.88, 1.95, 2.05, 2.25)
"""At these levels, what holds 95 in 100 errors, in standard deviations of their mean size: small cells are whole
numbers, and half a row is added to every bar; among large ones some are known far better than others, which makes tails
heavy. Measured on six pairs of tables (benchmarks/intervals.py)."""
_EVEN = 2.5
"""The same of contrasts, at every level."""
_MOST, _POINTS = 4.0, 81
"""Variances up to which the reach is worked out, and at how many."""


def reach(level: Floats, variance: Floats, *, even: bool = False) -> Floats:
    """How many standard deviations a bar is long: such that, over what the logarithm of the standard deviation may
    be, normal with this variance, 95 in 100 normal errors are within; times what tails need at this level (`even`: of
    contrasts)."""
    tails = (_EVEN if even else np.interp(level, _AT, _TAILS)) / _Z95
    reached: Floats = tails * np.interp(variance, *_table())
    return reached


@cache
def _table() -> tuple[Floats, Floats]:
    """The reach without tails, by variance."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights = weights / weights.sum()
    variances = np.linspace(0.0, _MOST, _POINTS)
    sd = np.sqrt(variances)[:, None]
    low, high = np.full(_POINTS, 1.0), np.full(_POINTS, 100.0)
    inside = np.vectorize(lambda x: math.erf(x / math.sqrt(2)))
    for _ in range(50):
        middle = (low + high) / 2
        held = inside(middle[:, None] * np.exp(-sd * nodes)) @ weights
        low, high = np.where(held < 0.95, middle, low), np.where(held < 0.95, high, middle)
    return variances, (low + high) / 2
