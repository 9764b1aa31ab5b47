"""What a draft says of a column, each from a small CSV file, and what it does with it."""

import datetime as dt
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from openprior.errors import OpenPriorWarning, SchemaError
from openprior.schema.base import Schema
from openprior.schema.bins import Binned, Datetime, Integer, Real
from openprior.schema.columns import MISSING_TOKENS, Boolean, Categorical, Column, Ordered
from openprior.tables.decode import Decoder
from openprior.tables.encode import encode_table

N = 240
RNG = np.random.default_rng(7)


def drafted(tmp_path: Path, words: list[Any], *, warns: bool, **options: Any) -> tuple[Column | None, str]:
    """The column `x` of a CSV file, and the note on it; warned of or not."""
    file = tmp_path / "public.csv"
    lines = (f'"{word}",{i % 2}' for i, word in enumerate(words))
    file.write_text("x,sex\n" + "\n".join(lines) + "\n", encoding="utf-8")
    if warns:
        with pytest.warns(OpenPriorWarning) as said:
            schema = Schema.draft(file, **options)
        assert [str(w.message) for w in said] == [schema.notes["x"]]
    else:
        schema = Schema.draft(file, **options)  # a warning is an error here
    assert Schema.from_toml(schema.to_toml()) == schema
    note = schema.notes.get("x", "")
    # Line by line, the whole note stands in the file; the hash is not of it.
    assert " ".join(note.split()) in " ".join(schema.to_toml().replace("\n# ", " ").split())
    assert Schema(schema.columns).hash == schema.hash
    return next((c for c in schema.columns if c.name == "x"), None), note


def spread(count: int) -> list[int]:
    return [int(v) for v in RNG.integers(0, count, N)]


def test_a_constant_column(tmp_path: Path) -> None:
    column, note = drafted(tmp_path, [0] * N, warns=True)
    assert column == Ordered(name="x", dtype="int64", values=(0,), other=True, out_of_domain="other")
    assert note.startswith("'x' is 0 in every public row; any other value will be 'other'")
    assert encode_table(pa.table({"x": [0, 1, 7]}), Schema((column,))).columns[0].tolist() == [0, 1, 1]
    column, note = drafted(tmp_path, ["north"] * 5 + [""], warns=True)
    assert column == Categorical(name="x", values=("north",), missing=True, other=True, out_of_domain="other")
    assert note.startswith("'x' is 'north' in every public row that has a value")
    column, note = drafted(tmp_path, ["2021-05-01"] * N, warns=True)
    assert isinstance(column, Datetime) and column.labels == ("any date", "missing") and "one bin" in note
    days = [f"2021-0{i % 9 + 1}-01" for i in range(N)]
    column, note = drafted(tmp_path, days, warns=False)
    assert isinstance(column, Datetime) and column.labels[-2] == "2021-09-01 or later"
    assert note.startswith(
        "'x' has public dates up to 2021-09-01; later ones get the last bin, from 2021-09-01 on"
    )
    column, note = drafted(tmp_path, [""] * N, warns=True)
    assert (
        column is not None and column.labels == ("other", "missing") and "no value in any public row" in note
    )


def test_a_nearly_constant_column(tmp_path: Path) -> None:
    _, note = drafted(tmp_path, ["a"] * (N - 1) + ["b"], warns=False)
    assert note.startswith("'x' is 'a' in 99.58 % of the public rows") and '--exclude "x"' in note
    assert drafted(tmp_path, ["a"] * (N - 3) + ["b"] * 3, warns=False)[1] == ""


