"""Sources: every kind of table, every way a file can be broken, and no row in any message."""

import gzip
import os
import traceback
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from openprior.errors import SourceError
from openprior.tables.source import Source, open_source

TABLE = pa.table({"a": [1, 2, 3], "b c": ["x", None, "z"], "d.e": [0.5, 1.5, 2.5]})


def rows(source: Source, columns: list[str] | None = None) -> dict[str, list[object]]:
    parts = [pa.Table.from_batches([b]) for b in source.batches(columns)]
    out: dict[str, list[object]] = {}
    for part in parts:
        for name, values in part.to_pydict().items():
            out.setdefault(name, []).extend(values)
    return out


class Stream:
    """An object with nothing but the Arrow stream protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def frames() -> dict[str, object]:
    return {
        "arrow": TABLE,
        "batch": TABLE.combine_chunks().to_batches()[0],
        "reader": TABLE.to_reader(),
        "dataset": pads.dataset(TABLE),
        "pandas": TABLE.to_pandas(),
        "polars": pl.from_arrow(TABLE),
        "lazy": pl.from_arrow(TABLE).lazy(),
        "duckdb": duckdb.from_arrow(TABLE),
        "stream": Stream(TABLE),
    }


@pytest.mark.parametrize("kind", list(frames()))
def test_frames_read_twice_and_project(kind: str) -> None:
    source = open_source(frames()[kind])
    assert source.columns == ("a", "b c", "d.e") and source.name == "table" and not source.is_text
    assert rows(source) == TABLE.to_pydict()
    assert rows(source, ["d.e", "a"]) == TABLE.select(["d.e", "a"]).to_pydict()
    assert open_source(source) is source


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "semicolon.csv", "txt"])
def test_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"survey.{ending}"
    if ending == "parquet":
        pq.write_table(TABLE, path)
    else:
        separator = {"tsv": "\t", "semicolon.csv": ";"}.get(ending, ",")
        text = "a,b c,d.e\n1,x,0.5\n2,,1.5\n3,z,2.5\n".replace(",", separator).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    source = open_source(path)
    assert source.name == ("survey.semicolon" if ending == "semicolon.csv" else "survey")
    assert source.columns == ("a", "b c", "d.e")
    expected = {"d.e": ["0.5", "1.5", "2.5"], "b c": ["x", "", "z"]}
    if ending == "parquet":
        expected = TABLE.select(["d.e", "b c"]).to_pydict()
    assert rows(source, ["d.e", "b c"]) == expected
    assert rows(open_source(str(path)), ["d.e", "b c"]) == expected


def test_csv_text_bom_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('﻿"a\nb", c \r\n"1,2","x\ny"\r\nNA,é\r\n'.encode())
    source = open_source(path)
    assert source.columns == ("a\nb", "c") and source.is_text
    assert rows(source) == {"a\nb": ["1,2", "NA"], "c": ["x\ny", "é"]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_quoted_names_with_every_separator(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(separator.join(['"a"', '"b\n,c"']) + "\n" + separator.join(["1", '"x"']) + "\n")
    source = open_source(path)
    assert source.columns == ("a", "b\n,c") and rows(source) == {"a": ["1"], "b\n,c": ["x"]}


def test_csv_streams_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1234567,abcdefgh\n" * 600_000)
    batches = list(open_source(path).batches(["b"]))
    assert len(batches) > 1 and sum(b.num_rows for b in batches) == 600_000


def test_header_only_is_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    source = open_source(path)
    assert source.columns == ("a", "b") and sum(b.num_rows for b in source.batches()) == 0


BROKEN = {
    "more or fewer fields": b"a,b\n1,2\nSECRET,2,3\n",
    "more or fewer fields than its 2": b"a,b\n1,2\nSECRET\n",
    "that is not UTF-8": b"a,b\n1,SECRET\xff\n",
    "header of .* is not UTF-8": b"a,\xff\n1,SECRET\n",
    "columns 1 and 3 of": b"SECRET,b,SECRET\n1,2,3\n",
    "is empty": b"",
    "blank line": b"\nSECRET\n",
    "no header line": b"39,SECRET,77516,13\n50,x,83311,13\n",
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_csv_is_refused_without_quoting_it(tmp_path: Path, message: str) -> None:
    path = tmp_path / "private.csv"
    path.write_bytes(BROKEN[message])
    with pytest.raises(SourceError, match=message) as caught:
        list(open_source(path).batches())
    text = str(caught.value)
    assert "private.csv" in text and "\n" not in text and "SECRET" not in text
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_numbers_in_order_are_fine_as_names(tmp_path: Path) -> None:
    path = tmp_path / "years.csv"
    path.write_text("2017,2018,2019\n1,2,3\n")
    assert open_source(path).columns == ("2017", "2018", "2019")


def test_damaged_files(tmp_path: Path) -> None:
    zipped = tmp_path / "t.csv.gz"
    text = "a,b\n" + "\n".join(f"{i},{i * i}" for i in range(100_000))
    zipped.write_bytes(gzip.compress(text.encode())[:-2000])
    with pytest.raises(SourceError, match="damaged"):
        list(open_source(zipped).batches())
    zipped.write_bytes(gzip.compress(b"")[:12])
    with pytest.raises(SourceError, match="damaged"):
        open_source(zipped)
    parquet = tmp_path / "t.parquet"
    parquet.write_bytes(b"PAR1 nonsense")
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        open_source(parquet)
    parquet.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(SourceError, match="is not a Parquet file"):
        open_source(parquet)


def test_missing_things(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(SourceError, match="has no CSV, Parquet or JSON files"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="cannot read rows from 3; give"):
        open_source(3)
    with pytest.raises(SourceError, match="has no column 'z'"):
        open_source(TABLE).batches(["z"])
    for name in ("a\0b", "\ud800", ""):
        with pytest.raises(SourceError, match="which no file can be called"):
            open_source(name)
    os.mkfifo(tmp_path / "pipe")  # which nobody writes to: it would be waited for
    with pytest.raises(SourceError, match=r"pipe is a pipe or a device; save what it gives in a file"):
        open_source(tmp_path / "pipe")


class _Broken:
    """A stream that quotes a row when it is asked for."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("zqxsecret")


