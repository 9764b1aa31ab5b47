"""The loss of Private-PGM on one junction tree: f(μ) = ½ Σᵢ wᵢ‖μ_τᵢ − yᵢ‖², its gradient, and a bound on its minimum.

`estimation.py` minimises it. Everything here is one pass of messages or a few sums over the measured cells.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError, WorkloadError
from openprior.models.graphical.junction import JunctionTree, Structure
from openprior.models.graphical.propagation import Propagation
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain

__all__ = ["Loss", "Point", "Weigh", "alike", "by_precision", "estimate_total", "in_order"]

Floats = NDArray[np.float64]
Weight = float | Floats
"""Of all cells of a measurement, or of each."""
Weigh = Callable[[Measurement], Weight]
"""The weight wᵢ of a measurement in the loss: `by_precision` or `alike`."""

_LEAST = 0.05
"""The smallest factor by which a new measurement moves a cell before the first step."""


def by_precision(measurement: Measurement) -> Weight:
    """wᵢ = 1/σᵢ²: the least loss is the largest likelihood, if the noise is Gaussian. Cell by cell, where cells are
    sums of several noisy numbers."""
    sigma = measurement.sigma
    if not 0 < sigma < math.inf:
        raise OptionError(
            f"the sigma of {measurement.marginal} ({sigma}) must be positive and finite; "
            "counts without noise can only be weighed alike"
        )
    return 1 / measurement.variance


def alike(measurement: Measurement) -> float:
    """wᵢ = 1, whatever the noise; σ says only how closely a fit need come, and may be 0."""
    return 1.0


def estimate_total(measurements: Iterable[Measurement], weigh: Weigh = by_precision) -> float:
    """The number of rows, from the sums of the measured marginals, weighted by inverse variance; at least 1.

    >>> m = Measurement.of(("a",), np.array([3.0, 5.0]), 1.0), Measurement.of(("b",), np.array([10.0]), 1.0)
    >>> round(estimate_total(m), 3)  # 8 with variance 2, and 10 with variance 1
    9.333
    """
    top = bottom = 0.0
    for measured in measurements:
        weight, cells = weigh(measured), len(measured.values)
        precision = 1 / float((1 / weight).sum()) if isinstance(weight, np.ndarray) else weight / cells
        top, bottom = top + precision * float(measured.values.sum()), bottom + precision
    return max(1.0, top / bottom) if bottom > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Point:
    """Potentials, and everything that follows from them."""

    potentials: Floats
    marginals: Floats
    gradient: Floats
    objective: float
    log_z: float


class Loss:
    """The loss on one tree. Measurements of the same marginal are one, with their weights added: f less a constant."""

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        weigh: Weigh,
        zeros: Mapping[Marginal, NDArray[np.bool_]],
        total: float | None,
        structure: Structure | None,
    ) -> None:
        merged: dict[Marginal, tuple[Floats, Weight]] = {}
        self._constant = 0.0
        for measured in measurements:
            marginal, counts = _checked(measured, domain)
            own = weigh(measured)
            if isinstance(own, np.ndarray):
                own = in_order(own, measured.marginal, domain)
            values, weight = merged.get(marginal, (np.zeros(len(counts)), 0.0))
            both = weight + own
            mean = values + (counts - values) * (own / both)
            self._constant += _summed(0.5 * own * weight / both, (counts - values) ** 2)
            merged[marginal] = (mean, both)
        self.total = estimate_total(measurements, weigh) if total is None else float(total)
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
        self.noise = 0.5 * sum(_summed(weigh(m) * m.variance, np.ones(len(m.values))) for m in measurements)
        self.smoothness = self.total * sum(float(np.max(weight)) for _, weight in merged.values())
        self.scale = self._constant + 0.5 * sum(
            _summed(weight, (values - self.total / len(values)) ** 2) for values, weight in merged.values()
        )

    def part(self, vector: Floats, marginal: Marginal) -> Floats:
        """The part of a vector that belongs to one factor, as a view."""
        start = self.propagation.starts[marginal]
        return vector[start : start + self.propagation.tree.domain.size(marginal)]

    def evaluate(self, potentials: Floats) -> Point:
        """One pass of messages."""
        from openprior.models.graphical.loss_loops import residuals

        view, log_z = self.propagation.marginals(potentials + self._fixed, self.total)
        if log_z == -np.inf:
            raise WorkloadError("the structural zeros leave no possible row; remove some of them")
        marginals, gradient = np.empty(len(view)), np.empty(len(view))
        objective = residuals(view, self._values, self._weights, marginals, gradient)
        return Point(potentials, marginals, gradient, float(objective) + self._constant, log_z)

    def gap(self, at: Point) -> float:
        """How far the objective is above its minimum, at most."""
        from openprior.models.graphical.loss_loops import dot

        best = self.propagation.largest(self._fixed - at.gradient)
        return max(0.0, float(dot(at.gradient, at.marginals)) + self.total * best)

    def settled(self, at: Point, gap: float, tolerance: float) -> bool:
        """Whether the gap is small beside the objective of the uniform distribution (or of this one, if larger): below
        the tolerance, or below what the noise alone adds to the objective and twenty times the tolerance.

        Measurements that a model can match have a minimum of 0, and no gap is small beside that. Fitting noise more
        closely does not bring the answers closer to the truth (on ADULT at ε = 1 it takes them away from it).
        """
        small = tolerance * max(at.objective, self.scale)
        return gap <= max(small, min(self.noise, 20 * small))

    def shortcut(self, at: Point, marginal: Marginal) -> Floats:
        """Potentials that bring one new measurement to its values at once (a step of proportional fitting), in so far
        as they are positive."""
        values, fitted = self.part(self._values, marginal), self.part(at.marginals, marginal)
        potentials = at.potentials.copy()
        part = self.part(potentials, marginal)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.maximum(values / fitted, _LEAST)
        part[fitted > 0] += np.log(ratio[fitted > 0])
        return potentials

    def curvature(self, a: Point, b: Point) -> tuple[float, float]:
        """½‖μ_b − μ_a‖²_w, and the relative entropy of b to a: their ratio is the smoothness between them."""
        from openprior.models.graphical.loss_loops import move

        square, along = move(self._weights, a.marginals, b.marginals, a.potentials, b.potentials)
        return float(square), float(along) - self.total * (b.log_z - a.log_z)


def _summed(weight: Weight, squares: Floats) -> float:
    """Σ w·s over the cells."""
    if isinstance(weight, np.ndarray):
        return float((weight * squares).sum())
    return weight * float(squares.sum())


def _checked(measured: Measurement, domain: Domain) -> tuple[Marginal, Floats]:
    """The marginal and its noisy counts, in the domain's order."""
    marginal = canonical(measured.marginal, domain)
    if measured.values.shape != (domain.size(marginal),) or not np.isfinite(measured.values).all():
        raise WorkloadError(f"a measurement of {marginal} needs {domain.size(marginal)} finite numbers")
    return marginal, in_order(measured.values, measured.marginal, domain)


def in_order(cells: NDArray[Any], marginal: Iterable[str], domain: Domain) -> NDArray[Any]:
    """A flat table with its axes in the domain's order rather than the marginal's."""
    given = tuple(marginal)
    key = canonical(given, domain)
    if key == given:
        return cells
    table = cells.reshape([domain[a] for a in given]).transpose([given.index(a) for a in key])
    return np.ascontiguousarray(table).reshape(-1)
