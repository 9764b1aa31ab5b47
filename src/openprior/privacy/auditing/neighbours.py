"""Tables for the audit: a small made-up survey, and the neighbours of any table.

A neighbour is made from the raw rows, so that the whole way in (conversion, person ids, the limit of rows per person)
is part of what is audited. The survey has the persons that hurt most: one whose rows all lie in one cell and are more
than the limit, one whose rows lie in different areas, and one with a single row. Under replace-one a person's rows
turn into equally many others: all in one far cell (which moves every marginal as far as it can move), in as many
areas as there are, or anywhere. Under add/remove they are gone, or come.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from openprior.privacy.unit import Relation
from openprior.schema.base import Schema
from openprior.schema.bins import Datetime
from openprior.schema.columns import Column, Labelled
from openprior.schema.reading_rules import Reading
from openprior.tables.convert import is_text, text
from openprior.tables.decode import Decoder
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source
from openprior.tables.spelling import plain_moments, plain_numbers
from openprior.tables.table import Table
from openprior.tables.unwrap import plain

__all__ = ["made_up", "neighbours", "raw", "small_schema"]

_SURVEY = """
[columns.area]
kind = "categorical"
values = ["n1", "n2", "s1", "s2"]
[columns.b]
kind = "integer"
low = 0
high = 1
[columns.c]
kind = "integer"
low = 0
high = 2
[hierarchies.region]
column = "area"
prefix = 1
"""
_PERSON = "person"
_WAYS = ("far", "moved", "spread", "anywhere")
Codes = NDArray[np.int64]
"""One row per row of a table, one column per attribute."""


def small_schema(rows_per_person: int, *, persons: bool) -> Schema:
    """The survey's schema, with a person id if there are persons with several rows."""
    schema = Schema.from_toml(_SURVEY)
    return replace(schema, person_id=_PERSON, max_rows_per_person=rows_per_person) if persons else schema


def made_up(schema: Schema, rng: np.random.Generator, *, others: int, spread: bool) -> pa.Table:
    """A survey of that schema: the three persons of the module's text, and others, all alike unless `spread`."""
    delta = schema.max_rows_per_person
    sizes = np.array(schema.domain.shape)
    heavy = np.zeros((delta + 2 if schema.person_id else 1, len(sizes)), np.int64)
    wide = rng.integers(0, sizes, (delta, len(sizes)))
    wide[:, 0] = rng.permutation(sizes[0])[np.arange(delta) % sizes[0]]
    single = rng.integers(0, sizes, (1, len(sizes)))
    rest = rng.integers(0, sizes, (others, len(sizes))) if spread else np.tile(sizes - 1, (others, 1))
    codes = np.concatenate([heavy, wide, single, rest])
    who = np.repeat(np.arange(3 + others), [len(heavy), delta, 1, *[1] * others])
    order = rng.permutation(len(codes))
    return _raw_rows(codes[order], schema, None if schema.person_id is None else who[order])


def raw(table: object, schema: Schema) -> pa.Table:
    """A user's table in memory; text is spelled as usual, as it is in the rows that are put in place of others."""
    source = open_source(table, schema)
    wanted = [*schema.names, *([] if schema.person_id is None else [schema.person_id])]
    schema.check_columns(source.columns, "table", person_id=True)
    rows = pa.Table.from_batches(source.batches(wanted)).combine_chunks()
    for column in schema.columns:
        place = wanted.index(column.name)
        rows = rows.set_column(place, column.name, _spelled(rows[column.name], column, schema.reading))
    return rows


def _spelled(values: Any, column: Column, reading: Reading) -> pa.Array:
    """A column whose texts are written as `reading` says, written as usual; what is no text stays as it is."""
    array = plain(values)
    if reading.is_plain or not is_text(getattr(array.type, "value_type", array.type)):
        return array
    words = text(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)
    words = pc.if_else(pc.is_in(words, pa.array(reading.null_values, words.type)), None, words)
    if isinstance(column, Datetime):
        return plain_moments(words, reading, time_of_day=column.is_time)
    is_label = isinstance(column, Labelled) and not column.is_numeric
    return words if is_label else plain_numbers(words, reading)


