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
from dataclasses import dataclass, field
from functools import cached_property

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OpenPriorWarning, SchemaError
from openprior.given import path_of, several, shown
from openprior.schema.bins import Integer
from openprior.schema.columns import Column, Labelled
from openprior.schema.document import read_document, write_document
from openprior.schema.domain import Domain
from openprior.schema.levels import Hierarchy, Level, Parents
from openprior.whole import write_file

__all__ = ["Schema", "need_schema"]


def need_schema(value: object) -> "Schema":
    """The value, which a caller gave as a schema, if it is one."""
    if not isinstance(value, Schema):
        raise SchemaError(
            f"the schema is {shown(value)}; give one, such as openprior.Schema.load('schema.toml')"
        )
    return value


@dataclass(frozen=True, repr=False)
class Schema(Shown):
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

    @cached_property
    def domain(self) -> Domain:
        """The attributes and how many codes each has."""
        return Domain({column.name: column.size for column in self.columns})

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
        needed = (*self.names, self.person_id) if person_id and self.person_id is not None else self.names
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
    ) -> "Schema":
        """A proposal from PUBLIC data only, at most `bins` quantile bins and `max_values` labels per column.

        Columns of `exclude` are left out, and so is what looks like an identifier, unless `include` names it; each
        such column is warned of.
        """
        from openprior.schema.draft import draft_columns

        columns, notes = draft_columns(
            public,
            bins=bins,
            max_values=max_values,
            person_id=person_id,
            exclude=exclude,
            include=include,
        )
        for note in notes.values():
            warnings.warn(note, OpenPriorWarning, stacklevel=2)
        return cls(columns, person_id, max_rows_per_person, notes=notes)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> "Schema":
        """The schema of a table that is integer-coded already: codes 0..size-1, nothing missing."""
        if not isinstance(sizes, Mapping):
            raise SchemaError(f"the sizes are {shown(sizes)}; give a mapping of column names to sizes")
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(
                    f"column {shown(name)} has size {shown(size)}; use a whole number of at least 1"
                )
        return cls(tuple(Integer(name=name, low=0, high=size - 1) for name, size in sizes.items()))

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
