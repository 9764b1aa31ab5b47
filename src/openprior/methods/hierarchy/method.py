"""The hierarchical release: states first, then every area × year of a state, each group from what is above it.

Groups lie in levels, such as (STATE), then (PUMA, YEAR). On every level the groups' numbers of rows and a few marginals
are measured in all groups at once, and each group's distribution is bent to its measurements. The coarse levels have
many rows and correct what all their areas share; the finest has the last word. Which marginals to measure is decided on
public data (strategy.py). Every combination of key values that the schema has is a group, whether or not the private
table has rows there, so that which groups exist tells nothing.

Privacy: a marginal measured in all groups of a level is *one* marginal over the keys and its attributes, and one
person's rows lie in its cells as in any other: so the groups compose in parallel and the level is charged once, by the
curator's ordinary `measure`. Levels add up, and the shares of all levels are split from the budget beforehand, so along
any path from the coarsest level to a group the sum is at most the budget. The rest is post-processing. ∎
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from openprior.methods.base import Progress, check, mechanisms, need_public, one_of, option, register
from openprior.methods.hierarchy.group_priors import GroupPrior, group_priors
from openprior.methods.hierarchy.totals import refined, whole
from openprior.methods.hierarchy.tree import Tree, by_group
from openprior.methods.shared.strategy import Dependence, cliques, expected_best, roots, variances, within
from openprior.models.base import Model
from openprior.models.grouped import Group, GroupedModel
from openprior.models.relative_entropy import Partial, ide
from openprior.models.rounding import round_to_counts
from openprior.models.shrink import cell_numbers, pooled_trust, shrink
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import Counts, Total
from openprior.questions.workload import Marginal, Workload, canonical
from openprior.tables.encode import Table

__all__ = ["Hierarchy"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_JUDGED = 24
"""Groups of a level, those with the most public rows, that marginals are chosen by."""
_LEAF = 0.9
"""The finest level's share of the budget; the levels above share the rest."""


