"""Learning without a public table: exactly at first, then by particles that go on from there."""

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.models.graphical.estimation import estimate
from openprior.models.prior.graphical_prior import graphical_prior
from openprior.models.tilted.exact_tilting import ExactTilting
from openprior.models.tilted.particles import Particles
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table

DOMAIN = Domain({"a": 3, "b": 4, "c": 5, "d": 2, "e": 6})
N = 4000.0
ALL: list[Marginal] = [("a",), ("b",), ("c",), ("d",), ("e",), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


@pytest.fixture(scope="module")
def rows() -> Table:
    """A chain: every column follows from the one before, most of the time."""
    rng = np.random.default_rng(0)
    columns, before = [], rng.integers(0, 3, int(N))
    for size in DOMAIN.shape:
        own = np.where(rng.random(int(N)) < 0.7, before % size, rng.integers(0, size, int(N)))
        columns.append(own.astype(np.uint8))
        before = own
    return Table(DOMAIN, tuple(columns))


def measured(rows: Table, marginals: list[Marginal], sigma: float, seed: int = 0) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    truth = count_table(rows, marginals)
    return [Measurement.of(m, truth[m] + rng.normal(0, sigma, len(truth[m])), sigma) for m in marginals]


def learnt(rows: Table, sigma: float, most_cells: float = 1e6) -> ExactTilting:
    exact = ExactTilting(DOMAIN, N, most_cells, np.random.default_rng(0))
    for m in measured(rows, ALL, sigma):
        exact.measured(m)
        exact.fit()
    return exact


def distance(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).sum()) / N


def test_draws_from_a_graphical_model_as_a_prior_follow_it_in_every_clique(rows: Table) -> None:
    model = estimate(DOMAIN, measured(rows, [("a", "b", "c"), ("c", "d"), ("d", "e")], 5.0), N)
    prior = graphical_prior(model)
    assert prior.rows == 0
    drawn = Particles(prior.arrays, DOMAIN, N, 200_000, np.random.default_rng(1))
    for m in (("a", "b", "c"), ("c", "d"), ("d", "e"), ("a", "e"), ("b", "d")):
        assert distance(drawn.mass(m), model.answers([m])[m]) < 0.02


def test_separate_trees_become_one_prior(rows: Table) -> None:
    model = estimate(DOMAIN, measured(rows, [("a", "b"), ("d", "e")], 5.0), N)
    drawn = Particles(graphical_prior(model).arrays, DOMAIN, N, 200_000, np.random.default_rng(1))
    np.testing.assert_allclose(drawn.mass(("c",)), N / 5, rtol=0.05)
    assert distance(drawn.mass(("a", "b")), model.answers([("a", "b")])["a", "b"]) < 0.02


def test_little_noise_is_met_and_much_is_not(rows: Table) -> None:
    truth = count_table(rows, ALL)
    sharp, blunt = learnt(rows, 1.0), learnt(rows, 150.0)
    assert max(distance(sharp.mass(m), truth[m]) for m in ALL) < 0.02
    raw = {m.marginal: m.values for m in measured(rows, ALL, 150.0)}
    pairs = [m for m in ALL if len(m) == 2]
    assert np.mean([distance(blunt.mass(m), truth[m]) for m in pairs]) < 0.85 * np.mean(
        [distance(np.maximum(raw[m], 0), truth[m]) for m in pairs]
    )


def test_measurements_of_one_marginal_are_merged(rows: Table) -> None:
    truth = count_table(rows, [("a", "b")])["a", "b"]
    once, often = (ExactTilting(DOMAIN, N, 1e6, np.random.default_rng(0)) for _ in range(2))
    for seed in range(9):
        for tilting in (once, often) if seed == 0 else (often,):
            for m in measured(rows, [("a",), ("b",), ("a", "b")], 60.0, seed):
                tilting.measured(m)
            tilting.fit()
    assert distance(often.mass(("a", "b")), truth) < 0.7 * distance(once.mass(("a", "b")), truth)


def test_particles_go_on_from_where_the_exact_model_was(rows: Table) -> None:
    exact = learnt(rows, 20.0)
    cells = Cells(DOMAIN, [*ALL, ("a", "c"), ("a", "b", "c")])
    before = cells.split(exact.flat(cells))
    tilting = exact.over(100_000)
    after = cells.split(tilting.flat(cells))
    assert max(distance(after[m], before[m]) for m in before) < 0.03
    assert tilting.trust == exact.trust


def test_what_was_measured_is_held_while_particles_learn_something_else(rows: Table) -> None:
    exact = learnt(rows, 20.0)
    known = {m: exact.mass(m) for m in ALL}
    tilting = exact.over(50_000)
    for m in measured(rows, [("a", "c", "e")], 5.0):
        tilting.measured(m)
    tilting.fit()
    truth = count_table(rows, [("a", "c", "e")])["a", "c", "e"]
    assert distance(tilting.mass(("a", "c", "e")), truth) < 0.08
    assert max(distance(tilting.mass(m), x) for m, x in known.items()) < 0.06


def test_room_is_what_the_cliques_may_still_grow_to(rows: Table) -> None:
    exact = learnt(rows, 20.0, most_cells=100)
    assert exact.has_room(("a", "b"))
    assert exact.has_room(("d",))
    assert not exact.has_room(("a", "b", "c", "d", "e"))
