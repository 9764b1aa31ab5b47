"""Sheets of workbooks (Excel, OpenDocument) as sources: the first row has the names, every other row is one.

A cell is read by its own type: a number, a text, a date, a time, true or false. No type is guessed from a column, so
one changed cell changes one value. An empty cell is missing, and so is one that holds an error (#N/A, #DIV/0!): the
library gives nothing for either. A row without any value is none, as an empty line of a CSV is.

A sheet has at most a million rows and its file can only be read as a whole, so it is kept in memory once it was read.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from openprior.errors import OpenPriorWarning, SourceError
from openprior.schema.columns import BLANKS
from openprior.tables.objects import object_array
from openprior.tables.office import library
from openprior.tables.source import BATCH_ROWS, Source, select

__all__ = ["Workbook"]

_EXACT = 2**53
_SHOWN = 10


class Workbook:
    """One sheet of a workbook: the one that is named, or the first that is not hidden."""

    is_text = False
    known_rows = None

    def __init__(self, path: Path, sheet: str | None = None) -> None:
        self._path, self.paths, self.name = path, (path,), path.stem
        self.part = self._chosen(sheet)
        self._kept: list[pa.RecordBatch] | None = None
        cells = self._sheet()
        self.columns = self._names(next(self._rows(cells, 1), []))
        self._refuse_merged(cells.merged_cell_ranges or ())

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        if self._kept is None:
            self._kept = list(self._read())
        for batch in self._kept if chosen else ():
            yield batch.select(chosen)

    def split(self) -> list[Source]:
        """The parts that can be read apart: one."""
        return [self]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # rows do not travel with it; whoever gets it reads the file

    def _library(self) -> Any:
        return library("python_calamine", "python-calamine", f"reading {self._path.suffix} files")

    def _open(self) -> Any:
        """The workbook. What the library says of a damaged file may quote it, so its words go no further."""
        calamine = self._library()
        with self._path.open("rb"):
            pass  # no file, or one that may not be read: the caller has words for it
        try:
            return calamine.load_workbook(str(self._path))
        except calamine.PasswordError:
            problem = f"{self._path} is protected by a password; save it without one"
        except Exception:  # noqa: BLE001  (the library raises errors of many kinds)
            problem = f"{self._path} is not a workbook that can be read; open and save it again, or rename it"
        raise SourceError(problem)

    def _chosen(self, sheet: str | None) -> str:
        calamine = self._library()
        about = [one for one in self._open().sheets_metadata if one.typ == calamine.SheetTypeEnum.WorkSheet]
        names = [one.name for one in about]
        if sheet is not None:
            if sheet not in names:
                raise SourceError(f"{self._path} has no sheet '{sheet}'; it has {_list(names)}")
            return sheet
        visible: list[str] = [one.name for one in about if one.visible == calamine.SheetVisibleEnum.Visible]
        if not visible:
            raise SourceError(
                f"{self._path} has no sheet with cells that is not hidden; name one: {self._path.name}#SHEET"
            )
        if len(visible) > 1:
            first, others = visible[0], _list(visible[1:])
            warnings.warn(
                f"{self._path.name} has {len(visible)} sheets, and the first, '{first}', is read; to read "
                f"another ({others}) write {self._path.name}#{visible[1]}",
                OpenPriorWarning,
                stacklevel=2,
            )
        return visible[0]

    def _sheet(self) -> Any:
        return self._told(lambda: self._open().get_sheet_by_name(self.part))

    def _rows(self, sheet: Any, most: int | None = None) -> Iterator[list[Any]]:
        """The rows of cells from the first row of the sheet on, at most so many."""
        # From the first cell of the sheet: which cells are empty must not move the others.
        return iter(self._told(lambda: sheet.to_python(skip_empty_area=False, nrows=most)))

    def _told(self, work: Callable[[], Any]) -> Any:
        """What the library gives, or our own words."""
        try:
            return work()
        except SourceError:
            raise
        except Exception:  # noqa: BLE001  (as above)
            problem = f"sheet '{self.part}' of {self._path} cannot be read; open and save it again"
        raise SourceError(problem)

    def _refuse_merged(self, merged: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Refuse cells that several rows share: they would be missing in all but one. (.ods and .xlsb do not tell.)"""
        for (_, left), (bottom, _) in merged:
            if bottom > 0 and left < len(self.columns):
                raise SourceError(
                    f"sheet '{self.part}' of {self._path} has merged cells below its first row, and all but one place "
                    "of each are empty; split them, and fill in every row"
                )

    def _names(self, header: list[Any]) -> tuple[str, ...]:
        """The names of the columns, from the first row alone. They are told by position: without a header they are
        somebody's row."""
        where = f"sheet '{self.part}' of {self._path}"
        names = [_named(cell) for cell in header]
        while names and not names[-1]:
            names.pop()
        if not names:
            raise SourceError(f"the first row of {where} is empty; put the column names there")
        if "" in names:
            raise SourceError(
                f"column {names.index('') + 1} of {where} has no name in the first row; give every column one, in one "
                "row without merged cells or a title above it"
            )
        for position, name in enumerate(names):
            if name in names[:position]:
                raise SourceError(
                    f"columns {names.index(name) + 1} and {position + 1} of {where} have the same name; rename one"
                )
        if not any(isinstance(cell, str) for cell in header):
            raise SourceError(f"{where} seems to have no header row; add one with the column names")
        return tuple(names)

    def _read(self) -> Iterator[pa.RecordBatch]:
        rows = self._rows(self._sheet())
        next(rows)
        width = len(self.columns)
        kept: list[list[Any]] = []
        for row in rows:
            cells = [_value(cell) for cell in row]
            if any(cell is not None for cell in cells[width:]):
                raise SourceError(
                    f"sheet '{self.part}' of {self._path} has a cell beyond its last named column; name its column "
                    "in the first row, or empty it"
                )
            if any(cell is not None for cell in cells):
                kept.append(cells[:width] + [None] * (width - len(cells)))
            if len(kept) == BATCH_ROWS:
                yield self._batch(kept)
                kept = []
        if kept:
            yield self._batch(kept)

    def _batch(self, rows: list[list[Any]]) -> pa.RecordBatch:
        arrays = [object_array(cells) for cells in zip(*rows, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _value(cell: Any) -> Any:
    """A cell's value. Every number of a workbook is a double; a whole one is an integer, as the sheet shows it."""
    if isinstance(cell, float) and cell.is_integer() and 0 < abs(cell) < _EXACT:
        return int(cell)
    if isinstance(cell, float) and str(cell) == "0.0":
        return 0
    return None if cell == "" else cell


def _named(cell: Any) -> str:
    """A header cell as a name: 2024 is the name 2024, not 2024.0."""
    value = _value(cell)
    return "" if value is None else str(value).strip(BLANKS)


def _list(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
