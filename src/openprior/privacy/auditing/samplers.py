"""Whether the noise of releases is as large as it was asked to be: its spread, from draws.

The witness checks which scale the noise was asked for; this checks what the samplers make of it. It sees a scale that
is a fifth too small; `tests/statistical/test_samplers.py` compares the whole laws.
"""

import math

import numpy as np

from openprior.privacy.noise import SecureNoise, SeededNoise

__all__ = ["noise_ratio"]

_DRAWS = 2000
LARGEST = 1.2
"""Of asked over observed: more than five standard errors of a Laplace spread, so that chance is hardly ever blamed."""


def noise_ratio(seed: int) -> float:
    """The largest ratio of the standard deviation that was asked for and the one observed."""
    counts, worst = np.zeros(_DRAWS, np.int64), 0.0
    for noise in (SecureNoise(), SeededNoise(seed)):
        for scale in (1.0, 20.0):
            laplace = math.sqrt(2 * math.exp(-1 / scale)) / -math.expm1(-1 / scale)
            for asked, drawn in (
                (_gaussian_spread(scale), noise.gaussian(counts, scale)),
                (laplace, noise.laplace(counts, scale)),
            ):
                worst = max(worst, asked / max(float(drawn.std()), 1e-9))
    return worst


def _gaussian_spread(sigma: float) -> float:
    """Of the discrete Gaussian: hardly below σ at σ = 1, and not at all above."""
    x = np.arange(-int(12 * sigma), int(12 * sigma) + 1)
    weight = np.exp(-(x**2) / (2 * sigma**2))
    return math.sqrt(float((weight * x**2).sum() / weight.sum()))
