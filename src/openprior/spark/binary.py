"""Rows of bytes, all of one width, as Arrow's binary values and back."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["from_binary", "to_binary"]


def to_binary(rows: NDArray[Any]) -> pa.Array:
    """An array whose first axis is the rows, as one binary value per row; without a copy where it is contiguous."""
    table = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    n, width = table.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(table)])


def from_binary(array: pa.Array, width: int) -> NDArray[np.uint8]:
    """A binary array whose values all have this width, as rows of bytes [n, width]."""
    fixed = array.cast(pa.binary(width))
    data = np.frombuffer(fixed.buffers()[1] or b"", np.uint8)
    return data[fixed.offset * width : (fixed.offset + len(fixed)) * width].reshape(len(fixed), width)
