"""PostgreSQL: rows stream as Arrow through ADBC; a type that Arrow does not have becomes what it means.

Amounts of money become numbers in their own unit, not the hundredths that they are stored in; decimals of any length
become integers where they are, and else doubles; what has no type in Arrow (enums, UUIDs, intervals, addresses) becomes
the text that PostgreSQL writes.
"""

import re
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.tables.convert import numbers
from openprior.tables.office import library
from openprior.tables.query import column_of, quoted, selected

__all__ = ["Postgres"]

_TABLES = (
    "SELECT table_schema::text AS s, table_name::text AS n FROM information_schema.tables "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
)
# Nothing is written, and rows come in the table's order each time: a run that is resumed wants the same public rows.
_SETTINGS = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET synchronize_seqscans = off",
    "SET max_parallel_workers_per_gather = 0",
)
_EXACT = 2**53
_STATES = {
    "42P01": "there is no such table in it; check the spelling",
    "3F000": "there is no such table in it; check the spelling",
    "42703": "there is no such column in it; check the spelling",
    "42501": "this user may not read it; ask for the right to",
    "42601": "it is not one query in PostgreSQL's SQL; try it there",
    "0A000": "it is no plain query; one that changes the database is refused",
}
_REFUSALS = (
    (r"database .* does not exist", "the server has no such database; check the name"),
    (
        r"password|authentication|role .* does not exist|pg_hba",
        "the server refuses the user or the password; check both",
    ),
)


class Postgres:
    """The tables of a PostgreSQL database."""

    def __init__(self, address: str) -> None:
        self._address = address

    def connect(self) -> Any:
        """A connection that cannot write."""
        purpose = "reading PostgreSQL databases"
        driver = library("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", purpose)
        connection = driver.connect(self._address)
        with connection.cursor() as cursor:
            for setting in _SETTINGS:
                cursor.execute(setting)
        connection.commit()
        return connection

    def tables(self, connection: Any) -> list[str]:
        """Tables and views; those of other schemas than public with their schema."""
        with connection.cursor() as cursor:
            cursor.execute(_TABLES)
            rows = cursor.fetchall()
        return [name if schema == "public" else f"{schema}.{name}" for schema, name in rows]

    def columns(self, connection: Any, query: str) -> list[str]:
        """The names of a query's columns."""
        return list(_schema(connection, query).names)

    def read(self, connection: Any, query: str, columns: Sequence[str]) -> Generator[pa.RecordBatch]:
        """These columns of the rows of a query."""
        schema = _schema(connection, query)
        chosen = [_expression(schema.field(column)) for column in columns]
        with connection.cursor() as cursor:
            cursor.execute(selected(chosen, query))
            for batch in cursor.fetch_record_batch():
                arrays = [_array(array) for array in batch.columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def problem(self, error: Exception) -> str:
        """What went wrong, in our own words."""
        if "Failed to connect" in str(error):
            refused = next((told for words, told in _REFUSALS if re.search(words, str(error))), None)
            return refused or "no server answers at that address; check host, port and whether it runs"
        if "read-only transaction" in str(error):
            return "it would change the database; a query must only read"
        return _STATES.get(str(getattr(error, "sqlstate", None)), "")


def _schema(connection: Any, query: str) -> pa.Schema:
    with connection.cursor() as cursor:
        return cursor.adbc_execute_schema(selected(["*"], query))


def _expression(field: pa.Field) -> str:
    """A column, cast to what Arrow can hold where it cannot hold the column."""
    column, kind = column_of(field.name), _kind(field)
    if kind == "money":
        return f"{column}::numeric AS {quoted(field.name)}"
    if kind != "numeric" and (
        isinstance(field.type, pa.BaseExtensionType) or pa.types.is_interval(field.type)
    ):
        return f"{column}::text AS {quoted(field.name)}"
    return column


def _kind(field: pa.Field) -> str:
    """PostgreSQL's name of a column's type."""
    told: bytes = (field.metadata or {}).get(b"POSTGRESQL:type", b"")
    return told.decode(errors="replace")


def _array(array: pa.Array) -> pa.Array:
    """A column without wrapping. All that is wrapped are decimals, as text."""
    if not isinstance(array, pa.ExtensionArray):
        return array
    words = array.storage
    words = pc.if_else(pc.equal(pc.utf8_lower(words), "nan"), pa.scalar(None, words.type), words)
    found = numbers(words)
    if found.reals is None:
        return pa.array(found.values, mask=found.null)
    places, reals = found.reals
    whole = np.ones(len(words), np.bool_)
    whole[places] = False
    if (np.abs(found.values[whole]) <= _EXACT).all():
        return pa.array(found.merged(), mask=found.null)
    # An integer that no double is, beside numbers that are no integers: each as it is.
    child = np.arange(len(words), dtype=np.int32)
    child[places] = np.arange(len(places))
    members = [pa.array(found.values, mask=found.null), pa.array(reals)]
    return pa.UnionArray.from_dense(pa.array((~whole).astype(np.int8)), pa.array(child), members)
