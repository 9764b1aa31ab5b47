"""What becomes of values: by the rule for a single value, on random columns; and what the schema says of it."""

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.schema.bins import Binned, Integer
from openprior.schema.fates import (
    ABOVE,
    BELOW,
    FATES,
    MISSING,
    UNLISTED,
    UNREADABLE,
    Fate,
    fates_only,
    with_fates,
)
from openprior.tables.encode import encode_table
from openprior.tables.fate_codes import FateCoder
from tests import raw_columns, value_rule

STRICT = """
[columns.children]
kind = "integer"
low = 0
high = 6

[columns.region]
kind = "categorical"
values = ["north", "south"]

[columns.income]
kind = "real"
bins = [0.0, 10.0, 20.0, 30.0]
"""
RAW = pa.table(
    {
        "children": pa.array([0, 6, 7, -1, None, 3]),
        "region": pa.array(["north", "east", "", "south", None, "north"]),
        "income": pa.array(["5", "25", "-3", "31", "much", "NA"]),
    }
)
BECAME = {
    "children": ["first", "last", "above", "below", "missing", "inside"],
    "region": ["inside", "not listed", "missing", "inside", "missing", "inside"],
    "income": ["first", "last", "below", "above", "unreadable", "missing"],
}


def test_every_value_has_the_fate_that_a_person_would_give_it() -> None:
    schema, fates = fates_only(op.Schema.from_toml(STRICT))
    table = encode_table(RAW, schema, private=True)  # refuses nothing, though the schema is strict
    for name, fate in fates.items():
        assert [FATES[code] for code in table.column(fate.name)] == BECAME[name]


@pytest.mark.parametrize("policy", ["clip", "other", "error"])
def test_the_policy_does_not_change_the_fate(policy: str) -> None:
    more = f'missing = true\nother = true\nout_of_domain = "{policy}"\n'
    text = STRICT.replace("low = 0\n", more + "low = 0\n").replace("bins", more + "bins")
    schema, fates = fates_only(op.Schema.from_toml(text))
    table = encode_table(RAW, schema)
    assert [[FATES[code] for code in table.column(f.name)] for f in fates.values()] == list(BECAME.values())


def test_fates_agree_with_the_rule_for_one_value() -> None:
    rng = np.random.default_rng(3)
    for _ in range(400):
        fate = Fate.of_column(raw_columns.column(rng))
        array, reads = raw_columns.raw(rng, int(rng.integers(1, 9)))
        for became, read in zip(FateCoder(fate)(array).tolist(), reads, strict=True):
            expected = value_rule.code_of(fate.probe, read)
            if expected == "outside":
                assert became in ((BELOW, ABOVE) if isinstance(fate.of, Binned) else (UNLISTED,))
            elif expected == "unparsed":
                assert became == UNREADABLE
            else:
                assert (became == MISSING) == (expected == fate.probe.missing_code)
                assert became < BELOW or became == MISSING


def test_fates_stand_beside_the_columns_and_leave_the_schema_as_it_was() -> None:
    schema = op.Schema.from_sizes({"a": 3, "fate of a": 2})
    wider, fates = with_fates(schema)
    assert wider.names == ("a", "fate of a", "(fate of a)", "fate of fate of a")
    assert wider.reads == schema.names
    assert wider.hash == schema.hash == fates_only(schema)[0].hash
    table = encode_table(pa.table({"a": [0, 2], "fate of a": [1, 0]}), wider)
    assert [c.tolist() for c in table.columns[:2]] == [[0, 2], [1, 0]]
    assert [FATES[code] for code in table.column(fates["a"].name)] == ["first", "last"]


def test_a_person_id_may_be_called_like_a_fate() -> None:
    schema = op.Schema((Integer(name="x", low=0, high=9),), person_id="fate of x", max_rows_per_person=2)
    for wider, fates in (with_fates(schema), fates_only(schema)):
        assert fates["x"].name in wider.names and fates["x"].name != wider.person_id == "fate of x"
