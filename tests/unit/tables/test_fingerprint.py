"""Fingerprints: a value has one meaning in every format, and other values have others."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from openprior.tables.fingerprint import Fingerprint, fingerprint
from openprior.tables.source import open_source


def mark(value: Any, kind: pa.DataType | None = None) -> Fingerprint:
    array = value if isinstance(value, pa.Array) else pa.array([value], kind)
    return fingerprint(open_source(pa.table({"a": array})), ["a"])


MEANINGS: dict[str, list[Any]] = {
    "seven": [
        7,
        7.0,
        "7",
        " 7",
        "007",
        "7.0",
        pa.array(["7"]).dictionary_encode(),
        pa.array([7], pa.uint8()),
    ],
    "minus seven": [-7, "-7", -7.0],
    "a tenth": [0.1, "0.1", ".10", pa.array([0.1], pa.float32())],
    "large": [2**53 + 1, str(2**53 + 1)],
    "next": [2**53 + 2, str(2**53 + 2)],
    "missing": [None, "", "NA", float("nan"), pa.nulls(1), pa.array([None], pa.date32())],
    "true": [True, "true", "TRUE", 1],
    "day": [dt.date(2020, 1, 2), "2020-01-02", dt.datetime(2020, 1, 2), "2020-01-02T00:00:00"],
    "half past ten": [dt.time(10, 30), "10:30", "10:30:00"],
    "word": ["north", " north ", pa.array(["north"], pa.large_string())],
    "other word": ["North"],
    "infinite": [float("inf"), "inf"],
}


def test_one_meaning_one_mark() -> None:
    marks = {name: [mark(value) for value in values] for name, values in MEANINGS.items()}
    for name, found in marks.items():
        assert len(set(found)) == 1, name
    assert len({found[0] for found in marks.values()}) == len(MEANINGS)


def test_rows_are_mixtures_and_tables_sums() -> None:
    def of(**columns: list[Any]) -> Fingerprint:
        return fingerprint(open_source(pa.table(columns)), list(columns))

    base = of(a=[1, 2], b=[3, 4])
    assert base.in_any_order == of(a=[2, 1], b=[4, 3]).in_any_order
    assert base.in_this_order != of(a=[2, 1], b=[4, 3]).in_this_order
    assert base.in_any_order != of(a=[1, 2], b=[4, 3]).in_any_order
    assert base.in_any_order != of(a=[3, 4], b=[1, 2]).in_any_order
    assert of(a=[1, 1]).in_any_order != of(a=[2, 2]).in_any_order
    assert base.rows == 2


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_batches_do_not_matter(size: int) -> None:
    rows = pa.table({"a": list(range(50)), "b": [f"w{i % 7}" for i in range(50)]})
    parts = pa.Table.from_batches(rows.to_batches(max_chunksize=size))
    assert fingerprint(open_source(parts), ["a", "b"]) == fingerprint(open_source(rows), ["a", "b"])
