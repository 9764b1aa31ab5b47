"""Rows in parts: together the rows that were rounded once, each part by itself, whoever draws it and when."""

import numpy as np
import pytest

from openprior.counting.local import count_table
from openprior.models.base import Model
from openprior.models.graphical.estimation import Estimator
from openprior.models.grouped import Group, GroupedModel
from openprior.models.parts import split_rows
from openprior.models.rounded_rows import rounded_rows
from openprior.models.support import SupportModel
from openprior.models.tilted.replicates import Replicates
from openprior.models.tilted.tilted_model import Diagnostics, TiltedModel
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain
from openprior.tables.table import join
from tests.conftest import random_table

SIZES = {"a": 3, "b": 4, "c": 2}
ROWS = random_table(SIZES, 60, 1)
WEIGHTS = np.random.default_rng(2).gamma(1.0, size=60)
PAIRS = (("a", "b"), ("b", "c"))


def tilted() -> TiltedModel:
    none = Replicates(np.zeros((2, 3), np.int32), np.ones((2, 3), np.float32))
    return TiltedModel(ROWS, WEIGHTS, 1000.0, PAIRS, none, Diagnostics(1.0, 60, {}, (1.0, 0.0, 0.0)))


def grouped() -> GroupedModel:
    domain = Domain({"g": 2, **SIZES})
    groups = [Group((0,), ROWS, WEIGHTS, 300.0), Group((1,), ROWS, WEIGHTS[::-1].copy(), 700.0)]
    return GroupedModel(domain, ("g",), groups, PAIRS)


def graphical() -> Model:
    counts = count_table(ROWS, [("a", "b")])["a", "b"].astype(float)
    return Estimator(ROWS.domain, 60.0).fit([Measurement.of(("a", "b"), counts, 1.0)])


MODELS = {
    "support": lambda: SupportModel(ROWS, WEIGHTS, 1000.0),
    "tilted": tilted,
    "grouped": grouped,
    "graphical": graphical,
}


@pytest.mark.parametrize("kind", MODELS)
def test_parts_are_all_rows_and_the_same_in_any_order(kind: str) -> None:
    model = MODELS[kind]()
    draws = model.sample_parts(1003, 4, np.random.default_rng(5))
    again = model.sample_parts(1003, 4, np.random.default_rng(5))
    tables = {i: draws[i]() for i in (2, 0, 3, 1)}
    assert [tables[i].n for i in range(4)] == [251, 251, 251, 250]
    for i in range(4):
        for other in (again[i](), draws[i]()):
            for mine, theirs in zip(tables[i].columns, other.columns, strict=True):
                np.testing.assert_array_equal(mine, theirs)
    whole = join([tables[i] for i in range(4)])
    counts = count_table(whole, [("a", "b")])["a", "b"]
    wanted = model.answers([("a", "b")])["a", "b"]
    # Rounded rows of any model are off by a few rows, where independent ones would be by √80.
    assert np.abs(counts - wanted * (1003 / wanted.sum())).max() < 8


def test_every_part_is_spread_over_all_rows() -> None:
    counts = np.random.default_rng(0).integers(0, 50, 60)
    parts = [draw() for draw in split_rows(ROWS, counts, 3, np.random.default_rng(1))]
    whole = ROWS.take(np.repeat(np.arange(60), counts))
    for marginal, wanted in count_table(whole, [("a",), ("a", "b", "c")]).items():
        mine = [count_table(part, [marginal])[marginal] for part in parts]
        np.testing.assert_array_equal(sum(mine), wanted)
        if len(marginal) == 3:  # a whole row comes as often in each part, up to one
            assert max(np.ptp(np.stack(mine), axis=0)) <= 1


@pytest.mark.parametrize("rows", [1, 7, 60, 1003, 1_000_000])
def test_rounding_many_rows_is_no_worse_than_few(rows: int) -> None:
    table, counts = rounded_rows(ROWS, WEIGHTS, rows, PAIRS, np.random.default_rng(3), effort=1e7)
    assert counts.sum() == rows and counts.min() > 0
    exact = WEIGHTS * (rows / WEIGHTS.sum())
    for pair in PAIRS:
        goal = np.zeros((SIZES[pair[0]], SIZES[pair[1]]))
        np.add.at(goal, (ROWS.column(pair[0]), ROWS.column(pair[1])), exact)
        found = np.zeros_like(goal)
        np.add.at(found, (table.column(pair[0]), table.column(pair[1])), counts)
        assert np.abs(found - goal).max() < 4


def test_nothing_is_left_where_weights_are_whole() -> None:
    table, counts = rounded_rows(ROWS, np.ones(60), 120, PAIRS, np.random.default_rng(3), effort=1e7)
    assert table.n == 60 and (counts == 2).all()