def test_few_whole_numbers_are_codes(tmp_path: Path) -> None:
    column, note = drafted(tmp_path, [i % 3 + 1 for i in range(N)], warns=False)
    assert column == Ordered(name="x", dtype="int64", values=(1, 2, 3), other=True, out_of_domain="other")
    assert "taken as codes, so any other becomes 'other'" in note and 'kind = "integer"' in note
    assert encode_table(pa.table({"x": [3, 4]}), Schema((column,))).columns[0].tolist() == [2, 3]
    column, _ = drafted(tmp_path, [5 * (i % 20) for i in range(N)], warns=False)
    assert isinstance(column, Ordered) and column.count == 20
    column, note = drafted(tmp_path, [i % 21 for i in range(N)], warns=False)
    assert column == Integer(name="x", low=0, high=20, missing=True, out_of_domain="open") and not note
    # Without repetition they are no codes.
    column, _ = drafted(tmp_path, list(range(10)), warns=False)
    assert isinstance(column, Integer)


def test_without_other_what_is_not_listed_is_refused(tmp_path: Path) -> None:
    for words in ([i % 3 for i in range(N)], list("ab") * 9, ["yes", "no"] * 9):
        column, _ = drafted(tmp_path, words, warns=False, other=False)
        assert column is not None
        assert (column.other, column.out_of_domain, column.missing) == (False, "error", True)
    _, note = drafted(tmp_path, [1] * N, warns=True, other=False)
    assert "any other value is refused" in note
    assert isinstance(drafted(tmp_path, spread(5000), warns=False, other=False)[0], Binned)
    with pytest.raises(Exception, match=r"other .* must be True or False"):
        Schema.draft(pa.table({"x": [1]}), other="no")  # type: ignore[arg-type]


def test_leading_zeros_are_kept(tmp_path: Path) -> None:
    column, note = drafted(tmp_path, [f"{i % 12:03}" for i in range(N)], warns=False)
    assert isinstance(column, Categorical) and column.values[0] == "000"
    assert note == "'x' has leading zeros (such as 000), so it is kept as text"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1,5", "2,25", "3"], r"decimal comma \(such as 1,5\), kept as text.*--decimal , \(in Python decimal=\",\"\)"),
        (["1,234", "12,345.5", "7"], r"comma between thousands \(such as 1,234\).*--thousands , "),
        (["1,234", "2,345", "7"], "--thousands , if it separates thousands, with --decimal , if it is a decimal comma"),
        (["1.234,5", "12.345,75", "7"], r"point between thousands \(such as 1.234,5\).*--decimal , --thousands \."),
        (["1.234.567", "12.345", "7"], r"--decimal , --thousands \."),
        (["1 234", "12 345", "7"], "sign between thousands .*--thousands ' ' "),
        (["1'234.50", "7"], r"--thousands \"'\" "),
        (["€ 12", "€ 7", "€ 1.200,50"], r"with a sign or a unit \(such as € 1.200,50\).*remove the sign"),
        (["$1,200.50", "$7"], r"with a sign or a unit \(such as \$1,200.50\)"),
        (["12 %", "7 %", "9"], r"with a sign or a unit \(such as 12 %\)"),
        (["31.12.2021", "01.02.2020"], r"dates such as 01.02.2020, kept as text.*--date-format %d.%m.%Y \(in Python"),
        (["12/31/2021", "1/2/2020"], "--date-format %m/%d/%Y "),
        (["31/12/2021", "1/2/2020"], "--date-format %d/%m/%Y "),
        (["10/12/21", "1/2/20"], "%d/%m/%y or %m/%d/%y, whichever it is"),
        (["31.12.2021 14:30", "01.02.2020 09:15"], '--date-format "%d.%m.%Y %H:%M" '),
        (["2021/12/31", "2020/2/1"], "--date-format %Y/%m/%d "),
        (["2021-12-31", "31.12.2021"], r"several formats \(such as 2021-12-31 and 31.12.2021\)"),
        (["12/31/2021", "1.2.2020", "2020-01-01"], "several formats"),
        (["31.12.2021", "01.02.2020 09:15"], r"several formats \(such as 31.12.2021 and 01.02.2020 09:15\)"),
    ],
)  # fmt: skip
def test_texts_that_would_be_numbers_or_dates(tmp_path: Path, words: list[str], said: str) -> None:
    column, note = drafted(tmp_path, [words[i % len(words)] for i in range(60)], warns=True)
    assert isinstance(column, Categorical) and set(column.values) == set(words)
    assert re.search(said, note), note


