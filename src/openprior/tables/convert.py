"""Arrow arrays to plain numbers, whatever their type: the one place where text is parsed.

What a value becomes depends on that value and its type alone, never on the other values of its array: every step here
either works element by element, or falls back to single values or smaller and smaller pieces. The rules:

    text      stripped of blanks; bytes are text in UTF-8, and what is not UTF-8 is the replacement character
    numbers   integers of 64 bits are exact, and so are whole decimals and digits in text that fit; any other number is
              the nearest double. NaN is missing everywhere. True is 1. Dates and times are no numbers.
              Text is spelled as the schema's reading says (spelling.py).
    moments   microseconds, finer ones cut off; those that 64 bits cannot hold are the first or the last that they can.
              A text that looks like a date and is none (2018-02-31) is no moment.

What is missing and what cannot be parsed is marked, never raised: the schema decides what becomes of it. All of it is
vectorised; text should come as the distinct values of a dictionary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.bins import DAY
from openprior.schema.columns import is_string
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.spelling import plain_moments, plain_numbers
from openprior.tables.unwrap import buffer, members

__all__ = ["UNREADABLE", "Numbers", "is_text", "moments", "nulls", "numbers", "text"]

UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""What stands for a text that is not UTF-8."""

_INTEGER = r"^[+-]?\d{1,18}$"
_DIGITS = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?|(?i:inf|infinity))$"
# Days and times that there are, and no others: a cast that fails is slow.
_LEAP = r"(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE = (
    r"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?"
_NAIVE = rf"^{_DATE}([ T]{_CLOCK})?$"
_ZONED = rf"^{_DATE}[ T]{_CLOCK}(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)$"
_TIME = rf"^{_CLOCK}$"
_LAST = str(2**63 - 1)
_MICRO = pa.timestamp("us")
_FAR = 2**62 // DAY * DAY
"""The last moment, a whole day: 146,000 years away."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Values with two masks (None where nothing is marked); marked places hold an arbitrary number."""

    values: npt.NDArray[Any]
    null: Mask | None = None
    unparsed: Mask | None = None
    precision: npt.DTypeLike = np.float64
    """The type the values came in, if a narrower float: 0.1 as float32 is not 0.1 as float64."""
    reals: tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]] | None = None
    """Where the values are integers: the places of those that are not, and what is there instead."""

    def merged(self) -> npt.NDArray[Any]:
        """All values in one array: as doubles, unless all are integers."""
        if self.reals is None:
            return self.values
        values = self.values.astype(np.float64)
        values[self.reals[0]] = self.reals[1]
        return values


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is text or bytes."""
    return is_string(kind) or bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def nulls(array: pa.Array) -> Mask | None:
    """Where the array is null; None if nowhere."""
    return _mask(array.is_null()) if array.null_count else None


def text(array: pa.Array) -> pa.Array:
    """The array as stripped text; what is not UTF-8 is `UNREADABLE`, and so is all of a type that has no text."""
    if pa.types.is_union(array.type):
        parts = [(rows, text(part).cast(pa.large_string())) for rows, part in members(array)]
        order = np.argsort(np.concatenate([rows for rows, _ in parts])) if parts else np.zeros(0, np.intp)
        return (
            pa.chunked_array([part for _, part in parts], pa.large_string())
            .take(pa.array(order))
            .combine_chunks()
        )
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    kind = pa.large_string() if large else pa.string()
    if is_text(array.type):
        # By way of bytes: a cast from text to text would take for granted that it is UTF-8.
        words = _decoded(pc.cast(array, pa.large_binary() if large else pa.binary()), kind)
    else:
        try:
            spans = pa.types.is_duration(array.type)  # Arrow spells one as a number, without its unit
            words = pa.nulls(len(array), kind) if spans else pc.cast(array, kind)
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid):
            # It fails for a type, never for a value: one without text, or with a zone that nobody knows.
            words = pa.nulls(len(array), kind)
    if words.null_count > array.null_count:
        words = pc.if_else(array.is_null(), words, pc.fill_null(words, UNREADABLE))
    return pc.ascii_trim_whitespace(words)


def _decoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bytes as text, null where they are not UTF-8."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        return pa.array([_utf8(value) for value in array.to_pylist()], kind)


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def numbers(array: pa.Array, reading: Reading = PLAIN) -> Numbers:
    """The array as numbers; NaN is missing, and so is nothing else that a number could be."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.uint8())
    elif is_text(kind):
        return _parse_numbers(plain_numbers(text(array), reading))
    elif pa.types.is_decimal(kind):
        return _decimals(array)
    elif pa.types.is_null(kind):
        return Numbers(np.zeros(len(array), np.int64), np.ones(len(array), np.bool_))
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _none(array)
    null = nulls(array)
    values = _numpy(array)
    if values.dtype.kind == "f":
        precision, values = values.dtype, values.astype(np.float64, copy=False)
        broken = np.isnan(values)
        if broken.any():
            null = broken if null is None else null | broken
            values = np.where(broken, 0.0, values)
        return Numbers(values, null, precision=precision)
    if values.dtype == np.uint64:
        large = np.flatnonzero(values >= 2**63)
        reals = (large, values[large].astype(np.float64)) if large.size else None
        return Numbers(values.astype(np.int64), null, reals=reals)
    return Numbers(values, null)


