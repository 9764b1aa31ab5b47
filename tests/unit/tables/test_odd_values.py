"""Values and ways of storing them that hardly anybody has: none stops the others, is slow or is taken for another."""

import datetime as dt
import itertools
import time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from openprior.errors import EncodeError, OpenPriorError, SourceError
from openprior.schema.base import Schema
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Ordered
from openprior.schema.reading_rules import Reading
from openprior.tables.convert import moments
from openprior.tables.encode import encode_table
from openprior.tables.identity import owners
from openprior.tables.limit import _Integers
from openprior.tables.lookup import Coder
from openprior.tables.objects import object_array
from openprior.tables.source import open_source

_ODD: dict[str, Any] = {"missing": True, "other": True, "out_of_domain": "other"}
WORD = Coder(Categorical(name="x", values=("a", "7", "true"), **_ODD))
WHOLE = Coder(Integer(name="x", low=0, high=9, **_ODD))
DAY = Coder(Datetime(name="x", bins=tuple(dt.datetime(y, 1, 1) for y in (1700, 1900, 2000, 2100)), **_ODD))
OUTSIDE, MISSING = 3, 4


class _Int(int):
    def __int__(self) -> int:
        raise KeyError("secret")


class _Zone(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        raise KeyError("secret")


def _far(hours: int) -> dt.timezone:
    return dt.timezone(dt.timedelta(hours=hours))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.datetime.min.replace(tzinfo=_far(14)), OUTSIDE),
        (dt.datetime.max.replace(tzinfo=_far(-12)), OUTSIDE),
        (dt.datetime(1950, 1, 1, tzinfo=_Zone()), OUTSIDE),
        (pd.Timestamp(np.datetime64("20000-01-01", "s")), OUTSIDE),
        (pd.Timestamp("1900-01-01 01:00", tz=_far(2)), 0),
        (np.datetime64(2**62, "D"), OUTSIDE),
        (np.datetime64(-1, "as"), 1),
        (np.datetime64("1899-12-31T23:59:59.999", "ms"), 0),
        (np.timedelta64(7, "D"), OUTSIDE),
        (np.timedelta64("NaT"), MISSING),
        (_Int(7), OUTSIDE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_objects_stop_nothing(value: Any, expected: int) -> None:
    assert DAY(object_array([value])).tolist() == [expected]
    assert DAY(object_array([value, "1950-01-01", None, dt.date(2050, 1, 1)])).tolist()[1:] == [1, MISSING, 2]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "7", None, "true"]),
        pa.array(["a", "7", None, "true"]).dictionary_encode(),
        pa.UnionArray.from_sparse(
            pa.array([0, 1, 0, 0], pa.int8()),
            [pa.array(["a", "x", None, "true"]), pa.array([1, 7, 2, 3])],
        ),
    ],
    ids=["text", "dictionary", "union"],
)
def test_runs_of_any_type(values: pa.Array) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5, 9], pa.int32()), values)
    expected = [0, 0, 1, 4, 4, 2, 2, 2, 2]
    assert WORD(runs).tolist() == expected
    assert WORD(runs[1:6]).tolist() == expected[1:6]
    assert owners(runs[:3], "pid").names().to_pylist() == ["a", "a", "7"]


def test_a_slice_of_a_union_whose_texts_are_views() -> None:
    views, numbers = pa.array(["a", "x", "true"], pa.string_view()), pa.array([1, 7])
    kinds, places = pa.array([0, 1, 0, 1, 0], pa.int8()), pa.array([0, 0, 1, 1, 2], pa.int32())
    assert WORD(pa.UnionArray.from_dense(kinds, places, [views, numbers])[1:]).tolist() == [3, 3, 1, 2]


def test_a_union_without_rows_and_an_extension_of_truth_values() -> None:
    empty = pa.UnionArray.from_sparse(pa.array([], pa.int8()), [pa.array([], pa.int64())])
    assert len(owners(empty, "pid")) == 0 and len(WORD(empty)) == 0
    truth = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2, None], pa.int8()))
    assert Coder(Boolean(name="x", **_ODD))(truth).tolist() == [0, 1, 1, 3]


def test_a_type_that_arrow_cannot_take_apart_is_refused_in_our_words() -> None:
    views = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array(["a", "b"], pa.string_view())])
    table = pa.table({"x": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [views]), "q": [1, 2]})
    for schema in (Schema((WORD.column,)), Schema((Integer(name="q", low=0, high=9),), person_id="x")):
        with pytest.raises(EncodeError, match="stored in a way that cannot be read") as caught:
            encode_table(table, schema, private=True)
        assert caught.value.__context__ is None


