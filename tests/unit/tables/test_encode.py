"""Encoding and decoding: every Arrow type, every refusal, and nothing private in a message."""

import datetime as dt
import decimal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from openprior.errors import EncodeError, SchemaError, SourceError
from openprior.schema.base import Schema
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Ordered
from openprior.schema.domain import Domain
from openprior.tables.decode import Decoder
from openprior.tables.encode import Encoder, Table, dtype_for, encode_table
from openprior.tables.inside import Reservoir
from openprior.tables.lookup import Coder
from openprior.tables.source import open_source


def codes(column: Column, values: object, kind: pa.DataType | None = None) -> list[int]:
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    table = pa.Table.from_arrays([array], names=[column.name])
    result: list[int] = encode_table(table, Schema((column,))).columns[0].tolist()
    return result


INTS = Categorical(
    name="c", values=(7, 3, 300), dtype="int64", other=True, out_of_domain="other", missing=True
)
TEXTS = Categorical(name="c", values=("7", "x", "true"), other=True, out_of_domain="other", missing=True)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (INTS, ["7", " 7 ", "07", "7.0", "7.5", "x", "", None], [0, 0, 0, 0, 3, 3, 4, 4]),
        (INTS, pa.array([7, 3, 300, 4, None], pa.int64()), [0, 1, 2, 3, 4]),
        (INTS, pa.array([7, 3, 4, None], pa.uint8()), [0, 1, 3, 4]),
        (INTS, pa.array([7, 2**64 - 1], pa.uint64()), [0, 3]),
        (INTS, [7.0, 7.5, float("nan"), float("inf")], [0, 3, 4, 3]),
        (INTS, [decimal.Decimal("7.00"), decimal.Decimal("7.01")], [0, 3]),
        (INTS, [True, None], [3, 4]),
        (INTS, [dt.date(2020, 1, 1)], [3]),
        (TEXTS, ["7", "07", "7.0", "x ", "?", None], [0, 3, 3, 1, 4, 4]),
        (TEXTS, [7, 8, None], [0, 3, 4]),
        (TEXTS, [7.0, 7.5], [0, 3]),
        (TEXTS, [True, False], [2, 3]),
        (TEXTS, pa.nulls(2), [4, 4]),
    ],
)
def test_values_match_by_meaning(column: Column, values: object, expected: list[int]) -> None:
    assert codes(column, values) == expected


@pytest.mark.parametrize("layout", ["string", "large_string", "string_view", "dictionary"])
def test_text_layouts(layout: str) -> None:
    array = pa.array(["x", None, "7", "zz"])
    array = array.dictionary_encode() if layout == "dictionary" else array.cast(pa.type_for_alias(layout))
    assert codes(TEXTS, array) == [1, 4, 0, 3]
    assert codes(TEXTS, array.slice(2)) == [0, 3]


def test_dictionary_values_that_no_row_uses_are_not_refused() -> None:
    strict = Categorical(name="c", values=("a",))
    assert codes(strict, pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "zz"]))) == [0, 0]


def test_booleans() -> None:
    column = Boolean(name="b", missing=True)
    assert codes(column, [True, False, None]) == [1, 0, 2]
    assert codes(column, ["TRUE", "false", "1", "0", ""]) == [1, 0, 1, 0, 2]
    assert codes(column, [1, 0, None]) == [1, 0, 2]
    spelled = Boolean(name="b", values=("no", "Yes"), dtype="string")
    assert codes(spelled, ["YES", "no"]) == [1, 0] and codes(spelled, [True, False]) == [1, 0]


def test_bins_are_half_open_and_the_last_is_closed() -> None:
    column = Integer(name="i", bins=(0, 10, 20), out_of_domain="clip")
    assert codes(column, [-5, 0, 9, 10, 20, 99]) == [0, 0, 0, 1, 1, 1]
    assert codes(column, ["0", "9.9", "1e1", "+20", "-inf"]) == [0, 0, 1, 1, 0]
    assert codes(column, pa.array([-128, 127], pa.int8())) == [0, 1]
    real = Real(name="r", bins=(0, 0.1, 0.3), other=True, out_of_domain="other")
    assert codes(real, [0.0, 0.1, 0.3, 0.31, -1.0]) == [0, 1, 1, 2, 2]
    # 0.1 and 0.3 as float32 are a little off; they still are the edges.
    assert codes(real, pa.array([0.1, 0.3], pa.float32())) == [1, 1]
    assert codes(real, ["0.05", "abc", None]) == [0, 2, 2]


