"""A schema as a TOML document, both ways: one table per column, one per level of a hierarchy, one on how
files are read.

`write_document` writes a schema; the text without remarks is also what a schema's hash is taken of, so equal schemas
must give equal text. `read_document` is strict: an unknown key or kind is refused, with its place and the remedy.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from openprior.errors import SchemaError
from openprior.given import shown
from openprior.schema import toml
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Ordered
from openprior.schema.fates import declared
from openprior.schema.levels import Hierarchy
from openprior.schema.reading_rules import PLAIN, Reading

if TYPE_CHECKING:
    from openprior.schema.base import Schema

__all__ = ["KINDS", "read_document", "write_document"]

KINDS: dict[str, type[Column]] = {k.kind: k for k in (Categorical, Ordered, Boolean, Integer, Real, Datetime)}
"""Every kind of column, by its name in the document."""


def write_document(schema: "Schema", notes: Mapping[str, str]) -> str:
    """The schema as TOML, with notes as comments: on columns that are left out at the top, on others above them."""
    parts = [toml.comment(note) for name, note in notes.items() if name not in schema.reads]
    if parts:
        parts.append("\n")
    if schema.person_id is not None:
        parts.append(f"person_id = {toml.value(schema.person_id)}\n")
        parts.append(f"max_rows_per_person = {schema.max_rows_per_person}\n\n")
    if schema.reading != PLAIN:
        parts.append(toml.table(("reading",), schema.reading.entries()) + "\n")
    for column in declared(schema.columns):
        if column.name in notes:
            parts.append(toml.comment(notes[column.name]))
        parts.append(toml.table(("columns", column.name), _entries(column)) + "\n")
    for level in schema.hierarchies:
        path = ("hierarchies", level.name)
        entries: dict[str, object] = {"column": level.column}
        if level.prefix is not None:
            entries["prefix"] = level.prefix
        parts.append(toml.table(path, entries) + "\n")
        if level.map:
            parts.append(toml.table((*path, "map"), dict(level.map)) + "\n")
    return "".join(parts).rstrip("\n") + "\n"


def read_document(text: str) -> dict[str, Any]:
    """The arguments of `Schema` that a document stands for."""
    if not isinstance(text, str):
        raise SchemaError(f"the schema's text is {shown(text)}; give a text in TOML")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = ", or a column declared twice" if "twice" in str(error) or "overwrite" in str(error) else ""
        raise SchemaError(f"the schema is not TOML{hint}: {error}; correct it there") from None
    except RecursionError:
        raise SchemaError("the schema has lists or tables far too deep in each other; mend it") from None
    _check_keys(
        "the schema", document, {"person_id", "max_rows_per_person", "reading", "columns", "hierarchies"}
    )
    return {
        "columns": tuple(_column(name, dict(entry)) for name, entry in _tables(document, "columns")),
        "hierarchies": tuple(_hierarchy(name, entry) for name, entry in _tables(document, "hierarchies")),
        "person_id": document.get("person_id"),
        "max_rows_per_person": document.get("max_rows_per_person", 1),
        "reading": Reading.from_entries(document.get("reading", {})),
    }


def _hierarchy(name: str, entry: dict[str, Any]) -> Hierarchy:
    _check_keys(f"hierarchy '{name}'", entry, {"column", "prefix", "map"})
    if "column" not in entry:
        raise SchemaError(f"hierarchy '{name}' names no column; add column = \"...\"")
    if not isinstance(entry["column"], str):
        raise SchemaError(f"hierarchy '{name}' has column = {entry['column']!r}; use one name")
    pairs = entry.get("map", {})
    if not isinstance(pairs, dict):
        raise SchemaError(f"hierarchy '{name}' has map = {pairs!r}; write a table child = \"parent\"")
    return Hierarchy(name=name, column=entry["column"], prefix=entry.get("prefix"), map=tuple(pairs.items()))


def _entries(column: Column) -> dict[str, object]:
    """What a column says beyond its defaults; kind, dtype and the kind's own fields always."""
    entries: dict[str, object] = {"kind": column.kind}
    own = {"dtype", "values", "low", "high"}
    for f in fields(column):
        value = getattr(column, f.name)
        if f.name != "name" and (f.name in own or f.default is MISSING or value != f.default):
            entries[f.name] = value
    return entries


def _column(name: str, entry: dict[str, Any]) -> Column:
    kind = entry.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"column '{name}' has kind = {kind!r}; use one of {', '.join(KINDS)}")
    cls = KINDS[kind]
    known = {f.name for f in fields(cls)} - {"name"}
    _check_keys(f"column '{name}'", entry, known)
    for f in fields(cls):
        if (
            f.name in entry
            and f.name in ("values", "bins", "missing_values")
            and not isinstance(entry[f.name], list)
        ):
            raise SchemaError(f"column '{name}' has {f.name} = {entry[f.name]!r}; use a list")
    if "values" in known and cls is not Boolean and "values" not in entry:
        raise SchemaError(f"column '{name}' has no values; list at least one")
    return cls(name=name, **entry)


def _tables(document: dict[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    section = document.get(name, {})
    if not isinstance(section, dict) or not all(isinstance(entry, dict) for entry in section.values()):
        raise SchemaError(f"'{name}' holds something other than tables; write [{name}.<name>] for each")
    return list(section.items())


def _check_keys(what: str, entry: Mapping[str, object], known: set[str]) -> None:
    for key in entry:
        if key not in known:
            raise SchemaError(f"{what} has the unknown key '{key}'; known are {', '.join(sorted(known))}")
