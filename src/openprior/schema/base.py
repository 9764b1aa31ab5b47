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
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OpenPriorWarning, SchemaError
from openprior.given import flag, path_of, several, shown, whole_number
from openprior.schema.binned import Binned
from openprior.schema.bins import Integer
from openprior.schema.columns import Column, Labelled, Ordered
from openprior.schema.document import read_document, write_document
from openprior.schema.domain import Domain
from openprior.schema.levels import Hierarchy, Level, Parents
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.whole import write_file

if TYPE_CHECKING:
    from openprior.guidance.schema_check import SchemaCheck

__all__ = ["Schema", "need_schema", "reading_of"]


def need_schema(value: object) -> "Schema":
    """The schema that a caller gave: one as it is, or the path of its file."""
    if isinstance(value, str) and "\n" in value:
        raise SchemaError(
            "the schema is a text of several lines; give the path of its file, or openprior.Schema.from_toml(text)"
        )
    if isinstance(value, str | os.PathLike):
        return Schema.load(value)
    if not isinstance(value, Schema):
        raise SchemaError(
            f"the schema is {shown(value)}; give one, or the path of its file, such as 'schema.toml'"
        )
    return value


def reading_of(schema: "Schema | None", reading: Reading | None) -> Reading:
    """How files are read: as the schema says, or, where one is to be drafted, as the caller does."""
    reading = None if reading is None else Reading.of(reading)
    if schema is None:
        return reading or PLAIN
    if reading is not None and reading != schema.reading:
        raise SchemaError(
            "a schema and a reading are given, and the schema has another one; write it under [reading] there"
        )
    return schema.reading