@pytest.mark.parametrize(
    "words", [["99.99.2021", "1.1.2021"], ["a,b", "1,5"], ["1,2,3", "4,5,6"], ["v1.2", "v1.3"]]
)
def test_texts_that_are_none(tmp_path: Path, words: list[str]) -> None:
    assert drafted(tmp_path, words * 20, warns=False)[1] == ""


def test_amounts_that_differ_are_no_identifier(tmp_path: Path) -> None:
    """As texts they nearly all differ, so they are left out; the reason is how they are written."""
    words = [f"{v // 100}.{v // 100 % 1000:03},{v % 100:02}" for v in RNG.permutation(99_999)[:N]]
    column, note = drafted(tmp_path, words, warns=True)
    assert column is None and "left out of the schema, because as texts most of them differ" in note
    assert "--decimal , --thousands ." in note and "identifier" not in note and '--include "x"' in note


def test_dates_as_numbers_and_points_between_thousands(tmp_path: Path) -> None:
    days = [(dt.date(2020, 1, 1) + dt.timedelta(int(v))).strftime("%Y%m%d") for v in spread(500)]
    column, note = drafted(tmp_path, days, warns=True)
    assert isinstance(column, Integer) and "numbers that look like dates" in note and "%Y%m%d" in note
    column, note = drafted(tmp_path, [f"{v + 1}.{v % 1000:03}" for v in spread(900)], warns=False)
    assert isinstance(column, Real) and "three digits after every point" in note and "--thousands ." in note
    assert drafted(tmp_path, [f"{v / 1000:.3f}" for v in spread(900)], warns=False)[1] == ""


def test_texts_that_mean_missing_among_numbers(tmp_path: Path) -> None:
    words = [[".", "-", "n/a"][i % 3] if i % 4 == 0 else str(v) for i, v in enumerate(spread(400))]
    column, note = drafted(tmp_path, words, warns=False)
    assert isinstance(column, Integer) and column.missing
    assert column.missing_values == (*MISSING_TOKENS, ".", "-", "n/a")
    assert note == "'x' has '-', '.', 'n/a' in 60 public rows, taken as missing, as missing_values says"
    column, _ = drafted(tmp_path, ["2021-01-01", ".", "2021-02-01"] * 9, warns=False)
    assert isinstance(column, Datetime) and "." in column.missing_values
    # Among words they are words, and what usually means missing may be one.
    column, note = drafted(tmp_path, ["-", "a", "NA"] * 9, warns=False)
    assert isinstance(column, Categorical) and column.values == ("-", "a")
    assert "has 'NA' in 9 public rows, taken as missing; if that is a value, write missing_values = [" in note
    assert '"NA"' not in note


def test_yes_and_no_in_any_case(tmp_path: Path) -> None:
    odd = {"missing": True, "other": True, "out_of_domain": "other", "dtype": "string"}
    column, note = drafted(tmp_path, ["True", "False"] * 9, warns=False)
    assert column == Boolean(name="x", values=("False", "True"), **odd) and not note
    assert encode_table(pa.table({"x": ["true", "maybe"]}), Schema((column,))).columns[0].tolist() == [1, 2]
    column, note = drafted(tmp_path, ["Yes", "Yes", "yes", "NO"] * 9, warns=False)
    assert column == Boolean(name="x", values=("NO", "Yes"), **odd)
    assert note == "'x' spells its values in several ways ('NO', 'Yes', 'yes'), which are taken as two"


# Numbers that stand for none.


