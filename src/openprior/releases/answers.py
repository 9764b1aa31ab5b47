"""Answers as tables: estimated counts with labels, and 95 % intervals where something honest can be said.

`estimate` is the model's. `basis` says what the other numbers rest on:

- "measured": on measurements of just this cell, or of cells that add up to it, and on nothing else (intervals.py).
  Marginals of which that says less than calibrated bars do, on average, have those instead.
  A model shrinks noise, so its estimate may lie outside the interval; about one in twenty does if it is right. A model
  that only adds measurements up (linear.py) is its own best measurement: its estimate is in the middle.
- "calibrated": on a measurement of how wrong the model is among cells like this one (the room `error_bars`): of all
  cells with estimates of about this size 95 in 100 lie inside; of a single one nothing is promised.
- "model": neither tells this cell. The standard error is the model's own (its `standard_errors`), which
  supposes that it is as far off here as where it was measured. That may be wrong, so there is no interval.
- "none": nothing can be said.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.error_bars.bars import Bars, ErrorBars
from openprior.errors import WorkloadError
from openprior.given import several
from openprior.models.base import Model
from openprior.questions.query_text import split_words, unquoted
from openprior.questions.workload import Marginal, canonical
from openprior.releases.cell_sizes import CellSizes
from openprior.releases.intervals import Known, coarser, known_about, known_by_model, measured_well
from openprior.releases.measurements import Measurements
from openprior.tables.conditions import known_name

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.schema.base import Schema

__all__ = [
    "NUMBERS",
    "asked_columns",
    "headings",
    "known_of",
    "labelled",
    "number_columns",
    "numbers_of",
    "with_interval",
]

Floats = NDArray[np.float64]
_Numbers = tuple[NDArray[Any], ...]

NUMBERS = ("estimate", "standard_error", "low", "high")
_BASES = ("none", "model", "measured", "calibrated", "exact")


def asked_columns(columns: Iterable[str], schema: "Schema") -> tuple[str, ...]:
    """The names that were asked for; in one text they stand between commas, and one with a comma in double quotes.

    >>> from openprior.schema.base import Schema
    >>> asked_columns("age,sex", Schema.from_sizes({"age": 4, "sex": 2}))
    ('age', 'sex')
    """
    if not isinstance(columns, str):
        return several("the columns", columns, error=WorkloadError)
    whole = columns in schema.full_domain
    return (columns,) if whole else tuple(unquoted(word) for word in split_words(columns, ","))


def labelled(
    model: Model,
    schema: "Schema",
    measurements: Measurements,
    columns: Iterable[str],
    bars: ErrorBars | None = None,
) -> "pa.Table":
    """One marginal: one label column each, as asked, then estimate, standard_error, low, high, basis; one row per cell.

    A level of a hierarchy may stand for its column. A column that is itself called `estimate` (or `low`, …) comes back
    as `estimate (column)`.
    """
    import pyarrow as pa

    asked = asked_columns(columns, schema)
    marginal = canonical([known_name(a, schema) for a in asked], schema.full_domain)
    if any(a in schema.levels for a in marginal):
        numbers = _level_numbers(model, schema, measurements, marginal)
    else:
        Cells(model.domain, [marginal])  # refuses what is too large
        (numbers,) = numbers_of(model, measurements, [marginal], bars)
    labels = [schema.levels[a].labels if a in schema.levels else schema[a].labels for a in asked]
    sizes = [len(some) for some in labels]
    place = np.arange(len(numbers[0])).reshape([sizes[asked.index(a)] for a in marginal])
    order = np.ascontiguousarray(place.transpose([marginal.index(a) for a in asked])).reshape(-1)
    codes = np.unravel_index(np.arange(len(order)), sizes)
    names = headings(asked, (*NUMBERS, "basis"))
    table = {
        names[a]: pa.DictionaryArray.from_arrays(pa.array(c.astype(np.int32)), pa.array(some)).cast(
            pa.string()
        )
        for a, c, some in zip(asked, codes, labels, strict=True)
    }
    return pa.table({**table, **number_columns(*(part[order] for part in numbers))})


def _level_numbers(
    model: Model, schema: "Schema", measurements: Measurements, marginal: Marginal
) -> _Numbers:
    """As `numbers_of`, with levels in place of columns. How far off a sum of answers is, only a model says that is off
    by its noise alone."""
    below = {schema.levels[a].column if a in schema.levels else a: a for a in marginal}
    if len(below) < len(marginal):
        raise WorkloadError(
            f"{' × '.join(marginal)} names a column together with a level above it; name one of them"
        )
    (fine,) = Cells(model.domain, [canonical(below, model.domain)]).marginals
    table = model.answers([fine])[fine].reshape([model.domain[a] for a in fine])
    for axis, column in enumerate(fine):
        level = schema.levels.get(below[column])
        if level is not None:
            table = coarser(table, axis, level.codes, len(level.labels))
    names = [below[column] for column in fine]
    estimate = np.ascontiguousarray(table.transpose([names.index(a) for a in marginal])).reshape(-1)
    members = {
        column: np.bincount(schema.levels[name].codes, minlength=len(schema.levels[name].labels)).astype(
            float
        )
        for column, name in below.items()
        if name in schema.levels
    }
    known = known_by_model(model, tuple(below), estimate, members)
    known = known or known_about(measurements, marginal, schema.levels)
    return with_interval(estimate, None, None if known is None else known.among(measurements.rows))


def headings(names: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """What each column is called in a table that has other columns, too; none is lost to another of the same name.

    >>> headings(["low", "age", "low (column)"], ["low"])
    {'low': 'low (column) (column)', 'age': 'age', 'low (column)': 'low (column)'}
    """
    shown = {}
    for name in names:
        word = name
        while word in taken or (word != name and word in names):
            word += " (column)"
        shown[name] = word
    return shown


def numbers_of(
    model: Model, measurements: Measurements, marginals: Sequence[Marginal], bars: ErrorBars | None = None
) -> list[_Numbers]:
    """Estimate, standard error, low, high and basis of every cell; nan where there is none."""
    if bars is not None and all(bars.tells(m) for m in marginals):
        answers, errors = model.answers(marginals), None  # what a model says of its own errors is in the bars
    else:
        answers, errors = model.estimates(marginals)
    sizes = answers if bars is None else CellSizes(model, measurements).of(answers)
    return [
        with_interval(
            answers[m],
            None if errors is None else errors[m],
            known_of(model, measurements, m, answers[m]),
            None
            if bars is None or not bars.tells(m)
            else bars.around(answers[m], len(m), sizes[m]).among(measurements.rows, answers[m]),
        )
        for m in marginals
    ]


def known_of(model: Model, measurements: Measurements, marginal: Marginal, estimate: Floats) -> Known | None:
    """What measurements say about a marginal, by themselves or added up by the model."""
    known = known_by_model(model, marginal, estimate) or known_about(measurements, marginal)
    return None if known is None else known.among(measurements.rows)


def with_interval(
    estimate: Floats, error: Floats | None, known: Known | None, bars: Bars | None = None
) -> _Numbers:
    """The numbers of some cells, from what is known of them: measured, calibrated, by the model alone, or nothing."""
    nothing = np.full(len(estimate), np.nan)
    if bars is None:
        error = nothing if error is None else error
        numbers = error, nothing, nothing, np.isfinite(error).astype(np.int8)
    else:
        numbers = bars.standard_error, bars.low, bars.high, np.full(len(estimate), 3, np.int8)
    if known is None or (bars is not None and not _better(known, bars, estimate)):
        return estimate, *numbers
    is_known = np.isfinite(known.standard_error)
    error, low, high, basis = numbers
    return (
        estimate,
        np.where(is_known, known.standard_error, error),
        np.where(is_known, known.low, low),
        np.where(is_known, known.high, high),
        np.where(is_known, np.int8(2), basis),
    )


def _better(known: Known, bars: Bars, estimate: Floats) -> bool:
    """Whether a marginal has its measured intervals: they are no longer, all in all, or good enough by themselves.

    All cells of a marginal together, as a choice cell by cell would be one by the noise.
    """
    if measured_well(known, estimate):
        return True
    cells = np.isfinite(known.standard_error)
    return float((known.high - known.low)[cells].sum()) <= float((bars.high - bars.low)[cells].sum())


def number_columns(*numbers_and_basis: NDArray[Any]) -> dict[str, Any]:
    import pyarrow as pa

    *numbers, basis = numbers_and_basis
    return {
        **{
            name: pa.array(v, from_pandas=True) for name, v in zip(NUMBERS, numbers, strict=True)
        },  # nan becomes null
        "basis": pa.DictionaryArray.from_arrays(pa.array(basis), pa.array(_BASES)),
    }
