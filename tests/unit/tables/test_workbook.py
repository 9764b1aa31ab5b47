"""Sheets of workbooks: every cell by its own type, and clumsy files in one line."""

import datetime as dt
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from openprior.errors import OpenPriorWarning, SourceError
from openprior.tables import office
from openprior.tables.source import open_source


def _book(path: Path, **sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def _column(path: object, name: str) -> list[Any]:
    return [value for batch in open_source(path).batches([name]) for value in batch.column(0).to_pylist()]


def test_a_cell_is_read_by_its_own_type(tmp_path: Path) -> None:
    moment = dt.datetime(2020, 1, 2, 3, 4, 5)
    cells = [7, 7.5, "7", " a ", dt.date(2020, 1, 2), moment, dt.time(7, 30), True, None, "", 0, -3, 1e300]
    path = _book(tmp_path / "book.xlsx", one=[["value", "row"], *([cell, i] for i, cell in enumerate(cells))])
    read = _column(path, "value")
    assert read == [None if cell == "" else cell for cell in cells]
    assert [type(value) for value in read[:4]] == [int, float, str, str]
    assert type(read[7]) is bool and type(read[10]) is int
    source = open_source(path)
    assert source.columns == ("value", "row") and source.name == "book" and not source.is_text
    assert _column(pickle.loads(pickle.dumps(source)), "value") == read  # executors of a cluster get it so


def test_errors_are_missing_and_empty_rows_are_none(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    book = openpyxl.Workbook()
    for row in (["a", "b"], ["#N/A", 1], [None, None], ["#DIV/0!", 2], ["text", None]):
        book.active.append(row)
    for place in ("A2", "A4"):
        book.active[place].data_type = "e"
    book.save(path)
    assert _column(path, "a") == [None, None, "text"]
    assert _column(path, "b") == [1, 2, None]


def test_the_sheet_that_is_named_or_the_first_that_is_shown(tmp_path: Path) -> None:
    path = _book(
        tmp_path / "book.xlsx", lists=[["l"], [0]], **{"Sheet 2": [["a"], [1]], "more": [["b"], [2]]}
    )
    book = openpyxl.load_workbook(path)
    book["lists"].sheet_state = "hidden"
    book.save(path)
    assert _column(f"{path}#more", "b") == [2]
    assert _column(f"{path}#lists", "l") == [0]
    assert _column(Path(f"{path}#Sheet 2"), "a") == [1]
    with pytest.warns(
        OpenPriorWarning, match="has 2 sheets, and the first, 'Sheet 2', is read; .*book.xlsx#more"
    ):
        assert _column(path, "a") == [1]
    with pytest.raises(SourceError, match="has no sheet 'Sheet 3'; it has lists, Sheet 2, more"):
        open_source(f"{path}#Sheet 3")
    only = _book(tmp_path / "only.xlsx", one=[["a"], [1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_source(only)


def test_a_file_may_be_called_like_a_sheet(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx#one.csv"
    path.write_text("a,b\n1,2\n")
    assert open_source(path).columns == ("a", "b")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "first row of sheet 'one' .* is empty"),
        ([[None, None], ["a", "b"], [1, 2]], "first row of sheet 'one' .* is empty"),
        ([["Survey of 2024", None, None], ["a", "b", "c"], [1, 2, 3]], None),
        ([["a", None, "c"], [1, 2, 3]], "column 2 of sheet 'one' .* has no name .* merged"),
        ([["a", "b", "a "], [1, 2, 3]], "columns 1 and 3 of sheet 'one' .* have the same name"),
        ([[1, 2, 3], [4, 5, 6]], "no header row"),
    ],
)
def test_a_header_that_is_none(rows: list[list[Any]], told: str | None, tmp_path: Path) -> None:
    path = _book(tmp_path / "book.xlsx", one=rows)
    if told is not None:
        with pytest.raises(SourceError, match=told):
            open_source(path)
        return
    # A title over the whole table: the columns beyond it have no name, which is seen as soon as they are read.
    with pytest.raises(SourceError, match="a cell beyond its last named column"):
        list(open_source(path).batches())


def test_a_merged_header_is_refused(tmp_path: Path) -> None:
    path = _book(tmp_path / "book.xlsx", one=[["who", None, "what"], [1, 2, 3]])
    book = openpyxl.load_workbook(path)
    book["one"].merge_cells("A1:B1")
    book.save(path)
    with pytest.raises(SourceError, match=r"column 2 of sheet 'one' .* without merged cells"):
        open_source(path)


@pytest.mark.parametrize("merged", ["A2:A3", "A3:B3", "B1:B2"])
def test_cells_that_rows_share_are_refused(merged: str, tmp_path: Path) -> None:
    path = _book(tmp_path / "book.xlsx", one=[["who", "what"], [1, 2], [3, 4], [5, 6]])
    book = openpyxl.load_workbook(path)
    book["one"].merge_cells(merged)
    book.save(path)
    with pytest.raises(SourceError, match="merged cells below its first row"):
        open_source(path)


def test_what_is_no_workbook(tmp_path: Path) -> None:
    other = tmp_path / "zip.xlsx"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("secret.txt", "a secret word")
    text = tmp_path / "text.xls"
    text.write_text("a,b\n1,2\n")
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes(_book(tmp_path / "book.xlsx", one=[["a"], [1]]).read_bytes()[:-100])
    for path in (other, text, cut):
        with pytest.raises(SourceError, match="is not a workbook that can be read") as caught:
            open_source(path)
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "none.xlsx#one")


def test_without_the_library_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _book(tmp_path / "book.xlsx", one=[["a"], [1]])

    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(office.importlib, "import_module", refuse)
    with pytest.raises(
        SourceError, match=r"^reading \.xlsx files needs python-calamine; install openprior\[files\]$"
    ):
        open_source(path)
    (tmp_path / "survey.sav").write_bytes(b"$FL2")
    with pytest.raises(
        SourceError, match=r"^reading \.sav files needs pyreadstat; install openprior\[files\]$"
    ):
        open_source(tmp_path / "survey.sav")


def test_an_opendocument_sheet(tmp_path: Path) -> None:
    """As LibreOffice writes it, with a row that is repeated."""
    cell = (
        '<table:table-cell office:value-type="{}" office:{}="{}"><text:p>x</text:p></table:table-cell>'.format
    )
    head = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{name}</text:p></table:table-cell>'
        for name in ("when", "count", "is")
    )
    row = (
        cell("date", "date-value", "2020-01-02")
        + cell("float", "value", "7")
        + cell("boolean", "boolean-value", "true")
    )
    spaces = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{short}:1.0"'
        for short in ("office", "table", "text", "manifest")
    )
    content = (
        f'<?xml version="1.0"?><office:document-content {spaces}><office:body><office:spreadsheet>'
        f'<table:table table:name="one"><table:table-row>{head}</table:table-row>'
        f'<table:table-row table:number-rows-repeated="2">{row}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    path = tmp_path / "book.ods"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", f"<manifest:manifest {spaces}/>")
        file.writestr("content.xml", content)
    assert _column(path, "when") == [dt.date(2020, 1, 2)] * 2
    assert _column(path, "count") == [7, 7]
    assert _column(path, "is") == [True, True]
