"""What Tilt's rounds are made of: what a measurement leaves, independent columns, raking in another order."""

import math

import numpy as np
import pytest

from openprior.counting.cells import Cells
from openprior.counting.local import count_table
from openprior.methods.tilt import _for_columns
from openprior.models.prior.prior import uniform_prior
from openprior.models.tilted.independent import independent_prior
from openprior.models.tilted.moves import _SIDE, _pick_summed
from openprior.models.tilted.particles import Particles
from openprior.models.tilted.remainder import left_after
from openprior.models.tilted.replicates import draw_replicates
from openprior.models.tilted.tilting import Tilting
from openprior.models.tilted.trust import UNKNOWN, Trust
from openprior.privacy.fake import FakeCurator
from openprior.privacy.measurement import Measurement
from openprior.schema.domain import Domain
from openprior.tables.table import Table

DOMAIN = Domain({"a": 3, "b": 7, "c": 40})
N = 4000.0
SHARES = {
    "a": np.array([0.7, 0.3, 0.0]),
    "b": np.arange(1, 8) / 28,
    "c": np.linspace(0, 2, 40) ** 2 / (np.linspace(0, 2, 40) ** 2).sum(),
}


def singles(sigma: float) -> list[Measurement]:
    rng = np.random.default_rng(3)
    return [Measurement.of((a,), p * N + rng.normal(0, sigma, len(p)), sigma) for a, p in SHARES.items()]


def test_what_a_measurement_leaves_is_the_sum_over_cells() -> None:
    """By hand, with segments of one cell, of many more than a buffer, and with cells that hold nothing."""
    rng = np.random.default_rng(0)
    sizes = [1, 3, 5000, 1024, 2]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    answers = rng.exponential(20, offsets[-1]) * (rng.random(offsets[-1]) < 0.6)
    found = left_after(answers, offsets, sigma=12.0, trust=0.3, particle=0.25)
    for i, size in enumerate(sizes):
        mass = answers[offsets[i] : offsets[i] + size]
        spread = mass / 0.3
        variance = 144 * spread / (144 + spread) + mass * 0.25
        by_hand = math.sqrt(2 / math.pi) * math.fsum(np.sqrt(variance))
        assert found[i] == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("sigma", [2.0, 40.0])
def test_without_the_prior_columns_are_independent_and_as_measured(sigma: float) -> None:
    measured, cells = singles(sigma), Cells(DOMAIN, [("a",), ("b",), ("c",), ("a", "b")])
    tilting = Tilting(uniform_prior(DOMAIN), DOMAIN, N, 40_000, np.random.default_rng(0))
    found = cells.split(tilting.without_prior(measured, cells))
    product = np.outer(found["a",], found["b",]).reshape(-1) / N
    assert np.abs(found["a", "b"] - product).sum() < 0.03 * N
    for m in measured:
        assert np.abs(found[m.marginal] - SHARES[m.marginal[0]] * N).sum() < 0.02 * N + 1.5 * sigma * len(
            m.values
        )


def test_independent_columns_follow_what_was_measured_and_leave_others_uniform() -> None:
    prior = independent_prior(DOMAIN, N, singles(1.0)[1:])
    rows = Particles(prior.arrays, DOMAIN, N, 40_000, np.random.default_rng(0)).table
    counts = count_table(rows, [("a",), ("b",), ("c",)])
    assert prior.rows == 0
    for a, expected in (("a", np.full(3, 1 / 3)), ("b", SHARES["b"]), ("c", SHARES["c"])):
        assert np.abs(counts[a,] / 40_000 - expected).sum() < 0.03


def test_answers_in_one_vector_are_those_by_marginal_also_after_particles_are_drawn_anew() -> None:
    particles = Particles(uniform_prior(DOMAIN).arrays, DOMAIN, N, 3000, np.random.default_rng(1))
    cells = Cells(DOMAIN, [("a", "b"), ("c",), ("a", "b", "c")])
    for count in (3000, 5000, 20_000):
        particles.resample(count)
        particles.weights *= np.random.default_rng(count).uniform(0.5, 1.5, count)
        for m, part in cells.split(particles.flat(cells)).items():
            np.testing.assert_allclose(part, particles.mass(m), rtol=1e-12, atol=1e-12)


