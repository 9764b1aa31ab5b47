"""Rows by exchange: closer to the targets than rounding, and always particles."""

import numpy as np
import pytest

import openprior.models.row_search as row_search
import openprior.models.rows as rows_module
from openprior.counting.local import RowCounter, count_table
from openprior.models.rows import choose_rows
from openprior.models.support import SupportModel
from openprior.questions.workload import Marginal, all_marginals
from openprior.schema.domain import Domain
from openprior.tables.table import Table
from tests.conftest import random_table

SIZES = {"a": 3, "b": 2, "c": 5, "d": 4, "e": 3}
Targets = dict[Marginal, np.ndarray]


def problem(seed: int = 0, particles: int = 900, k: int = 3) -> tuple[Table, np.ndarray, Targets]:
    table = random_table(SIZES, particles, seed)
    weights = np.random.default_rng(seed).gamma(0.5, size=table.n)
    marginals = all_marginals(k).on(table.domain).marginals
    return table, weights, SupportModel(table, weights, 777.0).answers(marginals)


def discrepancy(rows: Table, targets: Targets) -> float:
    counts = count_table(rows, list(targets))
    return sum(float(np.abs(counts[m] - t * (rows.n / t.sum())).sum()) for m, t in targets.items())


def as_set(table: Table) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in table.columns), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_discrepancy_falls(seed: int, k: int) -> None:
    table, weights, targets = problem(seed, k=k)
    found = []
    for effort in (0.0, 1e4, 1e5, 1e6, 1e7):
        rows = choose_rows(table, weights, 200, targets, np.random.default_rng(seed), effort=effort)
        assert rows.n == 200
        found.append(discrepancy(rows, targets))
    assert max(found[1:]) < found[0]
    assert found[-1] < 0.6 * found[0]


def test_rows_that_can_be_had_exactly_are_nearly_found() -> None:
    table = random_table(SIZES, 100, 5)
    targets: Targets = {m: c * 3.5 for m, c in count_table(table, [("a", "b"), ("c",), ("d", "e")]).items()}
    rows = choose_rows(table, np.ones(100), 100, targets, np.random.default_rng(0), effort=1e7)
    drawn = choose_rows(table, np.random.default_rng(1).random(100), 100, targets, np.random.default_rng(0))
    assert discrepancy(rows, targets) == 0.0
    assert discrepancy(drawn, targets) < 8.0


def test_all_rows_are_particles_with_positive_weight() -> None:
    table, weights, targets = problem()
    weights[::2] = 0.0
    rows = choose_rows(table, weights, 3000, targets, np.random.default_rng(0), effort=1e7)
    assert rows.n == 3000
    assert as_set(rows) <= as_set(table.take(weights > 0))


def test_the_seed_decides() -> None:
    table, weights, targets = problem()
    first, second, other = (
        choose_rows(table, weights, 150, targets, np.random.default_rng(seed), effort=1e6)
        for seed in (4, 4, 5)
    )
    assert all((a == b).all() for a, b in zip(first.columns, second.columns, strict=True))
    assert any((a != b).any() for a, b in zip(first.columns, other.columns, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_neither_threads_nor_a_given_counter_matter(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    table, weights, targets = problem()
    plain = choose_rows(table, weights, 400, targets, np.random.default_rng(4))
    monkeypatch.setattr(row_search, "_SMALL", 0)
    monkeypatch.setattr(row_search, "workers", lambda: threads)
    counter = RowCounter(table, targets)
    other = choose_rows(table, weights, 400, targets, np.random.default_rng(4), counter=counter)
    assert all((a == b).all() for a, b in zip(plain.columns, other.columns, strict=True))


def test_what_is_small_beside_the_doubt_is_left_as_it_is() -> None:
    table, weights, targets = problem()
    found = {}
    for doubt in (0.0, 1.0, 100.0):
        rows = choose_rows(table, weights, 200, targets, np.random.default_rng(0), doubt=doubt)
        found[doubt] = discrepancy(rows, targets) / 200 / len(targets)
    assert found[0.0] < found[1.0] <= 0.1 < found[100.0]


@pytest.mark.parametrize("rows", [0, 1, 7, 200, 100_000])
def test_rounding_keeps_every_share_within_one_row(rows: int) -> None:
    table, weights, _ = problem()
    places, mass = rows_module._merge(table, weights)
    expected = mass * (rows / mass.sum())
    total = np.zeros(len(mass))
    for seed in range(40):
        counts = rows_module._rounded(table.take(places), mass, rows, np.random.default_rng(seed))
        assert counts.sum() == rows
        assert np.abs(counts - expected).max() < 1 + 1e-6
        total += counts
    assert abs(float(((total / 40 - expected) * np.sign(expected % 1 - 0.5)).mean())) < 0.03


def test_many_more_rows_than_particles() -> None:
    table, weights, targets = problem()
    rows = choose_rows(table, weights, 1_000_000, targets, np.random.default_rng(0))
    assert rows.n == 1_000_000
    assert discrepancy(rows, targets) / rows.n / len(targets) < 1e-3


@pytest.mark.parametrize("rows", [0, 1, 2, 1000])
@pytest.mark.parametrize("particles", [1, 2, 60])
def test_few_rows_and_few_particles(rows: int, particles: int) -> None:
    table, weights, targets = problem(particles=particles)
    chosen = choose_rows(table, weights, rows, targets, np.random.default_rng(0), effort=1e6)
    assert chosen.n == rows
    assert as_set(chosen) <= as_set(table)


def test_without_targets_the_weights_decide() -> None:
    table, weights, _ = problem()
    useless = {("a",): np.zeros(3)}
    for targets in ({}, useless):
        rows = choose_rows(table, weights, 500, targets, np.random.default_rng(0))
        share = np.bincount(table.column("a"), weights, 3) / weights.sum()
        np.testing.assert_allclose(np.bincount(rows.column("a"), minlength=3) / 500, share, atol=0.1)


def test_too_many_cells_leave_some_marginals_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table, weights, targets = problem()
    monkeypatch.setattr(rows_module, "_MOST_CELLS", 60)
    kept = rows_module._fitting(table.domain, targets, np.random.default_rng(0))
    assert 0 < len(kept) < len(targets)
    assert sum(map(len, kept.values())) <= 60
    rows = choose_rows(table, weights, 100, targets, np.random.default_rng(0), effort=1e6)
    assert rows.n == 100


def test_wide_columns_and_single_values() -> None:
    rng = np.random.default_rng(0)
    domain = Domain({"one": 1, "wide": 70_000, "two": 2})
    table = Table(domain, (np.zeros(400, int), rng.integers(0, 70_000, 400), rng.integers(0, 2, 400)))
    targets = {("one", "two"): np.array([3.0, 1.0]), ("wide",): np.ones(70_000)}
    rows = choose_rows(table, np.ones(400), 80, targets, rng, effort=1e6)
    assert abs(int(np.sum(rows.column("two") == 0)) - 60) <= 1


def test_what_makes_no_sense_is_refused() -> None:
    table, weights, targets = problem()
    rng = np.random.default_rng(0)
    for bad in (weights[:-1], np.zeros(table.n), np.full(table.n, np.nan)):
        with pytest.raises(ValueError, match="positive"):
            choose_rows(table, bad, 10, targets, rng)
    with pytest.raises(ValueError, match="a × b"):
        choose_rows(table, weights, 10, {("a", "b"): np.ones(5)}, rng)
