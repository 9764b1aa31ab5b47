"""The answers to marginals, and to queries that were measured, as one table, written a part at a time.

In Parquet a cell has its labels in `value_1`, `value_2`, …: that of the marginal's first column, of its second, and so
on. The long form, of CSV, has one column per attribute. A cell leaves those empty that its marginal lacks; a missing
value is no empty field but the label `missing`, and in a CSV an empty text is `""`. Which attributes a row speaks of
says `marginal`. A query has no labels of its own but says them all in `query`.

However many cells there are, no more are held than those of two parts, or of one marginal if that is larger: while one
is written, the next is computed.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from openprior.error_bars.bars import ErrorBars
from openprior.models.base import Model
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.releases.answer_digits import rounded_numbers
from openprior.releases.answers import NUMBERS, headings, number_columns, numbers_of
from openprior.releases.measurements import Measurements
from openprior.releases.parquet_files import parquet_writer
from openprior.releases.query_answers import AnsweredQueries, answered_queries
from openprior.releases.table_files import csv_writer
from openprior.schema.domain import Domain

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.schema.base import Schema

__all__ = ["all_answers", "long_answers", "write_answers"]

_MARGINALS, _CELLS = 1024, 1 << 18
"""In one part: at most so many marginals, and so many cells."""
_OWN = ("marginal", "query", "cell", *NUMBERS, "basis")
"""The columns that are no attributes."""


class _Cells(NamedTuple):
    """Some cells of a marginal, from one number to another, and their numbers."""

    marginal: Marginal
    start: int
    stop: int
    numbers: tuple[NDArray[Any], ...]


def write_answers(
    model: Model,
    schema: "Schema",
    measurements: Measurements,
    marginals: Sequence[Marginal],
    path: Path,
    format: str | None = None,
    bars: ErrorBars | None = None,
) -> None:
    """These marginals and all queries in one file, in the format that its name ends in if not said.

    `cell` numbers a marginal's cells in C order: the last column runs fastest, in the order of the schema's labels.
    Numbers are rounded to what they say (answer_digits.py).
    """
    with phase("writing the answers", len(marginals)) as work:
        if (format or path.suffix.removeprefix(".")) == "csv":
            tables = _long(model, schema, measurements, marginals, bars, rounded=True)
            first = next(tables)
            with csv_writer(first, path) as write:
                for table in (first, *tables):
                    write(table)
            return
        form = _packed_form(max(map(len, marginals), default=0))
        words = _Words(schema)
        with parquet_writer(form, path, small=True) as write:
            for part in _one_ahead(_parts(model, measurements, marginals, bars)):
                write(_packed(form, {**_of_cells(part, rounded=True), **words.values(part)}))
                work.advance(sum(cells.start == 0 for cells in part))
            for answered in answered_queries(model, schema, measurements):
                write(_packed(form, _of_queries(answered)))


def long_answers(
    model: Model,
    schema: "Schema",
    measurements: Measurements,
    marginals: Sequence[Marginal],
    bars: ErrorBars | None = None,
) -> Iterator["pa.Table"]:
    """The same in long form, a part at a time, and not rounded; the first part may have no rows."""
    return _long(model, schema, measurements, marginals, bars, rounded=False)


def all_answers(
    model: Model,
    schema: "Schema",
    measurements: Measurements,
    marginals: Sequence[Marginal],
    bars: ErrorBars | None = None,
) -> "pa.Table":
    """The long form in one piece."""
    import pyarrow as pa

    return pa.concat_tables(long_answers(model, schema, measurements, marginals, bars))


def _long(
    model: Model,
    schema: "Schema",
    measurements: Measurements,
    marginals: Sequence[Marginal],
    bars: ErrorBars | None,
    *,
    rounded: bool,
) -> Iterator["pa.Table"]:
    import pyarrow as pa

    named = {a for m in marginals for a in m}
    attributes = [a for a in schema.names if a in named]
    shown = headings(attributes, _OWN)
    order = ["marginal", *shown.values(), *_OWN[1:]]

    def table(columns: dict[str, Any]) -> "pa.Table":
        made = pa.table({name: columns[name] for name in order})
        return made.set_column(0, "marginal", made["marginal"].cast(pa.string()))

    for part in _parts(model, measurements, marginals, bars):
        labels = {shown[a]: _labels(schema, part, a) for a in attributes}
        yield table({**_of_cells(part, rounded=rounded), **labels})
    for answered in answered_queries(model, schema, measurements):
        nothing = pa.nulls(len(answered.texts), pa.string())
        yield table({**_of_queries(answered), **dict.fromkeys(shown.values(), nothing)})


def _packed_form(columns: int) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("marginal", pa.dictionary(pa.int32(), pa.string())),
            pa.field("query", pa.string()),
            *(pa.field(f"value_{i}", pa.dictionary(pa.int32(), pa.string())) for i in range(1, columns + 1)),
            pa.field("cell", pa.int32()),
            *(pa.field(name, pa.float64()) for name in NUMBERS),
            pa.field("basis", pa.dictionary(pa.int8(), pa.string())),
        ]
    )


def _packed(form: "pa.Schema", columns: dict[str, Any]) -> "pa.Table":
    """A table of this form; what it lacks is empty."""
    import pyarrow as pa

    rows = len(columns["marginal"])
    made = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in form]
    return pa.table(made, schema=form)


def _parts(
    model: Model, measurements: Measurements, marginals: Sequence[Marginal], bars: ErrorBars | None
) -> Iterator[list[_Cells]]:
    """Cells of as many marginals as make a part, or of a piece of one; one part without any if there are none."""
    if not marginals:
        yield []
        return
    for chunk in _chunks(marginals, model.domain):
        numbers = numbers_of(model, measurements, chunk, bars)
        cells = [_Cells(m, 0, len(n[0]), n) for m, n in zip(chunk, numbers, strict=True)]
        if len(chunk) > 1:
            yield cells
            continue
        ((marginal, _, size, own),) = cells
        for start in range(0, size, _CELLS):
            stop = min(start + _CELLS, size)
            yield [_Cells(marginal, start, stop, tuple(n[start:stop] for n in own))]


def _one_ahead(parts: Iterator[list[_Cells]]) -> Iterator[list[_Cells]]:
    """The same parts, each computed while the one before is being written."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, parts, None)
        while (part := following.result()) is not None:
            following = pool.submit(next, parts, None)
            yield part


