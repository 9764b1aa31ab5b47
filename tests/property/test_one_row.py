"""One value moves one row, from the raw table to the counts: in a frame, a CSV, a folder of files that disagree.

A row of a raw table is replaced by another; the codes of all other rows must stay, so that no cell of any marginal
moves by more than one. With persons, all rows of one are replaced.
"""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openprior.counting.local import count_table
from openprior.schema.base import Schema
from openprior.tables.encode import encode_table
from tests import raw_columns
from tests.raw_columns import SCHEMA

NAMES = SCHEMA.names
Rows = list[tuple[Any, ...]]
Write = Callable[[Rows, Path], object]


def _frame(rows: Rows, place: Path) -> object:
    columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(NAMES))]
    return pd.concat(columns, axis=1, keys=NAMES)


def _categories(rows: Rows, place: Path) -> object:
    columns = [
        pd.Series([row[i] for row in rows], dtype=object).astype("category") for i in range(len(NAMES))
    ]
    return pd.concat(columns, axis=1, keys=NAMES)


def _csv(rows: Rows, place: Path) -> object:
    path = place / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([NAMES, *rows])
    return path


def _zipped(rows: Rows, place: Path) -> object:
    path = place / "table.csv.gz"
    with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([NAMES, *rows])
    return path


def _folder(rows: Rows, place: Path) -> object:
    """Three files: bytes, text that was never checked to be UTF-8, and dictionaries."""
    folder = place / "folder"
    folder.mkdir()
    thirds = np.array_split(np.arange(len(rows)), 3)
    for number, third in enumerate(thirds):
        arrays = [pa.array([rows[i][c] for i in third], pa.binary()) for c in range(len(NAMES))]
        if number == 1:
            arrays = [_unchecked(array) for array in arrays]
        if number == 2:
            arrays = [array.dictionary_encode() for array in arrays]
        pq.write_table(pa.table(arrays, names=list(NAMES)), folder / f"{number}.parquet", row_group_size=7)
    return folder


def _unchecked(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers())


WAYS: dict[str, tuple[Callable[[np.random.Generator], tuple[Any, ...]], Write]] = {
    "frame": (raw_columns.row_of_objects, _frame),
    "categories": (raw_columns.row_of_words, _categories),
    "csv": (raw_columns.row_of_words, _csv),
    "zipped": (raw_columns.row_of_words, _zipped),
    "folder": (raw_columns.row_of_bytes, _folder),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_raw_row_moves_one_row(way: str, tmp_path: Path) -> None:
    draw, write = WAYS[way]
    rng = np.random.default_rng(8)
    rows = [draw(rng) for _ in range(30)]
    (tmp_path / "before").mkdir()
    before = encode_table(write(rows, tmp_path / "before"), SCHEMA, private=True)
    marginals = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i:] if a != b]
    counted = count_table(before, marginals)
    for turn in range(20):
        place = tmp_path / str(turn)
        place.mkdir()
        changed = int(rng.integers(len(rows)))
        neighbour = [draw(rng) if i == changed else row for i, row in enumerate(rows)]
        after = encode_table(write(neighbour, place), SCHEMA, private=True)
        others = np.arange(len(rows)) != changed
        for name in NAMES:
            assert (before.column(name)[others] == after.column(name)[others]).all(), (way, turn, name)
        for marginal, counts in count_table(after, marginals).items():
            assert np.abs(counts - counted[marginal]).sum() <= 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", [1, 3])
def test_one_person_moves_so_many_rows(way: str, limit: int, tmp_path: Path) -> None:
    """With ids in the column `word`, all of them texts here; the rows of one person are replaced by any others."""
    draw, write = WAYS[way]
    schema = Schema(SCHEMA.columns[1:], person_id="word", max_rows_per_person=limit)
    rng = np.random.default_rng(9)

    def person(number: int) -> tuple[Any, ...]:
        word: Any = f"p{number}"
        return (word.encode() if way == "folder" else word, *draw(rng)[1:])

    rows = [person(int(number)) for number in rng.integers(6, size=30)]
    marginals = [(a, b) for a in schema.names for b in schema.names if a < b]
    (tmp_path / "before").mkdir()
    counted = count_table(encode_table(write(rows, tmp_path / "before"), schema, private=True), marginals)
    for turn in range(6):
        place = tmp_path / str(turn)
        place.mkdir()
        mine = person(turn)[0]
        neighbour = [person(turn) if row[0] == mine else row for row in rows]
        rng.shuffle(neighbour)  # type: ignore[arg-type]
        table = encode_table(write(neighbour, place), schema, private=True)
        for marginal, counts in count_table(table, marginals).items():
            assert np.abs(counts - counted[marginal]).sum() <= 2 * limit
