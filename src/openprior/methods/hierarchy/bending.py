"""Every leaf's distribution on its way down the levels: public rows with weights, bent to what was measured.

A group of a coarse level is the union of its leaves' rows; once it is bent, its leaves are bent by the same ratios. All
of this is post-processing of released numbers on public rows, group by group, so it may run anywhere and side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import cell_numbers
from openprior.counting.engine import Executor
from openprior.methods.hierarchy.group_priors import GroupPrior
from openprior.methods.hierarchy.tree import Tree
from openprior.methods.shared.dependence import Dependence
from openprior.models.relative_entropy import Partial, ide
from openprior.models.rounding import round_to_counts
from openprior.models.shrink import pooled_trust, shrink
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal
from openprior.tables.table import Table, join

__all__ = ["Groups", "LevelMarginal"]

Floats = NDArray[np.float64]

_JUDGED = 24
"""Groups of a level, those with the most public rows, that marginals are chosen by."""


@dataclass(frozen=True, eq=False)
class LevelMarginal:
    """A marginal that was measured in every group of a level: noisy counts as [group, cell], and their σ."""

    marginal: Marginal
    values: Floats
    sigma: float


@dataclass(frozen=True, eq=False)
class _Union:
    """The rows of a group's leaves with weights that sum to 1, and the row at which each leaf's begin."""

    rows: Table
    weights: Floats
    leaves: list[tuple[int, int]]
    alike: bool = False
    """Whether all leaves have the same distribution, so that what the group becomes is what each of them becomes."""


class Groups:
    """The rows of every leaf, and their weights so far."""

    def __init__(self, tree: Tree, priors: Sequence[GroupPrior], executor: Executor) -> None:
        self._tree, self._priors, self._executor = tree, priors, executor
        self._rows: list[Table] = [p.rows for p in priors]
        self._public = np.array([p.public for p in priors], np.float64) + 1e-3
        self.weights: list[Floats] = [p.weights for p in priors]

    def rows(self, leaf: int) -> Table:
        """The rows that a leaf's weights are on."""
        return self._rows[leaf]

    def table(self, leaf: int, rng: np.random.Generator) -> Table:
        """A leaf's distribution as a table of about as many rows as the public table has of it."""
        count = max(500, self._priors[leaf].public)
        return _resampled(self.rows(leaf), self.weights[leaf], count, rng)

    def dependence(self, level: int, n: float, rng: np.random.Generator) -> Dependence:
        """What the largest groups of a level say of their attributes, if there are n private rows in all."""
        sizes = np.bincount(
            self._tree.parents[level], weights=self._public, minlength=self._tree.counts[level]
        )
        largest = np.argsort(-sizes, kind="stable")[:_JUDGED]
        tables = []
        for group in largest:
            union = self._union(level, group)
            count = int(np.clip(sizes[group], 200, 4000))
            tables.append(_resampled(union.rows, union.weights, count, rng))
        return Dependence.of(tables, n * sizes[largest] / sizes.sum(), rng)

    def shrink(
        self, level: int, totals: Floats, measured: Sequence[LevelMarginal], rng: np.random.Generator
    ) -> None:
        """Bend a level's groups towards their measurements, as far as the noise and the trust of all groups say."""
        unions = self._unions(level)
        trusts = []
        for m in measured:
            pairs = (
                (values, _mass(u.rows, u.weights, m.marginal, len(values)) * max(total, 1.0))
                for values, u, total in zip(m.values, unions, totals, strict=True)
            )
            trusts.append(pooled_trust(pairs, m.sigma))
        self._bend(unions, _tasks(unions, totals, measured, rng, trusts=tuple(trusts)))

    def meet(
        self,
        level: int,
        totals: Floats,
        measured: Sequence[LevelMarginal],
        rng: np.random.Generator,
        *,
        updates: int | None,
        thin: bool = False,
    ) -> int:
        """Bend a level's groups to their measurements by IDE; in how many groups that converged.

        With `thin`, for the finest level only, rows that are left without mass are left out of a leaf.
        """
        unions = self._unions(level)
        most = None if updates is None else updates * len(measured)
        return self._bend(unions, _tasks(unions, totals, measured, rng, updates=most, thin=thin))

    def _unions(self, level: int) -> list[_Union]:
        return [self._union(level, group) for group in range(self._tree.counts[level])]

    def _union(self, level: int, group: int) -> _Union:
        """The rows of all leaves of a group, each leaf with its share of the public rows; leaves that share a prior
        table share its rows here too."""
        leaves = self._tree.members[level][group]
        if len(leaves) and len({(id(self.rows(leaf)), id(self.weights[leaf])) for leaf in leaves}) == 1:
            places = [(int(leaf), 0) for leaf in leaves]
            return _Union(self.rows(leaves[0]), self.weights[leaves[0]], places, alike=True)
        shares = self._public[leaves]
        shares = shares / shares.sum() if len(leaves) else shares
        starts: dict[int, int] = {}
        tables: list[Table] = []
        places = []
        end = 0
        for leaf in leaves:
            rows = self.rows(leaf)
            if id(rows) not in starts:
                starts[id(rows)] = end
                tables.append(rows)
                end += rows.n
            places.append((int(leaf), starts[id(rows)]))
        if not tables:  # a combination of levels that no column codes belong to
            return _Union(self._priors[0].rows, self._priors[0].weights, [])
        mass = np.zeros(end)
        for (leaf, start), share in zip(places, shares, strict=True):
            own = self.weights[leaf]
            mass[start : start + len(own)] += share * own
        return _Union(join(tables), mass / mass.sum(), places)

    def _bend(self, unions: Sequence[_Union], tasks: "list[_Task]") -> int:
        """Take over what bending the unions gave; how many converged."""
        bent = self._executor.each(_bend_group, tasks)
        before = list(self.weights)
        for union, (after, held, _) in zip(unions, bent, strict=True):
            if union.alike:
                rows = union.rows if held is None else union.rows.take(held)
                for leaf, _ in union.leaves:
                    self._rows[leaf], self.weights[leaf] = rows, after
                continue
            ratio = np.divide(after, union.weights, out=np.zeros_like(after), where=union.weights > 0)
            for leaf, start in union.leaves:
                own = before[leaf] * ratio[start : start + len(before[leaf])]
                if own.sum() > 0:
                    self.weights[leaf] = own / own.sum()
        return sum(converged for *_, converged in bent)


