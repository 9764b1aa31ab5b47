"""What a linear strategy promises: the optimum of independent programs, shares that sum to 1, refusals beforehand."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from openprior.errors import OptionError
from openprior.methods.shared.linear_strategy import Strategy, component_burdens, plan_linear
from openprior.privacy.residual_statistics import Residuals
from openprior.privacy.statistics import Counts, Total
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import Workload, all_marginals
from openprior.schema.domain import Domain

ADD, REPLACE = Unit(Relation.ADD_REMOVE), Unit(Relation.REPLACE_ONE)
MIXED = Domain({"a": 2, "b": 3, "c": 4, "d": 7})
WEIGHTED = Workload([("a", "b", "c"), ("c", "d"), ("a", "d"), ("b",)], [1.0, 5.0, 0.3, 2.0]).on(MIXED)


def plan(work: Workload, unit: Unit, **more: object) -> Strategy:
    assert work.domain is not None
    return plan_linear(work, work.domain, unit, np.random.default_rng(0), **more)  # type: ignore[arg-type]


def residual_planner(work: Workload) -> float:
    """The least Σ_A w_A·Σ_cells Var of ResidualPlanner's mechanism at ρ = 1 under add/remove, as its own program:
    measure every component B with variance v_B for Π(nᵢ−1)/nᵢ/(2v_B); a cell of A has the variance
    Σ_{B⊆A} v_B·Π_B(nᵢ−1)/nᵢ·Π_{A∖B} nᵢ⁻². Solved over log v with the price as a constraint."""
    n = work.domain
    assert n is not None
    parts = [
        *dict.fromkeys(
            b for m in work.marginals for k in range(len(m) + 1) for b in itertools.combinations(m, k)
        )
    ]

    def price(logs: np.ndarray) -> float:
        return sum(
            math.prod((n[a] - 1) / n[a] for a in b) / (2 * math.exp(t))
            for b, t in zip(parts, logs, strict=True)
        )

    def error(logs: np.ndarray) -> float:
        at = dict(zip(parts, np.exp(logs), strict=True))
        return sum(
            w
            * n.size(m)
            * at[b]
            * math.prod((n[a] - 1) / n[a] for a in b)
            * math.prod(n[a] ** -2 for a in m if a not in b)
            for m, w in zip(work.marginals, work.weights, strict=True)
            for b in parts
            if set(b) <= set(m)
        )

    # Both are scaled by a factor on all v in opposite ways, so their product is what has to be least.
    end = minimize(
        lambda t: math.log(error(t)) + math.log(price(t)),
        np.zeros(len(parts)),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    return math.exp(end.fun)


@pytest.mark.parametrize(
    "work",
    [
        all_marginals(2).on(MIXED),
        all_marginals(3).on(Domain({"a": 2, "b": 5, "c": 3, "d": 2})),
        WEIGHTED,
    ],
    ids=["pairs", "triples", "weighted"],
)
def test_the_optimum_is_residual_planners(work: Workload) -> None:
    best = plan(work, ADD)
    assert best.loss == pytest.approx(residual_planner(work), rel=1e-6)
    assert plan(work, ADD, strategy="residuals").loss == best.loss
    assert (
        plan(work, ADD, strategy="marginals").loss > best.loss * 1.001
    )  # which marginals alone do not reach


@pytest.mark.parametrize("unit", [ADD, REPLACE, Unit(Relation.REPLACE_ONE, 3)], ids=str)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_best_is_never_worse_than_either(unit: Unit, noise: str) -> None:
    best = plan(WEIGHTED, unit, noise=noise)
    kinds = ["marginals", "residuals"] if noise == "gaussian" else ["marginals"]
    for kind in kinds:
        assert best.loss <= plan(WEIGHTED, unit, noise=noise, strategy=kind).loss * (1 + 1e-9)


def test_both_together_are_better_than_either_under_replace_one() -> None:
    work = all_marginals(2).on(Domain(dict.fromkeys("abcdefgh", 2)))
    best = plan(work, REPLACE)
    assert best.loss < 0.95 * min(plan(work, REPLACE, strategy=s).loss for s in ("marginals", "residuals"))
    assert {type(s) for s in best.statistics} == {Counts, Residuals}


def expected_loss(chosen: Strategy, work: Workload, unit: Unit, noise: str, power: int) -> float:
    """Σ_A w_A Σ_cells Var at ρ = 1 by brute force: the covariance of least squares on the whole domain."""
    n = work.domain
    assert n is not None
    size = n.size()

    def matrix(columns: tuple[str, ...]) -> np.ndarray:
        made = np.eye(1)
        for a in n:
            made = np.kron(made, np.eye(n[a]) if a in columns else np.ones((1, n[a])))
        return made

    information = np.zeros((size, size))
    for statistic, share in zip(chosen.statistics, chosen.shares, strict=True):
        sensitivity = statistic.sensitivity(unit)
        # In a pure run (power 2) at ε²/2 = 1, else at Δ₁·Δ∞/(2s²) = 1; the variance is 2s².
        most = sensitivity.l1 if power == 2 else sensitivity.largest
        spread = sensitivity.l2_squared / 2 if noise == "gaussian" else sensitivity.l1 * most
        reading = matrix(statistic.marginal)
        if isinstance(statistic, Residuals):
            made = np.eye(1)
            for k in statistic.sizes:
                made = np.kron(made, k * np.eye(k) - 1)
            reading = made @ reading
        information += reading.T @ reading * (share**power / spread)
    if unit.n_is_public:
        information += 1e7 * information.trace() * np.ones((size, size)) / size
    covariance = np.linalg.pinv(information, rcond=1e-13, hermitian=True)
    return sum(
        w * float(np.trace(matrix(m) @ covariance @ matrix(m).T))
        for m, w in zip(work.marginals, work.weights, strict=True)
    )


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize(
    ("noise", "strategy", "pure"),
    [
        ("gaussian", "best", False),
        ("gaussian", "marginals", False),
        ("gaussian", "residuals", False),
        ("laplace", "best", False),
        ("laplace", "best", True),
    ],
)
def test_the_promised_loss_is_that_of_brute_force(unit: Unit, noise: str, strategy: str, pure: bool) -> None:
    work = Workload([("a", "b"), ("b", "c")], [1.0, 3.0]).on(Domain({"a": 2, "b": 3, "c": 4}))
    chosen = plan(work, unit, noise=noise, strategy=strategy, pure=pure)
    assert chosen.shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert (chosen.shares > 0).all()
    assert chosen.loss == pytest.approx(expected_loss(chosen, work, unit, noise, 2 if pure else 1), rel=1e-4)


@pytest.mark.parametrize("pure", [False, True])
def test_no_other_shares_of_marginals_do_better(pure: bool) -> None:
    """Nelder and Mead's search, which knows nothing of gradients, ends where the descent does."""
    work = Workload([("a", "b"), ("b", "c")], [1.0, 3.0]).on(Domain({"a": 2, "b": 3, "c": 4}))
    chosen = plan(work, ADD, noise="laplace", pure=pure)
    every = [Total(), *(Counts(m) for m in work.closure())]
    power = 2 if pure else 1

    def loss(logs: np.ndarray) -> float:
        shares = np.exp(np.clip(logs, -9, 9))
        shares /= shares.sum()
        return expected_loss(Strategy(tuple(every), shares, 0.0), work, ADD, "laplace", power)

    starts = np.where([s in chosen.statistics for s in every], 0.0, -6.0)
    end = minimize(loss, starts, method="Nelder-Mead", options={"maxiter": 250, "adaptive": True})
    assert chosen.loss <= end.fun * (1 + 1e-6)
    assert chosen.loss >= end.fun * 0.97


