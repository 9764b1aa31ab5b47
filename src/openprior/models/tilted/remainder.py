"""What is left of a marginal's error once it is measured: noise that the model's trust shrinks, and particles.

Before a round every candidate is asked for it, by the model's own answers; so it is one pass over the cells of all.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled
from openprior.counting.cores import workers

__all__ = ["left_after"]

Floats = NDArray[np.float64]

_BUFFER = 1024
_MANY = 1 << 16
"""Cells that are worth another thread."""


def left_after(
    answers: Floats, offsets: NDArray[np.int64], *, sigma: float, trust: float, particle: float
) -> Floats:
    """The expected L1 error of every marginal, with its cells at offsets[i] : offsets[i + 1], after a measurement with
    noise of standard deviation σ: per cell of mass m the variance σ²·s/(σ² + s) for s = m/λ, and m times the weight of
    a particle."""
    threads = workers() if len(answers) > _MANY else 1
    cuts = np.searchsorted(offsets, np.arange(threads + 1) * (offsets[-1] / threads))

    def some(first: int, last: int) -> Floats:
        found: Floats = _roots(answers, offsets[first : last + 1], sigma**2, trust, particle)
        return found

    with ThreadPoolExecutor(threads) as pool:
        roots = np.concatenate(list(pool.map(some, cuts[:-1], cuts[1:])))
    return math.sqrt(2 / math.pi) * roots


@compiled()
def _roots(answers, offsets, variance, trust, particle):  # type: ignore[no-untyped-def]
    """Σ √(variance of a cell) of every marginal.

    Cells that hold something, most do not, go into a small buffer first, so that their roots become vector
    instructions; they are added in an order that is written down: the result is the same on every machine.
    """
    found = np.empty(len(offsets) - 1)
    masses, roots = np.empty(_BUFFER), np.empty(_BUFFER + 4)
    flat = variance * trust
    for i in range(len(found)):
        total = 0.0
        for start in range(offsets[i], offsets[i + 1], _BUFFER):
            n = 0
            for j in range(start, min(start + _BUFFER, offsets[i + 1])):
                masses[n] = answers[j]
                n += answers[j] > 0
            for j in range(n):
                roots[j] = math.sqrt(masses[j] * (variance / (flat + masses[j]) + particle))
            roots[n : n + 4] = 0.0
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for j in range(0, n, 4):
                a += roots[j]
                b += roots[j + 1]
                c += roots[j + 2]
                d += roots[j + 3]
            total += (a + b) + (c + d)
        found[i] = total
    return found