@dataclass(frozen=True, eq=False)
class _Task:
    """One group to bend: all that this takes, and nothing private."""

    union: _Union
    total: float
    measured: tuple[Measurement, ...]
    seed: np.random.SeedSequence
    trusts: tuple[float, ...] | None = None
    """To shrink each measurement with; None to meet them by IDE."""
    updates: int | None = None
    thin: bool = False


def _tasks(
    unions: Sequence[_Union],
    totals: Floats,
    measured: Sequence[LevelMarginal],
    rng: np.random.Generator,
    *,
    trusts: tuple[float, ...] | None = None,
    updates: int | None = None,
    thin: bool = False,
) -> list[_Task]:
    seeds = np.random.SeedSequence(int(rng.integers(1 << 63))).spawn(len(unions))
    return [
        _Task(
            union,
            float(total),
            tuple(Measurement.of(m.marginal, m.values[group], m.sigma) for m in measured),
            seeds[group],
            trusts,
            updates,
            thin and union.alike,
        )
        for group, (union, total) in enumerate(zip(unions, totals, strict=True))
    ]


def _bend_group(task: _Task) -> tuple[Floats, NDArray[np.intp] | None, bool]:
    """The group's weights once bent, which rows they are on if not on all, and whether that converged."""
    weights, converged = _bent(task)
    if not task.thin:
        return weights, None, converged
    held = np.flatnonzero(weights)
    return weights[held], held, converged


def _bent(task: _Task) -> tuple[Floats, bool]:
    rows, weights = task.union.rows, task.union.weights
    if not task.measured or task.total < 1:
        return weights, True
    if task.trusts is not None:
        return shrink(rows, weights, task.total, task.measured, task.trusts), True
    partials = [
        Partial(cell_numbers(rows, m.marginal), m.values / task.total, covers=True) for m in task.measured
    ]
    bent, report = ide(
        weights,
        partials,
        np.random.default_rng(task.seed),
        updates=task.updates,
        tolerance=1e-7,
        most_epochs=200,
    )
    return bent, report.converged


def _mass(rows: Table, weights: Floats, marginal: Marginal, cells: int) -> Floats:
    mass: Floats = np.bincount(cell_numbers(rows, marginal), weights=weights, minlength=cells).astype(
        np.float64
    )
    return mass


def _resampled(rows: Table, weights: Floats, count: int, rng: np.random.Generator) -> Table:
    """So many rows, as often as their weights say."""
    return rows.take(np.repeat(np.arange(len(weights)), round_to_counts(weights, count, rng)))
