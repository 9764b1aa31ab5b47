"""What to measure, and how sharply, so that least squares gets a workload's answers with the least variance.

Least squares takes the answers apart into residual components (models/components.py). Component B, known with variance
τ_B, adds c_B·τ_B to the workload's total squared error Σ_A w_A Σ_cells Var, with the burden
c_B = Σ_{A⊇B} w_A·Π_{i∈B}(nᵢ−1)·Π_{i∈A∖B} 1/nᵢ. Only public things decide: sizes, weights, the unit, the kind of noise.
Three kinds of strategy:

- *marginals* (HDMM, McKenna, Miklau, Hay & Machanavajjhala 2018): measure marginals a of the workload's closure, with
  per-cell variance s_a². Then 1/τ_B = Σ_{a⊇B} 1/(s_a²·Π_{i∈a∖B} nᵢ); the shares of the budget are found by descent.
- *residuals* (ResidualPlanner, Xiao, He, Zhang & Kifer 2023): measure each component by itself, which costs k_B/τ_B.
  Least Σ c_B·τ_B for Σ k_B/τ_B = ρ is (Σ√(c_B·k_B))²/ρ, with shares ∝ √(c_B·k_B).
- *best*: the least of both and, with Gaussian noise, of marginals and components together.

With Gaussian noise and add/remove residuals are the optimum, because k_B lacks what smaller components would say. Every
marginal buys that, too, and no strategy of marginals can do without: for all pairs of d columns the optimum wants the
precision of one column to be √(d−1) where the pairs alone give d − 1. Under replace-one a component's own worst case
costs more than its share of the worst case of all, so that both together are best. With Laplace noise residuals never
win in a pure run: a column of their matrix has an L1 norm of Π2(nᵢ−1)/nᵢ ≥ 1 times a marginal's (and under replace-one
two differ by no less than a marginal's 2), so the marginal on B tells component B at least as well for the same cost,
and more. Where ρ adds up, Gaussian noise does better than either, so Laplace noise is for marginals alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.one_thread import blas_on_one_thread
from openprior.errors import OptionError
from openprior.models.components import subsets, telling
from openprior.privacy.residual_statistics import MOST_RESIDUAL_CELLS, Residuals
from openprior.privacy.statistics import Counts, Statistic, Total
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, Workload, closure
from openprior.schema.domain import Domain

__all__ = ["STRATEGIES", "Strategy", "check_linear", "component_burdens", "plan_linear"]

Floats = NDArray[np.float64]

STRATEGIES = ("best", "marginals", "residuals")
_NOTHING = 1e-9
"""A share of the budget below which a marginal is not measured, if a larger one has its components."""
_LEAST = 1e-13
"""The smallest share: noise has to stay within 64 bits, however small a weight is."""
_RESTARTS = 2


@dataclass(frozen=True, eq=False)
class Strategy:
    """What is measured, non-adaptively."""

    statistics: tuple[Statistic, ...]
    shares: Floats
    """Of ρ; of ε where the run is pure. They sum to 1."""
    loss: float
    """The workload's total squared error Σ_A w_A Σ_cells Var that is expected at ρ = 1; at another ρ, this over ρ."""


def plan_linear(
    workload: Workload,
    domain: Domain,
    unit: Unit,
    rng: np.random.Generator,
    *,
    noise: str = "gaussian",
    strategy: str = "best",
    pure: bool = False,
) -> Strategy:
    """The strategy of least expected squared error; refuses, before anything is charged, what cannot be measured.

    `rng` is for restarts of the descent. `pure`: shares are of ε, which adds up, and not of ρ.
    """
    burdens = component_burdens(workload, domain, total=not unit.n_is_public)
    fits = all(domain.size(b) <= MOST_RESIDUAL_CELLS for b in burdens)
    check_linear(strategy, noise)
    if strategy == "residuals" and not fits:
        raise OptionError(
            f"strategy = residuals needs marginals of at most {MOST_RESIDUAL_CELLS:,} cells; use strategy = marginals"
        )
    parts = _Parts(burdens, domain, unit, noise, pure=pure)
    both = strategy == "best" and noise == "gaussian" and fits
    if strategy == "residuals" or (both and parts.residuals_are_best()):
        return parts.residuals()
    return parts.sharing_epsilon(rng) if pure else parts.sharing_rho(with_residuals=both)


def check_linear(strategy: str, noise: str) -> None:
    """Refuse what never does better than something else."""
    if strategy == "residuals" and noise == "laplace":
        raise OptionError(
            "strategy = residuals is for Gaussian noise; with Laplace noise use strategy = marginals"
        )