def test_a_sentinel_has_a_bin_of_its_own(tmp_path: Path) -> None:
    words = [999 if i % 20 == 0 else v for i, v in enumerate(spread(90))]
    column, note = drafted(tmp_path, words, warns=True)
    assert isinstance(column, Integer) and column.bins[-3:] == (
        max(w for w in words if w < 999) + 1,
        999,
        1000,
    )
    assert "has 999 in 12 public rows, far from the rest (0 to 8" in note and "in a bin of its own" in note
    line = note[note.index("missing_values = ") :].split(" and take")[0]
    # The line of the note does what it says, for text and for numbers.
    text = Schema((column,)).to_toml() + line + "\n"
    changed = Schema.from_toml(text)
    for values in (["999", "7"], [999, 7], [999.0, 7.0]):
        codes = encode_table(pa.table({"x": values}), changed).columns[0].tolist()
        assert codes[0] == changed["x"].missing_code and codes[1] < changed["x"].count
    out = decoded(column, [int(w) for w in words])
    assert (out == 999).sum() == 12 and ((out < 90) | (out == 999)).all()


def test_sentinels_below_and_among_codes(tmp_path: Path) -> None:
    words = [(-9, -99)[i % 40 // 20] if i % 20 == 0 else v for i, v in enumerate(spread(900))]
    column, note = drafted(tmp_path, words, warns=True)
    assert isinstance(column, Integer) and column.bins[:4] == (-99, -98, -9, -8) and "-99 and -9" in note
    out = decoded(column, [int(w) for w in words])
    assert sorted(set(out[out < 0].tolist())) == [-99, -9]
    column, note = drafted(tmp_path, [(1, 2, 99)[i % 3] for i in range(N)], warns=True)
    assert isinstance(column, Ordered) and "has 99 in 80 public rows" in note and "a code of its own" in note
    prices = [999.0 if i % 20 == 0 else round(v / 8.3, 3) for i, v in enumerate(spread(900))]
    column, _ = drafted(tmp_path, prices, warns=True)
    assert isinstance(column, Real) and column.bins[-2] == 999.0
    assert drafted(tmp_path, [v if v < 97 else 99 for v in spread(98)], warns=False)[1] == ""


def test_a_listed_value_cannot_mean_missing() -> None:
    with pytest.raises(SchemaError, match="the value 9, which also means missing"):
        Ordered(name="x", dtype="int64", values=(1, 9), missing_values=("9",))


# Infinite numbers.


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.0, None, np.inf]),
        pa.array([0.0, 0.5, 0.5, 1.0, -np.inf, np.inf, np.nan, None] * 9),
        pa.array([1.0, 2.0, np.inf] * 9, pa.float32()),
        pa.array([np.inf, None]),
        pa.array(["0", "1.5", "1e400", None] * 9),
        pa.array(["0", "1.5", "-1e400", "N"] * 9),
    ],
    ids=["least", "with NaN", "single precision", "nothing else", "text", "text with gaps"],
)
def test_an_infinite_number_among_codes_is_missing_and_not_other(values: pa.Array, other: bool) -> None:
    """A null of the synthetic rows cannot stand for a gap and for `other` as well."""
    public = pa.table({"x": values})
    with pytest.warns(OpenPriorWarning, match="infinite numbers in .*, taken as missing"):
        schema = Schema.draft(public, other=other)
    column, rng = schema["x"], np.random.default_rng(3)
    assert Schema.from_toml(schema.to_toml()) == schema
    codes = encode_table(public, schema)
    lost = [v is None or v == "N" or not np.isfinite(float(v)) for v in values.to_pylist()]
    assert (codes.columns[0] == column.missing_code).tolist() == lost
    rows = Decoder.fit(schema, public, rng=rng).decode(codes, rng)
    assert encode_table(rows, schema).columns[0].tolist() == codes.columns[0].tolist()
    assert rows["x"].is_null().to_pylist() == lost


def test_infinite_numbers_in_a_file(tmp_path: Path) -> None:
    column, note = drafted(tmp_path, ["0.5", "1.5", "1e400", "N"] * 9, warns=True)
    assert column == Ordered(
        name="x",
        dtype="double",
        values=(0.5, 1.5),
        missing=True,
        missing_values=(*MISSING_TOKENS, "inf", "-inf", "N"),
        other=True,
        out_of_domain="other",
    )
    assert "has infinite numbers in 9 public rows, taken as missing" in note
    # Where nothing else is, they are no numbers but words.
    column, note = drafted(tmp_path, ["1e400", "-1e400"] * 9, warns=False)
    assert isinstance(column, Categorical) and column.values == ("-1e400", "1e400") and not note


