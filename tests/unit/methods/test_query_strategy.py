"""Strategies for queries: the search, least squares against brute force, and noise that is as large as is said."""

import dataclasses

import numpy as np
import pytest

from openprior.errors import PrivacyError, WorkloadError
from openprior.methods.shared.linear_answers import answers_of, coefficients, lumped
from openprior.methods.shared.p_identity import p_identity, total_variance, value_and_gradient
from openprior.methods.shared.query_strategy import measure_queries, plan_queries, query_strategy
from openprior.privacy.fake import FakeCurator
from openprior.privacy.noise import SeededNoise
from openprior.privacy.statistics import QueryAnswers
from openprior.privacy.unit import Relation, Unit
from openprior.privacy.weighted_sums import MAX_WEIGHTS, WeightedSums
from openprior.questions.queries import Queries
from openprior.releases.intervals import known_answers
from openprior.schema.domain import Domain
from tests.conftest import random_table

DOMAIN = Domain({"age": 16, "sex": 2})
TABLE = random_table({"age": 16, "sex": 2}, 500, 1)
noises = pytest.mark.parametrize("noise", ["gaussian", "laplace"])


def prefixes(n: int) -> np.ndarray:
    """All prefixes of n + 1 values but the whole, over the n cells that they tell apart."""
    return np.tri(n)


@noises
def test_the_gradient_is_that_of_the_variance(noise: str) -> None:
    rng = np.random.default_rng(0)
    workload = (rng.random((7, 6)) < 0.5).astype(float)
    gram, theta = workload.T @ workload, rng.random((2, 6))
    value, gradient = value_and_gradient(theta, gram, noise)
    strategy = np.vstack([np.eye(6), theta])
    norms = strategy.sum(axis=0) if noise == "laplace" else np.sqrt((strategy**2).sum(axis=0))
    assert value == pytest.approx(np.linalg.norm(workload @ np.linalg.pinv(strategy / norms)) ** 2)
    for place in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[place] = 1e-6
        up, down = (value_and_gradient(theta + s * step, gram, noise)[0] for s in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)


@noises
def test_a_strategy_is_never_worse_than_the_cells(noise: str) -> None:
    rng = np.random.default_rng(1)
    for queries, cells in ((1, 1), (2, 3), (12, 5), (9, 20)):
        workload = (rng.random((queries, cells)) < 0.4).astype(float)
        workload[0, ~workload.any(axis=0)] = 1
        strategy = p_identity(workload, noise=noise, most=64)
        assert strategy.dtype == np.int64 and (strategy >= 0).all()
        assert np.linalg.matrix_rank(strategy.astype(float)) == cells
        assert total_variance(strategy, workload, noise=noise) <= (workload**2).sum() * (1 + 1e-12)
    np.testing.assert_array_equal(p_identity(prefixes(9), noise=noise, most=0), np.eye(9))


@pytest.mark.parametrize("cells", [15, 63])
def test_prefixes_are_near_the_least_possible_variance(cells: int) -> None:
    """No strategy at all is below (Σσ)²/n under Gaussian noise, σ the workload's singular values (Li & Miklau 2013)."""
    workload = prefixes(cells)
    least = np.linalg.svd(workload, compute_uv=False).sum() ** 2 / cells
    found = total_variance(p_identity(workload, noise="gaussian", most=64), workload, noise="gaussian")
    assert least < found < 1.09 * least
    # Under Laplace noise: below the cells alone, sums of halves, quarters, …, and differences of these.
    pure = total_variance(p_identity(workload, noise="laplace", most=64), workload, noise="laplace")
    assert pure < (0.8 if cells == 15 else 0.45) * (workload**2).sum()
    width, halves = cells + 1, []
    while width:
        halves += [
            [1 if start <= i < start + width else 0 for i in range(cells)]
            for start in range(0, cells + 1, width)
        ]
        width //= 2
    tree = np.array([row for row in halves if any(row)])
    assert pure < 0.4 * total_variance(tree, workload, noise="laplace")


@noises
@pytest.mark.parametrize(
    "text", ["prefixes(age)", "ranges(age, 0-7, 4-11, 2-3, 0-9)", "ranges(age, 3-5, 3-9)"], ids=str
)
def test_least_squares_against_brute_force(text: str, noise: str) -> None:
    queries = Queries.parse(text, DOMAIN)
    statistic = query_strategy(queries, noise)
    assert isinstance(statistic, WeightedSums)
    strategy = statistic.matrix(16).astype(float)
    used = queries.members.any(axis=0)
    assert not strategy[:, ~used].any()  # what no query asks of is not counted
    by_hand = queries.members.astype(float) @ np.linalg.pinv(strategy)
    np.testing.assert_allclose(coefficients(statistic, queries), by_hand, atol=1e-9)
    assert query_strategy(queries, noise) == statistic  # the same queries, the same strategy
    curator = FakeCurator(TABLE)
    (answers,) = measure_queries(curator, plan_queries([queries], noise), [curator.rho / 2])
    truth = queries.answer(np.bincount(TABLE.column("age"), minlength=16))
    np.testing.assert_allclose(answers.values, truth, atol=1e-6)  # without noise


