"""Parquet files hold what is in the table: no page has room that is filled with what memory held before."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import openprior as op
from openprior.releases.parquet_files import parquet_writer, write_parquet
from tests.parquet_slack import slack

WORDS = ["other", "yes", "other", "a much longer word", "missing", "a much longer word", "other"]
FLAT = pa.DictionaryArray.from_arrays(
    pa.array([2, 0, None, 6, 5, 1, 3, 4], pa.int32()), pa.array(WORDS, pa.string())
)
LISTS = pa.ListArray.from_arrays(pa.array([0, 2, 2, None, 8], pa.int32()), FLAT)
TABLES = {
    "flat": pa.table({"x": FLAT, "n": pa.array(range(8))}),
    "lists": pa.table({"x": LISTS}),
    "a slice": pa.table({"x": LISTS.slice(1)}),
    "chunks": pa.table({"x": pa.chunked_array([FLAT, FLAT.slice(3)])}),
    "bytes": pa.table({"x": FLAT.cast(pa.dictionary(pa.int8(), pa.string()))}),
    "nothing": pa.table({"x": LISTS.slice(0, 0)}),
}


@pytest.mark.parametrize("name", TABLES)
def test_dictionaries_that_name_a_value_twice_leave_no_room(tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    write_parquet(table, tmp_path / "whole.parquet")
    with parquet_writer(table.schema, tmp_path / "parts.parquet") as write:
        write(table)
        write(table)
    for file, wanted in (("whole", table), ("parts", pa.concat_tables([table, table]))):
        path = tmp_path / f"{file}.parquet"
        assert not any(slack(path).values())
        read = parquet.read_table(path)
        assert read.to_pydict() == wanted.to_pydict() and read.schema.equals(wanted.schema)


def test_room_would_be_seen(tmp_path: Path) -> None:
    """What Arrow writes by itself; if this fails, it has been mended there, and `_distinct` can go."""
    for name in ("flat", "lists"):
        parquet.write_table(TABLES[name], tmp_path / "x.parquet")
        (room,) = slack(tmp_path / "x.parquet").values()
        assert len(room) == sum(4 + len(w) for w in WORDS) - sum(4 + len(w) for w in set(WORDS))


@pytest.mark.parametrize("mechanism", [op.Mst(), op.Mwem(rounds=3), op.Ide(queries=("prefixes(a)",))])
def test_no_file_of_a_release_has_any(tmp_path: Path, mechanism: Any) -> None:
    rng = np.random.default_rng(0)
    schema = op.Schema.from_sizes({"a": 3, "b": 3, "c": 2})  # the labels 0, 1 and 2 again and again
    private, public = (
        pa.table({name: rng.integers(0, schema[name].size, 200) for name in "abc"}) for _ in range(2)
    )
    made = op.release(
        private, public, schema=schema, workload=2, epsilon=1.0, delta=1e-6, mechanism=mechanism, seed=1,
        out=tmp_path / "out",
    )  # fmt: skip
    files = list((tmp_path / "out").rglob("*.parquet"))
    assert {f.name for f in files} == {"synthetic.parquet", "answers.parquet", "measurements.parquet"}
    found = [slack(file) for file in files]
    assert any(found) and not any(room for columns in found for room in columns.values())
    assert op.open_release(tmp_path / "out").answers().equals(made.answers())
