"""Values inside bins: open ends, the declared step, and where public values are fit to be drawn from."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from openprior.errors import SchemaError
from openprior.schema.base import Schema
from openprior.schema.bins import Binned, Datetime, Integer, Real
from openprior.tables.decode import Decoder
from openprior.tables.encode import Table, encode_table
from openprior.tables.lookup import Coder

D = dt.date


def drawn(column: Binned, public: list[Any] | None, code: int, rows: int = 2000) -> list[Any]:
    """Values of one bin; encoding them gives the code back."""
    schema = Schema((column,))
    table = None if public is None else pa.table({column.name: public})
    decoder = Decoder.fit(schema, table, rng=np.random.default_rng(0))
    codes = Table(schema.domain, (np.full(rows, code),))
    out = decoder.decode(codes, np.random.default_rng(1))
    assert set(encode_table(out, schema).columns[0].tolist()) == {code}
    values: list[Any] = out[column.name].to_pylist()
    return values


def bins_of(column: Binned, public: list[Any]) -> dict[str, int]:
    table = pa.table({column.name: public})
    return Decoder.fit(Schema((column,)), table, rng=np.random.default_rng(0)).values_inside[column.name]


# Open ends.


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (Integer(name="x", bins=(0, 18, 80, 120), out_of_domain="open"), ("below 18", "[18, 80)", "80 or more")),
        (Integer(name="x", bins=(0, 1, 2, 9), out_of_domain="open"), ("0 or less", "1", "2 or more")),
        (Integer(name="x", low=0, high=3, out_of_domain="open"), ("0 or less", "1", "2", "3 or more")),
        (Integer(name="x", low=4, high=4, out_of_domain="open"), ("any number",)),
        (Real(name="x", bins=(0, 0.5, 2), out_of_domain="open"), ("below 0.5", "0.5 or more")),
        (Real(name="x", bins=(0, 2), out_of_domain="open", missing=True), ("any number", "missing")),
        (
            Datetime(name="x", dtype="date32[day]", bins=(D(2000, 1, 1), D(2001, 1, 1), D(2002, 1, 1)),
                     out_of_domain="open"),
            ("before 2001-01-01", "2001-01-01 or later"),
        ),
        (Datetime(name="x", dtype="time64[us]", bins=(dt.time(7), dt.time(9)), out_of_domain="open"), ("any time",)),
    ],
)  # fmt: skip
def test_labels_say_that_the_ends_are_open(column: Binned, labels: tuple[str, ...]) -> None:
    assert column.labels == labels and column.size == len(labels)
    schema = Schema((column,))
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize("odd", [{}, {"missing": True}, {"other": True}, {"missing": True, "other": True}])
@pytest.mark.parametrize("bins", [(), (0, 18, 65, 99)])
def test_open_ends_get_the_codes_of_clip(odd: dict[str, bool], bins: tuple[int, ...]) -> None:
    values = pa.array(["-3", "0", "17", "64.5", "99", "100", "1e400", "N/K", "", None])
    codes = [
        Coder(Integer(name="x", low=0, high=99, bins=bins, out_of_domain=way, **odd))(values).tolist()
        for way in ("clip", "open")
    ]
    assert codes[0] == codes[1]


def test_lists_have_no_open_ends() -> None:
    for kind in ('"categorical"\nvalues = ["a"]', '"ordered"\nvalues = [1, 2]', '"boolean"'):
        with pytest.raises(SchemaError, match="'x' has out_of_domain = \"open\" without numbers or dates"):
            Schema.from_toml(f'[columns.x]\nkind = {kind}\nout_of_domain = "open"\n')


def test_values_beyond_an_open_end_are_drawn_as_they_are_and_clipped_ones_are_not() -> None:
    public = [-5, 3, 17, 66, 130, 130]
    open_ended = Integer(name="x", bins=(0, 18, 65, 99), out_of_domain="open")
    assert set(drawn(open_ended, public, 0)) == {-5, 3, 17} and set(drawn(open_ended, public, 2)) == {66, 130}
    clipped = Integer(name="x", bins=(0, 18, 65, 99), out_of_domain="clip")
    assert set(drawn(clipped, public, 0)) == {0, 3, 17} and set(drawn(clipped, public, 2)) == {66, 99}
    # Without public values there, low and high say from where.
    assert set(drawn(open_ended, None, 2)) == set(range(65, 100))


@pytest.mark.parametrize(
    ("column", "far", "most"),
    [
        (Integer(name="x", dtype="int8", bins=(0, 50, 99), out_of_domain="open"), 300, 127),
        (Real(name="x", dtype="halffloat", bins=(0, 50, 99), out_of_domain="open"), 1e9, 65504),
        (Real(name="x", bins=(0, 50, 99), out_of_domain="open"), float("inf"), 1e308),
        (
            Datetime(name="x", dtype="timestamp[ns]", bins=(dt.datetime(2000, 1, 1), dt.datetime(2020, 1, 1)),
                     out_of_domain="open"),
            dt.datetime(5000, 1, 1), dt.datetime(2262, 1, 1),
        ),
    ],
)  # fmt: skip
def test_what_the_type_cannot_hold_is_not_drawn(column: Binned, far: Any, most: Any) -> None:
    for value in drawn(column, [column.low, column.bins[-2], far], column.count - 1, rows=200):
        assert column.low <= value <= most


# The step.


def test_values_lie_on_the_step() -> None:
    cents = Real(name="x", bins=(0, 0.1, 0.35, 2), step=0.05)
    assert set(drawn(cents, None, 1)) == {0.1, 0.15, 0.2, 0.25, 0.3}
    assert set(drawn(cents, None, 0)) == {0.0, 0.05}
    assert max(drawn(cents, None, 2)) == 2.0
    hundreds = Integer(name="x", bins=(0, 50, 450, 1000), low=0, high=990, step=100)
    assert [set(drawn(hundreds, None, k)) for k in range(3)] == [
        {0}, {100, 200, 300, 400}, {500, 600, 700, 800, 900}
    ]  # fmt: skip
    negative = Integer(name="x", bins=(-250, -50, 10), step=100)
    assert set(drawn(negative, None, 0)) == {-200, -100} and set(drawn(negative, None, 1)) == {0}
    single = Real(name="x", dtype="float", bins=(0, 0.1, 0.3, 1), step=0.1)
    assert {round(v, 6) for v in drawn(single, None, 1)} == {0.1, 0.2}


def test_moments_lie_on_the_step() -> None:
    start, end = dt.datetime(2020, 1, 1, 6), dt.datetime(2020, 1, 1, 9, 30)
    by_hour = Datetime(name="x", bins=(start, end), step="hour")
    assert {v.isoformat()[11:] for v in drawn(by_hour, None, 0)} == {f"0{h}:00:00" for h in (6, 7, 8, 9)}
    by_day = Datetime(name="x", bins=(start, dt.datetime(2020, 1, 4)), step="day")
    assert set(drawn(by_day, None, 0)) == {dt.datetime(2020, 1, d) for d in (2, 3, 4)}
    # The step says what is drawn, never what a value becomes.
    assert encode_table(pa.table({"x": [dt.datetime(2020, 1, 1, 6, 30)]}), Schema((by_day,))).n == 1


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ('"integer"\nbins = [0, 9]\nstep = 0', "step = 0; use a whole number of at least 1"),
        ('"integer"\nbins = [0, 9]\nstep = 0.5', "step = 0.5; use a whole"),
        ('"integer"\nbins = [0, 9]\nstep = true', "step = True; use a whole"),
        ('"integer"\nlow = 0\nhigh = 9\nstep = 2', "a step but no bins"),
        (
            '"integer"\nbins = [0, 9, 11, 19, 30]\nstep = 10',
            "no multiple of its step 10 in the bin .11, 19.*smaller",
        ),
        ('"real"\nbins = [0, 9]\nstep = -1', "step = -1; use a number above 0"),
        ('"real"\nbins = [0, 9]\nstep = "day"', "step = 'day'; use a number"),
        ('"real"\nbins = [0, 1e15]\nstep = 0.01', "finer than its numbers can be"),
        ('"real"\nbins = [0.1, 0.2, 1.0]\nstep = 0.5', "no multiple of its step 0.5 in the bin .0.1, 0.2"),
        ('"datetime"\ndtype = "date32[day]"\nbins = [2000-01-01, 2001-01-01]\nstep = "hour"', "use 'day'"),
        (
            '"datetime"\ndtype = "time64[us]"\nbins = [07:00:00, 08:00:00]\nstep = "day"',
            "use 'hour' or 'minute'",
        ),
        ('"real"\nbins = [0, 9]\nvalues_inside = "private"', "values_inside = 'private'; use \"public\""),
    ],
)
def test_steps_that_cannot_be(kind: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema.from_toml(f"[columns.x]\nkind = {kind}\n")


# Where they come from.


def test_a_year_after_the_public_ones_is_drawn_over_the_whole_bin() -> None:
    """The public table ends in 2021; the bin goes to 2030, and the private table is of 2024."""
    year = Integer(name="x", bins=(2000, 2010, 2020, 2030))
    public = [*range(2000, 2022)]
    assert bins_of(year, public) == {"public": 2, "uniform": 1}
    assert set(drawn(year, public, 2)) == set(range(2020, 2031))
    assert set(drawn(year, [2000, 2009], 0)) == {2000, 2009}
    days = Datetime(name="x", dtype="date32[day]", bins=(D(2020, 1, 1), D(2022, 1, 1), D(2024, 1, 1)))
    seen = [D(2020, 1, 5), D(2021, 12, 1), D(2022, 1, 1)]
    assert bins_of(days, seen) == {"public": 1, "uniform": 1}
    assert max(drawn(days, seen, 1)) > D(2023, 11, 1)


def test_public_values_must_come_near_to_both_ends() -> None:
    real = Real(name="x", bins=(0.0, 10.0))
    assert bins_of(real, [0.9, 9.1]) == {"public": 1, "uniform": 0}
    assert bins_of(real, [1.2, 9.1]) == bins_of(real, [0.9, 8.8]) == {"public": 0, "uniform": 1}
    # At most a step is near, too.
    assert bins_of(Real(name="x", bins=(0.0, 10.0), step=2.5), [2.5, 7.5]) == {"public": 1, "uniform": 0}
    assert bins_of(Integer(name="x", bins=(0, 3)), [1, 2]) == {"public": 1, "uniform": 0}
    # So is a gap as wide as those between the values themselves: codes, or first days of months.
    assert bins_of(real, [2.0, 4.0, 6.0, 8.0]) == {"public": 1, "uniform": 0}
    assert (
        bins_of(real, [1.9, 2.0, 2.1, 2.2]) == bins_of(real, [2.0, 5.0, 8.0]) == {"public": 0, "uniform": 1}
    )
    # An open end is reached by whatever there is; the other end of the same bin is not.
    open_ended = Real(name="x", bins=(0.0, 10.0, 20.0, 30.0), out_of_domain="open")
    assert bins_of(open_ended, [9.5, 10.2, 19.8, 20.5]) == {"public": 3, "uniform": 0}
    assert bins_of(open_ended, [2.0, 10.2, 19.8, 28.0]) == {"public": 1, "uniform": 2}


def test_uniform_where_the_schema_says_so_or_nothing_is_public() -> None:
    everywhere = Integer(name="x", bins=(0, 10), values_inside="uniform")
    assert bins_of(everywhere, [0, 10]) == {"public": 0, "uniform": 1}
    assert set(drawn(everywhere, [0, 10], 0)) == set(range(11))
    column = Integer(name="x", bins=(0, 10, 20))
    assert Decoder(Schema((column,))).values_inside == {"x": {"public": 0, "uniform": 2}}
    assert bins_of(column, [0, 9]) == {"public": 1, "uniform": 1}


def test_what_a_sample_leaves_out_still_counts_as_reaching() -> None:
    """A bin of a million rows keeps 256; its ends are those of all rows."""
    public = [5000] * 50_000 + [0, 9999]
    assert bins_of(Integer(name="x", bins=(0, 10_000, 20_000)), public) == {"public": 1, "uniform": 1}
