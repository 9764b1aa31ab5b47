"""Support and product models against brute force; rounding; save and load."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openprior
from openprior.errors import ReleaseError
from openprior.methods.mwem import enumerate_domain
from openprior.models.base import Model, load_model
from openprior.models.product import ProductModel
from openprior.models.rounding import round_to_counts
from openprior.models.support import MultiplicativeWeights, SupportModel
from openprior.schema.domain import Domain
from openprior.tables.encode import Table
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


def test_a_model_that_cannot_tell_its_errors_says_none() -> None:
    for model in (make_support(), make_product()):
        assert model.standard_errors([("a",)]) is None


# A new kind of model is one file.

DROPPED = """
import numpy as np

from openprior.models.base import Model
from openprior.questions.workload import canonical
from openprior.tables.encode import Table


class Uniform(Model):
    kind = "uniform"

    def answers(self, marginals):
        keys = [canonical(m, self.domain) for m in marginals]
        return {m: np.full(self.domain.size(m), self.total / self.domain.size(m)) for m in keys}

    def sample(self, rows, rng):
        return Table(self.domain, tuple(rng.integers(0, size, rows) for size in self.domain.shape))

    def save(self, folder):
        self._write(folder, {"total": self.total}, {})

    @classmethod
    def load(cls, saved):
        return cls(saved.domain, saved.facts["total"])
"""
SAVE = """
import sys
from pathlib import Path
from openprior.models.lottery.uniform import Uniform
from openprior.schema.domain import Domain

Uniform(Domain({"a": 2, "b": 3}), 12).save(Path(sys.argv[1]))
"""
LOAD = """
import sys
from pathlib import Path
from openprior.models.base import load_model

model = load_model(Path(sys.argv[1]))
assert type(model).__module__ == "openprior.models.lottery.uniform", type(model)
assert model.answers([("a",)])["a",].tolist() == [6.0, 6.0]
assert model.standard_errors([("a",)]) is None
"""


def test_a_model_file_dropped_into_the_package_is_saved_and_loaded(tmp_path: Path) -> None:
    """With no other edit; one process saves, and another that never heard of it loads."""
    package, saved = tmp_path / "openprior", tmp_path / "saved"
    shutil.copytree(Path(openprior.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    room = package / "models" / "lottery"
    for folder in (room, saved):
        folder.mkdir()
    (room / "__init__.py").write_text('"""Models of pure chance."""\n')
    (room / "uniform.py").write_text(DROPPED)
    for script in (SAVE, LOAD):
        ran = subprocess.run(
            [sys.executable, "-c", script, str(saved)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    with pytest.raises(ReleaseError, match="unknown kind 'uniform'"):
        load_model(saved)


def test_a_kind_has_one_loader(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"kind 'support': openprior\.models\.support\.SupportModel does"):

        class Impostor(SupportModel):
            kind = "support"

    make_support().save(tmp_path)
    assert type(load_model(tmp_path)) is SupportModel


def test_a_model_without_one_of_its_parts_cannot_be_made() -> None:
    class Half(Model):
        def sample(self, rows: int, rng: np.random.Generator) -> Table:
            raise NotImplementedError

    with pytest.raises(TypeError, match="abstract method"):
        Half(Domain(SIZES), 1.0)  # type: ignore[abstract]
