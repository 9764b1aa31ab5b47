"""Tables in Python's own words: a dict of columns, a list of dicts, a structured array of NumPy, a named Series.

They are read a batch at a time like a frame, and a list's values each by their own type (objects.py), so that what a
value becomes does not depend on the others. What has no names for its columns is refused. Nothing here quotes a name:
a dict may as well be a row, or have persons for its keys.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.errors import SourceError
from openprior.tables.objects import object_array

__all__ = ["Columns", "columns_of"]

Part = Callable[[int, int], pa.Array]
"""The values of a column from one row up to another."""


class Columns:
    """The columns of a table by name, any part of each as Arrow, and how many rows there are."""

    def __init__(self, parts: Mapping[str, Part], rows: int) -> None:
        self.parts, self.rows = parts, rows

    def batches(self, names: list[str], most: int) -> Iterator[pa.RecordBatch]:
        """These columns, at most so many rows at a time."""
        for start in range(0, self.rows, most):
            stop = min(start + most, self.rows)
            yield pa.RecordBatch.from_arrays([self.parts[name](start, stop) for name in names], names=names)


def columns_of(data: object) -> Columns | None:
    """The columns of a dict, a list, an array or a Series; None if it is something else."""
    if isinstance(data, Mapping):
        return _of_mapping(data)
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(data, list | tuple):
        return _of_rows(data)
    if _is_series(data):
        name = data.name  # type: ignore[attr-defined]
        if name is None or name == "":
            raise SourceError("the Series has no name, so its column has none; name it, or give a frame")
        return _of_mapping({str(name): data})
    return None


def _of_mapping(data: Mapping[Any, Any]) -> Columns:
    remedy = "give one list per column, such as {'age': [31, 45], 'sex': ['f', 'm']}"
    if not data:
        raise SourceError(f"the dict has no columns; {remedy}")
    if not all(isinstance(name, str) for name in data):
        raise SourceError(f"the dict has a name that is no text; {remedy}")
    parts = {name: _part_of(values) for name, values in data.items()}
    known = {name: part for name, part in parts.items() if part is not None}
    if len(known) < len(parts):
        raise SourceError(f"the dict has something other than a list in it; {remedy}")
    lengths = {len(values) for values in data.values()}
    if len(lengths) > 1:
        raise SourceError("the dict's columns are not equally long; give each one value per row")
    indices = [values.index for values in data.values() if hasattr(values, "iloc")]
    if not all(index.equals(indices[0]) for index in indices):
        raise SourceError(
            "the dict's Series have other indices, so it is not clear which values are one row; give a DataFrame"
        )
    return Columns(known, lengths.pop())


def _of_array(data: np.ndarray[Any, Any]) -> Columns:
    names = data.dtype.names
    if names is None or data.ndim != 1:
        raise SourceError(
            "the array has no names for its columns; give a frame, such as pandas.DataFrame(array, columns=[…]), or a "
            "dict of columns"
        )
    parts = {name: _part_of(data[name]) for name in names}
    known = {name: part for name, part in parts.items() if part is not None}
    if len(known) < len(parts):
        raise SourceError("the array has several values per row in one field; give each its own field")
    return Columns(known, len(data))


def _of_rows(rows: Sequence[Any]) -> Columns:
    remedy = "give one dict per row, such as [{'age': 31, 'sex': 'f'}, …], all with the same names"
    if not rows:
        raise SourceError(f"the list of rows is empty; {remedy}")
    if any(hasattr(rows[0], sign) for sign in ("__arrow_c_stream__", "iloc")):
        raise SourceError("the list holds tables, and one is asked for; give it without the list")
    if not isinstance(rows[0], Mapping) or not all(isinstance(name, str) for name in rows[0]):
        raise SourceError(f"the list's rows have no names for their values; {remedy}")
    names = tuple(rows[0])

    def part_of(name: str) -> Part:
        def part(start: int, stop: int) -> pa.Array:
            # Looked at when rows are read, and not before: which names a row has may be private.
            some = rows[start:stop]
            if not all(isinstance(row, Mapping) and row.keys() == rows[0].keys() for row in some):
                raise SourceError(
                    f"the list's rows do not all have the same names; {remedy}, and None for no value"
                )
            return object_array([row[name] for row in some])

        return part

    return Columns({name: part_of(name) for name in names}, len(rows))


def _part_of(values: Any) -> Part | None:
    """How to read one column; None if it is none."""
    if isinstance(values, list | tuple):
        return lambda start, stop: object_array(values[start:stop])
    if isinstance(values, np.ndarray):
        return (lambda start, stop: _numpy_array(values[start:stop])) if values.ndim == 1 else None
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return lambda start, stop: _whole(values.slice(start, stop - start))
    if _is_series(values):
        return lambda start, stop: _series_array(values[start:stop])
    return None


def _is_series(values: object) -> bool:
    library = type(values).__module__.partition(".")[0]
    return library in ("pandas", "polars") and type(values).__name__ == "Series"


def _series_array(series: Any) -> pa.Array:
    """As in a frame of its library."""
    from openprior.tables.source import open_source

    frame = series.to_frame("x")
    return next(iter(open_source(frame).batches(["x"]))).column(0)


def _numpy_array(values: np.ndarray[Any, Any]) -> pa.Array:
    """A NumPy column as Arrow: of its own type if Arrow has that, else every value by its own."""
    hidden = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    shown = np.ma.getdata(values)
    if values.dtype != object:
        try:
            return _whole(pa.array(shown, mask=hidden, from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
    kept = shown.tolist() if values.dtype == object else list(shown)
    return object_array(
        kept if hidden is None else [None if gone else v for v, gone in zip(kept, hidden, strict=True)]
    )


def _whole(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
