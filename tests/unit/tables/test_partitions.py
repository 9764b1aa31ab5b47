"""Folders as Hive and Spark write them: keys in the folders' names are columns."""

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openprior import Schema
from openprior.errors import SourceError
from openprior.tables.encode import encode_table
from openprior.tables.files import open_split
from openprior.tables.source import Source, open_source

AREAS = ["N/1", "S x", None, "é=ü"]
TABLE = pa.table({"month": ["01", "11"] * 10, "area": AREAS * 5, "n": range(20)})


def read(source: Source, *columns: str) -> list[tuple[object, ...]]:
    table = pa.Table.from_batches(source.batches(columns))
    return list(zip(*(table[c].to_pylist() for c in columns), strict=True))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_keys_are_columns_of_text(tmp_path: Path) -> None:
    pq.write_to_dataset(TABLE, tmp_path, partition_cols=["month", "area"])
    source = open_source(tmp_path)
    assert source.columns == ("n", "month", "area") and source.known_rows == 20  # type: ignore[attr-defined]
    expected = sorted(TABLE.select(["area", "n", "month"]).to_pylist(), key=lambda row: row["n"])
    assert sorted(read(source, "area", "n", "month"), key=lambda row: row[1]) == [
        tuple(r.values()) for r in expected
    ]
    assert sorted(w for (w,) in read(source, "month")) == ["01"] * 10 + ["11"] * 10  # none but keys
    schema = Schema.draft(tmp_path)
    assert schema["month"].value_labels == ("01", "11")  # 01 is a code, not a number
    counted = encode_table(tmp_path, schema).column("area").tolist()
    assert counted.count(schema["area"].missing_code) == 5


def test_parts_can_be_sent_elsewhere(tmp_path: Path) -> None:
    pq.write_to_dataset(TABLE, tmp_path, partition_cols=["month"])
    whole, parts = open_split(str(tmp_path))
    apart = [row for part in parts for row in read(pickle.loads(pickle.dumps(part)), "month", "n")]
    assert len(parts) == 2 and apart == read(whole, "month", "n")


def test_csv_and_json_in_folders(tmp_path: Path) -> None:
    for kind, name in (("csv", "a.csv"), ("json", "a.jsonl")):
        for year in (2020, 2021):
            text = "n\n1\n" if kind == "csv" else json.dumps({"n": 1}) + "\n"
            write(tmp_path / kind / f"year={year}" / name, text)
        source = open_source(tmp_path / kind)
        assert source.columns == ("n", "year")
        assert [year for (year,) in read(source, "year")] == ["2020", "2021"]
        assert [str(n) for (n, _) in read(source, "n", "year")] == ["1", "1"]


def test_keys_of_json_lines_may_lack_in_some_files_but_not_in_all(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", '{"a": "x"}\n')
    write(tmp_path / "b.jsonl", '{"b": "y"}\n')
    source = open_source(tmp_path)
    assert read(source, "a", "b") == [("x", None), (None, "y")]
    names = '[columns.{}]\nkind = "categorical"\nvalues = ["x"]\nmissing = true\nother = true\n'
    names += 'out_of_domain = "other"\n'
    assert encode_table(tmp_path, Schema.from_toml(names.format("b"))).columns[0].tolist() == [2, 1]
    with pytest.raises(SourceError, match="has a key 'c'"):
        encode_table(tmp_path, Schema.from_toml(names.format("c")))


def test_folders_that_only_group_and_files_that_are_no_part(tmp_path: Path) -> None:
    write(tmp_path / "2020" / "a.csv", "n\n1\n")
    write(tmp_path / "2021" / "deep" / "a.csv", "n\n2\n")
    write(tmp_path / "_temporary" / "a.csv", "n\n3\n")
    write(tmp_path / ".hidden" / "a.csv", "n\n4\n")
    write(tmp_path / "datapackage.json", "{}")
    (tmp_path / "2020" / "up").symlink_to(tmp_path)
    assert read(open_source(tmp_path), "n") == [("1",), ("2",)]


def test_a_folder_of_everything_is_refused_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openprior.tables.partitions._MOST", 5)
    for number in range(3):
        write(tmp_path / str(number) / "a.csv", "n\n1\n")
    with pytest.raises(
        SourceError, match="more than 5 files and folders below it; name the one with the table"
    ):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a=1/x.csv": "n\n1\n", "b=1/x.csv": "n\n1\n"}, "other keys"),
        ({"a=1/x.csv": "n\n1\n", "x.csv": "n\n1\n"}, "other keys"),
        ({"a=1/x.csv": "a\n1\n"}, "column 'a' is in .* and in the names of its folders"),
        ({"a=1/a=2/x.csv": "n\n1\n"}, "the key 'a' twice"),
        ({"=1/x.csv": "n\n1\n"}, "without one"),
        ({"x.csv": "n\n1\n", "y.jsonl": "{}\n"}, "has CSV and JSON files"),
        ({"x.csv": "n\n1\n", "y.csv": "m\n1\n"}, "has other columns"),
        (
            {"x.csv": "n\n1\n", "_delta_log/0.json": "{}"},
            "the log of a Delta table, of whose files only some count",
        ),
        ({"x.txt": "n\n1\n"}, "no CSV, Parquet or JSON files"),
    ],
)
def test_folders_that_are_refused(tmp_path: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(SourceError, match=words):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("x.csv", b"n\n\xff\n"),
        ("x.csv", b"n,m\n1\n"),
        ("x.csv", b"\xff\n1\n"),
        ("x.csv", b"n,n\n1,1\n"),
        ("x.csv", b""),
        ("x.csv.gz", b"\x1f\x8b\x08"),
        ("x.parquet", b"garbage"),
        ("x.parquet", b"PAR1garbage"),
        ("x.jsonl", b"[]"),
        ("x.jsonl", b'{"n": 1}\n{'),
        ("x.jsonl", b'{"n": "\xff"}\n'),
    ],
)
def test_a_value_in_the_name_of_a_folder_is_not_told(tmp_path: Path, name: str, raw: bytes) -> None:
    """A folder's name is as private as the rows in it."""
    path = tmp_path / "illness=zqxsecret" / name
    path.parent.mkdir()
    path.write_bytes(raw)
    with pytest.raises(SourceError, match="illness=…") as refused:
        list(open_source(tmp_path).batches(["n"]))
    assert "zqxsecret" not in str(refused.value)
