"""Values that are listed: texts, categories that come in an order, yes and no, and columns without any value."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.given import shown
from openprior.schema.columns import (
    BLANKS,
    MISSING_TOKENS,
    Boolean,
    Categorical,
    Column,
    Ordered,
)
from openprior.schema.drafting.distinct import Counts, Options
from openprior.schema.drafting.remarks import Notes
from openprior.schema.identifiers import Remark
from openprior.tables.convert import text

__all__ = ["Drafted", "boolean", "categorical", "nothing", "ordered", "prevalence", "tokens_in"]

_TEXTS = ("string", "large_string", "string_view")

_TRUTHS = ({"false", "true"}, {"no", "yes"})
_MOSTLY = 0.99


@dataclass(frozen=True)
class Drafted:
    """A column, and what a person should know of it."""

    column: Column
    remarks: tuple[Remark, ...] = ()
    is_measured: bool = False
    """Whether the values are numbers or dates in disguise, so that they are no names however much they differ."""


def nothing(found: Counts, options: Options) -> Drafted:
    """A column in which nothing is."""
    dtype = found.dtype if found.dtype in _TEXTS else "string"
    column = Categorical(name=found.name, values=(), dtype=dtype, missing=True, **options.outside)
    lost = "whatever the private table has there will be 'other'" if options.other else "any value is refused"
    return Drafted(column, (Notes(found.name).nothing(f"{lost}; leave it out, or say what it holds"),))


def categorical(found: Counts, words: pa.Array, dtype: str, options: Options) -> Drafted:
    """The most frequent texts."""
    order = np.argsort(-found.counts, kind="stable")[: options.max_values]
    kept = sorted(words.take(pa.array(order)).to_pylist())
    column = Categorical(
        name=found.name,
        values=tuple(kept),
        dtype=dtype,
        missing=found.missing or not options.other,
        **options.outside,
    )
    return Drafted(column, prevalence(found, options))


def ordered(found: Counts, order: tuple[Any, ...], dtype: str, options: Options) -> Drafted | None:
    """Categories that the table itself puts in an order: all of them, also those that no row has."""
    values = [value.strip(BLANKS) if isinstance(value, str) else value for value in order]
    listed = tuple(dict.fromkeys(v for v in values if v is not None and v not in MISSING_TOKENS))
    is_list = {type(value) for value in listed} in ({str}, {int}, {float})
    is_finite = not any(isinstance(value, float) and not math.isfinite(value) for value in listed)
    if not (is_list and is_finite) or len(listed) > options.max_values:
        return None
    column = Ordered(
        name=found.name,
        values=listed,
        dtype=dtype,
        missing=found.missing or not options.other,
        **options.outside,
    )
    return Drafted(column, prevalence(found, options))


def boolean(found: Counts, options: Options) -> Drafted | None:
    """Two texts that mean no and yes, in any case."""
    if len(found.values) > 2 * len("false"):  # more than there are sensible spellings
        return None
    by_count = [found.values[int(i)].as_py() for i in np.argsort(-found.counts, kind="stable")]
    if {word.lower() for word in by_count} not in _TRUTHS:
        return None
    usual: dict[str, str] = {}
    for word in by_count:
        usual.setdefault(word.lower(), word)
    column = Boolean(
        name=found.name,
        values=tuple(usual[word] for word in sorted(usual)),
        dtype=found.dtype,
        missing=True,
        **options.outside,
    )
    remarks = (Notes(found.name).spellings(sorted(by_count)),) if len(by_count) > 2 else ()
    return Drafted(column, (*remarks, *prevalence(found, options)))


def prevalence(
    found: Counts, options: Options, *, lost: str | None = None, is_lost: bool = True, is_word: bool = True
) -> tuple[Remark, ...]:
    """What to say where all rows say the same, or nearly all; `lost` is what then becomes of other values."""
    most = int(np.argmax(found.counts))
    rows, value = found.rows, _told(found.values, most, is_word=is_word)
    if len(found.values) == 1:
        if rows < 2:
            return ()
        rest = "will be 'other'" if options.other else "is refused"
        outcome = (
            lost or f"any other value {rest}: list in values what else may occur, or leave the column out"
        )
        return (
            Notes(found.name).constant(value, missing=found.missing, outcome=outcome if is_lost else None),
        )
    share = float(found.counts[most] / rows)
    return (Notes(found.name).nearly_constant(value, share),) if share > _MOSTLY else ()


def _told(values: pa.Array, place: int, *, is_word: bool) -> str:
    """A value as a person would write it."""
    try:
        value = values[place].as_py()
    except (pa.ArrowException, ValueError, OverflowError):  # a year, or a zone, that Python does not know
        value = text(values.slice(place, 1))[0].as_py()
    return shown(value) if is_word and isinstance(value, str) else str(value)


def tokens_in(words: pa.Array, counts: Any, tokens: tuple[str, ...]) -> tuple[list[str], int]:
    """Which of the tokens that are no empty text occur, and in how many rows."""
    found = pc.fill_null(pc.is_in(words, pa.array([token for token in tokens if token], words.type)), False)
    mask = found.to_numpy(zero_copy_only=False).astype(np.bool_)
    return sorted(words.filter(found).to_pylist()), int(counts[mask].sum())
