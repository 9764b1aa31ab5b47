"""What a noisy one-way marginal says about its column."""

import numpy as np
import pytest

from openprior.models.tilted.column_reading import read_column

N = 1000.0
SMOOTH = np.exp(-0.5 * ((np.arange(90) - 35) / 14) ** 2)
RARE = np.where(np.arange(60) % 20 == 0, 300.0, 1.0)
EVEN = np.full(40, 1.0)
JAGGED = np.random.default_rng(1).gamma(0.8, 1.0, 30)


def counts(shape: np.ndarray) -> np.ndarray:
    return shape * (N / shape.sum())


def in_part(noisy: np.ndarray) -> np.ndarray:
    """The closest counts that are not negative and sum to N: what is made of noisy counts without any thought."""
    descending = np.sort(noisy)[::-1]
    excess = (np.cumsum(descending) - N) / np.arange(1, len(noisy) + 1)
    return np.maximum(noisy - excess[np.nonzero(descending > excess)[0][-1]], 0)


@pytest.mark.parametrize("shape", [SMOOTH, RARE, EVEN, JAGGED], ids=["smooth", "rare", "even", "jagged"])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 30.0, 500.0, 1e5])
def test_counts_are_positive_and_sum_to_the_total(shape: np.ndarray, sigma: float) -> None:
    noisy = counts(shape) + np.random.default_rng(0).normal(0, sigma, len(shape))
    found = read_column(noisy, sigma, N).counts
    assert found.shape == shape.shape
    assert (found > 0).all()
    assert found.sum() == pytest.approx(N)


@pytest.mark.parametrize("shape", [SMOOTH, RARE, EVEN, JAGGED], ids=["smooth", "rare", "even", "jagged"])
def test_without_noise_the_counts_are_what_was_measured(shape: np.ndarray) -> None:
    x = counts(shape)
    assert np.abs(read_column(x, 0.02, N).counts - x).sum() < 0.01 * N


@pytest.mark.parametrize(
    ("shape", "at_most"), [(SMOOTH, 0.5), (RARE, 0.75), (EVEN, 0.5), (JAGGED, 1.03)],
    ids=["smooth", "rare", "even", "jagged"],
)  # fmt: skip
def test_neighbours_and_rare_values_are_recognised_and_nothing_is_lost_where_there_are_none(
    shape: np.ndarray, at_most: float
) -> None:
    """Beside the closest counts that are possible; the mean of twenty draws of noise."""
    x, sigma, rng = counts(shape), 15.0, np.random.default_rng(2)
    read = careless = 0.0
    for _ in range(20):
        noisy = x + rng.normal(0, sigma, len(x))
        read += np.abs(read_column(noisy, sigma, N).counts - x).sum()
        careless += np.abs(in_part(noisy) - x).sum()
    assert read < at_most * careless


def test_where_noise_hides_everything_an_even_share_is_left() -> None:
    noisy = counts(RARE) + np.random.default_rng(0).normal(0, 1e4, len(RARE))
    found = read_column(noisy, 1e4, N).counts
    assert found.max() < 3 * N / len(RARE)


@pytest.mark.parametrize("size", [1, 2, 3, 5000])
def test_columns_of_any_length(size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.gamma(0.2, 1.0, size)
    x *= 1e5 / x.sum()
    found = read_column(x + rng.normal(0, 20.0, size), 20.0, 1e5).counts
    assert found.sum() == pytest.approx(1e5)
    assert np.abs(found - x).sum() < 0.5 * 1e5


def test_the_same_measurement_is_read_alike() -> None:
    noisy = counts(SMOOTH) + np.random.default_rng(3).normal(0, 10, len(SMOOTH))
    np.testing.assert_array_equal(read_column(noisy, 10.0, N).counts, read_column(noisy, 10.0, N).counts)
