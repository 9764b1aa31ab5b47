"""Every type that Arrow can make: read, or refused by the name of the column and of the type."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from openprior import Schema
from openprior.errors import EncodeError, OpenPriorError, SchemaError
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column
from openprior.tables.encode import encode_table

_ODD: dict[str, Any] = {"missing": True, "other": True, "out_of_domain": "other"}
UUIDS = [uuid.UUID(int=7), uuid.UUID(int=2**127 + 255)]
COLUMNS: tuple[Column, ...] = (
    Categorical(name="x", values=("7", "a", str(UUIDS[0])), **_ODD),
    Integer(name="x", low=0, high=9, **_ODD),
    Real(name="x", bins=(0.0, 1.0, 9.0), **_ODD),
    Boolean(name="x", **_ODD),
    Datetime(name="x", bins=(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1)), **_ODD),
)
NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(10, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)]
MOMENTS = [
    *(pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))),
    *(pa.timestamp("us", zone) for zone in ("UTC", "Europe/Paris", "+05:00", "Nowhere/Land")),
]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
READ = [*NUMBERS, *TEXTS, *BYTES, *MOMENTS, *TIMES, pa.bool_(), pa.null(), pa.uuid(), pa.json_(), pa.bool8()]
SPANS = [*(pa.duration(unit) for unit in ("s", "ms", "us", "ns")), pa.month_day_nano_interval()]
NESTED = [
    *(pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2), pa.list_view(pa.int64())),
    *(pa.large_list_view(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())),
    pa.dense_union([pa.field("a", pa.list_(pa.int64()))]),
    pa.fixed_shape_tensor(pa.int32(), [2]),
]
REFUSED = [*SPANS, *NESTED]


def held(kind: pa.DataType) -> pa.Array:
    """7 (or a moment of 1970), null, 7."""
    if isinstance(kind, pa.BaseExtensionType):
        if kind == pa.uuid():
            return pa.array([UUIDS[0].bytes, None, UUIDS[0].bytes], pa.binary(16)).cast(kind)
        return pa.ExtensionArray.from_storage(kind, held(kind.storage_type))
    if kind in MOMENTS or kind in TIMES or pa.types.is_duration(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array([0, None, 0], width).view(kind)
    values: dict[str, Any] = {
        "null": None,
        "bool": True,
        "month_day_nano_interval": pa.MonthDayNano([1, 2, 3]),
        "struct<a: int64>": {"a": 7},
        "map<string, int64>": [("a", 7)],
    }
    if pa.types.is_union(kind):
        return pa.UnionArray.from_dense(
            pa.array([0, 0, 0], pa.int8()), pa.array([0, 1, 2], pa.int32()), [held(kind.field(0).type)]
        )
    value = values.get(str(kind), 7)
    if kind in (*TEXTS, *BYTES):
        value = "7" if kind in TEXTS else b"7"
    elif pa.types.is_decimal(kind):
        value = Decimal(7)
    elif "list" in str(kind):
        value = [7, 7]
    return pa.array([value, None, value], kind)


def wrapped(array: pa.Array) -> list[pa.Array]:
    """The array as it is, as a dictionary, in runs, and all null."""
    ways = [array]
    if not pa.types.is_union(array.type):
        ways.append(pa.DictionaryArray.from_arrays(pa.array([0, None, 2], pa.int8()), array))
        ways.append(pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), array))
        ways.append(pa.nulls(3, array.type) if not isinstance(array, pa.ExtensionArray) else array[1:2])
    return ways


def codes(array: pa.Array, column: Column) -> list[int]:
    found: list[int] = (
        encode_table(pa.table({"x": array}), Schema((column,)), private=True).columns[0].tolist()
    )
    return found


@pytest.mark.filterwarnings("ignore::openprior.errors.OpenPriorWarning")
@pytest.mark.parametrize("kind", READ, ids=str)
def test_a_type_is_read_however_it_is_wrapped(kind: pa.DataType) -> None:
    plain = [codes(held(kind), column) for column in COLUMNS]
    for array in wrapped(held(kind)):
        schema = Schema.draft(pa.table({"x": array, "n": range(len(array))}), include=["x"])
        assert encode_table(pa.table({"x": array}), Schema((schema["x"],))).n == len(array)
        if array.null_count < len(array) and kind != pa.null():
            assert [codes(array, column) for column in COLUMNS] == plain
            assert (schema["x"].kind == "datetime") == (kind in MOMENTS or kind in TIMES)
    seven = kind in (*NUMBERS, *TEXTS, *BYTES) or kind == pa.json_()
    assert (plain[1] == [7, 11, 7]) == (plain[0] == [0, 4, 0]) == seven
    assert (plain[4] == [0, 2, 0]) == (kind in MOMENTS)
    assert (plain[3] == [1, 3, 1]) == (kind in (pa.bool_(), pa.bool8()))
    assert (plain[0] == [2, 4, 2]) == (kind == pa.uuid())


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_a_type_without_a_meaning_is_refused_by_its_name(kind: pa.DataType) -> None:
    name = str(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    if pa.types.is_union(kind):
        name = str(kind.field(0).type)
    name = name.split("<")[0]  # not the names of a record's fields, which may be values
    for array in wrapped(held(kind)):
        table = pa.table({"x": array})
        for column in COLUMNS:
            with pytest.raises(EncodeError) as refused:
                encode_table(table, Schema((column,)), private=True)
            assert "column 'x'" in str(refused.value) and name in str(refused.value)
        with pytest.raises(SchemaError) as undrafted:
            Schema.draft(table)
        assert "column 'x'" in str(undrafted.value) and name in str(undrafted.value)


def test_bytes_that_are_no_text_are_not_drafted_as_one_value() -> None:
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2)):
        array = pa.array([b"\xff\x00", b"\xfe\x01", b"ab"], kind)
        with pytest.raises(OpenPriorError, match="column 'x' holds bytes that are no text"):
            Schema.draft(pa.table({"x": array, "n": [1, 2, 3]}))


def test_uuids_are_their_text() -> None:
    stored = pa.array([u.bytes for u in UUIDS] * 2, pa.binary(16)).cast(pa.uuid())
    schema = Schema.draft(pa.table({"x": stored}))
    assert schema["x"].value_labels == tuple(str(u) for u in UUIDS)


def test_no_type_is_forgotten() -> None:
    """Of all kinds that Arrow knows, but for two that pyarrow cannot make."""
    ids = {name: getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    tried = {kind.id for kind in (*READ, *REFUSED)}
    tried |= {pa.dictionary(pa.int8(), pa.int8()).id, pa.run_end_encoded(pa.int32(), pa.int8()).id}
    tried.add(
        pa.sparse_union([pa.field("a", pa.int8())]).id
    )  # a union of what can be read is in test_odd_values.py
    left = {name for name, number in ids.items() if number not in tried}
    assert left <= {"Type_INTERVAL_MONTHS", "Type_INTERVAL_DAY_TIME"}, left
