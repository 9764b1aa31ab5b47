"""Files of SPSS, SAS and Stata as sources, read a block of rows at a time.

The header says what the numbers are: those of a column with value labels become the labels, those with the format of a
date become dates, and those that the file declares missing (SPSS's missing values, .a to .z of Stata, .A to .Z of SAS)
are null. So what a value becomes depends on the value and the header alone. What the library says of a value goes no
further: it may quote it.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import OpenPriorWarning, SourceError
from openprior.schema.columns import BLANKS, MISSING_TOKENS
from openprior.tables.office import library
from openprior.tables.source import BATCH_ROWS, Source, select
from openprior.tables.stored_dates import clock_of

__all__ = ["StatisticsFile"]

_READERS = {
    ".sav": ("read_sav", "spss"),
    ".zsav": ("read_sav", "spss"),
    ".por": ("read_por", "spss"),
    ".sas7bdat": ("read_sas7bdat", "sas"),
    ".xpt": ("read_xport", "sas"),
    ".dta": ("read_dta", "stata"),
}
_EXACT = 2.0**53
_POR_BLOCK = 8
"""Blocks of .por files are so many times longer: to skip a row of one, which is text, takes as long as to read it."""


class StatisticsFile:
    """A .sav, .zsav, .por, .sas7bdat, .xpt or .dta file."""

    is_text = False

    def __init__(self, path: Path) -> None:
        self._path, self.paths, self.name = path, (path,), path.stem
        self._reader, self._program = _READERS[path.suffix.lower()]
        with path.open("rb") as file:
            if not file.read(1):
                raise SourceError(f"{path} is empty; check that it was written")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            _, about = self._call(metadataonly=True)
        if any("duplicated" in str(warning.message) for warning in told):
            raise SourceError(f"{path} has two columns of the same name; rename one")
        self.columns: tuple[str, ...] = tuple(about.column_names)
        if not self.columns:
            raise SourceError(f"{path} has no columns; check that it was written")
        self.known_rows: int | None = about.number_rows
        self._forms: dict[str, str] = about.original_variable_types
        self._stored: dict[str, str] = about.readstat_variable_types
        self._labels = {
            column: distinct_labels(labels) for column, labels in about.variable_value_labels.items()
        }
        for column, words in self._labels.items():
            if missing := sorted(set(words.values()) & set(MISSING_TOKENS)):
                warnings.warn(
                    f"column '{column}' of {path.name} has the label '{missing[0]}', which a schema takes for missing "
                    "unless the column's missing_values say otherwise",
                    OpenPriorWarning,
                    stacklevel=2,
                )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        start, block = 0, BATCH_ROWS * (_POR_BLOCK if self._reader == "read_por" else 1)
        while chosen:
            values, _ = self._call(usecols=chosen, row_offset=start, row_limit=block)
            rows = len(values[chosen[0]])
            if rows:
                arrays = [self._array(column, values[column]) for column in chosen]
                yield pa.RecordBatch.from_arrays(arrays, names=chosen)
            if rows < block:
                return
            start += rows

    def split(self) -> list[Source]:
        """The parts that can be read apart: one."""
        return [self]

    def _call(self, **options: Any) -> Any:
        pyreadstat = library("pyreadstat", "pyreadstat", f"reading {self._path.suffix} files")
        try:
            return getattr(pyreadstat, self._reader)(
                str(self._path), output_format="dict", disable_datetime_conversion=True, **options
            )
        except Exception:  # noqa: BLE001  (errors of many kinds, whose words may quote a value)
            problem = (
                f"{self._path} cannot be read as a {self._path.suffix} file; it may be damaged or of another program, "
                "so open it there and save it again"
            )
        raise SourceError(problem)

    def _array(self, column: str, values: list[Any]) -> pa.Array:
        if self._stored[column] == "string":
            words = pa.array(values, pa.string())
            return _labelled(words, self._labels[column]) if column in self._labels else words
        numbers = pa.array(values, pa.float64())
        clock = clock_of(self._program, self._forms.get(column))
        if clock is not None:
            return clock.read(numbers)
        if self._stored[column] == "float":
            numbers = numbers.cast(pa.float32())  # as it was stored: 0.1 is on the edge 0.1
        if column in self._labels:
            return _labelled(numbers, self._labels[column])
        return _whole(numbers)


def distinct_labels(labels: Mapping[Any, str]) -> dict[Any, str]:
    """The labels of a column's values in the file's order, no two the same; a blank one is none.

    >>> distinct_labels({1: "yes", 2: "no", 3: "no", 9: " "})
    {1: 'yes', 2: 'no (2)', 3: 'no (3)'}
    """
    plain = {value: label.strip(BLANKS) for value, label in labels.items() if label.strip(BLANKS)}
    shown = list(plain.values())
    return {
        value: label if shown.count(label) == 1 else f"{label} ({spelled(value)})"
        for value, label in plain.items()
    }


def spelled(value: Any) -> str:
    """A value without a label as text: 7.0 is 7."""
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < _EXACT:
        value = int(value)
    return str(value)


def _labelled(values: pa.Array, labels: Mapping[Any, str]) -> pa.Array:
    """Values as their labels: a dictionary of all labels in the file's order, and of what has none as its own text."""
    coded = values.dictionary_encode()
    words = list(dict.fromkeys(labels.values()))
    place = {word: i for i, word in enumerate(words)}
    to = []
    for value in coded.dictionary.to_pylist():
        word = labels.get(value, None)
        if word is None:
            word = spelled(np.float32(value) if pa.types.is_float32(values.type) else value)
        to.append(place.setdefault(word, len(place)))
    indices = pc.take(pa.array(to, pa.int32()), coded.indices)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(place), pa.string()))


def _whole(numbers: pa.Array) -> pa.Array:
    """Integers, if all of these doubles are: 34 and 34.0 are the same number to every column, and a draft of a public
    table should say that an age is whole."""
    values = pc.fill_null(numbers, 1.0).to_numpy()
    if (
        (values == np.floor(values)) & (np.abs(values) < _EXACT) & ((values != 0) | ~np.signbit(values))
    ).all():
        return pc.cast(numbers, pa.int64())
    return numbers
