"""Support and product models against brute force; rounding; save and load."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openprior.errors import ReleaseError
from openprior.methods.mwem import enumerate_domain
from openprior.models.base import load_model, round_to_counts
from openprior.models.product import ProductModel
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.schema.domain import Domain
from tests.conftest import random_table

SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}


def full_joint(model: object, domain: Domain) -> np.ndarray:
    answers = model.answers([domain.attributes])  # type: ignore[attr-defined]
    return answers[domain.attributes].reshape(domain.shape)


def make_product() -> ProductModel:
    rng = np.random.default_rng(0)
    domain = Domain(SIZES)
    first = enumerate_domain(domain.project(("b", "d")), 100)
    second = enumerate_domain(domain.project(("c",)), 100)
    factors = [SupportModel(first, rng.random(first.n), 7.0), SupportModel(second, rng.random(second.n), 7.0)]
    return ProductModel(domain, factors, 50.0)


def make_support() -> SupportModel:
    rows, counts = random_table(SIZES, 60, 1).unique()
    return SupportModel(rows, counts.astype(float), 60.0)


@pytest.mark.parametrize("make", [make_product, make_support])
def test_answers_are_margins_of_the_joint_and_survive_a_save(make: object, tmp_path: Path) -> None:
    model = make()  # type: ignore[operator]
    joint = full_joint(model, model.domain)
    assert joint.sum() == pytest.approx(model.total)
    wanted = [("a",), ("b", "c"), ("a", "d"), ("b", "c", "d")]
    model.save(tmp_path)
    again = load_model(tmp_path)
    for marginal in wanted:
        axes = tuple(i for i, a in enumerate(model.domain) if a not in marginal)
        expected = joint.sum(axis=axes).reshape(-1)
        np.testing.assert_allclose(model.answers([marginal])[marginal], expected, atol=1e-9)
        np.testing.assert_allclose(again.answers([marginal])[marginal], expected, atol=1e-9)


def test_attributes_of_no_factor_are_uniform() -> None:
    np.testing.assert_allclose(make_product().answers([("a",)])[("a",)], 50 / 3)


@pytest.mark.parametrize("make", [make_product, make_support])
def test_samples_follow_the_model(make: object) -> None:
    model = make()  # type: ignore[operator]
    rows = model.sample(40_000, np.random.default_rng(5))
    assert rows.n == 40_000
    joint = full_joint(model, model.domain) / model.total
    seen = np.zeros(model.domain.shape)
    np.add.at(seen, tuple(c.astype(int) for c in rows.columns), 1 / rows.n)
    assert np.abs(seen - joint).max() < 0.01


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=30).filter(lambda w: sum(w) > 1e-3),
    st.integers(0, 10_000),
    st.integers(0, 2**31),
)
def test_rounding_keeps_the_sum_and_moves_less_than_one(weights: list[float], rows: int, seed: int) -> None:
    w = np.array(weights)
    counts = round_to_counts(w, rows, np.random.default_rng(seed))
    assert counts.sum() == rows
    assert (counts >= 0).all()
    assert np.abs(counts - rows * w / w.sum()).max() < 1 + 1e-6


def test_rounding_has_no_bias() -> None:
    rng = np.random.default_rng(1)
    w = np.array([0.05, 0.15, 0.3, 0.5])
    mean = np.mean([round_to_counts(w, 3, rng) for _ in range(20_000)], axis=0)
    np.testing.assert_allclose(mean, 3 * w, atol=0.02)


def test_incremental_answers_equal_a_fresh_count() -> None:
    rng = np.random.default_rng(2)
    rows, counts = random_table({"a": 2, "b": 5, "c": 4}, 300, 3).unique()
    marginals = [("a",), ("a", "b"), ("b", "c")]
    weights = MultiplicativeWeights(rows, counts.astype(float), marginals)
    by_hand = counts / counts.sum()
    for _ in range(100):
        moves = []
        for _ in range(int(rng.integers(1, 4))):
            marginal = marginals[rng.integers(3)]
            moves.append((marginal, int(rng.integers(rows.domain.size(marginal))), float(rng.random())))
        weights.update(moves, 0.5)
        for marginal, cell, answer in moves:
            inside = weights.members(marginal, cell)
            by_hand = by_hand * np.exp(inside * (answer - by_hand[inside].sum()) * 0.5)
            by_hand = by_hand / by_hand.sum()
        np.testing.assert_allclose(weights.weights, by_hand, rtol=1e-9)
        fresh = SupportModel(rows, by_hand, 1.0).answers(marginals)
        for marginal in marginals:
            np.testing.assert_allclose(
                weights.cells.split(weights.answers)[marginal], fresh[marginal], atol=1e-12
            )


def test_reachable_cells_hold_some_rows_but_not_all() -> None:
    rows, _counts = random_table({"a": 2, "b": 3}, 50, 1).unique()
    only = rows.take(np.flatnonzero(rows.column("a") == 0))
    weights = MultiplicativeWeights(only, np.ones(only.n), [("a",), ("a", "b")])
    reachable = {weights.cells.locate(int(c)) for c in weights.reachable()}
    assert not any(m == ("a",) for m, _ in reachable)
    assert reachable == {(("a", "b"), int(code)) for code in only.column("b")}


def test_a_damaged_model_is_an_error_in_one_line(tmp_path: Path) -> None:
    make_support().save(tmp_path)
    (tmp_path / "arrays.npz").write_bytes(b"not an archive")
    with pytest.raises(ReleaseError, match="damaged"):
        load_model(tmp_path)


def test_weights_that_are_no_distribution_are_refused() -> None:
    rows, _ = random_table(SIZES, 10, 1).unique()
    for bad in (np.zeros(rows.n), -np.ones(rows.n), np.full(rows.n, np.nan), np.ones(rows.n + 1)):
        with pytest.raises(ValueError, match="weight"):
            SupportModel(rows, bad, 1.0)
