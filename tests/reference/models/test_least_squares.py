"""The linear model against least squares by brute force, on the whole table of a small domain.

The private table x has one number per cell of the domain; a statistic is a matrix S, and what was measured is Sx plus
noise. The answers are W x̂ with x̂ = (Σ SᵀS/σ²)⁺ Σ Sᵀy/σ², their covariance is W(Σ SᵀS/σ²)⁺Wᵀ. Components give the same.
"""

import functools
import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from openprior.models.components import Average, telling
from openprior.models.linear import LinearModel
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

Floats = NDArray[np.float64]
DOMAIN = Domain({"a": 2, "b": 3, "c": 4})
PAIRS: list[Marginal] = list(itertools.combinations(DOMAIN, 2))
ALL: list[Marginal] = [m for k in range(4) for m in itertools.combinations(DOMAIN, k)]


def counting(marginal: Marginal) -> Floats:
    """The matrix that sums the domain's cells to a marginal's."""
    each = [np.eye(DOMAIN[a]) if a in marginal else np.ones((1, DOMAIN[a])) for a in DOMAIN]
    return functools.reduce(np.kron, each)


def projecting(columns: Marginal) -> Floats:
    """The matrix of a residual component."""
    each = [np.eye(DOMAIN[a]) - 1 / DOMAIN[a] for a in columns]
    return functools.reduce(np.kron, each, np.eye(1)) @ counting(columns)


def brute(items: list[tuple[Floats, Floats, float]], known_total: float | None) -> tuple[Floats, Floats]:
    """x̂ and its covariance; with a known total, among the x that have it."""
    size = DOMAIN.size()
    start = np.zeros(size) if known_total is None else np.full(size, known_total / size)
    free = np.eye(size) if known_total is None else np.linalg.svd(np.ones((1, size)))[2][1:].T
    information = sum(free.T @ s.T @ s @ free / sd**2 for s, _, sd in items)
    covariance = free @ np.linalg.pinv(information, hermitian=True) @ free.T
    return start + covariance @ sum(s.T @ (y - s @ start) / sd**2 for s, y, sd in items), covariance


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_answers_and_errors_are_those_of_brute_force(seed: int, known: bool) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, DOMAIN.size()).astype(float)
    average, items = Average(DOMAIN), []
    for marginal in ALL:
        if rng.random() < 0.6 or marginal in PAIRS[:2] or (marginal == () and not known):
            sd = float(rng.uniform(0.5, 4))
            y = counting(marginal) @ x + rng.normal(0, sd, DOMAIN.size(marginal))
            average.add_marginal(marginal, y, sd**2)
            items.append((counting(marginal), y, sd))
        if marginal and rng.random() < 0.5:
            sd = float(rng.uniform(0.2, 2))
            y = projecting(marginal) @ x + rng.normal(0, sd, DOMAIN.size(marginal))
            average.add_component(marginal, y, sd**2)
            items.append((projecting(marginal), y, sd))
    components, variances = average.components()
    if known:
        components[()], variances[()] = np.array(x.sum()), 0.0
    model = LinearModel(DOMAIN, components, variances, noise="gaussian", marginals=PAIRS[:2])
    estimate, covariance = brute(items, x.sum() if known else None)
    checked = 0
    for marginal in ALL[1:]:
        if all(set(b) - set(marginal) or b in components for b in ALL):
            matrix = counting(marginal)
            assert model.answers([marginal])[marginal] == pytest.approx(matrix @ estimate, abs=1e-4)
            expected = np.sqrt(np.diag(matrix @ covariance @ matrix.T))
            assert model.standard_errors([marginal])[marginal] == pytest.approx(expected, rel=1e-5)
            assert model.noise_alone(marginal).standard_error == pytest.approx(expected, rel=1e-5)
            checked += 1
    assert checked >= 5


def test_sums_of_codes_have_the_error_of_brute_force() -> None:
    rng = np.random.default_rng(1)
    average, items = Average(DOMAIN), []
    for marginal, sd in zip(PAIRS, (1.0, 2.0, 3.0), strict=True):
        y = rng.normal(0, sd, DOMAIN.size(marginal))
        average.add_marginal(marginal, y, sd**2)
        items.append((counting(marginal), y, sd))
    model = LinearModel(DOMAIN, *average.components(), noise="gaussian", marginals=PAIRS)
    groups = np.array([[1, 1, 0, 1.0], [0, 0, 1, 0]])
    matrix = np.kron(groups, np.eye(3)) @ np.eye(12).reshape(3, 4, 12).transpose(1, 0, 2).reshape(12, 12)
    matrix = matrix @ counting(("b", "c"))
    expected = np.sqrt(np.diag(matrix @ brute(items, None)[1] @ matrix.T))
    noise = model.noise_alone(("c", "b"), {"c": groups.sum(axis=1)})
    assert noise.standard_error == pytest.approx(expected, rel=1e-9)
    assert noise.kurtosis == 0


def test_what_was_not_measured_is_even_and_has_no_error() -> None:
    average = Average(DOMAIN)
    average.add_marginal(("a",), np.array([4.0, 8.0]), 1.0)
    model = LinearModel(DOMAIN, *average.components(), noise="gaussian", marginals=[("a",)])
    assert model.answers([("a", "b")])[("a", "b")].tolist() == pytest.approx([4 / 3] * 3 + [8 / 3] * 3)
    assert np.isnan(model.standard_errors([("a", "b")])[("a", "b")]).all()
    assert model.standard_errors([("a",)])[("a",)] == pytest.approx(1.0)


def test_a_column_with_one_value_says_nothing() -> None:
    domain = Domain({"one": 1, "b": 3})
    average = Average(domain)
    average.add_marginal(("one", "b"), np.array([1.0, 2.0, 3.0]), 1.0)
    components, variances = average.components()
    assert set(components) == {(), ("b",)}
    model = LinearModel(domain, components, variances, noise="laplace", marginals=[("one", "b")])
    assert model.answers([("one", "b")])["one", "b"] == pytest.approx([1, 2, 3])
    assert model.standard_errors([("one", "b")])["one", "b"] == pytest.approx(1.0)
    assert telling(("one", "b"), domain) == ("b",)