@pytest.mark.parametrize("values", [[float(i) for i in range(30)], [i / 7 for i in range(90)]])
def test_infinite_numbers_are_at_the_ends_of_quantities(values: list[float]) -> None:
    public = pa.table({"x": [*values, np.inf, -np.inf, None]})
    schema = Schema.draft(public)  # a warning is an error here
    column = schema["x"]
    assert "infinite numbers in 2 public rows, counted at the ends" in schema.notes["x"]
    codes = encode_table(public, schema).columns[0][-3:].tolist()
    assert codes == [column.count - 1, 0, column.missing_code]
    # The line of the note does what it says.
    line = schema.notes["x"].split(" write ")[1]
    changed = Schema.from_toml(Schema((column,)).to_toml() + line + "\n")
    assert encode_table(public, changed).columns[0][-3:].tolist() == [column.missing_code] * 3


# Precision, and what many rows have.


def decoded(column: Binned, public: list[Any]) -> np.ndarray:
    schema, table = Schema((column,)), pa.table({column.name: public})
    rng = np.random.default_rng(3)
    out: np.ndarray = (
        Decoder.fit(schema, table, rng=rng).decode(encode_table(table, schema), rng)["x"].to_numpy()
    )
    return out


def test_a_last_value_that_many_rows_have_is_not_spread() -> None:
    """Incomes that were cut at 100,000, and dates that stand for no end."""
    incomes = np.minimum(RNG.integers(0, 150_000, 2000), 100_000)
    column = Schema.draft(pa.table({"x": incomes}))["x"]
    assert isinstance(column, Integer) and column.bins[-2:] == (100_000, 100_001) and column.high == 100_000
    assert (decoded(column, incomes.tolist()) == 100_000).sum() == (incomes == 100_000).sum()
    days = [dt.date(9999, 12, 31) if v > 500 else dt.date(2020, 1, 1) + dt.timedelta(v) for v in spread(900)]
    for end in (dt.date(9999, 12, 31), dt.date(2099, 12, 31)):
        column = Schema.draft(pa.table({"x": [end if day.year == 9999 else day for day in days]}))["x"]
        assert isinstance(column, Datetime) and column.high == end
        out = decoded(column, [end if day.year == 9999 else day for day in days])
        assert (out > np.datetime64("2022-01-01")).sum() == sum(day.year == 9999 for day in days)
        assert end.year == 9999 or set(out[out > np.datetime64("2022-01-01")]) == {np.datetime64(end)}


@pytest.mark.parametrize("kind", ["whole", "cents", "continuous"])
def test_zeros_stay_zeros(kind: str) -> None:
    rng = np.random.default_rng(4)
    incomes = rng.lognormal(8, 1, 3000)
    incomes = {"whole": np.rint(incomes), "cents": incomes.round(2), "continuous": incomes}[kind]
    values = np.where(rng.random(3000) < 0.4, 0, incomes)
    values = values.astype(np.int64) if kind == "whole" else values
    column = Schema.draft(pa.table({"x": values}))["x"]
    assert isinstance(column, Binned) and column.bins[0] == 0
    assert column.bins[1] == (column.step or 1)  # one step wide
    assert kind == "whole" or column.step <= 1e-4 * values.max()
    out = decoded(column, values.tolist())
    assert (out == 0).sum() == (values == 0).sum()
    # Also where nothing is drawn from public rows.
    schema = Schema((column,))
    rng = np.random.default_rng(3)
    blind = Decoder.fit(schema, None, rng=rng).decode(encode_table(pa.table({"x": values}), schema), rng)
    assert (blind["x"].to_numpy() == 0).sum() == (values == 0).sum()


