"""Answers as tables: the order asked for, names that clash, and the file of a release."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import openprior as op
from openprior.errors import OpenPriorWarning
from openprior.models.support import SupportModel
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import CellCount, Total
from openprior.releases import answers_file
from openprior.releases.answer_digits import rounded_numbers
from openprior.releases.answers import labelled
from openprior.releases.answers_file import all_answers, write_answers
from openprior.releases.measurements import Measurements
from openprior.releases.which_answers import answered_marginals, answers_written
from tests.conftest import random_table

SIZES = {"estimate": 3, "b": 2, "low": 4}
SCHEMA = op.Schema.from_sizes(SIZES)
ROWS, COUNTS = random_table(SIZES, 90, 1).unique()
MODEL = SupportModel(ROWS, COUNTS.astype(float), 90.0)
NOTHING = Measurements(SCHEMA.full_domain, [])


def by_hand(table: pa.Table, names: list[str]) -> None:
    joint = np.zeros(tuple(SIZES.values()))
    np.add.at(joint, tuple(c.astype(int) for c in ROWS.columns), COUNTS)
    for row in table.to_pylist():
        index = [slice(None)] * 3
        for name, shown in names:
            index[list(SIZES).index(name)] = int(row[shown])
        np.testing.assert_allclose(row["estimate"], joint[tuple(index)].sum())


def test_columns_come_as_asked_and_clashing_names_are_kept_apart() -> None:
    table = labelled(MODEL, SCHEMA, NOTHING, ["low", "estimate"])
    shown = ["low (column)", "estimate (column)", "estimate", "standard_error", "low", "high", "basis"]
    assert table.column_names == shown
    assert table.num_rows == 12
    by_hand(table, [("low", "low (column)"), ("estimate", "estimate (column)")])
    by_hand(labelled(MODEL, SCHEMA, NOTHING, ["b"]), [("b", "b")])
    assert labelled(MODEL, SCHEMA, NOTHING, "low,estimate").equals(table)
    assert table["standard_error"].null_count == 12
    assert set(table["basis"].to_pylist()) == {"none"}


def test_the_file_has_labels_in_the_order_of_its_cells(tmp_path: Path) -> None:
    work = op.all_marginals(2).on(SCHEMA.domain)
    write_answers(MODEL, SCHEMA, NOTHING, work.marginals, tmp_path / "answers.parquet")
    table = parquet.read_table(tmp_path / "answers.parquet")
    assert table.num_rows == work.cells
    for row in table.to_pylist():
        names = row["marginal"].split(" × ")
        codes = [int(row[f"value_{i}"]) for i in range(1, len(names) + 1)]
        assert row["cell"] == np.ravel_multi_index(codes, [SIZES[n] for n in names])
        marginal = tuple(names)
        np.testing.assert_allclose(row["estimate"], MODEL.answers([marginal])[marginal][row["cell"]])


def test_what_was_measured_has_intervals_and_the_rest_says_why_not() -> None:
    values = np.arange(6, dtype=float) * 10
    known = Measurements(
        SCHEMA.full_domain,
        [
            Measurement.of(("estimate", "b"), values, 2.0),
            Measurement(CellCount(("low",), 3), np.array([7.0]), 1.0),
        ],
    )
    # The measured values by hand: sums of two cells for the first column, one cell for "low".
    table = labelled(MODEL, SCHEMA, known, ["estimate"])
    assert set(table["basis"].to_pylist()) == {"measured"}
    np.testing.assert_allclose(table["standard_error"], np.sqrt(8))
    reach = 1.959964 * np.sqrt(8) + 0.5
    np.testing.assert_allclose(table["low"], np.maximum([10 - reach, 50 - reach, 90 - reach], 0), rtol=1e-6)
    np.testing.assert_allclose(table["high"], [10 + reach, 50 + reach, 90 + reach], rtol=1e-6)
    low = labelled(MODEL, SCHEMA, known, ["low"])
    assert low["basis"].to_pylist() == ["none"] * 3 + ["measured"]
    assert low["low"].to_pylist()[:3] == [None] * 3
    pair = labelled(MODEL, SCHEMA, known, ["low", "estimate"])
    assert set(pair["basis"].to_pylist()) == {"none"}
    flipped = labelled(MODEL, SCHEMA, known, ["b", "estimate"])
    straight = labelled(MODEL, SCHEMA, known, ["estimate", "b"])
    by_label = {(r["estimate (column)"], r["b"]): r["high"] for r in straight.to_pylist()}
    assert all(by_label[r["estimate (column)"], r["b"]] == r["high"] for r in flipped.to_pylist())


def test_parts_of_any_size_give_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marginals = (("estimate",), ("estimate", "b", "low"), ("b", "low"))
    tables = []
    for cells, most in ((1 << 19, 1024), (5, 1024), (100, 1)):
        monkeypatch.setattr(answers_file, "_CELLS", cells)
        monkeypatch.setattr(answers_file, "_MARGINALS", most)
        path = tmp_path / f"{cells}.parquet"
        write_answers(MODEL, SCHEMA, NOTHING, marginals, path)
        tables.append(parquet.read_table(path).to_pylist())
        long = all_answers(MODEL, SCHEMA, NOTHING, marginals)
        assert [row["cell"] for row in long.to_pylist()] == [row["cell"] for row in tables[0]]
    assert tables[0] == tables[1] == tables[2] and len(tables[0]) == 3 + 24 + 8
    write_answers(MODEL, SCHEMA, NOTHING, (), tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().startswith('"marginal","query","cell","estimate"')
    write_answers(MODEL, SCHEMA, NOTHING, (), tmp_path / "none.parquet")
    assert parquet.read_table(tmp_path / "none.parquet").num_rows == 0


def test_what_was_measured_is_found_by_its_columns() -> None:
    items = [
        Measurement.of(("estimate", "b"), np.zeros(6), 2.0),
        Measurement(CellCount(("b", "low"), 3), np.array([7.0]), 1.0),
        Measurement(Total(), np.array([90.0]), 1.0),
    ]
    known = Measurements(SCHEMA.full_domain, items)
    about = {
        m: [c.item for c in known.about(m)] for m in ((), ("b",), ("estimate", "b"), ("b", "low"), ("low",))
    }
    assert about == {
        (): [items[0], items[2]],
        ("b",): [items[0]],  # a cell of a pair says nothing of a sum
        ("estimate", "b"): [items[0]],
        ("b", "low"): [items[1]],
        ("low",): [],
    }
    work = op.all_marginals(1).on(SCHEMA.domain)
    asked = answered_marginals("measured", MODEL, known, work)
    assert asked == (("estimate",), ("b",), ("estimate", "b"), ("b", "low"))
    assert answered_marginals("workload", MODEL, known, work) == work.marginals


def test_numbers_are_written_as_finely_as_they_say_anything() -> None:
    rng = np.random.default_rng(1)
    estimate, error = np.exp(rng.normal(0, 6, 10_000)), np.exp(rng.normal(0, 3, 10_000))
    error[::7], low = np.nan, np.full(10_000, np.nan)
    error[1::7] = 0.0
    found, spread, none, _, _ = rounded_numbers(estimate, error, low, low, np.zeros(10_000, np.int8))
    off = np.abs(found - estimate)
    assert (off <= 1 / 128).all() and (off <= estimate / 128).all() and np.isnan(none).all()
    known = error > 0
    assert (off[known] <= error[known] / 128).all()
    assert (np.abs(spread - error)[known] <= error[known] / 128).all() and (spread[1::7] == 0).all()
    assert abs((found - estimate).sum()) < 1, "rounded up as often as down"
    assert off.max() > 1e-3, "and rounded at all"


def test_a_workload_of_too_many_cells_is_written_as_far_as_it_was_measured() -> None:
    many = op.all_marginals(3).on(op.Schema.from_sizes(dict.fromkeys("abcd", 200)).domain)
    with pytest.warns(OpenPriorWarning, match='32,000,000 cells.*answers="workload" writes all'):
        assert answers_written(None, many) == "measured"
    assert answers_written("workload", many) == "workload"
