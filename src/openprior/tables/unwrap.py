"""Arrow arrays without their wrapping: chunks, extension types, runs, views and unions.

What is left is one plain array, or a dictionary, or a union, whose members are taken apart here.
"""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["buffer", "members", "plain", "unreadable"]

_LONGEST = 80


def unreadable(kind: pa.DataType) -> str | None:
    """What a plain array of this type holds, with its name and the remedy, if that cannot be read; None if it can."""
    if pa.types.is_dictionary(kind):
        return unreadable(kind.value_type)
    if pa.types.is_union(kind):
        return next((why for i in range(kind.num_fields) if (why := unreadable(kind.field(i).type))), None)
    if pa.types.is_nested(kind):  # fields stay unnamed: records of rows may have values as keys
        return f"several values per row ({str(kind).split('<')[0]}); flatten it"
    name = str(kind) if len(str(kind)) <= _LONGEST else str(kind)[:_LONGEST] + "…"
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return f"spans of time ({name}); store them as numbers, of seconds or days, say"
    return None


def plain(array: Any) -> pa.Array:
    """One array without wrapping: chunks combined, extension types and views undone, runs made a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        if kind.extension_name == "arrow.uuid":
            return _uuids(array.storage)
        is_truth = kind.extension_name == "arrow.bool8"
        return plain(array.storage.cast(pa.bool_()) if is_truth else array.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain(_runs(array))
    if pa.types.is_dictionary(kind) and _is_wrapped(kind.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = pc.cast(array, pa.binary())
        if pa.types.is_string_view(kind):
            # By way of bytes, which checks that it is UTF-8; what is not stays bytes.
            with contextlib.suppress(pa.ArrowInvalid):
                return pc.cast(array, pa.string())
    return array


def _is_wrapped(kind: pa.DataType) -> bool:
    return bool(
        isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
    )


def _uuids(array: pa.Array) -> pa.Array:
    """Sixteen bytes each, as they are written everywhere."""
    words = [None if value is None else str(uuid.UUID(bytes=value)) for value in array.to_pylist()]
    return pa.array(words, pa.string())


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
