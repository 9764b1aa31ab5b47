"""Iterative Distribution Estimation against the exact two-stage solution, and that against linear programming."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from openprior.models.relative_entropy import Partial, divergence, ide
from openprior.models.two_stage import TwoStage, two_stage


@dataclass(frozen=True)
class Problem:
    prior: np.ndarray
    partials: list[Partial]
    truth: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        return np.vstack([p.labels == np.arange(len(p.answers))[:, None] for p in self.partials]).astype(
            float
        )

    @property
    def answers(self) -> np.ndarray:
        return np.concatenate([p.answers for p in self.partials])

    def on_support(self) -> tuple[np.ndarray, list[Partial]]:
        """As `ide` sees it when only the points with prior mass are listed."""
        held = self.prior > 0
        return self.prior[held], [Partial(p.labels[held], p.answers, p.covers) for p in self.partials]


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    while True:
        shape = tuple(int(s) for s in rng.integers(2, 7, rng.integers(1, 5)))
        if 4 <= math.prod(shape) <= 60:
            return shape


def random_labels(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, int, bool]:
    """A marginal, some ranges of one column, a prefix, or a predicate: labels, queries, whether they cover all."""
    codes = np.indices(shape).reshape(len(shape), -1)
    column = int(rng.integers(len(shape)))
    kind = rng.choice(["marginal", "ranges", "prefix", "predicate"], p=[0.5, 0.2, 0.15, 0.15])
    if kind == "marginal":
        chosen = sorted(rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), replace=False).tolist())
        sizes = [shape[a] for a in chosen]
        return np.ravel_multi_index([codes[a] for a in chosen], sizes), math.prod(sizes), True
    if kind == "ranges":
        ends = np.sort(rng.choice(shape[column], 2, replace=False))
        where = np.searchsorted(ends, codes[column], side="left")
        return np.where(where > 1, -1, where), 2, bool(ends[1] == shape[column] - 1)
    if kind == "prefix":
        return np.where(codes[column] <= rng.integers(shape[column] - 1), 0, -1), 1, False
    inside = rng.random(codes.shape[1]) < 0.4
    return np.where(inside, 0, -1), 1, bool(inside.all())


def random_problem(seed: int, noise: float, *, zeros_in_truth: bool = False) -> Problem:
    """Answers of a distribution that is positive where the prior is (or on part of that), with Laplace noise."""
    rng = np.random.default_rng([seed, int(noise * 1e6)])
    shape = random_shape(rng)
    n = math.prod(shape)
    prior = rng.dirichlet(np.full(n, rng.choice([0.5, 1.0, 5.0])))
    prior *= rng.random(n) >= rng.choice([0.0, 0.3])
    prior[0] += 0.01
    prior /= prior.sum()
    truth = (rng.dirichlet(np.full(n, rng.choice([0.5, 1.0, 5.0]))) + 1e-3) * (prior > 0)
    if zeros_in_truth:
        truth *= (rng.random(n) < 0.6) | (truth == truth.max())
    truth /= truth.sum()
    partials = []
    for _ in range(int(rng.integers(1, 5))):
        where, k, covers = random_labels(rng, shape)
        exact = np.array([truth[where == i].sum() for i in range(k)])
        partials.append(Partial(where.astype(np.int32), exact + noise * rng.laplace(size=k), covers))
    return Problem(prior, partials, truth)


def least_loss(problem: Problem) -> float:
    """Stage one in another form than the code's: distances r with −r ≤ Wq − ỹ ≤ r."""
    return float(over_near(problem, np.zeros(len(problem.prior)), None).fun)


def over_near(problem: Problem, cost: np.ndarray, loss: float | None):  # type: ignore[no-untyped-def]
    """The cheapest distribution on the support with a loss of at most so much; without a limit, of the least loss."""
    w, y = problem.matrix, problem.answers
    m, n = w.shape
    a_ub = np.vstack([np.hstack([w, -np.eye(m)]), np.hstack([-w, -np.eye(m)])])
    b_ub = np.concatenate([y, -y])
    total = np.concatenate([np.zeros(n), np.ones(m)])
    if loss is not None:
        a_ub, b_ub = np.vstack([a_ub, total]), np.append(b_ub, loss)
    found = linprog(
        total if loss is None else np.append(cost, np.zeros(m)),
        A_ub=a_ub,
        b_ub=b_ub,
        A_eq=np.concatenate([np.ones(n), np.zeros(m)])[None],
        b_eq=[1.0],
        bounds=[(0, None if p > 0 else 0) for p in problem.prior] + [(0, None)] * m,
    )
    assert found.success
    return found


def could_be_nearer(problem: Problem, exact: TwoStage) -> float:
    """How much less relative entropy another distribution of the same loss could have, at most.

    Relative entropy is convex, so KL(z) ≥ KL(q) + ∇KL(q)·(z − q): the cheapest z for the gradient bounds it from below.
    """
    support = np.where(problem.prior > 0, problem.prior, 1.0)
    gradient = np.log(np.maximum(exact.q, 1e-30) / support)
    return float(gradient @ exact.q - over_near(problem, gradient, exact.loss + 1e-11).fun)


