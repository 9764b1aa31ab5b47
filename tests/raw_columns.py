"""Random columns as they come: every kind of column, every type of input, with the values where things go wrong."""

import datetime
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.base import Schema
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Ordered
from openprior.schema.reading_rules import Reading
from openprior.tables.objects import object_array
from tests import value_rule as rule
from tests.value_rule import Read

WORDS = (
    *(
        "1.234,5",
        "1,234.5",
        "1.234.567",
        "12.34",
        "1.5",
        "1,5",
        "-1,25e2",
        "7,",
        ",5",
        "1 234",
        "1\u202f234,5",
        "1.23,4",
    ),
    *(
        "30.06.2018",
        "1.7.2018",
        "31.02.2018",
        "29.2.2016",
        "30.6.18",
        "30.6.69",
        "30.6.68",
        "30 Jun 2018",
        "31 jun 2018",
        "20180630",
        "2018630",
    ),
    *("6/30/2018 7:30", "06/30/2018 24:00", "7:30 pm", "12:05 AM", "13:05 am", "-9", "k.A."),
    *(
        "2018-06-30T07:30:00.5+0200",
        "2018-06-30T07:30:00.5Z",
        "2018-06-30T07:30:00.5z",
        "2018-06-30T07:30:61.5Z",
    ),
    *(
        "",
        "NA",
        "N",
        " 7",
        "7",
        "7.0",
        "+7",
        "007",
        "-0",
        "-0.0",
        "0",
        "1",
        "1e3",
        "1E-2",
        "1e9999",
        ".5",
        "5.",
        "2.5",
    ),
    *(
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "true",
        "True",
        "FALSE",
        "no",
        "Yes",
        "a",
        "A ",
        "b",
        "é",
        "\ufffd",
        "٣",
    ),
    *(str(2**53 + k) for k in (-1, 0, 1)),
    *(str(s * 2**63 + k) for s in (-1, 1) for k in (-1, 0, 1)),
    *("123456789012345678901234567890", "0000000000000000000000000000007", f"0{2**53 + 1}", "9" * 400),
    *(
        "0000-01-01",
        "0000-02-29",
        "0001-01-01",
        "1899-12-31",
        "1900-02-29",
        "1970-01-01",
        "2016-02-29",
        "2018-02-29",
    ),
    *(
        "2018-02-31",
        "2018-06-30",
        "9999-12-31",
        "10000-01-01",
        "2018-6-1",
        "2018-06-30 12:34",
        "2018-06-30T12:34:56",
    ),
    *(
        "2018-06-30 12:34:56.1234567",
        "1969-12-31 23:59:59.9999999",
        "2018-06-30 24:00",
        "2018-06-30 23:59:60",
    ),
    *("2018-06-30 12:34Z", "2018-06-30T12:34:56.5+05:30", "2018-06-30 00:00-0800", "2018-06-30 12:34+24:00"),
    *("00:00", "07:30", "23:59:59.999999", "24:00", "12:60", "7:30"),
)
BYTES = (*(word.encode() for word in WORDS), b"\xff", b"a\xffb", b"\xed\xa0\x80", b"7\xff", b"a\x00", b"\x00")
INTEGERS = (
    *(-1, 0, 1, 2, 3, 6, 7, 8, 18, 99, 100, 127, -128, 255, 1000, 32767, 65535, -(2**31), 2**31, 2**32),
)
INTEGERS += (
    *(s * 2**53 + k for s in (-1, 1) for k in (-1, 0, 1)),
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
)
FLOATS = (
    *(0.0, -0.0, 0.1, 0.5, 0.25, 1.0, 2.5, 6.999999, 7.0, 7.5, 18.0, 99.0, 99.5, 100.0, -1.0, 1e3, 1e-300),
)
FLOATS += (
    float(2**53 - 1),
    float(2**53),
    float(2**53 + 2),
    2.0**63,
    -(2.0**63),
    1e300,
    math.nan,
    math.inf,
    -math.inf,
)
DECIMALS = (
    "0",
    "7",
    "7.00",
    "0.1",
    "0.10",
    "2.5",
    "-0.01",
    "99.99",
    "1000",
    "-1",
    str(2**53 + 1),
    f"{2**53 + 1}.00",
)
DECIMALS += (str(2**63), str(-(2**63)), "12345678901234567890.12", "0.3333333333333333", "0.3333333333333334")
TICKS = (
    *(0, 1, -1, 999, -999, 1000, 86_399, 86_400, 43_200, 1_530_362_096, -62_167_219_200, 253_402_300_799),
)
TICKS += (
    2**31 - 1,
    -(2**31),
    2**40,
    -(2**40),
    2**55,
    2**62,
    -(2**62),
    2**63 - 1,
    -(2**63),
    17_897,
    43_200_000_000,
)