def test_more_weight_is_less_error() -> None:
    domain = Domain({"a": 3, "b": 3, "c": 3})
    even, uneven = (Workload([("a", "b"), ("b", "c")], w).on(domain) for w in ([1.0, 1.0], [1.0, 50.0]))
    share = {
        id(work): dict(zip((s.marginal for s in p.statistics), p.shares, strict=True))
        for work, p in ((w, plan(w, REPLACE, strategy="marginals")) for w in (even, uneven))
    }
    assert share[id(even)]["b", "c"] == pytest.approx(0.5, abs=1e-3)
    assert share[id(uneven)]["b", "c"] > 0.8


def test_the_same_seed_plans_the_same() -> None:
    first, second = (plan(WEIGHTED, ADD, noise="laplace", pure=True) for _ in range(2))
    assert first.statistics == second.statistics
    assert np.array_equal(first.shares, second.shares)


def test_burdens_leave_out_columns_with_one_value() -> None:
    domain = Domain({"one": 1, "b": 3})
    assert component_burdens(Workload([("one", "b"), ("one",)]), domain, total=True) == {
        (): pytest.approx(1 / 3 + 1),
        ("b",): pytest.approx(2),
    }
    assert plan(Workload([("one",)]).on(domain), REPLACE).statistics == ()


def test_what_cannot_be_better_or_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="residuals is for Gaussian noise"):
        plan(WEIGHTED, ADD, noise="laplace", strategy="residuals")
    wide = Workload([("a", "b")]).on(Domain({"a": 5000, "b": 5000}))
    with pytest.raises(OptionError, match="use strategy = marginals"):
        plan(wide, ADD, strategy="residuals")
    assert all(isinstance(s, Counts | Total) for s in plan(wide, ADD).statistics)
