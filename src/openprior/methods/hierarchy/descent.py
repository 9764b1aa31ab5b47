"""One run of a hierarchy, down the levels: what is measured, and what it costs.

Of the hierarchy only this file asks the curator. On each level the groups' numbers of rows are counted, then the chosen
marginals in all groups at once; what is made of them (bending.py, totals.py) is post-processing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openprior.methods.base import Mechanism, Tell
from openprior.methods.hierarchy.bending import Groups, LevelMarginal
from openprior.methods.hierarchy.totals import refined, whole, whole_each
from openprior.methods.hierarchy.tree import Tree
from openprior.methods.shared.dependence import Dependence
from openprior.methods.shared.strategy import cliques, expected_best, roots, variances
from openprior.models.base import Model
from openprior.models.grouped import Group, GroupedModel
from openprior.privacy.curator import Curator
from openprior.privacy.statistics import Counts, Total
from openprior.progress import hushed, phase, telling
from openprior.questions.workload import Marginal, Workload, canonical
from openprior.tables.table import Table

if TYPE_CHECKING:
    from openprior.methods.hierarchy.method import Hierarchy

__all__ = ["Descent"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Descent:
    """One run: all that it holds on its way down the levels."""

    how: "Hierarchy"
    curator: Curator
    tree: Tree
    groups: Groups
    asked: Workload
    split: list[float]
    n: int | None
    """The number of rows, where it is public."""
    rng: np.random.Generator
    progress: Tell

    def choose(self, level: int, public: Table) -> list[Marginal]:
        """The marginals of a level, by the public rows of its largest groups; nothing private is looked at.

        As published, and where no group starts from its own rows, by all public rows together.
        """
        if self._is_last(level) and self.how.inner is not None:
            return []
        n = float(public.n if self.n is None else self.n)
        if self.how.choose == "published":
            known = (
                self.groups.dependence(level, n, self.rng)
                if self.how.own
                else Dependence.of([public], [n], self.rng, most=None)
            )
            return roots(known) if self._is_last(level) else cliques(known)
        known = self.groups.dependence(level, n, self.rng)
        pure = self.curator.is_pure
        share = (1 - self.how.totals) * self.split[level]
        rho = self.curator.shares([share, 1 - share])[0]
        variance_of = variances(self.curator.unit, rho, self.how.noise, pure=pure)
        return expected_best(known, self.asked, variance_of)

    def run(self, chosen: list[list[Marginal]]) -> Model:
        """Level after level: count, measure, bend."""
        self._announce(chosen)
        shares = iter(self.curator.shares(self._weights(chosen)))
        totals = np.zeros(0)
        for level, marginals in enumerate(chosen):
            totals, sigma = self._count(level, shares)
            if self._is_last(level) and self.how.inner is not None:
                return self._run_inside(self.how.inner, self._whole(totals), next(shares))
            measured = []
            with phase(f"measuring, level {level + 1} of {len(chosen)}", len(marginals)) as work:
                for m in marginals:
                    measured.append(self._measure(level, m, next(shares)))
                    work.advance()
            # With a mechanism inside, totals above the finest level only scale the bending: they stay as counted.
            if self.how.update == "shrink" and self.how.inner is None:
                totals = refined(totals, sigma, [(m.values, m.sigma) for m in measured])
            if self._is_last(level):
                totals = self._whole(totals)
            elif self.how.rounding == "each":
                totals = whole_each(totals)
            with phase(f"estimating, level {level + 1} of {len(chosen)}", self.tree.counts[level]):
                self._bend(level, totals, measured)
        return self._model(
            Group(codes, self.groups.rows(leaf), self.groups.weights[leaf], float(totals[leaf]))
            for leaf, codes in enumerate(self.tree.leaves)
        )

    def _whole(self, totals: Floats) -> Floats:
        """The finest level's numbers of rows, as they are released."""
        if self.how.rounding == "together":
            return whole(totals, self.n, self.rng)
        rows = whole_each(totals)
        if not rows.any():
            rows[int(np.argmax(totals))] = 1.0
            self.curator.remark("Every group's noisy number of rows was below 1; one row stands for all.")
        return rows

    def _is_last(self, level: int) -> bool:
        return level == len(self.tree.levels) - 1

    def _announce(self, chosen: list[list[Marginal]]) -> None:
        self.curator.announce(
            canonical((*keys, *m), self.curator.layout.full_domain)
            for keys, marginals in zip(self.tree.levels, chosen, strict=True)
            for m in (*marginals, ())
            if (*keys, *m)
        )

    def _weights(self, chosen: list[list[Marginal]]) -> list[float]:
        """Shares of the budget in the order in which they are spent."""
        weights: list[float] = []
        for keys, marginals, share in zip(self.tree.levels, chosen, self.split, strict=True):
            counted = bool(keys) or self.n is None
            totals = self.how.totals if counted else 0.0
            weights += [share * totals] * counted
            weights += [share * (1 - totals) / max(len(marginals), 1)] * max(len(marginals), 1)
        return weights

    def _count(self, level: int, shares: Iterator[float]) -> tuple[Floats, float]:
        """The number of rows of each group of a level, and the standard deviation of its noise."""
        keys = self.tree.levels[level]
        if keys:
            counts = self._measure(level, (), next(shares))
            return counts.values[:, 0], counts.sigma
        if self.n is not None:
            return np.array([float(self.n)]), 0.0
        total = self.curator.measure(Total(), next(shares), noise=self.how.noise)
        return total.values, total.sigma

    def _measure(self, level: int, marginal: Marginal, rho: float) -> LevelMarginal:
        """A marginal in every group of a level at once."""
        keys = self.tree.levels[level]
        measured = self.curator.measure(Counts((*keys, *marginal)), rho, noise=self.how.noise)
        values = self.tree.by_group(measured.values, measured.marginal, level, marginal)
        return LevelMarginal(marginal, values, measured.sigma)

    def _bend(self, level: int, totals: Floats, measured: list[LevelMarginal]) -> None:
        if self.how.update == "shrink":
            self.groups.shrink(level, totals, measured, self.rng)
            return
        thin = self.how.prior == "empirical" and self._is_last(
            level
        )  # every group began with all public rows
        converged = self.groups.meet(level, totals, measured, self.rng, updates=self.how.updates, thin=thin)
        where = " × ".join(self.tree.levels[level]) or "all rows"
        self.curator.remark(f"IDE converged in {converged} of {self.tree.counts[level]} groups of {where}.")

    def _run_inside(self, inner: Mechanism, totals: Floats, rho: float) -> Model:
        """Another mechanism in every leaf: its public table are rows of the leaf's distribution so far."""
        keys = self.tree.keys
        parts = self.curator.partition(keys, rho=rho) if keys else {(): self.curator}
        groups = []
        self.progress(0, len(parts), f"{inner.name} in every group")
        for leaf, (codes, part) in enumerate(parts.items()):
            rows = self.groups.table(leaf, self.rng)
            work = Workload(self.asked.marginals, self.asked.weights).on(part.domain)
            with hushed(), telling() as progress:
                model = inner.run(part, rows, work, self.rng, progress)
                drawn = model.sample(max(200, 2 * int(totals[leaf])), self.rng)
            groups.append(Group(codes, drawn, np.full(drawn.n, 1 / drawn.n), float(totals[leaf])))
            self.progress(leaf + 1, len(parts), f"{inner.name} in every group")
        return self._model(groups)

    def _model(self, groups: Iterable[Group]) -> GroupedModel:
        return GroupedModel(self.curator.domain, self.tree.keys, list(groups), self.asked.marginals)
