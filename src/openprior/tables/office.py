"""Files of other programs by how their names end, and the extra that reads them.

What is neither CSV, Parquet nor listed here has no reader. The libraries come with the extra `files` and are imported
only where such a file is opened; without them the message says what to install.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openprior.errors import SourceError
from openprior.tables.source import Source

__all__ = ["library", "open_office_file"]


def library(name: str, package: str, purpose: str) -> Any:
    """A library of the extra `files`, or what to do without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        problem = f"{purpose} needs {package}; install openprior[files]"
    raise SourceError(problem)


def open_office_file(path: Path) -> Source | None:
    """A workbook or a file of a statistics program as a source; None if the name is of no such file.

    A sheet may stand behind the name of a workbook: book.xlsx#Sheet 2.
    """
    if path.suffix.lower() in _DATABASES and path.is_file():
        _refuse_database(path)
    book, sheet = _sheet(path)
    opener = _OPENERS.get(book.suffix.lower())
    return None if opener is None else opener(book, sheet)


def _sheet(path: Path) -> tuple[Path, str | None]:
    """The workbook, and the sheet that the path names; a file may really be called so, then it names none."""
    whole = os.fspath(path)
    if path.exists():
        return path, None
    for suffix in _WORKBOOKS:
        end = whole.lower().find(f"{suffix}#")
        if end >= 0:
            end += len(suffix)
            return Path(whole[:end]), whole[end + 1 :]
    return path, None


def _refuse_database(path: Path) -> None:
    """A database is a file of many tables: one of them must be named, and of which kind it is."""
    with path.open("rb") as file:
        start = file.read(16)
    kind = "sqlite" if start.startswith(b"SQLite") else "duckdb" if start[8:12] == b"DUCK" else None
    if kind is not None:
        raise SourceError(f"{path} is a database; name a table in it: {kind}:{path}#TABLE")


def _workbook(path: Path, sheet: str | None) -> Source:
    from openprior.tables.workbook import Workbook

    return Workbook(path, sheet)


def _statistics(path: Path, sheet: str | None) -> Source:
    from openprior.tables.statistics_file import StatisticsFile

    return StatisticsFile(path)


_WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_DATABASES = (".db", ".duckdb", ".ddb", ".sqlite", ".sqlite3")
_STATISTICS = (".sav", ".zsav", ".por", ".sas7bdat", ".xpt", ".dta")
_OPENERS: dict[str, Callable[[Path, str | None], Source]] = {
    **dict.fromkeys(_WORKBOOKS, _workbook),
    **dict.fromkeys(_STATISTICS, _statistics),
}
