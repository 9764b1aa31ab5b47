"""From the values of one column to its codes, whatever Arrow type they come in.

Values are matched by what they mean, not by how they are stored: "7", 7 and 7.0 all are the integer label 7. A code
depends on the value and its type alone (convert.py has the rules), so one changed value moves one row. Text is looked
up once per distinct value; small integers go through a table. What the column refuses gets one of four marks above its
codes, so that the caller can say what was wrong with it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import EncodeError
from openprior.schema.bins import Binned, Datetime, Integer
from openprior.schema.columns import Boolean, Column, Label, Labelled, canonical_number
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.convert import Numbers, is_text, moments, numbers, text
from openprior.tables.number_keys import Signs, places_among, rounded, sorted_numbers, whole_between
from openprior.tables.table import dtype_for
from openprior.tables.unwrap import members, plain, unreadable

__all__ = ["Coder", "column_numbers"]

Codes = npt.NDArray[Any]

_TABLE_SPAN = 1 << 16  # a lookup table of 64 Ki codes stays in the second-level cache
_WHOLE_ALONE, _DOUBLES_TOO = 1 << 62, 1 << 52
"""Below which integers may be looked up in a table: if they are compared with integers alone, and if with doubles, too,
which must tell every integer from the next."""


class Coder:
    """The codes of one column. Pure: it may be called from several threads."""

    def __init__(self, column: Column, reading: Reading = PLAIN) -> None:
        self.column, self._reading = column, reading
        size = column.size
        self.outside, self.above, self.unparsed, self.refused_null = range(size, size + 4)
        self._dtype = dtype_for(size + 4)
        # The code that a null, a value outside (or above) and text that is no number get: their own, or a mark.
        self._null, self._outside, self._unparsed = self.refused_null, self.outside, self.unparsed
        self._above = self.above
        if column.other_code is not None:
            self._null = column.other_code
            if column.out_of_domain != "error":
                self._outside = self._above = self._unparsed = column.other_code
        if column.missing_code is not None:
            self._null = column.missing_code
            if column.is_clipped and column.other_code is None:
                self._unparsed = column.missing_code  # what is no number is near to none
        if isinstance(column, Labelled) and not column.is_numeric:
            self._unparsed = self._outside
        # Numbers that mean missing, whatever they are stored as; a moment is no number.
        absent = (*column.missing_numbers, *reading.null_numbers)
        self._absent = Signs(() if isinstance(column, Datetime) else absent)
        self._keys: npt.NDArray[Any] = np.zeros(0, np.int64)
        if isinstance(column, Labelled):
            self._prepare_labels(column)
        self._table: Codes | None = None
        self._base = 0
        self._prepare_table()

    def __call__(self, array: Any) -> Codes:
        """One code per value; codes of `size` and above are marks."""
        array = plain(array)
        if (what := unreadable(array.type)) is not None:
            raise EncodeError(f"column '{self.column.name}' holds {what}")
        if pa.types.is_union(array.type):
            codes: Codes = np.zeros(len(array), self._dtype)
            for rows, member in members(array):
                codes[rows] = self(member)
            return codes
        if pa.types.is_dictionary(array.type):
            return self._dictionary(array)
        if is_text(array.type):
            return self._dictionary(array.dictionary_encode())
        return self._values(array)

    def _dictionary(self, array: pa.Array) -> Codes:
        distinct, indices = plain(array.dictionary), array.indices
        if len(distinct) > len(array):
            # A batch of a long column: to look up all of its values in every batch would be slow.
            used = indices.drop_null().unique()
            distinct, indices = distinct.take(used), pc.index_in(indices, used)
        codes = self._values(distinct) if is_text(distinct.type) else self(distinct)
        if indices.null_count:
            codes = np.append(codes, codes.dtype.type(self._null))
            indices = pc.fill_null(indices.cast(pa.int64()), len(codes) - 1)
        taken: Codes = np.take(codes, indices.to_numpy())
        return taken

    def _values(self, array: pa.Array) -> Codes:
        column = self.column
        if is_text(array.type):
            return self._text(array)
        if isinstance(column, Labelled):
            if pa.types.is_boolean(array.type) and not column.is_numeric:
                return self._bools(array)
            if not (column.is_numeric or _is_number(array.type)):
                return self._text(array)
            return self._numbers(numbers(array))
        return self._numbers(column_numbers(column, array, self._reading))

    def _text(self, array: pa.Array) -> Codes:
        column = self.column
        words = text(array)
        gaps = (*column.missing_values, *self._reading.null_values)
        blank = pc.is_in(words, pa.array(gaps, words.type))
        if isinstance(column, Labelled) and not column.is_numeric:
            missing = pc.or_(words.is_null(), blank).to_numpy(zero_copy_only=False)
            codes = self._words(words)
        else:
            words = pc.if_else(blank, pa.scalar(None, words.type), words)
            return self._numbers(column_numbers(column, words, self._reading))
        codes[missing.astype(np.bool_)] = self._null
        return codes

    def _words(self, words: pa.Array) -> Codes:
        labels = self._labels.cast(words.type)
        places = pc.index_in(words, labels)
        if self._any_case:
            # Both by Arrow's rule: Python's makes the last letter of a Greek word another one.
            places = pc.coalesce(places, pc.index_in(pc.utf8_lower(words), pc.utf8_lower(labels)))
        codes: Codes = pc.fill_null(places, self._outside).to_numpy(zero_copy_only=False).astype(self._dtype)
        if self._any_case and (len(self._keys) or self._absent) and places.null_count:
            # "1" and "0" for true and false, and numbers that mean missing.
            parsed = self._numbers(numbers(words, self._reading))
            codes = np.where(places.is_valid().to_numpy(zero_copy_only=False), codes, parsed).astype(
                self._dtype
            )
        return codes

    def _bools(self, array: pa.Array) -> Codes:
        null = array.is_null().to_numpy(zero_copy_only=False)
        truth = pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
        codes: Codes = np.where(null, self._dtype.type(self._null), self._pair[truth])
        return codes

    def _numbers(self, parsed: Numbers) -> Codes:
        values = parsed.values
        if self._table is not None and values.dtype.kind in "iu":
            codes = self._look(values)
        else:
            codes = self._search(values, parsed.precision)
        if parsed.reals is not None:
            codes = np.array(codes)
            codes[parsed.reals[0]] = self._search(parsed.reals[1])
        if parsed.null is not None or parsed.unparsed is not None or self._absent:
            codes = np.array(codes)
            if self._absent:
                codes[self._is_absent(parsed)] = self._null
            if parsed.unparsed is not None:
                codes[parsed.unparsed] = self._unparsed
            if parsed.null is not None:
                codes[parsed.null] = self._null
        return codes

    def _is_absent(self, parsed: Numbers) -> npt.NDArray[np.bool_]:
        """Which numbers mean missing."""
        absent = self._absent.among(parsed.values, parsed.precision)
        if parsed.reals is not None:
            places, reals = parsed.reals
            absent[places] = self._absent.among(reals)
        return absent

    def _look(self, values: npt.NDArray[Any]) -> Codes:
        """Codes of integers by table; the table's two ends stand for everything below and above."""
        assert self._table is not None
        if not values.size:
            return np.zeros(0, self._dtype)
        first, last = self._base, self._base + len(self._table) - 1
        low, high = int(values.min()), int(values.max())
        inside = low > first and high < last
        if inside and self._is_identity:
            if values.dtype == self._dtype:
                return values
            return values.astype(self._dtype)
        if not inside:
            values = np.clip(values.astype(np.int64), first, last)
        codes: Codes = np.take(self._table, np.subtract(values, first, dtype=np.intp))
        return codes

    def _search(self, values: npt.NDArray[Any], precision: npt.DTypeLike = np.float64) -> Codes:
        """Codes of any numbers, by bisection."""
        column = self.column
        if values.dtype.kind in "iu":
            values = values.astype(np.int64, copy=False)
        clip = column.is_clipped
        if isinstance(column, Binned):
            low, high = column.bounds
            edges = column.edges[1:-1] if column.bins else np.zeros(0)
            if isinstance(low, float):
                low, high = rounded(np.array([low, high]), precision).tolist()
                edges = rounded(edges, precision)
                below, beyond = values < low, values > high
                values = np.clip(values, low, high)
            else:
                values, below, beyond = whole_between(values, int(low), int(high))
            outside = np.zeros(len(values), np.bool_) if clip else below | beyond
            if isinstance(column, Integer) and not column.bins:
                codes = (values - column.low).astype(self._dtype)
            else:
                codes = np.searchsorted(edges, values, side="right").astype(self._dtype)
            if not clip and beyond.any():
                codes[beyond], outside[beyond] = self._above, False
        elif not len(self._keys):
            return np.full(len(values), self._outside, self._dtype)
        else:
            keys = self._keys if clip else rounded(self._keys, precision)
            places, outside = places_among(keys, values)
            codes = self._key_codes[places]
            if clip:
                # Between two neighbours in floating point the middle is one of them: a value that is a key is that key.
                nearest = self._key_codes[np.searchsorted(self._keys[:-1] / 2 + self._keys[1:] / 2, values)]
                codes, outside = np.where(outside, nearest, codes), np.zeros(len(values), np.bool_)
        marked: Codes = np.where(outside, self._dtype.type(self._outside), codes)
        return marked

    def _prepare_labels(self, column: Labelled) -> None:
        self._any_case = isinstance(column, Boolean)
        labels = column.value_labels
        self._labels = pa.array(labels, pa.string())
        place: dict[Label, int] = {}
        for code, value in enumerate(column.values):
            if isinstance(value, str):
                number = canonical_number(value)
                if number is not None:
                    # "7" goes before "7.0" as the label of the number 7.
                    place[number] = code if value == str(number) else place.get(number, code)
            else:
                place[int(value) if isinstance(value, bool) else value] = code
        self._keys = sorted_numbers(place)
        self._key_codes = np.array([place[k] for k in sorted(place)], self._dtype)
        self._pair = np.array(self._truth_codes(column, labels, place), self._dtype)

    def _truth_codes(self, column: Labelled, labels: tuple[str, ...], place: dict[Label, int]) -> list[int]:
        if isinstance(column, Boolean):
            return [0, 1]
        codes = []
        for truth in (False, True):
            spellings = (str(truth).lower(), str(truth), str(truth).upper())
            listed = next((labels.index(s) for s in spellings if s in labels), None)
            codes.append(place.get(int(truth), self._outside) if listed is None else listed)
        return codes

    def _prepare_table(self) -> None:
        column = self.column
        if isinstance(column, Datetime):
            return
        if isinstance(column, Binned):
            low, high = (int(b) for b in column.bounds)
        elif len(self._keys):
            low, high = int(self._keys[0]), int(self._keys[-1])
        else:
            return
        self._is_identity = isinstance(column, Integer) and not column.bins and low == 0
        # The table's ends stand for all that is beyond them, so rounding must take neither for a number inside.
        exact = _WHOLE_ALONE if isinstance(column, Integer) else _DOUBLES_TOO
        if high - low <= _TABLE_SPAN and max(abs(low), abs(high)) < exact:
            self._base = low - 1
            self._table = self._search(np.arange(low - 1, high + 2, dtype=np.int64))


