"""Files of SPSS, SAS and Stata: labels, what is declared missing, dates, blocks of rows, and clumsy files."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from openprior.errors import OpenPriorWarning, SourceError
from openprior.tables import statistics_file
from openprior.tables.lookup import Coder
from openprior.tables.source import open_source
from openprior.tables.stored_dates import clock_of
from tests.raw_columns import SCHEMA


def _column(source: Any, name: str) -> list[Any]:
    return [value for batch in open_source(source).batches([name]) for value in batch.column(0).to_pylist()]


def test_labels_take_the_place_of_values(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sex": [1.0, 2.0, 3.0, 7.5, None, 1.0], "code": ["m", "f", "", "x", "m", "m"]})
    path = tmp_path / "survey.sav"
    labels = {"sex": {2.0: "female", 1.0: "male", 9.0: "refused"}, "code": {"m": "man", "f": "woman"}}
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels)
    assert _column(path, "sex") == ["male", "female", "3", "7.5", None, "male"]
    assert _column(path, "code") == ["man", "woman", "", "x", "man", "man"]
    (batch,) = open_source(path).batches(["sex"])
    words = batch.column(0)
    assert pa.types.is_dictionary(words.type) and not words.type.ordered
    assert set(words.dictionary.to_pylist()[:3]) == {
        "male",
        "female",
        "refused",
    }  # also that which nobody has


def test_labels_that_are_the_same_stay_apart_and_blank_ones_are_none(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    frame = pd.DataFrame({"a": [1, 2, 3, 4]})
    pyreadstat.write_dta(frame, str(path), variable_value_labels={"a": {1: "no", 2: "no ", 3: "yes", 4: " "}})
    assert _column(path, "a") == ["no (1)", "no (2)", "yes", "4"]


def test_a_label_that_reads_as_missing_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "survey.sav"
    labels = {"children": {0.0: "None", 1.0: "One"}}
    pyreadstat.write_sav(pd.DataFrame({"children": [0.0, 1.0]}), str(path), variable_value_labels=labels)
    with pytest.warns(OpenPriorWarning, match="column 'children' of survey.sav has the label 'None'"):
        assert _column(path, "children") == ["None", "One"]


def test_what_the_file_declares_missing_is_null(tmp_path: Path) -> None:
    sav, dta = tmp_path / "survey.sav", tmp_path / "survey.dta"
    frame = pd.DataFrame({"age": [30.0, 98.0, 99.0, 120.0, None], "word": ["a", "zz", "b", "zz", ""]})
    ranges = {"age": [{"lo": 98, "hi": 99}], "word": ["zz"]}
    pyreadstat.write_sav(frame, str(sav), missing_ranges=ranges)
    assert _column(sav, "age") == [30, None, None, 120, None]
    assert _column(sav, "word") == ["a", None, "b", None, ""]
    tagged = pd.DataFrame({"age": [30, "a", "z", 31]})
    pyreadstat.write_dta(tagged, str(dta), missing_user_values={"age": ["a", "z"]})
    assert _column(dta, "age") == [30, None, None, 31]


def test_whole_numbers_are_integers_and_floats_stay_narrow(tmp_path: Path) -> None:
    path = tmp_path / "survey.dta"
    frame = pd.DataFrame(
        {
            "whole": [1.0, None],
            "real": [0.5, 1.0],
            "narrow": np.array([0.1, 0.2], np.float32),
            "big": [2.0**60, 1.0],
        }
    )
    pyreadstat.write_dta(frame, str(path))
    (batch,) = open_source(path).batches()
    types = dict(zip(batch.schema.names, map(str, batch.schema.types), strict=True))
    assert types["whole"] == "int64" and types["real"] == types["big"] == "double"
    assert batch.column("whole").to_pylist() == [1, None]
    assert np.float32(batch.column("narrow")[0].as_py()) == np.float32(0.1)


def test_dates_are_those_that_the_library_itself_reads(tmp_path: Path) -> None:
    days = [dt.date(1583, 1, 1), dt.date(1959, 12, 31), dt.date(2024, 2, 29), None]
    moments = [
        dt.datetime(1901, 2, 3, 4, 5, 6),
        dt.datetime(1960, 1, 1),
        dt.datetime(2024, 2, 29, 23, 59, 59),
        None,
    ]
    times = [dt.time(0, 0), dt.time(7, 30, 15), dt.time(23, 59, 59), None]
    frame = pd.DataFrame({"d": days, "m": moments, "t": times})
    for suffix, write, read in (
        ("sav", pyreadstat.write_sav, pyreadstat.read_sav),
        ("por", pyreadstat.write_por, pyreadstat.read_por),
        ("xpt", pyreadstat.write_xport, pyreadstat.read_xport),
        ("dta", pyreadstat.write_dta, pyreadstat.read_dta),
    ):
        path = tmp_path / f"dates.{suffix}"
        write(frame, str(path))
        theirs, _ = read(str(path), output_format="dict")
        source = open_source(path)
        for name, kind in zip(source.columns, ("date32[day]", "timestamp[us]", "time64[us]"), strict=True):
            (batch,) = source.batches([name])
            assert str(batch.column(0).type) == kind
            assert batch.column(0).to_pylist() == list(theirs[name]), (suffix, name)


@pytest.mark.parametrize(
    ("program", "form", "number", "value"),
    [
        ("spss", "MOYR8", 13_797_216_000.0, dt.date(2020, 1, 1)),
        ("spss", "YMDHMS19", 13_797_216_001.25, dt.datetime(2020, 1, 1, 0, 0, 1, 250_000)),
        ("spss", "MTIME8", 61.0, dt.time(0, 1, 1)),
        ("spss", "TIME8", 90_000.0, 90_000.0),
        ("sas", "E8601DA10.", 21_915.0, dt.date(2020, 1, 1)),
        ("sas", "DTDATE9.", 21_915.0 * 86_400, dt.datetime(2020, 1, 1)),
        ("sas", "TIME20.3", 1.5, dt.time(0, 0, 1, 500_000)),
        ("stata", "%tdD_m_Y", -1.0, dt.date(1959, 12, 31)),
        ("stata", "%tcHH:MM", 60_000.0, dt.time(0, 1)),
        ("stata", "%tcDDmonCCYY_HH:MM", 60_000.0, dt.datetime(1960, 1, 1, 0, 1)),
        ("stata", "%tm", -1.0, dt.date(1959, 12, 1)),
        ("stata", "%tq", 241.0, dt.date(2020, 4, 1)),
        ("stata", "%th", 121.0, dt.date(2020, 7, 1)),
    ],
)
def test_a_number_with_the_format_of_a_date(program: str, form: str, number: float, value: object) -> None:
    clock = clock_of(program, form)
    assert clock is not None
    read = clock.read(pa.array([number, None]))
    assert read.to_pylist() == [value, None]
    # Beside a number that is beyond all dates it is the same.
    assert clock.read(pa.array([1e300, number, -1e300]))[1].as_py() == value


@pytest.mark.parametrize(
    ("program", "form"),
    [("spss", "F8.2"), ("spss", "DTIME20"), ("spss", "MONTH8"), ("sas", "BEST12."), ("sas", None), ("stata", "%ty"),
     ("stata", "%9.0g"), ("sas", "$1")],
)  # fmt: skip
def test_formats_that_are_no_dates(program: str, form: str | None) -> None:
    assert clock_of(program, form) is None


def test_rows_come_in_blocks_in_any_order_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "BATCH_ROWS", 4)
    monkeypatch.setattr(statistics_file, "_POR_BLOCK", 2)
    frame = pd.DataFrame({"a": np.arange(11.0), "b": [f"w{i}" for i in range(11)]})
    for suffix, write in (
        ("sav", pyreadstat.write_sav),
        ("zsav", lambda frame, path: pyreadstat.write_sav(frame, path, compress=True)),
        ("por", pyreadstat.write_por),
        ("xpt", pyreadstat.write_xport),
        ("dta", pyreadstat.write_dta),
    ):
        for rows in (11, 8, 0):
            path = tmp_path / f"rows{rows}.{suffix}"
            write(frame[:rows], str(path))
            source = open_source(path)
            a, b = source.columns
            batches = list(source.batches([b, a]))
            blocks = {11: [8, 3], 8: [8]} if suffix == "por" else {11: [4, 4, 3], 8: [4, 4]}
            assert [batch.num_rows for batch in batches] == blocks.get(rows, [])
            assert all(batch.schema.names == [b, a] for batch in batches)
            assert [v for batch in batches for v in batch.column(1).to_pylist()] == list(range(rows))
            assert list(source.batches([])) == []


def test_damaged_files(tmp_path: Path) -> None:
    whole = tmp_path / "survey.sav"
    pyreadstat.write_sav(pd.DataFrame({"a": ["a secret word"] * 50}), str(whole))
    raw = whole.read_bytes()
    for number, damaged in enumerate((raw[:100], raw[:-60], b"PK\x03\x04 no survey", b"\0" * 500)):
        path = tmp_path / f"damaged{number}.sav"
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=r"cannot be read as a \.sav file") as caught:
            list(open_source(path).batches())
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    (tmp_path / "empty.dta").write_bytes(b"")
    with pytest.raises(SourceError, match="is empty"):
        open_source(tmp_path / "empty.dta")
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "none.sas7bdat")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "survey.xpt"
    pyreadstat.write_xport(pd.DataFrame({"aaaa": [1.0], "aaab": [2.0]}), str(path), file_format_version=5)
    path.write_bytes(path.read_bytes().replace(b"AAAB", b"AAAA").replace(b"aaab", b"aaaa"))
    with pytest.raises(SourceError, match="two columns of the same name"):
        open_source(path)


def test_a_whole_number_has_one_code_as_integer_and_as_double() -> None:
    """So a batch of whole numbers may be integers, and the next one doubles, without moving a row."""
    whole = [*range(-12, 130), 2000, -(2**53) + 1, 2**53 - 1]
    for column in SCHEMA.columns:
        coder = Coder(column)
        as_integers, as_doubles = (
            coder(pa.array([*whole, None], kind)) for kind in (pa.int64(), pa.float64())
        )
        assert as_integers.tolist() == as_doubles.tolist(), column.name
