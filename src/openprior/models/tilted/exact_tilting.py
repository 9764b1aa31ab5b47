"""Learning without a public table, exactly: a graphical model on a junction tree, as long as its cliques stay small.

Nothing is known but what was measured, so the model of largest entropy that meets it is the start, and it is computed
rather than sampled. A measurement is not met as it came: one-way marginals are read as columns are (column_reading.py),
others as a careful reader would beside what the model expected (raking.py), so that noise in cells that hardly occur
is not learnt. Once a marginal is wanted that would join cliques beyond the limit, particles take over (`over`): the
model becomes their prior, and all that was measured is held while they go on.

Nothing here sees the private table: measurements come in as they were released, so all of it is post-processing.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.models.graphical.estimation import Estimator
from openprior.models.graphical.junction import Structure
from openprior.models.prior.graphical_prior import graphical_prior
from openprior.models.tilted.column_reading import read_column
from openprior.models.tilted.raking import believed
from openprior.models.tilted.remainder import left_after
from openprior.models.tilted.tilting import Tilting
from openprior.models.tilted.trust import UNKNOWN, Trust
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["ExactTilting"]

Floats = NDArray[np.float64]

_STEPS, _LAST_STEPS = 60, 120
"""Of a fit between rounds, and of the last."""
_EFFORT, _ROWS = 2e8, 1 << 18
"""Multiplications that one exact answer may take; others are counted from so many rows."""
_LEAST = 1e-3
"""The smallest mass taken seriously."""


@dataclass
class _Known:
    """A measured marginal: all its measurements merged, and what the model expected before the first."""

    values: Floats
    variance: float
    expected: Floats


class ExactTilting:
    """A graphical model while it is learnt."""

    def __init__(self, domain: Domain, total: float, most_cells: float, rng: np.random.Generator) -> None:
        """`most_cells` is how many cells the cliques may have together."""
        self.domain, self.total = domain, total
        self._most_cells, self._rng = most_cells, rng
        self._trust = Trust(UNKNOWN)
        self._structure = Structure(domain)
        self._estimator = Estimator(domain, total, tolerance=5e-4, max_steps=_STEPS)
        self._known: dict[Marginal, _Known] = {}
        self._met: dict[Marginal, Measurement] = {}
        self._fitted: frozenset[Marginal] = frozenset()
        """What the model has met: of other columns it expects nothing that could be trusted or not."""
        self._model = self._estimator.fit([])

    @property
    def trust(self) -> float:
        """λ: what the model may be trusted with about a marginal not measured yet."""
        return self._trust.value

    def mass(self, marginal: Marginal) -> Floats:
        """What the model expects of one marginal."""
        return self._model.answers([marginal])[marginal]

    def flat(self, cells: Cells) -> Floats:
        """Estimated counts of all cells, in one vector."""
        answers = self._model.approximate_answers(cells.marginals, self._rng, effort=_EFFORT, rows=_ROWS)
        return np.concatenate([answers[m] for m in cells.marginals])

    def left_after(self, answers: Floats, offsets: NDArray[np.int64], sigma: float) -> Floats:
        """What is left of the error of every marginal, by the model's own answers, once it is measured with noise σ."""
        return left_after(answers, offsets, sigma=sigma, trust=self.trust, particle=0.0)

    def has_room(self, marginal: Marginal) -> bool:
        """Whether the cliques stay within the limit with this marginal, or need not grow."""
        return self._structure.cells_with(marginal) <= max(self._most_cells, self._structure.cells)

    def measured(self, measurement: Measurement) -> None:
        """Take a measurement in; `fit` does the rest. Measurements of one marginal are merged by their precision."""
        marginal, values, variance = measurement.marginal, measurement.values, measurement.sigma**2
        known = self._known.get(marginal)
        if len(marginal) > 1 or marginal in self._fitted:
            trusted = self._trust.hear(values, self.mass(marginal), variance)
        if known is not None:
            precision = 1 / known.variance + 1 / variance
            known.values = (known.values / known.variance + values / variance) / precision
            known.variance = 1 / precision
        else:
            known = self._known[marginal] = _Known(values, variance, self.mass(marginal))
        sigma = math.sqrt(known.variance)
        if len(marginal) == 1:
            read = read_column(known.values, sigma, self.total).counts
        else:
            # No cell has more than all rows; what is measured beyond is noise.
            bounded = np.minimum(known.values, self.total)
            read = believed(bounded, known.expected, known.variance, trusted, _LEAST)[0]
        self._met[marginal] = Measurement.of(marginal, read, sigma)
        self._structure = self._structure.with_marginal(marginal)

    def fit(self) -> None:
        """The model of largest entropy that meets what was read, as closely as the noise deserves."""
        self._model = self._estimator.fit(self._met.values(), self._structure)
        self._fitted = frozenset(self._met)

    def over(self, particles: int) -> Tilting:
        """So many particles that go on from here."""
        self._estimator.tolerance, self._estimator.max_steps = 1e-4, _LAST_STEPS
        self.fit()
        prior = graphical_prior(self._model)
        tilting = Tilting(prior, self.domain, self.total, particles, self._rng, self._trust)
        for marginal, mass in self._model.answers(self._met).items():
            tilting.known(marginal, mass, self._met[marginal].sigma ** 2)
        return tilting
