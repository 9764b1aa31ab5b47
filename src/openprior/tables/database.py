"""Tables and queries of databases as sources: DuckDB and SQLite files, PostgreSQL servers.

Every pass opens its own connection, reads only, and runs the query anew, so a query must give the same rows each time.
What a driver says goes no further: it may quote a row, the query or a password. Instead there are our own words.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from openprior.errors import OpenPriorError, SourceError
from openprior.given import path_of
from openprior.tables.address import Address, address_of
from openprior.tables.query import caution_about, quoted
from openprior.tables.source import Source, select

__all__ = ["Driver", "open_database"]

_SHOWN = 10


class Driver(Protocol):
    """What a kind of database can do. Everything may raise; `problem` has words for it."""

    def connect(self) -> Any:
        """A connection that cannot write, and can be closed."""
        ...

    def tables(self, connection: Any) -> list[str]:
        """The names of the tables and views."""
        ...

    def columns(self, connection: Any, query: str) -> list[str]:
        """The names of a query's columns; no row is read."""
        ...

    def read(self, connection: Any, query: str, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
        """These columns of the rows of a query."""
        ...

    def problem(self, error: Exception) -> str:
        """What went wrong, as far as it can be said without quoting: "there is no such table", …; or nothing."""
        ...


def open_database(text: str) -> Source:
    """The table or query at an address."""
    return Database(address_of(text))


class Database:
    """A table or the rows of a query."""

    is_text = False
    known_rows = None

    def __init__(self, address: Address) -> None:
        self._address, self.name = address, address.name
        self.paths: tuple[Path, ...] = ()
        if address.kind != "postgres":
            self.paths = (_file(address),)
        self._driver = _DRIVERS[address.kind](address)
        with self._connected() as connection:
            self._query = self._chosen(connection)
            columns = self._told(lambda: self._driver.columns(connection, self._query))
        self.part = self._query
        for column in columns:
            if columns.count(column) > 1:
                raise SourceError(f"{self.name} has column '{column}' twice; rename one in the query")
        self.columns = tuple(columns)

    @property
    def caution(self) -> str | None:
        """What to say of the query where it is the private table."""
        return caution_about(self._address.query)

    def is_same_query(self, other: object) -> bool:
        """Whether it is the same table of the same server, or the same query."""
        return isinstance(other, Database) and (other._address, other._query) == (self._address, self._query)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        if not chosen:
            return
        with (
            self._connected() as connection,
            contextlib.closing(self._driver.read(connection, self._query, chosen)) as rows,
        ):
            while (batch := self._told(lambda: next(rows, None))) is not None:
                yield batch

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = self._told(self._driver.connect, "cannot be opened")
        try:
            yield connection
        finally:
            with contextlib.suppress(Exception):  # a pass that ended is not worth less if closing it fails
                connection.close()

    def _chosen(self, connection: Any) -> str:
        """The SQL of the rows: the query, or all of the table, which must be there."""
        address = self._address
        if address.query:
            return address.query
        if not address.table:
            names = self._told(lambda: self._driver.tables(connection))
            if len(names) != 1:
                raise SourceError(f"{self._where} names no table; write #TABLE behind it: {_list(names)}")
            address = self._address = Address(address.kind, address.place, table=(names[0],))
            self.name = address.name
        query = f"SELECT * FROM {'.'.join(map(quoted, address.table))}"
        try:
            self._driver.columns(connection, query)
        except Exception as error:  # noqa: BLE001  (as everywhere here)
            told = self._driver.problem(error)
        else:
            return query
        if told and "table" not in told:
            raise SourceError(f"table '{'.'.join(address.table)}' of {self._where} cannot be read: {told}")
        with self._connected() as another:  # a connection may be of no use after an error
            names = self._told(lambda: self._driver.tables(another))
        raise SourceError(
            f"{self._where} has no table '{'.'.join(address.table)}'; it has {_list(names)} "
            "(a query begins with SELECT or WITH)"
        )

    @property
    def _where(self) -> str:
        return f"the {_KINDS[self._address.kind]} database" + (f" {self.paths[0]}" if self.paths else "")

    def _told(self, work: Callable[[], Any], what: str = "") -> Any:
        """What the driver gives, or our own words: theirs do not go on, nor as a cause."""
        try:
            return work()
        except OpenPriorError:
            raise
        except Exception as error:  # noqa: BLE001
            told = self._driver.problem(error)
        table = "the query on" if self._address.query else f"table '{self.name}' of"
        subject = f"{self._where} {what}" if what else f"{table} {self._where} cannot be read"
        raise SourceError(f"{subject}: {told or 'check that the database itself can run it to its end'}")


def _file(address: Address) -> Path:
    path = path_of("a database", address.place, error=SourceError)
    if path.is_dir():
        raise SourceError(f"{path} is a folder; name the {_KINDS[address.kind]} file in it")
    try:
        with path.open("rb"):
            return path
    except FileNotFoundError:
        problem = f"there is no file {path}; check the path"
    except OSError as error:
        problem = f"cannot open {path}: {error.strerror or 'it is damaged'}; check its permissions"
    raise SourceError(problem)


def _duckdb(address: Address) -> Driver:
    from openprior.tables.duckdb_file import DuckdbFile

    return DuckdbFile(address.place)


def _sqlite(address: Address) -> Driver:
    from openprior.tables.sqlite_file import SqliteFile

    return SqliteFile(address.place)


def _postgres(address: Address) -> Driver:
    from openprior.tables.postgres import Postgres

    return Postgres(address.place)


_KINDS = {"duckdb": "DuckDB", "sqlite": "SQLite", "postgres": "PostgreSQL"}
_DRIVERS: dict[str, Callable[[Address], Driver]] = {
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgres": _postgres,
}


def _list(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return (", ".join(names[:_SHOWN]) or "none") + (f" and {more} more" if more > 0 else "")