def test_queries_that_do_not_overlap_are_measured_themselves() -> None:
    for text in ("marginal(age)", "where(age=0-4, sex=1)", "ranges(age, 0-3, 8-9)"):
        queries = Queries.parse(text, DOMAIN)
        assert query_strategy(queries, "gaussian") == QueryAnswers.of(queries)
        curator = FakeCurator(TABLE, noise=SeededNoise(1))
        (answers,) = measure_queries(curator, plan_queries([queries], "gaussian"), [curator.rho])
        assert answers.standard_errors.tolist() == [curator.events[0].sigma] * len(queries.members)  # type: ignore[attr-defined]


def test_answers_that_do_not_follow_from_the_sums_are_refused() -> None:
    queries = Queries.parse("ranges(age, 0-7, 4-11)", DOMAIN)
    alone = WeightedSums(queries.text, ("age",), ((0, *[1] * 8),))
    with pytest.raises(PrivacyError, match="do not follow"):
        coefficients(alone, queries)


@pytest.mark.parametrize(("noise", "relation"), [("gaussian", "replace-one"), ("laplace", "add-remove")])
def test_noise_is_as_large_as_is_said(noise: str, relation: str) -> None:
    """Errors over their standard errors have variance 1; 95 % intervals hold 95 %; and errors go together as C·Cᵀ."""
    queries = Queries.parse("prefixes(age)", DOMAIN)
    truth = queries.answer(np.bincount(TABLE.column("age"), minlength=16))
    statistic = query_strategy(queries, noise)
    curator = FakeCurator(TABLE, epsilon=0.3, unit=Unit(Relation(relation), 2))
    exact = curator.measure(statistic, curator.rho, noise=noise)
    (event,) = curator.events
    draw = SeededNoise(3)
    draws, errors, covered = 300, [], 0
    for _ in range(draws):
        sums = exact.values.astype(np.int64)
        noisy = draw.gaussian(sums, event.sigma) if noise == "gaussian" else draw.laplace(sums, event.scale)  # type: ignore[attr-defined]
        answers = answers_of(dataclasses.replace(exact, values=noisy.astype(float)), queries)
        known = known_answers(answers)
        errors.append((answers.values - truth) / answers.standard_errors)
        covered += int(((known.low <= truth) & (truth <= known.high)).sum())
    e = np.array(errors)
    assert (e**2).mean() == pytest.approx(1.0, abs=0.2)  # 0.7 of the noise would be 0.5
    assert np.abs(e.mean(axis=0)).max() < 4 / draws**0.5
    assert 0.935 < covered / e.size < 0.98
    c = coefficients(statistic, queries)  # type: ignore[arg-type]
    said = c @ c.T / np.sqrt(np.outer((c * c).sum(axis=1), (c * c).sum(axis=1)))
    assert np.abs(e.T @ e / draws - said).max() < 0.35


def test_what_is_too_large_is_refused_or_measured_otherwise_before_any_charge() -> None:
    many = Domain({"a": 2100, "b": 100})
    small = Queries.parse("ranges(b, 0-9, 5-20)", many)
    with pytest.raises(WorkloadError, match=r"tell 2,099 groups of values apart, more than 2,048"):
        plan_queries([small, Queries.parse("prefixes(a)", many)], "gaussian")
    # Cells that lie far apart leave a certificate no room for their sums.
    wide = np.zeros((2, 210_000), np.bool_)
    wide[0, ::2] = wide[1, ::3] = True
    queries = Queries("mine", ("a", "b"), wide)
    assert isinstance(query_strategy(queries, "gaussian"), QueryAnswers)
    wide[:] = False
    wide[0, 200_000:200_008] = wide[1, 200_004:200_012] = True
    assert isinstance(query_strategy(Queries("mine", ("a", "b"), wide), "gaussian"), QueryAnswers)
    forged = WeightedSums("prefixes(a)", ("a",), ((0, 1),) * 9000)
    with pytest.raises(PrivacyError, match="too many"):
        coefficients(forged, Queries.parse("prefixes(a)", many))


def test_cells_in_the_same_queries_are_lumped() -> None:
    columns, which = lumped(np.array([[1, 0, 1, 0, 1], [0, 2, 0, 2, 3]]))
    np.testing.assert_array_equal(columns, [[1, 0, 1], [0, 2, 3]])
    np.testing.assert_array_equal(which, [0, 1, 0, 1, 2])
    # Three ranges over many values are no harder than over few.
    large = Domain({"age": 1500})
    statistic = query_strategy(Queries.parse("ranges(age, 0-999, 500-1199, 100-200)", large), "gaussian")
    assert isinstance(statistic, WeightedSums)
    assert len(statistic.weights) <= 10 and sum(map(len, statistic.weights)) < MAX_WEIGHTS
