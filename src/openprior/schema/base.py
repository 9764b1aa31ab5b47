"""The schema: what the columns are, who a person is, and how columns nest. Frozen, and written as TOML.

A schema is public: a person writes it, or `Schema.draft` proposes it from the public table. It fixes the
domain before the private table is opened, so that nothing about the domain can depend on private values.

>>> schema = Schema.from_sizes({"age": 10, "sex": 2})
>>> schema.domain
Domain({'age': 10, 'sex': 2})
>>> Schema.from_toml(schema.to_toml()) == schema
True
"""

import hashlib
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from openprior.errors import SchemaError
from openprior.schema import toml
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Labelled, Ordered
from openprior.schema.domain import Domain
from openprior.schema.levels import Hierarchy, Level, Parents
from openprior.whole import write_file

__all__ = ["KINDS", "Schema"]

KINDS: dict[str, type[Column]] = {k.kind: k for k in (Categorical, Ordered, Boolean, Integer, Real, Datetime)}


@dataclass(frozen=True)
class Schema:
    """Columns in order, an optional person id with its row limit, and hierarchies over columns."""

    columns: tuple[Column, ...]
    person_id: str | None = None
    """The column that says whose row it is; it is read to limit rows and never released."""
    max_rows_per_person: int = 1
    """Δ: the encoder keeps at most this many rows of a person, and every sensitivity scales with it."""
    hierarchies: tuple[Hierarchy, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Remarks of the draft, by column; written as comments."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "hierarchies", tuple(self.hierarchies))
        if not self.columns:
            raise SchemaError("the schema has no columns; declare at least one")
        names: set[str] = set()
        for column in self.columns:
            if column.name in names:
                raise SchemaError(f"column '{column.name}' is declared twice; declare it once")
            names.add(column.name)
        delta = self.max_rows_per_person
        if isinstance(delta, bool) or not isinstance(delta, int) or delta < 1:
            raise SchemaError(f"max_rows_per_person = {delta!r}; use a whole number of at least 1")
        if self.person_id is None and delta > 1:
            raise SchemaError(
                f"max_rows_per_person = {delta} without a person_id; name the column that holds the id"
            )
        if not isinstance(self.person_id, str | None):
            raise SchemaError(f"person_id = {self.person_id!r}; use the name of a column")
        if self.person_id in names:
            raise SchemaError(
                f"person_id '{self.person_id}' is also a column; drop the column, an id is never released"
            )
        self._check_hierarchies(names)

    def _check_hierarchies(self, names: set[str]) -> None:
        below: set[str] = set()
        for level in self.hierarchies:
            if level.name in names:
                raise SchemaError(f"hierarchy '{level.name}' has the name of a column or level; rename it")
            if level.column not in names:
                raise SchemaError(
                    f"hierarchy '{level.name}' is over '{level.column}', which is not declared before it"
                )
            if level.column in below:
                raise SchemaError(f"'{level.column}' has two hierarchies; chain them or drop one")
            names.add(level.name)
            below.add(level.column)
            self.parents(level.column)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def domain(self) -> Domain:
        """The attributes and how many codes each has."""
        return Domain({column.name: column.size for column in self.columns})

    @cached_property
    def levels(self) -> dict[str, Level]:
        """Every level of every hierarchy, from the bottom up."""
        levels: dict[str, Level] = {}
        for h in self.hierarchies:
            _, labels, codes = self.parents(h.column)
            below = levels.get(h.column)
            levels[h.name] = (
                Level(h.column, labels, codes)
                if below is None
                else Level(below.column, labels, codes[below.codes])
            )
        return levels

    @cached_property
    def full_domain(self) -> Domain:
        """The domain, and after the columns the levels above them: what the curator can count."""
        above = {name: len(level.labels) for name, level in self.levels.items()}
        return Domain({**self.domain.sizes(), **above})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical TOML (without comments), in hex."""
        return hashlib.sha256(self._toml(notes={}).encode()).hexdigest()

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"column '{name}' is not in the schema; it has {', '.join(self.names)}")

    def parents(self, name: str) -> Parents:
        """The level above a column (or level): its name, its labels, the parent code of each child code."""
        level = next((h for h in self.hierarchies if h.column == name), None)
        if level is None:
            raise SchemaError(f"'{name}' has no hierarchy; declare one under [hierarchies]")
        child = next((h for h in self.hierarchies if h.name == name), None)
        base = self[self._base(name)]
        extras = ["other"] * base.other + ["missing"] * base.missing
        if child is not None:
            _, labels, _ = self.parents(child.column)
            return level.parents(labels[: len(labels) - len(extras)], extras)
        if level.prefix is not None and not isinstance(base, Labelled):
            raise SchemaError(
                f"hierarchy '{level.name}' takes a prefix of the {base.kind} column '{name}'; use a map"
            )
        return level.parents(base.value_labels, extras)

    def _base(self, name: str) -> str:
        above = {h.name: h.column for h in self.hierarchies}
        while name in above:
            name = above[name]
        return name

    def check_columns(
        self,
        names: Sequence[str],
        what: str = "private table",
        *,
        list_columns: bool = False,
        person_id: bool = False,
    ) -> None:
        """Refuse a table that lacks a column or has one twice.

        `list_columns` also tells which columns the table has: for public tables only, because the first line
        of a private file without a header is somebody's row.
        """
        present = list(names)
        wanted = (*self.names, self.person_id) if person_id and self.person_id is not None else self.names
        for name in wanted:
            times = present.count(name)
            if times > 1:
                raise SchemaError(f"{what} has column '{name}' {times} times; keep one")
            if times == 0:
                role = "person id column" if name == self.person_id else "column"
                has = f"; it has {', '.join(present)}" if list_columns else ""
                raise SchemaError(
                    f"{what} has no {role} '{name}'{has}; rename its column or change the schema"
                )

    @classmethod
    def draft(
        cls,
        public: object,
        *,
        bins: int = 32,
        max_values: int = 1000,
        person_id: str | None = None,
        max_rows_per_person: int = 1,
        exclude: Sequence[str] = (),
    ) -> "Schema":
        """A proposal from PUBLIC data only, at most `bins` quantile bins and `max_values` labels a column."""
        from openprior.schema.draft import draft_columns

        columns, notes = draft_columns(
            public, bins=bins, max_values=max_values, person_id=person_id, exclude=exclude
        )
        return cls(columns, person_id, max_rows_per_person, notes=notes)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> "Schema":
        """The schema of a table that is integer-coded already: codes 0..size-1, nothing missing."""
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(f"column '{name}' has size {size!r}; use a whole number of at least 1")
        return cls(tuple(Integer(name=name, low=0, high=size - 1) for name, size in sizes.items()))

    def to_toml(self) -> str:
        """The schema as TOML, one table per column, the draft's remarks as comments."""
        return self._toml(self.notes)

    def _toml(self, notes: Mapping[str, str]) -> str:
        parts = []
        if self.person_id is not None:
            parts.append(f"person_id = {toml.value(self.person_id)}\n")
            parts.append(f"max_rows_per_person = {self.max_rows_per_person}\n\n")
        for column in self.columns:
            if column.name in notes:
                parts.append(toml.comment(notes[column.name]))
            parts.append(toml.table(("columns", column.name), _entries(column)) + "\n")
        for level in self.hierarchies:
            path = ("hierarchies", level.name)
            entries: dict[str, object] = {"column": level.column}
            if level.prefix is not None:
                entries["prefix"] = level.prefix
            parts.append(toml.table(path, entries) + "\n")
            if level.map:
                parts.append(toml.table((*path, "map"), dict(level.map)) + "\n")
        return "".join(parts).rstrip("\n") + "\n"

    @classmethod
    def from_toml(cls, text: str) -> "Schema":
        """Read what `to_toml` wrote, or a person."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            hint = (
                ", or a column declared twice" if "twice" in str(error) or "overwrite" in str(error) else ""
            )
            raise SchemaError(f"the schema is not TOML{hint}: {error}; correct it there") from None
        _known("the schema", document, {"person_id", "max_rows_per_person", "columns", "hierarchies"})
        columns = [_column(name, dict(entry)) for name, entry in _tables(document, "columns")]
        levels = []
        for name, entry in _tables(document, "hierarchies"):
            _known(f"hierarchy '{name}'", entry, {"column", "prefix", "map"})
            if "column" not in entry:
                raise SchemaError(f"hierarchy '{name}' names no column; add column = \"...\"")
            if not isinstance(entry["column"], str):
                raise SchemaError(f"hierarchy '{name}' has column = {entry['column']!r}; use one name")
            pairs = entry.get("map", {})
            if not isinstance(pairs, dict):
                raise SchemaError(f"hierarchy '{name}' has map = {pairs!r}; write a table child = \"parent\"")
            levels.append(
                Hierarchy(
                    name=name, column=entry["column"], prefix=entry.get("prefix"), map=tuple(pairs.items())
                )
            )
        delta = document.get("max_rows_per_person", 1)
        return cls(tuple(columns), document.get("person_id"), delta, tuple(levels))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file; it appears whole or not at all."""
        try:
            write_file(Path(path), self.to_toml())
        except OSError as error:
            raise SchemaError(
                f"cannot write the schema to {path}: {error.strerror}; free space or choose another place"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a TOML file."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise SchemaError(f"cannot read the schema {path}: {error.strerror}; check the path") from None
        except UnicodeDecodeError:
            raise SchemaError(f"the schema {path} is not UTF-8; save it as UTF-8") from None
        try:
            return cls.from_toml(text)
        except SchemaError as error:
            raise SchemaError(f"schema {path}: {error}") from None


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
    _known(f"column '{name}'", entry, known)
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


def _known(what: str, entry: Mapping[str, object], known: set[str]) -> None:
    for key in entry:
        if key not in known:
            raise SchemaError(f"{what} has the unknown key '{key}'; known are {', '.join(sorted(known))}")
