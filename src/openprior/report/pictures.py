"""One column of the release beside the public table and, in an evaluation, the private one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.schema.bins import Binned
from openprior.schema.columns import Boolean, Categorical, Column
from openprior.schema.summary import reader_labels, reader_text, summary_of

__all__ = ["Answer", "Picture", "Value", "answers_in", "largest", "picture_of"]

BARS, STEPS = 24, 100
"""Values shown as bars at most, and steps of an ordered column's outline."""

BESIDE, ABOVE = 14, 36
"""Letters that a label may have beside its bar, and on one line above it, also on a phone."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """One cell of a marginal as answered."""

    label: str
    estimate: float
    low: float | None
    high: float | None
    basis: str = ""
    """What the interval rests on; empty where there is none."""


@dataclass(frozen=True)
class Value:
    """One value of a column: shares of rows."""

    label: str
    released: float
    public: float | None
    private: float | None
    low: float | None
    high: float | None
    basis: str = ""


@dataclass(frozen=True)
class Picture:
    """One column."""

    name: str
    kind: str
    size: int
    codes: str
    """How many values or bins it has, and what is beside them."""
    values: tuple[Value, ...]
    outline: bool
    """Whether to draw the outline of a distribution instead of bars."""
    ends: tuple[str, str]
    """What is at the left and at the right of an outline."""
    note: str

    @property
    def layout(self) -> str:
        """How the labels of bars stand: beside them, above them, or above them on two lines."""
        longest = max((len(v.label) for v in self.values), default=0)
        return "beside" if longest <= BESIDE else "above" if longest <= ABOVE else "above two"

    @property
    def scale(self) -> float:
        """The share at the right end of the axis; an interval may be cut there."""
        shares = [s for v in self.values for s in (v.released, v.public, v.private) if s is not None]
        most = max(shares, default=0.0) or 1.0
        return min(1.0, max([most, *(min(v.high, 1.6 * most) for v in self.values if v.high is not None)]))


def answers_in(table: Any, columns: Sequence[Column]) -> list[Answer]:
    """The rows of an answer table of these columns; an interval that is missing or not a number is none."""
    numbers = {
        name: table[name].to_pylist() if name in table.column_names else [None] * table.num_rows
        for name in ("estimate", "low", "high", "basis")
    }
    spelled = [dict(zip(c.labels, reader_labels(c), strict=True)) for c in columns]
    labels = zip(
        *(
            [words.get(label, str(label)) for label in table.column(i).to_pylist()]
            for i, words in enumerate(spelled)
        ),
        strict=True,
    )
    return [
        Answer(", ".join(map(str, label)), float(estimate), *_interval(low, high, basis))
        for label, estimate, low, high, basis in zip(labels, *numbers.values(), strict=True)
    ]


def _interval(
    low: float | None, high: float | None, basis: str | None
) -> tuple[float | None, float | None, str]:
    known = low is not None and high is not None and np.isfinite(low) and np.isfinite(high)
    return (low, high, basis or "") if known else (None, None, "")


def largest(sizes: Sequence[float], most: int) -> list[int]:
    """Where the largest are, in their old order.

    >>> largest([3, 1, 2], 2)
    [0, 2]
    """
    return sorted(sorted(range(len(sizes)), key=lambda i: -sizes[i])[:most])


def picture_of(
    column: Column,
    released: Floats,
    public: Floats | None,
    private: Floats | None,
    answers: list[Answer],
    total: float,
) -> Picture:
    """One column: bars for few values, an outline for many ordered ones, the most frequent of many others."""
    values = [
        Value(
            label,
            float(released[i]),
            None if public is None else float(public[i]),
            None if private is None else float(private[i]),
            None if answer.low is None else answer.low / total,
            None if answer.high is None else answer.high / total,
            answer.basis,
        )
        for i, (label, answer) in enumerate(zip(reader_labels(column), answers, strict=True))
    ]
    size, ordered, note = len(values), not isinstance(column, Categorical | Boolean), ""
    first, last = values[0].label, values[column.count - 1].label
    if isinstance(column, Binned) and column.out_of_domain != "open":
        first, last = (reader_text(column, end) for end in (column.low, column.high))
    ends = (first, " · ".join([last, *(v.label for v in values[column.count :])]))
    outline = ordered and size > BARS
    if outline:
        values, step = _merged(values[: column.count], values[column.count :])
        note = f"each step holds {step} values" if step > 1 else "each step is one value or bin"
    elif size > BARS:
        frequent = largest([v.released for v in values], BARS - 1)
        others = [v for i, v in enumerate(values) if i not in set(frequent)]
        values = [*(values[i] for i in frequent), _sum(f"{len(others)} others", others)]
        note = f"the {BARS - 1} most frequent of {size} values, and the others together"
    codes = ", ".join([summary_of(column).codes, *column.labels[column.count :]])
    return Picture(column.name, column.kind, size, codes, tuple(values), outline, ends, note)


def _merged(values: list[Value], tail: list[Value]) -> tuple[list[Value], int]:
    """Neighbours together where there are too many."""
    step = -(-len(values) // STEPS)
    if step <= 1:
        return [*values, *tail], 1
    starts = [*range(0, len(values), step), len(values)]
    groups = [values[a:b] for a, b in pairwise(starts)]
    return [*(_sum(f"{g[0].label} to {g[-1].label}", g) for g in groups), *tail], step


def _sum(label: str, values: list[Value]) -> Value:
    """Several values as one; the intervals of the parts say nothing honest about the sum."""

    def add(shares: list[float | None]) -> float | None:
        known = [s for s in shares if s is not None]
        return sum(known) if known else None

    return Value(
        label,
        sum(v.released for v in values),
        add([v.public for v in values]),
        add([v.private for v in values]),
        None,
        None,
    )
