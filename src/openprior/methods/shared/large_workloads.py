"""Large workloads a part at a time: candidates in turns, and a sample that speaks for all.

Both depend on the marginals, their weights and the domain alone, so they say nothing about the private table.
"""

import numpy as np

from openprior.questions.workload import Marginal, Workload
from openprior.schema.domain import Domain

__all__ = ["in_turns", "some_of"]

_ROUND_CELLS, _MOST_TURNS = 1 << 20, 2
"""Candidates with more cells than this take turns, but each has its turn after so many rounds at the latest."""
_SCREEN_CELLS, _FEWEST_SCREENED = 1 << 19, 64
"""Cells of the marginals that speak for a large workload when priors are compared, and how many marginals at least."""


def in_turns(domain: Domain, marginals: list[Marginal]) -> list[list[Marginal]]:
    """The candidates of one round, of the next, and so on until the first come again: the small ones in each, and of
    the large ones, which have most of the cells, a part. Which ones is public, and so is whose turn it is.
    """
    sizes = [domain.size(m) for m in marginals]
    by_size = np.argsort(sizes, kind="stable")
    small = by_size[np.cumsum(np.array(sizes)[by_size]) <= _ROUND_CELLS / 2]
    large = by_size[len(small) :]
    parts = max(min(-(-sum(sizes) // _ROUND_CELLS), len(large), _MOST_TURNS), 1)
    return [[marginals[i] for i in sorted([*small, *large[part::parts]])] for part in range(parts)]


def some_of(workload: Workload, domain: Domain) -> Workload:
    """A workload; of a large one as many marginals, drawn by its weights whatever the run's seed, as have so many
    cells, and a few at least. They weigh what they did over their chance of being drawn, so that the sample's mean
    is about that of all.

    The k lowest of independent exponential keys with rates w are a draw by weights without replacement; given the next
    key t, each is among them with probability 1 − exp(−w·t).
    """
    sizes, weights = np.array([domain.size(m) for m in workload.marginals]), np.array(workload.weights)
    if sizes.sum() <= _SCREEN_CELLS or len(sizes) <= _FEWEST_SCREENED:
        return workload
    weights /= weights.max()
    keys = np.random.default_rng(0).exponential(size=len(sizes)) / np.maximum(weights, 1e-100)
    order = np.argsort(keys, kind="stable")
    enough = max(int(np.searchsorted(np.cumsum(sizes[order]), _SCREEN_CELLS)), _FEWEST_SCREENED)
    some, beyond = np.sort(order[:enough]), keys[order[enough]]
    chances = -np.expm1(-np.maximum(weights[some], 1e-100) * beyond)
    return Workload([workload.marginals[i] for i in some], list(weights[some] / chances), domain)
