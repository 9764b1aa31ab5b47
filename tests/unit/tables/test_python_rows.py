"""Tables in Python's own words: each gives the rows of the same table, and what has no names is refused."""

import traceback
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import openprior as op
from openprior.errors import SourceError
from openprior.tables import source as source_module
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source

AGES, SEXES = [31, None, 45, 7], ["f", "m", "m", "zqxsecret"]
TABLE = pa.table({"age": AGES, "sex": SEXES})


def rows(data: object) -> dict[str, list[Any]]:
    source = open_source(data)
    batches = list(source.batches())
    return {name: [v for b in batches for v in b.column(name).to_pylist()] for name in source.columns}


WAYS: dict[str, Callable[[], object]] = {
    "a dict of lists": lambda: {"age": AGES, "sex": SEXES},
    "a dict of tuples and arrays": lambda: {"age": tuple(AGES), "sex": np.array(SEXES)},
    "a dict of objects": lambda: {"age": np.array(AGES, object), "sex": np.array(SEXES, object)},
    "a dict with a masked array": lambda: {"age": np.ma.masked_equal([31, 0, 45, 7], 0), "sex": SEXES},
    "a dict of pandas Series": lambda: dict(pd.DataFrame({"age": pd.array(AGES, "Int64"), "sex": SEXES})),
    "a dict of Polars Series": lambda: pl.DataFrame({"age": AGES, "sex": SEXES}).to_dict(),
    "a dict of Arrow arrays": lambda: {"age": TABLE["age"], "sex": TABLE["sex"].chunk(0)},
    "a list of dicts": TABLE.to_pylist,
    "a tuple of dicts in other orders": lambda: tuple(
        dict(reversed(row.items())) if i else row for i, row in enumerate(TABLE.to_pylist())
    ),
    "an Arrow scanner": lambda: pads.dataset(TABLE).scanner(),
    "an Arrow dataset": lambda: pads.dataset(TABLE),
    "an Arrow batch": lambda: TABLE.to_batches()[0],
    "a lazy frame": lambda: pl.LazyFrame({"age": AGES, "sex": SEXES}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_rows_in_every_pass(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BATCH_ROWS", 3)
    data = WAYS[way]()
    assert rows(data) == {"age": AGES, "sex": SEXES}
    source = open_source(WAYS[way]())
    for _ in range(2):
        assert [v for b in source.batches(["sex"]) for v in b.column(0).to_pylist()] == SEXES


def test_a_structured_array_and_a_series_with_a_name() -> None:
    made = np.array([(31, "f"), (45, "m")], dtype=[("age", "i4"), ("sex", "U1")])
    assert rows(made) == {"age": [31, 45], "sex": ["f", "m"]}
    assert rows(made.view(np.recarray)) == rows(made)
    for series in (pd.Series([1, 2], name="age"), pl.Series("age", [1, 2])):
        assert rows(series) == {"age": [1, 2]}


def test_values_are_read_each_by_its_own_type() -> None:
    """One word among numbers must not change what the numbers become: in a list as in a frame of objects."""
    schema = op.Schema.from_toml(
        '[columns.x]\nkind = "integer"\nlow = 0\nhigh = 3\nout_of_domain = "other"\nother = true\n'
    )
    values: list[Any] = [0, 1, "word", 3.0, "2", date(2020, 1, 1)]
    expected = encode_table(pd.DataFrame({"x": pd.Series(values, dtype=object)}), schema).column("x").tolist()
    for data in ({"x": values}, [{"x": v} for v in values], {"x": np.array(values, object)}):
        assert encode_table(data, schema).column("x").tolist() == expected == [0, 1, 4, 3, 2, 4]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros((3, 2)), "the array has no names for its columns; give a frame"),
        (np.array(["zqxsecret"]), "the array has no names"),
        (np.zeros((2, 2), [("a", "i4")]), "the array has no names"),
        (np.zeros(2, [("a", "i4", 3)]), "several values per row in one field; give"),
        ({}, "the dict has no columns; give one list per column"),
        ({"zqxsecret": "zqxsecret"}, "something other than a list in it; give"),
        ({"zqxsecret": {"a": 1}}, "something other than a list in it; give"),
        ({"a": np.zeros((2, 2))}, "something other than a list in it; give"),
        ({5: [1]}, "a name that is no text; give"),
        ({"zqxsecret": [1], "b": [1, 2]}, "not equally long; give"),
        ({"a": pd.Series([1, 2]), "b": pd.Series([1, 2], index=[1, 0])}, "other indices.*; give a DataFrame"),
        ([], "the list of rows is empty; give one dict per row"),
        ([[1, "zqxsecret"]], "no names for their values; give one dict per row"),
        (["zqxsecret"], "no names for their values; give"),
        (pd.Series([1]), "the Series has no name.*; name it"),
        (pl.Series([1]), "the Series has no name.*; name it"),
        ((row for row in [{"a": 1}]), "cannot read rows from a generator; give"),
        (b"zqxsecret", "cannot read rows from a bytes; give"),
        (None, "cannot read rows from None; give"),
        ({1, 2}, "cannot read rows from a set; give"),
    ],
)
def test_what_is_no_table_is_refused_and_not_quoted(data: object, words: str) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        open_source(data)
    assert "zqxsecret" not in "".join(traceback.format_exception(caught.value))


def test_rows_with_other_names_are_refused_when_they_are_read() -> None:
    """Which names a row has is private: it is looked at in a pass, where a refusal is counted."""
    for odd in ({"a": 1, "zqxsecret": 2}, {}, {"b": 1}, "zqxsecret", None):
        source = open_source([{"a": 1}, odd])
        with pytest.raises(
            SourceError, match="do not all have the same names; give one dict per row"
        ) as caught:
            list(source.batches())
        assert "zqxsecret" not in "".join(traceback.format_exception(caught.value))