def test_a_dictionary_that_lacks_values_is_refused() -> None:
    """As in a damaged Parquet file: Arrow does not look."""
    short = pa.DictionaryArray.from_arrays(pa.array([0, 5, 0]), pa.array(["a", "b"]), safe=False)
    for schema in (Schema((WORD.column,)), Schema((Integer(name="q", low=0, high=9),), person_id="x")):
        with pytest.raises(EncodeError, match="stored in a way that cannot be read"):
            encode_table(pa.table({"x": short, "q": [1, 1, 1]}), schema, private=True)


def test_every_day_there_is_and_no_other() -> None:
    """Against the calendar; and no day makes a cast fail, which would be slow."""
    years = [*range(0, 10_000, 100), *range(4, 10_000, 100), 2023, 2024]
    days = [f"{y:04}-{m:02}-{d:02}" for y, m, d in itertools.product(years, range(14), range(33))]
    parsed = moments(pa.array(days), time_of_day=False)
    assert parsed.unparsed is not None
    good = ~parsed.unparsed
    leap = {y for y in years if y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)}
    lengths = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    expected = [
        1 <= m <= 12 and 1 <= d <= lengths[m - 1] + (m == 2 and y in leap)
        for y, m, d in itertools.product(years, range(14), range(33))
    ]
    assert good.tolist() == expected
    pc.cast(pa.array(days).filter(pa.array(good)), pa.timestamp("us"))


@pytest.mark.parametrize("kind", ["bytes", "days", "digits", "zone"])
def test_a_column_of_nothing_but_bad_values_is_as_fast_as_another(kind: str) -> None:
    """Value by value it took 100 µs for each; now about 3."""
    n = 20_000
    coder, array = {
        "bytes": lambda: (WORD, pa.array([b"\xe9%d" % i for i in range(n)])),
        "days": lambda: (DAY, pa.array([f"2018-02-31 00:00:00.{i:06}" for i in range(n)])),
        "digits": lambda: (WHOLE, pa.array([f"9223372036854775808{i}" for i in range(n)])),
        "zone": lambda: (WORD, pa.array(np.arange(n)).view(pa.timestamp("us", "Nowhere/Land"))),
    }[kind]()
    start = time.process_time()
    codes = coder(array)
    assert time.process_time() - start < 0.4
    assert (codes == (WHOLE.column.other_code if coder is WHOLE else OUTSIDE)).all()


def test_integers_at_the_ends_of_64_bits_are_exact() -> None:
    ends = tuple(s * 2**63 + k for s, k in itertools.product((-1, 1), (-2, -1, 0, 1)))
    inside = [v for v in ends if -(2**63) <= v < 2**63]
    coder = Coder(Categorical(name="x", dtype="int64", values=tuple(inside), **_ODD))
    for kind in (pa.string(), pa.large_string()):
        codes = coder(pa.array([f"{'-' * (v < 0)}000{abs(v)}" for v in ends], kind)).tolist()
        # Beyond, the nearest double decides: those just below −2⁶³ are −2⁶³.
        at = inside.index(-(2**63))
        assert codes == [inside.index(v) if v in inside else at if v < 0 else len(inside) for v in ends]


_FAR = (0, 5, -3, 2**53, 2**53 + 2, 10**16, 10**16 + 4, 2**54 + 4, 2**60, -(2**60), 2**62, -(2**63), 10**18)


_BINNED: list[Any] = [
    partial(Integer, low=20190000000000001, high=20190000000000040),
    partial(Integer, low=-(2**60) - 1, high=-(2**60) + 9),
    partial(Integer, bins=(0, 2**54 + 1, 2**54 + 3)),
    partial(Integer, bins=(-(2**63), 3, 2**63 - 1)),
    partial(Real, bins=(1e16, 1e16 + 4, 1e17)),
]
_LISTED: list[Any] = [
    partial(Ordered, values=(1e16,), dtype="double"),
    partial(Ordered, values=(1e16, 1e16 + 4), dtype="double"),
    partial(Ordered, values=(2.0**53 + 4,), dtype="double"),
    partial(Ordered, values=(2**54, 2**54 + 1)),
]


