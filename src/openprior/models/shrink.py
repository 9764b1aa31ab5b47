"""Weights on fixed rows that meet noisy marginals as closely as their noise deserves: Tilt's raking without moves.

For many groups at once the trust λ is pooled: a marginal is measured in every group, and all of them together show how
far the prior can be believed about it, much better than any small group could alone. Post-processing, all of it.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import cell_numbers
from openprior.models.tilted.raking import most_likely, rake, stiffness, trust_evidence
from openprior.privacy.measurement import Measurement
from openprior.tables.table import Table

__all__ = ["pooled_trust", "shrink"]

Floats = NDArray[np.float64]

_GUESS, _SPREAD = 0.7, 1.5
"""λ before anything was measured, for a public sample like the private one; and how sure that is (log units)."""
_REACH = 4.0
"""Log units that θ may move."""
_PASSES = 40


def pooled_trust(groups: Iterable[tuple[Floats, Floats]], sigma: float) -> float:
    """λ of one marginal from its (measured, expected) counts in every group."""
    evidence = sum(trust_evidence(values, expected, sigma**2) for values, expected in groups)
    return most_likely(np.asarray(evidence), _GUESS, _SPREAD)


def shrink(
    rows: Table, weights: Floats, total: float, measurements: Sequence[Measurement], trusts: Sequence[float]
) -> Floats:
    """Weights that sum to 1, bent from `weights` towards the measurements, each trusted as `trusts` says."""
    unbent: Floats = weights / weights.sum()
    if not measurements or total <= 0:
        return unbent
    mass = weights * (total / weights.sum())
    cells = np.stack([cell_numbers(rows, m.marginal) for m in measurements])
    sizes = [len(m.values) for m in measurements]
    starts = np.cumsum([0, *sizes]).astype(np.int64)
    values = np.concatenate([np.minimum(m.values, total) for m in measurements])
    stiff = []
    for m, numbers, trusted in zip(measurements, cells, trusts, strict=True):
        expected = np.bincount(numbers, weights=mass, minlength=len(m.values)).astype(np.float64)
        least = 0.05 * total / len(mass)
        stiff.append(stiffness(np.minimum(m.values, total), expected, m.sigma**2, trusted, least)[0])
    theta = np.zeros(starts[-1])
    # Cells without a row stay empty: the support is what the caller gave.
    stands_out = np.zeros(starts[-1], np.bool_)
    missing, kappa, gaps, held = (np.zeros(len(measurements)) for _ in range(4))
    for _ in range(_PASSES):
        rake(
            cells, mass, starts, values, np.concatenate(stiff), stands_out, theta, np.zeros_like(theta), _REACH,
            float(total), missing, kappa, gaps, held,
        )  # fmt: skip
        if gaps.max() < 2e-4 * total:
            break
    bent: Floats = mass / mass.sum()
    return bent if math.isfinite(float(bent.sum())) else unbent
