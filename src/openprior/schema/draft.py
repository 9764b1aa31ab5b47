"""A first schema from the public table: guess each column's kind, labels and bins for a person to correct.

One pass counts the distinct values of every column; everything else is decided on those counts. Only public
data may come here: domains, labels and bin edges taken from private data would be released without noise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import SchemaError, SourceError
from openprior.given import several, shown, whole_number
from openprior.schema.bins import DAY, Datetime, Integer, Real
from openprior.schema.columns import (
    MISSING_TOKENS,
    Boolean,
    Categorical,
    Column,
    Ordered,
    arrow_type,
    is_string,
)
from openprior.schema.edges import FIRST_MOMENT, LAST_MOMENT, few, moment_of, quantile_edges
from openprior.schema.identifiers import Observed, is_named_like_identifier, remark_on
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.convert import UNREADABLE, moments, numbers, text
from openprior.tables.source import Source, open_source
from openprior.tables.spelling import plain_moments, plain_numbers
from openprior.tables.spelling_hints import hint_on
from openprior.tables.unwrap import plain, unreadable

__all__ = ["draft_columns"]

_OWN_CODES = 64  # integers in a range this short keep a code each
_WITHOUT_GAPS = 0.9  # share of the numbers from lowest to highest that occur, for a running number
_MOST = 1_000_000  # bins or values of a column
_PARTS = 64  # partial counts held before they are merged
_TEXTS = ("string", "large_string", "string_view")
_TRUTHS = (("false", "true"), ("no", "yes"))
# No leading zeros (01301 is a code, not a number) and no more digits than an integer of 64 bits has.
_PLAIN_NUMBER = r"^[+-]?((0|[1-9]\d{0,17})(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$"
_WHOLE = r"^-?(0|[1-9]\d{0,17})$"


@dataclass(frozen=True)
class _Options:
    bins: int
    max_values: int
    reading: Reading


@dataclass(frozen=True, eq=False)
class _Counts:
    """The distinct values of a column that are not missing, and how often each occurs."""

    name: str
    values: pa.Array
    counts: npt.NDArray[np.int64]
    missing: bool
    dtype: str

    @property
    def rows(self) -> int:
        return int(self.counts.sum())


def draft_columns(
    public: object,
    reading: Reading = PLAIN,
    *,
    bins: int,
    max_values: int,
    person_id: str | None,
    exclude: Sequence[str] = (),
    include: Sequence[str] = (),
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns, and remarks on those that a person should look at; identifiers that are left out among them."""
    for option, number in (("bins", bins), ("max_values", max_values)):
        if not 1 <= whole_number(option, number, error=SchemaError) <= _MOST:
            raise SchemaError(f"{option} = {shown(number)}; use at least 1 and at most {_MOST:,}")
    exclude = (exclude,) if isinstance(exclude, str) else several("exclude", exclude, error=SchemaError)
    source = open_source(public, reading=reading)
    if person_id is not None and person_id not in source.columns:
        raise SchemaError(
            f"{source.name} has no person id column '{person_id}'; it has {', '.join(source.columns)}"
        )
    for wish, listed in (("leave out", exclude), ("take in", include)):
        for name in listed:
            if name not in source.columns:
                raise SchemaError(
                    f"{source.name} has no column '{name}' to {wish}; it has {', '.join(source.columns)}"
                )
    for name in include:
        if name in exclude or name == person_id:
            role = "the person id" if name == person_id else "left out"
            raise SchemaError(f"column '{name}' cannot be taken in and be {role} as well; choose one")
    names = [name for name in source.columns if name != person_id and name not in exclude]
    if not names:
        raise SchemaError(f"{source.name} has no column left to draft; leave fewer out")
    parts: dict[str, list[pa.Table]] = {name: [] for name in names}
    types: dict[str, pa.DataType] = {}
    for batch in source.batches(names):
        for name in names:
            array = plain(batch.column(name))
            if (what := unreadable(array.type)) is not None:
                raise SchemaError(f"column '{name}' holds {what}, or leave it out")
            if pa.types.is_union(array.type):
                array = text(array)
            kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
            types[name] = _common(types.get(name, kind), kind)
            parts[name].append(_count(array))
            if len(parts[name]) >= _PARTS:
                parts[name] = [_merge(parts[name], types[name])]
    if not types:
        raise SourceError(f"{source.name} is empty; give a table with at least one row")
    options, notes = _Options(bins, max_values, reading), {}
    columns: list[Column] = []
    for name in names:
        table = _merge(parts.pop(name), types[name])
        if not pc.sum(table["count"]).as_py():
            raise SourceError(f"{source.name} is empty; give a table with at least one row")
        # What a CSV has as text is decoded to what it means; a column that is stored as text stays text.
        dtype = None if source.is_text else str(types[name])
        column = _draft(name, table, types[name], dtype, options)
        remark = remark_on(_observed(column, table, source, reading), max_values)
        if remark is not None and (not remark.leaves_out or name not in include):
            notes[name] = remark.text
        if remark is None or not remark.leaves_out or name in include:
            columns.append(column)
        if (hint := _hint(column, table, reading)) is not None:
            notes[name] = f"{hint}; {notes[name]}" if name in notes else hint
    if not columns:
        raise SchemaError(
            f"every column of {source.name} looks like an identifier, so nothing is left to draft; take in what is "
            f'none: --include "{names[0]}", in Python include=["{names[0]}"]'
        )
    return tuple(columns), notes


