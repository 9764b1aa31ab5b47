"""Noisy numbers of rows of many groups, put right: combined, moved to the known sum, made whole. Post-processing."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openprior.models.rounding import round_to_counts

__all__ = ["refined", "whole", "whole_each"]

Floats = NDArray[np.float64]


def refined(totals: Floats, sigma: float, marginals: Iterable[tuple[Floats, float]]) -> Floats:
    """Numbers of rows from their own measurement and from the sums of marginals that were measured in every group
    (values as [group, cell], and their σ), by precision."""
    if sigma == 0:
        return totals
    weight, weighted = 1 / sigma**2, totals / sigma**2
    for values, noise in marginals:
        precision = 1 / (values.shape[1] * noise**2)
        weight, weighted = weight + precision, weighted + values.sum(axis=1) * precision
    return weighted / weight


def whole(totals: Floats, n: int | None, rng: np.random.Generator) -> Floats:
    """Whole numbers of rows, at least 0; they sum to n where that is public (not None), else to their noisy sum."""
    # Cutting each group at 0 alone would add rows on average; their noisy sum has no such bias.
    rows = max(1, round(float(totals.sum()))) if n is None else n
    return round_to_counts(_to_sum(totals, float(rows)), rows, rng).astype(np.float64)


def whole_each(totals: Floats) -> Floats:
    """Whole numbers of rows, at least 0, each group's by itself (Algorithm 2): what they sum to is not looked at."""
    rounded: Floats = np.rint(np.maximum(totals, 0.0))
    return rounded


def _to_sum(values: Floats, total: float) -> Floats:
    """The nearest numbers ≥ 0 with this sum: all moved alike, and cut at 0."""
    order = np.sort(values)[::-1]
    moves = (total - np.cumsum(order)) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(order + moves > 0)[-1]
    moved: Floats = np.maximum(values + moves[kept], 0.0)
    return moved
