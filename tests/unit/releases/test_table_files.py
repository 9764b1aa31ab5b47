"""A release in CSV: all of its tables, read back bit for bit, by us and by others; and what CSV cannot tell apart."""

import datetime as dt
import warnings
from csv import reader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, parquet

import openprior as op
from openprior.errors import OpenPriorWarning, OptionError, ReleaseError
from openprior.privacy.ledger import Ledger
from openprior.releases.check import check_release
from openprior.releases.folder import write
from openprior.releases.table_files import check_format, read_csv, write_table
from openprior.schema.columns import Categorical, arrow_type
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source
from tests.forgery import seal_anew

NOON, DAY = dt.datetime(2020, 2, 29, 12, 30, 1), dt.date(2020, 2, 29)
VALUES: dict[str, list[Any]] = {
    "int8": [1, -3],
    "uint64": [2**64 - 1, 0],
    "int64": [-(2**63), 5],
    "halffloat": [0.5, 1.5],
    "float": [0.1, 3.4e38],
    "double": [0.1 + 0.2, 5e-324],
    "bool": [True, False],
    "string": ["NA", "null", ' a,"b"\nc; é', "nan", "=1+1"],
    "large_string": ["", "NaN"],
    "string_view": ["'", "\t"],
    "date32": [DAY, dt.date(1, 1, 1)],
    "date64": [DAY, dt.date(1960, 1, 1)],
    "time32[s]": [NOON.time()],
    "time64[ns]": [dt.time(1, 2, 3, 4)],
    "timestamp[s]": [NOON],
    "timestamp[us]": [dt.datetime(1900, 1, 1, 1, 1, 1, 123)],
    "timestamp[ns]": [NOON],
    "timestamp[ms, tz=UTC]": [NOON],
    "timestamp[us, tz=Europe/Berlin]": [NOON],
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_comes_back_with_its_missing_values(kind: str, tmp_path: Path) -> None:
    arrow = arrow_type(kind)
    table = pa.table(
        {"x": pa.array([*VALUES[kind], None], arrow), "y": pa.nulls(len(VALUES[kind]) + 1, "int64")}
    )
    write_table(table, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv", {"x": arrow, "y": pa.int64()}).equals(table)
    alone = pa.table({"x": pa.array([None, *[v for v in VALUES[kind] if v != ""], None], arrow)})
    write_table(alone, tmp_path / "one.csv")
    assert read_csv(tmp_path / "one.csv", {"x": arrow}, quoted_null=True).equals(alone)


def test_any_name_comes_back(tmp_path: Path) -> None:
    names = ["a,b", 'x"y', "new\nline", " lead", "é", "1", ""]
    table = pa.table({name: [i, None] for i, name in enumerate(names)})
    write_table(table, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv", dict.fromkeys(names, pa.int64())).equals(table)


def test_any_double_comes_back(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**63, 20_000).view(np.float64)
    numbers = pa.table({"x": bits[np.isfinite(bits)]})
    write_table(numbers, tmp_path / "t.csv")
    assert read_csv(tmp_path / "t.csv", {"x": pa.float64()}).equals(numbers)


@pytest.mark.parametrize("values", [[3, None, 5, None], ["a", None, "c", None]], ids=["numbers", "texts"])
def test_a_missing_value_of_a_single_column_is_a_row_for_every_reader(
    values: list[Any], tmp_path: Path
) -> None:
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    file = tmp_path / "one.csv"
    write_table(pa.table({"x": values}), file)
    assert file.read_text().count('\n""\n') == 2
    assert pandas.read_csv(file)["x"].isna().tolist() == [False, True, False, True]
    kind = polars.Int64 if isinstance(values[0], int) else polars.String
    assert polars.read_csv(file, schema={"x": kind})["x"].to_list() in (values, [v or "" for v in values])
    assert duckdb.read_csv(str(file)).fetchall() == [(v,) for v in values]
    options = csv.ConvertOptions(strings_can_be_null=True)
    assert csv.read_csv(file, convert_options=options)["x"].to_pylist() == values
    own = pa.Table.from_batches(list(open_source(file).batches()))
    assert own["x"].cast("string").to_pylist() == ["" if v is None else str(v) for v in values]
    schema = op.Schema.draft(pa.table({"x": values}))
    assert (
        encode_table(file, schema).columns[0] == encode_table(pa.table({"x": values}), schema).columns[0]
    ).all()


def test_other_readers_tell_texts_from_missing_values_as_the_documentation_says(tmp_path: Path) -> None:
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    file = tmp_path / "t.csv"
    write_table(pa.table({"t": ["NA", "", None, "null"], "n": [1, None, 3, 4]}), file)
    frame = pandas.read_csv(file, keep_default_na=False, na_values=[""])
    assert frame["t"].isna().tolist() == [False, True, True, False]
    assert frame["n"].isna().tolist() == [False, True, False, False]
    told = ["NA", "", None, "null"]
    assert polars.read_csv(file)["t"].to_list() == told
    assert [row[0] for row in duckdb.read_csv(str(file), allow_quoted_nulls=False).fetchall()] == told
    assert [row[0] for row in duckdb.read_csv(str(file)).fetchall()] == ["NA", None, None, "null"]
    options = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert csv.read_csv(file, convert_options=options)["t"].to_pylist() == told


# Whole releases.

ODD = ("NA", "", "missing", 'say "x", then\ny', "null")
CITY = Categorical(name="estimate", values=ODD, missing=True, missing_values=("?",))
SCHEMA = op.Schema(
    (
        CITY,
        *op.Schema.from_sizes({"b": 3, "low": 2}).columns,
        op.Schema.draft(pa.table({"r": np.arange(500) / 7})).columns[0],
    )
)
ROWS = 400


def private(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "estimate": pa.array(rng.choice([*ODD, None], ROWS)),
            "b": rng.integers(0, 3, ROWS),
            "low": rng.integers(0, 2, ROWS),
            "r": rng.random(ROWS) * 70,
        }
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One release in both formats; by a method that measures marginals and queries."""
    place = tmp_path_factory.mktemp("formats")
    mechanism = op.Ide(
        queries=["prefixes(b)", {"b": ["0", 1], "low": 1}, {"estimate": [*ODD[:2], "(missing)"]}]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenPriorWarning)
        made = op.release(
            private(1), private(2), schema=SCHEMA, workload=op.all_marginals(2), epsilon=2.0, delta=1e-6,
            mechanism=mechanism, out=place / "parquet",
        )  # fmt: skip
        made.save(place / "csv", format="csv")
    return place / "parquet", place / "csv"


def test_a_folder_in_csv_is_all_csv_and_says_the_same(folders: tuple[Path, Path]) -> None:
    packed, plain = folders
    names = {p.name for p in plain.iterdir()}
    assert names == {p.name.replace(".parquet", ".csv") for p in packed.iterdir()}
    assert not [name for name in names if name.endswith(".parquet")]
    assert check_release(plain) == check_release(packed)
    one, two = op.open_release(packed), op.open_release(plain)
    assert one.synthetic.equals(two.synthetic)
    assert two.synthetic["estimate"].null_count  # the odd texts are told from missing values
    assert set(ODD) < set(two.synthetic["estimate"].to_pylist())
    for first, second in zip(one.measurements, two.measurements, strict=True):
        assert first.values.tobytes() == second.values.tobytes()
        assert (first.statistic, first.part, first.sigma, first.noise) == (
            second.statistic, second.part, second.sigma, second.noise,
        )  # fmt: skip
    assert one.answers(["b", "estimate"]).equals(two.answers(["b", "estimate"]))
    scores = [op.evaluate(folder, private(1)) for folder in folders]
    assert scores[0].workload_error == scores[1].workload_error
    assert (packed / "report.html").read_bytes() == (plain / "report.html").read_bytes()


def test_the_long_form_has_every_answer(folders: tuple[Path, Path]) -> None:
    packed, plain = (folder / f"answers.{folder.name}" for folder in folders)
    wanted = parquet.read_table(packed).to_pylist()
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False)
    parsing = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(plain, convert_options=options, parse_options=parsing)
    shown = ["estimate (column)", "b", "low (column)", "r"]
    numbers = ["estimate", "standard_error", "low", "high", "basis"]
    assert table.column_names == ["marginal", *shown, "query", "cell", *numbers]
    assert table.num_rows == len(wanted)
    kinds = {name: type(table[name].drop_null()[0].as_py()) for name in shown}
    for row, packed_row in zip(table.to_pylist(), wanted, strict=True):
        assert [row[n] for n in ("marginal", "query", "cell", *numbers)] == [
            packed_row[n] for n in ("marginal", "query", "cell", *numbers)
        ]
        there = [name for name in shown if row[name] is not None]
        assert [row[name] for name in there] == [
            kinds[name](packed_row[f"value_{i}"]) for i, name in enumerate(there, 1)
        ]
    labels = pc.drop_null(table["estimate (column)"]).unique().to_pylist()
    assert labels == [*ODD, "(missing)"]


def test_forged_measurements_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    release = op.open_release(folders[1])
    draft = tmp_path / "r"
    draft.mkdir()
    write(release, draft, "csv", "workload")
    file = draft / "measurements.csv"
    lines = file.read_text().splitlines()

    def altered(place: int, column: int, word: str) -> list[str]:
        fields = next(reader([lines[place]]))
        fields[column] = word
        return [
            *lines[:place],
            ",".join(f'"{f}"' if i in (1, 2) else f for i, f in enumerate(fields)),
            *lines[place + 1 :],
        ]

    changes = [
        lines[:-1], lines[:1], [*lines, lines[-1]], lines[1:], [lines[0], *lines[2:]],
        altered(1, 0, "1"), altered(1, 1, "b"), altered(1, 2, "b = 1"), altered(1, 3, "1"), altered(1, 4, "0.5"),
        altered(1, 4, ""), altered(1, 4, "nan"), altered(1, 5, "0.1"), altered(1, 5, "x"), altered(1, 4, "1e400"),
    ]  # fmt: skip
    for number, change in enumerate(changes):
        file.write_text("\n".join(change) + "\n")
        seal_anew(draft)
        with pytest.raises(ReleaseError, match="damaged"):
            op.open_release(draft)
            pytest.fail(f"change {number} was not seen")
    file.write_text("\n".join(lines) + "\n")
    seal_anew(draft)
    op.open_release(draft)
    mixed = draft / "answers.parquet"
    (draft / "answers.csv").rename(mixed)
    seal_anew(draft)
    with pytest.raises(ReleaseError, match=r"lists answers\.parquet, which no release has"):
        op.open_release(draft)


def test_what_csv_cannot_tell_apart_is_refused_and_what_readers_mistake_is_warned_of(tmp_path: Path) -> None:
    alone = op.Schema((CITY,))
    ledger = Ledger()
    with pytest.raises(OptionError, match="use the format parquet"):
        op.release(
            private(1), schema=alone, epsilon=1, delta=1e-6, mechanism=op.Mst(), format="csv",
            out=tmp_path / "r", ledger=ledger,
        )  # fmt: skip
    for wrong in ("xlsx", "CSV", None, 3):
        with pytest.raises(OptionError, match="format"):
            op.release(private(1), schema=SCHEMA, epsilon=1, delta=1e-6, format=wrong, ledger=ledger)
    assert ledger.datasets() == []
    with pytest.warns(OpenPriorWarning, match=r"'NA', '', 'null'.*keep_default_na=False"):
        check_format("csv", SCHEMA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_format("parquet", alone)
        check_format("csv", op.Schema.from_sizes({"a": 2}))


def test_a_release_of_one_column_keeps_its_rows(tmp_path: Path) -> None:
    values = pa.table({"x": pa.array([1, None, 2, None, 2, 3] * 50, pa.int16())})
    made = op.release(
        values,
        schema=op.Schema.draft(values),
        epsilon=5,
        delta=1e-6,
        mechanism=op.Mst(),
        out=tmp_path / "r",
        format="csv",
    )
    again = op.open_release(tmp_path / "r")
    assert again.synthetic.equals(made.synthetic)
    assert again.synthetic["x"].null_count > 30