def neighbours(
    table: pa.Table, schema: Schema, relation: Relation, rng: np.random.Generator, count: int
) -> Iterator[pa.Table]:
    """So many neighbours: of the person with most rows first, then of others, each changed in another way."""
    owners = _owners(table, schema)
    people, rows = np.unique(owners, return_counts=True)
    most = people[np.argmax(rows)]
    for number in range(count):
        who = most if number % 4 < 2 else rng.choice(people)
        if relation is Relation.ADD_REMOVE:
            yield _without(table, owners, who) if number % 3 < 2 else _with_one_more(table, schema, rng)
        else:
            yield _replaced(table, schema, owners, who, rng, _WAYS[number % 4])


def _owners(table: pa.Table, schema: Schema) -> NDArray[np.int64]:
    """Whose each row is, as a number."""
    if schema.person_id is None:
        return np.arange(table.num_rows)
    names = np.array([str(v) for v in table[schema.person_id].to_pylist()])
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _without(table: pa.Table, owners: NDArray[np.int64], who: int) -> pa.Table:
    return table.filter(pa.array(owners != who))


def _with_one_more(table: pa.Table, schema: Schema, rng: np.random.Generator) -> pa.Table:
    """A new person with Δ equal rows, and two more that the limit drops."""
    sizes = np.array(schema.domain.shape)
    rows = 1 if schema.person_id is None else schema.max_rows_per_person + 2
    codes = np.tile(rng.integers(0, sizes), (rows, 1))
    come = _raw_rows(codes, schema, None)
    if schema.person_id is not None:
        kind = table.schema.field(schema.person_id).type
        come = come.append_column(schema.person_id, _new_id(table[schema.person_id], rows).cast(kind))
    return pa.concat_tables([table, come.select(table.column_names).cast(table.schema)])


def _new_id(ids: pa.ChunkedArray, rows: int) -> pa.Array:
    """An id that nobody has."""
    if pa.types.is_integer(ids.type):
        return pa.array([max(ids.to_pylist()) + 1] * rows)
    return pa.array(["nobody-" + max(map(str, ids.to_pylist()), key=len)] * rows)


def _replaced(
    table: pa.Table,
    schema: Schema,
    owners: NDArray[np.int64],
    who: int,
    rng: np.random.Generator,
    how: str,
) -> pa.Table:
    """The person's rows turned into equally many others, in their places; the id stays."""
    mine = np.flatnonzero(owners == who)
    sizes = np.array(schema.domain.shape)
    if how in ("far", "moved"):
        # Every column changes, and all rows to the same cell: no marginal can move further. Or one column does.
        first = np.array([c[0] for c in encode_table(table.slice(int(mine[0]), 1), schema).columns], np.int64)
        step = rng.integers(1, np.maximum(sizes, 2))
        if how == "moved":
            step[np.arange(len(sizes)) != (0 if rng.random() < 0.5 else rng.integers(len(sizes)))] = 0
        codes = np.tile((first + step) % sizes, (len(mine), 1))
    else:
        codes = rng.integers(0, sizes, (len(mine), len(sizes)))
        if how == "spread":
            codes[:, 0] = rng.permutation(sizes[0])[np.arange(len(mine)) % sizes[0]]
    come = _raw_rows(codes, schema, None)
    if schema.person_id is not None:
        come = come.append_column(schema.person_id, table[schema.person_id].take(pa.array(mine)))
    place = np.arange(table.num_rows)
    place[mine] = table.num_rows + np.arange(len(mine))
    both = pa.concat_tables([table, come.select(table.column_names).cast(table.schema)])
    return both.take(pa.array(place)).combine_chunks()


def _raw_rows(codes: Codes, schema: Schema, who: NDArray[np.int64] | None) -> pa.Table:
    """Values that have these codes, and ids."""
    columns = tuple(codes[:, i] for i in range(codes.shape[1]))
    # Which value of a bin it is does not matter: it has the code.
    rows = Decoder(schema).decode(Table(schema.domain, columns), np.random.default_rng(0))
    return rows if who is None else rows.append_column(schema.person_id, pa.array(who))