FEASIBLE = [random_problem(seed, 0.0) for seed in range(110)]
EDGE = [random_problem(seed, 0.0, zeros_in_truth=True) for seed in range(40)]
BY_NOISE = {noise: [random_problem(seed, noise) for seed in range(50)] for noise in (0.003, 0.03, 0.2)}
NOISY = [problem for problems in BY_NOISE.values() for problem in problems]


@pytest.fixture(scope="module")
def exact() -> dict[int, TwoStage]:
    """The exact solutions, by the problem's identity."""
    return {id(p): two_stage(p.prior, p.matrix, p.answers) for p in FEASIBLE + EDGE + NOISY}


def test_the_exact_solution_is_exact(exact: dict[int, TwoStage]) -> None:
    for problem in FEASIBLE + EDGE + NOISY:
        found = exact[id(problem)]
        assert found.q.min() >= 0
        assert found.q.sum() == pytest.approx(1, abs=1e-12)
        assert (found.q[problem.prior == 0] == 0).all()
        np.testing.assert_allclose(found.y, problem.matrix @ found.q, atol=1e-15)
        assert found.loss == pytest.approx(np.abs(found.y - problem.answers).sum(), abs=1e-15)
        assert found.loss == pytest.approx(least_loss(problem), abs=1e-9)
        assert found.divergence == pytest.approx(divergence(found.q, problem.prior), abs=1e-12)
        assert could_be_nearer(problem, found) < 1e-6
    for problem in FEASIBLE + EDGE:
        assert exact[id(problem)].loss < 1e-9
        assert exact[id(problem)].divergence <= divergence(problem.truth, problem.prior) + 1e-9


def test_the_exact_solution_is_that_of_a_general_solver(exact: dict[int, TwoStage]) -> None:
    """Sequential quadratic programming on the smallest problems, from the exact least loss."""
    compared = 0
    for problem in [p for p in FEASIBLE + NOISY if np.count_nonzero(p.prior) <= 12][:25]:
        found, held = exact[id(problem)], problem.prior > 0
        w, y, p, m = problem.matrix[:, held], problem.answers, problem.prior[held], len(problem.answers)
        n = len(p)
        start = np.concatenate([found.q[held], np.abs(w @ found.q[held] - y)])
        start[:n] = 0.9 * start[:n] + 0.1 * p
        solved = minimize(
            lambda x, p=p, n=n: float((x[:n] * np.log(np.maximum(x[:n], 1e-12) / p)).sum()),
            start,
            jac=lambda x, p=p, n=n, m=m: np.append(np.log(np.maximum(x[:n], 1e-12) / p) + 1, np.zeros(m)),
            bounds=[(0, 1)] * n + [(0, None)] * m,
            constraints=[
                {"type": "eq", "fun": lambda x, n=n: x[:n].sum() - 1},
                {"type": "ineq", "fun": lambda x, w=w, y=y, n=n: x[n:] - (w @ x[:n] - y)},
                {"type": "ineq", "fun": lambda x, w=w, y=y, n=n: x[n:] + (w @ x[:n] - y)},
                {"type": "ineq", "fun": lambda x, n=n, least=found.loss: least + 1e-9 - x[n:].sum()},
            ],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        if solved.success:
            compared += 1
            assert solved.fun == pytest.approx(found.divergence, abs=1e-4)
    assert compared >= 10


def test_two_stages_by_hand() -> None:
    # One query of the first two points says .9, another of the same says .5: everything between has a loss of .4, and
    # the prior has .6 there.
    prior = np.array([0.2, 0.4, 0.4])
    w = np.array([[1, 1, 0], [1, 1, 0]])
    found = two_stage(prior, w, np.array([0.9, 0.5]))
    np.testing.assert_allclose(found.q, prior, atol=1e-9)
    assert found.loss == pytest.approx(0.4)
    assert found.divergence == pytest.approx(0, abs=1e-12)
    # With .9 and .7 the nearest end is .7: .2·.7/.6 and .4·.7/.6.
    found = two_stage(prior, w, np.array([0.9, 0.7]))
    np.testing.assert_allclose(found.q, [0.7 / 3, 1.4 / 3, 0.3], atol=1e-9)
    # A negative answer: 0 is as near as it gets.
    found = two_stage(prior, w[:1], np.array([-0.3]))
    np.testing.assert_allclose(found.q, [0, 0, 1], atol=1e-12)
    assert (found.loss, found.divergence) == (pytest.approx(0.3), pytest.approx(math.log(1 / 0.4)))


def test_points_without_prior_mass_are_used_only_if_asked() -> None:
    prior = np.array([0.5, 0.5, 0.0, 0.0])
    w = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])
    y = np.array([0.2, 0.6, 0.2])
    inside = two_stage(prior, w, y)
    assert inside.q[2:].sum() == 0
    # .2 more than asked, on any of the two; as even as it can be: .4 and .6.
    np.testing.assert_allclose(inside.q, [0.4, 0.6, 0, 0], atol=1e-9)
    assert inside.loss == pytest.approx(0.4)
    everywhere = two_stage(prior, w, y, support_only=False)
    np.testing.assert_allclose(everywhere.q, [0.2, 0.6, 0.1, 0.1], atol=1e-9)
    assert everywhere.loss == pytest.approx(0, abs=1e-12)
    assert everywhere.divergence == math.inf
    # Where nothing asks for it, it makes no difference.
    same = two_stage(prior, w[:2], np.array([0.3, 0.7]), support_only=False)
    np.testing.assert_allclose(same.q, [0.3, 0.7, 0, 0], atol=1e-9)


