"""Files and folders of them as sources: CSV (also gzipped, tab- or semicolon-separated) and Parquet.

A CSV is read as text, every column, so that private values never decide a type; it streams block by block.
Parquet streams a row group at a time. Arrow's own messages quote the row that broke, so they are never
passed on: errors here name the file, the column and the remedy, and nothing that was in a row.
"""

import contextlib
import copy
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from openprior.errors import SourceError
from openprior.given import path_of
from openprior.schema.columns import BLANKS, is_string
from openprior.tables.formats import open_office_file
from openprior.tables.source import BATCH_ROWS, Source, select

__all__ = ["open_path", "open_split"]

_BLOCK = 4 << 20
_PART_ROWS = 1 << 20
_SUFFIXES = r"(\.(csv|tsv|txt|parquet|pq|data))?(\.gz)?$"


def open_path(path: str | os.PathLike[str]) -> Source:
    """The source at a path: a CSV or Parquet file, a folder of one of the two, or a file of another program."""
    place = path_of("a table", path, error=SourceError)
    try:
        if place.is_dir():
            return _Folder(place)
        if place.exists() and not place.is_file():
            # A pipe would wait for a writer, and could be read once only.
            raise SourceError(f"{path} is a pipe or a device; save what it gives in a file, and name that")
        return open_office_file(place) or _open_file(place)
    except FileNotFoundError:
        raise SourceError(f"there is no file {path}; check the path") from None
    except OSError as error:
        what = error.strerror or "it is damaged"
        raise SourceError(f"cannot open {path}: {what}; check the path and its permissions") from None


def open_split(path: str) -> tuple[Source, list[Source]]:
    """The source at a path, and sources of its parts: files, and groups of rows of Parquet files. They can be pickled
    and read apart, wherever the files are seen under the same path."""
    source: Any = open_path(path)
    return source, source.split()