def _hint(column: Column, table: pa.Table, reading: Reading) -> str | None:
    """What to say where texts are numbers or dates in another spelling."""
    values = plain(table["value"])
    if not (isinstance(column, Categorical) and is_string(values.type)):
        return None
    words = text(values.drop_null())
    gaps = pa.array((*MISSING_TOKENS, *reading.null_values))
    return hint_on(column.name, words.filter(pc.invert(pc.is_in(words, gaps))))


def _observed(column: Column, table: pa.Table, source: Source, reading: Reading) -> Observed:
    """What there is to see of a column: is it an identifier?"""
    values = plain(table["value"])
    present = values.is_valid()
    if is_string(values.type):
        gaps = pa.array((*MISSING_TOKENS, *reading.null_values))
        present = pc.and_(present, pc.invert(pc.is_in(text(values), gaps)))
    is_whole = isinstance(column, Integer)
    if isinstance(column, Ordered | Real) and is_named_like_identifier(
        column.name
    ):  # +49 30 as a number, say
        found = numbers(values.filter(present), reading).values
        is_whole = bool((found == np.floor(found)).all())
    seen = Observed(
        name=column.name,
        rows=pc.sum(table["count"].filter(present)).as_py() or 0,
        distinct=pc.sum(present).as_py() or 0,
        is_text=isinstance(column, Categorical),
        is_whole=is_whole,
    )
    if not (is_whole and seen.is_nearly_unique):
        return seen
    found = numbers(values.filter(present), reading).values
    span = float(found.max()) - float(found.min()) + 1
    return replace(
        seen,
        is_running=seen.distinct >= _WITHOUT_GAPS * span or _rises(source.batches([column.name]), reading),
    )


