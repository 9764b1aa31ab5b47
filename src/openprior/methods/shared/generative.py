"""The rounds of GEM (Liu, Vietri & Wu 2021, Algorithm 2), which GEM^Pub shares.

Each round selects what the generator has most wrong, measures it, and takes steps of Adam on all that was measured so
far and is still wrong. *Queries*: one cell of a marginal is selected and measured. *Marginals*: a marginal is selected
by its worst cell, and all its cells are measured. Nothing is selected twice.

What leaves is an exponential average of the weights after the rounds of the last half of the budget; never an iterate
that was chosen by its true error, which would not be private.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from openprior.counting.cells import Cells
from openprior.methods.base import Tell
from openprior.methods.shared.known_answers import KnownAnswers, all_answers
from openprior.methods.shared.loop import select_measure_fit
from openprior.methods.shared.schedule import Even, Share
from openprior.models.generator import GeneratorModel
from openprior.models.neural import Network, Weights, averaged
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.scores import CellScores, Scores, WorstCellScores
from openprior.privacy.statistics import CellCount, Counts
from openprior.questions.workload import Marginal, Workload

__all__ = ["VARIANTS", "WORST", "Training", "finished", "rounds_for", "run_generator"]

VARIANTS = ("marginals", "queries")
WORST = 100
"""Queries that one step looks at."""
_MEMORY = 0.5
"""Of the largest error: how much of it is what it was."""
_KEPT = 0.9
"""Of the average of the weights, in each round."""
_MOST = 150
"""Rounds, where their number is not given."""


@dataclass(frozen=True)
class Training:
    """How a generator is fitted: what is selected, the share α of ε₀ that selects, steps per round and their rate."""

    variant: str
    alpha: float
    steps: int
    rate: float

    @property
    def select(self) -> float:
        """The share of ρ that selects: it costs (αε₀)²/2, and measuring ((1 − α)ε₀)²/2.

        >>> round(Training("queries", 0.67, 100, 1e-4).select, 3)
        0.805
        """
        return self.alpha**2 / (self.alpha**2 + (1 - self.alpha) ** 2)


def rounds_for(sigma: float, rho: float, how: Training, least: int = 1) -> int:
    """As many rounds as leave a cell noise of σ rows: σ² = T/(2ρ·(1 − select)); at most 150.

    Few rounds where there is little budget, many where there is much: no one number serves both. Of the few that were
    tried with a public table on TITANIC and ADULT, 1 and 30 were best at ε = 1, and 20 and 150, the largest, at ε = 10.
    """
    return int(np.clip(2 * rho * (1 - how.select) * sigma**2, least, max(least, _MOST)))


def run_generator(
    curator: Curator, network: Network, cells: Cells, total: float, rho: float, rounds: int, how: Training,
    progress: Tell,
) -> set[Marginal]:  # fmt: skip
    """Run the rounds for ρ in all; the network has the averaged weights then. What was measured."""
    known = KnownAnswers(cells)
    left, only, asked = list(cells.marginals), np.arange(len(cells)), np.zeros(len(cells), np.bool_)
    average: Weights = None
    error, spent = -1.0, 0.0

    def propose(share: Share) -> Scores:
        nonlocal only, spent
        spent += share.rho
        answers = all_answers(network, cells).astype(np.float64) * total
        if how.variant == "queries":
            only = np.flatnonzero(~asked)
            return CellScores(cells, only, answers[only])
        parts = cells.split(answers)
        return WorstCellScores(Cells(cells.domain, left), np.concatenate([parts[m] for m in left]))

    def candidate(index: int) -> CellCount | Counts:
        if how.variant == "queries":
            asked[only[index]] = True
            return CellCount(*cells.locate(int(only[index])))
        return Counts(left.pop(index))

    def fit(measured: Measurement) -> None:
        nonlocal average, error
        which = np.arange(len(measured.values)) if measured.cell is None else np.array([measured.cell])
        known.add(measured.marginal, which, np.clip(measured.values / total, 0.0, 1.0))
        errors = known.errors(network)
        largest = float(errors.max())
        error = largest if error < 0 else _MEMORY * error + (1 - _MEMORY) * largest
        known.fit(network, errors, least=error / 2, rate=how.rate, steps=how.steps, most=WORST)
        if spent >= rho / 2:
            average = network.weights if average is None else averaged(average, network.weights, _KEPT)

    schedule = Even(rho, min(rounds, len(left) if how.variant == "marginals" else len(cells)), how.select)
    select_measure_fit(curator, schedule, propose, candidate, fit, progress)
    network.weights = average
    return known.marginals


def finished(
    network: Network, total: float, workload: Workload, known: Collection[str] | None = None
) -> GeneratorModel:
    """The model that is left of a generator; uniform in columns that nothing is known of, if it is said of which."""
    domain, (shares, values) = network.domain, network.mixture()
    for a, end in zip(domain, np.cumsum(domain.shape), strict=True):
        if known is not None and a not in known:
            values[:, end - domain[a] : end] = 1.0 / domain[a]
    return GeneratorModel(domain, shares, values, total, workload.marginals)