def component_burdens(workload: Workload, domain: Domain, *, total: bool) -> dict[Marginal, float]:
    """c_B of every component that the workload has; of the total only where that has to be measured.

    >>> domain = Domain({"a": 2, "b": 3})
    >>> component_burdens(Workload([("a", "b")]), domain, total=True)
    {(): 0.16666666666666666, ('a',): 0.3333333333333333, ('b',): 1.0, ('a', 'b'): 2.0}
    """
    known: dict[Marginal, float] = {}
    for marginal, weight in zip(workload.marginals, workload.weights, strict=True):
        inside = telling(marginal, domain)
        spread = weight / math.prod(domain[a] for a in inside)
        for part in subsets(inside):
            share = spread * math.prod(domain[a] * (domain[a] - 1) for a in part)
            known[part] = known.get(part, 0.0) + share
    ordered = {part: known[part] for part in ((), *closure(part for part in known if part))}
    if not total:
        del ordered[()]
    return ordered


class _Parts:
    """The components, the marginals that tell them, and what each costs.

    A marginal a with the precision q_a tells component B with M_Ba·q_a, M_Ba = Π_{i∈a∖B} 1/nᵢ, and costs m_a·q_a; the
    component by itself costs k_B per unit of precision.
    """

    def __init__(
        self, burdens: Mapping[Marginal, float], domain: Domain, unit: Unit, noise: str, *, pure: bool
    ) -> None:
        from scipy.sparse import csr_array

        self._names, self._burdens = tuple(burdens), np.array(list(burdens.values()))
        self._domain, self._unit, self._noise, self._pure = domain, unit, noise, pure
        self._counts: list[Statistic] = [Counts(b) if b else Total() for b in burdens]
        self._prices = np.array([self._price(s) for s in self._counts])
        place = {part: i for i, part in enumerate(burdens)}
        told = [(place[b], place[a], b, a) for a in burdens for b in subsets(a) if b in place]
        values = [domain.size(b) / domain.size(a) for _, _, b, a in told]
        rows, columns = [t[0] for t in told], [t[1] for t in told]
        self._matrix = csr_array((values, (rows, columns)), shape=(len(burdens), len(burdens)))
        self._transposed = self._matrix.T.tocsr()

    def _price(self, statistic: Statistic) -> float:
        """The variance times ρ: Δ₂²/2 with Gaussian noise; Δ₁·Δ∞ with Laplace noise of scale s, as 2s² is where
        Δ₁·Δ∞/(2s²) is ρ, which its cost never passes and hardly falls short of where ρ is small. In a pure run, the
        variance times ε²/2: Δ₁², as 2Δ₁²/ε² is.

        Of residuals, that of the component: their numbers are γ times as much.
        """
        sensitivity = statistic.sensitivity(self._unit)
        if self._noise == "laplace":
            return float(sensitivity.l1 * (sensitivity.l1 if self._pure else sensitivity.largest))
        scale = statistic.scale if isinstance(statistic, Residuals) else 1
        return sensitivity.l2_squared / (2 * scale**2)

    def _by_themselves(self) -> list[Statistic]:
        return [Residuals.of(b, self._domain) if b else Total() for b in self._names]

    def residuals(self) -> Strategy:
        """ResidualPlanner's closed form."""
        statistics = self._by_themselves()
        prices = np.array([self._price(s) for s in statistics])
        return self._strategy(np.zeros(len(prices)), np.sqrt(self._burdens / prices), statistics)

    def residuals_are_best(self) -> bool:
        """Whether no marginal is worth its price beside them.

        At their optimum c_B/precision² is λ·k_B, so a little of marginal a saves λ·Σ_{B⊆a} M_Ba·k_B for λ·m_a. With
        Gaussian noise and add/remove both are the same for every marginal: Π(1/nᵢ + (nᵢ−1)/nᵢ) = 1.
        """
        prices = np.array([self._price(s) for s in self._by_themselves()])
        return bool((self._transposed @ prices <= self._prices * (1 + 1e-9)).all())

    def sharing_rho(self, *, with_residuals: bool) -> Strategy:
        """The least error for marginals, or for both, where ρ adds up.

        Σ_B c_B/(r_B + (Mq)_B) + Σ k_B·r_B + Σ m_a·q_a is convex, and its minimum is 2√loss, as scaling all precisions
        shows. The best r_B for a given z = (Mq)_B makes the first two terms 2√(c_B·k_B) − k_B·z up to z = √(c_B/k_B),
        and r_B = 0 and c_B/z from there on: so q ≥ 0 is all that L-BFGS has to find, and there is one minimum only.
        """
        if not self._names:
            return Strategy((), np.zeros(0), 0.0)
        own = self._by_themselves() if with_residuals else []
        k = np.array([self._price(s) for s in own]) if own else np.full(len(self._names), np.inf)
        # Up to here a component is cheaper by itself; where it has no price of its own, nowhere.
        enough = np.sqrt(self._burdens / k)
        scale = np.sqrt(self._burdens / self._prices)
        size = float((scale * self._prices).sum())

        def value(x: Floats) -> tuple[float, Floats]:
            z = self._matrix @ (x * scale)
            more = z >= enough
            inside = np.where(more, z, enough)
            slope = -self._burdens / inside**2
            cost = (self._burdens / inside + slope * (z - inside)).sum() + self._prices @ (x * scale)
            return float(cost) / size, (self._transposed @ slope + self._prices) * scale / size

        precision = _descend(value, np.full(len(scale), 0.5), least=0.0 if own else _LEAST)[1] * scale
        return self._strategy(precision, np.maximum(enough - self._matrix @ precision, 0.0), own)

    def sharing_epsilon(self, rng: np.random.Generator) -> Strategy:
        """The least error for marginals where ε adds up: L-BFGS on the logarithms of their shares θ, from a few places,
        as there may be several minima. A marginal's precision is θ²/m, and the logarithm of Σ_B c_B/(Mq)_B descends."""
        count = len(self._names)
        if not count:
            return Strategy((), np.zeros(0), 0.0)

        def value(t: Floats) -> tuple[float, Floats]:
            shares = _softmax(t)
            weight = shares**2 / self._prices
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                z = self._matrix @ weight
                parts = self._burdens / z
                loss, pull = float(parts.sum()), self._transposed @ (parts / z)
            if not (np.isfinite(loss) and np.isfinite(pull).all()):
                return math.inf, np.zeros(count)
            down = -2 * weight * pull / loss
            return math.log(loss), np.asarray(down - shares * down.sum())

        starts = [np.zeros(count), *(rng.normal(0, 2, count) for _ in range(_RESTARTS))]
        ends = [_descend(value, start) for start in starts]
        shares = _softmax(min(ends, key=lambda end: end[0])[1])
        return self._strategy(shares**2 / self._prices, np.zeros(count), [], power=2)

    def _strategy(
        self, marginals: Floats, alone: Floats, own: Sequence[Statistic], *, power: int = 1
    ) -> Strategy:
        """From the precision of each marginal, and of each component by itself; without what gets next to nothing.

        Shares are of what adds up: ρ, or the square root of it (`power` 2).
        """
        k = np.array([self._price(s) for s in own]) if own else np.zeros(len(alone))
        costs = np.concatenate([self._prices * marginals, k * alone]) ** (1 / power)
        shares = costs / costs.sum()
        kept = shares > _NOTHING
        needed = self._only_there(kept[: len(marginals)], kept[len(marginals) :])
        kept[: len(marginals)] |= needed & (shares[: len(marginals)] >= shares[len(marginals) :])
        kept[len(marginals) :] |= needed & ~kept[: len(marginals)]
        shares = np.where(kept, np.maximum(shares, _LEAST), 0.0)
        shares /= shares.sum()
        rho = shares**power
        with np.errstate(divide="ignore", invalid="ignore"):
            direct = np.where(kept[len(marginals) :], rho[len(marginals) :] / k, 0.0) if own else 0.0
        precision = self._matrix @ (rho[: len(marginals)] / self._prices) + direct
        statistics = [s for s, keep in zip([*self._counts, *own], kept, strict=False) if keep]
        return Strategy(tuple(statistics), shares[kept], float((self._burdens / precision).sum()))

    def _only_there(self, marginals: NDArray[np.bool_], alone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The components that nothing which is kept tells, however little it would."""
        return np.asarray(~((self._matrix @ marginals.astype(float) > 0) | alone))


def _descend(
    value: Callable[[Floats], tuple[float, Floats]], start: Floats, least: float | None = None
) -> tuple[float, Floats]:
    """The least value that L-BFGS finds from here, and where; a function that gives value and gradient.

    On one thread: vectors this short are not worth starting others, which on a busy machine takes milliseconds a step.
    """
    from scipy.optimize import minimize

    limits = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-10}
    bounds = None if least is None else [(least, None)] * len(start)
    with blas_on_one_thread():
        end = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
    return float(end.fun), np.asarray(end.x)


def _softmax(t: Floats) -> Floats:
    weights = np.exp(t - t.max())
    return np.asarray(weights / weights.sum())