def test_ordered_numbers_clip_to_the_nearest() -> None:
    column = Ordered(name="o", values=(10, 0, 100), dtype="int64", out_of_domain="clip")
    assert codes(column, [-9, 4, 6, 10, 54, 56, 1000]) == [1, 1, 0, 0, 0, 2, 2]
    assert codes(column, [4.9, 1e300]) == [1, 2]
    floats = Ordered(name="o", values=(0.1, 0.2), dtype="float")
    assert codes(floats, pa.array([0.2, 0.1], pa.float32())) == [1, 0]


def test_moments() -> None:
    days = Datetime(
        name="d", dtype="date32", bins=(dt.date(2018, 1, 1), dt.date(2018, 6, 1), dt.date(2018, 12, 31))
    )
    noon = dt.datetime(2018, 12, 31, 12)
    assert codes(days, ["2018-05-31", "2018-06-01", "2018-12-31T12:00:00"]) == [0, 1, 1]
    assert codes(days, [dt.date(2018, 1, 1), dt.date(2018, 12, 31)]) == [0, 1]
    assert codes(days, pa.array([noon], pa.timestamp("ns", "UTC"))) == [1]
    with pytest.raises(EncodeError, match="no dates or times"):
        codes(days, ["2018-02-31"])
    with pytest.raises(EncodeError, match="no dates or times"):
        codes(days, [3])
    stamps = Datetime(
        name="d", dtype="timestamp[us, tz=UTC]", bins=(dt.datetime(2018, 1, 1), dt.datetime(2018, 1, 2)), other=True,
        out_of_domain="other",
    )  # fmt: skip
    assert codes(stamps, ["2018-01-02T01:00:00+02:00", "2018-01-02 01:00", "2018-02-31", "x"]) == [0, 1, 1, 1]
    times = Datetime(name="t", dtype="time32[s]", bins=(dt.time(0), dt.time(12), dt.time(23, 59, 59)))
    assert codes(times, ["11:59", "12:00:00.1234567"]) == [0, 1]
    assert codes(times, [dt.time(13)]) == [1]


REFUSED = [
    (Integer(name="income", bins=(0, 250000)), 987654, r"outside its bins \[0, 250000\]; widen the bins"),
    (Integer(name="income", low=0, high=9), 987654, r"outside its range \[0, 9\]"),
    (Integer(name="income", bins=(0, 9), out_of_domain="clip"), "987654x", "no numbers.*missing_values"),
    (Integer(name="income", bins=(0, 9)), None, "missing values; set missing = true"),
    (Categorical(name="income", values=("a",)), "987654", "outside its list.*list them"),
    (Real(name="income", bins=(0, 9)), 987654.5, "outside its bins"),
]


@pytest.mark.parametrize(("column", "value", "message"), REFUSED)
def test_refusals_tell_no_private_value(column: Column, value: object, message: str) -> None:
    table, schema = pa.table({"income": [value]}), Schema((column,))
    with pytest.raises(EncodeError, match=message) as caught:
        encode_table(table, schema, private=True)
    assert "987654" not in str(caught.value) and "'income'" in str(caught.value)
    assert caught.value.__context__ is None
    if value is not None:
        for options in ({"private": True, "show_private": True}, {"private": False}):
            with pytest.raises(EncodeError, match=r"for example.*987654"):
                encode_table(table, schema, **options)


def test_nested_and_absent_columns() -> None:
    schema = Schema.from_sizes({"a": 3})
    with pytest.raises(EncodeError, match=r"'a' holds several values per row.*flatten"):
        encode_table(pa.table({"a": [[1]]}), schema)
    with pytest.raises(SchemaError, match="private table has no column 'a'; rename"):
        Encoder(schema, open_source(pa.table({"b": [1]})), private=True)
    with pytest.raises(SchemaError, match="it has b"):
        Encoder(schema, open_source(pa.table({"b": [1]})), private=False)


def test_one_row_and_no_rows() -> None:
    schema = Schema.from_sizes({"a": 3})
    assert encode_table(pa.table({"a": [2]}), schema).n == 1
    with pytest.raises(SourceError, match="table is empty"):
        encode_table(pa.table({"a": pa.array([], pa.int64())}), schema)


