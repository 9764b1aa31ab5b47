"""Answers to queries that follow linearly from noisy sums, by least squares, with their exact standard errors.

Of sums y = A·x + noise of one variance, A of full rank, least squares takes x̂ = A⁺·y, and W·x̂ answers the queries W
without bias and with the least variance of all linear ways. The answers are C·y, C = W·A⁺: their covariance is σ²·C·Cᵀ,
whatever the data are. Post-processing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.errors import PrivacyError
from openprior.privacy.measurement import Measurement
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.queries import Queries

__all__ = ["LAPLACE_KURTOSIS", "LinearAnswers", "answers_of", "coefficients", "lumped"]

Floats = NDArray[np.float64]

LAPLACE_KURTOSIS = 3.0


@dataclass(frozen=True, eq=False)
class LinearAnswers:
    """Unbiased answers, in rows."""

    queries: Queries
    values: Floats
    standard_errors: Floats
    kurtosis: Floats
    """How much heavier the tails of each answer's noise are than a Gaussian's: its excess kurtosis."""


def answers_of(measured: Measurement, queries: Queries) -> LinearAnswers:
    """What a measurement says of the queries that it was made for: of these themselves, or of weighted sums."""
    heavy = LAPLACE_KURTOSIS if measured.noise == "laplace" else 0.0
    count = len(queries.members)
    if not isinstance(measured.statistic, WeightedSums):
        return LinearAnswers(queries, measured.values, np.full(count, measured.sigma), np.full(count, heavy))
    c = coefficients(measured.statistic, queries)
    squares = (c * c).sum(axis=1)
    return LinearAnswers(
        queries,
        c @ measured.values,
        measured.sigma * np.sqrt(squares),
        heavy * (c**4).sum(axis=1) / squares**2,
    )


def coefficients(statistic: WeightedSums, queries: Queries) -> Floats:
    """C = W·A⁺ [queries, sums]; raises if the answers do not follow from the sums."""
    matrix = statistic.matrix(queries.members.shape[1])
    cells = lumped(np.vstack([queries.members, matrix]))[0].astype(np.float64)
    asked, strategy = np.split(cells, [len(queries.members)])
    # Columns without a weight of their own are of no query, or cannot be told.
    held = strategy.any(axis=0)
    solved = np.linalg.lstsq(strategy[:, held], np.eye(len(strategy)), rcond=None)[0]
    c: Floats = asked[:, held] @ solved
    if not np.allclose(c @ strategy, asked, rtol=0, atol=1e-6):
        raise PrivacyError(f"the answers to '{queries.text}' do not follow from the sums measured for them")
    return c


def lumped(matrix: NDArray[np.generic]) -> tuple[NDArray[np.generic], NDArray[np.intp]]:
    """The different columns of a matrix, in the order in which they come, and which of them every column is."""
    _, first, which = np.unique(matrix, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    return matrix[:, first[order]], place[which.reshape(-1)]
