"""Boosted trees: what they must learn, what they must not, and awkward tables."""

import numpy as np
import pytest

from openprior.evaluation.boosting import Booster
from openprior.evaluation.propensity import auc

Columns = list[np.ndarray]


def uniform(sizes: list[int], rows: int, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, s, rows) for s in sizes]


def flip(truth: np.ndarray, share: float, seed: int) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(truth)) < share, 1 - truth, truth)


def learn(sizes: list[int], columns: Columns, target: np.ndarray, classes: int = 2, **options: float):  # type: ignore[no-untyped-def]
    return Booster(**options).fit(columns, sizes, target, classes, np.random.default_rng(0))  # type: ignore[arg-type]


def test_three_columns_that_matter_only_together() -> None:
    sizes = [2, 2, 2, 5, 9]
    train, test = uniform(sizes, 3000, 1), uniform(sizes, 2000, 2)
    model = learn(sizes, train, flip(train[0] ^ train[1] ^ train[2], 0.1, 3))
    guess = model.predict_proba(test)[:, 1] > 0.5
    assert np.mean(guess == (test[0] ^ test[1] ^ test[2])) > 0.97


def test_categories_without_an_order_and_calibration() -> None:
    # 60 categories with chances in no order; the trees must find each one's within the noise of ~330 rows.
    chance = np.random.default_rng(4).uniform(0.1, 0.9, 60)
    sizes = [60, 7]
    train = uniform(sizes, 20_000, 5)
    target = (np.random.default_rng(6).random(20_000) < chance[train[0]]).astype(int)
    found = learn(sizes, train, target).predict_proba([np.arange(60), np.arange(60) % 7])[:, 1]
    assert np.corrcoef(found, chance)[0, 1] > 0.97
    assert np.mean((found - chance) ** 2) < 0.003
    test = uniform(sizes, 20_000, 7)
    p = learn(sizes, train, target).predict_proba(test)[:, 1]
    truth = np.random.default_rng(8).random(20_000) < chance[test[0]]
    for low, high in ((0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        inside = (p >= low) & (p < high)
        assert inside.sum() > 1000
        assert truth[inside].mean() == pytest.approx(p[inside].mean(), abs=0.03)


def test_noise_teaches_nothing() -> None:
    sizes = [2, 3, 10, 50, 200]
    train, test = uniform(sizes, 4000, 1), uniform(sizes, 4000, 2)
    rng = np.random.default_rng(3)
    p = learn(sizes, train, rng.integers(0, 2, 4000)).predict_proba(test)[:, 1]
    assert auc(p, rng.random(4000) < 0.5) == pytest.approx(0.5, abs=0.04)
    assert p.var() < 0.0025  # 0.009 if branches stay whatever they gain


def test_more_classes() -> None:
    sizes = [4, 4, 6]
    train, test = uniform(sizes, 6000, 1), uniform(sizes, 3000, 2)
    noise = np.random.default_rng(3)
    target = np.where(noise.random(6000) < 0.2, noise.integers(0, 4, 6000), (train[0] + train[1]) % 4)
    p = learn(sizes, train, target, 4).predict_proba(test)
    assert p.shape == (3000, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    truth = (test[0] + test[1]) % 4
    assert np.mean(p.argmax(axis=1) == truth) > 0.99
    assert p[np.arange(3000), truth].mean() == pytest.approx(0.85, abs=0.05)


def test_a_column_with_many_codes_is_cut_into_runs() -> None:
    rng = np.random.default_rng(1)
    wide, other = rng.integers(0, 1_000_000, 5000), rng.integers(0, 3, 5000)
    target = (wide > 700_000).astype(int)
    model = learn([1_000_000, 3], [wide, other], target)
    ask = np.array([0, 650_000, 750_000, 999_999])
    assert (model.predict_proba([ask, np.zeros(4, int)])[:, 1] > 0.5).tolist() == [False, False, True, True]


def test_the_same_seed_gives_the_same_model() -> None:
    sizes = [3, 8, 5]
    train = uniform(sizes, 1000, 1)
    target = flip((train[0] > 0).astype(int), 0.3, 2)
    first, again = (learn(sizes, train, target).predict_proba(train) for _ in range(2))
    assert (first == again).all()
    other = Booster().fit(train, sizes, target, 2, np.random.default_rng(1)).predict_proba(train)
    assert (first != other).any()


def test_no_rows_one_row_one_class_and_a_class_that_is_absent() -> None:
    nothing = learn([2], [np.zeros(0, int)], np.zeros(0, int), 3).predict_proba([np.array([0, 1])])
    np.testing.assert_allclose(nothing, 1 / 3)
    single = learn([2, 300], [np.array([1]), np.array([299])], np.array([1])).predict_proba(
        [np.array([0]), np.array([5])]
    )
    assert single[0, 1] > 0.5
    constant = learn([1], [np.zeros(50, int)], np.zeros(50, int)).predict_proba([np.zeros(2, int)])
    assert (constant[:, 0] > 0.95).all()
    column = np.arange(900) % 3
    p = learn([3], [column], np.array([0, 2, 3])[column], 4).predict_proba([np.arange(3)])
    assert (p[:, 1] < 0.01).all()
    assert (p[:, 1] > 0).all()
    assert p.argmax(axis=1).tolist() == [0, 2, 3]


def test_codes_first_met_after_fitting() -> None:
    train = [np.arange(400) % 2]
    model = learn([5], train, train[0])
    p = model.predict_proba([np.array([0, 1, 4])])
    assert np.isfinite(p).all()
    assert p[0, 0] > 0.9
    assert p[1, 1] > 0.9