@pytest.mark.parametrize(
    ("step", "values"),
    [
        (0.01, RNG.integers(0, 10**6, 900) / 100),
        (0.25, RNG.integers(0, 10**4, 900) / 4),
        (0.001, RNG.integers(0, 10**6, 900) / 1000),
        (1.0, np.append(RNG.integers(0, 10**5, 900), 0.5).astype(float)[:-1]),
        (100, RNG.integers(0, 10**4, 900) * 100),
        (None, RNG.normal(size=900)),
        (None, RNG.integers(0, 10**6, 900)),
        ("hour", np.datetime64("2021-01-01T00:00:00") + RNG.integers(0, 99, 900) * np.timedelta64(1, "h")),
        ("minute", np.datetime64("2021-01-01T00:00:00") + RNG.integers(0, 9999, 900) * np.timedelta64(1, "m")),
        (None, np.datetime64("2021-01-01T00:00:00", "us") + RNG.integers(0, 10**12, 900)),
    ],
)  # fmt: skip
def test_the_step_is_that_of_the_public_values(step: float | str | None, values: Any) -> None:
    stored = pa.array(values)
    if step == 1.0:
        stored = pa.array([str(v) for v in values.tolist()])  # 7.0, as a CSV has it
    column = Schema.draft(pa.table({"x": stored}))["x"]
    assert isinstance(column, Binned) and column.step == step and column.out_of_domain == "open"


def test_uniform_draws_look_like_the_column() -> None:
    values = (np.random.default_rng(0).integers(0, 40_000, 2000) * 5 / 100).tolist()
    column = Schema.draft(pa.table({"x": values}))["x"]
    assert isinstance(column, Real) and column.step == 0.05
    schema = Schema((column,))
    rng = np.random.default_rng(0)
    out = Decoder.fit(schema, None, rng=rng).decode(encode_table(pa.table({"x": values}), schema), rng)["x"]
    assert all(len(str(value).partition(".")[2]) <= 2 for value in out.to_pylist())


# Order, and types that Arrow does not count.


def test_ordered_categories_keep_their_order() -> None:
    sizes = pd.Categorical(["m", "s", "m", None], categories=["s", "m", "l"], ordered=True)
    arrow = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None]), ["s", "m", "l"], ordered=True)
    number = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0]), pa.array([9, 3, 5]), ordered=True)
    odd: dict[str, Any] = {"missing": True, "other": True, "out_of_domain": "other"}
    expected = Ordered(name="x", values=("s", "m", "l"), **odd)
    assert replace(Schema.draft(pd.DataFrame({"x": sizes}))["x"], dtype="string") == expected
    assert Schema.draft(pa.table({"x": arrow}))["x"] == expected
    column = Schema.draft(pa.table({"x": number}))["x"]
    assert isinstance(column, Ordered) and column.values == (9, 3, 5) and column.dtype == "int64"
    assert Schema.draft(pd.DataFrame({"x": sizes.as_unordered()}))["x"].kind == "categorical"
    # Batches whose orders contradict each other have none.
    back = pa.DictionaryArray.from_arrays(pa.array([1, 0]), ["m", "s"], ordered=True)
    table = pa.Table.from_batches([pa.record_batch({"x": arrow}), pa.record_batch({"x": back})])
    assert Schema.draft(table)["x"].kind == "categorical"


def test_types_that_arrow_does_not_count() -> None:
    cents = [None if i % 9 == 0 else Decimal(i * 37 % 911) for i in range(300)]
    for kind in (pa.decimal32(7, 2), pa.decimal64(12, 2)):
        column = Schema.draft(pa.table({"x": pa.array(cents, kind)}))["x"]
        assert isinstance(column, Integer) and column.dtype == "double" and column.missing
    held = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16)))
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), held)
    assert Schema.draft(pa.table({"x": coded}))["x"].kind == "categorical"  # a UUID is text


def test_one_number_in_two_spellings_is_one() -> None:
    assert Schema.draft(pa.table({"x": [0.0, -0.0] * 4 + [1.0] * 8}))["x"].values == (0, 1)
    assert Schema.draft(pa.table({"x": ["1", "1.0", "2"] * 9}))["x"].values == (1.0, 2.0)
