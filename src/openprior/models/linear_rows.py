"""Rows for answers that are no distribution: a graphical model fitted to them, and a search where it cannot hold them.

Where the marginals' junction tree is small, the graphical model closest to all answers gives the rows. Where it is not
(all pairs of a hundred columns), the model is fitted to the pairs that depend most, as many as keep it small; then rows
are exchanged for others that it gave, until all marginals are as close to the answers as such exchanges bring them.
Answers may be negative, so the search aims at the nearest counts that are not.
"""

import itertools
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from openprior.models.base import Model
from openprior.models.components import telling
from openprior.models.graphical.estimation import Estimator
from openprior.models.graphical.junction import Structure
from openprior.models.graphical.model import GraphicalModel
from openprior.models.rows import choose_rows
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal
from openprior.tables.table import Table

__all__ = ["RowMaker", "nearest_counts"]

Floats = NDArray[np.float64]

_MOST_CELLS = 1 << 18
"""Of all cliques of the fitted model: a fit then takes seconds."""
_TRIED = 4
"""Pairs per column that are tried beyond those of a spanning tree."""
_STEPS, _TOLERANCE = 150, 1e-3
_EFFORT = 1.5e9
"""Cells looked up while rows are chosen."""
_OFFERS, _FEW_OFFERS = 4, 20_000
"""Rows of the model that are there to choose from: so many for each, and not fewer than."""


class RowMaker:
    """Gives rows whose marginals are close to noisy answers."""

    def __init__(self, answering: Model, marginals: Iterable[Marginal]) -> None:
        """`answering` has the answers, of these marginals and all smaller ones, and their standard errors."""
        self._source, self._marginals = answering, tuple(marginals)
        self._domain, self._total = answering.domain, answering.total
        self._all = Structure(self._domain, self._marginals)

    @property
    def is_whole(self) -> bool:
        """Whether the model is fitted to all answers at once."""
        return self._all.cells <= _MOST_CELLS

    @cached_property
    def model(self) -> GraphicalModel:
        """The graphical model that rows are from."""
        structure, kept = (self._all, self._marginals) if self.is_whole else self._dependent()
        answers, sigmas = self._source.answers(kept), self._sigmas(kept)
        items = [Measurement.of(m, answers[m], sigmas[m]) for m in answers]
        estimator = Estimator(self._domain, self._total, tolerance=_TOLERANCE, max_steps=_STEPS)
        return estimator.fit(items, structure)

    def sample(self, rows: int, rng: np.random.Generator) -> Table:
        """So many rows."""
        if self.is_whole:
            return self.model.sample(rows, rng)
        offers = self.model.sample(max(_OFFERS * rows, _FEW_OFFERS), rng)
        answers = self._source.answers(self._marginals)
        targets = {m: nearest_counts(values, self._total) for m, values in answers.items()}
        return choose_rows(offers, np.ones(offers.n), rows, targets, rng, effort=_EFFORT)

    def _sigmas(self, marginals: Iterable[Marginal]) -> dict[Marginal, float]:
        """The standard error of a cell of each; never 0, which has no precision."""
        errors = self._source.standard_errors(marginals)
        assert errors is not None
        return {m: max(float(error[0]), 1e-6 * self._total) for m, error in errors.items()}

    def _dependent(self) -> tuple[Structure, list[Marginal]]:
        """A spanning forest of the most dependent pairs, then more while the model stays small; and single columns."""
        score = self._dependence()
        order = sorted(score, key=lambda p: -score[p])
        home = {a: a for a in self._domain}
        kept: list[Marginal] = []
        for a, b in order:
            if home[a] != home[b]:
                kept.append((a, b))
                old, new = home[b], home[a]
                home = {k: new if v == old else v for k, v in home.items()}
        structure = Structure(self._domain, kept)
        more = [p for p in order if p not in kept and score[p] > 0]
        for pair in more[: _TRIED * len(self._domain)]:
            if structure.cells_with(pair) <= _MOST_CELLS:
                structure = structure.with_marginal(pair)
                kept.append(pair)
        alone = {a for m in self._marginals for a in m}.difference(*kept)
        return structure, [*kept, *((a,) for a in self._domain if a in alone)]

    def _dependence(self) -> dict[Marginal, float]:
        """Of each pair inside a marginal: how many rows are elsewhere than if the two columns were independent, beyond
        what noise alone would move."""
        pairs = {p for m in self._marginals for p in itertools.combinations(telling(m, self._domain), 2)}
        ordered = sorted(pairs)
        counts, sigmas = self._source.answers(ordered), self._sigmas(ordered)
        singles = self._source.answers({(a,) for p in ordered for a in p})
        shares = {s: nearest_counts(values, self._total) / self._total for s, values in singles.items()}
        score: dict[Marginal, float] = {}
        for a, b in ordered:
            expected = self._total * np.multiply.outer(shares[(a,)], shares[(b,)]).reshape(-1)
            noise = np.sqrt(2 / np.pi) * sigmas[a, b] * len(expected)
            score[a, b] = float(np.abs(counts[a, b] - expected).sum() - noise)
        return score


def nearest_counts(answers: Floats, total: float) -> Floats:
    """The nearest counts that are not negative and have this sum: the projection on a simplex.

    >>> nearest_counts(np.array([5.0, 3.0, -1.0]), 6.0).tolist()
    [4.0, 2.0, 0.0]
    """
    order = np.sort(answers)[::-1]
    excess = (np.cumsum(order) - total) / np.arange(1, len(order) + 1)
    kept = int(np.flatnonzero(order > excess)[-1])
    return np.asarray(np.maximum(answers - excess[kept], 0.0))