def test_codes_have_the_smallest_type_and_bytes_are_not_copied() -> None:
    assert [dtype_for(s) for s in (1, 256, 257, 65536, 65537)] == [np.uint8] * 2 + [np.uint16] * 2 + [
        np.uint32
    ]
    array = pa.array(np.arange(200) % 5, pa.uint8())
    encoder = Encoder(Schema.from_sizes({"a": 5}), open_source(pa.table({"a": array})), private=True)
    (got,) = encoder.encode(pa.record_batch([array], names=["a"]))
    assert np.shares_memory(got, array.to_numpy())
    for size in (254, 255, 256, 70_000):
        values = np.arange(size)
        assert (
            encode_table(pa.table({"a": values}), Schema.from_sizes({"a": size})).columns[0].tolist()
            == values.tolist()
        )
        with pytest.raises(EncodeError):
            encode_table(pa.table({"a": [size]}), Schema.from_sizes({"a": size}))
        with pytest.raises(EncodeError):
            encode_table(pa.table({"a": [-1]}), Schema.from_sizes({"a": size}))


def test_encoding_is_the_same_from_threads() -> None:
    table = pa.table({"a": [str(i % 50) for i in range(20_000)]})
    encoder = Encoder(Schema.draft(table), open_source(table), private=True)
    batches = table.to_batches(max_chunksize=500)
    with ThreadPoolExecutor(4) as pool:
        threaded = np.concatenate([c[0] for c in pool.map(encoder.encode, batches)])
    assert threaded.tolist() == [i % 50 for i in range(20_000)]


def test_limit_in_the_encoder() -> None:
    schema = Schema(Schema.from_sizes({"a": 3}).columns, person_id="pid")
    table = pa.table({"a": [0, 1, 2], "pid": ["x", "x", "y"]})
    encoder = Encoder(schema, open_source(table), private=True)
    assert encoder.columns_read == ("a", "pid")
    passes = [[c[0].tolist() for c in encoder.batches()] for _ in range(2)]  # a fresh limit each pass
    assert passes[0] == passes[1] and passes[0] in ([[0, 2]], [[1, 2]])
    with pytest.raises(SchemaError, match="no person id column 'pid'"):
        encode_table(table.select(["a"]), schema, private=True)
    assert encode_table(table.select(["a"]), schema).n == 3
    for missing in (pa.array(["x", None, "y"]), pa.array(["x", "", "y"]), pa.array([1.0, float("nan"), 2.0])):
        with pytest.raises(EncodeError, match="person id 'pid' is missing"):
            encode_table(table.set_column(1, "pid", missing), schema, private=True)


def test_table_unique_take_and_repr() -> None:
    rng = np.random.default_rng(3)
    domain = Domain({f"c{i}": 2 + i * 90 for i in range(12)})  # needs two words
    table = Table(domain, tuple(rng.integers(0, 2, 500) for _ in range(12)))
    distinct, counts = table.unique()
    frame = pd.DataFrame({name: table.column(name) for name in domain})
    expected = frame.value_counts().sort_index()
    assert counts.tolist() == expected.tolist()
    assert list(zip(*(c.tolist() for c in distinct.columns), strict=True)) == expected.index.to_list()
    assert "50" not in repr(table)
    assert table.take(np.zeros(500, bool)).unique()[0].n == 0
    with pytest.raises(EncodeError, match=r"'a' has codes outside 0\.\.1"):
        Table(Domain({"a": 2}), (np.array([2]),))
    with pytest.raises(EncodeError, match="as long as the others"):
        Table(Domain({"a": 2, "b": 2}), (np.array([1]), np.array([1, 1])))


PUBLIC = pa.table(
    {
        "age": pa.array([20, 25, 29, 30, 44, None], pa.int16()),
        "income": [0.5, 5.25, 9.5, 150.0, 2000.0, 4900.0],
        "day": pa.array([dt.date(2018, 1, d) for d in (1, 2, 3, 4, 5, 6)]),
        "word": ["a", "b", "a", "b", None, "a"],
    }
)
SCHEMA = Schema(
    (
        Integer(name="age", dtype="int16", bins=(20, 30, 50), missing=True, low=20, high=45),
        Real(name="income", bins=(0, 10, 100, 5000)),
        Datetime(
            name="day", dtype="date32", bins=(dt.date(2018, 1, 1), dt.date(2018, 1, 4), dt.date(2018, 1, 31))
        ),
        Categorical(name="word", values=("a",), other=True, out_of_domain="other", missing=True),
    )
)


