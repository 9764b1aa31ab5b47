"""Where rows come from: anything that streams Arrow batches, behind one small protocol.

`open_source` takes frames (pandas, Polars, Spark), Arrow objects, DuckDB relations, anything with the Arrow stream
protocol, and paths. It knows the columns without reading a row, and reads each pass afresh, a batch at a
time. Nothing it raises quotes a row: the table may be private.
"""

import contextlib
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from openprior.errors import OpenPriorError, SourceError
from openprior.given import shown
from openprior.schema.base import Schema
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.address import is_address
from openprior.tables.objects import object_array
from openprior.tables.python_rows import columns_of

__all__ = ["BATCH_ROWS", "Source", "open_source"]

# Large enough that per-batch overhead vanishes, small enough that a column of a batch stays in cache.
BATCH_ROWS = 131_072

Pass = Callable[[list[str]], Iterable[pa.RecordBatch]]


@runtime_checkable
class Source(Protocol):
    """A table that can be read in passes."""

    @property
    def name(self) -> str:
        """The file's stem, or "table"."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names; no row is read to know them."""
        ...

    @property
    def is_text(self) -> bool:
        """Whether every value is text that is still to be parsed (CSV)."""
        ...

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """One pass over the rows, with these columns in this order (all of them if none are named)."""
        ...


def open_source(data: object, schema: Schema | None = None, *, reading: Reading = PLAIN) -> Source:
    """A source over a frame, an Arrow object, a DuckDB relation, an Arrow stream, a path or the address of a table in a
    database; Spark keeps its rows.

    Files are read as the schema says, or, where there is none yet, as `reading` does. Where a table cannot tell its
    columns without being read (JSON lines), the schema's are taken for granted.
    """
    if is_address(data):
        from openprior.tables.database import open_database

        return open_database(str(data))
    if isinstance(data, str | os.PathLike):
        from openprior.tables.files import open_path

        data = open_path(data, reading if schema is None else schema.reading)
    if hasattr(type(data), "expecting"):
        lazy: Any = data
        source: Source = lazy if schema is None else lazy.expecting(_columns_of(schema))
        return source
    library = type(data).__module__.partition(".")[0].lstrip("_")
    if library == "pyspark" and hasattr(data, "mapInArrow"):
        # By name: the cluster's room is above this one, and is entered only where there is a cluster.
        frame: Source = importlib.import_module("openprior.spark.reading").SparkSource(data)
        return frame
    if hasattr(data, "batches") and isinstance(data, Source):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _memory(data)
    if isinstance(data, pads.Dataset):
        return _Passes(data.schema.names, _dataset_pass(data))
    if isinstance(data, pads.Scanner):
        data = data.to_reader()
    if isinstance(data, pa.RecordBatchReader):
        return _Once(data)
    columns = columns_of(data)
    if columns is not None:
        return _Passes(list(columns.parts), partial(columns.batches, most=BATCH_ROWS), rows=columns.rows)
    foreign = _foreign(data, library)
    if foreign is not None:
        return foreign
    raise SourceError(
        f"cannot read rows from {shown(data)}; give a pandas, Polars, Arrow, DuckDB or Spark table, a dict of columns, "
        "a list of dicts, the path of a file or folder, or a database's address"
    )


def _columns_of(schema: Schema) -> list[str]:
    return [*schema.reads, *([] if schema.person_id is None else [schema.person_id])]


def _foreign(frame: Any, library: str) -> Source | None:
    """A source over what another library made, or None if it has no rows. What is raised on the way goes no further,
    nor as a cause: a stream may quote a row, and a lazy frame its query."""
    try:
        if library == "pandas" and hasattr(frame, "iloc") and hasattr(frame, "columns"):
            frame = _with_index(frame)
            return _Passes([str(c) for c in frame.columns], _pandas_pass(frame), rows=len(frame))
        if library == "polars" and hasattr(frame, "collect_schema"):
            names = frame.collect_schema().names()
            return _Passes(names, _polars_pass(frame), rows=getattr(frame, "height", None))
        if library == "duckdb" and hasattr(frame, "to_arrow_reader"):
            return _Passes(list(frame.columns), _duckdb_pass(frame))
        stream = hasattr(frame, "__arrow_c_stream__")
    except OpenPriorError:
        raise
    except Exception as error:  # noqa: BLE001
        problem = (
            f"the table cannot be opened ({type(error).__name__}); check that {library} itself can read it"
        )
    else:
        return _stream(frame) if stream else None
    raise SourceError(problem)


def _stream(data: Any) -> Source | None:
    """A source over an Arrow stream; None if it is one of values and not of rows, or none at all."""
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except Exception:  # noqa: BLE001  (as above)
        return None
    return _Once(reader)


def select(source_columns: Sequence[str], columns: Sequence[str] | None, name: str) -> list[str]:
    """The columns of a pass, checked against those that the source has."""
    if columns is None:
        return list(source_columns)
    for column in columns:
        if column not in source_columns:
            raise SourceError(f"{name} has no column '{column}'; check its spelling")
    return list(columns)


