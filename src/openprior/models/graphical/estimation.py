"""Private-PGM's estimation: the graphical model closest to noisy marginals (McKenna, Sheldon & Miklau 2019).

Minimise f(μ) = ½ Σᵢ wᵢ‖μ_τᵢ − yᵢ‖² over the marginals μ of distributions with the given total. The steps are taken in
the log-potentials θ of the measured marginals, where the gradient step θ − a·∇f(μ) is entropic mirror descent; among
all optima it finds the one of largest entropy. Two ways:

- `mirror`: plain steps with a line search, as published.
- `accelerated`: Nesterov's momentum on θ, begun again whenever f rises, and a step length that follows the curvature
  seen on the way: f is L-smooth relative to the entropy, with L = N·Σᵢ wᵢ at worst (Pinsker) and far less in practice.

Both stop on a certificate. f is convex, so f(μ) − f* ≤ ⟨∇f, μ⟩ − N·min_x Σᵢ ∇fᵢ(x_τᵢ) = gap, and that minimum over all
rows is one more pass of messages, with max for log-sum-exp; `max_steps` is only how long one is willing to wait.

The potentials belong to measured marginals, not to cliques; so they outlive any change of the tree, and the next
fit starts where the last one ended.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError, WorkloadError
from openprior.models.graphical.junction import Structure
from openprior.models.graphical.loss import Loss, Point, Weigh, alike, by_precision, estimate_total, in_order
from openprior.models.graphical.model import GraphicalModel
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain

__all__ = ["METHODS", "Estimator", "Fit", "alike", "by_precision", "estimate", "estimate_total"]

Floats = NDArray[np.float64]

METHODS = ("accelerated", "mirror")
_DEPTH, _DEEPEST = 6.0, 12.0
"""How far below its factor's largest a potential may start, at least and at most."""
_CHECK = 10
"""Steps between two looks at the gap, which costs about a third of a step."""


@dataclass(frozen=True)
class Fit:
    """How a fit went."""

    objective: float
    """½ Σ wᵢ‖μ_τᵢ − yᵢ‖² over the measurements."""
    gap: float
    """The objective is above its minimum by at most this."""
    steps: int
    """Passes of messages that it took."""
    converged: bool
    """Whether the gap reached the tolerance."""


def estimate(
    domain: Domain,
    measurements: Iterable[Measurement],
    total: float | None = None,
    *,
    weigh: Weigh = by_precision,
    zeros: Mapping[Marginal, NDArray[np.bool_]] | None = None,
    method: str = "accelerated",
    tolerance: float = 1e-3,
    max_steps: int = 2000,
) -> GraphicalModel:
    """The model closest to the measurements; `Estimator` does the same again and again, and says how it went."""
    estimator = Estimator(
        domain, total, weigh=weigh, zeros=zeros, method=method, tolerance=tolerance, max_steps=max_steps
    )
    return estimator.fit(measurements)


class Estimator:
    """Fits models to growing sets of measurements, each time from where the last fit ended."""

    def __init__(
        self,
        domain: Domain,
        total: float | None = None,
        *,
        weigh: Weigh = by_precision,
        zeros: Mapping[Marginal, NDArray[np.bool_]] | None = None,
        method: str = "accelerated",
        tolerance: float = 1e-3,
        max_steps: int = 2000,
    ) -> None:
        """`total` is the number of rows, estimated from the measurements if not given; `weigh` gives each its weight
        in the loss; `zeros` has, for some marginals, which of their cells no row can be in."""
        if method not in METHODS:
            raise OptionError(f"method '{method}' must be one of {', '.join(METHODS)}")
        if max_steps < 1 or not tolerance > 0:
            raise OptionError(
                f"max_steps ({max_steps}) must be at least 1 and tolerance ({tolerance}) positive"
            )
        if total is not None and not (np.isfinite(total) and total > 0):
            raise OptionError(f"total ({total}) must be positive")
        self.domain, self.total, self.weigh = domain, total, weigh
        self.method, self.tolerance, self.max_steps = method, tolerance, max_steps
        self.last: Fit | None = None
        self._zeros: dict[Marginal, NDArray[np.bool_]] = {}
        for marginal, mask in (zeros or {}).items():
            key, flat = canonical(marginal, domain), _flat_mask(marginal, mask, domain)
            self._zeros[key] = flat | self._zeros.get(key, False)
        self._potentials: dict[Marginal, Floats] = {}
        self._step: float | None = None
        self._count = 0

    def fit(self, measurements: Iterable[Measurement], structure: Structure | None = None) -> GraphicalModel:
        """The model closest to these measurements; `structure`, if given, has cliques for all of them."""
        given = list(measurements)
        loss = Loss(self.domain, given, self.weigh, self._zeros, self.total, structure)
        descend = _accelerated if self.method == "accelerated" else _mirror
        point, self.last, self._step = descend(
            loss,
            self._start(loss, given),
            self._step,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
        )
        for m in loss.propagation.factors:
            self._potentials[m] = loss.part(point.potentials, m)
        loss.evaluate(point.potentials)
        tables = loss.propagation.clique_tables(1.0)
        return GraphicalModel.calibrated(loss.propagation.tree, tables, loss.total)

    def _start(self, loss: Loss, given: list[Measurement]) -> Point:
        """Where the last fit ended, with one new measurement already taken in; or the uniform distribution.

        A potential that earlier fits have driven far down would take very many steps to come up again, as steps are
        multiplied with what is left of the cell; so, if there is anything new, it starts no deeper than 6 below its
        factor's largest, or where all rows together would be four times the smallest noise, if that is deeper: with
        little noise the same cells would have to be driven down again in every round. Chosen among five rules by AIM on
        ADULT: deeper by 2.5 than this, its error at ε = 1 is 6 % larger (three seeds); no deeper than 6, its error at
        ε = 10 is 5 % larger (one seed, fits limited to ten seconds).
        """
        factors = loss.propagation.factors
        sharpest = min((m.sigma for m in given if m.sigma > 0), default=math.inf)
        depth = min(max(math.log(loss.total / 4) - math.log(sharpest), _DEPTH), _DEEPEST)
        start = np.zeros(loss.propagation.length)
        for m in factors:
            if m in self._potentials:
                known = self._potentials[m]
                deepest = known.max() - depth if len(given) != self._count else -np.inf
                loss.part(start, m)[:] = np.maximum(known, deepest)
        self._count = len(given)
        point = loss.evaluate(start)
        fresh = [m for m in factors if m not in self._potentials]
        if self._potentials and len(fresh) == 1:
            point = loss.evaluate(loss.shortcut(point, fresh[0]))
        return point


