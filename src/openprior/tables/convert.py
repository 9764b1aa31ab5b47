"""Arrow arrays to plain numbers, whatever their type: the one place where text is parsed.

Numbers come as integers or float64, moments as microseconds. What is missing and what cannot be parsed is
marked, never raised: the schema decides what becomes of it. All of it is vectorised; text should come as the
distinct values of a dictionary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.bins import DAY
from openprior.schema.columns import is_string

__all__ = ["Numbers", "moments", "nulls", "numbers", "plain", "text"]

_INTEGER = r"^[+-]?\d{1,18}$"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|(?i:inf|infinity))$"
_NAIVE = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})$"
_TIME = r"^\d{2}:\d{2}(:\d{2}(\.\d+)?)?$"
_MICRO = pa.timestamp("us")

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Values with two masks (None where nothing is marked); marked places hold an arbitrary number."""

    values: npt.NDArray[Any]
    null: Mask | None = None
    unparsed: Mask | None = None
    precision: npt.DTypeLike = np.float64
    """The type the values came in, if a narrower float: 0.1 as float32 is not 0.1 as float64."""


def plain(array: Any) -> pa.Array:
    """One array without wrapping: chunks combined, extension types and run-end encoding undone."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    return array


def nulls(array: pa.Array) -> Mask | None:
    """Where the array is null; None if nowhere."""
    return _mask(array.is_null()) if array.null_count else None


def text(array: pa.Array) -> pa.Array:
    """The array as stripped text; what has no text (broken bytes) is null."""
    if not is_string(array.type):
        try:
            array = pc.cast(array, pa.string())
        except pa.ArrowException:
            array = pa.nulls(len(array), pa.string())
    elif not pa.types.is_string(array.type):
        array = pc.cast(array, pa.string())
    return pc.ascii_trim_whitespace(array)


def numbers(array: pa.Array) -> Numbers:
    """The array as numbers; NaN is missing, and so is nothing else that a number could be."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.uint8())
    elif is_string(kind):
        return _parse_numbers(text(array))
    elif pa.types.is_decimal(kind):
        array = pc.cast(array, pa.float64())
    elif pa.types.is_null(kind):
        return Numbers(np.zeros(len(array), np.int64), np.ones(len(array), np.bool_))
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _none(array)
    null = nulls(array)
    values = _numpy(array)
    precision = values.dtype if values.dtype.kind == "f" else np.float64
    if values.dtype == np.uint64:
        fits = not values.size or values.max() < 2**63
        values = values.astype(np.int64 if fits else np.float64)
    elif values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)
        broken = np.isnan(values)
        if broken.any():
            null = broken if null is None else null | broken
            values = np.where(broken, 0.0, values)
    return Numbers(values, null, precision=precision)


def moments(array: pa.Array, *, time_of_day: bool) -> Numbers:
    """The array as microseconds, since 1970 (UTC where there is a zone) or since midnight."""
    kind = array.type
    if is_string(kind):
        return _parse_moments(text(array), time_of_day)
    if pa.types.is_null(kind):
        return numbers(array)
    if pa.types.is_time(kind) if time_of_day else pa.types.is_date(kind):
        array = pc.cast(array, pa.time64("us") if time_of_day else _MICRO, safe=False)
    elif pa.types.is_timestamp(kind) and not time_of_day:
        array = pc.cast(array, pa.timestamp("us", kind.tz), safe=False)
    else:
        return _none(array)
    return Numbers(_numpy(array.view(pa.int64())), nulls(array))


def _parse_numbers(words: pa.Array) -> Numbers:
    null = nulls(words)
    words = pc.fill_null(words, "0")
    if _all(pc.match_substring_regex(words, _INTEGER)):
        return Numbers(_numpy(pc.cast(pc.utf8_ltrim(words, "+"), pa.int64())), null)
    good = pc.match_substring_regex(words, _NUMBER)
    parsed = pc.cast(pc.utf8_ltrim(pc.if_else(good, words, "0"), "+"), pa.float64())
    return Numbers(_numpy(parsed), null, _unmarked(good))


def _parse_moments(words: pa.Array, time_of_day: bool) -> Numbers:
    null = nulls(words)
    # More digits than microseconds have are cut off, not rounded.
    words = pc.replace_substring_regex(pc.fill_null(words, ""), r"(\.\d{6})\d+", r"\1")
    naive = pc.match_substring_regex(words, _TIME if time_of_day else _NAIVE)
    zoned = pc.and_(pc.match_substring_regex(words, _ZONED), not time_of_day)
    whole = pc.binary_join_element_wise("1970-01-01", words, " ") if time_of_day else words
    local = _cast_moments(pc.if_else(naive, whole, None), _MICRO)
    world = _cast_moments(pc.if_else(zoned, words, None), pa.timestamp("us", "UTC"))
    ticks = pc.coalesce(local.view(pa.int64()), world.view(pa.int64()))
    bad = _mask(ticks.is_null())
    if null is not None:
        bad &= ~null
    values = _numpy(ticks)
    if time_of_day:
        values = values % DAY
    return Numbers(values, null, bad if bad.any() else None)


def _cast_moments(words: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(words, kind)
    except pa.ArrowInvalid:
        # Some text only looks like a date (2018-02-31); no cast gives null for it, so one by one.
        return pa.array([_moment(word, kind) for word in words], kind)


def _moment(word: pa.Scalar, kind: pa.DataType) -> Any:
    try:
        return pc.cast(word, kind).as_py()
    except (pa.ArrowInvalid, ValueError, OverflowError):
        return None


def _none(array: pa.Array) -> Numbers:
    null = nulls(array)
    bad = np.ones(len(array), np.bool_) if null is None else ~null
    return Numbers(np.zeros(len(array), np.int64), null, bad)


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Without a copy where nothing is null."""
    if array.null_count:
        array = pc.fill_null(array, 0)
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False).astype(np.bool_, copy=True)
    return mask


def _all(array: pa.Array) -> bool:
    return len(array) == 0 or bool(pc.all(array).as_py())


def _unmarked(good: pa.Array) -> Mask | None:
    return None if _all(good) else ~_mask(good)