def test_what_makes_no_sense_is_refused() -> None:
    prior, w, y = np.array([0.5, 0.5]), np.eye(2), np.array([0.3, 0.7])
    for arguments in ((prior, 2 * w, y), (prior, w[:1], y), (0 * prior, w, y), (prior, w, y * np.nan)):
        with pytest.raises(ValueError, match=r"matrix|prior"):
            two_stage(*arguments)


# Iterative Distribution Estimation.


def test_where_answers_agree_the_iteration_finds_the_exact_solution(exact: dict[int, TwoStage]) -> None:
    for number, problem in enumerate(FEASIBLE):
        prior, partials = problem.on_support()
        q, report = ide(prior, partials, np.random.default_rng(number), most_epochs=5000)
        assert report.converged, number
        assert report.loss < 1e-6
        assert report.divergence == pytest.approx(exact[id(problem)].divergence, abs=1e-4)
        np.testing.assert_allclose(q, exact[id(problem)].q[problem.prior > 0], atol=1e-4)


def test_at_the_edge_it_gets_there_slowly(exact: dict[int, TwoStage]) -> None:
    """Where the answers leave points without mass that no single answer empties, the loss falls as one over epochs."""
    slow = 0
    for number, problem in enumerate(EDGE):
        prior, partials = problem.on_support()
        _, report = ide(prior, partials, np.random.default_rng(number))
        assert not report.cycling
        assert report.loss < 0.01
        assert report.divergence == pytest.approx(exact[id(problem)].divergence, abs=0.02)
        slow += not report.converged
    assert slow < len(EDGE) / 4


def test_the_whole_domain_and_the_support_give_the_same(exact: dict[int, TwoStage]) -> None:
    for number, problem in enumerate(FEASIBLE[:40]):
        held = problem.prior > 0
        inside, _ = ide(*problem.on_support(), np.random.default_rng(number), updates=20)
        everywhere, _ = ide(problem.prior, problem.partials, np.random.default_rng(number), updates=20)
        np.testing.assert_allclose(everywhere[held], inside, atol=1e-12)
        assert everywhere[~held].sum() < 1e-12


def test_noise_can_give_mass_to_points_without_any_on_the_whole_domain() -> None:
    revived = 0
    for number, problem in enumerate(NOISY):
        held = problem.prior > 0
        everywhere, report = ide(problem.prior, problem.partials, np.random.default_rng(number))
        assert everywhere.sum() == pytest.approx(1, abs=1e-9)
        assert (report.divergence == math.inf) == bool((everywhere[~held] > 0).any())
        revived += report.divergence == math.inf
    assert revived > 5


@pytest.mark.parametrize("noise", BY_NOISE)
def test_where_answers_contradict_each_other_the_loss_is_near_the_least(
    noise: float, exact: dict[int, TwoStage]
) -> None:
    """Never below the least, and above it by about the noise of one answer, however many there are."""
    beyond, circling, prior_loss = [], 0, []
    for number, problem in enumerate(BY_NOISE[noise]):
        least = exact[id(problem)].loss
        prior, partials = problem.on_support()
        _, report = ide(prior, partials, np.random.default_rng(number))
        assert report.loss >= least - 1e-9
        assert report.converged or report.cycling or report.epochs == 1000
        beyond.append(report.loss - least)
        circling += report.cycling
        prior_loss.append(np.abs(problem.matrix @ problem.prior - problem.answers).sum() - least)
        if report.converged:
            assert report.loss == pytest.approx(least, abs=1e-6)
    assert circling > 5
    assert max(beyond) < 8 * noise
    assert np.mean(beyond) < 1.0 * noise
    assert np.mean(beyond) < 0.1 * np.mean(prior_loss)


def test_a_converged_iteration_need_not_be_nearest_but_is_of_least_loss(exact: dict[int, TwoStage]) -> None:
    """Where answers are not those of any distribution, but the partials agree on the nearest ones."""
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    where = [np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)]
    for pair in itertools.product([np.array([0.2, 0.3]), np.array([0.7, 0.6])], repeat=2):
        partials = [Partial(w, y, True) for w, y in zip(where, pair, strict=True)]
        problem = Problem(prior, partials, prior)
        best = two_stage(prior, problem.matrix, problem.answers)
        _, report = ide(prior, partials, np.random.default_rng(0))
        assert report.converged
        assert report.loss == pytest.approx(best.loss, abs=1e-8)
        assert best.divergence - 1e-9 <= report.divergence < best.divergence + 0.05
