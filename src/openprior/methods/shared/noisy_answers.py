"""Noisy answers to marginals and queries, in one of two ways, and the number of rows that they are shares of.

Each by itself, with an even share of the budget; or all marginals by one linear strategy and each group of queries by
another, as HDMM does. Whatever is done with the answers is post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.methods.base import Tell
from openprior.methods.shared.linear_answers import LinearAnswers
from openprior.methods.shared.linear_measuring import measure_linear
from openprior.methods.shared.query_strategy import QueryPlan, measure_queries
from openprior.privacy.curator import Curator
from openprior.privacy.statistics import Counts, Total
from openprior.questions.workload import Marginal, Workload

__all__ = ["NoisyAnswers", "answers_by_strategy", "answers_one_by_one"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoisyAnswers:
    """In rows; unbiased, so some may be negative."""

    total: float
    """The number of rows; at least 1."""
    marginals: dict[Marginal, tuple[Floats, Floats]]
    """Of every marginal: counts, and their standard errors."""
    queries: list[LinearAnswers]


def answers_one_by_one(
    curator: Curator, marginals: Sequence[Marginal], asked: QueryPlan, *, total: float, tell: Tell
) -> NoisyAnswers:
    """Every marginal and every group of queries for the same price; `total`: the share of the number of rows."""
    steps = len(marginals) + len(asked.asked)
    rows, shares = _rows_first(curator, [1.0] * steps, total, asked.noise)
    counts = {}
    tell(0, steps, "measuring")
    for i, m in enumerate(marginals):
        measured = curator.measure(Counts(m), shares[i], noise=asked.noise)
        counts[m] = measured.values, np.full(len(measured.values), measured.sigma)
        tell(i + 1, steps, "measuring")
    queries = measure_queries(curator, asked, shares[len(marginals) :])
    tell(steps, steps, "measuring")
    return NoisyAnswers(rows, counts, queries)


def answers_by_strategy(
    curator: Curator,
    marginals: Sequence[Marginal],
    asked: QueryPlan,
    rng: np.random.Generator,
    *,
    total: float,
) -> NoisyAnswers:
    """All marginals together by the best linear strategy, which tells the number of rows, too, where it is private.

    Shares are as if each were measured by itself. Without marginals `total` is the share of the number of rows.
    """
    others = [1.0] * len(asked.asked)
    if not marginals:
        rows, shares = _rows_first(curator, others, total, asked.noise)
        return NoisyAnswers(rows, {}, measure_queries(curator, asked, shares))
    first, *shares = curator.shares([float(len(marginals)), *others])
    model = measure_linear(curator, Workload(marginals).on(curator.domain), first, rng, noise=asked.noise)
    counts, errors = model.answers(marginals), model.standard_errors(marginals)
    return NoisyAnswers(
        model.total, {m: (counts[m], errors[m]) for m in marginals}, measure_queries(curator, asked, shares)
    )


def _rows_first(
    curator: Curator, weights: Sequence[float], total: float, noise: str
) -> tuple[float, list[float]]:
    """The number of rows, measured where it is private, and what is left for the rest, by weight."""
    if curator.unit.n_is_public:
        return float(curator.n), curator.shares(weights)
    first, *shares = curator.shares([total * sum(weights) / (1 - total), *weights])
    return max(1.0, float(curator.measure(Total(), first, noise=noise).values[0])), shares
