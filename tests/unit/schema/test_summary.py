"""Columns in words: bins as readers write them, and what becomes of values that a column does not have."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import Boolean, Categorical, Column, Ordered
from openprior.schema.summary import reader_labels, summary_of


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (Integer(name="age", bins=(0, 18, 65, 99)), ("0 to 17", "18 to 64", "65 to 99")),
        (Integer(name="year", bins=(1990, 2000, 2019)), ("1990 to 1999", "2000 to 2019")),
        (
            Integer(name="pay", bins=(-500, 0, 12_000, 250_000), missing=True),
            ("-500 to -1", "0 to 11,999", "12,000 to 250,000", "missing"),
        ),
        (Integer(name="few", bins=(0, 1, 3, 4)), ("0", "1 to 2", "3 to 4")),
        (Integer(name="code", low=89998, high=90000), ("89998", "89999", "90000")),
        (Real(name="pay", bins=(0, 12_000, 15_000.5)), ("0 to below 12,000", "12,000 to 15,000.5")),
        (Real(name="share", bins=(0.1 + 0.2, 0.5, 1)), ("0.3 to below 0.5", "0.5 to 1")),
        (Real(name="near", bins=(1.0, 1.0 + 1e-14, 1.0 + 2e-14)), None),
        (
            Datetime(name="day", dtype="date32", bins=(date(2020, 1, 1), date(2020, 1, 2), date(2020, 3, 1))),
            ("2020-01-01", "2020-01-02 to 2020-03-01"),
        ),
        (
            Datetime(name="at", bins=(datetime(2020, 1, 1), datetime(2020, 2, 1), datetime(2020, 3, 1))),
            ("2020-01-01 to before 2020-02-01", "2020-02-01 to 2020-03-01"),
        ),
        (
            Datetime(
                name="zoned",
                dtype="timestamp[us, tz=UTC]",
                bins=tuple(datetime(2020, 1, d, h, tzinfo=UTC) for d, h in ((1, 0), (1, 12), (2, 0))),
            ),
            (
                "2020-01-01 00:00:00+00:00 to before 2020-01-01 12:00:00+00:00",
                "2020-01-01 12:00:00+00:00 to 2020-01-02 00:00:00+00:00",
            ),
        ),
        (
            Datetime(name="clock", dtype="time64[us]", bins=(time(7), time(8), time(9))),
            ("07:00:00 to before 08:00:00", "08:00:00 to 09:00:00"),
        ),
        (Categorical(name="odd", values=("[0, 1)", "12000")), ("[0, 1)", "12000")),
    ],
)
def test_labels_for_a_reader(column: Column, labels: tuple[str, ...] | None) -> None:
    assert reader_labels(column) == (column.labels if labels is None else labels)
    assert len(set(reader_labels(column))) == column.size


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            Integer(name="pay", bins=(0, 10_000, 20_000), out_of_domain="clip", missing=True),
            ("integer", "0 to 20,000", "2 bins", "moved to the nearest end", "a value of its own"),
        ),
        (
            Integer(name="n", low=1, high=8),
            ("integer", "1 to 8", "8 values", "refused", "refused"),
        ),
        (
            Categorical(name="c", values=tuple("abcde"), other=True, out_of_domain="other"),
            ("categorical", "a, b, c and 2 more", "5 values", "told as “other”", "told as “other”"),
        ),
        (
            Ordered(name="o", values=("x" * 99,), missing=True),
            ("ordered", "x" * 23 + "…", "1 value", "refused", "a value of its own"),
        ),
        (Boolean(name="b"), ("boolean", "false, true", "2 values", "refused", "refused")),
        (
            Categorical(name="none", values=(), missing=True),
            ("categorical", "no value of its own", "0 values", "refused", "a value of its own"),
        ),
    ],
)
def test_a_column_in_words(column: Column, said: tuple[Any, ...]) -> None:
    found = summary_of(column)
    assert (found.kind, found.says, found.codes, found.outside, found.missing) == said


def test_open_ends_are_told_by_their_labels() -> None:
    column = Integer(name="pay", bins=(0, 10_000, 20_000, 30_000), out_of_domain="open")
    found = summary_of(column)
    assert found.outside == "in the first or last bin, which have no end"
    assert found.says == "below 10,000 … 20,000 or more"
    assert reader_labels(column) == ("below 10,000", "10,000 to 19,999", "20,000 or more")
