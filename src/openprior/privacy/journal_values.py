"""How outcomes are written in a journal: as strict JSON that comes back exactly, arrays and infinities too."""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from openprior.errors import JournalError

__all__ = ["decode_value", "encode_value"]

_ARRAYS = {"<i8": np.dtype("<i8"), "<f8": np.dtype("<f8")}


def encode_value(path: Path, value: object) -> object:
    """A value as strict JSON; arrays and non-finite floats become one-key objects that begin with '$'."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray):
        dtype = value.dtype.newbyteorder("<").str
        if dtype in _ARRAYS:
            # Level 1: noisy counts are small numbers in wide integers; higher levels gain little.
            data = zlib.compress(value.astype(_ARRAYS[dtype], copy=False).tobytes(), level=1)
            return {"$array": [dtype, list(value.shape), base64.b64encode(data).decode("ascii")]}
        raise JournalError(f"journal '{path}' cannot hold an array of {value.dtype}; use int64 or float64")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise JournalError(f"journal '{path}' cannot hold the key {key!r}; use names without '$'")
        return {key: encode_value(path, item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [encode_value(path, item) for item in value]
    raise JournalError(
        f"journal '{path}' cannot hold a {type(value).__name__}; use numbers, strings, lists and arrays"
    )


def decode_value(value: object) -> object:
    """The value again, exactly; arrays are copies of the caller's own."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if isinstance(value, dict):
        if "$float" in value:
            return float(value["$float"])
        if "$array" in value:
            dtype, shape, data = value["$array"]
            flat = np.frombuffer(zlib.decompress(base64.b64decode(data)), dtype=_ARRAYS[dtype])
            return flat.astype(flat.dtype.newbyteorder("=")).reshape(shape)  # a copy: writable
        return {key: decode_value(item) for key, item in value.items()}
    return value
