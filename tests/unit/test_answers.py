"""Answers as tables: the order asked for, names that clash, and the file of a release."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import openprior as op
from openprior.answers import labelled, write_answers
from openprior.models.support import SupportModel
from tests.conftest import random_table

SIZES = {"estimate": 3, "b": 2, "low": 4}
SCHEMA = op.Schema.from_sizes(SIZES)
ROWS, COUNTS = random_table(SIZES, 90, 1).unique()
MODEL = SupportModel(ROWS, COUNTS.astype(float), 90.0)


def by_hand(table: pa.Table, names: list[str]) -> None:
    joint = np.zeros(tuple(SIZES.values()))
    np.add.at(joint, tuple(c.astype(int) for c in ROWS.columns), COUNTS)
    for row in table.to_pylist():
        index = [slice(None)] * 3
        for name, shown in names:
            index[list(SIZES).index(name)] = int(row[shown])
        np.testing.assert_allclose(row["estimate"], joint[tuple(index)].sum())


def test_columns_come_as_asked_and_clashing_names_are_kept_apart() -> None:
    table = labelled(MODEL, SCHEMA, ["low", "estimate"])
    shown = ["low (column)", "estimate (column)", "estimate", "standard_error", "low", "high"]
    assert table.column_names == shown
    assert table.num_rows == 12
    by_hand(table, [("low", "low (column)"), ("estimate", "estimate (column)")])
    by_hand(labelled(MODEL, SCHEMA, ["b"]), [("b", "b")])
    assert table["standard_error"].null_count == 12


def test_the_file_has_labels_in_the_order_of_its_cells(tmp_path: Path) -> None:
    work = op.all_marginals(2).on(SCHEMA.domain)
    write_answers(MODEL, SCHEMA, work, tmp_path / "answers.parquet")
    table = parquet.read_table(tmp_path / "answers.parquet")
    assert table.num_rows == work.cells
    for row in table.to_pylist():
        names = row["marginal"].split(" × ")
        codes = [int(v) for v in row["values"]]
        assert row["cell"] == np.ravel_multi_index(codes, [SIZES[n] for n in names])
        marginal = tuple(names)
        np.testing.assert_allclose(row["estimate"], MODEL.answers([marginal])[marginal][row["cell"]])
