"""The files that offices have, each written by its own library: read, drafted, released, and the release opened.

And neighbours: a cell of one row changes, and the codes of all other rows stay.
"""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

import openprior as op
from openprior.errors import PrivacyError
from openprior.tables.encode import encode_table
from openprior.tables.source import open_source
from tests.console import say
from tests.office import COLUMNS, LABELS, WRITERS, Row, survey

FORMATS = list(WRITERS)


def _written(form: str, rows: list[Row], folder: Path) -> str:
    folder.mkdir()
    return WRITERS[form](rows, folder)


@pytest.mark.parametrize("form", FORMATS)
def test_a_survey_of_every_format_is_read_drafted_and_released(form: str, tmp_path: Path) -> None:
    rows = survey()
    public = _written(form, rows, tmp_path / "public")
    private = _written(form, survey(seed=2), tmp_path / "private")
    source = open_source(public)
    assert [name.lower() for name in source.columns] == COLUMNS
    assert source.name == ("people" if ":" in public else "survey")
    region, age, born, income, note = (
        [value for batch in source.batches([name]) for value in batch.column(0).to_pylist()]
        for name in source.columns
    )
    assert region == [row[0] if form == "por" else LABELS[row[0]] for row in rows]
    assert age == [row[1] for row in rows]
    assert [dt.date.fromisoformat(str(day)) for day in born] == [row[2] for row in rows]
    assert income == pytest.approx([row[3] for row in rows])
    assert note == [row[4] for row in rows]

    schema = op.Schema.draft(public, exclude=[source.columns[3]])
    kinds = [column.kind for column in schema.columns]
    assert kinds == ["ordered" if form == "por" else "categorical", "integer", "datetime", "categorical"]
    op.release(
        private,
        public,
        schema=schema,
        workload=op.all_marginals(1),
        epsilon=1.0,
        delta=1e-9,
        mechanism=op.Mst(),
        out=tmp_path / "out",
    )
    synthetic = op.open_release(tmp_path / "out").synthetic
    assert synthetic.num_rows == len(rows)
    assert tuple(synthetic.column_names) == schema.names


@pytest.mark.parametrize("form", FORMATS)
def test_one_changed_cell_moves_one_row(form: str, tmp_path: Path) -> None:
    rows = survey(40)
    schema = op.Schema.draft(_written(form, rows, tmp_path / "drafted"))
    rows[7] = [1, 44, dt.date(1995, 5, 5), 2500.0, "yes"]
    before = encode_table(_written(form, rows, tmp_path / "before"), schema)
    for column, value in enumerate([2, None, dt.date(2031, 3, 5), -1e9, "a word that nobody else said"]):
        changed = [list(row) for row in rows]
        changed[7][column] = value
        after = encode_table(_written(form, changed, tmp_path / f"changed{column}"), schema)
        moved = [np.flatnonzero(old != new) for old, new in zip(before.columns, after.columns, strict=True)]
        assert [list(places) for places in moved] == [[7] if i == column else [] for i in range(5)]


def test_the_same_file_is_refused_and_another_sheet_or_table_is_not(tmp_path: Path) -> None:
    import duckdb
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "this year"
    old = book.create_sheet("last year")
    for sheet, rows in ((book.active, survey(seed=1)), (old, survey(seed=2))):
        for row in [COLUMNS, *rows]:
            sheet.append(row)
    path = tmp_path / "survey.xlsx"
    book.save(path)
    with duckdb.connect(str(tmp_path / "survey.db")) as connection:
        for name, sheet in (("this", "this year"), ("last", "last year")):
            rows = next(open_source(f"{path}#{sheet}").batches(["region", "age"]))
            connection.register("rows", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    database = f"duckdb:{tmp_path / 'survey.db'}"
    for private, public, same in (
        (f"{path}#this year", f"{path}#last year", False),
        (f"{path}#this year", f"{path}#this year", True),
        (f"{database}#this", f"{database}#last", False),
        (f"{database}#this", f"{database}#this", True),
        (f"{database}#this", f"{database}#SELECT age, region FROM this ORDER BY 1", True),
        (f"{path}#this year", f"{database}#this", True),
    ):
        schema = op.Schema.draft(public, include=["region"])
        schema = op.Schema(columns=[schema["region"], schema["age"]])

        def run(private: str = private, public: str = public, schema: op.Schema = schema) -> None:
            op.release(private, public, schema=schema, workload=op.all_marginals(1), epsilon=1.0, delta=1e-9,
                       mechanism=op.PublicProxy())  # fmt: skip

        if same:
            with pytest.raises(PrivacyError, match="the private one"):
                run()
        else:
            run()


def test_the_commands_take_sheets_and_tables(tmp_path: Path) -> None:
    database = WRITERS["duckdb"](survey(), tmp_path)
    book = WRITERS["xlsx"](survey(seed=2), tmp_path)
    toml, out = str(tmp_path / "survey.toml"), str(tmp_path / "out")
    said = say("schema", "draft", database, "-o", toml)
    assert said.code == 0, said.err
    words = ("release", f"{book}#Sheet", "--public", database, "--schema", toml, "--workload", "1")
    said = say(*words, "--epsilon", "1", "--delta", "1e-9", "-m", "mst", "-o", out)
    assert said.code == 0, said.err
    said = say("evaluate", out, "--private", f"{book}#Sheet", "--quick")
    assert said.code == 0 and "NOT PRIVATE" in said.out
    said = say("evaluate", out, "--private", f"{book}#None", "--quick")
    assert said.code == 1 and "has no sheet 'None'; it has Sheet" in said.err
    said = say("schema", "draft", database.replace("people", "peoples"), "-o", str(tmp_path / "x"))
    assert said.code == 1 and "has no table 'peoples'; it has people" in said.err
    said = say("release", database, *words[2:], "--epsilon", "1", "--delta", "1e-9", "-o", str(tmp_path / "x"),
               "--engine", "spark")  # fmt: skip
    assert said.code == 1 and "no databases" in said.err
