"""The multiplicative-weights rounds that PMW^Pub, MWEM and MWEM+PUB share.

They differ in the rows they put weights on, in where the weights start and in how the budget is calibrated; the
round itself is the same: the worst query by a private selection, its answer with noise, A ∝ A·exp(q·(a − q(A))·step),
and, with replay (PMW^Pub §5.3), every earlier measurement again that is still at least half as wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.methods.base import Sizes, Tell
from openprior.methods.shared.loop import select_measure_fit
from openprior.methods.shared.schedule import FIRST, AnnealedPart, Even, Schedule, Share
from openprior.models.support import MultiplicativeWeights
from openprior.privacy.calibrate import exponential_rho
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import CellScores
from openprior.privacy.statistics import CellCount
from openprior.questions.frozen import frozen
from openprior.questions.workload import Marginal

__all__ = ["CANDIDATES", "NOISES", "OUTPUTS", "SELECTIONS", "Rounds", "rounds_if", "run_rounds", "spread"]

SELECTIONS = ("exponential", "permute-and-flip")
NOISES = ("gaussian", "laplace")
OUTPUTS = ("last", "average")
CANDIDATES = ("reachable", "all")
_SURPRISING = 1.5
"""Standard deviations of the noise above which a measurement found something."""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How the rounds go."""

    step: float
    clip: bool
    """Whether noisy answers outside [0, 1] are brought to its nearer end before they are fitted."""
    replay: bool
    output: str
    selection: str
    noise: str
    candidates: str


def run_rounds(
    curator: Curator,
    factors: Sequence[MultiplicativeWeights],
    total: float,
    schedule: Schedule,
    how: Rounds,
    rng: np.random.Generator,
    progress: Tell,
) -> list[NDArray[np.float64]]:
    """Learn the weights of each factor (one, or several over disjoint attributes); returns them in order."""
    cells = Cells(curator.domain, [m for f in factors for m in f.cells.marginals])
    home: dict[Marginal, MultiplicativeWeights] = {m: f for f in factors for m in f.cells.marginals}
    seen: list[tuple[Marginal, int, float]] = []
    sums = [np.zeros(f.rows.n) for f in factors]
    only = frozen(_candidates(factors, how.candidates))  # once, and the vault gathers their counts once
    if not len(only):
        return [f.weights for f in factors]  # one distinct row: there is nothing to learn

    def propose(share: Share) -> CellScores:
        for i, factor in enumerate(factors):
            sums[i] += factor.weights  # A_0, …, A_{T−1}
        answers = factors[0].answers if len(factors) == 1 else np.concatenate([f.answers for f in factors])
        return CellScores(cells, only, answers[only] * total)

    def candidate(index: int) -> CellCount:
        return CellCount(*cells.locate(int(only[index])))

    def fit(measured: Measurement) -> None:
        assert measured.cell is not None
        wrong = measured.values[0] - home[measured.marginal].answer(measured.marginal, measured.cell) * total
        if not schedule.heard(abs(wrong) / measured.sigma >= _SURPRISING):
            return
        answer = float(measured.values[0] / total)
        if how.clip:
            answer = min(max(answer, 0.0), 1.0)
        current = (measured.marginal, measured.cell, answer)
        seen.append(current)
        moves = _replayed(seen, home, rng) if how.replay else [current]
        for factor in factors:
            mine = [move for move in moves if home[move[0]] is factor]
            if mine:
                factor.update(mine, how.step)

    select_measure_fit(
        curator,
        schedule,
        propose,
        candidate,
        fit,
        progress,
        selection=how.selection,
        noise=how.noise,
    )
    return [s / s.sum() for s in sums] if how.output == "average" else [f.weights for f in factors]


def spread(rho: float, rounds: int | None) -> Schedule:
    """Equal rounds if their number is given, else annealed ones."""
    return AnnealedPart(rho) if rounds is None else Even(rho, rounds)


def rounds_if(error: float, sizes: Sizes, rho: float) -> float:
    """About how many annealed rounds there are if some query stays off by so much of the table; for plan.

    Shares double until a selection among all cells can tell such a query from the others, and stay so.
    """
    enough = 2 * exponential_rho(2 * math.log(sizes.cells + 1) / (error * sizes.rows))
    left, share, rounds = rho, FIRST * rho, 0
    while left >= 2 * share and share < enough:
        left, share, rounds = left - share, 2 * share, rounds + 1
    return rounds + max(left / share, 1)


def _candidates(factors: Sequence[MultiplicativeWeights], which: str) -> NDArray[np.intp]:
    """Which cells may be selected: all, or those that some weights can move. Public: it depends on the rows only."""
    if which == "all":
        return np.arange(sum(len(f.cells) for f in factors))
    starts = np.cumsum([0, *(len(f.cells) for f in factors)])
    return np.concatenate([f.reachable() + start for f, start in zip(factors, starts, strict=False)])


def _replayed(
    seen: list[tuple[Marginal, int, float]],
    home: dict[Marginal, MultiplicativeWeights],
    rng: np.random.Generator,
) -> list[tuple[Marginal, int, float]]:
    """The measurements that are at least half as wrong as the newest, in random order; the newest is one."""
    errors = [abs(home[m].answer(m, cell) - answer) for m, cell, answer in seen]
    chosen = [move for move, error in zip(seen, errors, strict=True) if error >= errors[-1] / 2]
    return [chosen[i] for i in rng.permutation(len(chosen))]