Made = tuple[pa.Array, list[Read]]


def column(rng: np.random.Generator) -> Column:
    """A column of any kind, with any of the ways in which odd values are taken."""
    return _COLUMNS[rng.integers(len(_COLUMNS))](_ways(rng))


def raw(rng: np.random.Generator, rows: int) -> Made:
    """Values of one type, stored in one of the ways of storing them; and how each is to be read."""
    make = _INPUTS[rng.integers(len(_INPUTS))]
    array, reads = make(rng, rows)
    missing = rng.random(rows) < 0.15
    if not (pa.types.is_union(array.type) or pa.types.is_null(array.type)):
        some = pa.array(np.arange(rows), mask=missing)
        # Arrow cannot take from a view of text.
        view = pa.types.is_string_view(array.type)
        array = array.cast(pa.string()).take(some).cast(array.type) if view else array.take(some)
        reads = [rule.NULL if m else r for m, r in zip(missing, reads, strict=True)]
    return _stored(rng, array), reads


def _stored(rng: np.random.Generator, array: pa.Array) -> pa.Array:
    way = rng.integers(4)
    if pa.types.is_string_view(array.type):
        way = 3 if way == 3 else 0
    if way == 1 and not pa.types.is_union(array.type) and not pa.types.is_null(array.type):
        order = rng.permutation(len(array))
        back = np.argsort(order)
        return pa.DictionaryArray.from_arrays(pa.array(back.astype(np.int32)), array.take(pa.array(order)))
    if way == 2 and len(array) and not pa.types.is_union(array.type):
        return pa.concat_arrays([array[-1:], array])[1:]
    if way == 3 and not pa.types.is_union(array.type):
        other = pa.array(["x", "7", None])
        kinds = pa.array(np.zeros(len(array), np.int8))
        return pa.UnionArray.from_dense(
            kinds, pa.array(np.arange(len(array), dtype=np.int32)), [array, other]
        )
    return array


READINGS = (
    Reading(),
    Reading(decimal=",", thousands=".", null_values=("-9", "k.A."), date_format="%d.%m.%Y"),
    Reading(decimal=",", date_format="%d %b %Y"),
    Reading(thousands=",", date_format="%m/%d/%Y %H:%M", null_values=("7",)),
    Reading(decimal=",", thousands=" ", date_format="%I:%M %p"),
    Reading(thousands="'", date_format="%Y%m%d"),
    Reading(date_format="%Y-%m-%dT%H:%M:%S.%f%z"),
    Reading(date_format="%d.%m.%y", null_values=("a", "1,5")),
)
"""Ways in which text may be written."""


def _ways(rng: np.random.Generator) -> dict[str, Any]:
    other, missing = (bool(flag) for flag in rng.integers(2, size=2))
    outside = ["error", "other", "clip", "open"] if other else ["error", "clip", "open"]
    return {"missing": missing, "other": other, "out_of_domain": str(rng.choice(outside))}


def _no_clip(ways: dict[str, Any]) -> dict[str, Any]:
    """For values without an order."""
    if ways["out_of_domain"] not in ("clip", "open"):
        return ways
    return {**ways, "out_of_domain": "other" if ways["other"] else "error"}


def _no_open(ways: dict[str, Any]) -> dict[str, Any]:
    """For a list of numbers."""
    return {**ways, "out_of_domain": "clip"} if ways["out_of_domain"] == "open" else ways


