"""SQLite files: every value by its own type, because a column of SQLite may hold values of several.

Python brings the reader, so this needs no extra. (Drivers that stream Arrow take a column's type from its first rows:
there, one row would decide what the others are.)
"""

import sqlite3
from collections.abc import Generator, Sequence
from pathlib import Path

import pyarrow as pa

from openprior.tables.objects import object_array
from openprior.tables.query import column_of, selected
from openprior.tables.source import BATCH_ROWS

__all__ = ["SqliteFile"]

_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite#_%' ESCAPE '#'"
)
_PROBLEMS = (
    ("not a database", "the file is no SQLite database; check its name"),
    ("locked", "another program is writing to it; wait until it is done"),
    ("no such table", "there is no such table in it; check the spelling"),
    ("no such column", "there is no such column in it; check the spelling"),
    ("no such function", "there is no such function in SQLite; try the query there"),
    ("syntax error", "it is not one query in SQLite's SQL; try it there"),
    ("malformed", "the file is damaged; write it again"),
)


class SqliteFile:
    """The tables of a SQLite file."""

    def __init__(self, path: str) -> None:
        self._address = Path(path).absolute().as_uri() + "?mode=ro"

    def connect(self) -> sqlite3.Connection:
        """A connection that cannot write."""
        # Counting threads take turns on one pass.
        connection = sqlite3.connect(self._address, uri=True, check_same_thread=False)
        connection.text_factory = _text
        return connection

    def tables(self, connection: sqlite3.Connection) -> list[str]:
        """Tables and views."""
        return sorted(name for (name,) in connection.execute(_TABLES))

    def columns(self, connection: sqlite3.Connection, query: str) -> list[str]:
        """The names of a query's columns."""
        cursor = connection.execute(selected(["*"], query) + " LIMIT 0")
        return [column[0] for column in cursor.description]

    def read(
        self, connection: sqlite3.Connection, query: str, columns: Sequence[str]
    ) -> Generator[pa.RecordBatch]:
        """These columns of the rows of a query."""
        cursor = connection.execute(selected([column_of(column) for column in columns], query))
        while rows := cursor.fetchmany(BATCH_ROWS):
            arrays = [object_array(values) for values in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def problem(self, error: Exception) -> str:
        """What went wrong, in our own words."""
        return next((told for word, told in _PROBLEMS if word in str(error)), "")


def _text(raw: bytes) -> str | bytes:
    """A text; what is not UTF-8 stays bytes, and does not stop the others."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
