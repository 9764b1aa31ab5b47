"""Noisy numbers of rows of many groups, put right: combined, moved to the known sum, made whole. Post-processing."""

import numpy as np
from numpy.typing import NDArray

from openprior.models.rounding import round_to_counts
from openprior.privacy.curator import Curator

__all__ = ["refined", "whole"]

Floats = NDArray[np.float64]


def refined(totals: Floats, sigma: float, values: list[Floats], sigmas: list[float]) -> Floats:
    """Numbers of rows from their own measurement and the sums of the measured marginals, by precision."""
    if sigma == 0:
        return totals
    weight, summed = 1 / sigma**2, totals / sigma**2
    for found, noise in zip(values, sigmas, strict=True):
        precision = 1 / (found.shape[1] * noise**2)
        weight, summed = weight + precision, summed + found.sum(axis=1) * precision
    return summed / weight


def whole(totals: Floats, curator: Curator, rng: np.random.Generator) -> Floats:
    """Whole numbers of rows, at least 0; they sum to n where that is public, else to their noisy sum."""
    # Cutting each group at 0 alone would add rows on average; their noisy sum has no such bias.
    n = curator.n if curator.unit.n_is_public else max(1, round(float(totals.sum())))
    return round_to_counts(_to_sum(totals, float(n)), n, rng).astype(np.float64)


def _to_sum(values: Floats, total: float) -> Floats:
    """The nearest numbers ≥ 0 with this sum: all moved alike, and cut at 0."""
    order = np.sort(values)[::-1]
    moves = (total - np.cumsum(order)) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(order + moves > 0)[-1]
    moved: Floats = np.maximum(values + moves[kept], 0.0)
    return moved
