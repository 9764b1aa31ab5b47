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
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from openprior.errors import OptionError
from openprior.methods.base import (
    Mechanism,
    Outlay,
    PublicTable,
    Sizes,
    Tell,
    check,
    one_of,
    option,
    register,
)
from openprior.methods.hierarchy.bending import Groups
from openprior.methods.hierarchy.descent import Descent
from openprior.methods.hierarchy.group_priors import MOST_ROWS, group_priors
from openprior.methods.hierarchy.tree import Tree
from openprior.methods.shared.strategy import within
from openprior.models.base import Model
from openprior.privacy.curator import Curator
from openprior.privacy.unit import Unit
from openprior.progress import phase
from openprior.questions.workload import Workload
from openprior.tables.table import Table

__all__ = ["Hierarchy"]

_LEAF = 0.9
"""The finest level's share of the budget; the levels above share the rest."""


@register("hierarchy")
class Hierarchy(Mechanism):
    """Groups in levels, each bent from the level above to its own measurements."""

    good_for = "many groups at once, such as areas × years, with public rows of earlier years"
    public_table = PublicTable.NEEDED
    pure_options: ClassVar[Mapping[str, Any]] = {"noise": "laplace"}

    levels: tuple[tuple[str, ...], ...] = option(
        default=(),
        doc="keys of each level, coarsest first, e.g. STATE;PUMA,YEAR; the schema's hierarchy if not given",
    )
    update: str = option(
        default="shrink",
        doc="shrink: bend groups as far as the noise allows | ide: to meet the noisy answers",
    )
    inner: Mechanism | None = option(
        default=None,
        doc="another mechanism for the finest level, run inside every group, e.g. mst or jam-pgm:rounds=10",
    )
    choose: str = option(default="expected", doc="expected | published: how marginals are chosen")
    split: tuple[float, ...] = option(
        default=(),
        doc="each level's share of the budget, or one number for equal shares; most for the finest if not given",
    )
    totals: float = option(default=0.05, doc="share of a level's budget that counts its groups' rows")
    own: bool = option(
        default=True, doc="start from the public rows of the group itself, where there are any"
    )
    prior: str = option(
        default="smoothed",
        doc="smoothed: public rows and draws from networks fitted to them | empirical: all public rows as they are",
    )
    rounding: str = option(
        default="together",
        doc="together: numbers of rows become whole and keep their sum | each: group by group, as published",
    )
    noise: str = option(default="gaussian", doc="gaussian | laplace")
    updates: int | None = option(
        default=None, doc="updates per marginal of ide, 2 as published; to convergence if not given"
    )

    def __post_init__(self) -> None:
        one_of("update", self.update, ("shrink", "ide"))
        check(
            not isinstance(self.inner, Hierarchy),
            "a hierarchy cannot be inside a hierarchy; name all its levels in one",
        )
        if self.inner is not None:
            self.inner.check_unit(Unit().part())
        one_of("choose", self.choose, ("expected", "published"))
        one_of("prior", self.prior, ("smoothed", "empirical"))
        one_of("rounding", self.rounding, ("together", "each"))
        one_of("noise", self.noise, ("gaussian", "laplace"))
        check(0 < self.totals < 1, f"totals ({self.totals}) must be between 0 and 1")
        check(all(0 < s < math.inf for s in self.split), "every level's split must be positive and finite")
        check(self.updates is None or self.updates >= 1, f"updates ({self.updates}) must be at least 1")

    @classmethod
    def published(cls, levels: Iterable[Iterable[str]] = ()) -> "Hierarchy":
        """Algorithm 2: pure ε-DP with δ = 0, a quarter of ε for each of two totals and two workloads.

        Every group starts from the public table's own distribution. The paper's noise is that of the relation
        add-remove; under replace-one there is twice as much of it.
        """
        return cls(
            levels=levels,  # type: ignore[arg-type]  # which becomes one, or is refused
            update="ide",
            choose="published",
            split=(1.0,),
            totals=0.5,
            own=False,
            prior="empirical",
            rounding="each",
            noise="laplace",
            updates=2,
        )

    @property
    def is_pure(self) -> bool:
        """Laplace noise on all levels, and a mechanism inside that is pure itself."""
        return self.noise == "laplace" and (self.inner is None or self.inner.is_pure)

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Public work, then level after level."""
        table = self.need_public(public)
        tree = Tree(curator.layout, self.levels)
        split = self._split(len(tree.levels))
        asked = within(workload, tree.attributes, curator.domain)
        if self.inner is not None:
            self.inner.check_inside(curator.domain.project(tree.attributes), asked, curator.unit.part())
        empirical = self.prior == "empirical"
        priors = group_priors(tree, table, curator.executor, rng, own=self.own, empirical=empirical)
        groups = Groups(tree, priors, curator.executor)
        n = curator.n if curator.unit.n_is_public else None
        descent = Descent(self, curator, tree, groups, asked, split, n, rng, progress)
        with phase("choosing marginals by the public table", len(tree.levels)) as work:
            chosen, known = [], tree.inside(table)
            for level in range(len(tree.levels)):
                chosen.append(descent.choose(level, known))
                work.advance()
        return descent.run(chosen)

    def outlay(self, sizes: Sizes) -> Outlay | None:
        """Networks and weights for every group; a mechanism inside takes its own time in each, on top of this."""
        try:
            tree = Tree(sizes.layout, self.levels)
        except OptionError:
            return None
        groups, columns = len(tree.leaves), len(tree.attributes)
        rows = 0.05 + 2.5e-8 * sizes.rows * sizes.marginals + 0.02 * groups
        together = self.choose == "published" and not self.own
        judged = min(sizes.public_rows, 4000 * min(groups, 24))
        choosing = (
            (2e-9 * sizes.public_rows if together else 1.25e-7 * judged) * columns**2 * len(tree.levels)
        )
        if self.prior == "smoothed":
            networks = 2.6e-7 * columns**2 * min(sizes.public_rows, MOST_ROWS * groups)
            return Outlay(networks + choosing + rows, 30 + 0.5 * groups)
        held = sizes.public_rows * (1 if self.own else groups)  # without its own, a group has all public rows
        return Outlay(7.5e-9 * held * columns + choosing + rows, 30 + 0.5 * groups + 5e-6 * held)

    def _split(self, levels: int) -> list[float]:
        if self.split:
            shares = self.split * levels if len(self.split) == 1 else self.split
            check(
                len(shares) == levels,
                f"split has {len(shares)} numbers for {levels} levels; give one each",
            )
            return [s / sum(shares) for s in shares]
        return [1.0] if levels == 1 else [(1 - _LEAF) / (levels - 1)] * (levels - 1) + [_LEAF]