_D, _T = datetime.date, datetime.datetime
_UTC = datetime.UTC
_COLUMNS: tuple[Callable[[dict[str, Any]], Column], ...] = (
    lambda w: Categorical(name="x", values=("a", "b", "7", "7.0", "true", "1E-2", "é"), **_no_clip(w)),
    lambda w: Categorical(name="x", values=("7.0", "0", "1", "2018-06-30", "TRUE", "1000.0"), **_no_clip(w)),
    lambda w: Categorical(
        name="x", dtype="int64", values=(7, 0, 1, 2**53 + 1, 2**63 - 1, -(2**63)), **_no_clip(w)
    ),
    lambda w: Categorical(name="x", dtype="double", values=(0.1, 7, 2.5, -1.0), **_no_clip(w)),
    lambda w: Ordered(name="x", dtype="int64", values=(0, 1, 7, 100, 2**53, 2**53 + 1), **_no_open(w)),
    lambda w: Ordered(name="x", dtype="double", values=(0.1, 0.5, 7.0, 1000.0), **_no_open(w)),
    lambda w: Ordered(name="x", values=("b", "a", "7"), **_no_clip(w)),
    lambda w: Boolean(name="x", **_no_clip(w)),
    lambda w: Boolean(name="x", dtype="string", values=("no", "Yes"), **_no_clip(w)),
    lambda w: Boolean(name="x", dtype="string", values=("0", "1"), **_no_clip(w)),
    lambda w: Integer(name="x", low=0, high=7, **w),
    lambda w: Integer(name="x", low=-3, high=99, **w),
    lambda w: Integer(
        name="x", low=0, high=99, missing_values=("7", "-1", "99.0", "007", str(2**53 + 1)), **w
    ),
    lambda w: Integer(name="x", low=0, high=99, missing_values=(str(2**53), "-1"), **w),
    lambda w: Real(name="x", bins=(0.05, 0.25, 7.0, 100.0), missing_values=("0.1", "7", "NA"), **w),
    lambda w: Categorical(name="x", values=("a", "7.0"), missing_values=("7", "1000"), **_no_clip(w)),
    lambda w: Categorical(name="x", values=("a", "7.0"), missing_values=("7", "inf"), **_no_clip(w)),
    lambda w: Ordered(
        name="x", dtype="double", values=(0.1, 7.0), missing_values=("inf", "-inf", "NA"), **_no_open(w)
    ),
    lambda w: Integer(name="x", low=0, high=99, missing_values=("7", "-inf"), **w),
    lambda w: Real(name="x", bins=(0.05, 0.25, 7.0, 100.0), missing_values=("inf", "0.1"), **w),
    lambda w: Boolean(name="x", missing_values=("1", ""), **_no_clip(w)),
    lambda w: Datetime(
        name="x", bins=(_T(1, 1, 1), _T(1970, 1, 1), _T(9999, 1, 1)), missing_values=("0", "1"), **w
    ),
    lambda w: Integer(
        name="x", low=-(2**63), high=2**63 - 1, bins=(-(2**63), 0, 7, 2**53 + 1, 2**63 - 1), **w
    ),
    lambda w: Integer(name="x", low=1, high=90, bins=(0, 7, 18, 99), **w),
    lambda w: Integer(name="x", low=1, high=90, bins=(0, 7, 18, 99), step=5, **w),
    lambda w: Real(name="x", low=0.1, high=99.5, bins=(0.05, 0.25, 0.5, 7.0, 100.0), **w),
    lambda w: Real(name="x", bins=(-1e300, -0.5, 0.25, 2.0**53, 1e300), **w),
    lambda w: Real(name="x", low=0.2, high=99.5, bins=(0.05, 0.25, 0.5, 7.0, 100.0), step=0.05, **w),
    lambda w: Datetime(
        name="x", dtype="date32[day]", bins=(_D(1900, 1, 1), _D(2018, 6, 30), _D(2019, 1, 1)), **w
    ),
    lambda w: Datetime(
        name="x", bins=(_T(1, 1, 1), _T(1970, 1, 1), _T(2018, 6, 30, 12), _T(9999, 12, 31)), **w
    ),
    lambda w: Datetime(
        name="x",
        dtype="timestamp[s, tz=UTC]",
        bins=tuple(_T(year, 6, 30, 7, tzinfo=_UTC) for year in (1899, 1970, 2018, 2030)),
        **w,
    ),
    lambda w: Datetime(
        name="x", bins=(_T(1970, 1, 1, 7), _T(2018, 6, 30, 12), _T(2030, 1, 1)), step="day", **w
    ),
    lambda w: Datetime(
        name="x",
        dtype="time64[us]",
        bins=(datetime.time(0), datetime.time(7, 30), datetime.time(23, 59)),
        **w,
    ),
)


