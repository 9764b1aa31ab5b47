"""A folder of files as one table: all files below it, in the order of their names.

Folders named as Hive and Spark name them, `year=2021/month=3`, give columns of text; what they hold in them is
url-quoted, and `__HIVE_DEFAULT_PARTITION__` is null. Other folders only group files. What begins with a dot or an
underscore is no part of the table.
"""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from openprior.errors import SourceError
from openprior.tables.json_lines import JsonLines, Keys
from openprior.tables.naming import ending, told
from openprior.tables.source import Source, select

__all__ = ["Folder"]

_KINDS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
}
_MOST = 20_000
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
"""Tables whose log says which of the files still count."""


class Folder:
    """The files of a folder one after another."""

    def __init__(self, path: Path, open_file: Callable[[Path], Any]) -> None:
        self.name = path.resolve().name
        found = list(_below(path, path, _Walk()))
        kinds = {_KINDS[ending(file)] for file in found if ending(file) in _KINDS}
        if len(kinds) > 1:
            raise SourceError(
                f"folder {path} has {' and '.join(sorted(kinds))} files; keep one kind, or name one file"
            )
        files = [file for file in found if ending(file) in _KINDS or (not kinds and ending(file) == ".json")]
        if not files:
            raise SourceError(f"folder {path} has no CSV, Parquet or JSON files; check the path")
        self._parts = [_Part(open_file(file), _keys(file, path)) for file in files]
        self.paths = tuple(files)
        self.is_text: bool = self._parts[0].is_text
        rows = [part.known_rows for part in self._parts]
        self.known_rows = None if None in rows else sum(rows)
        self._keys, self._is_json = tuple(self._parts[0].keys), isinstance(self._parts[0].file, JsonLines)
        for part in self._parts:
            if tuple(part.keys) != self._keys:
                raise SourceError(
                    f"{told(part.path)} lies in folders with other keys (name=value) than the files before it; "
                    "give all the same"
                )
            if not self._is_json and set(part.columns) != set(self._parts[0].columns):
                raise SourceError(
                    f"{told(part.path)} has other columns than the files before it; give all the same"
                )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those of every file; of JSON lines, which may lack some, those of any."""
        parts = self._parts if self._is_json else self._parts[:1]
        return tuple(dict.fromkeys(column for part in parts for column in part.columns))

    def expecting(self, columns: Sequence[str]) -> "Folder":
        """The same table with the columns of a schema, where they are not in the files; reads nothing."""
        if not self._is_json:
            return self
        other = copy.copy(self)
        other.__dict__["columns"] = tuple(columns)
        return other

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen, keys = select(self.columns, columns, self.name), Keys()
        for part in self._parts:
            yield from part.noting(chosen, keys)
        if self._is_json:
            keys.check(self.name, [column for column in chosen if column not in self._keys])

    def split(self) -> list[Source]:
        # Whether no row has a key is known only where all of them are read.
        return [self] if self._is_json else [some for part in self._parts for some in part.split()]


class _Part:
    """A file and what the names of its folders say."""

    def __init__(self, file: Any, keys: Mapping[str, str | None]) -> None:
        self.file, self.keys = file, keys
        self.name, self.is_text, self.known_rows = file.name, file.is_text, file.known_rows
        self.path: Path = file.paths[0]
        if not isinstance(file, JsonLines):
            for key in keys:
                if key in file.columns:
                    raise SourceError(
                        f"column '{key}' is in {told(self.path)} and in the names of its folders; keep one of them"
                    )

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(column for column in self.file.columns if column not in self.keys), *self.keys)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return self.noting(self.columns if columns is None else columns, Keys())

    def noting(self, columns: Sequence[str], keys: Keys) -> Iterator[pa.RecordBatch]:
        """One pass, which notes the keys of JSON lines that it sees."""
        stored = [column for column in columns if column not in self.keys]
        # Where all that is asked for stands in the folders' names, any column tells how many rows there are.
        file = self.file
        if isinstance(file, JsonLines):
            batches = file.noting(stored or [""], keys)
        else:
            batches = file.batches(stored or file.columns[:1])
        for batch in batches:
            if not self.keys:
                yield batch
                continue
            arrays = [
                _constant(self.keys[column], batch.num_rows) if column in self.keys else batch.column(column)
                for column in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def split(self) -> list[Source]:
        return [_Part(some, self.keys) for some in self.file.split()]


def _constant(value: str | None, rows: int) -> pa.Array:
    """One text in every row; as a dictionary, which is looked up once."""
    places = pa.nulls(rows, pa.int32()) if value is None else pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(places, pa.array([value or ""], pa.string()))


def _keys(file: Path, root: Path) -> dict[str, str | None]:
    """The columns that the names of a file's folders are."""
    keys: dict[str, str | None] = {}
    for folder in file.relative_to(root).parts[:-1]:
        name, sign, value = folder.partition("=")
        if sign:
            name, value = unquote(name), unquote(value)
            if name in keys or not name:
                raise SourceError(
                    f"{told(file)} lies in folders with the key '{name}' twice or without one; rename them"
                )
            keys[name] = None if value == _NULL else value
    return keys


@dataclass
class _Walk:
    """Where a walk through folders has been."""

    folders: set[str] = field(default_factory=set)
    entries: int = 0


def _below(folder: Path, root: Path, walk: _Walk) -> Iterator[Path]:
    """The files of a folder and of those below it; a link that leads back up is not followed again."""
    real = os.path.realpath(folder)
    if real in walk.folders:
        return
    walk.folders.add(real)
    entries = sorted(folder.iterdir())
    walk.entries += len(entries)
    if walk.entries > _MOST:
        raise SourceError(
            f"folder {root} has more than {_MOST:,} files and folders below it; name the one with the table"
        )
    for entry in entries:
        if entry.name in _LOGS and entry.is_dir():
            what = _LOGS[entry.name]
            raise SourceError(
                f"{told(entry)} is the log of a {what} table, of whose files only some count; read the table with a "
                f"library for {what}, and give what that gives"
            )
        hidden = entry.name.startswith((".", "_"))
        if entry.is_dir():
            if not hidden or "=" in entry.name:
                yield from _below(entry, root, walk)
        elif not hidden and entry.is_file():
            yield entry