def _chunks(marginals: Iterable[Marginal], domain: Domain) -> Iterator[list[Marginal]]:
    chunk: list[Marginal] = []
    cells = 0
    for marginal in marginals:
        size = domain.size(marginal)
        if chunk and (len(chunk) == _MARGINALS or cells + size > _CELLS):
            yield chunk
            chunk, cells = [], 0
        chunk.append(marginal)
        cells += size
    yield chunk


def _of_cells(part: Sequence[_Cells], *, rounded: bool) -> dict[str, Any]:
    """What both forms have of marginals: which, the cell, and the numbers."""
    import pyarrow as pa

    sizes = [cells.stop - cells.start for cells in part]
    kinds = (*(np.float64 for _ in NUMBERS), np.int8)
    numbers = tuple(_joined((cells.numbers[i] for cells in part), kind) for i, kind in enumerate(kinds))
    if rounded:
        numbers = rounded_numbers(*numbers)
    return {
        "marginal": _repeated([" × ".join(cells.marginal) for cells in part], sizes),
        "query": pa.nulls(sum(sizes), pa.string()),
        "cell": pa.array(_joined(np.arange(c.start, c.stop, dtype=np.int32) for c in part), pa.int32()),
        **number_columns(*numbers),
    }


def _joined(arrays: Iterable[NDArray[Any]], kind: DTypeLike = np.int32) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *arrays], dtype=kind, casting="same_kind")


def _of_queries(answered: AnsweredQueries) -> dict[str, Any]:
    """What both forms have of queries."""
    import pyarrow as pa

    return {
        "marginal": _repeated([" × ".join(answered.marginal)], [len(answered.texts)]),
        "query": pa.array(answered.texts, pa.string()),
        "cell": pa.nulls(len(answered.texts), pa.int32()),
        **number_columns(*answered.numbers),
    }


def _repeated(words: list[str], times: list[int]) -> "pa.Array":
    import pyarrow as pa

    which = np.repeat(np.arange(len(words), dtype=np.int32), np.array(times, np.intp))
    return pa.DictionaryArray.from_arrays(pa.array(which), pa.array(words, pa.string()))


def _codes(schema: "Schema", cells: _Cells, axis: int) -> NDArray[np.int64]:
    """The code that each of these cells has of a column of their marginal."""
    sizes = [schema[a].size for a in cells.marginal]
    inside = int(np.prod(sizes[axis + 1 :], dtype=np.int64))
    return np.arange(cells.start, cells.stop) // inside % sizes[axis]


def _labels(schema: "Schema", part: Sequence[_Cells], attribute: str) -> "pa.Array":
    """The label of an attribute of every cell; null where its marginal lacks it."""
    import pyarrow as pa

    codes = _joined(
        _codes(schema, cells, cells.marginal.index(attribute))
        if attribute in cells.marginal
        else np.full(cells.stop - cells.start, -1)
        for cells in part
    )
    labels = pa.array(schema[attribute].labels, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels).cast(pa.string())


class _Words:
    """The labels of all columns, each text once, and which of them a column's codes have."""

    def __init__(self, schema: "Schema") -> None:
        self._schema = schema
        number: dict[str, int] = {}
        self._numbers = {
            c.name: np.array([number.setdefault(label, len(number)) for label in c.labels], np.int32)
            for c in schema.columns
        }
        self._texts = list(number)

    def values(self, part: Sequence[_Cells]) -> dict[str, "pa.Array"]:
        """The labels of every cell, of the first column of its marginal, of the second, …; null beyond the last."""
        longest = max((len(cells.marginal) for cells in part), default=0)
        return {f"value_{axis + 1}": self._value(part, axis) for axis in range(longest)}

    def _value(self, part: Sequence[_Cells], axis: int) -> "pa.Array":
        import pyarrow as pa

        numbers = _joined(
            self._numbers[cells.marginal[axis]][_codes(self._schema, cells, axis)]
            if axis < len(cells.marginal)
            else np.full(cells.stop - cells.start, -1, np.int32)
            for cells in part
        )
        used = np.zeros(len(self._texts) + 1, np.bool_)  # the last place is for none
        used[numbers] = True
        place = np.cumsum(used, dtype=np.int32) - 1
        texts = pa.array([self._texts[i] for i in np.flatnonzero(used[:-1])], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(place[numbers], mask=numbers < 0), texts)
