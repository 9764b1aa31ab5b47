"""A column in words: what it can say, what becomes of values outside and of missing ones, its labels for a reader.

A schema's own labels, `[12000.0, 15000.0)`, are made for exactness. A reader wants `12,000 to below 15,000`, whole
numbers without the open end, and days without midnight. Where that would make two edges or labels alike, the exact
ones stay.

>>> from openprior.schema.bins import Integer, Real
>>> reader_labels(Integer(name="age", bins=(0, 18, 65, 99)))
('0 to 17', '18 to 64', '65 to 99')
>>> reader_labels(Real(name="income", bins=(0, 12_000, 30_000.5), missing=True))
('0 to below 12,000', '12,000 to 30,000.5', 'missing')
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta

from openprior.display import how_many, listed
from openprior.schema.bins import Binned, Datetime
from openprior.schema.columns import Column, Labelled

__all__ = ["ColumnSummary", "reader_labels", "reader_text", "summary_of"]

_GROUPED = 10_000
"""A column that reaches this far gets commas between thousands; years do not."""
_LONGEST = 24
"""Letters of a label among others."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BIN = re.compile(r"\[(.+), (.+)([\])])")
_MIDNIGHT = re.compile(r"T00:00:00(\+00:00)?")
_OUTSIDE = {
    "error": "refused",
    "clip": "moved to the nearest end",
    "other": "told as “other”",
    "open": "in the first or last bin, which have no end",
}


@dataclass(frozen=True)
class ColumnSummary:
    """What one column can say."""

    name: str
    kind: str
    says: str
    """Its bounds, or its first values."""
    size: int
    """How many values or bins it has, other and missing not among them."""
    is_binned: bool
    outside: str
    """What becomes of a value that is not among them."""
    missing: str
    """What becomes of a missing one."""

    @property
    def codes(self) -> str:
        """How many values or bins, in words."""
        return how_many(self.size, "bin" if self.is_binned else "value")


def summary_of(column: Column) -> ColumnSummary:
    """A column in words."""
    labels = reader_labels(column)[: column.count]
    if isinstance(column, Labelled):
        says = listed([_short(label) for label in labels], 3) or "no value of its own"
    elif column.out_of_domain == "open" or not isinstance(column, Binned):
        says = f"{labels[0]} … {labels[-1]}"
    else:
        says = f"{reader_text(column, column.low)} to {reader_text(column, column.high)}"
    unless = "told as “other”" if column.other else "refused"
    missing = "a value of its own" if column.missing else unless
    outside = _OUTSIDE[column.out_of_domain]
    is_binned = isinstance(column, Binned) and bool(column.bins)
    return ColumnSummary(column.name, column.kind, says, column.count, is_binned, outside, missing)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def reader_labels(column: Column) -> tuple[str, ...]:
    """One label per code, in a reader's units, all different."""
    labels = column.labels
    if not isinstance(column, Binned) or not column.bins:
        return labels
    spelled = tuple(_spelled(column, label) for label in labels[: column.count]) + labels[column.count :]
    edges = {reader_text(column, edge) for edge in column.bins}
    return spelled if len(set(spelled)) == len(labels) and len(edges) == len(column.bins) else labels


def reader_text(column: Binned, value: object) -> str:
    """An edge or a bound as a reader writes it."""
    return _text(column, value.isoformat() if hasattr(value, "isoformat") else str(value))


def _spelled(column: Binned, label: str) -> str:
    ends = _BIN.fullmatch(label)
    if ends is None:
        return _text(column, label)
    first, last, closing = ends.groups()
    if closing == "]":
        return f"{_text(column, first)} to {_text(column, last)}"
    if isinstance(column, Datetime):
        if type(column.low) is date:
            day = (date.fromisoformat(last) - timedelta(days=1)).isoformat()
            return first if day == first else f"{first} to {day}"
        return f"{_text(column, first)} to before {_text(column, last)}"
    if column.kind == "integer":
        return f"{_text(column, first)} to {_text(column, str(int(last) - 1))}"
    return f"{_text(column, first)} to below {_text(column, last)}"


def _text(column: Binned, text: str) -> str:
    """The numbers in a text with commas where the column is large, or its moments without midnight."""
    if isinstance(column, Datetime):
        at_midnight = all(_MIDNIGHT.search(e.isoformat()) for e in (*column.bins, column.low, column.high))
        return _MIDNIGHT.sub("", text) if at_midnight else text.replace("T", " ")
    far = bool(column.bins) and max(abs(b) for b in column.bounds) >= _GROUPED
    return _NUMBER.sub(lambda number: _number(number[0], far), text)


def _number(text: str, grouped: bool) -> str:
    if text.lstrip("-").isdigit():
        return f"{int(text):,}" if grouped else text
    return f"{float(text):,.10g}" if grouped else f"{float(text):.10g}"
