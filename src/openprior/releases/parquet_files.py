"""Parquet files that hold what is in the table and nothing else.

Arrow's writer takes the dictionary of a dictionary array as it is. It reserves room for all of its values, writes those
that differ, and leaves the rest of the page as it found it in memory: where a dictionary names a value twice, a file
would end up with bytes that another object left behind, and in a process that reads private rows these can be private.
So every dictionary is made of different values before it is written. The other encodings that are used here leave no
such room: a test fills fresh memory with one byte and with another, and the files are the same.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parquet_writer", "write_parquet"]


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table."""
    from pyarrow import parquet

    parquet.write_table(_without_doubles(table), path)


@contextlib.contextmanager
def parquet_writer(
    form: "pa.Schema", path: Path, *, small: bool = False
) -> Iterator[Callable[["pa.Table"], None]]:
    """A function that appends tables of this form, one row group each.

    small   for flat tables of millions of numbers: whole numbers as differences, and of doubles the first bytes of all
            together, then the second ones, so that what is alike lies together
    """
    from pyarrow import parquet

    with parquet.ParquetWriter(path, form, **(_small(form) if small else {})) as writer:
        yield lambda table: writer.write_table(_without_doubles(table))


def _small(form: "pa.Schema") -> dict[str, Any]:
    import pyarrow as pa

    ways: dict[str, str] = {}
    for column in form:
        if pa.types.is_floating(column.type):
            ways[column.name] = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(column.type):
            ways[column.name] = "DELTA_BINARY_PACKED"
    words = [name for name in form.names if name not in ways]
    return {"compression": "zstd", "use_dictionary": words, "column_encoding": ways}


def _without_doubles(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    columns = [
        pa.chunked_array([_distinct(chunk) for chunk in column.chunks], column.type)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _distinct(array: Any) -> Any:
    """The same values; every dictionary in it, also inside lists, with different values only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(array.type):
        values = array.values
        inside = _distinct(values)
        if inside is values:
            return array
        offsets = pc.add(
            array.offsets, pa.scalar(0, pa.int32())
        )  # of a slice: Arrow wants them from the beginning
        return pa.ListArray.from_arrays(offsets, inside, array.type, mask=array.is_null())
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_nested(array.type):
            raise TypeError(f"a column of type {array.type} cannot be written to Parquet; use lists")
        return array
    words = array.dictionary.unique()
    if len(words) == len(array.dictionary):
        return array
    places = pc.index_in(array.dictionary, words).take(array.indices)
    return pa.DictionaryArray.from_arrays(
        places.cast(array.type.index_type), words, ordered=array.type.ordered
    )
