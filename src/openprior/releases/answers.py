"""Answers as tables: estimated counts with labels, and 95 % intervals where something honest can be said.

`estimate` is the model's. `basis` says what the other numbers rest on:

- "measured": on measurements of just this cell, or of cells that add up to it, and on nothing else (intervals.py).
  A model shrinks noise, so its estimate may lie outside the interval; about one in twenty does if it is right.
- "model": no measurement tells this cell. The standard error is the model's own (its `standard_errors`), which
  supposes that it is as far off here as where it was measured. That may be wrong, so there is no interval.
- "none": nothing can be said.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.given import several
from openprior.models.base import Model
from openprior.questions.workload import Marginal, Workload, canonical
from openprior.releases.intervals import Known, known_about
from openprior.releases.measurements import Measurements

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.schema.base import Schema

__all__ = ["labelled", "write_answers"]

Floats = NDArray[np.float64]
_Numbers = tuple[NDArray[Any], ...]

_NUMBERS = ("estimate", "standard_error", "low", "high")
_BASES = ("none", "model", "measured")


def labelled(
    model: Model, schema: "Schema", measurements: Measurements, columns: Iterable[str]
) -> "pa.Table":
    """One marginal: one label column each, as asked, then estimate, standard_error, low, high, basis; one row per cell.

    A column that is itself called `estimate` (or `low`, …) comes back as `estimate (column)`.
    """
    import pyarrow as pa

    asked = (columns,) if isinstance(columns, str) else several("the columns", columns, error=WorkloadError)
    marginal = canonical(asked, model.domain)
    sizes = [model.domain[a] for a in marginal]
    place = np.arange(model.domain.size(marginal)).reshape(sizes)
    order = np.ascontiguousarray(place.transpose([marginal.index(a) for a in asked])).reshape(-1)
    sizes = [model.domain[a] for a in asked]
    codes = np.unravel_index(np.arange(model.domain.size(asked)), sizes)
    taken = (*_NUMBERS, "basis")
    table = {
        f"{a} (column)" if a in taken else a: pa.DictionaryArray.from_arrays(
            pa.array(c.astype(np.int32)), pa.array(schema[a].labels)
        ).cast(pa.string())
        for a, c in zip(asked, codes, strict=True)
    }
    (numbers,) = _numbers_of(model, measurements, [marginal])
    return pa.table({**table, **_columns(*(part[order] for part in numbers))})


def write_answers(
    model: Model, schema: "Schema", measurements: Measurements, workload: Workload, path: Path
) -> None:
    """All marginals of the workload in one file: columns, values (their labels), cell, estimate and interval.

    `cell` numbers a marginal's cells in C order: the last column runs fastest, in the order of the schema's labels.
    """
    import pyarrow as pa
    from pyarrow import parquet

    fields = [
        pa.field("marginal", pa.dictionary(pa.int32(), pa.string())),
        pa.field("values", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.field("cell", pa.int64()),
        *(pa.field(name, pa.float64()) for name in _NUMBERS),
        pa.field("basis", pa.dictionary(pa.int8(), pa.string())),
    ]
    names = pa.array([" × ".join(m) for m in workload.marginals])
    words = _Words(schema)
    with parquet.ParquetWriter(path, pa.schema(fields)) as writer:
        for start in range(0, len(workload), _CHUNK):
            chunk = workload.marginals[start : start + _CHUNK]
            numbers = _numbers_of(model, measurements, chunk)
            sizes = [model.domain.size(m) for m in chunk]
            which = np.repeat(np.arange(start, start + len(chunk), dtype=np.int32), sizes)
            table = {
                "marginal": pa.DictionaryArray.from_arrays(pa.array(which), names),
                "values": _values(schema, chunk, words),
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in sizes])),
                **_columns(*(np.concatenate(parts) for parts in zip(*numbers, strict=True))),
            }
            writer.write_table(pa.table(table, schema=pa.schema(fields)))


class _Words:
    """All labels of all columns in one dictionary, and where each column's begin."""

    def __init__(self, schema: "Schema") -> None:
        import pyarrow as pa

        labels: list[str] = []
        self.start: dict[str, int] = {}
        for column in schema.columns:
            self.start[column.name] = len(labels)
            labels += column.labels
        self.dictionary = pa.array(labels, pa.string())


def _values(schema: "Schema", chunk: Iterable[Marginal], words: _Words) -> "pa.Array":
    """The labels of every cell of these marginals."""
    import pyarrow as pa

    indices, lengths = [], []
    for marginal in chunk:
        codes = np.indices([schema[a].size for a in marginal], dtype=np.int32).reshape(len(marginal), -1)
        starts = np.array([words.start[a] for a in marginal], dtype=np.int32)
        indices.append((codes.T + starts).reshape(-1))
        lengths.append(np.full(codes.shape[1], len(marginal), np.int64))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int32)
    flat = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(indices)), words.dictionary)
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


_CHUNK = 512
"""Marginals answered at a time."""


def _numbers_of(model: Model, measurements: Measurements, marginals: Sequence[Marginal]) -> list[_Numbers]:
    """Estimate, standard error, low, high and basis of every cell; nan where there is none."""
    answers, errors = model.answers(marginals), model.standard_errors(marginals)
    return [
        _interval(answers[m], None if errors is None else errors[m], known_about(measurements, m))
        for m in marginals
    ]


def _interval(estimate: Floats, error: Floats | None, known: Known | None) -> _Numbers:
    nothing = np.full(len(estimate), np.nan)
    error = nothing if error is None else error
    basis = np.isfinite(error).astype(np.int8)
    if known is None:
        return estimate, error, nothing, nothing, basis
    is_known = np.isfinite(known.standard_error)
    return (
        estimate,
        np.where(is_known, known.standard_error, error),
        known.low,
        known.high,
        np.where(is_known, np.int8(2), basis),
    )


def _columns(*numbers_and_basis: NDArray[Any]) -> dict[str, Any]:
    import pyarrow as pa

    *numbers, basis = numbers_and_basis
    return {
        **{
            name: pa.array(v, from_pandas=True) for name, v in zip(_NUMBERS, numbers, strict=True)
        },  # nan becomes null
        "basis": pa.DictionaryArray.from_arrays(pa.array(basis), pa.array(_BASES)),
    }
