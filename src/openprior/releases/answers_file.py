"""The answers to a whole workload, and to queries that were measured, as one table.

In Parquet a cell has the list of its labels. The long form, of CSV, has one column per attribute. A cell leaves those
empty that its marginal lacks; a missing value is no empty field there but the label `missing`, and an empty text is
`""`. Which attributes a row speaks of says `marginal`. A query has no labels of its own but says them all in `query`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openprior.models.base import Model
from openprior.questions.workload import Marginal, Workload
from openprior.releases.answers import NUMBERS, headings, number_columns, numbers_of
from openprior.releases.measurements import Measurements
from openprior.releases.parquet_files import parquet_writer
from openprior.releases.query_answers import AnsweredQueries, answered_queries
from openprior.releases.table_files import csv_writer

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.schema.base import Schema

__all__ = ["all_answers", "long_answers", "write_answers"]

_MARGINALS, _CELLS = 512, 2_000_000
"""Answered at a time: at most so many marginals, and so many cells unless a single marginal has more."""


def write_answers(
    model: Model, schema: "Schema", measurements: Measurements, workload: Workload, path: Path
) -> None:
    """All marginals of the workload and all queries in one file: columns, labels, cell, estimate and interval.

    `cell` numbers a marginal's cells in C order: the last column runs fastest, in the order of the schema's labels.
    """
    import pyarrow as pa

    if path.suffix == ".csv":
        tables = long_answers(model, schema, measurements, workload)
        first = next(tables)
        with csv_writer(first, path) as write:
            for table in (first, *tables):
                write(table)
        return
    form = _packed_form()
    words = _Words(schema)
    with parquet_writer(form, path) as write:
        for chunk in _chunks(workload, model):
            columns = {**_of_cells(model, measurements, chunk), "values": _values(schema, chunk, words)}
            write(pa.table({name: columns[name] for name in form.names}, schema=form))
        for answered in answered_queries(model, schema, measurements):
            columns = {
                **_of_queries(answered),
                "values": pa.nulls(len(answered.texts), form.field("values").type),
            }
            write(pa.table({name: columns[name] for name in form.names}, schema=form))


def long_answers(
    model: Model, schema: "Schema", measurements: Measurements, workload: Workload
) -> Iterator["pa.Table"]:
    """The same in long form, a part at a time."""
    import pyarrow as pa

    named = {a for m in workload.marginals for a in m}
    attributes = [a for a in schema.names if a in named]
    shown = headings(attributes, _OWN)
    order = ["marginal", *shown.values(), *_OWN[1:]]

    def table(columns: dict[str, Any]) -> "pa.Table":
        made = pa.table({name: columns[name] for name in order})
        return made.set_column(0, "marginal", made["marginal"].cast(pa.string()))

    for chunk in _chunks(workload, model):
        labels = {
            shown[a]: pa.DictionaryArray.from_arrays(
                _codes(schema, chunk, a), pa.array(schema[a].labels, pa.string())
            ).cast(pa.string())
            for a in attributes
        }
        yield table({**_of_cells(model, measurements, chunk), **labels})
    for answered in answered_queries(model, schema, measurements):
        nothing = pa.nulls(len(answered.texts), pa.string())
        yield table({**_of_queries(answered), **dict.fromkeys(shown.values(), nothing)})


def all_answers(model: Model, schema: "Schema", measurements: Measurements, workload: Workload) -> "pa.Table":
    """The long form in one piece."""
    import pyarrow as pa

    return pa.concat_tables(long_answers(model, schema, measurements, workload))


_OWN = ("marginal", "query", "cell", *NUMBERS, "basis")
"""The columns that are no attributes."""


def _packed_form() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("marginal", pa.dictionary(pa.int32(), pa.string())),
            pa.field("query", pa.string()),
            pa.field("values", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            pa.field("cell", pa.int64()),
            *(pa.field(name, pa.float64()) for name in NUMBERS),
            pa.field("basis", pa.dictionary(pa.int8(), pa.string())),
        ]
    )


def _chunks(workload: Workload, model: Model) -> Iterator[list[Marginal]]:
    chunk: list[Marginal] = []
    cells = 0
    for marginal in workload.marginals:
        size = model.domain.size(marginal)
        if chunk and (len(chunk) == _MARGINALS or cells + size > _CELLS):
            yield chunk
            chunk, cells = [], 0
        chunk.append(marginal)
        cells += size
    yield chunk


def _of_cells(model: Model, measurements: Measurements, chunk: list[Marginal]) -> dict[str, Any]:
    """What both forms have of marginals: which, the cell, and the numbers."""
    import pyarrow as pa

    numbers = numbers_of(model, measurements, chunk)
    sizes = [model.domain.size(m) for m in chunk]
    return {
        "marginal": _repeated([" × ".join(m) for m in chunk], sizes),
        "query": pa.nulls(sum(sizes), pa.string()),
        "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in sizes])),
        **number_columns(*(np.concatenate(parts) for parts in zip(*numbers, strict=True))),
    }


def _of_queries(answered: AnsweredQueries) -> dict[str, Any]:
    """What both forms have of queries."""
    import pyarrow as pa

    return {
        "marginal": _repeated([" × ".join(answered.marginal)], [len(answered.texts)]),
        "query": pa.array(answered.texts, pa.string()),
        "cell": pa.nulls(len(answered.texts), pa.int64()),
        **number_columns(*answered.numbers),
    }


def _repeated(words: list[str], times: list[int]) -> "pa.Array":
    import pyarrow as pa

    which = np.repeat(np.arange(len(words), dtype=np.int32), times)
    return pa.DictionaryArray.from_arrays(pa.array(which), pa.array(words, pa.string()))


def _codes(schema: "Schema", chunk: list[Marginal], attribute: str) -> "pa.Array":
    """The codes of one attribute in every cell; null in marginals that lack it."""
    import pyarrow as pa

    parts = []
    for marginal in chunk:
        sizes = [schema[a].size for a in marginal]
        if attribute in marginal:
            axis = marginal.index(attribute)
            shape = [size if i == axis else 1 for i, size in enumerate(sizes)]
            codes = np.arange(sizes[axis], dtype=np.int32).reshape(shape)
            parts.append(np.broadcast_to(codes, sizes).reshape(-1))
        else:
            parts.append(np.full(int(np.prod(sizes)), -1, np.int32))
    codes = np.concatenate(parts)
    return pa.array(codes, mask=codes < 0)


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
