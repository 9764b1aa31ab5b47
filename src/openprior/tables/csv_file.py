"""CSV files: with commas, semicolons, tabs or bars, in any encoding, also compressed.

Every column is read as text, so that private values never decide a type; the file streams block by block. Arrow's own
messages quote the row that broke, and a codec's hold the bytes, so neither is ever passed on: errors here name the
file, the column and the remedy, and nothing that was in a row.
"""

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from openprior.errors import SourceError
from openprior.schema.columns import BLANKS
from openprior.schema.reading_rules import Reading
from openprior.tables.naming import gone, stem, told
from openprior.tables.packed import BROKEN, is_packed, unpacked
from openprior.tables.source import Source, select

__all__ = ["CsvFile"]

_BLOCK = 4 << 20
_MARK = "\ufeff"
"""The mark of byte order, which some encodings leave where it was."""
_SAY = "say which with --encoding (latin-1, say) or under [reading] in the schema"


class CsvFile:
    """One CSV file as a source."""

    is_text = True
    known_rows = None

    def __init__(self, path: Path, reading: Reading) -> None:
        self.paths = (path,)
        self.name, self._path, self._reading = stem(path), path, reading
        with path.open("rb") as file:
            self._packed = is_packed(file.read(4))
        self._is_utf8 = codecs.lookup(reading.encoding).name in ("utf-8", "utf-8-sig")
        self._delimiter, self.columns, self._ends_there = self._header()

    def _header(self) -> tuple[str, tuple[str, ...], bool]:
        """The delimiter and the names, from the first line only; and whether not even that line has an end."""
        path, shown = self._path, told(self._path)
        if self._reading.delimiter is not None:
            options = [self._reading.delimiter]
        else:
            options = ["\t"] if ".tsv" in path.suffixes else [",", ";", "\t", "|"]
        rows: dict[str, tuple[list[str], bool]] = {}
        # Errors are raised outside the handlers: Python keeps what was being handled, and that holds the row.
        problem = ""
        try:
            for option in options:
                with unpacked(path) as stream, contextlib.suppress(csv.Error, StopIteration):
                    rows[option] = _first_row(self._lines(stream), option)
        except UnicodeError:
            problem = self._not_decoded(f"the header of {shown}")
        except _NulError:
            problem = (
                f"the header of {shown} has a NUL in it, so it is no text in {self._reading.encoding}; if it is in "
                f"another encoding, {_SAY}, else save it anew"
            )
        except BROKEN:
            problem = self._damaged()
        if not rows and not problem:
            problem = f"{shown} has no header line that can be read; add one with the column names"
        if problem:
            raise SourceError(problem)
        # The comma wins unless it finds one column where another separator finds several.
        best = max(rows, key=lambda o: len(rows[o][0]))
        best = "," if "," in rows and len(rows[","][0]) > 1 else best
        names = tuple(name.removeprefix(_MARK).strip(BLANKS) for name in rows[best][0])
        _check_header(shown, names)
        return best, names, rows[best][1]

    def _lines(self, stream: Any) -> Iterator[str]:
        """Line by line and no further, so that what is wrong with a later row is not blamed on the header."""
        file = io.BufferedReader(stream)
        if self._is_utf8:
            code = "utf-8-sig"
            while raw := file.readline(_BLOCK):
                yield _without_nul(raw.decode(code))
                code = "utf-8"
            return
        # A byte at a time: in UTF-16 the byte of a line's end is not its last one.
        decoder, line = codecs.getincrementaldecoder(self._reading.encoding)(), ""
        while byte := file.read(1):
            line += decoder.decode(byte)
            if line.endswith("\n") or len(line) == _BLOCK:
                yield _without_nul(line)
                line = ""
        yield _without_nul(line + decoder.decode(b"", final=True))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        if self._ends_there:
            return  # a header without even a line's end, of which Arrow would want to know more
        text = pa.dictionary(pa.int32(), pa.string())
        problem = ""
        try:
            with unpacked(self._path) as stream:
                yield from pacsv.open_csv(
                    stream,
                    read_options=pacsv.ReadOptions(
                        block_size=_BLOCK,
                        column_names=self.columns,
                        skip_rows_after_names=1,
                        encoding="utf8" if self._is_utf8 else self._reading.encoding,
                    ),
                    parse_options=pacsv.ParseOptions(
                        delimiter=self._delimiter,
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
            problem = gone(self._path)
        except UnicodeError:
            problem = self._not_decoded(f"{told(self._path)} has text that")
        except BROKEN as error:
            # Names that the caller gave are its own words; the others may be somebody's row without a header.
            problem = self._remedy(str(error), columns or ())
        if problem:
            raise SourceError(problem)

    def split(self) -> list[Source]:
        # A quoted value may hold a line break, so no place but the start is known to begin a row.
        return [self]

    def _remedy(self, message: str, named: Sequence[str]) -> str:
        """Our words for Arrow's complaint, without the row that it quotes."""
        path = told(self._path)
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
            return self._not_decoded(f"{path} has text{where} that")
        if "straddling" in message or "block" in message:
            return f"{path} has a row of over {_BLOCK >> 20} MB; check for a quote that is never closed"
        if self._packed:
            return self._damaged()
        return f"{path} cannot be read as CSV; check the separator and the quotes"

    def _not_decoded(self, what: str) -> str:
        if self._is_utf8:
            return f"{what} is not UTF-8; if it is text in another encoding, {_SAY}, else save it anew"
        return f"{what} is not {self._reading.encoding}; find out which encoding it has, and say that"

    def _damaged(self) -> str:
        return (
            f"{told(self._path)} is damaged (its compressed data cannot be read to the end); write it again"
        )


def _first_row(lines: Iterator[str], delimiter: str) -> tuple[list[str], bool]:
    """The first row, and whether its last line has no end."""
    given: list[str] = []

    def noted() -> Iterator[str]:
        for line in lines:
            given.append(line)
            yield line

    # A quoted name may hold a line break; csv asks for as many lines as it needs.
    row = next(csv.reader(noted(), delimiter=delimiter, strict=True))
    return row, not given[-1].endswith("\n")


class _NulError(Exception):
    """A NUL where names should be."""


def _without_nul(line: str) -> str:
    if "\0" in line:
        raise _NulError
    return line


def _check_header(path: str, names: tuple[str, ...]) -> None:
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