def test_decoding_draws_public_values_and_restores_types() -> None:
    decoder = Decoder.fit(SCHEMA, PUBLIC, rng=np.random.default_rng(0))
    table = encode_table(PUBLIC, SCHEMA)
    many = table.take(np.tile(np.arange(6), 200))
    out = decoder.decode(many, np.random.default_rng(1))
    assert out.schema.types == [pa.int16(), pa.float64(), pa.date32(), pa.string()]
    assert set(out["age"].to_pylist()) == {20, 25, 29, 30, 44, None}
    assert set(out["income"].to_pylist()) == set(PUBLIC["income"].to_pylist())
    assert set(out["word"].to_pylist()) == {"a", "other", None}
    again = encode_table(out, SCHEMA)
    assert all((a == b).all() for a, b in zip(many.columns, again.columns, strict=True))
    with pytest.raises(EncodeError, match="another domain"):
        decoder.decode(Table(Domain({"a": 1}), (np.array([0]),)), np.random.default_rng(1))


def test_decoding_without_public_values_is_uniform_within_bin_and_bounds() -> None:
    decoder = Decoder.fit(SCHEMA, None, rng=np.random.default_rng(0))
    n = 4000
    table = Table(SCHEMA.domain, (np.ones(n, int), np.full(n, 1), np.ones(n, int), np.zeros(n, int)))
    out = decoder.decode(table, np.random.default_rng(1))
    assert set(out["age"].to_pylist()) == set(range(30, 46))  # the bound 45 cuts the bin [30, 50]
    income = out["income"].to_numpy()
    assert income.min() >= 10 and income.max() < 100 and abs(income.mean() - 55) < 2
    assert set(out["day"].to_pylist()) == {dt.date(2018, 1, d) for d in range(4, 32)}
    assert SCHEMA["age"].labels == ("[20, 30)", "[30, 50]", "missing")


def test_reservoir_is_uniform_over_batches() -> None:
    schema = Schema((Integer(name="a", bins=(0, 100_000)),))
    public = pa.Table.from_batches(pa.table({"a": np.arange(100_000)}).to_batches(max_chunksize=10_000))
    means = []
    for seed in range(20):
        reservoir = Reservoir(schema["a"], schema.reading, np.random.default_rng(seed))
        for batch in public.to_batches():
            reservoir.add(batch.column(0))
        values = reservoir.values
        assert reservoir.offsets.tolist() == [0, 256] and len(set(values.tolist())) == 256
        assert (reservoir.least, reservoir.greatest) == (0, 99_999)
        means.append(values.mean())
    assert abs(np.mean(means) - 50_000) < 4 * 28_868 / np.sqrt(256 * 20)


def test_acs_2018_drafts_and_2019_encodes(data_folder: Path) -> None:
    folder = data_folder / "nist_acs"
    schema = Schema.draft(folder / "national2018.csv")
    public = encode_table(folder / "national2018.csv", schema)
    private = encode_table(folder / "national2019.csv", schema, private=True)
    assert public.n == 27_111 and len(schema.domain) == 24
    assert schema["PUMA"].size == 21 and schema["MSP"].missing and schema["PINCP"].kind == "real"
    decoder = Decoder.fit(schema, folder / "national2018.csv", rng=np.random.default_rng(0))
    again = encode_table(decoder.decode(private, np.random.default_rng(1)), schema)
    for column, before, after in zip(schema.columns, private.columns, again.columns, strict=True):
        if column.dtype != "string" and column.missing and column.other:  # of numbers, both are null
            before = np.where(before == column.other_code, column.missing_code, before)  # noqa: PLW2901
        assert (before == after).all()
    frame = pd.read_csv(folder / "national2018.csv")  # typed by pandas: the same codes
    typed = encode_table(frame, schema)
    assert all((a == b).all() for a, b in zip(public.columns, typed.columns, strict=True))


@pytest.mark.parametrize(
    "values", [(2**60, 2**60 + 1), (1.0, float(np.nextafter(1.0, 2.0))), (0, 1, 2)], ids=str
)
def test_neighbouring_values_that_clip_have_codes_of_their_own(values: tuple[float, ...]) -> None:
    """Between two numbers that are next to each other the middle is one of them."""
    kind = "int64" if isinstance(values[0], int) else "double"
    column = Ordered(name="x", dtype=kind, values=values, out_of_domain="clip")
    codes = encode_table(pa.table({"x": pa.array(values)}), Schema((column,))).column("x")
    assert codes.tolist() == list(range(len(values)))


