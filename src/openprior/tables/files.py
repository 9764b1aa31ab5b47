"""Files and folders of them as sources: which format a path has, by its first bytes and its ending.

CSV (csv_file.py), Parquet (parquet_file.py), JSON lines (json_lines.py), and folders of one of them (partitions.py). To
add a format: a source class in a file of its own, and a line in `_open_file`.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from openprior.errors import SourceError
from openprior.given import path_of
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.csv_file import CsvFile
from openprior.tables.foreign_file import refuse_foreign
from openprior.tables.json_lines import JsonLines
from openprior.tables.naming import ending, told
from openprior.tables.office import open_office_file
from openprior.tables.parquet_file import ParquetFile
from openprior.tables.partitions import Folder
from openprior.tables.source import Source

__all__ = ["open_path", "open_split"]


def open_path(path: str | os.PathLike[str], reading: Reading = PLAIN) -> Source:
    """The source at a path: a file, a folder of files of one kind, or a file of another program."""
    place = path_of("a table", path, error=SourceError)
    try:
        if place.is_dir():
            return Folder(place, partial(_open_file, reading=reading))
        if place.exists() and not place.is_file():
            # A pipe would wait for a writer, and could be read once only.
            raise SourceError(f"{path} is a pipe or a device; save what it gives in a file, and name that")
        source: Source = open_office_file(place) or _open_file(place, reading)
        return source
    except FileNotFoundError:
        problem = f"there is no file {path}; check the path"
    except OSError as error:
        what = error.strerror or "it is damaged"
        problem = f"cannot open {path}: {what}; check the path and its permissions"
    # Outside the handlers: what was being handled names the file, with the values in its folders' names.
    raise SourceError(problem)


def open_split(path: str, reading: Reading = PLAIN) -> tuple[Source, list[Source]]:
    """The source at a path, and sources of its parts: files, and groups of rows of Parquet files. They can be pickled
    and read apart, wherever the files are seen under the same path."""
    source: Any = open_path(path, reading)
    return source, source.split()


def _open_file(path: Path, reading: Reading) -> Any:
    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        raise SourceError(f"{told(path)} is empty, without even a header; check that it was written")
    if start == b"PAR1":
        return ParquetFile(path)
    if ending(path) in (".parquet", ".pq"):
        raise SourceError(f"{told(path)} is not a Parquet file; write it again or rename it")
    refuse_foreign(path, start)
    if ending(path) in (".jsonl", ".ndjson", ".json"):
        return JsonLines(path, reading)
    return CsvFile(path, reading)