def _texts(kind: pa.DataType) -> Callable[[np.random.Generator, int], Made]:
    def make(rng: np.random.Generator, rows: int) -> Made:
        held = [BYTES[i] for i in rng.integers(len(BYTES), size=rows)]
        array = pa.array(held, pa.large_binary() if "large" in str(kind) else pa.binary())
        if pa.types.is_string_view(kind):
            array = pc.cast(array, options=pc.CastOptions(pa.string(), allow_invalid_utf8=True))
        return pc.cast(array, options=pc.CastOptions(kind, allow_invalid_utf8=True)), [
            rule.text(w) for w in held
        ]

    return make


def _fixed(rng: np.random.Generator, rows: int) -> Made:
    held = [[b"7", b"a", b"\xff", b"b"][i] for i in rng.integers(4, size=rows)]
    return pa.array(held, pa.binary(1)), [rule.text(w) for w in held]


def _integers(kind: pa.DataType) -> Callable[[np.random.Generator, int], Made]:
    info = np.iinfo(kind.to_pandas_dtype())
    fit = [v for v in INTEGERS if info.min <= v <= info.max]

    def make(rng: np.random.Generator, rows: int) -> Made:
        held = [fit[i] for i in rng.integers(len(fit), size=rows)]
        return pa.array(held, kind), [rule.whole(v) for v in held]

    return make


def _floats(dtype: Any) -> Callable[[np.random.Generator, int], Made]:
    def make(rng: np.random.Generator, rows: int) -> Made:
        with np.errstate(over="ignore"):
            held = np.array([FLOATS[i] for i in rng.integers(len(FLOATS), size=rows)]).astype(dtype)
        return pa.array(held), [rule.real(float(v), dtype) for v in held]

    return make


def _decimals(kind: pa.DataType) -> Callable[[np.random.Generator, int], Made]:
    def fits(word: str) -> bool:
        try:
            pa.array([Decimal(word)], kind)
        except pa.ArrowInvalid:
            return False
        return True

    fit = [Decimal(word) for word in DECIMALS if fits(word)]

    def make(rng: np.random.Generator, rows: int) -> Made:
        held = [fit[i] for i in rng.integers(len(fit), size=rows)]
        return pa.array(held, kind), [rule.decimal(v) for v in held]

    return make


def _bools(rng: np.random.Generator, rows: int) -> Made:
    held = [bool(flag) for flag in rng.integers(2, size=rows)]
    return pa.array(held, pa.bool_()), [("bool", v) for v in held]


