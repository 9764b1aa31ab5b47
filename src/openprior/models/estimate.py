"""Private-PGM's estimation: the graphical model closest to noisy marginals (McKenna, Sheldon & Miklau 2019).

Minimise f(μ) = ½ Σᵢ wᵢ‖μ_τᵢ − yᵢ‖² over the marginals μ of distributions with the given total. The steps are taken in
the log-potentials θ of the measured marginals, where the gradient step θ − a·∇f(μ) is entropic mirror descent; among
all optima it finds the one of largest entropy. Two ways:

- `mirror`: plain steps with a line search, as published.
- `accelerated`: Nesterov's momentum on θ, begun again whenever f rises, and a step length that follows the curvature
  seen on the way: f is L-smooth relative to the entropy, with L = N·Σᵢ wᵢ at worst (Pinsker) and far less in practice.

Both stop on a certificate. f is convex, so f(μ) − f* ≤ ⟨∇f, μ⟩ − N·min_x Σᵢ ∇fᵢ(x_τᵢ) = gap, and that minimum over all
rows is one more pass of messages, with max for log-sum-exp. No number of steps has to be guessed.

The potentials belong to measured marginals, not to cliques; so they outlive any change of the tree, and the next
fit starts where the last one ended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.data.domain import Domain
from openprior.errors import OptionError, WorkloadError
from openprior.models.graphical import GraphicalModel
from openprior.models.junction import JunctionTree, Structure
from openprior.models.propagation import Propagation
from openprior.workload import Marginal, canonical

__all__ = ["METHODS", "Estimator", "Fit", "Observation", "estimate", "estimate_total"]

Floats = NDArray[np.float64]

METHODS = ("accelerated", "mirror")
_DEPTH = 6.0
_LEAST = 0.05
"""The smallest factor by which a new observation moves a cell before the first step."""
_CHECK = 10
"""Steps between two looks at the gap, which costs about a third of a step."""


@dataclass(frozen=True, eq=False)
class Observation:
    """A marginal as it was measured: counts with noise, and their weight in the loss (1/σ², or 1 for all alike)."""

    marginal: Marginal
    values: Floats
    weight: float = 1.0
    sigma: float = 0.0
    """The standard deviation of the noise, if it is known: no fit need be much closer than that."""


@dataclass(frozen=True)
class Fit:
    """How a fit went."""

    objective: float
    """½ Σ wᵢ‖μ_τᵢ − yᵢ‖² over the observations."""
    gap: float
    """The objective is above its minimum by at most this."""
    steps: int
    """Passes of messages that it took."""
    converged: bool
    """Whether the gap reached the tolerance."""


def estimate(
    domain: Domain,
    observations: Iterable[Observation],
    total: float | None = None,
    *,
    zeros: Mapping[Marginal, NDArray[np.bool_]] | None = None,
    method: str = "accelerated",
    tolerance: float = 1e-3,
    max_steps: int = 2000,
) -> GraphicalModel:
    """The model closest to the observations; `Estimator` does the same again and again, and says how it went."""
    return Estimator(domain, total, zeros=zeros, method=method, tolerance=tolerance, max_steps=max_steps).fit(
        observations
    )


def estimate_total(observations: Iterable[Observation]) -> float:
    """The number of rows, from the sums of the measured marginals, weighted by inverse variance; at least 1.

    >>> m = Observation(("a",), np.array([3.0, 5.0]), 1.0), Observation(("b",), np.array([10.0]), 1.0)
    >>> round(estimate_total(m), 3)  # 8 with variance 2, and 10 with variance 1
    9.333
    """
    top = bottom = 0.0
    for seen in observations:
        precision = seen.weight / len(seen.values)
        top, bottom = top + precision * float(seen.values.sum()), bottom + precision
    return max(1.0, top / bottom) if bottom > 0 else 1.0


class Estimator:
    """Fits models to growing sets of observations, each time from where the last fit ended."""

    def __init__(
        self,
        domain: Domain,
        total: float | None = None,
        *,
        zeros: Mapping[Marginal, NDArray[np.bool_]] | None = None,
        method: str = "accelerated",
        tolerance: float = 1e-3,
        max_steps: int = 2000,
    ) -> None:
        """`total` is the number of rows, estimated from the observations if not given; `zeros` has, for some
        marginals, which of their cells no row can be in."""
        if method not in METHODS:
            raise OptionError(f"method '{method}' must be one of {', '.join(METHODS)}")
        if max_steps < 1 or not tolerance > 0:
            raise OptionError(
                f"max_steps ({max_steps}) must be at least 1 and tolerance ({tolerance}) positive"
            )
        if total is not None and not (np.isfinite(total) and total > 0):
            raise OptionError(f"total ({total}) must be positive")
        self.domain, self.total = domain, total
        self.method, self.tolerance, self.max_steps = method, tolerance, max_steps
        self.last: Fit | None = None
        self._zeros: dict[Marginal, NDArray[np.bool_]] = {}
        for marginal, mask in (zeros or {}).items():
            key, flat = canonical(marginal, domain), _flat_mask(marginal, mask, domain)
            self._zeros[key] = flat | self._zeros.get(key, False)
        self._potentials: dict[Marginal, Floats] = {}
        self._step: float | None = None
        self._observations = 0

    def fit(self, observations: Iterable[Observation], structure: Structure | None = None) -> GraphicalModel:
        """The model closest to these observations; `structure`, if given, has cliques for all of them."""
        seen = list(observations)
        problem = _Problem(self.domain, seen, self._zeros, self.total, structure)
        find = _accelerated if self.method == "accelerated" else _mirror
        point, self.last, self._step = find(
            problem,
            self._start(problem, len(seen)),
            self._step,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
        )
        for m in problem.propagation.factors:
            self._potentials[m] = problem.part(point.potentials, m)
        problem.evaluate(point.potentials)
        return GraphicalModel(problem.propagation.tree, problem.propagation.clique_tables(), problem.total)

    def _start(self, problem: "_Problem", observations: int) -> "_Point":
        """Where the last fit ended, with one new observation already taken in; or the uniform distribution.

        A potential that earlier fits have driven far down would take very many steps to come up again, as steps are
        multiplied with what is left of the cell; so, if there is anything new, it starts no deeper than 6 below its
        factor's largest.
        """
        factors = problem.propagation.factors
        start = np.zeros(problem.propagation.length)
        for m in factors:
            if m in self._potentials:
                known = self._potentials[m]
                deepest = known.max() - _DEPTH if observations != self._observations else -np.inf
                problem.part(start, m)[:] = np.maximum(known, deepest)
        self._observations = observations
        point = problem.evaluate(start)
        fresh = [m for m in factors if m not in self._potentials]
        if self._potentials and len(fresh) == 1:
            point = problem.evaluate(problem.shortcut(point, fresh[0]))
        return point


@dataclass(frozen=True, eq=False)
class _Point:
    """Potentials, and everything that follows from them."""

    potentials: Floats
    marginals: Floats
    gradient: Floats
    objective: float
    log_z: float


class _Problem:
    """The loss on one tree. Observations of the same marginal are one, with their weights added: f less a constant."""

    def __init__(
        self,
        domain: Domain,
        observations: list[Observation],
        zeros: Mapping[Marginal, NDArray[np.bool_]],
        total: float | None,
        structure: Structure | None,
    ) -> None:
        merged: dict[Marginal, tuple[Floats, float]] = {}
        self._constant = 0.0
        for seen in observations:
            marginal = canonical(seen.marginal, domain)
            if seen.values.shape != (domain.size(marginal),) or not np.isfinite(seen.values).all():
                raise WorkloadError(
                    f"an observation of {marginal} needs {domain.size(marginal)} finite numbers"
                )
            counts = _in_order(seen.values, seen.marginal, domain)
            if not (np.isfinite(seen.weight) and seen.weight > 0):
                raise OptionError(f"the weight of {marginal} ({seen.weight}) must be positive")
            values, weight = merged.get(marginal, (np.zeros(len(counts)), 0.0))
            both = weight + seen.weight
            mean = values + (counts - values) * (seen.weight / both)
            self._constant += 0.5 * seen.weight * weight / both * float(((counts - values) ** 2).sum())
            merged[marginal] = (mean, both)
        self.total = estimate_total(observations) if total is None else float(total)
        factors = [*merged, *(m for m in zeros if m not in merged)]
        needed = structure or Structure(domain, factors)
        self.propagation = Propagation(JunctionTree(domain, needed.cliques), factors)
        length = self.propagation.length
        self._values, self._weights, self._fixed = np.zeros(length), np.zeros(length), np.zeros(length)
        for m, (values, weight) in merged.items():
            self.part(self._values, m)[:] = values
            self.part(self._weights, m)[:] = weight
        for m, impossible in zeros.items():
            self.part(self._fixed, m)[impossible] = -np.inf
        self.noise = 0.5 * sum(o.weight * o.sigma**2 * len(o.values) for o in observations)
        self.smoothness = self.total * sum(weight for _, weight in merged.values())
        self.scale = self._constant + 0.5 * sum(
            weight * float(((values - self.total / len(values)) ** 2).sum())
            for values, weight in merged.values()
        )

    def part(self, vector: Floats, marginal: Marginal) -> Floats:
        """The part of a vector that belongs to one factor, as a view."""
        start = self.propagation.starts[marginal]
        return vector[start : start + self.propagation.tree.domain.size(marginal)]

    def evaluate(self, potentials: Floats) -> _Point:
        """One pass of messages."""
        found, log_z = self.propagation.marginals(potentials + self._fixed, self.total)
        if log_z == -np.inf:
            raise WorkloadError("the structural zeros leave no possible row; remove some of them")
        marginals = found.copy()
        residual = marginals - self._values
        gradient = self._weights * residual
        return _Point(
            potentials, marginals, gradient, 0.5 * float(residual @ gradient) + self._constant, log_z
        )

    def gap(self, at: _Point) -> float:
        """How far the objective is above its minimum, at most."""
        best = self.propagation.largest(self._fixed - at.gradient)
        return max(0.0, float(at.gradient @ at.marginals) + self.total * best)

    def settled(self, at: _Point, gap: float, tolerance: float) -> bool:
        """Whether the gap is small beside the objective of the uniform distribution (or of this one, if larger): below
        the tolerance, or below what the noise alone adds to the objective and twenty times the tolerance.

        Observations that a model can match have a minimum of 0, and no gap is small beside that. Fitting noise more
        closely does not bring the answers closer to the truth (on ADULT at ε = 1 it takes them away from it).
        """
        small = tolerance * max(at.objective, self.scale)
        return gap <= max(small, min(self.noise, 20 * small))

    def shortcut(self, at: _Point, marginal: Marginal) -> Floats:
        """Potentials that bring one new observation to its values at once (a step of proportional fitting), in so far
        as they are positive."""
        wanted, found = self.part(self._values, marginal), self.part(at.marginals, marginal)
        potentials = at.potentials.copy()
        part = self.part(potentials, marginal)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.maximum(wanted / found, _LEAST)
        part[found > 0] += np.log(ratio[found > 0])
        return potentials

    def curvature(self, a: _Point, b: _Point) -> tuple[float, float]:
        """½‖μ_b − μ_a‖²_w, and the relative entropy of b to a: their ratio is the smoothness between them."""
        move = b.marginals - a.marginals
        square = 0.5 * float(move @ (self._weights * move))
        entropy = float((b.potentials - a.potentials) @ b.marginals) - self.total * (b.log_z - a.log_z)
        return square, entropy


def _accelerated(
    problem: _Problem, here: _Point, step: float | None, *, tolerance: float, max_steps: int
) -> tuple[_Point, Fit, float | None]:
    """Momentum on the potentials; returns the best point."""
    if not problem.smoothness or problem.settled(here, gap := problem.gap(here), tolerance):
        return here, Fit(here.objective, gap if problem.smoothness else 0.0, 1, True), step
    best, behind, pace = here, here.potentials, 1.0
    safe = 1.0 / problem.smoothness
    a, growth, kept, steps = max(step or 8 * safe, safe), 1.1, 0, 1
    while steps < max_steps:
        ahead = here.potentials - a * here.gradient
        next_pace = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        momentum = (pace - 1) / next_pace
        there = problem.evaluate(ahead + momentum * (ahead - behind))
        steps += 1
        square, entropy = problem.curvature(here, there)
        smooth = a * square <= entropy
        if there.objective > here.objective and not smooth:
            if a == safe and pace == 1.0:
                break  # a step that cannot fail has failed: what is left is rounding
            a, growth = max(0.6 * a, safe), 1 + (growth - 1) / 2
            pace = pace / 2 if pace > 2 else 1.0
            behind = here.potentials - (here.potentials - behind) / 2 if pace > 1 else here.potentials
            continue
        a *= growth if smooth else 0.9
        a = max(a, safe)
        if there.objective > here.objective:
            behind, pace = there.potentials, 1.0
        else:
            behind, pace = ahead, next_pace
        here, kept = there, kept + 1
        best = here if here.objective < best.objective else best
        if kept % _CHECK == 0 and problem.settled(best, gap := problem.gap(best), tolerance):
            return best, Fit(best.objective, gap, steps, True), a
    gap = problem.gap(best)
    return best, Fit(best.objective, gap, steps, problem.settled(best, gap, tolerance)), a


def _mirror(
    problem: _Problem, here: _Point, step: float | None, *, tolerance: float, max_steps: int
) -> tuple[_Point, Fit, float | None]:
    """Mirror descent with a line search: a step is kept if it brings half of what its slope promised."""
    if not problem.smoothness or problem.settled(here, gap := problem.gap(here), tolerance):
        return here, Fit(here.objective, gap if problem.smoothness else 0.0, 1, True), step
    safe = 1.0 / problem.smoothness
    a, kept, steps = max(step or 8 * safe, safe), 0, 1
    while steps < max_steps:
        there = problem.evaluate(here.potentials - a * here.gradient)
        steps += 1
        promised = 0.5 * float(here.gradient @ (here.marginals - there.marginals))
        if there.objective > here.objective - promised:
            if a == safe:
                break
            a = max(0.5 * a, safe)
            continue
        here, a, kept = there, 1.5 * a, kept + 1
        if kept % _CHECK == 0 and problem.settled(here, gap := problem.gap(here), tolerance):
            return here, Fit(here.objective, gap, steps, True), a
    gap = problem.gap(here)
    return here, Fit(here.objective, gap, steps, problem.settled(here, gap, tolerance)), a


def _flat_mask(marginal: Marginal, mask: NDArray[np.bool_], domain: Domain) -> NDArray[np.bool_]:
    """A mask of impossible cells, checked, in the domain's order of the marginal's columns."""
    key = canonical(marginal, domain)
    cells, shape = np.asarray(mask), tuple(domain[a] for a in marginal)
    if cells.dtype != np.bool_ or cells.shape not in (shape, (domain.size(key),)):
        raise WorkloadError(
            f"structural zeros of {key} need true or false for each cell, in an array of {shape}"
        )
    flat = _in_order(cells.reshape(-1), marginal, domain)
    if flat.all():
        raise WorkloadError(f"the structural zeros of {key} leave no possible row; remove some of them")
    return flat


def _in_order(cells: NDArray[Any], marginal: Iterable[str], domain: Domain) -> NDArray[Any]:
    """A flat table with its axes in the domain's order rather than the marginal's."""
    given = tuple(marginal)
    key = canonical(given, domain)
    if key == given:
        return cells
    table = cells.reshape([domain[a] for a in given]).transpose([given.index(a) for a in key])
    return np.ascontiguousarray(table).reshape(-1)
