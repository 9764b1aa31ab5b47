"""The best mixture error against a dense linear program, and its sensitivity by enumeration."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog

from openprior.errors import DataError, OptionError, WorkloadError
from openprior.privacy import best_mixture as mixture
from openprior.privacy.best_mixture import best_mixture


def frequencies(table: np.ndarray, sizes: list[int], marginals: list[tuple[int, ...]]) -> list[np.ndarray]:
    """The flat frequencies of every marginal, by plain counting."""
    targets = []
    for marginal in marginals:
        target = np.zeros([sizes[a] for a in marginal])
        for row in table:
            target[tuple(row[list(marginal)])] += 1 / len(table)
        targets.append(target.reshape(-1))
    return targets


def answer_matrix(support: np.ndarray, sizes: list[int], marginals: list[tuple[int, ...]]) -> np.ndarray:
    """Queries × rows, every cell of every marginal, reached or not."""
    blocks = []
    for marginal in marginals:
        cells = itertools.product(*(range(sizes[a]) for a in marginal))
        blocks.append([np.all(support[:, marginal] == cell, axis=1) for cell in cells])
    return np.concatenate(blocks).astype(float)


def dense_program(support, sizes, marginals, targets) -> float:
    """min t subject to |A μ − b| ≤ t with all queries at once."""
    a, b = answer_matrix(support, sizes, marginals), np.concatenate(targets)
    m = a.shape[1]
    ones = np.ones((len(b), 1))
    answer = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.block([[a, -ones], [-a, -ones]]),
        b_ub=np.concatenate([b, -b]),
        A_eq=np.append(np.ones(m), 0.0)[None, :],
        b_eq=[1.0],
        method="highs",
    )
    assert answer.status == 0
    return float(answer.fun)


def random_problem(rng: np.random.Generator, *, rows: int = 12, records: int = 30):
    sizes = rng.integers(2, 4, size=rng.integers(3, 6)).tolist()
    k = int(rng.integers(1, 4))
    marginals = list(itertools.combinations(range(len(sizes)), k))
    chosen = int(rng.integers(1, rows))
    support = np.stack([rng.integers(0, s, size=chosen) for s in sizes], axis=1)
    private = np.stack([rng.binomial(s - 1, rng.random(), size=records) for s in sizes], axis=1)
    return support, sizes, marginals, frequencies(private, sizes, marginals)


def solve(support, sizes, marginals, targets, *, tolerance=1e-8, **options):
    columns = [support[:, a].astype(np.uint8) for a in range(support.shape[1])]
    return best_mixture(columns, sizes, marginals, targets, tolerance=tolerance, **options)


def attained(found, support, sizes, marginals, targets) -> float:
    """The largest query error of the weights, computed the slow way."""
    gaps = answer_matrix(support, sizes, marginals) @ found.weights - np.concatenate(targets)
    return float(np.abs(gaps).max())


def check(found, problem, truth: float) -> None:
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert found.error == pytest.approx(attained(found, *problem), abs=1e-12)
    assert found.lower <= truth + 1e-9
    assert found.error >= truth - 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_the_whole_program_is_the_dense_one(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed))
    truth = dense_program(*problem)
    found = solve(*problem)
    check(found, problem, truth)
    assert found.exact
    assert found.error == pytest.approx(truth, abs=1e-7)
    assert found.lower == pytest.approx(truth, abs=1e-7)


@pytest.mark.parametrize("seed", range(25))
def test_growing_programs_end_at_the_dense_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "_WHOLE_LP", 0)
    monkeypatch.setattr(mixture, "_FIRST_COLUMNS", 4)
    monkeypatch.setattr(mixture, "_BATCH", 3)
    problem = random_problem(np.random.default_rng(1000 + seed), rows=60)
    truth = dense_program(*problem)
    for method in ("linear-program", "auto"):
        found = solve(*problem, method=method)
        check(found, problem, truth)
        assert found.exact
        assert found.error == pytest.approx(truth, abs=1e-7)


@pytest.mark.parametrize("seed", range(25))
def test_first_order_bounds_bracket_the_optimum(seed: int) -> None:
    problem = random_problem(np.random.default_rng(2000 + seed), rows=60)
    truth = dense_program(*problem)
    found = solve(*problem, tolerance=1e-4, method="first-order")
    check(found, problem, truth)
    assert found.error - found.lower < 0.02
    assert found.exact == (found.error - found.lower <= 1e-4)


def test_bounds_are_honest_when_the_clock_has_run_out() -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(rng, rows=60)
    truth = dense_program(*problem)
    for method in ("auto", "linear-program", "first-order"):
        found = solve(*problem, max_seconds=0.0, method=method)
        check(found, problem, truth)
        # Nothing ran: the start is the public table itself.
        np.testing.assert_allclose(found.weights, 1 / len(problem[0]))


def test_a_public_table_with_the_private_rows_has_no_error() -> None:
    rng = np.random.default_rng(6)
    sizes, marginals = [3, 4, 2], [(0, 1), (1, 2), (0, 1, 2)]
    private = np.stack([rng.integers(0, s, size=40) for s in sizes], axis=1)
    extra = np.stack([rng.integers(0, s, size=25) for s in sizes], axis=1)
    targets = frequencies(private, sizes, marginals)
    found = solve(np.concatenate([extra, private]), sizes, marginals, targets, tolerance=1e-9)
    assert found.exact
    assert found.error <= 1e-9


def test_mass_out_of_reach_is_a_floor() -> None:
    sizes, marginals = [4, 2], [(0,), (0, 1)]
    private = np.array([[0, 0]] * 3 + [[1, 1]] * 5 + [[3, 0]] * 2)
    support = np.array([[0, 0], [1, 1], [1, 0], [2, 1]])
    found = solve(support, sizes, marginals, frequencies(private, sizes, marginals))
    assert found.exact
    assert found.lower == pytest.approx(0.2)


def test_repeated_public_rows_share_the_weight_of_one() -> None:
    sizes, marginals = [2, 2], [(0, 1)]
    targets = [np.array([0.5, 0.0, 0.0, 0.5])]
    found = solve(np.array([[0, 0], [0, 0], [1, 1], [0, 0]]), sizes, marginals, targets)
    np.testing.assert_allclose(found.weights, [1 / 6, 1 / 6, 1 / 2, 1 / 6], atol=1e-7)


def neighbours(table: np.ndarray, sizes: list[int]) -> Iterator[np.ndarray]:
    """Every table with one record replaced by any other."""
    for i in range(len(table)):
        for value in itertools.product(*(range(s) for s in sizes)):
            if tuple(table[i]) != value:
                other = table.copy()
                other[i] = value
                yield other


def test_replacing_a_record_moves_it_by_at_most_one_nth_and_somewhere_by_that() -> None:
    rng = np.random.default_rng(7)
    tolerance, n, sizes = 1e-9, 5, [2, 3]
    largest = 0.0
    for marginals in ([(0,), (1,)], [(0, 1)]):
        for _ in range(4):
            private = np.stack([rng.integers(0, s, size=n) for s in sizes], axis=1)
            chosen = int(rng.integers(1, 5))
            support = np.stack([rng.integers(0, s, size=chosen) for s in sizes], axis=1)

            def value(table, support=support, marginals=marginals) -> float:
                targets = frequencies(table, sizes, marginals)
                found = solve(support, sizes, marginals, targets, tolerance=tolerance)
                assert found.exact
                return found.error

            here = value(private)
            moves = [abs(value(other) - here) for other in neighbours(private, sizes)]
            assert max(moves) <= 1 / n + 2 * tolerance
            largest = max(largest, *moves)
    assert largest == pytest.approx(1 / n, abs=1e-6)


def test_wrong_inputs_are_named() -> None:
    column, target = np.array([0, 1]), np.array([0.5, 0.5])
    with pytest.raises(OptionError, match="tolerance"):
        best_mixture([column], [2], [(0,)], [target], tolerance=0)
    with pytest.raises(OptionError, match="method"):
        best_mixture([column], [2], [(0,)], [target], tolerance=1e-6, method="magic")
    with pytest.raises(DataError, match="no rows"):
        best_mixture([column[:0]], [2], [(0,)], [target], tolerance=1e-6)
    with pytest.raises(DataError, match="codes from 0 to 0"):
        best_mixture([column], [1], [(0,)], [target], tolerance=1e-6)
    with pytest.raises(DataError, match="one size per column"):
        best_mixture([column], [2, 2], [(0,)], [target], tolerance=1e-6)
    with pytest.raises(WorkloadError, match="one target per marginal"):
        best_mixture([column], [2], [(0,)], [], tolerance=1e-6)
    with pytest.raises(WorkloadError, match="2 cells"):
        best_mixture([column], [2], [(0,)], [np.ones(3) / 3], tolerance=1e-6)
    with pytest.raises(WorkloadError, match="sum to 1"):
        best_mixture([column], [2], [(0,)], [np.array([3.0, 2.0])], tolerance=1e-6)
