"""By what size of its cells the errors of a model go: its estimate, or what the noise of a count above it leaves open.

A noisy count below 0 becomes nothing, and so does every cell below it: an estimate near 0 may stand for as many rows as
the noise of the one-way count hides. So where one-way counts were measured, a cell's size is its estimate and what such
noise would bring it, if it were spread as the other columns are. Models that know their own errors, or have an opinion
of their own (`Model.sizes`), are believed.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.widening import MEAN_TO_SD
from openprior.models.base import Model
from openprior.questions.workload import Marginal
from openprior.releases.intervals import known_about
from openprior.releases.measurements import Measurements

__all__ = ["CellSizes"]

Floats = NDArray[np.float64]


_LOST = 0.25
"""A value is lost in the noise if it has fewer rows than this share of what the noise hides."""
_HIDDEN = 0.1
"""All values of a column together hide no more rows than this share of all."""


class CellSizes:
    """Of one model and what was measured."""

    def __init__(self, model: Model, measurements: Measurements) -> None:
        self._model, self._measurements = model, measurements
        self._ones: dict[str, tuple[Floats, Floats]] = {}

    def of(self, answers: Mapping[Marginal, Floats]) -> Mapping[Marginal, Floats]:
        """Of these marginals, whose answers are given."""
        own = self._model.sizes(answers)
        if own is not answers or self._model.knows_errors:
            return own
        return {m: self._beyond(m, answer) for m, answer in answers.items()}

    def _beyond(self, marginal: Marginal, answer: Floats) -> Floats:
        shape = [self._model.domain[a] for a in marginal]
        open_ = np.zeros(shape)
        ones = [self._one(a) for a in marginal]
        for axis in range(len(marginal)):
            part = np.ones(())
            for other, (share, noise) in enumerate(ones):
                part = np.multiply.outer(part, noise if other == axis else share)
            open_ += part
        sizes: Floats = np.maximum(answer, 0.0) + open_.reshape(-1)
        return sizes

    def _one(self, column: str) -> tuple[Floats, Floats]:
        """The shares of a column's values, and the rows that the noise of each count hides on average."""
        if column not in self._ones:
            answer = np.maximum(self._model.answers([(column,)])[column,], 0.0)
            known = known_about(self._measurements, (column,))
            noise = 0.0 if known is None else np.nan_to_num(known.standard_error / MEAN_TO_SD)
            hidden = np.where(answer < _LOST * noise, noise, 0.0)
            hidden *= min(1.0, _HIDDEN * answer.sum() / max(hidden.sum(), 1e-9))
            self._ones[column] = answer / max(answer.sum(), 1e-9), hidden
        return self._ones[column]
