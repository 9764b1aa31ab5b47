"""Python objects as Arrow, each by its own type: a pandas column of `object` may hold anything.

pandas and Arrow guess one type for such a column from all of its values, so that one word among numbers would change
what the numbers are. Here every value is read by its own type, and where there are several, the column becomes a union
of them, which `convert.members` takes apart again. What has no Arrow type is read as its text.
"""

import contextlib
import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.schema.columns import INT64
from openprior.tables.convert import UNREADABLE

__all__ = ["object_array"]

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms")
_FAR_YEARS = 200_000
"""Further from 1970 than the last moment (convert.py), and near enough for 64 bits of microseconds."""


def object_array(values: Sequence[Any]) -> pa.Array:
    """One Arrow array of these objects: of their type, or a union of their types; null where one means nothing."""
    if set(map(type, values)) <= {str, type(None)}:
        with contextlib.suppress(UnicodeEncodeError):
            return pa.array(values, pa.string())  # the usual case, by the same rule
    kinds: dict[pa.DataType, int] = {pa.null(): 0}
    held: list[list[Any]] = [[]]
    member = np.zeros(len(values), np.int8)
    place = np.zeros(len(values), np.int32)
    readers: dict[type, Callable[[Any], tuple[pa.DataType, Any]]] = {}
    for row, value in enumerate(values):
        kind = type(value)
        if kind not in readers:
            readers[kind] = _reader(kind)
        try:
            arrow, read = readers[kind](value)
        except Exception:  # noqa: BLE001  (a subclass may raise anything, and must not stop the others)
            arrow, read = pa.string(), UNREADABLE
        if arrow not in kinds:
            kinds[arrow] = len(held)
            held.append([])
        member[row] = number = kinds[arrow]
        place[row] = len(held[number])
        held[number].append(read)
    children = [_array(some, arrow) for arrow, some in zip(kinds, held, strict=True)]
    if len(children) <= 2:
        # Nothing but nulls and one type.
        return children[-1].take(pa.array(place, mask=member == 0)) if len(children) == 2 else children[0]
    return pa.UnionArray.from_dense(pa.array(member), pa.array(place), children)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        ticks = pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64())
        return ticks.view(kind)
    if pa.types.is_floating(kind):
        return pa.array(np.array(values, kind.to_pandas_dtype()))
    return pa.array(values, kind)


def _reader(kind: type) -> Callable[[Any], tuple[pa.DataType, Any]]:
    """How values of a Python type are read: the Arrow type, and what goes into it."""
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return lambda value: (pa.null(), None)
    for types, read in _READERS:
        if issubclass(kind, types):
            return read
    return _spelled


def _text(value: str) -> tuple[pa.DataType, Any]:
    word = str.__str__(value)
    try:
        word.encode()
    except UnicodeEncodeError:
        word = UNREADABLE
    return pa.string(), word


def _whole(value: Any) -> tuple[pa.DataType, Any]:
    number = int(value)
    if number in INT64:
        return pa.int64(), number
    try:
        return pa.float64(), float(number)
    except OverflowError:
        return pa.float64(), math.inf if number > 0 else -math.inf


def _real(value: Any) -> tuple[pa.DataType, Any]:
    if np.isnan(value):
        return pa.null(), None
    if isinstance(value, np.float32 | np.float16):
        return pa.from_numpy_dtype(value.dtype), value
    return pa.float64(), float(value)


def _decimal(value: decimal.Decimal) -> tuple[pa.DataType, Any]:
    if value.is_nan():
        return pa.null(), None
    # Far exponents are no integers of 64 bits, and are not written out to see that.
    if value.is_finite() and value.adjusted() < 20 and value == value.to_integral_value():
        return _whole(int(value))
    return pa.float64(), float(value)


def _moment(value: datetime.datetime) -> tuple[pa.DataType, Any]:
    zone = None if value.utcoffset() is None else "UTC"
    if hasattr(value, "to_datetime64"):
        # Of pandas, whose years are more than Python's.
        return pa.timestamp("us", zone), _numpy_moment(value.to_datetime64())[1]
    span = value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or datetime.timedelta())
    return pa.timestamp("us", zone), span // _MICROSECOND


def _numpy_moment(value: np.datetime64) -> tuple[pa.DataType, Any]:
    if np.isnat(value):
        return pa.null(), None
    if np.datetime_data(value.dtype)[0] in _COARSE:
        year = int(value.astype("datetime64[Y]").astype(np.int64))
        if abs(year) > _FAR_YEARS:
            return pa.timestamp("us"), INT64[-1] if year > 0 else INT64[0]
    return pa.timestamp("us"), int(value.astype("datetime64[us]").astype(np.int64))


def _span(value: np.timedelta64) -> tuple[pa.DataType, Any]:
    return (pa.null(), None) if np.isnat(value) else _spelled(value)


def _time(value: datetime.time) -> tuple[pa.DataType, Any]:
    if value.tzinfo is not None:
        return _spelled(value)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return pa.time64("us"), seconds * 1_000_000 + value.microsecond


def _spelled(value: Any) -> tuple[pa.DataType, Any]:
    return _text(str(value))


_READERS: tuple[tuple[tuple[type, ...], Callable[[Any], tuple[pa.DataType, Any]]], ...] = (
    ((str,), _text),
    ((bytes, bytearray, memoryview), lambda value: (pa.binary(), bytes(value))),
    ((bool, np.bool_), lambda value: (pa.bool_(), bool(value))),
    ((np.timedelta64,), _span),
    ((int, np.integer), _whole),
    ((float, np.floating), _real),
    ((decimal.Decimal,), _decimal),
    ((datetime.datetime,), _moment),
    ((datetime.date,), lambda value: (pa.date32(), (value - _EPOCH.date()).days)),
    ((datetime.time,), _time),
    ((np.datetime64,), _numpy_moment),
)
"""In this order: True is an int, a span of NumPy too, and a datetime a date."""
