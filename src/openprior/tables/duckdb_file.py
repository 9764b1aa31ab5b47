"""DuckDB files: rows stream as Arrow, with the types that the table has."""

from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa

from openprior.tables.office import library
from openprior.tables.query import column_of, selected
from openprior.tables.source import BATCH_ROWS

__all__ = ["DuckdbFile"]

_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables "
    "WHERE table_catalog = current_database() ORDER BY ALL"
)
_PROBLEMS = (
    ("not a valid DuckDB", "the file is no DuckDB database, or one of another version; check its name"),
    ("set lock", "another program has it open for writing; close it there"),
    ("checksum", "the file is damaged; write it again"),
    ("not found in FROM", "there is no such column in it; check the spelling"),
    ("different configuration", "it is open in this program for writing; close that, or give its relation"),
)
_KINDS = {
    "CatalogException": "there is no such table or function in it; check the spelling",
    "BinderException": "it is not one query in DuckDB's SQL; try it there",
    "ParserException": "it is not one query in DuckDB's SQL; try it there",
}


class DuckdbFile:
    """The tables of a DuckDB file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> Any:
        """A connection that cannot write."""
        return library("duckdb", "duckdb", "reading DuckDB files").connect(self._path, read_only=True)

    def tables(self, connection: Any) -> list[str]:
        """Tables and views; those of other schemas than main with their schema."""
        return [
            name if schema == "main" else f"{schema}.{name}"
            for schema, name in connection.execute(_TABLES).fetchall()
        ]

    def columns(self, connection: Any, query: str) -> list[str]:
        """The names of a query's columns."""
        return list(connection.sql(selected(["*"], query)).columns)

    def read(self, connection: Any, query: str, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
        """These columns of the rows of a query."""
        relation = connection.sql(selected([column_of(column) for column in columns], query))
        yield from relation.to_arrow_reader(BATCH_ROWS)

    def problem(self, error: Exception) -> str:
        """What went wrong, in our own words."""
        for word, told in _PROBLEMS:
            if word in str(error):
                return told
        return _KINDS.get(type(error).__name__, "")
