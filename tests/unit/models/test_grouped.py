"""Groups as one model: answers against counting by hand, rows with their keys, and what a folder keeps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.counting.cells import cell_numbers
from openprior.errors import WorkloadError
from openprior.models.base import load_model
from openprior.models.grouped import Group, GroupedModel
from openprior.models.shrink import pooled_trust, shrink
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
from tests.conftest import random_table

DOMAIN = Domain({"x": 3, "year": 2, "y": 4, "area": 5, "z": 2})
KEYS = ("year", "area")
INSIDE = Domain({"x": 3, "y": 4, "z": 2})
MARGINALS = [("x", "y"), ("z",)]
ALL = [("area",), ("year", "area"), ("x",), ("x", "area"), ("x", "year", "y", "area", "z"), ("y", "z")]


def model(totals: Sequence[float] = (40, 0, 7, 130, 23)) -> GroupedModel:
    """Some groups of some areas and years, each with its own rows and weights."""
    groups = []
    for i, total in enumerate(totals):
        rows = random_table(INSIDE.sizes(), 20 + 5 * i, seed=i)
        weights = np.random.default_rng(i).random(rows.n) + 0.01
        groups.append(Group((i % 2, i % 5), rows, weights / weights.sum(), float(total)))
    return GroupedModel(DOMAIN, KEYS, groups, MARGINALS)


def by_hand(made: GroupedModel, marginal: tuple[str, ...]) -> NDArray[np.float64]:
    counts = np.zeros([DOMAIN[a] for a in marginal])
    for group in made.groups:
        codes = dict(zip(KEYS, group.codes, strict=True))
        for r in range(group.rows.n):
            cell = tuple(codes[a] if a in codes else int(group.rows.column(a)[r]) for a in marginal)
            counts[cell] += group.weights[r] * group.total
    return counts.reshape(-1)


@pytest.mark.parametrize("marginal", ALL, ids="-".join)
def test_answers_are_weighted_counts_of_all_groups(marginal: tuple[str, ...]) -> None:
    made = model()
    np.testing.assert_allclose(made.answers([marginal])[marginal], by_hand(made, marginal), atol=1e-9)


def test_columns_may_be_named_in_any_order() -> None:
    made = model()
    (found,) = made.answers([("area", "x")])
    assert found == ("x", "area")
    with pytest.raises(WorkloadError, match="'state'"):
        made.answers([("state",)])


def test_groups_sum_to_the_whole() -> None:
    made = model()
    assert made.total == 200
    assert made.domain == DOMAIN
    whole = made.answers(ALL)
    single = [GroupedModel(DOMAIN, KEYS, [g], MARGINALS).answers(ALL) for g in made.groups]
    for marginal in ALL:
        np.testing.assert_allclose(sum(s[marginal] for s in single), whole[marginal], atol=1e-9)
        assert whole[marginal].sum() == pytest.approx(200)


def test_weights_need_not_sum_to_one() -> None:
    made = model()
    scaled = [Group(g.codes, g.rows, g.weights * (i + 3), g.total) for i, g in enumerate(made.groups)]
    again = GroupedModel(DOMAIN, KEYS, scaled, MARGINALS)
    for marginal, values in made.answers(ALL).items():
        np.testing.assert_allclose(again.answers([marginal])[marginal], values, atol=1e-9)


def sizes(rows: Table) -> dict[tuple[int, int], int]:
    pairs, counts = np.unique(
        np.stack([rows.column("year"), rows.column("area")], axis=1), axis=0, return_counts=True
    )
    return {(int(a), int(b)): int(c) for (a, b), c in zip(pairs, counts, strict=True)}


@pytest.mark.parametrize("seed", range(3))
def test_every_group_gives_as_many_rows_as_it_has(seed: int) -> None:
    made = model()
    rows = made.sample(200, np.random.default_rng(seed))
    assert rows.domain == DOMAIN
    assert sizes(rows) == {(0, 0): 40, (0, 2): 7, (1, 3): 130, (0, 4): 23}
    # A row is one of its own group's.
    for group in made.groups:
        mine = (rows.column("year") == group.codes[0]) & (rows.column("area") == group.codes[1])
        own = {tuple(r) for r in np.stack(group.rows.columns, axis=1).tolist()}
        drawn = np.stack([rows.column(a)[mine] for a in INSIDE], axis=1).tolist()
        assert {tuple(r) for r in drawn} <= own


@pytest.mark.parametrize("rows", [1, 3, 77, 1000])
def test_another_number_of_rows_is_shared_in_proportion(rows: int) -> None:
    drawn = model().sample(rows, np.random.default_rng(1))
    assert drawn.n == rows
    for group, count in sizes(drawn).items():
        share = {(0, 0): 40, (0, 2): 7, (1, 3): 130, (0, 4): 23}[group] * rows / 200
        assert abs(count - share) < 1 + 1e-9


def test_rows_meet_the_marginals_of_their_group() -> None:
    rng = np.random.default_rng(2)
    table = random_table(INSIDE.sizes(), 400, seed=9)
    weights = rng.random(400)
    made = GroupedModel(DOMAIN, KEYS, [Group((1, 2), table, weights / weights.sum(), 250.0)], MARGINALS)
    drawn = made.sample(250, rng)
    for marginal in MARGINALS:
        cells = np.ravel_multi_index([drawn.column(a) for a in marginal], [DOMAIN[a] for a in marginal])
        counts = np.bincount(cells, minlength=DOMAIN.size(marginal))
        assert np.abs(counts - made.answers([marginal])[marginal]).sum() < 12


def test_the_same_stream_gives_the_same_rows_and_rows_are_shuffled() -> None:
    first, again, other = (model().sample(200, np.random.default_rng(s)) for s in (4, 4, 5))
    for a, b in zip(first.columns, again.columns, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(first.columns, other.columns, strict=True))
    assert np.count_nonzero(np.diff(first.column("area"))) > 30


@pytest.mark.parametrize("keys", [KEYS, ()], ids=str)
def test_a_folder_keeps_everything(keys: tuple[str, ...], tmp_path: Path) -> None:
    made = model()
    if not keys:
        rows = random_table(DOMAIN.sizes(), 50, 3)
        made = GroupedModel(DOMAIN, (), [Group((), rows, np.full(50, 0.02), 90.0)], [("x", "area")])
    made.save(tmp_path)
    again = load_model(tmp_path)
    assert isinstance(again, GroupedModel)
    assert (again.keys, again.total, again.marginals) == (made.keys, made.total, made.marginals)
    assert [g.codes for g in again.groups] == [g.codes for g in made.groups]
    assert [g.total for g in again.groups] == [g.total for g in made.groups]
    for marginal, values in made.answers(ALL).items():
        np.testing.assert_allclose(again.answers([marginal])[marginal], values, atol=1e-12)
    first, second = (m.sample(60, np.random.default_rng(1)) for m in (made, again))
    for a, b in zip(first.columns, second.columns, strict=True):
        np.testing.assert_array_equal(a, b)


def test_groups_without_rows_are_left_out_but_not_all() -> None:
    assert len(model().groups) == 4
    with pytest.raises(ValueError, match="a group with rows"):
        model([0, 0])


# Weights that meet measurements as their noise deserves.


ROWS = random_table(INSIDE.sizes(), 600, seed=4)
FLAT = np.full(600, 1 / 600)


def masses(weights: NDArray[np.float64], marginal: tuple[str, ...]) -> NDArray[np.float64]:
    return np.bincount(cell_numbers(ROWS, marginal), weights=weights, minlength=INSIDE.size(marginal))


def test_cell_numbers_run_in_the_order_of_the_columns() -> None:
    wanted = np.ravel_multi_index([ROWS.column("x"), ROWS.column("z")], [3, 2])
    np.testing.assert_array_equal(cell_numbers(ROWS, ("x", "z")), wanted)


def test_exact_measurements_are_met_and_noisy_ones_ignored() -> None:
    truth = {("x",): np.array([300.0, 200.0, 100.0]), ("z",): np.array([450.0, 150.0])}
    sharp = [Measurement.of(m, v, 0.01) for m, v in truth.items()]
    bent = shrink(ROWS, FLAT, 600.0, sharp, [0.7, 0.7])
    assert bent.sum() == pytest.approx(1)
    for marginal, values in truth.items():
        np.testing.assert_allclose(masses(bent, marginal) * 600, values, atol=1.0)
    dull = [Measurement.of(m, v, 1e6) for m, v in truth.items()]
    unbent = shrink(ROWS, FLAT, 600.0, dull, [0.7, 0.7])
    np.testing.assert_allclose(unbent, FLAT, rtol=0.02)


def test_what_cannot_be_bent_stays() -> None:
    measured = [Measurement.of(("x",), np.array([-5.0, 900.0, 3.0]), 4.0)]
    np.testing.assert_allclose(shrink(ROWS, 3 * FLAT, 0.0, measured, [0.7]), FLAT)
    np.testing.assert_allclose(shrink(ROWS, 3 * FLAT, 600.0, [], []), FLAT)
    wild = shrink(ROWS, FLAT, 600.0, measured, [0.7])
    assert np.isfinite(wild).all()
    assert (wild >= 0).all()
    assert wild.sum() == pytest.approx(1)


def test_many_groups_together_tell_how_far_the_prior_is_right() -> None:
    rng = np.random.default_rng(6)
    expected = rng.uniform(20, 200, (80, 6))
    close = [(rng.normal(m, 5.0), m) for m in expected]
    far = [(rng.normal(rng.normal(m, 10 * np.sqrt(m)), 5.0), m) for m in expected]
    assert pooled_trust(far, 5.0) == pytest.approx(0.01, rel=0.5)
    assert pooled_trust(close, 5.0) > 2
    # One small group alone tells little, and is near the guess.
    assert 0.2 < pooled_trust(close[:1], 500.0) < 2
