"""One small survey in every kind of file that offices have, each written by the library of its format."""

import datetime as dt
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import pyreadstat

__all__ = ["COLUMNS", "LABELS", "WRITERS", "Row", "survey"]

Row = list[Any]
"""Region (1 to 3), age (or None), born, income, note."""

COLUMNS = ["region", "age", "born", "income", "note"]
LABELS = {1.0: "north", 2.0: "south", 3.0: "capital"}


def survey(rows: int = 160, seed: int = 1) -> list[Row]:
    """Invented answers."""
    draw = random.Random(seed)
    return [
        [
            draw.randint(1, 3),
            draw.randint(18, 90) if draw.random() > 0.1 else None,
            dt.date(1990, 1, 1) + dt.timedelta(draw.randint(0, 9000)),
            round(draw.random() * 5000, 1),
            draw.choice(["yes", "perhaps", "never"]),
        ]
        for _ in range(rows)
    ]


def _named(rows: list[Row]) -> list[Row]:
    """With the region's name where a format has no labels."""
    return [[LABELS.get(region, region), *rest] for region, *rest in rows]


def _workbook(rows: list[Row], place: Path) -> str:
    book = openpyxl.Workbook()
    for row in [COLUMNS, *_named(rows)]:
        book.active.append(row)
    book.save(place / "survey.xlsx")
    return str(place / "survey.xlsx")


def _statistics(suffix: str, write: Callable[..., None], **more: Any) -> Callable[[list[Row], Path], str]:
    def writer(rows: list[Row], place: Path) -> str:
        frame = pd.DataFrame(rows if suffix != "xpt" else _named(rows), columns=COLUMNS)
        frame["age"] = frame["age"].astype(float)
        labels = {} if suffix in ("xpt", "por") else {"variable_value_labels": {"region": LABELS}}
        if suffix == "dta":
            labels = {"variable_value_labels": {"region": {int(code): name for code, name in LABELS.items()}}}
        path = place / f"survey.{suffix}"
        write(frame, str(path), **labels, **more)
        return str(path)

    return writer


def _duckdb(rows: list[Row], place: Path) -> str:
    path = place / "survey.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE people (region VARCHAR, age INTEGER, born DATE, income DOUBLE, note VARCHAR)"
        )
        frame = pd.DataFrame(_named(rows), columns=COLUMNS)
        connection.register("frame", frame)
        connection.execute("INSERT INTO people SELECT * FROM frame")
    return f"duckdb:{path}#people"


def _sqlite(rows: list[Row], place: Path) -> str:
    path = place / "survey.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (region TEXT, age INTEGER, born DATE, income REAL, note TEXT)")
    texts = [[str(value) if isinstance(value, dt.date) else value for value in row] for row in _named(rows)]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", texts)
    connection.commit()
    connection.close()
    return f"sqlite:{path}#people"


WRITERS: dict[str, Callable[[list[Row], Path], str]] = {
    "xlsx": _workbook,
    "sav": _statistics("sav", pyreadstat.write_sav),
    "zsav": _statistics("zsav", pyreadstat.write_sav, compress=True),
    "por": _statistics("por", pyreadstat.write_por),
    "xpt": _statistics("xpt", pyreadstat.write_xport),
    "dta": _statistics("dta", pyreadstat.write_dta),
    "duckdb": _duckdb,
    "sqlite": _sqlite,
}
"""What writes the rows, and gives what openprior is told to read."""