_ODD = {"missing": True, "other": True, "out_of_domain": "other"}
_FAR = 2**53


@pytest.mark.parametrize(
    ("column", "rest", "intruder"),
    [
        (Categorical(name="x", values=("a", "b"), **_ODD), pa.array([b"a", b"b"]), pa.array([b"\xff"])),
        (
            Integer(name="x", low=0, high=9, **_ODD),
            pa.array([1, 2], pa.uint64()),
            pa.array([2**63], pa.uint64()),
        ),
        (
            Categorical(name="x", dtype="int64", values=(_FAR, _FAR + 1), **_ODD),
            pa.array([_FAR, _FAR + 1], pa.uint64()),
            pa.array([2**63], pa.uint64()),
        ),
        (
            Categorical(name="x", dtype="int64", values=(_FAR, _FAR + 1), **_ODD),
            pa.array([str(_FAR), str(_FAR + 1)]),
            pa.array(["0.5"]),
        ),
        (
            Datetime(
                name="x",
                bins=(dt.datetime(2000, 1, 1), dt.datetime(2010, 1, 1)),
                missing=True,
                out_of_domain="clip",
            ),
            pa.array(["0000-01-01", "2005-01-01"]),
            pa.array(["2018-02-31"]),
        ),
    ],
    ids=[
        "a byte that is no text",
        "beyond 64 bits",
        "beyond 64 bits, large labels",
        "no integer",
        "no such day",
    ],
)
def test_one_odd_value_does_not_touch_the_others(column: Any, rest: pa.Array, intruder: pa.Array) -> None:
    coder = Coder(column)
    alone = coder(rest).tolist()
    assert len(set(alone)) == len(alone) or column.kind != "categorical"
    for array in (pa.concat_arrays([intruder, rest]), pa.concat_arrays([rest, intruder])):
        for stored in (array, array.dictionary_encode()):
            found = coder(stored).tolist()
            assert (found[1:] if array[0] == intruder[0] else found[:-1]) == alone


@pytest.mark.parametrize("values", [[1.5, 2.5], [True, False], [1, 2]], ids=str)
def test_one_word_in_a_frame_does_not_touch_the_others(values: list[Any]) -> None:
    for column in (Real(name="x", bins=(0.0, 2.0, 3.0), **_ODD), Boolean(name="x", **_ODD)):
        schema = Schema((column,))
        alone = encode_table(pd.DataFrame({"x": values}), schema).column("x").tolist()
        for word in ("N", b"\xff", decimal.Decimal("0.5"), [1, 2], object):
            mixed = pd.DataFrame({"x": pd.Series([*values, word], dtype=object)})
            assert encode_table(mixed, schema).column("x").tolist()[:-1] == alone


def test_a_row_that_the_limit_drops_does_not_touch_the_others(tmp_path: Path) -> None:
    column = Categorical(name="x", dtype="int64", values=(_FAR, _FAR + 1), **_ODD)
    schema = Schema((column,), person_id="pid")
    counts = []
    for dropped in ("", "1,0.5\n1,0.25\n"):
        path = tmp_path / "t.csv"
        path.write_text(f"pid,x\n{dropped}2,{_FAR}\n3,{_FAR + 1}\n1,7\n")
        counts.append(np.bincount(encode_table(path, schema, private=True).column("x"), minlength=4).tolist())
    assert counts[0] == counts[1] == [1, 1, 1, 0]


def test_what_is_no_number_is_missing_where_numbers_are_clipped() -> None:
    """So that a schema that clips refuses nothing."""
    column = Integer(name="x", low=0, high=9, missing=True, out_of_domain="clip")
    assert encode_table(pa.table({"x": ["-5", "12", "N/K", "", "4"]}), Schema((column,))).column(
        "x"
    ).tolist() == [*(0, 9, 10, 10, 4)]
    with pytest.raises(EncodeError, match="no numbers"):
        encode_table(
            pa.table({"x": ["N/K"]}), Schema((Integer(name="x", low=0, high=9, out_of_domain="clip"),))
        )