def _accelerated(
    loss: Loss, here: Point, step: float | None, *, tolerance: float, max_steps: int
) -> tuple[Point, Fit, float | None]:
    """Momentum on the potentials; returns the best point."""
    if not loss.smoothness or loss.settled(here, gap := loss.gap(here), tolerance):
        return here, Fit(here.objective, gap if loss.smoothness else 0.0, 1, True), step
    best, behind, pace = here, here.potentials, 1.0
    safe = 1.0 / loss.smoothness
    a, growth, kept, steps = max(step or 8 * safe, safe), 1.1, 0, 1
    while steps < max_steps:
        ahead = here.potentials - a * here.gradient
        next_pace = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        momentum = (pace - 1) / next_pace
        there = loss.evaluate(ahead + momentum * (ahead - behind))
        steps += 1
        square, entropy = loss.curvature(here, there)
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
        if kept % _CHECK == 0 and loss.settled(best, gap := loss.gap(best), tolerance):
            return best, Fit(best.objective, gap, steps, True), a
    gap = loss.gap(best)
    return best, Fit(best.objective, gap, steps, loss.settled(best, gap, tolerance)), a


def _mirror(
    loss: Loss, here: Point, step: float | None, *, tolerance: float, max_steps: int
) -> tuple[Point, Fit, float | None]:
    """Mirror descent with a line search: a step is kept if it brings half of what its slope promised."""
    if not loss.smoothness or loss.settled(here, gap := loss.gap(here), tolerance):
        return here, Fit(here.objective, gap if loss.smoothness else 0.0, 1, True), step
    safe = 1.0 / loss.smoothness
    a, kept, steps = max(step or 8 * safe, safe), 0, 1
    while steps < max_steps:
        there = loss.evaluate(here.potentials - a * here.gradient)
        steps += 1
        promised = 0.5 * float((here.gradient * (here.marginals - there.marginals)).sum())
        if there.objective > here.objective - promised:
            if a == safe:
                break
            a = max(0.5 * a, safe)
            continue
        here, a, kept = there, 1.5 * a, kept + 1
        if kept % _CHECK == 0 and loss.settled(here, gap := loss.gap(here), tolerance):
            return here, Fit(here.objective, gap, steps, True), a
    gap = loss.gap(here)
    return here, Fit(here.objective, gap, steps, loss.settled(here, gap, tolerance)), a


def _flat_mask(marginal: Marginal, mask: NDArray[np.bool_], domain: Domain) -> NDArray[np.bool_]:
    """A mask of impossible cells, checked, in the domain's order of the marginal's columns."""
    key = canonical(marginal, domain)
    cells, shape = np.asarray(mask), tuple(domain[a] for a in marginal)
    if cells.dtype != np.bool_ or cells.shape not in (shape, (domain.size(key),)):
        raise WorkloadError(
            f"structural zeros of {key} need true or false for each cell, in an array of {shape}"
        )
    flat = in_order(cells.reshape(-1), marginal, domain)
    if flat.all():
        raise WorkloadError(f"the structural zeros of {key} leave no possible row; remove some of them")
    return flat