class _Passes:
    """A source whose every pass calls a function of the columns."""

    is_text = False

    def __init__(
        self, columns: Sequence[str], one_pass: Pass, name: str = "table", rows: int | None = None
    ) -> None:
        for column in columns:
            if columns.count(column) > 1:
                raise SourceError(f"{name} has column '{column}' twice; rename one")
        self.name, self.columns, self._pass = name, tuple(columns), one_pass
        self.known_rows = rows

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return self._read(select(self.columns, columns, self.name))

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        # What others say of a bad value may quote it (a library, or a function that a lazy frame calls), so their words
        # go no further, nor as a cause.
        try:
            yield from self._pass(columns)
        except OpenPriorError:
            raise
        except Exception as error:  # noqa: BLE001
            kind = type(error).__name__
        else:
            return
        raise SourceError(f"{self.name} cannot be read ({kind}); check that it can be read to its end")


class _Once:
    """A stream that can be read only once: kept in memory at the first pass, so that later passes work."""

    is_text = False
    name = "table"

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.columns: tuple[str, ...] = tuple(reader.schema.names)
        _Passes(self.columns, _empty_pass)  # refuses duplicate names
        self._reader = reader
        self._kept: Source | None = None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        if self._kept is None:
            table = None
            # Refused outside the handler, because Python keeps what was being handled: whoever makes the stream may
            # raise anything, and quote a row.
            with contextlib.suppress(Exception):
                table = self._reader.read_all()
            if table is None:
                raise SourceError("the stream of rows broke; it may have been read before, so open it again")
            if not table.num_rows:
                raise SourceError(
                    "the stream has no rows; if it was read before, open it again, because a stream can be read only "
                    "once, or give the table itself"
                )
            self._kept = _memory(table)
        return self._kept.batches(columns)


def _empty_pass(columns: list[str]) -> Iterable[pa.RecordBatch]:
    return ()


def _memory(table: pa.Table) -> Source:
    def one_pass(columns: list[str]) -> Iterable[pa.RecordBatch]:
        chosen = table.select(columns)
        if not columns:
            return ()
        batches: Iterable[pa.RecordBatch] = chosen.to_batches(max_chunksize=BATCH_ROWS)
        return batches

    return _Passes(table.column_names, one_pass, rows=table.num_rows)


def _dataset_pass(dataset: pads.Dataset) -> Pass:
    def one_pass(columns: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from dataset.to_batches(columns=columns, batch_size=BATCH_ROWS)
        except (pa.ArrowException, OSError):
            pass  # refused outside the handler, because Arrow quotes the value that it could not read
        else:
            return
        raise SourceError("a file of the dataset cannot be read; check that all of them are whole")

    return one_pass


def _polars_pass(frame: Any) -> Pass:
    def one_pass(columns: list[str]) -> Iterator[pa.RecordBatch]:
        chosen = frame.select(columns)
        if hasattr(chosen, "collect"):
            chosen = chosen.collect()
        for part in chosen.iter_slices(BATCH_ROWS):
            arrays = [_polars_array(part.get_column(c)) for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return one_pass


def _polars_array(series: Any) -> pa.Array:
    """A Polars column as Arrow. Of objects Polars would give the addresses; of wider integers Arrow has no type."""
    if str(series.dtype) in ("Object", "Int128", "UInt128"):
        return object_array(series.to_list())
    array = series.to_arrow()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _duckdb_pass(relation: Any) -> Pass:
    def one_pass(columns: list[str]) -> Iterable[pa.RecordBatch]:
        quoted = ['"' + c.replace('"', '""') + '"' for c in columns]
        reader: Iterable[pa.RecordBatch] = relation.project(", ".join(quoted)).to_arrow_reader(BATCH_ROWS)
        return reader

    return one_pass


def _with_index(frame: Any) -> Any:
    """An index that has a name is a column like any other."""
    levels = {i: name for i, name in enumerate(frame.index.names) if name is not None}
    if not levels or set(levels.values()) & set(frame.columns):
        return frame
    return frame.reset_index(level=list(levels), allow_duplicates=True)  # which are refused with all others


def _pandas_pass(frame: Any) -> Pass:
    position = {str(column): i for i, column in enumerate(frame.columns)}

    def one_pass(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), BATCH_ROWS):
            part = frame.iloc[start : start + BATCH_ROWS]
            arrays = [_pandas_array(part.iloc[:, position[c]]) for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)

    return one_pass


def _pandas_array(series: Any) -> pa.Array:
    """A pandas column as Arrow. Its type is that of the column, never guessed from the values: where there is none
    (objects, and what Arrow has no type for), every value is read by its own."""
    dtype = series.dtype
    if hasattr(dtype, "categories"):
        return _categories(series)
    if dtype == np.dtype(object) or type(dtype).__name__ in ("PeriodDtype", "IntervalDtype"):
        return object_array(series.to_numpy(object).tolist())
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return object_array(series.to_numpy(object).tolist())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _categories(series: Any) -> pa.Array:
    if len(series.cat.categories) > len(series):
        series = series.cat.remove_unused_categories()  # a batch of a long column
    distinct = _pandas_array(series.cat.categories.to_series())
    if pa.types.is_union(distinct.type):
        return object_array(series.to_numpy(object).tolist())
    codes = series.cat.codes.to_numpy()
    places = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(places, distinct, ordered=bool(series.cat.ordered))
