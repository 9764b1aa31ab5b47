"""Counts by group and value: the table that a mean, a share or a quantile within groups is made from.

Groups are the combinations of some columns, or of levels above them, under conditions on any columns. All of it is the
model's answers to one marginal, added up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.errors import WorkloadError
from openprior.models.base import Flags, Model
from openprior.questions.workload import Marginal, canonical
from openprior.releases.intervals import coarser
from openprior.schema.base import Schema
from openprior.schema.binned import Binned
from openprior.schema.bins import Integer, Real
from openprior.schema.columns import Labelled
from openprior.tables.table import Table

__all__ = ["GroupTable", "group_table", "need_numbers", "numbers_of_codes", "spans_of_codes"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupTable:
    """Estimated rows of every group by the values of some columns."""

    counts: Floats
    """[group, value of the first column, of the second, …]."""
    labels: tuple[Sequence[str], ...]
    """Of every column that makes the groups, its labels; groups are in C order of these."""
    marginal: Marginal
    """The columns that were asked for, with those of the conditions."""


def group_table(
    model: Model,
    schema: Schema,
    by: Sequence[str],
    of: Sequence[str],
    allowed: Mapping[str, Flags],
) -> GroupTable:
    """The rows of every combination of `by` (columns or levels) and of the values of `of`, where `allowed` says so."""
    below = [schema.levels[a].column if a in schema.levels else a for a in by]
    if len({*below, *of}) < len(below) + len(of):
        raise WorkloadError("a column is named twice, or together with a level above it; name it once")
    if not (below or of or allowed):
        return GroupTable(np.array([model.total]), (), ())
    marginal = canonical(dict.fromkeys([*below, *of, *allowed]), schema.domain)
    Cells(model.domain, [marginal])  # refuses what is too large
    table = model.answers([marginal])[marginal].reshape([schema.domain[a] for a in marginal])
    for column, marked in allowed.items():
        table = table * marked.reshape([-1 if a == column else 1 for a in marginal])
    away = tuple(i for i, a in enumerate(marginal) if a not in below and a not in of)
    left = [a for a in marginal if a in below or a in of]
    table = table.sum(axis=away).transpose([left.index(a) for a in (*below, *of)])
    labels: list[Sequence[str]] = []
    for axis, name in enumerate(by):
        level = schema.levels.get(name)
        if level is not None:
            table = coarser(table, axis, np.asarray(level.codes), len(level.labels))
        labels.append(schema[name].labels if level is None else level.labels)
    counts = np.maximum(table, 0.0).reshape((-1, *(schema.domain[a] for a in of)))
    return GroupTable(counts, tuple(labels), marginal)


def need_numbers(name: str, schema: Schema) -> None:
    """Raise unless a column has numbers."""
    column = schema[name]
    if not (isinstance(column, Integer | Real) or (isinstance(column, Labelled) and column.is_numeric)):
        raise WorkloadError(
            f"column '{name}' has no numbers, so there is no mean, sum or quantile of it; ask for a share of its values"
        )


def numbers_of_codes(
    name: str, schema: Schema, codes: Callable[[], Table], values: Callable[[], Floats]
) -> Floats:
    """What number stands for each code of a column; nan where none does (missing, other).

    Inside a bin it is the mean of the released values there, or its middle where no released row is.
    """
    need_numbers(name, schema)
    column = schema[name]
    numbers = np.full(column.size, np.nan)
    if isinstance(column, Labelled):
        numbers[: column.count] = [float(v) for v in column.values]
        return numbers
    first, last = spans_of_codes(name, schema)
    numbers[: column.count] = (first + last) / 2
    if np.array_equal(first, last):
        return numbers
    own, said = codes().column(name), values()
    good = np.isfinite(said)
    rows = np.bincount(own[good], minlength=column.size)
    sums = np.bincount(own[good], said[good], minlength=column.size)
    filled = np.flatnonzero(rows[: column.count])
    numbers[filled] = sums[filled] / rows[filled]
    return numbers


def spans_of_codes(name: str, schema: Schema) -> tuple[Floats, Floats]:
    """The least and the greatest number that each code in order may stand for."""
    column = schema[name]
    if isinstance(column, Labelled):
        values = np.array([float(v) for v in column.values])
        return values, values
    assert isinstance(column, Binned)
    if isinstance(column, Integer) and not column.bins:
        low = float(column.bounds[0])
        own: Floats = low + np.arange(column.count, dtype=np.float64)
        return own, own
    first, last, closed = column.spans
    ends = np.where(closed, last, last - 1) if isinstance(column, Integer) else last
    begin: Floats = np.asarray(first).astype(np.float64)
    end: Floats = np.asarray(ends).astype(np.float64)
    return begin, end