@pytest.mark.parametrize(
    "column",
    [
        *(make(name="x", other=True, out_of_domain="other") for make in (*_BINNED, *_LISTED)),
        *(make(name="x", out_of_domain="clip") for make in (*_BINNED, *_LISTED)),
        *(make(name="x", out_of_domain="open") for make in _BINNED),
    ],
    ids=repr,
)
def test_a_number_has_one_code_whatever_it_is_stored_as(column: Column) -> None:
    coder = Coder(column)
    whole = coder(pa.array(_FAR, pa.int64())).tolist()
    assert coder(pa.array([float(v) for v in _FAR])).tolist() == whole
    for beside in (Decimal("0.25"), Decimal("123456789012345678.00")):
        stored = pa.array([*map(Decimal, _FAR), beside], pa.decimal128(38, 2))
        assert coder(stored).tolist()[:-1] == whole
    assert [coder(pa.array([v])).tolist()[0] for v in _FAR] == whole


def test_doubles_beyond_64_bits_are_beyond_all_integers() -> None:
    every = Coder(Integer(name="x", bins=(-(2**63), 3, 2**63 - 1), other=True, out_of_domain="other"))
    assert every(pa.array([-(2.0**63), 2.0**63, -(2.0**64), 2.5, 3.0])).tolist() == [0, 2, 2, 0, 1]


def test_an_integer_that_is_no_double_is_no_double_label() -> None:
    listed = Coder(
        Ordered(name="x", values=(2.0**53, 1e16), dtype="double", other=True, out_of_domain="other")
    )
    values = [2**53, 2**53 + 1, 10**16, 10**16 + 1, 2**63 - 1]
    assert listed(pa.array(values)).tolist() == [0, 2, 1, 2, 2]
    signs = Coder(Integer(name="x", low=0, high=9, missing_values=("1e+16",), **_ODD))
    assert signs(pa.array([10**16 - 1, 10**16, 10**16 + 1])).tolist() == [10, 11, 10]


@pytest.mark.parametrize("gap", [str(2**63), "-9223372036854775809", "18446744073709551616"])
def test_a_sign_for_missing_may_lie_beyond_64_bits(gap: str) -> None:
    coder = Coder(Integer(name="x", low=0, high=9, missing=True, missing_values=(gap,), out_of_domain="clip"))
    assert coder(pa.array([gap, "3", "2.5"])).tolist() == [10, 3, 2]
    assert coder(pa.array([3.0, float(gap)])).tolist()[0] == 3


def test_a_sign_for_missing_is_no_other_integer_beside_a_fraction() -> None:
    sign = 2**53
    coder = Coder(
        Integer(name="x", low=0, high=9, missing=True, missing_values=(str(sign),), out_of_domain="clip")
    )
    for beside in ("1", "1.5"):
        assert coder(pa.array([f"{sign + 1}", f"+{sign}", beside])).tolist() == [9, 10, 1]


def test_infinity_can_be_a_sign_for_missing() -> None:
    ends = pa.array([np.inf, -np.inf, 1.0, 2.0])
    column: dict[str, Any] = {
        "name": "x",
        "missing": True,
        "missing_values": ("inf",),
        "out_of_domain": "clip",
    }
    for coder in (Coder(Integer(low=1, high=2, **column)), Coder(Ordered(values=(1, 2), **column))):
        for array in (ends, ends.cast(pa.float32()), ends.cast(pa.string()), ends.dictionary_encode()):
            assert coder(array).tolist() == [2, 0, 0, 1]
        assert coder(pa.array(["1e400", "Infinity", "-1e400", "9" * 400])).tolist() == [2, 2, 0, 2]
    by_reading = Coder(Integer(name="x", low=1, high=2, missing=True), Reading(null_values=("inf", "-inf")))
    assert by_reading(ends).tolist() == [2, 2, 0, 1]


@pytest.mark.parametrize("beside", ["inf", "0.5"])
def test_a_sign_for_missing_is_no_other_integer_beside_another_sign(beside: str) -> None:
    big = 2**53
    for signs, code in (((str(big),), 3), ((str(big), beside), 3)):
        coder = Coder(
            Integer(
                name="x", low=big - 2, high=big + 4, missing=True, missing_values=signs, out_of_domain="clip"
            )
        )
        assert coder(pa.array([big, big + 1])).tolist() == [7, code]
        assert coder(pa.array([str(big), str(big + 1)])).tolist() == [7, code]
    # 2²⁴ + 1 has no place in float32, and is not taken for 2²⁴ there.
    near = Integer(
        name="x",
        low=2**24 - 2,
        high=2**24 + 2,
        missing=True,
        missing_values=(str(2**24 + 1), beside),
        out_of_domain="clip",
    )
    for kind in (pa.float32(), pa.float64()):
        assert Coder(near)(pa.array([2.0**24], kind)).tolist() == [2]