def column_numbers(column: Column, array: Any, reading: Reading = PLAIN) -> Numbers:
    """The values of a column as plain numbers: what bins are made of."""
    array = plain(array)
    if pa.types.is_dictionary(array.type):
        distinct = column_numbers(column, array.dictionary, reading)
        indices = pc.fill_null(array.indices, 0).to_numpy()
        null = None if distinct.null is None else distinct.null[indices]
        if array.indices.null_count:
            gaps = array.indices.is_null().to_numpy(zero_copy_only=False)
            null = gaps if null is None else null | gaps
        bad = None if distinct.unparsed is None else distinct.unparsed[indices]
        return Numbers(distinct.merged()[indices], null, bad, distinct.precision)
    if pa.types.is_union(array.type):
        parts = [(rows, column_numbers(column, part, reading)) for rows, part in members(array)]
        return _joined(len(array), parts)
    if not isinstance(column, Datetime):
        return numbers(array, reading)
    parsed = moments(array, reading, time_of_day=column.is_time)
    if column.grain > 1:
        values = parsed.values - parsed.values % column.grain
        return Numbers(values, parsed.null, parsed.unparsed)
    return parsed


def _joined(n: int, parts: list[tuple[npt.NDArray[np.intp], Numbers]]) -> Numbers:
    """Numbers of several types, as doubles."""
    values, null, bad = np.zeros(n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for rows, part in parts:
        values[rows] = part.merged()
        for mask, marked in ((null, part.null), (bad, part.unparsed)):
            if marked is not None:
                mask[rows] = marked
    return Numbers(values, null, bad)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