def _ticks(kind: pa.DataType) -> Callable[[np.random.Generator, int], Made]:
    narrow = str(kind) == "date32[day]" or pa.types.is_time32(kind)
    is_time = pa.types.is_time(kind)
    per = rule.DAY if str(kind) == "date32[day]" else 1000 if str(kind) == "date64[ms]" else 0
    per = per or {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0}[kind.unit]
    day = {1_000_000: 86_400, 1000: 86_400_000, 1: rule.DAY, 0: rule.DAY * 1000}.get(per, 0)
    far = 2**62 // rule.DAY * rule.DAY

    def make(rng: np.random.Generator, rows: int) -> Made:
        held = [TICKS[i] for i in rng.integers(len(TICKS), size=rows)]
        if narrow:
            held = [max(-(2**31), min(v, 2**31 - 1)) for v in held]
        if is_time:
            held = [v % day for v in held]
        if str(kind) == "date64[ms]":
            held = [v // 86_400_000 * 86_400_000 if abs(v) < 2**62 else 0 for v in held]
        array = pa.array(held, pa.int32() if narrow else pa.int64()).view(kind)
        words = pc.cast(array, pa.string()).to_pylist()
        micros = [v // 1000 if per == 0 else min(max(v, -far // per), far // per) * per for v in held]
        return array, [("time" if is_time else "moment", v, w) for v, w in zip(micros, words, strict=True)]

    return make


def _nothing(rng: np.random.Generator, rows: int) -> Made:
    return pa.nulls(rows), [rule.NULL] * rows


def _objects(rng: np.random.Generator, rows: int) -> Made:
    """As a pandas column of objects has them: any Python values side by side."""
    pairs = [_object(rng) for _ in range(rows)]
    return object_array([value for value, _ in pairs]), [read for _, read in pairs]


def _object(rng: np.random.Generator) -> tuple[Any, Read]:
    def some(values: Any) -> Any:
        return values[rng.integers(len(values))]

    kind = rng.integers(12)
    if kind == 0:
        return some(((None, rule.NULL), (np.datetime64("NaT"), rule.NULL), (Decimal("NaN"), rule.NULL)))
    if kind in (1, 2):
        word = some(WORDS)
        return word, rule.text(word.encode())
    if kind == 3:
        held = some(BYTES)
        return some((bytes, bytearray))(held), rule.text(held)
    if kind == 4:
        number = some((*INTEGERS, 10**400, -(10**400)))
        return number, rule.whole(number)
    if kind == 5:
        return some((np.int8, np.uint64))(7), rule.whole(7)
    if kind == 6:
        real = some(FLOATS)
        return real, rule.real(real)
    if kind == 7:
        single = np.float32(some((0.1, 7.0, 2.5, math.nan)))
        return single, rule.real(float(single), np.float32)
    if kind == 8:
        exact = Decimal(some((*DECIMALS, "Infinity", "1E+30")))
        return exact, rule.decimal(exact)
    if kind == 9:
        flag = some((True, False, np.bool_(True)))
        return flag, ("bool", bool(flag))
    if kind == 10:
        day = some((datetime.date(2018, 6, 30), datetime.date(1, 1, 1)))
        return day, ("moment", (day - datetime.date(1970, 1, 1)).days * rule.DAY, day.isoformat())
    unique = uuid.UUID(int=7)
    odd = some((("\ud800", "\ufffd"), (unique, str(unique)), ((1, 2), "(1, 2)"), (1 + 2j, "(1+2j)")))
    return odd[0], ("text", odd[1])


_INPUTS: tuple[Callable[[np.random.Generator, int], Made], ...] = (
    *(_texts(k) for k in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary())),
    _fixed,
    _bools,
    *(
        _integers(k())
        for k in (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)
    ),
    *(_floats(k) for k in (np.float16, np.float32, np.float64)),
    *(
        _decimals(k)
        for k in (pa.decimal128(38, 2), pa.decimal128(20, 0), pa.decimal128(38, 16), pa.decimal256(50, 2))
    ),
    *(_decimals(k) for k in (pa.decimal32(6, 2), pa.decimal64(17, 2))),
    *(
        _ticks(k)
        for k in (pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ),
    *(_ticks(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    *(_ticks(pa.timestamp(unit, "UTC")) for unit in ("s", "ns")),
    _nothing,
    _objects,
    _objects,
)
KINDS = (len(_COLUMNS), len(_INPUTS))
"""How many kinds of column and of input there are."""


# Rows of a table.

_ODD: dict[str, Any] = {"missing": True, "other": True, "out_of_domain": "other"}
SCHEMA = Schema(
    (
        Categorical(name="word", values=("a", "b", "7", "7.0", "true"), **_ODD),
        Boolean(name="flag", **_ODD),
        Integer(name="whole", low=-3, high=99, **_ODD),
        Integer(
            name="large", low=-(2**63), high=2**63 - 1, bins=(-(2**63), 0, 7, 2**53 + 1, 2**63 - 1), **_ODD
        ),
        Real(name="real", bins=(-1.0, 0.25, 7.0, 1e6), **_ODD),
        Datetime(
            name="day",
            dtype="date32[day]",
            bins=(_D(1900, 1, 1), _D(1940, 1, 1), _D(1980, 1, 1), _D(2020, 1, 1)),
            **_ODD,
        ),
    )
)
"""A column of most kinds, none of which refuses anything."""


def row_of_words(rng: np.random.Generator) -> tuple[Any, ...]:
    """A row of texts, as a CSV has it."""
    return tuple(WORDS[i] for i in rng.integers(len(WORDS), size=len(SCHEMA.names)))


def row_of_bytes(rng: np.random.Generator) -> tuple[Any, ...]:
    """A row of bytes, some of which are no text."""
    return tuple(BYTES[i] for i in rng.integers(len(BYTES), size=len(SCHEMA.names)))


def row_of_objects(rng: np.random.Generator) -> tuple[Any, ...]:
    """A row of any Python values."""
    return tuple(_object(rng)[0] for _ in SCHEMA.names)