def moments(array: pa.Array, reading: Reading = PLAIN, *, time_of_day: bool) -> Numbers:
    """The array as microseconds, since 1970 (UTC where there is a zone) or since midnight."""
    kind = array.type
    if is_text(kind):
        return _parse_moments(plain_moments(text(array), reading, time_of_day=time_of_day), time_of_day)
    if pa.types.is_null(kind):
        return numbers(array)
    if pa.types.is_time(kind) if time_of_day else pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return Numbers(_microseconds(array), nulls(array))
    return _none(array)


def _microseconds(array: pa.Array) -> npt.NDArray[np.int64]:
    kind = array.type
    ticks = _numpy(array.view(pa.int32() if kind.bit_width == 32 else pa.int64())).astype(np.int64)
    unit = "day" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    if unit == "ns":
        return ticks // 1000
    per = {"day": DAY, "s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return np.clip(ticks, -_FAR // per, _FAR // per) * per


def _parse_numbers(words: pa.Array) -> Numbers:
    null = nulls(words)
    words = pc.fill_null(words, "0")
    short = pc.match_substring_regex(words, _INTEGER)
    if _all(short):
        return Numbers(_whole(words), null)
    good = pc.match_substring_regex(words, _NUMBER)
    values = np.zeros(len(words), np.int64)
    if pc.any(short).as_py():
        values[_mask(short)] = _whole(words.filter(short))
    is_real = _mask(pc.and_not(good, short))
    # More than eighteen digits may still be an integer of 64 bits.
    long = _mask(pc.greater(pc.binary_length(words), 18)) & is_real
    if long.any():
        places = np.flatnonzero(long)
        whole = _long_integers(words.take(pa.array(places)))
        found = places[_mask(whole.is_valid())]
        values[found], is_real[found] = _numpy(whole.drop_null()), False
    places = np.flatnonzero(is_real)
    reals = _numpy(_cast_each(pc.utf8_ltrim(words.take(pa.array(places)), "+"), pa.float64()))
    return Numbers(values, null, _unmarked(good), reals=(places, reals) if places.size else None)


def _long_integers(words: pa.Array) -> pa.Array:
    """Those of these numbers that are integers of 64 bits; null for the others."""
    digits = pc.replace_substring_regex(pc.utf8_ltrim(words, "+"), r"^(-?)0+(\d)", r"\1\2")
    fits = pc.and_(pc.match_substring_regex(words, _DIGITS), _fits(digits))
    return _cast_each(pc.if_else(fits, digits, pa.scalar(None, digits.type)), pa.int64())


def _fits(digits: pa.Array) -> pa.Array:
    """Which whole numbers, written without zeros in front, 64 bits hold. The first, −2⁶³, is a double as well."""
    bare = pc.utf8_ltrim(digits, "-")
    length = pc.binary_length(bare)
    return pc.or_(
        pc.less(length, len(_LAST)), pc.and_(pc.equal(length, len(_LAST)), pc.less_equal(bare, _LAST))
    )


def _whole(words: pa.Array) -> npt.NDArray[Any]:
    return _numpy(pc.cast(pc.utf8_ltrim(words, "+"), pa.int64()))


def _decimals(array: pa.Array) -> Numbers:
    """Decimals by their digits, or, where they are few, by one division: it rounds correctly, because an integer below
    2⁵³ and a power of ten up to 10²² are doubles without loss."""
    kind = array.type
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= 22:
        halves = buffer(array, 1, np.int64, each=2)
        low, high = halves[::2], halves[1::2]
        null = nulls(array)
        small = (high == low >> 63) & (kind.scale == 0 or (low < 2**53) & (low > -(2**53)))
        if (small if null is None else small | null).all():
            return Numbers(low.copy() if kind.scale == 0 else low / 10.0**kind.scale, null)
    words = pc.replace_substring_regex(pc.cast(array, pa.string()), r"^([+-]?\d+)\.0*$", r"\1")
    return _parse_numbers(words)


def _parse_moments(words: pa.Array, time_of_day: bool) -> Numbers:
    null = nulls(words)
    # More digits than microseconds have are cut off, not rounded.
    words = pc.replace_substring_regex(pc.fill_null(words, ""), r"(\.\d{6})\d+", r"\1")
    naive = pc.match_substring_regex(words, _TIME if time_of_day else _NAIVE)
    zoned = pc.and_(pc.match_substring_regex(words, _ZONED), not time_of_day)
    whole = words
    if time_of_day:
        epoch, blank = (pa.scalar(word, words.type) for word in ("1970-01-01", " "))
        whole = pc.binary_join_element_wise(epoch, words, blank)
    local = _cast_each(pc.if_else(naive, whole, None), _MICRO)
    world = _cast_each(pc.if_else(zoned, words, None), pa.timestamp("us", "UTC"))
    ticks = pc.coalesce(local.view(pa.int64()), world.view(pa.int64()))
    bad = _mask(ticks.is_null())
    if null is not None:
        bad &= ~null
    values = _numpy(ticks)
    if time_of_day:
        values = values % DAY
    return Numbers(values, null, bad if bad.any() else None)


def _cast_each(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array cast value by value, null where that cannot be: where a cast of many fails, halves are tried. What
    comes here can be cast as far as we know; this is for the rest, as Arrow's error would quote the value."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
        half = len(array) // 2
        return pa.concat_arrays([_cast_each(array[:half], kind), _cast_each(array[half:], kind)])


def _none(array: pa.Array) -> Numbers:
    null = nulls(pc.if_else(pc.is_nan(array), None, array) if pa.types.is_floating(array.type) else array)
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
