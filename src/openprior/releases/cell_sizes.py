"""By what size of its cells the errors of a model go: its estimate, or what the noise of a count above it leaves open.

A noisy count below 0 becomes nothing, and so does every cell below it: an estimate near 0 may stand for as many rows as
the noise of the count hides. So a cell's size is its estimate and what such noise would bring it. What the noise of a
one-way count hides is spread as the other columns are; what that of a larger table hides in a cell is no more than the
cell would have if its columns had nothing to do with one another. Models that know their own errors, or have an opinion
of their own (`Model.sizes`), are believed.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.widening import MEAN_TO_SD
from openprior.models.base import Model
from openprior.privacy.merged_counts import MergedCounts
from openprior.privacy.merging import Merging
from openprior.questions.workload import Marginal
from openprior.releases.intervals import known_about
from openprior.releases.measurements import Measurements

__all__ = ["CellSizes"]

Floats = NDArray[np.float64]


_LOST = 0.25
"""A count is lost in the noise if it has fewer rows than this share of what the noise hides."""
_HIDDEN = 0.1
"""All counts of a table together hide no more rows than this share of all."""


class CellSizes:
    """Of one model and what was measured."""

    def __init__(self, model: Model, measurements: Measurements) -> None:
        self._model, self._measurements = model, measurements
        self._ones: dict[str, tuple[Floats, Floats]] = {}
        self._tables: dict[Marginal, Floats] = {}

    def of(self, answers: Mapping[Marginal, Floats]) -> Mapping[Marginal, Floats]:
        """Of these marginals, whose answers are given."""
        own = self._model.sizes(answers)
        if own is not answers or self._model.knows_errors:
            return own
        return {m: self._beyond(m, answer) for m, answer in answers.items()}

    def _beyond(self, marginal: Marginal, answer: Floats) -> Floats:
        shares = [self._one(a)[0] for a in marginal]
        open_ = np.zeros([self._model.domain[a] for a in marginal])
        for axis, a in enumerate(marginal):
            open_ += _outer([*shares[:axis], self._one(a)[1], *shares[axis + 1 :]])
        inside = frozenset(marginal)
        for columns in self._counted:
            if inside.issuperset(columns):
                hidden = self._table(columns)
                others = [np.ones(1) if a in columns else s for a, s in zip(marginal, shares, strict=True)]
                sizes = [self._model.domain[a] if a in columns else 1 for a in marginal]
                open_ += hidden.reshape(sizes) * _outer(others)
        beyond: Floats = np.maximum(answer, 0.0) + open_.reshape(-1)
        return beyond

    def _one(self, column: str) -> tuple[Floats, Floats]:
        """The shares of a column's values, and the rows that the noise of each count hides on average."""
        if column not in self._ones:
            answer = np.maximum(self._model.answers([(column,)])[column,], 0.0)
            known = known_about(self._measurements, (column,))
            noise = 0.0 if known is None else np.nan_to_num(known.standard_error / MEAN_TO_SD)
            hidden = np.where(answer < _LOST * noise, noise, 0.0)
            self._ones[column] = answer / max(answer.sum(), 1e-9), _bounded(hidden, answer)
        return self._ones[column]

    def _table(self, columns: Marginal) -> Floats:
        """The rows that the noise of the counts of several columns hides in each cell, on average."""
        if columns not in self._tables:
            answer = np.maximum(self._model.answers([columns])[columns], 0.0)
            unrelated = answer.sum() * _outer([self._one(a)[0] for a in columns])
            hidden = np.zeros(unrelated.shape)
            for merging, precision in self._counted[columns].items():
                noise, expected = 1 / (np.sqrt(precision) * MEAN_TO_SD), merging(unrelated.reshape(-1))
                lost = merging(answer) < _LOST * noise
                part = np.where(lost, np.minimum(noise / np.maximum(expected, 1e-9), 1.0), 0.0)
                hidden += unrelated * part.reshape(merging.shape)[np.ix_(*merging.groups)]
            self._tables[columns] = _bounded(hidden.reshape(-1), answer)
        return self._tables[columns]

    @cached_property
    def _counted(self) -> dict[Marginal, dict[Merging, float]]:
        """The tables of several columns that were counted whole, by the values that were merged, and how precisely."""
        domain, found = self._model.domain, dict[Marginal, dict[Merging, float]]()
        for item in self._measurements:
            for piece in item.pieces(self._measurements.domain):
                if isinstance(piece.statistic, MergedCounts):
                    columns, fixed, merging = piece.marginal, piece.part, piece.statistic.merging
                else:
                    columns, fixed = piece.cells(self._measurements.domain) or ((), {})
                    merging = None
                if len(columns) < 2 or fixed or not all(a in domain for a in columns):
                    continue
                if merging is None:
                    merging = Merging(tuple(tuple(range(domain[a])) for a in columns))
                own = found.setdefault(columns, {})
                own[merging] = own.get(merging, 0.0) + piece.sigma**-2
        return found


def _outer(shares: list[Floats]) -> Floats:
    """Their products, one axis for each."""
    product = np.ones(())
    for share in shares:
        product = np.multiply.outer(product, share)
    return product


def _bounded(hidden: Floats, answer: Floats) -> Floats:
    """Of all rows, at most the share that a table hides."""
    return hidden * min(1.0, _HIDDEN * float(answer.sum()) / max(float(hidden.sum()), 1e-9))