def test_a_sign_too_large_for_a_float_is_not_its_infinity() -> None:
    column = Integer(name="x", low=1, high=2, missing=True, missing_values=("1e+39",), out_of_domain="clip")
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        assert Coder(column)(pa.array(np.array([np.inf, 1.0]), pa.float64()).cast(kind)).tolist() == [1, 0]


def test_a_sign_for_missing_in_a_column_of_yes_and_no() -> None:
    """A number that means missing does so however it is written, whether or not the labels are numbers."""
    for values, yes in ((("no", "yes"), "yes"), (("0", "1"), "1"), ((False, True), "true")):
        kind = "string" if isinstance(values[0], str) else "bool"
        coder = Coder(Boolean(name="x", dtype=kind, values=values, missing=True, missing_values=("7",)))
        assert coder(pa.array(["7", "+7", "7.0", "8", yes])).tolist() == [2, 2, 2, coder.outside, 1]


def test_words_of_truth_in_greek() -> None:
    coder = Coder(Boolean(name="x", dtype="string", values=("ΨΕΥΔΗΣ", "ΑΛΗΘΗΣ")))
    assert coder(pa.array(["ΑΛΗΘΗΣ", "ΨΕΥΔΗΣ", "αληθησ"])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("dtype", "bits"), [(np.float16, 11), (np.float32, 24), (np.float64, 53)])
def test_ids_in_narrow_floats_are_refused_where_two_become_one(dtype: Any, bits: int) -> None:
    below = np.array([2.0**bits - 1, 1.0], dtype)
    assert owners(pa.array(below), "pid").names().to_pylist() == [str(2**bits - 1), "1"]
    with pytest.raises(EncodeError, match=rf"2\^{bits} and more, where different ids become one"):
        owners(pa.array(np.array([2.0**bits, 1.0], dtype)), "pid")


def test_ids_at_equal_distances_do_not_fall_together() -> None:
    for distance in (102_334_155, 10**11, 2**42):
        start = time.process_time()
        assert _Integers().numbers(np.arange(20_000) * distance, 0).tolist() == list(range(20_000))
        assert time.process_time() - start < 0.5


def test_objects_and_wide_integers_of_polars() -> None:
    """As Arrow, objects would be their addresses: one person under many names."""
    frame = pl.DataFrame(
        {
            "pid": pl.Series(["".join(["p", "1"]), "".join(["p", "1"]), "p2"], dtype=pl.Object),
            "x": pl.Series([7, 2**100, None], dtype=pl.Int128),
        }
    )
    (batch,) = open_source(frame).batches()
    assert owners(batch.column("pid"), "pid").names().to_pylist() == ["p1", "p1", "p2"]
    assert WHOLE(batch.column("x")).tolist() == [7, 10, 11]


def test_years_far_away_in_old_parquet_files(tmp_path: Path) -> None:
    moment = pa.array([dt.datetime(9999, 12, 31), dt.datetime(1950, 1, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"x": moment}), tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    (batch,) = open_source(tmp_path / "t.parquet").batches()
    assert DAY(batch.column("x")).tolist() == [OUTSIDE, 1]


def _breaks() -> Any:
    yield pa.record_batch({"x": ["a"]})
    raise KeyError("secret")


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.RecordBatchReader.from_batches(pa.schema({"x": pa.string()}), _breaks()),
        lambda: pl.LazyFrame({"x": ["a"]}).select(
            pl.col("x").map_elements(lambda v: {}[v], return_dtype=pl.Int64)
        ),
        lambda: pd.Index(["secret"], name="x"),
        lambda: pd.DataFrame({"x": ["a"]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=["k", "k"])),
    ],
    ids=["a reader that breaks", "a function of a lazy frame", "an index", "two indices of one name"],
)
def test_what_others_raise_is_told_in_our_words(make: Any) -> None:
    with pytest.raises(SourceError) as caught:
        list(open_source(make()).batches())
    error: BaseException | None = caught.value
    assert isinstance(error, OpenPriorError) and "secret" not in str(error)
    assert error.__cause__ is None and error.__context__ is None
