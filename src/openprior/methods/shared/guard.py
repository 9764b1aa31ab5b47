"""The guard: a last private look that keeps the better of two sets of answers.

Learning can end further from the truth than where it began: when the public support cannot reach the private table, or
when the noise was larger than what there was to learn. A small share of the budget buys one selection between the
candidates by their mean L1 error over the workload, in place of choosing "the best iterate" by its true error, which
would not be private.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.privacy.calibrate import exponential_epsilon
from openprior.privacy.curator import Curator
from openprior.privacy.flat_scores import TableScore
from openprior.questions.workload import Marginal, Workload

__all__ = ["keep_better"]

Answers = Mapping[Marginal, NDArray[np.float64]]


def keep_better(
    curator: Curator,
    candidates: Sequence[Answers],
    workload: Workload,
    rho: float,
    *,
    favour: float = 1.0,
    others_gain: float = 0.0,
) -> int:
    """The index of the candidate (answers in rows) with the smaller mean L1 error, by the exponential mechanism.

    The first candidate is favoured by a factor e (to the power `favour`), so that a small gain is not thrown away by a
    coin toss; a loss worth guarding against is many times that. `others_gain` is what the others can be expected to
    gain in what follows, in rows of mean L1 error. The bonus depends on ρ and on what is known already.
    """
    cells = Cells(curator.domain, workload.marginals)
    weights = -np.array(workload.weights) / sum(workload.weights)
    bonus = favour * 2 * curator.unit.l1 / exponential_epsilon(rho) - others_gain

    def score(answers: Answers, bonus: float) -> TableScore:
        return TableScore(cells, np.concatenate([answers[m] for m in cells.marginals]), weights, bonus)

    return curator.select([score(a, 0.0 if i else bonus) for i, a in enumerate(candidates)], rho)
