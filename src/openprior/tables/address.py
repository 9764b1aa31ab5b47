"""Addresses of tables in databases: duckdb:survey.db#people, sqlite:survey.db#people, postgresql://user@host/db#people.

What stands behind the # is a table, with its schema if need be, or a query. An address may hold a password, so nothing
here or after it quotes more of an address than the kind of database, a file and the table.
"""

import re
from dataclasses import dataclass, field

from openprior.errors import SourceError
from openprior.given import text_of

__all__ = ["Address", "address_of", "is_address", "is_database"]

_DATABASE = re.compile(r"(duckdb|sqlite|postgres|postgresql):", re.IGNORECASE)
_OTHER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_QUERY = re.compile(r"(select|with)\b\s*\S", re.IGNORECASE)
_NAME = re.compile(r'\s*("(?:[^"]|"")+"|[^".]+)\s*(\.|$)')


@dataclass(frozen=True)
class Address:
    """Where a table is: the kind of database, its file or server, and a table's name in parts or a query."""

    kind: str
    place: str = field(repr=False)
    table: tuple[str, ...] = ()
    query: str = ""

    @property
    def name(self) -> str:
        """What the table is called in ledgers and messages."""
        return self.table[-1] if self.table else "query"


def is_address(data: object) -> bool:
    """Whether it is an address of a database, or of something else that is no file."""
    return isinstance(data, str) and (is_database(data) or _OTHER.match(data) is not None)


def is_database(text: str) -> bool:
    """Whether it is an address of a database.

    >>> is_database("duckdb:survey.db#people"), is_database("survey.csv")
    (True, False)
    """
    return _DATABASE.match(text) is not None


def address_of(text: str) -> Address:
    """What an address says, refused in words that do not repeat it.

    >>> address_of("duckdb:survey.db#main.people")
    Address(kind='duckdb', table=('main', 'people'), query='')
    """
    scheme = text.partition(":")[0].lower()
    kind = {"postgresql": "postgres"}.get(scheme, scheme)
    if kind not in ("duckdb", "sqlite", "postgres"):
        raise SourceError(
            f"{scheme}:// is no address that can be read; give a file, or a database: duckdb:FILE#TABLE, "
            "sqlite:FILE#TABLE or postgresql://USER@HOST/DATABASE#TABLE"
        )
    text = text_of("an address", text, error=SourceError)
    place, _, part = text.partition("#")
    part = part.strip().rstrip(";").rstrip()
    if "\0" in text:
        raise SourceError(f"the {kind} address holds a zero byte; write it again")
    if kind == "postgres":
        if "://" not in place:
            raise SourceError("a PostgreSQL address starts postgresql://USER@HOST/DATABASE; write it so")
        if "@" not in place and "@" in part and not _QUERY.match(part):
            raise SourceError("a # in a password ends the address; write it as %23")
    else:
        place = place.partition(":")[2].removeprefix("///")
        if not place:
            raise SourceError(f"the {kind} address names no file; write {kind}:FILE#TABLE")
    if _QUERY.match(part):
        return Address(kind, place, query=part)
    return Address(kind, place, table=_parts(part))


def _parts(name: str) -> tuple[str, ...]:
    """A table's name in parts: schema.table, each in double quotes if it holds a dot itself.

    >>> _parts('main."odd.name"')
    ('main', 'odd.name')
    """
    parts, start = [], 0
    while start < len(name):
        match = _NAME.match(name, start)
        if match is None:
            return (name,)
        part = match[1].strip()
        parts.append(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        start = match.end()
    return tuple(parts)
