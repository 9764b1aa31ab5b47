"""The answers to 0/1 queries that were measured: in labels, with the model's estimate and the measurement's interval.

The interval rests on the measurement of the query itself, or of sums from which its answer follows by least squares,
and on nothing else, as that of a cell does (intervals.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import MAX_CELLS
from openprior.methods.shared.linear_answers import answers_of
from openprior.models.base import Model
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import QueryAnswers
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.queries import Queries
from openprior.questions.query_labels import in_labels
from openprior.questions.workload import Marginal, canonical
from openprior.releases.answers import with_interval
from openprior.releases.intervals import known_answers
from openprior.releases.measurements import Measurements
from openprior.schema.base import Schema
from openprior.schema.layout import Layout

__all__ = ["AnsweredQueries", "answered_queries"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AnsweredQueries:
    """The queries of one measurement."""

    marginal: Marginal
    texts: list[str]
    """Each query in labels."""
    numbers: tuple[NDArray[Any], ...]
    """Estimate, standard error, low, high and basis."""


def answered_queries(model: Model, schema: Schema, measurements: Measurements) -> list[AnsweredQueries]:
    """Of every measurement of queries, in order."""
    labels = {name: level.labels for name, level in schema.levels.items()}
    labels |= {c.name: c.labels for c in schema.columns}
    layout = Layout(schema.domain, schema.levels)
    answered = []
    for item in measurements:
        if isinstance(item.statistic, QueryAnswers | WeightedSums):
            queries = Queries.parse(item.statistic.text, layout.without(item.part).domain)
            known = known_answers(answers_of(item, queries))
            # A model of sums of measurements knows nothing of these; another one is bent to them.
            linear = model.noise_alone(queries.marginal) is not None
            estimate = known.value if linear else _estimates(model, schema, item, queries)
            numbers = with_interval(estimate, None, known)
            answered.append(AnsweredQueries(queries.marginal, in_labels(queries, labels, item.part), numbers))
    return answered


def _estimates(model: Model, schema: Schema, item: Measurement, queries: Queries) -> Floats:
    """What the model says: sums of its answers, within the part that was asked; nan where these are too many cells."""
    inside = _codes_of_part(schema, item.part)
    fine = canonical({*queries.marginal, *inside}, model.domain)
    if model.domain.size(fine) > MAX_CELLS:
        return np.full(len(queries.members), np.nan)
    table = model.answers([fine])[fine].reshape([model.domain[a] for a in fine])
    for column, marked in inside.items():
        table = table * marked.reshape([-1 if a == column else 1 for a in fine])
    counts = table.sum(axis=tuple(i for i, a in enumerate(fine) if a not in queries.marginal)).reshape(-1)
    return np.array([counts[members].sum() for members in queries.members])


def _codes_of_part(schema: Schema, part: Mapping[str, int]) -> dict[str, NDArray[np.bool_]]:
    """Which codes the columns have in a part, whose keys may be levels above them."""
    inside: dict[str, NDArray[np.bool_]] = {}
    for key, code in part.items():
        level = schema.levels.get(key)
        column = key if level is None else level.column
        codes = np.arange(schema.domain[column]) if level is None else level.codes
        inside[column] = inside.get(column, True) & (codes == code)
    return inside
