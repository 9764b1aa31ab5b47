"""JSON lines: each value by its own type, lacking keys as null, names that the schema decides, nothing quoted."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from openprior import Reading, Schema
from openprior.errors import OpenPriorError, SourceError
from openprior.schema.columns import Categorical
from openprior.tables.encode import Encoder, encode_table
from openprior.tables.json_lines import JsonLines, _array
from openprior.tables.lookup import Coder
from openprior.tables.objects import object_array
from openprior.tables.source import open_source
from tests import raw_columns

SECRET = "zqxsecret"


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def columns(path: Path, names: list[str] | None = None) -> dict[str, list[Any]]:
    return pa.Table.from_batches(open_source(path).batches(names)).to_pydict()


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.jsonl.gz", "T.JSONL"])
def test_values_keep_their_types_and_lacking_keys_are_null(tmp_path: Path, name: str) -> None:
    plain = written(tmp_path / "plain", {"n": 1, "s": "é"}, {"n": 2.5, "b": True}, {"s": None, "n": None})
    raw = plain.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    source = open_source(tmp_path / name)
    assert source.columns == ("n", "s", "b") and source.name.lower() == "t"
    assert columns(tmp_path / name) == {"n": [1, 2.5, None], "s": ["é", None, None], "b": [None, True, None]}


def test_one_odd_value_does_not_change_the_others(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", *({"n": v} for v in (7, 2.5, "7", True, None, 2**70, 2**53 + 1)))
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nlow = 0\nhigh = 9\nmissing = true\nother = true\nout_of_domain = "other"\n'
    )
    assert encode_table(path, schema).columns[0].tolist() == [7, 2, 7, 1, 11, 10, 10]


def test_fast_arrays_give_the_codes_of_the_slow_ones(tmp_path: Path) -> None:
    """However the values of a batch mix: each by its own type."""
    rng = np.random.default_rng(0)
    pools: list[list[Any]] = [
        [True, False, None],
        [7, 0, -1, None, 2**53, -(2**53)],
        [7, 2**53 + 1, 2**63 - 1, 2**63, 10**30],
        [0.1, 7.0, None, 1e300, float("nan"), float("inf")],
        [7, 0.1, None, 2**53],
        [7, 0.1, 2**53 + 1],
        ["7", "a", None],
        [7, "7", True, 0.1, None],
    ]
    for number in range(160):
        column = raw_columns.column(rng)
        pool = pools[number % len(pools)]
        values = [pool[i] for i in rng.integers(len(pool), size=5)]
        coder = Coder(column)
        assert coder(_array(values, "x", "t")).tolist() == coder(object_array(values)).tolist(), (
            column,
            values,
        )


def test_a_draft_knows_the_keys_of_all_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", *({"a": i % 3} for i in range(9)), {"a": 1, "late": 0.5})
    schema = Schema.draft(path)
    assert schema.names == ("a", "late") and schema["late"].kind == "ordered"
    assert encode_table(path, schema).columns[1].tolist() == [schema["late"].missing_code] * 9 + [0]


def test_the_schema_decides_the_columns_and_no_row_is_read_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t.jsonl", {"a": "x"}, {"a": "y"})
    source = open_source(path)

    def fail(self: JsonLines) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(JsonLines, "_objects", fail)
    column = Categorical(name="b", values=("x",), missing=True, other=True, out_of_domain="other")
    schema = Schema((column,), person_id="who")
    for given in (path, source):
        assert open_source(given, schema).columns == ("b", "who")
        Encoder(schema, open_source(given, schema), private=True)


def test_a_key_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", {"a": None}, {"A": "x"})
    column = Categorical(name="b", values=("x",), missing=True)
    with pytest.raises(SourceError, match="no row of t has a key 'b'; check its spelling"):
        encode_table(path, Schema((column,)), private=True)
    named = Categorical(name="a", values=("x",), missing=True)
    assert encode_table(path, Schema((named,)), private=True).columns[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'[{{"a": "{SECRET}"}}]', "is one JSON document"),
        (SECRET, "is not JSON with one object per line"),
        (f'{{"a": 1}}\n{{"a": {SECRET}\n', "not one JSON object"),
        (f'{{"a": 1}}\n"{SECRET}"\n', "not one JSON object"),
        (f'{{"a": "{SECRET}", "a": 2}}\n', "different keys"),
        (f'{{"a": ["{SECRET}"]}}\n', "column 'a' of t holds several values per row"),
        (f'{{"a": {{"b": "{SECRET}"}}}}\n', "column 'a' of t holds several values per row"),
        ('{"a": ' + "[" * 100_000 + "\n", "not one JSON object"),
        ('{"a": "\udcff' + SECRET + '"}\n', "not utf-8"),
        ('{"a": "' + "x" * (5 << 20) + '"}\n', "a line of over 4 MB"),
        ("\n \n", "is empty"),
    ],
)
def test_what_is_wrong_is_not_quoted(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(OpenPriorError, match=words) as refused:
        list(open_source(path).batches())
    assert SECRET not in str(refused.value) and refused.value.__context__ is None


def test_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes('{"a": "é"}\n'.encode("latin-1"))
    source = open_source(path, reading=Reading(encoding="latin-1"))
    assert pa.Table.from_batches(source.batches()).to_pydict() == {"a": ["é"]}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1253"])
def test_opening_decodes_no_row(encoding: str, tmp_path: Path) -> None:
    """Or whoever opens the file with one encoding after the other learns of its letters, uncounted."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\n  {"n": 1}\n{"n": "\xff\xd2"}\n')
    schema = Schema((Categorical(name="n", values=("1",)),), reading=Reading(encoding=encoding))
    source = open_source(path, schema)
    with pytest.raises(SourceError, match=f"has text that is not {encoding}"):
        list(source.batches(["n"]))


def test_an_integer_of_thousands_of_digits_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"n": {value}}}\n' for value in (7, "9" * 5000, "-" + "9" * 5000, 3)))
    schema = Schema.from_toml('[columns.n]\nkind = "integer"\nlow = 0\nhigh = 9\nout_of_domain = "clip"\n')
    assert encode_table(path, schema, private=True).columns[0].tolist() == [7, 9, 0, 3]
