"""Files as offices have them: other encodings, compressed, without rows, damaged, or of another program."""

import bz2
import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from openprior import Reading, Schema
from openprior.errors import OpenPriorError, SourceError
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source

SECRET = "zqxsecret"
TEXT = "Straße;n\nGässchen;1\nWeg;2\n"
ROWS = {"Straße": ["Gässchen", "Weg"], "n": ["1", "2"]}


def rows(path: Path, reading: Reading | None = None) -> dict[str, list[object]]:
    source = open_source(path, reading=reading or Reading())
    return pa.Table.from_batches(source.batches()).to_pydict()


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_encodings(tmp_path: Path, encoding: str, packed: str) -> None:
    path = tmp_path / f"t.csv{packed}"
    raw = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert rows(path, Reading(encoding=encoding)) == ROWS
    if not encoding.startswith("utf-8"):
        with pytest.raises(SourceError, match=r"the header of .* --encoding \(latin-1, say\)"):
            open_source(path)


def test_a_mark_of_byte_order_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe" + TEXT.encode("utf-16-le"))
    assert rows(path, Reading(encoding="utf-16-le")) == ROWS
    assert Reading(encoding="UTF8") == Reading()


def test_long_files_in_another_encoding_stream(tmp_path: Path) -> None:
    """A character of several bytes may lie across two blocks."""
    path = tmp_path / "t.csv"
    path.write_bytes(("é\n" + "ßü€\n" * 1_500_001).encode("utf-16"))
    source = open_source(path, reading=Reading(encoding="utf-16"))
    batches = list(source.batches())
    assert len(batches) > 1 and sum(b.num_rows for b in batches) == 1_500_001
    assert {w for b in batches for w in b.column(0).unique().to_pylist()} == {"ßü€"}


def test_what_cannot_be_decoded_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n" + SECRET.encode() + b",\x81\n")
    with pytest.raises(SourceError, match="has text that is not cp1252") as refused:
        rows(path, Reading(encoding="cp1252"))
    assert SECRET not in str(refused.value) and refused.value.__context__ is None


def test_a_delimiter_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b;c\n1,2;3\n")
    assert open_source(path).columns == ("a", "b;c")
    assert rows(path, Reading(delimiter=";")) == {"a,b": ["1,2"], "c": ["3"]}
    assert open_source(path, reading=Reading(delimiter="|")).columns == ("a,b;c",)


def _zip(raw: bytes, *names: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, raw)

    return write


PACKED: dict[str, Callable[[Path], object]] = {
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode())),
    "t.csv.bz2": lambda path: path.write_bytes(bz2.compress(TEXT.encode())),
    "t.csv.zst": lambda path: path.write_bytes(pa.compress(TEXT.encode(), "zstd", asbytes=True)),
    "t.zip": _zip(TEXT.encode(), "t.csv", "__MACOSX/._t.csv"),
    "t.csv": lambda path: path.write_bytes(gzip.compress(TEXT.encode())),  # whatever it is called
}


@pytest.mark.parametrize("name", PACKED)
def test_compressed_files(tmp_path: Path, name: str) -> None:
    PACKED[name](tmp_path / name)
    assert rows(tmp_path / name) == ROWS
    assert open_source(tmp_path / name).name == "t"


@pytest.mark.parametrize("name", PACKED)
def test_damaged_compressed_files(tmp_path: Path, name: str) -> None:
    PACKED[name](tmp_path / name)
    path = tmp_path / f"cut-{name}"
    path.write_bytes((tmp_path / name).read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"is damaged \(its compressed data cannot be read to the end\)"):
        rows(path)


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    _zip(b"a\n1\n", "one.csv", "two.csv")(tmp_path / "t.zip")
    with pytest.raises(SourceError, match="is an archive of 2 files; unpack it"):
        open_source(tmp_path / "t.zip")


@pytest.mark.parametrize("header", ["a", "a,b", 'a,"b\nc"'])
def test_a_header_without_a_line_end_is_a_table_without_rows(tmp_path: Path, header: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(header)
    assert list(open_source(path).batches()) == []
    with pytest.raises(SourceError, match="t is empty; give a table with at least one row"):
        Schema.draft(path)


def test_names_with_line_breaks_and_quotes_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a\n""x""",b\n1,2\n3,4\n')
    schema = Schema.draft(path)
    assert schema.names == ('a\n"x"', "b") and encode_table(path, Schema.from_toml(schema.to_toml())).n == 2


REFUSED: dict[str, tuple[bytes, str]] = {
    "t.xlsx": (b"garbage", "is not a workbook that can be read; open and save it again, or rename it"),
    "t.xls": (b"a,b\n1,2\n", "is not a workbook"),
    "t.sav": (b"garbage", "cannot be read as a .sav file"),
    "t.dta": (b"garbage", "cannot be read as a .dta file"),
    "t.sas7bdat": (b"garbage", "cannot be read as a .sas7bdat file"),
    "t.db": (b"SQLite format 3", "is a database; name a table in it: sqlite:.*#TABLE"),
    "t.orc": (b"ORC and more", "is an ORC file, which is not read here; save the table as CSV or Parquet"),
    "t.pdf": (b"%PDF-1.7", "is a PDF file, which is not read here"),
    "t.parquet": (b"garbage", "is not a Parquet file"),
    "nul.csv": (b"a,\0b\n1,2\n", "the header of .* has a NUL in it"),
    "t.bin": (b"\x80\x81\x82\x83", "is not UTF-8"),
    "t.csv": (b"", "is empty, without even a header"),
    "t.jsonl": (b"", "is empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_something_else(tmp_path: Path, name: str) -> None:
    raw, words = REFUSED[name]
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(SourceError, match=words):
        open_source(tmp_path / name)


def test_a_stream_that_was_read_says_so() -> None:
    table = pa.table({"a": [1, 2, 2]})
    reader = table.to_reader()
    schema = Schema.draft(reader)
    with pytest.raises(SourceError, match="a stream can be read only once"):
        encode_table(reader, schema)
    with pytest.raises(SourceError, match="cannot read rows from a generator"):
        open_source(batch for batch in table.to_batches())
    with pytest.raises(OpenPriorError, match="is empty"):
        Schema.draft(table[:0])  # a table that is empty is not said to have been read