def test_what_others_raise_goes_no_further() -> None:
    lazy = pl.LazyFrame({"a": [1]}).select("zqxsecret")
    for data, words in (
        (_Broken(), "cannot read rows from a _Broken; give"),
        (pd.Index([1], name="zqxsecret"), "cannot read rows from an Index; give"),
        (lazy, r"the table cannot be opened \(ColumnNotFoundError\); check that polars itself can read it"),
    ):
        with pytest.raises(SourceError, match=words) as caught:
            open_source(data)
        assert "zqxsecret" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None


def test_folders(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(TABLE.slice(i, 1), tmp_path / f"part-{i}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.md").write_text("hello")
    source = open_source(tmp_path)
    assert source.name == tmp_path.name and rows(source) == TABLE.to_pydict()
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(SourceError, match="CSV and Parquet"):
        open_source(tmp_path)


def test_folder_of_csvs_with_columns_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n4,3\n")
    assert rows(open_source(tmp_path)) == {"a": ["1", "3"], "b": ["2", "4"]}
    (tmp_path / "3.csv").write_text("a,c\n4,3\n")
    with pytest.raises(SourceError, match=r"3.csv has other columns"):
        open_source(tmp_path)


def test_duplicate_columns() -> None:
    frame = pd.DataFrame(np.zeros((1, 2)), columns=["a", "a"])
    with pytest.raises(SourceError, match="column 'a' twice"):
        open_source(frame)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for data in (twice, twice.to_reader()):
        with pytest.raises(SourceError, match="column 'a' twice"):
            open_source(data)


def test_every_value_of_a_pandas_column_of_objects_keeps_its_type() -> None:
    frame = pd.DataFrame({"m": pd.Series([7, "N", None], dtype=object), 3: [1, 2, 3]})
    source = open_source(frame)
    assert source.columns == ("m", "3")
    assert rows(source) == {"m": [7, "N", None], "3": [1, 2, 3]}


def test_parquet_reads_text_as_dictionaries_and_projects(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": ["a", "b"] * 500, "i": range(1000)}), path, row_group_size=300)
    batches = list(open_source(path).batches(["s"]))
    assert len(batches) == 4 and pa.types.is_dictionary(batches[0].column(0).type)
    assert batches[0].schema.names == ["s"]


def test_a_named_pandas_index_is_a_column() -> None:
    frame = pd.DataFrame({"g": ["a", "b"], "x": [1, 2]})
    assert set(open_source(frame.set_index("g")).columns) == {"g", "x"}
    assert open_source(frame).columns == ("g", "x")
    twice = frame.set_index(pd.Index([5, 6], name="x"))
    assert open_source(twice).columns == ("g", "x")


def test_an_empty_line_of_a_single_column_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("a\n1\n\n2\n")
    assert rows(open_source(path)) == {"a": ["1", "", "2"]}
    path.write_text("a,b\n1,2\n\n3,4\n\n")
    assert rows(open_source(path)) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_pandas_types_that_arrow_has_not() -> None:
    frame = pd.DataFrame(
        {
            "period": pd.Series(pd.period_range("2020-01", periods=2, freq="M")),
            "interval": pd.Series(pd.IntervalIndex.from_breaks([0, 1, 2])),
            "cut": pd.cut(pd.Series([0.5, 1.5]), [0, 1, 2]),
            "mixed": pd.Series([1, "a"], dtype=object).astype("category"),
            "sparse": pd.Series([0.0, 1.0], dtype="Sparse[float]"),
            "complex": pd.Series([1j, 2j]),
        }
    )
    assert rows(open_source(frame)) == {
        "period": ["2020-01", "2020-02"],
        "interval": ["(0, 1]", "(1, 2]"],
        "cut": ["(0, 1]", "(1, 2]"],
        "mixed": [1, "a"],
        "sparse": [0.0, 1.0],
        "complex": ["1j", "2j"],
    }


def test_what_arrow_says_of_a_file_is_not_kept_as_a_context(tmp_path: Path) -> None:
    """It quotes the value that it could not read, its row, and the folder `illness=zqxcanary`."""
    (tmp_path / "private.csv").write_text("a\n" + "1\n" * 600_000 + "zqxcanary\n")
    folder = tmp_path / "clinic" / "illness=zqxcanary"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), folder / "part.parquet")
    clinic, part = open_source(tmp_path / "clinic"), open_source(folder / "part.parquet")
    (folder / "part.parquet").unlink()
    tries = (
        lambda: list(open_source(pads.dataset(tmp_path / "private.csv", format="csv")).batches()),
        lambda: list(clinic.batches()),
        part.split,  # type: ignore[attr-defined]
        lambda: open_source(folder / "part.parquet"),
    )
    for attempt in tries:
        with pytest.raises(SourceError) as caught:
            attempt()
        assert caught.value.__context__ is None and caught.value.__cause__ is None