def _rises(batches: Iterable[pa.RecordBatch], reading: Reading) -> bool:
    """Whether the numbers of the only column never fall from row to row."""
    last = -np.inf
    for batch in batches:
        array = plain(batch.column(0)).drop_null()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        values = np.append(last, numbers(array, reading).values)
        if (values[1:] < values[:-1]).any():
            return False
        last = values[-1]
    return True


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a column whose batches disagree: text unless one of them is all null, or both are numbers."""
    if left == right or pa.types.is_null(right):
        return left
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (left, right)):
        return pa.float64()
    return right if pa.types.is_null(left) else pa.string()


def _count(array: pa.Array) -> pa.Table:
    if pa.types.is_float16(array.type):
        array = pc.cast(array, pa.float32())
    if pa.types.is_decimal(array.type) and array.type.bit_width < 128:  # which Arrow does not count
        array = pc.cast(array, pa.decimal128(array.type.precision, array.type.scale))
    counted = array.value_counts()
    values = counted.field(0)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return pa.table({"value": values, "count": counted.field(1)})


def _merge(parts: Iterable[pa.Table], kind: pa.DataType) -> pa.Table:
    as_kind = pa.string() if is_string(kind) else pa.float32() if pa.types.is_float16(kind) else kind
    schema = pa.schema([("value", as_kind), ("count", pa.int64())])
    table = pa.concat_tables([part.cast(schema) for part in parts])
    if pa.types.is_null(kind):
        return pa.table({"value": pa.nulls(1), "count": [pc.sum(table["count"]).as_py()]})
    return table.group_by("value").aggregate([("count", "sum")]).rename_columns(["value", "count"])


def _draft(name: str, table: pa.Table, kind: pa.DataType, dtype: str | None, options: _Options) -> Column:
    values, counts = plain(table["value"]), table["count"].to_numpy()
    if is_string(kind):
        return _from_text(name, text(values), counts, dtype, options)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    observed = _Counts(name, values.drop_null(), counts[present], not present.all(), str(kind))
    if not len(observed.values):
        return _nothing(observed)
    if pa.types.is_boolean(kind):
        return Boolean(name=name, missing=True)
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return _datetime(observed, observed.dtype, options)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        plain_type = "double" if pa.types.is_decimal(kind) else observed.dtype
        values = numbers(observed.values).merged()
        if not (pa.types.is_integer(kind) and values.dtype.kind == "f"):  # beyond 64 bits: ids, not amounts
            return _number(observed, values, plain_type, options)
    words = text(observed.values)
    if pc.any(pc.equal(words, UNREADABLE)).as_py():
        raise SchemaError(
            f"column '{name}' holds bytes that are no text ({kind}); store it as text, or leave it out"
        )
    return _categorical(observed, words, "string", options)


def _from_text(
    name: str, words: pa.Array, counts: npt.NDArray[np.int64], dtype: str | None, options: _Options
) -> Column:
    """A column of text: what do all its values look like?"""
    # Blanks around a value made it distinct from its stripped self; count those together.
    table = _merge([pa.table({"value": words, "count": counts})], pa.string())
    words, counts = plain(table["value"]), table["count"].to_numpy()
    gaps = pa.array((*MISSING_TOKENS, *options.reading.null_values))
    blank = pc.or_kleene(words.is_null(), pc.is_in(words, gaps))
    tokens: tuple[str, ...] = MISSING_TOKENS
    rest = words.filter(pc.and_not(pc.invert(blank), pc.equal(words, "N")))
    rest = plain_numbers(rest, options.reading)
    if len(rest) and pc.any(pc.equal(words, "N")).as_py() and _all(rest, _PLAIN_NUMBER):
        blank, tokens = pc.or_kleene(blank, pc.equal(words, "N")), (*MISSING_TOKENS, "N")
    kept = pc.invert(pc.fill_null(blank, True))
    missing = not pc.all(kept).as_py()
    observed = _Counts(
        name, words.filter(kept), counts[kept.to_numpy(zero_copy_only=False)], missing, dtype or "string"
    )
    column = _guess(observed, dtype, options)
    if tokens != MISSING_TOKENS:
        return type(column)(**{**column.__dict__, "missing_values": tokens})
    return column


def _guess(observed: _Counts, dtype: str | None, options: _Options) -> Column:
    words = observed.values
    if not len(words):
        return _nothing(observed)
    spelled = sorted(words.to_pylist(), key=str.lower) if len(words) == 2 else []
    if tuple(word.lower() for word in spelled) in _TRUTHS:
        return Boolean(name=observed.name, values=tuple(spelled), dtype=observed.dtype, missing=True)
    if options.reading.date_format is not None:
        dates = _as_moments(observed, dtype, options)  # first: 20180630 is a date to those who say so
        if dates is not None:
            return dates
    figures = plain_numbers(words, options.reading)
    if _all(figures, _WHOLE):
        return _number(observed, numbers(figures).merged(), dtype or "int64", options)
    if _all(figures, _PLAIN_NUMBER):
        return _number(observed, numbers(figures).merged(), dtype or "double", options, whole=False)
    return _as_moments(observed, dtype, options) or _categorical(observed, words, observed.dtype, options)


def _as_moments(observed: _Counts, dtype: str | None, options: _Options) -> Column | None:
    """A column of texts that all are dates, or all times of day."""
    for time_of_day in (False, True):
        words = plain_moments(observed.values, options.reading, time_of_day=time_of_day)
        if moments(words, time_of_day=time_of_day).unparsed is None:
            dates, zoned = _all(words, r"^\d{4}-\d{2}-\d{2}$"), _all(words, r"(Z|[+-]\d{2}:?\d{2})$")
            stamp = "timestamp[us, tz=UTC]" if zoned else "timestamp[us]"
            meant = "time64[us]" if time_of_day else "date32[day]" if dates else stamp
            return _datetime(replace(observed, values=words), meant, options, dtype)
    return None


def _nothing(observed: _Counts) -> Column:
    dtype = observed.dtype if observed.dtype in _TEXTS else "string"
    return Categorical(
        name=observed.name, values=(), dtype=dtype, missing=True, other=True, out_of_domain="other"
    )


def _categorical(observed: _Counts, words: pa.Array, dtype: str, options: _Options) -> Column:
    order = np.argsort(-observed.counts, kind="stable")[: options.max_values]
    kept = sorted(words.take(pa.array(order)).to_pylist())
    return Categorical(
        name=observed.name,
        values=tuple(kept),
        dtype=dtype,
        missing=observed.missing,
        other=True,
        out_of_domain="other",
    )


def _number(
    observed: _Counts, values: npt.NDArray[Any], dtype: str, options: _Options, *, whole: bool | None = None
) -> Column:
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        values, counts = values[finite], observed.counts[finite]
    else:
        counts = observed.counts
    if not len(values):
        return _nothing(observed)
    if whole is None:
        whole = values.dtype.kind in "iu" or bool(
            (values == np.floor(values)).all() and abs(values).max() < 2**53
        )
    common: dict[str, Any] = {
        "name": observed.name,
        "missing": True,  # the private table may lack values that the public one has: a draft must not refuse it
        "out_of_domain": "clip",
        "dtype": dtype,
    }
    if whole:
        values = values.astype(np.int64)
        low, high = int(values.min()), int(values.max())
        if high - low < _OWN_CODES:
            return Integer(low=low, high=high, **common)
    if few(values, counts, options.bins):
        return Ordered(values=tuple(np.sort(values).tolist()), **common)
    edges = quantile_edges(values, counts, options.bins, whole=whole)
    return (Integer if whole else Real)(bins=tuple(edges), **common)


def _datetime(observed: _Counts, meant: str, options: _Options, dtype: str | None = None) -> Column:
    arrow = arrow_type(meant)
    values = moments(observed.values, time_of_day=bool(pa.types.is_time(arrow))).values
    values = np.clip(values, FIRST_MOMENT, LAST_MOMENT)
    days = pa.types.is_date(arrow) or int(values.max()) - int(values.min()) >= options.bins * DAY
    step = DAY if days else 60_000_000
    # All edges on the grid of days or minutes, the outer ones outside the values.
    ticks = np.append(np.floor_divide(values, step), [values.min() // step, -(-values.max() // step)])
    counts = np.append(observed.counts, [0, 0])
    if ticks.min() == ticks.max():
        room = (ticks.max() + 1) * step <= LAST_MOMENT
        ticks, counts = np.append(ticks, ticks.max() + (1 if room else -1)), np.append(counts, 0)
    edges = quantile_edges(ticks, counts, options.bins, whole=True, nice=False)
    bins = tuple(moment_of(int(edge) * step, arrow) for edge in edges)
    return Datetime(
        name=observed.name, missing=True, out_of_domain="clip", bins=bins, dtype=dtype or str(arrow)
    )


def _all(words: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(words, pattern)).as_py())
