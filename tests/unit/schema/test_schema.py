"""Schemas: kinds, errors, drafts, hierarchies."""

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from openprior.errors import OpenPriorWarning, SchemaError, SourceError
from openprior.schema.base import Schema
from openprior.schema.bins import Datetime, Integer, Real
from openprior.schema.columns import MISSING_TOKENS, Boolean, Categorical, Ordered
from openprior.schema.levels import Hierarchy
from openprior.tables.encode import encode_table


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "public.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_codes_are_values_then_other_then_missing() -> None:
    column = Categorical(name="c", values=("a", "b"), other=True, out_of_domain="other", missing=True)
    assert (column.count, column.other_code, column.missing_code, column.size) == (2, 2, 3, 4)
    assert column.labels == ("a", "b", "other", "missing")
    assert Integer(name="i", low=3, high=5).labels == ("3", "4", "5")
    assert Integer(name="i", bins=(0, 1, 5, 9)).labels == ("0", "[1, 5)", "[5, 9]")
    assert Real(name="r", bins=(0, 0.5, 2)).labels == ("[0.0, 0.5)", "[0.5, 2.0]")
    dates = (dt.date(2018, 1, 1), dt.date(2019, 1, 1))
    assert Datetime(name="d", bins=dates, dtype="date32").labels == ("[2018-01-01, 2019-01-01]",)


def test_labels_differ_even_when_a_value_is_called_other() -> None:
    column = Categorical(name="c", values=("other",), other=True, out_of_domain="other")
    assert column.labels == ("other", "(other)")


BAD_COLUMNS = {
    "no values": 'kind = "categorical"\nvalues = []',
    "has no values": 'kind = "categorical"',
    "twice": 'kind = "categorical"\nvalues = ["a", "a"]',
    "several types": 'kind = "categorical"\nvalues = ["a", 1]',
    "blanks": 'kind = "categorical"\nvalues = [" a"]',
    "means missing": 'kind = "categorical"\nvalues = ["NA"]',
    "unknown key 'colour'": 'kind = "categorical"\nvalues = ["a"]\ncolour = 1',
    "kind = 'colour'": 'kind = "colour"',
    "kind = None": "missing = true",
    "increase at 5": 'kind = "integer"\nbins = [0, 5, 5]',
    "do not cover its bounds \\[0, 9\\]": 'kind = "integer"\nlow = 0\nhigh = 9\nbins = [0, 5]',
    "outside its bounds": 'kind = "integer"\nlow = 6\nhigh = 9\nbins = [0, 5, 9]',
    "no bins": 'kind = "real"',
    "1 bin edges": 'kind = "real"\nbins = [1.0]',
    "edge 'a'": 'kind = "real"\nbins = ["a"]',
    "edge inf": 'kind = "real"\nbins = [0.0, inf]',
    "edge 1.5": 'kind = "integer"\nbins = [0, 1.5]',
    "above high": 'kind = "integer"\nlow = 3\nhigh = 1',
    "beyond 64 bits": 'kind = "ordered"\ndtype = "int64"\nvalues = [99999999999999999999]',
    "holds no integers": 'kind = "integer"\nlow = 0\nhigh = 1\ndtype = "bool"',
    "cannot hold": 'kind = "integer"\nlow = 0\nhigh = 300\ndtype = "int8"',
    "set other = true": 'kind = "categorical"\nvalues = ["a"]\nout_of_domain = "other"',
    "without an order": 'kind = "categorical"\nvalues = ["a"]\nout_of_domain = "clip"',
    "numbers to be near": 'kind = "ordered"\nvalues = ["a"]\nout_of_domain = "clip"',
    'out_of_domain = "drop"': 'kind = "categorical"\nvalues = ["a"]\nout_of_domain = "drop"',
    "dtype = 'int63'": 'kind = "integer"\nlow = 0\nhigh = 1\ndtype = "int63"',
    "dtype int64, which cannot hold": 'kind = "categorical"\nvalues = ["a"]\ndtype = "int64"',
    "missing = 1": 'kind = "categorical"\nvalues = ["a"]\nmissing = 1',
    "use a list": 'kind = "categorical"\nvalues = "a"',
    "list texts only": 'kind = "categorical"\nvalues = ["a"]\nmissing_values = [1]',
    "false first": 'kind = "boolean"\nvalues = [true, false]',
    "two texts": 'kind = "boolean"\ndtype = "string"\nvalues = ["yes", "Yes"]',
    "matching date": 'kind = "datetime"\ndtype = "date32"\nbins = [2018-01-01, 2019-01-01T00:00:00]',
    "edges of several kinds": 'kind = "datetime"\ndtype = "string"\nbins = [2018-01-01, 10:00:00]',
    "give bins": 'kind = "integer"\nlow = 0\nhigh = 9000000000',
}


