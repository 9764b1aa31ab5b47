"""Which marginals to measure, decided on public data before anything private is looked at.

Two ways. *Published*: pairwise mutual information makes a graph of strong edges; its cliques are measured where there
are many rows (W_S), and attributes that are nearly independent of each other where there are few (W_G). *Expected*: the
set of one- and two-way marginals that leaves the least expected error of all pairs at the noise that so many
measurements would have (dependence.py); what is measured of one attribute tells of another as much as their mutual
information says.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.methods.shared.dependence import Dependence
from openprior.privacy.calibrate import gaussian_sigma_squared, laplace_scale, pure_epsilon
from openprior.privacy.unit import Unit
from openprior.questions.workload import Marginal, Workload
from openprior.schema.domain import Domain

__all__ = ["cliques", "expected_best", "roots", "variances", "within"]

Floats = NDArray[np.float64]

_STRONG = 0.1
"""Share of the smaller entropy that makes an edge strong, or a root dependent on another."""
_WIDEST = 3
"""Attributes of a clique."""
_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48)
"""Numbers of marginals that are considered."""
_PAIRS = 120
"""Pairs that are considered: those with the most to gain."""
_CONSTANT = 1.2
"""An attribute with fewer values than this in effect is no part of a pair: it would add cells and tell nothing."""


def cliques(known: Dependence) -> list[Marginal]:
    """Cliques of strong edges, of at most three attributes, that hold every attribute: the one with the most
    information that is not in those before it comes next. An attribute without a strong edge stands alone."""
    strong = {p: known.information(p) for p in known.pairs if known.strength(p) >= _STRONG}
    candidates: list[tuple[Marginal, frozenset[Marginal]]] = []
    for size in range(1, min(_WIDEST, len(known.attributes)) + 1):
        for group in itertools.combinations(known.attributes, size):
            edges: frozenset[Marginal] = frozenset(itertools.combinations(group, 2))
            if edges <= strong.keys():
                candidates.append((group, edges))
    taken: list[Marginal] = []
    told: set[Marginal] = set()
    left = set(known.attributes)
    while left:
        useful = [c for c in candidates if left & set(c[0])]
        group, edges = max(useful, key=lambda c: (sum(strong[e] for e in c[1] - told), -len(c[0])))
        taken.append(group)
        told |= edges
        left -= set(group)
    return taken


def roots(known: Dependence) -> list[Marginal]:
    """Attributes that are nearly independent of each other: the most uncertain first, then whatever is not tied to one
    that is taken."""
    order = sorted(known.attributes, key=lambda a: -known.entropy((a,)))
    taken: list[str] = []
    for a in order:
        pairs = [tuple(sorted((a, b), key=known.attributes.index)) for b in taken]
        if known.entropy((a,)) > 1e-9 and all(known.strength(p) < _STRONG for p in pairs):
            taken.append(a)
    return [(a,) for a in known.attributes if a in taken] or [(order[0],)]


def expected_best(
    known: Dependence, workload: Workload, variance_of: Mapping[int, float], *, most: int = 48
) -> list[Marginal]:
    """The one- and two-way marginals whose measurement leaves the least expected error of the workload's pairs.

    `variance_of` gives the noise variance of each marginal when so many are measured.
    """
    best: tuple[float, list[Marginal]] = (math.inf, [])
    plan = _Plan(known, workload)
    for count in sorted(variance_of):
        if count > most:
            break
        choice = plan.greedy(count, variance_of[count])
        if choice[0] < best[0]:
            best = choice
        elif choice[0] > 1.1 * best[0]:
            break
    return best[1]


class _Plan:
    """Expected error of all pairs, for sets of measured marginals at one noise level."""

    def __init__(self, known: Dependence, workload: Workload) -> None:
        self._known = known
        names = known.attributes
        d = len(names)
        self._at = {a: i for i, a in enumerate(names)}
        weights = np.zeros((d, d))
        for marginal, weight in zip(workload.marginals, workload.weights, strict=True):
            inside = [self._at[a] for a in marginal if a in self._at]
            for i, j in itertools.combinations(inside, 2):
                weights[min(i, j), max(i, j)] += weight
            if len(inside) == 1:
                weights[inside[0], inside[0]] += weight
        self._i, self._j = np.nonzero(weights)
        self._weights = weights[self._i, self._j]
        entropy = np.array([known.entropy((a,)) for a in names])
        self._size = np.exp(entropy)  # how many values there are in effect
        self._explains = np.eye(d)  # [of, by]
        for a, b in known.pairs:
            i, j, shared = self._at[a], self._at[b], known.information((a, b))
            self._explains[i, j] = min(shared / entropy[i], 1.0) if entropy[i] > 1e-9 else 1.0
            self._explains[j, i] = min(shared / entropy[j], 1.0) if entropy[j] > 1e-9 else 1.0
        pairs = [
            (names[i], names[j]) if i != j else (names[i],) for i, j in zip(self._i, self._j, strict=True)
        ]
        self._whole = np.array([known.left(m, math.inf) for m in pairs])
        mains = np.where(self._i == self._j, 1.0, 0.0)
        cells = np.maximum(self._size[self._i] * self._size[self._j] - 1, 1e-9)
        self._main_i = np.where(mains > 0, 1.0, np.minimum((self._size[self._i] - 1) / cells, 0.5))
        self._main_j = np.where(mains > 0, 0.0, np.minimum((self._size[self._j] - 1) / cells, 0.5))
        varied = {a for a, size in zip(names, self._size, strict=True) if size > _CONSTANT}
        wide = sorted(
            (p for p in pairs if len(p) == 2 and set(p) <= varied), key=lambda p: -known.left(p, math.inf)
        )[:_PAIRS]
        self._candidates: list[Marginal] = [*((a,) for a in names), *wide]

    def _ratio(self, marginal: Marginal, variance: float) -> float:
        """Share of a marginal's variance that a measurement leaves."""
        whole = self._known.left(marginal, math.inf)
        return (self._known.left(marginal, variance) / whole) ** 2 if whole > 0 else 1.0

    def greedy(self, count: int, variance: float) -> tuple[float, list[Marginal]]:
        """The error that so many marginals leave, taken one by one, and which."""
        d = len(self._known.attributes)
        own = {m: self._ratio(m, variance) for m in self._candidates}
        # What a candidate leaves of each attribute's and each pair's variance.
        single = np.ones((len(self._candidates), d))
        joint = np.ones((len(self._candidates), len(self._i)))
        for k, m in enumerate(self._candidates):
            for a in m:
                others = math.prod(self._size[self._at[b]] for b in m if b != a)
                left = own[m] if len(m) == 1 else self._ratio((a,), variance * others)
                told = self._explains[:, self._at[a]]
                single[k] = np.minimum(single[k], 1 - told * (1 - left))
            if len(m) == 2:
                i, j = sorted(self._at[a] for a in m)
                joint[k, (self._i == i) & (self._j == j)] = own[m]
        attributes, pairs = np.ones(d), np.ones(len(self._i))
        chosen: list[int] = []
        error = math.inf
        for _ in range(min(count, len(self._candidates))):
            s, p = np.minimum(attributes, single), np.minimum(pairs, joint)
            errors = self._errors(s, p)
            errors[chosen] = math.inf
            k = int(np.argmin(errors))
            attributes, pairs, error = s[k], p[k], float(errors[k])
            chosen.append(k)
        return error, [self._candidates[k] for k in chosen]

    def _errors(self, single: Floats, joint: Floats) -> Floats:
        i, j = self._main_i, self._main_j
        variance = i * single[:, self._i] + j * single[:, self._j] + (1 - i - j) * joint
        errors: Floats = (np.sqrt(np.maximum(variance, 0.0)) * self._whole) @ self._weights
        return errors


def variances(unit: Unit, rho: float, noise: str, *, pure: bool) -> dict[int, float]:
    """The noise variance of each marginal when 1, 2, 3, … of them share a ρ that is measured with such noise; of ε,
    where the run is pure."""
    if noise == "gaussian":
        return {k: gaussian_sigma_squared(unit.l2_squared, rho / k) for k in _COUNTS}
    if pure:
        return {k: 2 * (k * unit.l1 / pure_epsilon(rho)) ** 2 for k in _COUNTS}
    return {k: 2 * laplace_scale(unit.l1, unit.cell, rho / k) ** 2 for k in _COUNTS}


def within(workload: Workload, attributes: Sequence[str], domain: Domain) -> Workload:
    """The workload seen from these attributes: its marginals without the others, their weights added."""
    kept: dict[tuple[str, ...], float] = {}
    for marginal, weight in zip(workload.marginals, workload.weights, strict=True):
        inside = tuple(a for a in marginal if a in attributes)
        if inside:
            kept[inside] = kept.get(inside, 0.0) + weight
    kept = kept or {(a,): 1.0 for a in attributes}
    return Workload(kept, list(kept.values())).on(domain.project(attributes))
