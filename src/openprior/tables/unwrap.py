"""Arrow arrays without their wrapping: chunks, extension types, runs, views and unions.

What is left is one plain array, or a dictionary, or a union, whose members are taken apart here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["buffer", "members", "plain"]


def plain(array: Any) -> pa.Array:
    """One array without wrapping: chunks combined, extension types and views undone, runs made a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        is_truth = array.type.extension_name == "arrow.bool8"
        return plain(array.storage.cast(pa.bool_()) if is_truth else array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _runs(array)
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = pc.cast(array, pa.binary())
    return array


def _runs(array: pa.Array) -> pa.Array:
    """Runs of equal values as a dictionary: Arrow decodes few types, and a long value would be copied many times."""
    first, runs = array.find_physical_offset(), array.find_physical_length()
    ends = array.run_ends.to_numpy()[first : first + runs].astype(np.int64) - array.offset
    lengths = np.diff(np.minimum(ends, len(array)), prepend=0)
    places = pa.array(np.repeat(np.arange(runs), lengths), pa.int64())
    return pa.DictionaryArray.from_arrays(places, array.values[first : first + runs])


def members(array: pa.Array) -> Iterator[tuple[npt.NDArray[np.intp], pa.Array]]:
    """The members of a union, a column whose values have several types: which rows each has, and their values."""
    # By the buffers: of a slice, pyarrow shows the type codes and offsets of the whole.
    kinds = buffer(array, 1, np.int8)
    places = buffer(array, 2, np.int32) if array.type.mode == "dense" else np.arange(len(array))
    for i, code in enumerate(array.type.type_codes):
        rows = np.flatnonzero(kinds == code)
        if rows.size:
            yield rows, plain(array.field(i)).take(pa.array(places[rows]))


def buffer(array: pa.Array, number: int, dtype: npt.DTypeLike, each: int = 1) -> npt.NDArray[Any]:
    """What one of the array's buffers holds for its rows, `each` numbers per row."""
    if not len(array):
        return np.zeros(0, dtype)
    start = array.offset * each * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[number], dtype, len(array) * each, start)
