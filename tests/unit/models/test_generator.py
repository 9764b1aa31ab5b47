"""A mixture of products answers every marginal as a sum over all rows of its domain does, and needs no JAX for it."""

import itertools
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import openprior
from openprior.models import generator
from openprior.models.base import load_model
from openprior.models.generator import GeneratorModel
from openprior.schema.domain import Domain

DOMAIN = Domain({"a": 3, "b": 1, "c": 4, "d": 2})
COMPONENTS, TOTAL = 5, 700.0
SUBSETS = [m for k in (1, 2, 3, 4) for m in itertools.combinations(DOMAIN, k)]


def model(seed: int = 0, marginals: tuple[tuple[str, ...], ...] = ()) -> GeneratorModel:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.dirichlet(np.full(n, 0.4), COMPONENTS) for n in DOMAIN.shape], axis=1)
    return GeneratorModel(DOMAIN, rng.dirichlet(np.ones(COMPONENTS)), values, TOTAL, marginals)


def joint(mixture: GeneratorModel) -> np.ndarray:
    """The probability of every row, one by one."""
    table = np.zeros(DOMAIN.shape)
    for row in np.ndindex(*DOMAIN.shape):
        for b, share in enumerate(mixture.shares):
            table[row] += share * np.prod([mixture._parts[i][b, code] for i, code in enumerate(row)])
    return table


def summed(table: np.ndarray, marginal: tuple[str, ...]) -> np.ndarray:
    return table.sum(axis=tuple(i for i, a in enumerate(DOMAIN) if a not in marginal)).reshape(-1)


@pytest.mark.parametrize("block", [generator._BLOCK, 20, 1])
def test_answers_are_sums_over_all_rows_in_blocks_of_any_size(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "_BLOCK", block)
    mixture = model()
    table = joint(mixture)
    for marginal, counts in mixture.answers(SUBSETS).items():
        np.testing.assert_allclose(counts, TOTAL * summed(table, marginal), rtol=1e-12)
    assert mixture.standard_errors(SUBSETS) is None


def test_restricting_is_conditioning() -> None:
    mixture = model()
    allowed = {"a": np.array([True, False, True]), "c": np.array([False, True, True, False])}
    inside = mixture.restricted(allowed)
    assert inside is not None
    table = joint(mixture) * allowed["a"][:, None, None, None] * allowed["c"][:, None]
    assert inside.total == pytest.approx(TOTAL * table.sum())
    for marginal, counts in inside.answers(SUBSETS).items():
        np.testing.assert_allclose(counts, TOTAL * summed(table, marginal), rtol=1e-9, atol=1e-12)
    rows = inside.sample(200, np.random.default_rng(0))
    assert rows.inside(allowed).all()
    assert mixture.restricted({"a": np.zeros(3, np.bool_)}) is None


def test_rows_are_spread_as_the_answers_say() -> None:
    mixture = model(1, (("a", "c"), ("c", "d")))
    rows = mixture.sample(1000, np.random.default_rng(3))
    answers = mixture.answers([("a", "c"), ("c", "d"), ("a",)])
    for marginal, counts in answers.items():
        shape = [DOMAIN[a] for a in marginal]
        cells = np.ravel_multi_index([rows.column(a).astype(int) for a in marginal], shape)
        off = np.bincount(cells, minlength=len(counts)) - counts * (1000 / TOTAL)
        assert np.abs(off).max() < 3, marginal  # drawn one by one, some would be off by 30
    assert mixture.sample(0, np.random.default_rng(0)).n == 0


def test_codes_without_probability_are_never_drawn() -> None:
    values = np.array([[0.0, 0.3, 0.7, 0.0], [0.0, 1.0, 0.0, 0.0]])
    mixture = GeneratorModel(Domain({"x": 4}), np.array([0.5, 0.5]), values, 10.0)
    rows = mixture.sample(5000, np.random.default_rng(1))
    assert set(rows.column("x")) == {1, 2}


def test_a_saved_one_is_the_same_and_opens_without_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixture = model(2, (("a", "d"),))
    mixture.save(tmp_path)
    for library in ("jax", "optax"):
        monkeypatch.setitem(sys.modules, library, None)
    again = load_model(tmp_path)
    assert isinstance(again, GeneratorModel)
    assert again.marginals == mixture.marginals
    for marginal, counts in mixture.answers(SUBSETS).items():
        np.testing.assert_allclose(again.answers(SUBSETS)[marginal], counts, rtol=1e-12)
    assert again.sample(20, np.random.default_rng(0)).n == 20


def test_no_file_imports_jax_before_it_is_used() -> None:
    for file in Path(openprior.__file__).parent.rglob("*.py"):
        assert not re.search(
            r"^(import|from) (jax|optax)\b", file.read_text(encoding="utf-8"), re.MULTILINE
        ), file


@pytest.mark.parametrize(
    ("shares", "values"),
    [
        (np.ones(2), np.ones((2, 3))),
        (np.ones(2), np.full((2, 10), np.nan)),
        (np.ones(2), -np.ones((2, 10))),
        (np.zeros(2), np.ones((2, 10))),
        (np.ones(2), np.zeros((2, 10))),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_no_mixture_is_refused(shares: np.ndarray, values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="generator"):
        GeneratorModel(DOMAIN, shares, values, 1.0)
