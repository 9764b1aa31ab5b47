"""The fingerprint of a table: a few numbers that two tables share only if they have the same rows.

A value has one meaning in every format: 7, 7.0, "7" and "007" are one number, a date is a moment, and null, NaN and the
usual words for missing are one. Each value becomes 128 bits under a key that is drawn anew in every process, each row
a mixture of its values', and the table their sum modulo 2^128, so the order of the rows does not matter. One pass, a
batch at a time. Two tables with other rows have the same fingerprint by chance in about one of 2^128 cases; nobody who
does not know the key can make it happen. The numbers never leave the process: the table may be private.
"""

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import SourceError
from openprior.schema.columns import MISSING_TOKENS
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.convert import Numbers, is_text, moments, numbers, text
from openprior.tables.scramble import scrambled
from openprior.tables.source import Source
from openprior.tables.unwrap import members, plain

__all__ = ["Fingerprint", "fingerprint", "row_marks"]

Marks = npt.NDArray[np.uint64]
"""One column per value or row, two words of 64 bits each."""

_KEY = secrets.token_bytes(32)
_LANES = np.frombuffer(_KEY[:16], np.uint64).reshape(2, 1) | np.uint64(1)
_MISSING, _NUMBER, _FRACTION, _MOMENT, _TIME = (np.uint64(i) for i in range(1, 6))
_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class Fingerprint:
    """Of a table's rows."""

    rows: int
    in_any_order: tuple[int, int]
    in_this_order: tuple[int, int]


def fingerprint(source: Source, columns: Sequence[str], reading: Reading = PLAIN) -> Fingerprint:
    """The fingerprint of the rows with these columns, in one pass."""
    rows = 0
    any_order, this_order = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
    for marks in row_marks(source, columns, reading):
        places = np.arange(rows, rows + marks.shape[1], dtype=np.uint64)
        any_order += marks.sum(axis=1, dtype=np.uint64)
        this_order += (marks * (scrambled(places + _LANES) | np.uint64(1))).sum(axis=1, dtype=np.uint64)
        rows += marks.shape[1]
    return Fingerprint(rows, _pair(any_order), _pair(this_order))


def row_marks(source: Source, columns: Sequence[str], reading: Reading = PLAIN) -> Iterator[Marks]:
    """The marks of the rows, a batch at a time."""
    for batch in source.batches(list(columns)):
        if batch.num_rows:
            mark = np.repeat(_LANES, batch.num_rows, axis=1)
            for name in columns:
                mark = scrambled(mark * _LANES + _checked(plain(batch.column(name)), name, reading))
            yield mark


def _checked(array: pa.Array, name: str, reading: Reading) -> Marks:
    """The marks of values; what Arrow says of one that breaks it may quote it, so it goes no further."""
    try:
        return _values(array, reading)
    except pa.ArrowException:
        problem = f"column '{name}' holds values that cannot be compared; convert it to text or drop it"
    raise SourceError(problem)


def _pair(words: Marks) -> tuple[int, int]:
    return int(words[0]), int(words[1])


def _values(array: pa.Array, reading: Reading) -> Marks:
    """The marks of values, whatever their type."""
    if pa.types.is_union(array.type):
        joined = np.zeros((2, len(array)), np.uint64)
        for rows, member in members(array):
            joined[:, rows] = _values(member, reading)
        return joined
    if pa.types.is_dictionary(array.type):
        # One more place at the end, for null.
        known = np.append(_values(plain(array.dictionary), reading), _constant(_MISSING, 1), axis=1)
        places = pc.fill_null(array.indices.cast(pa.int64()), known.shape[1] - 1)
        marks: Marks = np.take(known, places.to_numpy(zero_copy_only=False), axis=1)
        return marks
    if is_text(array.type):
        words = text(array)
        packed = words.dictionary_encode()
        # A word's marks follow from the word alone, so each is looked at once where they come again and again.
        return _values(packed, reading) if 2 * len(packed.dictionary) < len(words) else _words(words, reading)
    if pa.types.is_time(array.type):
        return _with_nulls(moments(array, time_of_day=True), _TIME)
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        return _with_nulls(moments(array, time_of_day=False), _MOMENT)
    if (
        pa.types.is_boolean(array.type)
        or pa.types.is_primitive(array.type)
        or pa.types.is_decimal(array.type)
    ):
        found = numbers(array)
        if found.unparsed is None:
            return _with_nulls(found, _NUMBER)
    return _words(text(array), reading)


def _words(words: pa.Array, reading: Reading) -> Marks:
    """The marks of text: of the number or moment that it means, or of itself."""
    lower = pc.utf8_lower(words)
    for truth, number in _TRUTH.items():
        words = pc.if_else(pc.equal(lower, truth), number, words)
    gaps = pa.array((*MISSING_TOKENS, *reading.null_values), words.type)
    missing = pc.or_kleene(words.is_null(), pc.is_in(words, gaps))
    words = pc.if_else(missing, None, words)
    figures = numbers(words, reading)
    marks, left = _with_nulls(figures, _NUMBER), _marked(figures)
    for time_of_day, kind in ((False, _MOMENT), (True, _TIME)):
        if not left.size:
            return marks
        found = moments(words.take(pa.array(left)), reading, time_of_day=time_of_day)
        bad = _marked(found)
        good = np.ones(left.size, np.bool_)
        good[bad] = False
        marks[:, left[good]] = _with_nulls(found, kind)[:, good]
        left = left[bad]
    for place, word in zip(left, words.take(pa.array(left)).to_pylist(), strict=True):
        digest = hashlib.blake2b(word.encode(), digest_size=16, key=_KEY).digest()
        marks[:, place] = np.frombuffer(digest, np.uint64)
    return marks


def _marked(found: Numbers) -> npt.NDArray[np.intp]:
    """The places that could not be parsed."""
    return np.empty(0, np.intp) if found.unparsed is None else np.flatnonzero(found.unparsed)


def _with_nulls(found: Numbers, kind: np.uint64) -> Marks:
    marks = _plain_numbers(found.values, kind)
    if found.reals is not None:
        marks[:, found.reals[0]] = _plain_numbers(found.reals[1], kind)
    if found.null is not None:
        marks = np.where(found.null, _constant(_MISSING, 1), marks)
    return marks


def _plain_numbers(values: npt.NDArray[Any], kind: np.uint64) -> Marks:
    if values.dtype.kind != "f":
        return _numbers(values.astype(np.int64).view(np.uint64), kind)
    # Whole numbers as such, and fractions as precisely as the narrowest type that a file may have had.
    whole = (values == np.floor(values)) & (np.abs(values) < 2.0**63)
    ticks = np.where(whole, values, 0.0).astype(np.int64)
    with np.errstate(over="ignore"):
        fractions = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return np.where(whole, _numbers(ticks.view(np.uint64), kind), _numbers(fractions, _FRACTION))


def _numbers(values: npt.NDArray[np.uint64], kind: np.uint64) -> Marks:
    return scrambled(values + _LANES * kind)


def _constant(kind: np.uint64, times: int) -> Marks:
    return np.repeat(scrambled(_LANES * kind), times, axis=1)