@register("hierarchy")
class Hierarchy:
    """Groups in levels, each bent from the level above to its own measurements."""

    name: ClassVar[str]
    good_for: ClassVar[str] = "many groups at once, such as areas × years, with public rows of earlier years"
    needs_public: ClassVar[bool] = True

    levels: tuple[tuple[str, ...], ...] = option(
        default=(),
        doc="keys of each level, coarsest first, e.g. STATE;PUMA,YEAR; the schema's hierarchy if not given",
    )
    updater: str = option(
        default="tilt", doc="tilt | ide, or the name of another mechanism to run inside every group"
    )
    choose: str = option(default="expected", doc="expected | published: how marginals are chosen")
    split: tuple[float, ...] = option(
        default=(),
        doc="a level's share of the budget each, or one number for equal shares; most for the finest if not given",
    )
    totals: float = option(default=0.05, doc="share of a level's budget that counts its groups' rows")
    own: bool = option(
        default=True, doc="start from the public rows of the group itself, where there are any"
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace")
    updates: int | None = option(
        default=None, doc="updates a marginal of ide, 2 as published; to convergence if not given"
    )

    def __post_init__(self) -> None:
        levels = tuple((level,) if isinstance(level, str) else tuple(level) for level in self.levels)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "split", tuple(float(s) for s in self.split))
        check(
            self.updater in ("tilt", "ide") or (self.updater in mechanisms() and self.updater != self.name),
            f"updater '{self.updater}' must be one of tilt, ide or another mechanism",
        )
        one_of("choose", self.choose, ("expected", "published"))
        one_of("noise", self.noise, ("gaussian", "laplace"))
        check(0 < self.totals < 1, f"totals ({self.totals}) must be between 0 and 1")
        check(all(0 < s < math.inf for s in self.split), "every level's split must be positive and finite")
        check(self.updates is None or self.updates >= 1, f"updates ({self.updates}) must be at least 1")

    @classmethod
    def published(cls, levels: Iterable[Iterable[str]] = ()) -> "Hierarchy":
        """As the paper has it: pure ε-DP with δ = 0, a quarter of ε for each of two totals and two workloads."""
        return cls(
            levels=tuple(tuple(level) for level in levels),
            updater="ide",
            choose="published",
            split=(1.0,),
            totals=0.5,
            own=False,
            noise="laplace",
            updates=2,
        )

    @property
    def is_pure(self) -> bool:
        """Whether δ = 0 can be promised."""
        return self.noise == "laplace" and self.updater in ("tilt", "ide")

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Model:
        """Public work, then level after level."""
        table = need_public(public, "hierarchy")
        tree = Tree(curator, self.levels)
        split = self._split(len(tree.levels))
        progress(0, 100, "learning from the public table")
        attributes = [a for a in curator.domain if a not in tree.keys]
        asked = within(workload, attributes, curator.domain)
        priors = group_priors(curator, tree.levels, tree.leaves, table, attributes, rng, own=self.own)
        n = float(curator.n) if curator.unit.n_is_public else float(table.n)
        chosen = [
            self._choose(curator, tree, level, priors, asked, split, n, rng)
            for level in range(len(tree.levels))
        ]
        curator.announce(
            canonical((*keys, *m), curator.layout.full_domain)
            for keys, wanted in zip(tree.levels, chosen, strict=True)
            for m in (*wanted, ())
            if (*keys, *m)
        )
        shares = iter(curator.shares(self._weights(tree, chosen, split, curator)))
        weights = [p.weights for p in priors]
        leaf_totals = np.zeros(0)
        for level, wanted in enumerate(chosen):
            totals, spread = self._count(curator, tree, level, shares)
            is_leaf = level == len(chosen) - 1
            if is_leaf and self.updater not in ("tilt", "ide"):
                return self._inside(
                    curator, tree, priors, weights, totals, asked, next(shares), rng, progress
                )
            measured = [
                curator.measure(Counts((*tree.levels[level], *m)), next(shares), noise=self.noise)
                for m in wanted
            ]
            values = [by_group(x, tree, level, m) for x, m in zip(measured, wanted, strict=True)]
            sigmas = [x.sigma for x in measured]
            if self.updater == "tilt":
                totals = refined(totals, spread, values, sigmas)
            if is_leaf:
                leaf_totals = whole(totals, curator, rng)
                totals = leaf_totals
            weights = self._bend(curator, tree, level, priors, weights, totals, wanted, values, sigmas, rng)
            progress(round(100 * (level + 1) / len(chosen)), 100, "budget spent")
        groups = [
            Group(codes, p.rows, w, float(t))
            for codes, p, w, t in zip(tree.leaves, priors, weights, leaf_totals, strict=True)
        ]
        return GroupedModel(curator.domain, tree.keys, groups, asked.marginals)

    # Before anything private is looked at.

    def _split(self, levels: int) -> list[float]:
        if self.split:
            shares = self.split * levels if len(self.split) == 1 else self.split
            check(
                len(shares) == levels,
                f"split has {len(shares)} numbers for {levels} levels; give one each",
            )
            return [s / sum(shares) for s in shares]
        return [1.0] if levels == 1 else [(1 - _LEAF) / (levels - 1)] * (levels - 1) + [_LEAF]

    def _choose(
        self,
        curator: Curator,
        tree: Tree,
        level: int,
        priors: list[GroupPrior],
        asked: Workload,
        split: list[float],
        n: float,
        rng: np.random.Generator,
    ) -> list[Marginal]:
        """The marginals of a level, by the public rows of its largest groups."""
        if level == len(tree.levels) - 1 and self.updater not in ("tilt", "ide"):
            return []
        public = np.array([p.public for p in priors], np.float64) + 1e-3
        sizes = np.bincount(tree.parents[level], weights=public, minlength=tree.counts[level])
        largest = np.argsort(-sizes, kind="stable")[:_JUDGED]
        tables = []
        for g in largest:
            rows, weights, _ = tree.union(level, g, priors)
            tables.append(rows.take(_resampled(weights, int(np.clip(sizes[g], 200, 4000)), rng)))
        known = Dependence.of(tables, n * sizes[largest] / sizes.sum(), rng)
        if self.choose == "published":
            return roots(known) if level == len(tree.levels) - 1 else cliques(known)
        share = (1 - self.totals) * split[level]
        rho = curator.remaining * share ** (2 if curator.is_pure else 1)
        return expected_best(known, asked, variances(curator, rho, self.noise))

    def _weights(
        self, tree: Tree, chosen: list[list[Marginal]], split: list[float], curator: Curator
    ) -> list[float]:
        """Shares of the budget in the order in which they are spent."""
        shares: list[float] = []
        for keys, wanted, share in zip(tree.levels, chosen, split, strict=True):
            counted = bool(keys) or not curator.unit.n_is_public
            totals = self.totals if counted else 0.0
            shares += [share * totals] * counted
            shares += [share * (1 - totals) / max(len(wanted), 1)] * max(len(wanted), 1)
        return shares

    # Through the curator.

    def _count(
        self, curator: Curator, tree: Tree, level: int, shares: Iterator[float]
    ) -> tuple[Floats, float]:
        """The number of rows of each group of a level, and the standard deviation of its noise."""
        keys = tree.levels[level]
        if keys:
            found = curator.measure(Counts(keys), next(shares), noise=self.noise)
            return by_group(found, tree, level, ())[:, 0], found.sigma
        if curator.unit.n_is_public:
            return np.array([float(curator.n)]), 0.0
        found = curator.measure(Total(), next(shares), noise=self.noise)
        return found.values, found.sigma

    def _bend(
        self,
        curator: Curator,
        tree: Tree,
        level: int,
        priors: list[GroupPrior],
        weights: list[Floats],
        totals: Floats,
        wanted: list[Marginal],
        values: list[Floats],
        sigmas: list[float],
        rng: np.random.Generator,
    ) -> list[Floats]:
        """Every leaf's weights after the level's groups were bent to their measurements."""
        seeds = np.random.SeedSequence(int(rng.integers(1 << 63))).spawn(tree.counts[level])
        unions = [tree.union(level, g, priors, weights) for g in range(tree.counts[level])]
        trusts = []
        if self.updater != "ide":
            for m, measured, sigma in zip(wanted, values, sigmas, strict=True):
                pairs = (
                    (v, _mass(rows, w, m, len(v)) * max(t, 1.0))
                    for v, (rows, w, _), t in zip(measured, unions, totals, strict=True)
                )
                trusts.append(pooled_trust(pairs, sigma))
        tasks = [
            _Task(
                rows,
                w,
                float(total),
                tuple(Measurement.of(m, v[g], s) for m, v, s in zip(wanted, values, sigmas, strict=True)),
                tuple(trusts),
                None if self.updates is None else self.updates * len(wanted),
                seeds[g],
                self.updater == "ide",
            )
            for g, ((rows, w, _), total) in enumerate(zip(unions, totals, strict=True))
        ]
        bent = list(weights)
        found = curator.executor.each(_bend_group, tasks)
        if self.updater == "ide":
            converged = sum(done for _, done in found)
            where = " × ".join(tree.levels[level]) or "all rows"
            curator.remark(f"IDE converged in {converged} of {len(found)} groups of {where}.")
        for (_, before, places), (after, _) in zip(unions, found, strict=True):
            if len(places) == 1:
                bent[places[0][0]] = after
                continue
            ratio = np.divide(after, before, out=np.zeros_like(before), where=before > 0)
            for leaf, start in places:
                own = weights[leaf] * ratio[start : start + len(weights[leaf])]
                if own.sum() > 0:
                    bent[leaf] = own / own.sum()
        return bent

    def _inside(
        self,
        curator: Curator,
        tree: Tree,
        priors: list[GroupPrior],
        weights: list[Floats],
        totals: Floats,
        asked: Workload,
        rho: float,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Model:
        """Another mechanism in every group: its public table are rows of the group's distribution so far."""
        mechanism = mechanisms()[self.updater]()
        counts = whole(totals, curator, rng)
        parts = curator.partition(tree.keys, rho=rho) if tree.keys else {(): curator}
        groups = []
        for i, (codes, part) in enumerate(parts.items()):
            rows = priors[i].rows.take(_resampled(weights[i], max(500, priors[i].public), rng))
            work = Workload(asked.marginals, asked.weights).on(part.domain)
            model = mechanism.run(part, rows, work, rng, _quiet)
            made = model.sample(max(200, 2 * int(counts[i])), rng)
            groups.append(Group(codes, made, np.full(made.n, 1 / made.n), float(counts[i])))
            progress(round(100 * (i + 1) / len(parts)), 100, "groups")
        return GroupedModel(curator.domain, tree.keys, groups, asked.marginals)


@dataclass(frozen=True, eq=False)
class _Task:
    """One group to bend: all that this takes, and nothing private."""

    rows: Table
    weights: Floats
    total: float
    measured: tuple[Measurement, ...]
    trusts: tuple[float, ...]
    updates: int | None
    seed: np.random.SeedSequence
    published: bool


def _bend_group(task: _Task) -> tuple[Floats, bool]:
    """The group's weights once bent, and whether that converged."""
    if not task.measured or task.total < 1:
        return task.weights, True
    if not task.published:
        return shrink(task.rows, task.weights, task.total, task.measured, task.trusts), True
    partials = [
        Partial(cell_numbers(task.rows, m.marginal), m.values / task.total, covers=True)
        for m in task.measured
    ]
    weights, report = ide(
        task.weights,
        partials,
        np.random.default_rng(task.seed),
        updates=task.updates,
        tolerance=1e-7,
        most_epochs=200,
    )
    return weights, report.converged


def _mass(rows: Table, weights: Floats, marginal: Marginal, cells: int) -> Floats:
    found: Floats = np.bincount(cell_numbers(rows, marginal), weights=weights, minlength=cells).astype(
        np.float64
    )
    return found


def _resampled(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    return np.repeat(np.arange(len(weights)), round_to_counts(weights, count, rng))


def _quiet(done: int, of: int, what: str) -> None:
    return None
