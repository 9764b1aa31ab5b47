"""What is left of a marginal's error once it is measured: noise that the model's trust shrinks, and particles.

Before a round every candidate is asked for it, by the model's own answers; so it is one pass over the cells of all.
"""

import math

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["left_after"]

Floats = NDArray[np.float64]

_LANES = 8


def left_after(
    answers: Floats, offsets: NDArray[np.int64], *, sigma: float, trust: float, particle: float
) -> Floats:
    """The expected L1 error of every marginal, with its cells at offsets[i] : offsets[i + 1], after a measurement with
    noise of standard deviation σ: per cell of mass m the variance σ²·s/(σ² + s) for s = m/λ, and m times the weight of
    a particle."""
    return math.sqrt(2 / math.pi) * _roots(answers, offsets, sigma**2, trust, particle)


@nb.njit(nogil=True, cache=True)
def _roots(answers, offsets, variance, trust, particle):  # type: ignore[no-untyped-def]
    """Σ √(variance of a cell) of every marginal.

    Eight sums advance side by side, which the compiler turns into vector instructions; their order is written down, so
    the result is the same on every machine.
    """
    found = np.empty(len(offsets) - 1)
    sums = np.empty(_LANES)
    flat = variance * trust
    for i in range(len(found)):
        start, end = offsets[i], offsets[i + 1]
        whole = end - (end - start) % _LANES
        sums[:] = 0.0
        for j in range(start, whole, _LANES):
            for k in range(_LANES):
                m = answers[j + k]
                sums[k] += math.sqrt(m * (variance / (flat + m) + particle))
        total = 0.0
        for k in range(_LANES):
            total += sums[k]
        for j in range(whole, end):
            total += math.sqrt(answers[j] * (variance / (flat + answers[j]) + particle))
        found[i] = total
    return found
