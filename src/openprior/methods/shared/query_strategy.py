"""What to measure so that queries can be answered: they themselves, or a strategy from which they follow.

Cells that are in the same queries count as one, and cells in none are left out, which costs nothing and makes the rest
small. Then the queries themselves and the p-Identity strategy (p_identity.py) are compared by the variance of all
answers together. None of this looks at data; it is done for all queries before anything is charged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.methods.shared.linear_answers import LinearAnswers, answers_of, lumped
from openprior.methods.shared.p_identity import p_identity, total_variance
from openprior.privacy.curator import Curator
from openprior.privacy.statistics import QueryAnswers, Statistic
from openprior.privacy.weighted_sums import MAX_ENTRIES, MAX_WEIGHTS, WeightedSums
from openprior.progress import phase
from openprior.questions.frozen import frozen
from openprior.questions.queries import Queries

__all__ = ["QueryPlan", "as_asked", "measure_queries", "plan_queries", "query_strategy"]

_MOST = 2048
"""Different cells, as the time of the search grows with their square, and more."""


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """Groups of queries, and what is measured for each."""

    asked: tuple[Queries, ...]
    statistics: tuple[Statistic, ...]
    noise: str


def as_asked(asked: Sequence[Queries], noise: str) -> QueryPlan:
    """Every group of queries measured itself."""
    return QueryPlan(tuple(asked), tuple(map(QueryAnswers.of, asked)), noise)


def plan_queries(asked: Sequence[Queries], noise: str) -> QueryPlan:
    """What is best measured for each group of queries; refuses what is too large. To be called before any charge."""
    if not asked:
        return QueryPlan((), (), noise)
    with phase("finding strategies for queries", len(asked)) as work:
        statistics = []
        for queries in asked:
            statistics.append(query_strategy(queries, noise))
            work.advance()
    return QueryPlan(tuple(asked), tuple(statistics), noise)


def measure_queries(curator: Curator, plan: QueryPlan, rhos: Sequence[float]) -> list[LinearAnswers]:
    """Answers to each group of queries, for ρ each.

    Privacy: the statistics depend on the queries alone, the curator measures them at their own sensitivity, and least
    squares is post-processing. ∎
    """
    curator.announce([queries.marginal for queries in plan.asked])
    return [
        answers_of(curator.measure(statistic, rho, noise=plan.noise), queries)
        for queries, statistic, rho in zip(plan.asked, plan.statistics, rhos, strict=True)
    ]


def query_strategy(queries: Queries, noise: str) -> Statistic:
    """The statistic that tells the queries with the least variance in all."""
    direct = QueryAnswers.of(queries)
    if queries.overlap == 1:
        return direct  # a row moves one of them by one: nothing tells them better
    cells, which = lumped(queries.members)
    inside = cells.any(axis=0)
    workload = cells[:, inside].astype(np.float64)
    if workload.shape[1] > _MOST:
        raise WorkloadError(
            f"queries '{queries.text}' tell {workload.shape[1]:,} groups of values apart, more than {_MOST:,}; use "
            "coarser bins or fewer queries"
        )
    price = queries.overlap ** (2 if noise == "laplace" else 1)
    place = np.where(inside, np.cumsum(inside) - 1, -1)[which]  # of every cell; -1: in no query
    most = _room(place)
    if most is None:
        return direct
    strategy = _found(cells[:, inside].tobytes(), workload.shape, noise, most)
    if total_variance(strategy, workload, noise=noise) >= len(queries.members) * price:
        return direct
    spread = np.where(place >= 0, strategy[:, place], 0)
    return WeightedSums.of(queries, spread)


@lru_cache(maxsize=16)
def _found(members: bytes, shape: tuple[int, int], noise: str, most: int) -> NDArray[np.int64]:
    """Searched for once: a hierarchy asks the same in every group."""
    workload = np.frombuffer(members, np.bool_).reshape(shape).astype(np.float64)
    return frozen(p_identity(workload, noise=noise, most=most))


def _room(place: NDArray[np.intp]) -> int | None:
    """How many sums over all cells a certificate has room for beside one of every group; None if not for these."""
    cells, at = len(place), np.flatnonzero(place >= 0)
    groups = int(place.max()) + 1
    first, last = np.full(groups, cells), np.zeros(groups, np.int64)
    np.minimum.at(first, place[at], at)
    np.maximum.at(last, place[at], at)
    left = MAX_WEIGHTS - int((last - first + 1).sum())
    if left < 0 or cells > MAX_WEIGHTS or cells * groups > MAX_ENTRIES:
        return None
    return min(left // cells, MAX_ENTRIES // cells - groups)