@pytest.mark.parametrize("message", BAD_COLUMNS)
def test_bad_columns_are_named_in_one_line(message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.from_toml("[columns.age]\n" + BAD_COLUMNS[message])
    assert "'age'" in str(caught.value) and "\n" not in str(caught.value)


COLUMN = '[columns.a]\nkind = "categorical"\nvalues = ["01x", "02y"]\n'
BAD_SCHEMAS = {
    "no columns": "",
    "declared twice": COLUMN + COLUMN,
    "not TOML": "[columns",
    "unknown key 'rows'": "rows = 3\n" + COLUMN,
    "max_rows_per_person = 0": 'person_id = "p"\nmax_rows_per_person = 0\n' + COLUMN,
    "without a person_id": "max_rows_per_person = 2\n" + COLUMN,
    "is also a column": 'person_id = "a"\n' + COLUMN,
    "person_id = 3": "person_id = 3\n" + COLUMN,
    "over 'b', which is not declared": COLUMN + '[hierarchies.h]\ncolumn = "b"\nprefix = 1',
    "prefix or a map": COLUMN + '[hierarchies.h]\ncolumn = "a"',
    "prefix = 0": COLUMN + '[hierarchies.h]\ncolumn = "a"\nprefix = 0',
    "prefix = 'x'": COLUMN + '[hierarchies.h]\ncolumn = "a"\nprefix = "x"',
    "name of a column": COLUMN + '[hierarchies.a]\ncolumn = "a"\nprefix = 1',
    "no parent for label '02y'": COLUMN + '[hierarchies.h]\ncolumn = "a"\nmap = { "01x" = "1" }',
    "two hierarchies": COLUMN
    + '[hierarchies.h]\ncolumn = "a"\nprefix = 1\n[hierarchies.g]\ncolumn = "a"\nprefix = 1',
    "names no column": COLUMN + "[hierarchies.h]\nprefix = 1",
    "write a table": COLUMN + '[hierarchies.h]\ncolumn = "a"\nmap = 3',
    "other than tables": "columns = 3",
}


@pytest.mark.parametrize("message", BAD_SCHEMAS)
def test_bad_schemas_are_refused(message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_toml(BAD_SCHEMAS[message])


def test_duplicate_columns_and_bad_sizes() -> None:
    column = Boolean(name="b")
    with pytest.raises(SchemaError, match="'b' is declared twice"):
        Schema((column, column))
    with pytest.raises(SchemaError, match=r"the size of column .a. \(0\) must be"):
        Schema.from_sizes({"a": 0})
    with pytest.raises(SchemaError, match="'z' is not in the schema; it has b"):
        Schema((column,))["z"]


def test_from_sizes() -> None:
    schema = Schema.from_sizes({"a": 1, "b": 300})
    assert schema.domain.sizes() == {"a": 1, "b": 300}
    assert schema["b"].out_of_domain == "error" and schema["b"].dtype == "int64"


def test_hash_is_of_the_meaning_not_of_the_remarks() -> None:
    schema = Schema.from_sizes({"a": 3})
    assert Schema(schema.columns, notes={"a": "a remark"}).hash == schema.hash
    assert Schema.from_sizes({"a": 4}).hash != schema.hash
    assert len(schema.hash) == 64


def test_save_and_load(tmp_path: Path) -> None:
    schema = Schema(
        (Categorical(name='a "b".c é\n', values=("x\ty", 'q"')),), person_id="p", max_rows_per_person=3
    )
    schema.save(tmp_path / "s.toml")
    assert Schema.load(tmp_path / "s.toml") == schema
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]
    with pytest.raises(SchemaError, match="cannot read the schema"):
        Schema.load(tmp_path / "none.toml")
    with pytest.raises(SchemaError, match="cannot write the schema"):
        schema.save(tmp_path / "none" / "s.toml")


def test_hierarchies_chain_and_keep_other_and_missing_apart() -> None:
    puma = Categorical(
        name="PUMA", values=("01-1", "01-2", "06-1"), other=True, out_of_domain="other", missing=True
    )
    schema = Schema(
        (puma,),
        hierarchies=(
            Hierarchy(name="STATE", column="PUMA", prefix=2),
            Hierarchy(name="REGION", column="STATE", map=(("01", "South"), ("06", "West"))),
        ),
    )
    name, labels, codes = schema.parents("PUMA")
    assert (name, labels, codes.tolist()) == ("STATE", ("01", "06", "other", "missing"), [0, 0, 1, 2, 3])
    name, labels, codes = schema.parents("STATE")
    assert (name, labels, codes.tolist()) == ("REGION", ("South", "West", "other", "missing"), [0, 1, 2, 3])
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(SchemaError, match="'REGION' has no hierarchy"):
        schema.parents("REGION")
    with pytest.raises(SchemaError, match="prefix of the integer column"):
        Schema((Integer(name="i", low=0, high=3),), hierarchies=(Hierarchy(name="h", column="i", prefix=1),))


def test_check_columns_lists_names_only_when_told() -> None:
    schema = Schema.from_sizes({"age": 2})
    with pytest.raises(SchemaError, match="private table has no column 'age'; rename") as caught:
        schema.check_columns(["39", "State-gov"])
    assert "39" not in str(caught.value)
    with pytest.raises(SchemaError, match="it has sex"):
        schema.check_columns(["sex"], "public table", list_columns=True)
    with pytest.raises(SchemaError, match="'age' 2 times"):
        schema.check_columns(["age", "age"])


def test_draft_from_text(tmp_path: Path) -> None:
    rows = ["id,zip,sex,msp,age,income,day,at,clock,flag,const,void,word,ts"]
    for i in range(2000):
        rows.append(
            f"u{i},{i % 7:03d},{i % 2},{'N' if i % 5 == 0 else i % 3},{i % 90},{i * 1.37:.2f},"
            f"2018-01-{i % 28 + 1:02d},2018-01-01T10:{i % 60:02d}:00Z,{i % 24:02d}:30,{'yes' if i % 2 else 'no'},5,,"
            f"{'None' if i % 9 == 0 else 'abc'[i % 3]},2018-0{i % 9 + 1}-01 12:00:00"
        )
    with pytest.warns(OpenPriorWarning) as said:
        schema = Schema.draft(csv(tmp_path, "\n".join(rows)))
    assert [str(w.message)[:24] for w in said] == [
        "'id' looks like an ident", "'const' is 5 in every pu", "'void' has no value in a"
    ]  # fmt: skip
    kinds = {c.name: (c.kind, c.dtype, c.missing) for c in schema.columns}
    assert kinds == {
        "zip": ("categorical", "string", False),
        "sex": ("ordered", "int64", False),
        "msp": ("ordered", "int64", True),
        "age": ("integer", "int64", True),
        "income": ("real", "double", True),
        "day": ("datetime", "date32[day]", True),
        "at": ("datetime", "timestamp[us, tz=UTC]", True),
        "clock": ("datetime", "time64[us]", True),
        "flag": ("boolean", "string", True),
        "const": ("ordered", "int64", False),
        "void": ("categorical", "string", True),
        "word": ("categorical", "string", True),
        "ts": ("datetime", "timestamp[us]", True),
    }
    assert schema["msp"].missing_values == (*MISSING_TOKENS, "N")
    assert "# 'id' looks like an identifier" in schema.to_toml()
    assert list(schema.notes) == ["id", "zip", "sex", "msp", "day", "at", "const", "void", "word", "ts"]
    income = schema["income"]
    assert isinstance(income, Real) and income.count == 32 and income.low <= 0 and income.high >= 1999 * 1.37
    assert all(str(edge).count("0") for edge in income.bins)  # round numbers
    assert Schema.from_toml(schema.to_toml()) == schema


def test_draft_n_is_a_value_where_the_rest_is_not_numbers(tmp_path: Path) -> None:
    schema = Schema.draft(csv(tmp_path, "a,b\nN,1\nY,N\nN,N\n"))
    assert schema["a"] == Categorical(name="a", values=("N", "Y"), other=True, out_of_domain="other")
    assert schema["b"].missing


def test_draft_from_arrow_types() -> None:
    n = 5000
    table = pa.table(
        {
            "small": pa.array(np.arange(n) % 10, pa.int8()),
            "sparse": pa.array((np.arange(n) % 4) * 1000),
            "wide": pa.array(np.arange(n) * 3),
            "whole": pa.array([None, *range(n - 1)], pa.float64()),
            "real": pa.array(np.random.default_rng(0).normal(size=n)),
            "nan": pa.array([np.nan] * n),
            "flag": pa.array([True, None] * (n // 2)),
            "word": pa.array(["a", "b "] * (n // 2), pa.large_string()),
            "coded": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
            "money": pa.array(np.arange(n) % 7).cast(pa.decimal128(21, 2)),
            "none": pa.nulls(n),
            "digits": pa.array([str(i % 5) for i in range(n)]),
            "zoned": pa.array(np.arange(n) * 10**9 * 3600, pa.timestamp("ns", "Europe/Paris")),
            "big": pa.array([2**63 + i for i in range(n)], pa.uint64()),
        }
    )
    with pytest.warns(OpenPriorWarning) as said:
        schema = Schema.draft(table)
    assert [str(w.message).split("'")[1] for w in said] == ["wide", "whole", "nan", "none", "big"]
    assert "big" not in schema.names
    assert isinstance(schema["small"], Ordered) and schema["small"].dtype == "int8"
    assert isinstance(schema["sparse"], Ordered) and schema["sparse"].values == (0, 1000, 2000, 3000)
    assert schema["wide"].count == 32
    assert (
        isinstance(schema["whole"], Integer) and schema["whole"].dtype == "double" and schema["whole"].missing
    )
    assert isinstance(schema["real"], Real)
    assert schema["nan"].labels == ("other", "missing")
    assert schema["flag"].labels == ("false", "true", "missing")
    assert schema["word"].labels == ("a", "b", "other") and schema["word"].dtype == "large_string"
    assert schema["coded"].labels == ("a", "b", "other")
    assert schema["none"].size == 2
    assert (schema["digits"].kind, schema["digits"].dtype) == ("ordered", "string")
    assert schema["zoned"].dtype == "timestamp[ns, tz=Europe/Paris]"
    assert schema["money"].size == 8
    assert Schema.from_toml(schema.to_toml()) == schema


def test_draft_of_tiny_and_empty_tables() -> None:
    table = pa.table({"a": [1], "b": [0.5], "c": ["x"], "d": [dt.date(2020, 1, 1)], "e": [None]})
    with pytest.warns(OpenPriorWarning, match="'e' has no value in any public row"):
        one = Schema.draft(table)
    assert one.domain.shape == (2, 2, 2, 2, 2)
    with pytest.raises(SourceError, match="empty"):
        Schema.draft(pa.table({"a": pa.array([], pa.int64())}))
    with pytest.raises(SchemaError, match="several values per row"):
        Schema.draft(pa.table({"a": [[1]]}))
    with pytest.raises(SchemaError, match="no person id column 'p'; it has a"):
        Schema.draft(pa.table({"a": [1]}), person_id="p")
    with pytest.raises(SchemaError, match="bins = 0"):
        Schema.draft(pa.table({"a": [1]}), bins=0)


def test_draft_with_person_id_leaves_it_out() -> None:
    schema = Schema.draft(pa.table({"pid": [1, 2], "a": [1, 2]}), person_id="pid", max_rows_per_person=2)
    assert schema.names == ("a",) and schema.person_id == "pid" and schema.max_rows_per_person == 2


def test_headerless_file_is_recognised(data_folder: Path) -> None:
    with pytest.raises(SourceError, match="seems to have no header line"):
        Schema.draft(data_folder / "adult" / "adult.data")


def test_a_value_that_fills_a_bin_gets_one_of_its_own() -> None:
    gains = np.concatenate([np.zeros(9000, np.int64), np.random.default_rng(0).integers(100, 90_000, 1000)])
    column = Schema.draft(pa.table({"gain": gains}), bins=8)["gain"]
    assert column.bins[:2] == (0, 1)
    assert len(column.bins) <= 9
    positive = np.histogram(gains[gains > 0], bins=column.bins)[0]
    assert positive[0] == 0 and positive[1:].min() > 50
    reals = np.concatenate([np.full(500, 2.5), np.random.default_rng(1).random(500) * 10])
    real = Schema.draft(pa.table({"x": reals}), bins=8)["x"]
    inside = [i for i in range(len(real.bins) - 1) if real.bins[i] <= 2.5 < real.bins[i + 1]]
    alone = (reals >= real.bins[inside[0]]) & (reals < real.bins[inside[0] + 1])
    assert np.unique(reals[alone]).tolist() == [2.5]


def test_a_draft_never_refuses_what_the_public_table_did_not_show() -> None:
    public = pa.table({"i": [1, 2, 3], "r": [0.1, 0.2, 0.4], "s": ["a", "b", "a"], "t": [True, False, True],
                       "d": [dt.date(2020, 1, k) for k in (1, 2, 3)]})  # fmt: skip
    schema = Schema.draft(public)
    odd = pa.table({"i": [None, 99], "r": [None, -1e9], "s": [None, "zz"], "t": [None, True],
                    "d": [None, dt.date(1999, 1, 1)]})  # fmt: skip
    assert encode_table(odd, schema, private=True).n == 2


def test_columns_can_be_left_out_of_a_draft() -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2], "who": [1, 2]})
    assert Schema.draft(table, exclude=["b"], person_id="who").names == ("a",)
    with pytest.raises(SchemaError, match="no column 'x' to leave out; it has a, b, who"):
        Schema.draft(table, exclude=["x"])
    with pytest.raises(SchemaError, match="no column left"):
        Schema.draft(table, exclude=["a", "b", "who"])
