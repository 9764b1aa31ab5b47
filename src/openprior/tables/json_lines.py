"""JSON lines: one object per line, each value by its own JSON type.

A row may lack a key: then its value is null. So no row says which columns there are. For a table with a schema the
schema does, and nothing is read to know it; for a public table that is drafted from, one pass over all of its rows. A
column that no row at all has is refused at the end of a pass, because it is a name that was spelled in another way.
Nothing that was in a row is quoted.
"""

import codecs
import contextlib
import copy
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from openprior.errors import SourceError
from openprior.schema.reading_rules import Reading
from openprior.tables.naming import gone, stem, told
from openprior.tables.objects import object_array
from openprior.tables.packed import BROKEN, unpacked
from openprior.tables.source import Source, select

__all__ = ["JsonLines", "Keys"]

_ROWS = 16_384  # a batch of Python objects should not be large
_LONGEST = 4 << 20
_FAILURES = (FileNotFoundError, UnicodeError, *BROKEN)
_EXACT = range(-(2**53), 2**53 + 1)
"""Integers that doubles hold."""


@dataclass
class Keys:
    """What a pass has seen of the keys."""

    rows: int = 0
    names: set[str] = field(default_factory=set)

    def check(self, name: str, columns: Iterable[str]) -> None:
        """Refuse a column that no row has."""
        for column in columns:
            if self.rows and column not in self.names:
                raise SourceError(
                    f"no row of {name} has a key '{column}'; check its spelling, or leave it out of the schema"
                )


class JsonLines:
    """One file of JSON lines as a source."""

    is_text = False
    known_rows = None

    def __init__(self, path: Path, reading: Reading) -> None:
        self.paths = (path,)
        self.name, self._path = stem(path), path
        is_utf8 = codecs.lookup(reading.encoding).name == "utf-8"
        self._encoding = "utf-8-sig" if is_utf8 else reading.encoding
        start = self._start()
        if not start:
            raise SourceError(f"{told(path)} is empty, without a row; check that it was written")
        if start == "[":
            raise SourceError(
                f"{told(path)} is one JSON document; write one object per line, without brackets around"
            )
        if start != "{":
            raise SourceError(
                f"{told(path)} is not JSON with one object per line; write it again or rename it"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names that the schema has; without one, the keys of all rows, in the order in which they come."""
        names: dict[str, None] = {}
        for row in self._objects():
            names.update(dict.fromkeys(row))
        return tuple(names)

    def expecting(self, columns: Sequence[str]) -> "JsonLines":
        """The same table with the columns of a schema; reads nothing."""
        other = copy.copy(self)
        other.__dict__["columns"] = tuple(columns)
        return other

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen, keys = select(self.columns, columns, self.name), Keys()
        yield from self.noting(chosen, keys)
        keys.check(self.name, chosen)

    def noting(self, columns: Sequence[str], keys: Keys) -> Iterator[pa.RecordBatch]:
        """One pass, which notes the keys that it sees."""
        rows: list[dict[str, Any]] = []
        for row in self._objects():
            rows.append(row)
            if len(rows) == _ROWS:
                yield self._batch(rows, columns, keys)
                rows = []
        if rows:
            yield self._batch(rows, columns, keys)

    def split(self) -> list[Source]:
        return [self]

    def _batch(self, rows: list[dict[str, Any]], columns: Sequence[str], keys: Keys) -> pa.RecordBatch:
        keys.rows += len(rows)
        arrays = []
        for column in columns:
            if column not in keys.names and any(column in row for row in rows):
                keys.names.add(column)
            arrays.append(_array([row.get(column) for row in rows], column, self.name))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _objects(self) -> Iterator[dict[str, Any]]:
        for line in self._lines():
            row = _parsed(line)
            if not isinstance(row, dict):
                break
            yield row
        else:
            return
        raise SourceError(
            f"{told(self._path)} has a line that is not one JSON object with different keys; write one object per line"
        )

    def _start(self) -> str:
        """The first sign that is no blank. Nothing behind it is decoded: that is somebody's row, and what is wrong with
        one is found out when rows are read, where it is counted."""
        problem, decoder = "", codecs.getincrementaldecoder(self._encoding)()
        try:
            with unpacked(self._path) as stream:
                file = io.BufferedReader(stream)
                while byte := file.read(1):
                    if sign := decoder.decode(byte).lstrip():
                        return sign[0]
        except _FAILURES as error:
            problem = self._told(error)
        if problem:
            raise SourceError(problem)
        return ""

    def _lines(self) -> Iterator[str]:
        """Lines that are not blank."""
        problem, path = "", told(self._path)
        try:
            with unpacked(self._path) as stream:
                file = io.TextIOWrapper(io.BufferedReader(stream), self._encoding, newline="\n")
                while line := file.readline(_LONGEST):
                    if len(line) == _LONGEST and not line.endswith("\n"):
                        problem = f"{path} has a line of over {_LONGEST >> 20} MB; write one object per line"
                        break
                    if not line.isspace():
                        yield line.lstrip()
        except _FAILURES as error:
            problem = self._told(error)
        if problem:
            raise SourceError(problem)

    def _told(self, error: Exception) -> str:
        """Our words for what went wrong; those of the error may hold a row."""
        if isinstance(error, FileNotFoundError):
            return gone(self._path)
        if isinstance(error, UnicodeError):
            return (
                f"{told(self._path)} has text that is not {self._encoding.removesuffix('-sig')}; convert it to UTF-8, "
                "or say what it is with --encoding or under [reading] in the schema"
            )
        return f"{told(self._path)} cannot be read to its end; it may be damaged, write it again"


def _parsed(line: str) -> Any:
    """What a line of JSON holds, nothing if it is none; what Python says of it may quote it, and goes no further."""
    for decoder in _DECODERS:
        with contextlib.suppress(ValueError, RecursionError):
            return decoder.decode(line)
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError
    return row


def _whole(digits: str) -> int | float:
    """An integer of any length: of thousands of digits Python makes none, and they are no double, either."""
    try:
        return int(digits)
    except ValueError:
        return -math.inf if digits.startswith("-") else math.inf


_DECODERS = tuple(json.JSONDecoder(object_pairs_hook=_unique, parse_int=read) for read in (None, _whole))
"""The usual one, and one that takes every integer, which is slower."""


def _array(values: list[Any], column: str, name: str) -> pa.Array:
    kinds = set(map(type, values)) - {type(None)}
    if kinds & {list, dict}:
        raise SourceError(
            f"column '{column}' of {name} holds several values per row (lists or records); flatten it"
        )
    # The usual cases, by the same rule as objects: 7 and 7.0 are the same number, so that one array holds both.
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {float} or (kinds == {int, float} and _are_exact(values)):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds == {int} and _are_exact(values):
        return pa.array(values, pa.int64())
    return object_array(values)


def _are_exact(values: list[Any]) -> bool:
    return all(value in _EXACT for value in values if type(value) is int)
