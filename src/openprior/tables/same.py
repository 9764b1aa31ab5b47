"""A public table that is the private one: refused before anything is taken from it.

What comes from the public table is published without noise, so giving the private table as the public one by mistake
publishes it. `open_apart` opens both and refuses if they are the same frame, the same file (also through a link) or
files with the same bytes. A folder is refused if any of its files is one of the other's. `check_rows` refuses the same
rows in whatever order and format; that reads private rows, so a session does it, once a budget is reserved, and counts
the refusal. Rows are compared only of tables that can be read here and have equally many: one column of each, and the
others only if that was the same.

Few values in few rows can be the same by chance; then a refusal would be a mistake, and tell counts of the private
table. So rows count as the same only if another sample of the public table's population would hit its counts in less
than one of a thousand cases, which depends on the public table alone.

A public table that has *most* rows of the private one, or all of them and more, is not found: whether a person's row is
in a public table is what must not be told.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from openprior.errors import PrivacyError
from openprior.schema.base import Schema
from openprior.schema.identifiers import is_named_like_identifier
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.coded_rows import CodedRows
from openprior.tables.encode import Encoder
from openprior.tables.fingerprint import fingerprint, row_marks
from openprior.tables.source import Source, open_source
from openprior.tables.table import Table

__all__ = ["check_codes", "check_rows", "open_apart", "same"]

_CHANCE = 1e-3
_BLOCK = 1 << 20


def open_apart(
    private: object, publics: Iterable[object], schema: Schema | None = None, *, reading: Reading = PLAIN
) -> tuple[Source, list[Source]]:
    """The private table and the public ones as sources, refused if one of these is the private one: the same object,
    query or file, or a file with the same bytes. No row is read; `check_rows` compares those. Files are read as the
    schema says, or, where there is none yet, as `reading` does."""
    publics = list(publics)
    if any(public is private for public in publics):
        raise _refusal("is the very same object")
    source, *others = (open_source(data, schema, reading=reading) for data in (private, *publics))
    for other in others:
        if (how := _same_thing(source, other, reading if schema is None else schema.reading)) is not None:
            raise _refusal(how)
    return source, others


def check_rows(
    private: Source, publics: Iterable[Source], columns: Sequence[str], reading: Reading = PLAIN
) -> None:
    """Refuse a public table that has the rows of the private one, in whatever order, in these columns."""
    for public in publics:
        if (how := _same_rows(private, public, columns, reading)) is not None:
            raise _refusal(how)


def check_codes(private: Encoder, public: Table) -> None:
    """The same for public rows of which only the codes are left, as in a prior that is kept."""
    if not _is_here(private.source):
        return
    one, other = CodedRows.of_source(private), CodedRows.of_table(public)
    if (how := _same_rows(one, other, private.schema.names, PLAIN)) is not None:
        raise _refusal(how, "the prior's public table")


def same(
    one: Source, other: Source, columns: Sequence[str] | None = None, reading: Reading = PLAIN
) -> str | None:
    """How the second table is the first, in words; None if it is another. Without `columns`, all that both have."""
    return _same_thing(one, other, reading) or _same_rows(one, other, columns, reading)


def _same_thing(one: Source, other: Source, reading: Reading) -> str | None:
    if one is other or _same_plan(one, other):
        return "is the very same table"
    parts = {getattr(source, "part", None) for source in (one, other)}
    if len(parts) > 1 and None not in parts:
        return None  # two sheets of a workbook, or two tables of a database
    return _same_file(_paths(one), _paths(other), reading)


def _refusal(how: str, what: str = "the public table") -> PrivacyError:
    return PrivacyError(
        f"{what} {how} as the private one: what is taken from it would be published without noise; "
        "give another public table, or none"
    )


def _is_here(source: Source) -> bool:
    """Whether this process reads it; the rows of a table on a cluster are not brought here to be compared."""
    return not hasattr(source, "engine")


def _same_plan(one: Any, other: Any) -> bool:
    """Whether two tables on a cluster are the same query, by the cluster's own judgement."""
    compare: Callable[[object], bool] | None = getattr(one, "is_same_query", None)
    return compare is not None and compare(other)


# Files.


def _paths(source: Source) -> Sequence[Path]:
    paths: Sequence[Path] = getattr(source, "paths", ())
    return paths


def _same_file(ones: Sequence[Path], others: Sequence[Path], reading: Reading) -> str | None:
    part = "" if len(ones) == len(others) == 1 else "has a file that "
    sizes: dict[int, list[Path]] = {}
    for path in ones:
        sizes.setdefault(path.stat().st_size, []).append(path)
    for other in others:
        for one in sizes.get(other.stat().st_size, ()):
            if os.path.samefile(one, other):
                return f"{part}is the same file"
            if _same_bytes(one, other) and (not part or _has_rows(other, reading)):
                return f"{part}has the same bytes"
    return None


def _same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb") as left, other.open("rb") as right:
        while True:
            block = left.read(_BLOCK)
            if block != right.read(_BLOCK):
                return False
            if not block:
                return True


def _has_rows(path: Path, reading: Reading) -> bool:
    """Parts of a folder that have a header and no rows may well be the same."""
    source = open_source(path, reading=reading)
    return any(batch.num_rows for batch in source.batches(source.columns[:1]))


# Rows.


def _same_rows(one: Source, other: Source, columns: Sequence[str] | None, reading: Reading) -> str | None:
    if not (_is_here(one) and _is_here(other)):
        return None
    known = {getattr(source, "known_rows", None) for source in (one, other)} - {None}
    compared = _compared(one.columns, other.columns, columns)
    if len(known) > 1 or not compared:
        return None
    for some in (compared[:1], compared):
        # The public table first: where it is empty, or cannot be read, the private one is left alone.
        public = fingerprint(other, some, reading)
        private = fingerprint(one, some, reading) if public.rows else public
        if not public.rows or (public.rows, public.in_any_order) != (private.rows, private.in_any_order):
            return None
    in_order = public.in_this_order == private.in_this_order
    if _by_chance(other, compared, reading, in_order=in_order) > _CHANCE:
        return None
    return "has the same rows" if in_order else "has the same rows, in another order,"


def _compared(ones: Sequence[str], others: Sequence[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns to compare: rows that were only numbered anew are still the same rows."""
    both = tuple(name for name in others if name in ones and (columns is None or name in columns))
    plain = tuple(name for name in both if not is_named_like_identifier(name))
    return plain if columns is None and plain else both


def _by_chance(public: Source, columns: Sequence[str], reading: Reading, *, in_order: bool) -> float:
    """How likely a sample of as many rows from the public table's population has just its counts: multinomial.

    An order that is not just like rows beside each other is hit by chance so rarely that it counts as never.
    """
    marks: npt.NDArray[np.uint64] = np.concatenate([some[0] for some in row_marks(public, columns, reading)])
    counts = np.unique(marks, return_counts=True)[1].astype(np.float64)
    if in_order and 1 + np.count_nonzero(marks[1:] != marks[:-1]) > len(counts):
        return 0.0
    n = counts.sum()
    return math.exp(gammaln(n + 1) - gammaln(counts + 1).sum() + (counts * np.log(counts / n)).sum())
