"""What kind of column the values make: by their type, or, of text, by what all of them look like."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import SchemaError
from openprior.schema.columns import MISSING_TOKENS, Boolean, Categorical, is_string
from openprior.schema.drafting.categories import (
    Drafted,
    boolean,
    categorical,
    nothing,
    ordered,
    prevalence,
    tokens_in,
)
from openprior.schema.drafting.dates import date_or_time
from openprior.schema.drafting.distinct import Counts, Distinct, Options, merged
from openprior.schema.drafting.formats import all_match, leading_zeros, read_otherwise, three_digits
from openprior.schema.drafting.numeric import number
from openprior.schema.drafting.remarks import Notes
from openprior.tables.convert import UNREADABLE, moments, numbers, text
from openprior.tables.spelling import plain_moments, plain_numbers
from openprior.tables.unwrap import plain

__all__ = ["draft_column"]

# No leading zeros (01301 is a code, not a number) and no more digits than an integer of 64 bits has.
_PLAIN_NUMBER = r"^[+-]?((0|[1-9]\d{0,17})(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$"
_WHOLE = r"^-?(0|[1-9]\d{0,17})$"
_GAPS = ("N", ".", "..", "-", "--", "n/a", "na", "n.a.", "N.A.", "#N/A", "none", "NONE")
"""Texts that mean missing where all others are numbers or dates; among words they may be words."""


def draft_column(name: str, column: Distinct, dtype: str | None, options: Options) -> Drafted:
    """A column; `dtype` is its type, or None for text that is to be decoded to what it means (CSV)."""
    kind, values, counts = column.kind, plain(column.table["value"]), column.table["count"].to_numpy()
    if is_string(kind):
        return _from_text(name, text(values), counts, dtype, column, options)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    found = Counts(name, values.drop_null(), counts[present], not present.all(), str(kind))
    if not len(found.values):
        return nothing(found, options)
    if column.order is not None:
        listed = ordered(found, column.order, found.dtype, options)
        if listed is not None:
            return listed
    if pa.types.is_boolean(kind):
        return Drafted(Boolean(name=name, missing=True), prevalence(found, options, is_lost=False))
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return date_or_time(found, found.dtype, options)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        held = numbers(found.values).merged()
        absent = np.isin(held, options.reading.null_numbers)
        if absent.any():
            rest = pa.array(~absent)
            found = replace(
                found, values=found.values.filter(rest), counts=found.counts[~absent], missing=True
            )
            held = held[~absent]
            if not len(held):
                return nothing(found, options)
        if not (pa.types.is_integer(kind) and held.dtype.kind == "f"):  # beyond 64 bits: ids, not amounts
            return number(found, held, "double" if pa.types.is_decimal(kind) else found.dtype, options)
    words = text(found.values)
    if pc.any(pc.equal(words, UNREADABLE)).as_py():
        raise SchemaError(
            f"column '{name}' holds bytes that are no text ({kind}); store it as text, or leave it out"
        )
    return categorical(found, words, "string", options)


def _from_text(
    name: str, words: pa.Array, counts: np.ndarray, dtype: str | None, column: Distinct, options: Options
) -> Drafted:
    """A column of text: what do all its values look like?"""
    # Blanks around a value made it distinct from its stripped self; count those together.
    table = merged([pa.table({"value": words, "count": counts})], pa.string())
    words, counts = plain(table["value"]), table["count"].to_numpy()
    found = _present(name, words, counts, (*MISSING_TOKENS, *options.reading.null_values), dtype)
    if not len(found.values):
        return nothing(found, options)
    if column.order is not None:
        listed = ordered(found, column.order, found.dtype, options)
        if listed is not None:
            return listed
    gaps = tuple(gap for gap in _GAPS if pc.any(pc.equal(words, gap)).as_py())
    if gaps:
        rest = _present(name, words, counts, (*MISSING_TOKENS, *gaps, *options.reading.null_values), dtype)
        drafted = _guess(rest, dtype, options) if len(rest.values) else None
        if drafted is not None and not isinstance(drafted.column, Categorical):
            said = Notes(name).gaps(*tokens_in(words, counts, gaps))
            return replace(
                drafted,
                column=replace(
                    drafted.column, missing=True, missing_values=(*drafted.column.missing_values, *gaps)
                ),
                remarks=(*drafted.remarks, said),
            )
    drafted = _guess(found, dtype, options)
    if isinstance(drafted.column, Categorical):
        gone, rows = tokens_in(words, counts, MISSING_TOKENS)
        if gone:
            return replace(drafted, remarks=(*drafted.remarks, Notes(name).missing_words(gone, rows)))
    return drafted


def _present(
    name: str, words: pa.Array, counts: np.ndarray, tokens: tuple[str, ...], dtype: str | None
) -> Counts:
    """The texts that do not mean missing."""
    blank = pc.or_kleene(words.is_null(), pc.is_in(words, pa.array(tokens)))
    kept = pc.invert(pc.fill_null(blank, True))
    missing = not pc.all(kept).as_py()
    return Counts(
        name, words.filter(kept), counts[kept.to_numpy(zero_copy_only=False)], missing, dtype or "string"
    )


def _guess(found: Counts, dtype: str | None, options: Options) -> Drafted:
    words = found.values
    truths = boolean(found, options)
    if truths is not None:
        return truths
    if options.reading.date_format is not None:
        dates = _as_moments(found, dtype, options)  # first: 20180630 is a date to those who say so
        if dates is not None:
            return dates
    figures = plain_numbers(words, options.reading)
    if all_match(figures, _WHOLE):
        return number(found, numbers(figures).merged(), dtype or "int64", options)
    held = numbers(figures).merged() if all_match(figures, _PLAIN_NUMBER) else np.zeros(0)
    if np.isfinite(held).any():  # 1e400 alone is a word
        drafted = number(found, held, dtype or "double", options, whole=False)
        thousands = three_digits(found.name, words) if options.reading.has_plain_numbers else None
        return drafted if thousands is None else replace(drafted, remarks=(*drafted.remarks, thousands))
    return _as_moments(found, dtype, options) or _as_words(found, options)


def _as_moments(found: Counts, dtype: str | None, options: Options) -> Drafted | None:
    """A column of texts that all are dates, or all times of day."""
    for time_of_day in (False, True):
        words = plain_moments(found.values, options.reading, time_of_day=time_of_day)
        if moments(words, time_of_day=time_of_day).unparsed is None:
            dates = all_match(words, r"^\d{4}-\d{2}-\d{2}$")
            zoned = all_match(words, r"(Z|[+-]\d{2}:?\d{2})$")
            stamp = "timestamp[us, tz=UTC]" if zoned else "timestamp[us]"
            meant = "time64[us]" if time_of_day else "date32[day]" if dates else stamp
            return date_or_time(replace(found, values=words), meant, options, dtype)
    return None


def _as_words(found: Counts, options: Options) -> Drafted:
    """A category, with a remark where the words would be numbers or dates if they were read otherwise."""
    drafted = categorical(found, found.values, found.dtype, options)
    zeros = leading_zeros(found.name, found.values)
    disguised = None if zeros else read_otherwise(found.name, found.values)
    more = tuple(remark for remark in (zeros, disguised) if remark is not None)
    return replace(drafted, remarks=(*more, *drafted.remarks), is_measured=disguised is not None)