@dataclass(frozen=True, repr=False)
class Schema(Shown):
    """Columns in order, an optional person id with its row limit, and hierarchies over columns."""

    columns: tuple[Column, ...]
    person_id: str | None = None
    """The column that says whose row it is; it is read to limit rows and never released."""
    max_rows_per_person: int = 1
    """Δ: the encoder keeps at most this many rows of a person, and every sensitivity scales with it."""
    hierarchies: tuple[Hierarchy, ...] = ()
    reading: Reading = PLAIN
    """How text is written in the files, public and private alike."""
    notes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Remarks of the draft, by column; written as comments."""

    def __post_init__(self) -> None:
        if isinstance(self.columns, str | os.PathLike):
            raise SchemaError("a schema is not made of a path; write openprior.Schema.load(path)")
        for name, kind in (("columns", Column), ("hierarchies", Hierarchy)):
            parts = several(f"a schema's {name}", getattr(self, name), error=SchemaError)
            for part in parts:
                if not isinstance(part, kind):
                    raise SchemaError(
                        f"a schema's {name} have {shown(part)} among them; load a schema or draft one"
                    )
            object.__setattr__(self, name, parts)
        if not self.columns:
            raise SchemaError("the schema has no columns; declare at least one")
        names: set[str] = set()
        for column in self.columns:
            if column.name in names:
                raise SchemaError(f"column '{column.name}' is declared twice; declare it once")
            names.add(column.name)
        delta = self.max_rows_per_person
        if isinstance(delta, bool) or not isinstance(delta, int) or delta < 1:
            raise SchemaError(f"max_rows_per_person = {shown(delta)}; use a whole number of at least 1")
        if self.person_id is None and delta > 1:
            raise SchemaError(
                f"max_rows_per_person = {delta} without a person_id; name the column that holds the id"
            )
        if not isinstance(self.person_id, str | None):
            raise SchemaError(f"person_id = {shown(self.person_id)}; use the name of a column")
        if self.person_id in names:
            raise SchemaError(
                f"person_id '{self.person_id}' is also a column; drop the column, an id is never released"
            )
        self._check_hierarchies(names)
        self._check_reading()

    def _check_reading(self) -> None:
        if not isinstance(self.reading, Reading):
            raise SchemaError(f"a schema's reading is {shown(self.reading)}; give an openprior.Reading")
        for column in self.columns:
            labels = column.values if isinstance(column, Labelled) else ()
            for label in labels:
                if isinstance(label, str) and label in self.reading.null_values:
                    raise column.refuse(
                        f"the value {label!r}, which means missing in every column",
                        "remove it from values or from the null_values of [reading]",
                    )

    def _check_hierarchies(self, names: set[str]) -> None:
        below: set[str] = set()
        for level in self.hierarchies:
            if level.name in names:
                raise SchemaError(f"hierarchy '{level.name}' has the name of a column or level; rename it")
            if level.column not in names:
                raise SchemaError(
                    f"hierarchy '{level.name}' is over '{level.column}', which is not declared before it; declare that "
                    "first, or name another column"
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

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of a table that are read: each once."""
        return tuple(dict.fromkeys(column.reads for column in self.columns))

    @cached_property
    def domain(self) -> Domain:
        """The attributes and how many codes each has."""
        return Domain({column.name: column.size for column in self.columns})

    @cached_property
    def ordered(self) -> dict[str, int]:
        """The columns whose values have an order (listed in it, numbers, dates), and how many codes are in it."""
        return {c.name: c.count for c in self.columns if isinstance(c, Ordered | Binned)}

    @cached_property
    def levels(self) -> dict[str, Level]:
        """Every level of every hierarchy, from the bottom up."""
        by_name: dict[str, Level] = {}
        for h in self.hierarchies:
            _, labels, codes = self.parents(h.column)
            below = by_name.get(h.column)
            by_name[h.name] = (
                Level(h.column, labels, codes)
                if below is None
                else Level(below.column, labels, codes[below.codes])
            )
        return by_name

    @cached_property
    def full_domain(self) -> Domain:
        """The domain, and after the columns the levels above them: what the curator can count."""
        above = {name: len(level.labels) for name, level in self.levels.items()}
        return Domain({**self.domain.sizes(), **above})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical TOML (without comments), in hex."""
        return hashlib.sha256(write_document(self, notes={}).encode()).hexdigest()

    @cached_property
    def plain(self) -> "Schema":
        """The same columns for rows that were decoded: those are spelled as usual, however the files were."""
        return self if self.reading == PLAIN else replace(self, reading=PLAIN)

    def sheet(self) -> Sheet:
        """The columns, one line each."""
        from openprior.schema.summary import summary_of

        said = [summary_of(column) for column in self.columns]
        rows = tuple((c.name, c.kind, c.codes, c.says, c.outside, c.missing) for c in said)
        notes = []
        if self.person_id is not None:
            notes.append(
                f"Person id: {self.person_id}; at most {how_many(self.max_rows_per_person, 'row')} of each."
            )
        if self.hierarchies:
            notes.append("Levels: " + ", ".join(f"{h.name} over {h.column}" for h in self.hierarchies))
        return Sheet(
            f"Schema of {how_many(len(rows), 'column')}",
            ("name", "kind", "", "says", "outside", "missing"),
            rows,
            tuple(notes),
        )

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if isinstance(name, str) and column.name == name:
                return column
        raise SchemaError(f"column {shown(name)} is not in the schema; it has {', '.join(self.names)}")

    def parents(self, name: str) -> Parents:
        """The level above a column (or level): its name, its labels, the parent code of each child code."""
        level = next((h for h in self.hierarchies if isinstance(name, str) and h.column == name), None)
        if level is None:
            raise SchemaError(f"{shown(name)} has no hierarchy; declare one under [hierarchies]")
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
        present = [name for name in several("names", names, error=SchemaError) if isinstance(name, str)]
        person_id = flag("person_id", person_id)
        needed = (*self.reads, self.person_id) if person_id and self.person_id is not None else self.reads
        for name in needed:
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
        include: Sequence[str] = (),
        other: bool = True,
        reading: Reading | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        delimiter: str | None = None,
        date_format: str | None = None,
        null_values: Sequence[str] | None = None,
    ) -> "Schema":
        """A proposal from PUBLIC data only, at most `bins` quantile bins and `max_values` labels per column.

        Columns of `exclude` are left out, and so is what looks like an identifier, unless `include` names it. Values
        that are not listed become `other`, or are refused with `other=False`. `notes` says what a person should look
        at, and of what would be lost there is a warning. How text is written (`encoding`, `decimal` and so on; see
        `Reading`, which may be given as a whole) is kept in the schema, so that the private files are read alike.
        """
        from openprior.schema.draft import draft_columns

        reading = Reading.of(
            reading,
            encoding=encoding,
            decimal=decimal,
            thousands=thousands,
            delimiter=delimiter,
            date_format=date_format,
            null_values=null_values,
        )
        draft = draft_columns(
            public,
            reading,
            bins=bins,
            max_values=max_values,
            person_id=person_id,
            exclude=exclude,
            include=include,
            other=other,
        )
        for name in draft.losses:
            warnings.warn(draft.notes[name], OpenPriorWarning, stacklevel=2)
        return cls(draft.columns, person_id, max_rows_per_person, reading=reading, notes=draft.notes)

    def check(self, table: Any, **options: Any) -> "SchemaCheck":
        """What this schema does to a table: how much of each column is clipped, becomes other or missing.

        `schema.check(public)` shows examples; `schema.check(table, private=True)` shows shares only and is NOT PRIVATE;
        `schema.check(table, epsilon=0.1, ledger=…)` measures them with noise, and they may be kept.
        """
        from openprior.guidance.schema_check import check_schema

        return check_schema(self, table, **options)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> "Schema":
        """The schema of a table that is integer-coded already: codes 0..size-1, nothing missing."""
        if not isinstance(sizes, Mapping):
            raise SchemaError(f"the sizes are {shown(sizes)}; give a mapping of column names to sizes")
        plain = {
            name: whole_number(f"the size of column {shown(name)}", size, 1, error=SchemaError)
            for name, size in sizes.items()
        }
        return cls(tuple(Integer(name=name, low=0, high=size - 1) for name, size in plain.items()))

    def to_toml(self) -> str:
        """The schema as TOML, one table per column, the draft's remarks as comments."""
        return write_document(self, self.notes)

    @classmethod
    def from_toml(cls, text: str) -> "Schema":
        """Read what `to_toml` wrote, or a person."""
        return cls(**read_document(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file; it appears whole or not at all."""
        file = path_of("a schema file", path, error=SchemaError)
        try:
            write_file(file, self.to_toml())
        except OSError as error:
            raise SchemaError(
                f"cannot write the schema to {path}: {error.strerror}; free space or choose another place"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a TOML file."""
        file = path_of("a schema file", path, error=SchemaError)
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise SchemaError(f"cannot read the schema {path}: {error.strerror}; check the path") from None
        except UnicodeDecodeError:
            raise SchemaError(f"the schema {path} is not UTF-8; save it as UTF-8") from None
        try:
            return cls.from_toml(text)
        except SchemaError as error:
            raise SchemaError(f"schema {path}: {error}") from None
