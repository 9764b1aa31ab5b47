"""The classifier of the quality measures: what it must learn, what it must not, awkward tables, and threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openprior.evaluation.classifier import Task, class_probabilities
from openprior.evaluation.propensity import auc

Columns = list[np.ndarray]


def uniform(sizes: list[int], rows: int, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, s, rows) for s in sizes]


def flip(truth: np.ndarray, share: float, seed: int) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(truth)) < share, 1 - truth, truth)


def learn(
    sizes: list[int], train: Columns, target: np.ndarray, judged: Columns, classes: int = 2
) -> np.ndarray:
    return class_probabilities([Task(train, sizes, target, classes, judged)])[0]


def test_three_columns_that_matter_only_together() -> None:
    sizes = [2, 2, 2, 5, 9]
    train, test = uniform(sizes, 3000, 1), uniform(sizes, 2000, 2)
    guess = learn(sizes, train, flip(train[0] ^ train[1] ^ train[2], 0.1, 3), test)[:, 1] > 0.5
    assert np.mean(guess == (test[0] ^ test[1] ^ test[2])) > 0.97


@pytest.mark.parametrize(("size", "rows"), [(11, 4000), (60, 20_000)])
def test_codes_without_an_order_and_calibration(size: int, rows: int) -> None:
    # Chances in no order, few codes or many; each must be found within the noise of its ~330 rows.
    chance = np.random.default_rng(4).uniform(0.1, 0.9, size)
    sizes = [size, 7]
    train, test = uniform(sizes, rows, 5), uniform(sizes, rows, 7)
    target = (np.random.default_rng(6).random(rows) < chance[train[0]]).astype(int)
    found = learn(sizes, train, target, [np.arange(size), np.arange(size) % 7])[:, 1]
    assert np.corrcoef(found, chance)[0, 1] > 0.97
    assert np.mean((found - chance) ** 2) < 0.003
    p = learn(sizes, train, target, test)[:, 1]
    truth = np.random.default_rng(8).random(rows) < chance[test[0]]
    for low, high in ((0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        inside = (p >= low) & (p < high)
        assert inside.sum() > rows / 20
        assert truth[inside].mean() == pytest.approx(
            p[inside].mean(), abs=0.06
        )  # drawn towards the middle by the ridge


def test_noise_teaches_next_to_nothing() -> None:
    sizes = [2, 3, 10, 50, 200]
    train, test = uniform(sizes, 4000, 1), uniform(sizes, 4000, 2)
    rng = np.random.default_rng(3)
    p = learn(sizes, train, rng.integers(0, 2, 4000), test)[:, 1]
    assert auc(p, rng.random(4000) < 0.5) == pytest.approx(0.5, abs=0.04)
    assert p.var() < 0.006  # 0.046 with scikit-learn's own settings


def test_more_classes() -> None:
    sizes = [4, 4, 6]
    train, test = uniform(sizes, 6000, 1), uniform(sizes, 3000, 2)
    noise = np.random.default_rng(3)
    target = np.where(noise.random(6000) < 0.2, noise.integers(0, 4, 6000), (train[0] + train[1]) % 4)
    p = learn(sizes, train, target, test, 4)
    assert p.shape == (3000, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    truth = (test[0] + test[1]) % 4
    assert np.mean(p.argmax(axis=1) == truth) > 0.99
    assert p[np.arange(3000), truth].mean() == pytest.approx(0.85, abs=0.05)


def test_rare_classes_do_not_run_away() -> None:
    # 20 classes, most of them rare, and little to learn: no worse than the shares of the classes alone.
    shares = np.arange(1, 21.0) ** -2 / (np.arange(1, 21.0) ** -2).sum()
    rng = np.random.default_rng(1)
    sizes = [5, 30, 12]
    train, test = uniform(sizes, 3000, 1), uniform(sizes, 3000, 2)
    target, truth = (rng.choice(20, 3000, p=shares) for _ in range(2))
    p = learn(sizes, train, target, test, 20)
    loss = -np.log(p[np.arange(3000), truth]).mean()
    assert loss < -np.log(shares[truth]).mean() + 0.3


def test_a_column_with_very_many_codes() -> None:
    rng = np.random.default_rng(1)
    wide, other = rng.integers(0, 1_000_000, 5000), rng.integers(0, 3, 5000)
    ask = [np.array([0, 650_000, 750_000, 999_999]), np.zeros(4, int)]
    p = learn([1_000_000, 3], [wide, other], (wide > 700_000).astype(int), ask)
    assert (p[:, 1] > 0.5).tolist() == [False, False, True, True]


def test_the_same_rows_give_the_same_figures_from_any_thread() -> None:
    sizes = [3, 8, 50]
    train = uniform(sizes, 1000, 1)
    target = flip((train[0] > 0).astype(int), 0.3, 2)
    task = Task(train, sizes, target, 2, train)
    other = Task(train, sizes, 1 - target, 2, train)
    alone, turned = class_probabilities([task])[0], class_probabilities([other])[0]
    assert (alone != turned).any()
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(class_probabilities, [[task, other]] * 8):
            assert (found[0] == alone).all()
            assert (found[1] == turned).all()


def test_no_rows_one_row_one_class_and_a_class_that_is_absent() -> None:
    nothing = learn([2], [np.zeros(0, int)], np.zeros(0, int), [np.array([0, 1])], 3)
    np.testing.assert_allclose(nothing, 1 / 3)
    single = learn([2, 300], [np.array([1]), np.array([299])], np.array([1]), [np.array([0]), np.array([5])])
    assert single[0, 1] > 0.5
    constant = learn([1], [np.zeros(50, int)], np.zeros(50, int), [np.zeros(2, int)])
    assert (constant[:, 0] > 0.95).all()
    np.testing.assert_allclose(learn([1], [np.zeros(50, int)], np.arange(50) % 2, [np.zeros(2, int)]), 0.5)
    column = np.arange(900) % 3
    p = learn([3], [column], np.array([0, 2, 3])[column], [np.arange(3)], 4)
    assert (p[:, 1] < 0.01).all()
    assert (p[:, 1] > 0).all()
    assert p.argmax(axis=1).tolist() == [0, 2, 3]
    assert learn([3], [column], column, [np.zeros(0, int)], 3).shape == (0, 3)


@pytest.mark.parametrize("size", [5, 300])
def test_codes_first_met_after_fitting(size: int) -> None:
    train = [np.arange(400) % 2]
    p = learn([size], train, train[0], [np.array([0, 1, 4])])
    assert np.isfinite(p).all()
    assert p[0, 0] > 0.9
    assert p[1, 1] > 0.9
