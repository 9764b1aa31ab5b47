"""How text is written, as a part of the schema: kept, hashed, strict, and the same for every table of the schema."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from openprior import Reading, Schema
from openprior.errors import EncodeError, SchemaError
from openprior.schema.base import reading_of
from openprior.schema.columns import Categorical
from openprior.tables.encode import encode_table

GERMAN: dict[str, Any] = {
    "encoding": "cp1252",
    "decimal": ",",
    "thousands": ".",
    "delimiter": ";",
    "date_format": "%d.%m.%Y",
    "null_values": ["k.A.", "-9"],
}
ROWS = """Größe;Lohn;Tag;Ort
170;1.234,50;30.06.2018;Köln
k.A.;-9;01.02.2019;Jülich
182;12.000;k.A.;Köln
"""


def german(folder: Path, rows: str = ROWS) -> Path:
    path = folder / "german.csv"
    path.write_bytes(rows.encode("cp1252"))
    return path


def test_a_draft_keeps_how_the_file_is_read(tmp_path: Path) -> None:
    schema = Schema.draft(german(tmp_path), **GERMAN)
    assert schema == Schema.draft(german(tmp_path), reading=Reading(**GERMAN))
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.to_toml().startswith('[reading]\nencoding = "cp1252"\n')
    assert schema.names == ("Größe", "Lohn", "Tag", "Ort")
    kinds = {column.name: (column.kind, column.dtype) for column in schema.columns}
    assert kinds["Größe"] == ("integer", "int64") and kinds["Lohn"] == ("real", "double")
    assert kinds["Tag"] == ("datetime", "date32[day]")
    assert schema["Ort"].value_labels == ("Jülich", "Köln")
    codes = encode_table(german(tmp_path), schema, private=True)
    by_name = dict(zip(schema.names, codes.columns, strict=True))
    assert by_name["Lohn"].tolist() == [0, schema["Lohn"].missing_code, 2]
    assert by_name["Größe"].tolist() == [0, schema["Größe"].missing_code, 12]
    assert by_name["Tag"][2] == schema["Tag"].missing_code


def test_the_same_values_in_another_format_are_the_same_codes(tmp_path: Path) -> None:
    """Typed values are what they are; text is read by the schema wherever it comes from."""
    schema = Schema.draft(german(tmp_path), **GERMAN)
    typed = pa.table(
        {
            "Größe": [170, None, 182],
            "Lohn": [1234.5, None, 12000.0],
            "Tag": [dt.date(2018, 6, 30), dt.date(2019, 2, 1), None],
            "Ort": ["Köln", "Jülich", "Köln"],
        }
    )
    text = typed.set_column(1, "Lohn", pa.array(["1.234,5", "-9", "12000,0"]))
    codes = [[c.tolist() for c in encode_table(t, schema).columns] for t in (german(tmp_path), typed, text)]
    assert codes[0] == codes[1] == codes[2]


def test_it_is_part_of_the_hash_where_it_is_not_as_usual() -> None:
    usual = Schema.from_sizes({"a": 3})
    assert "reading" not in usual.to_toml() and usual.plain is usual
    other = replace(usual, reading=Reading(decimal=","))
    assert other.hash != usual.hash and other.plain.hash == usual.hash
    assert other.hash != replace(usual, reading=Reading(decimal=",", thousands=".")).hash


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"encoding": "klingon"}, "encoding = 'klingon'; use one that Python knows"),
        ({"encoding": "base64"}, "encoding"),
        ({"encoding": ""}, "not empty"),
        ({"encoding": None}, "encoding = None"),
        ({"decimal": "7"}, "decimal = '7'; use one sign"),
        ({"decimal": ",,"}, "decimal"),
        ({"decimal": "-"}, "decimal"),
        ({"decimal": ",", "thousands": ","}, "neither a blank nor the thousands'"),
        ({"thousands": "a"}, "thousands"),
        ({"delimiter": "ab"}, "delimiter = 'ab'; use one plain character"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"date_format": "%Q"}, "the known parts are %Y"),
        ({"date_format": "%"}, "the known parts"),
        ({"date_format": "d.m.Y"}, "name one year, one month and one day"),
        ({"date_format": "%d.%m"}, "name one year"),
        ({"date_format": "%d.%d.%m.%Y"}, "each part once"),
        ({"date_format": "%d.%m.%Y %H"}, "hours and minutes"),
        ({"date_format": "%I:%M"}, "hours and minutes"),
        ({"date_format": "%H:%M.%f"}, "hours and minutes"),
        ({"null_values": [9]}, "list texts only"),
        ({"null_values": 9}, "give a list"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError) as refused:
        Reading(**given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '[reading]\nencodings = "latin-1"',
            r"\[reading\] has the unknown key 'encodings'; known are encoding",
        ),
        ('reading = "latin-1"', "'reading' is not a table"),
        ('[reading]\nnull_values = "x"', "use a list"),
        ("[reading]\ndecimal = 1", "decimal = 1"),
    ],
)
def test_the_document_is_strict(text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.from_toml(text + '\n[columns.a]\nkind = "integer"\nlow = 0\nhigh = 3\n')


def test_a_value_cannot_be_a_gap_as_well() -> None:
    column = Categorical(name="a", values=("x", "y"))
    with pytest.raises(SchemaError, match=r"'a' has the value 'x', which means missing in every column"):
        Schema((column,), reading=Reading(null_values=("x",)))


def test_an_id_that_means_missing_is_no_person() -> None:
    schema = replace(
        Schema.from_sizes({"a": 3}),
        person_id="who",
        max_rows_per_person=1,
        reading=Reading(null_values=("-9",)),
    )
    for ids in (["1", "-9"], [1, -9]):
        with pytest.raises(EncodeError, match="person id 'who'"):
            encode_table(pa.table({"who": ids, "a": [0, 1]}), schema, private=True)
    assert encode_table(pa.table({"who": ["1", "-8"], "a": [0, 1]}), schema, private=True).n == 2


def test_a_schema_and_a_reading_must_agree() -> None:
    schema, other = Schema.from_sizes({"a": 3}), Reading(decimal=",")
    assert reading_of(None, None) == reading_of(schema, None) == Reading()
    assert reading_of(None, other) == reading_of(replace(schema, reading=other), other) == other
    with pytest.raises(SchemaError, match=r"the schema has another one; write it under \[reading\]"):
        reading_of(schema, other)
    with pytest.raises(SchemaError, match="is given beside a reading"):
        Schema.draft(pa.table({"a": [1]}), reading=other, decimal=",")
    for wrong in ("latin-1", {"decimal": ","}):
        with pytest.raises(SchemaError, match=r"give an openprior\.Reading"):
            Schema.draft(pa.table({"a": [1]}), reading=wrong)  # type: ignore[arg-type]


WORD = pa.table({"x": ["20180630", "20190101", "20190102"]})


@pytest.mark.filterwarnings("ignore:.* look like dates")
@pytest.mark.parametrize(
    ("draft", "kind"),
    [(lambda: Schema.draft(WORD), "integer"), (lambda: Schema.draft(WORD, date_format="%Y%m%d"), "datetime")],
)
def test_digits_are_a_date_to_those_who_say_so(draft: Callable[[], Schema], kind: str) -> None:
    assert draft()["x"].kind == kind
