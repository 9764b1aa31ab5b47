"""How far 95 % bars reach, in standard deviations of the error, where that itself is known only roughly."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

__all__ = ["MEAN_TO_SD", "log_reach", "tails_at"]

Floats = NDArray[np.float64]

MEAN_TO_SD = math.sqrt(math.pi / 2)
"""A normal error's standard deviation, per mean of its size."""
_AT, _TAILS = np.log([5.0, 20.0, 100.0, 500.0]), (1.9, 1.95, 2.05, 2.25)
"""At these levels, what holds 95 in 100 errors, in standard deviations of their mean size: small cells are whole
numbers, and half a row is added to every bar; among large ones some are known far better than others, which makes tails
heavy. Measured on six pairs of tables (benchmarks/intervals.py)."""
_EVEN = 2.8
"""The same of contrasts, at every level: some pairs of columns were counted, and others were never looked at."""
_Z95 = 1.959963984540054
_NODES, _STEPS = 31, 40


def tails_at(level: Floats, *, even: bool = False) -> Floats:
    """What holds 95 in 100 errors at these levels, in standard deviations of their mean size; `even`: of contrasts."""
    return np.full(len(level), _EVEN) if even else np.interp(level, _AT, _TAILS)


def log_reach(worlds: Sequence[tuple[float, Floats, Floats]], level: Floats, *, even: bool = False) -> Floats:
    """The logarithm of how far bars reach: such that, over what the size of errors may be, 95 in 100 are within.

    Each world has a probability and, at every level, the logarithm of the mean error, normal with a mean and a
    variance.
    """
    scale = np.log(MEAN_TO_SD * tails_at(level, even=even) / _Z95)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    logs = [
        mean[:, None] + scale[:, None] + np.sqrt(variance)[:, None] * nodes for _, mean, variance in worlds
    ]
    shares = [share for share, _, _ in worlds]
    low = np.min([log.min(axis=1) for log in logs], axis=0)
    high = np.max([log.max(axis=1) for log in logs], axis=0) + 2.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        held = sum(
            share * (erf(np.exp(middle[:, None] - log) / math.sqrt(2)) @ weights)
            for share, log in zip(shares, logs, strict=True)
        )
        low, high = np.where(held < 0.95, middle, low), np.where(held < 0.95, high, middle)
    reached: Floats = (low + high) / 2
    return reached