def test_replicates_depend_on_the_seed_and_not_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    tilting = Tilting(uniform_prior(DOMAIN), DOMAIN, N, 5000, np.random.default_rng(0))
    for m in singles(20.0):
        tilting.measured(m)
    tilting.fit()

    def drawn(threads: int, seed: int) -> np.ndarray:
        monkeypatch.setattr("openprior.models.tilted.replicates.workers", lambda: threads)
        blocks, rng = list(tilting._blocks.values()), np.random.default_rng(seed)
        weights = tilting.particles.weights
        return draw_replicates(weights, tilting._cells, blocks, trust=0.1, total=N, rng=rng).weights

    np.testing.assert_array_equal(drawn(1, 4), drawn(3, 4))
    assert (drawn(1, 4) != drawn(1, 5)).any()


def innovation(
    rng: np.random.Generator, cells: int, trust: float, sigma: float = 5.0
) -> tuple[np.ndarray, ...]:
    """A measurement, and what a model with errors of variance m/λ expected."""
    expected = rng.exponential(50.0, cells) + 1.0
    return expected + rng.normal(0, np.sqrt(expected / trust + sigma**2)), expected


def test_one_large_marginal_does_not_speak_for_all_others() -> None:
    """The first, of thousands of cells, shows a bad model; a dozen small ones, later, a good one."""
    rng, trust = np.random.default_rng(0), Trust(UNKNOWN)
    values, expected = innovation(rng, 20_000, 0.001)
    assert trust.hear(values, expected, 25.0) == pytest.approx(0.001, rel=0.3)
    after_one = trust.value
    assert after_one < 0.01
    for _ in range(12):
        values, expected = innovation(rng, 33, 0.5)
        assert 0.1 < trust.hear(values, expected, 25.0) < 2.0
    assert trust.value > 0.1 > 10 * after_one


def test_noise_that_hides_everything_says_nothing_of_trust() -> None:
    rng, trust = np.random.default_rng(1), Trust(0.3)
    before = trust.value
    for _ in range(10):
        values, expected = innovation(rng, 200, 0.3, sigma=1e5)
        trust.hear(values, expected, 1e10)
    assert trust.value == pytest.approx(before, rel=0.3)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 48, 501])
def test_values_picked_by_sums_are_those_of_their_weights(size: int) -> None:
    """Every u falls to the value that it lies within, and none, however it is rounded, to one without weight."""
    rng = np.random.default_rng(size)
    weights = rng.exponential(1.0, size) * (rng.random(size) < 0.7)
    weights[0], weights[max(1, size - 20) :] = 1.0, 0.0
    sums = np.array([weights[s : s + _SIDE].sum() for s in range(0, size, _SIDE)])
    ends = np.cumsum(weights)
    for u in rng.random(200) * ends[-1]:
        assert _pick_summed(weights, sums, size, u) == np.searchsorted(ends, u, side="right")
    assert weights[_pick_summed(weights, sums, size, ends[-1] * (1 + 1e-9))] > 0


@pytest.mark.parametrize(("epsilon", "share"), [(10.0, 0.1), (0.001, 0.4)])
def test_long_columns_get_more_of_what_columns_get(epsilon: float, share: float) -> None:
    """By the root of their values; a tenth of the budget where noise is small, four where it is large."""
    rows = np.random.default_rng(0).integers(0, 3, (3, 4000))
    curator = FakeCurator(Table(DOMAIN, tuple(rows)), epsilon=epsilon)
    shares = _for_columns(curator, [("a",), ("b",), ("c",)], N)
    assert sum(shares.values()) == pytest.approx(share * curator.remaining)
    assert shares["c",] / shares["a",] == pytest.approx(math.sqrt(40 / 3))
    assert shares["b",] / shares["a",] == pytest.approx(math.sqrt(7 / 3))
