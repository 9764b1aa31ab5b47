"""The guard: a last private look that keeps the better of two sets of answers.

Learning can end further from the truth than where it began: when the public support cannot reach the private table, or
when the noise was larger than what there was to learn. A small share of the budget buys one selection between the
candidates by their mean L1 error over the workload, in place of choosing "the best iterate" by its true error, which
would not be private.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.privacy.curator import Curator
from openprior.privacy.scores import L1Score, SumScore
from openprior.workload import Marginal, Workload

__all__ = ["keep_better"]

Answers = Mapping[Marginal, NDArray[np.float64]]


def keep_better(curator: Curator, candidates: Sequence[Answers], workload: Workload, rho: float) -> int:
    """The index of the candidate (answers in rows) with the smaller mean L1 error, by the exponential mechanism."""
    scale = sum(workload.weights)
    scores = [
        SumScore(
            tuple(
                L1Score(m, ((1.0, answers[m]),), weight=-w / scale)
                for m, w in zip(workload.marginals, workload.weights, strict=True)
            )
        )
        for answers in candidates
    ]
    return curator.select(scores, rho)