def _open_file(path: Path) -> "_Csv | _Parquet":
    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        raise SourceError(f"{path} is empty, without even a header; check that it was written")
    if start == b"PAR1":
        return _Parquet(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        raise SourceError(f"{path} is not a Parquet file; write it again or rename it")
    return _Csv(path, zipped=start[:2] == b"\x1f\x8b")


def _stem(path: Path) -> str:
    return re.sub(_SUFFIXES, "", path.name, flags=re.IGNORECASE) or path.name


class _Csv:
    is_text = True
    known_rows = None

    def __init__(self, path: Path, *, zipped: bool) -> None:
        self.paths = (path,)
        self.name, self._path, self._zipped = _stem(path), path, zipped
        self._separator, self.columns = self._header()

    def _header(self) -> tuple[str, tuple[str, ...]]:
        """The separator and the names, from the first line only."""
        path = self._path
        options = ["\t"] if ".tsv" in path.suffixes else [",", ";", "\t", "|"]
        rows: dict[str, list[str]] = {}
        # Errors are raised outside the handlers: Python keeps what was being handled, and that holds the row.
        problem = ""
        try:
            with gzip.open(path) if self._zipped else path.open("rb") as file:
                for option in options:
                    file.seek(0)
                    # A quoted name may hold a line break; csv asks for as many lines as it needs.
                    with contextlib.suppress(csv.Error, StopIteration):
                        rows[option] = next(csv.reader(_lines(file), delimiter=option, strict=True))
        except UnicodeDecodeError:
            problem = (
                f"the header of {path} is not UTF-8 text; if the file is compressed or of another format, unpack it or "
                "rename it, else convert it to UTF-8"
            )
        except (EOFError, zlib.error, gzip.BadGzipFile):
            problem = f"{path} is damaged (its compressed data ends early); write it again"
        if not rows and not problem:
            problem = f"{path} has no header line that can be read; add one with the column names"
        if problem:
            raise SourceError(problem)
        # The comma wins unless it finds one column where another separator finds several.
        best = max(rows, key=lambda o: len(rows[o]))
        best = "," if len(rows.get(",", ())) > 1 else best
        names = tuple(name.strip(BLANKS) for name in rows[best])
        _check_header(path, names)
        return best, names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        text = pa.dictionary(pa.int32(), pa.string())
        problem = ""
        try:
            with pa.input_stream(str(self._path), compression="gzip" if self._zipped else None) as stream:
                yield from pacsv.open_csv(
                    stream,
                    read_options=pacsv.ReadOptions(
                        block_size=_BLOCK, column_names=self.columns, skip_rows_after_names=1
                    ),
                    parse_options=pacsv.ParseOptions(
                        delimiter=self._separator,
                        newlines_in_values=True,
                        ignore_empty_lines=len(self.columns) > 1,  # of one column, an empty line is a row
                    ),
                    convert_options=pacsv.ConvertOptions(
                        column_types=dict.fromkeys(chosen, text),
                        strings_can_be_null=False,
                        include_columns=chosen,
                    ),
                )
        except FileNotFoundError:
            problem = _gone(self._path)
        except (pa.ArrowException, OSError) as error:
            # Names that the caller gave are its own words; the others may be somebody's row without a header.
            problem = self._remedy(str(error), columns or ())
        if problem:
            raise SourceError(problem)

    def split(self) -> list[Source]:
        # A quoted value may hold a line break, so no place but the start is known to begin a row.
        return [self]

    def _remedy(self, message: str, named: Sequence[str]) -> str:
        """Our words for Arrow's complaint, without the row that it quotes."""
        path = self._path
        if re.search(r"Expected \d+ columns", message):
            return (
                f"{path} has a row with more or fewer fields than its {len(self.columns)} columns; "
                "check the separator, the quotes and the header"
            )
        column = re.search(r"column #(\d+)", message)
        if "UTF8" in message or "UTF-8" in message:
            where = ""
            if column:
                name = self.columns[int(column[1])]
                where = f" in column '{name}'" if name in named else f" in column {int(column[1]) + 1}"
            return f"{path} has text{where} that is not UTF-8; convert the file to UTF-8"
        if "straddling" in message or "block" in message:
            return f"{path} has a row of over {_BLOCK >> 20} MB; check for a quote that is never closed"
        if self._zipped:
            return f"{path} is damaged (its compressed data cannot be read); write it again"
        return f"{path} cannot be read as CSV; check the separator and the quotes"


def _gone(path: Path) -> str:
    return f"there is no file {path} when it is read; put it where every machine that reads it sees it"


def _lines(file: gzip.GzipFile | io.BufferedReader) -> Iterator[str]:
    """Line by line and no further, so that what is wrong with a later row is not blamed on the header."""
    code = "utf-8-sig"
    while raw := file.readline(_BLOCK):
        yield raw.decode(code)
        code = "utf-8"


def _check_header(path: Path, names: tuple[str, ...]) -> None:
    """Refuse a header that is none. Names are given by position: without a header they are somebody's row."""
    if not any(names):
        raise SourceError(f"{path} starts with a blank line; put the column names there")
    first: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in first:
            raise SourceError(
                f"columns {first[name]} and {position} of {path} have the same name; "
                "rename one, or add the header line if there is none"
            )
        first[name] = position
    numbers = [float(name) for name in names if re.fullmatch(r"[+-]?\d+(\.\d+)?", name)]
    # Years or 0, 1, 2, … are fine as names and rise; the numbers of a data row hardly ever do.
    if 3 * len(numbers) >= len(names) and sorted(set(numbers)) != numbers:
        raise SourceError(f"{path} seems to have no header line; add one with the column names")


class _Parquet:
    is_text = False

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.paths = _stem(path), path, (path,)
        try:
            about = pq.read_metadata(path)
            schema = about.schema.to_arrow_schema()
        except pa.ArrowException:
            raise self._damaged() from None
        self.known_rows: int | None = about.num_rows
        self.columns: tuple[str, ...] = tuple(schema.names)
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise SourceError(f"{path} has column '{name}' twice; rename one")
        self._texts = [field.name for field in schema if is_string(field.type)]
        self._groups: list[int] | None = None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        texts = [name for name in self._texts if name in chosen]
        try:
            with pq.ParquetFile(
                self._path,
                read_dictionary=texts,
                pre_buffer=False,
                memory_map=True,
                coerce_int96_timestamp_unit="us",  # nanoseconds would turn the year 9999 into 1816
            ) as file:
                # One row group after another: a whole-file iterator may keep earlier groups buffered.
                for group in range(file.num_row_groups) if self._groups is None else self._groups:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=chosen):
                        yield batch.select(chosen)
        except FileNotFoundError:
            raise SourceError(_gone(self._path)) from None
        except (pa.ArrowException, OSError):
            raise self._damaged() from None

    def split(self) -> list[Source]:
        try:
            with pq.ParquetFile(self._path) as file:
                rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        except (pa.ArrowException, OSError):
            raise self._damaged() from None
        groups: list[list[int]] = []
        room = 0
        for group, n in enumerate(rows):
            if not groups or room < n:
                groups.append([])
                room = _PART_ROWS
            groups[-1].append(group)
            room -= n
        return [self._only(some) for some in groups]

    def _only(self, groups: list[int]) -> Source:
        part = copy.copy(self)
        part._groups, part.known_rows = groups, None
        return part

    def _damaged(self) -> SourceError:
        return SourceError(f"{self._path} cannot be read as Parquet; it may be damaged, write it again")


class _Folder:
    """The files of a folder one after another, in the order of their names."""

    def __init__(self, path: Path) -> None:
        self.name = path.resolve().name
        files = sorted(f for f in path.iterdir() if f.is_file() and not f.name.startswith((".", "_")))
        kinds: dict[str, list[Path]] = {"csv": [], "parquet": []}
        for file in files:
            ending = re.search(r"\.(csv|tsv|parquet|pq)(\.gz)?$", file.name.lower())
            if ending:
                kinds["parquet" if ending[1] in ("parquet", "pq") else "csv"].append(file)
        if kinds["csv"] and kinds["parquet"]:
            raise SourceError(f"folder {path} has CSV and Parquet files; keep one kind, or name one file")
        self._files: list[Any] = [_open_file(file) for file in kinds["csv"] or kinds["parquet"]]
        if not self._files:
            raise SourceError(f"folder {path} has no CSV or Parquet files; check the path")
        self.columns: tuple[str, ...] = self._files[0].columns
        self.is_text: bool = self._files[0].is_text
        self.paths = tuple(file._path for file in self._files)
        rows = [file.known_rows for file in self._files]
        self.known_rows = None if None in rows else sum(rows)
        for file in self._files:
            if set(file.columns) != set(self.columns):
                raise SourceError(
                    f"{file._path} has other columns than the files before it; give all the same"
                )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        for file in self._files:
            yield from file.batches(chosen)

    def split(self) -> list[Source]:
        return [part for file in self._files for part in file.split()]
